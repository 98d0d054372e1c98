// RUN: %fly-opt --fly-canonicalize --allow-unregistered-dialect %s | FileCheck %s

!copy = !fly.copy_atom<!fly.universal_copy<32>, 32>
!mma = !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
!tiled = !fly.tiled_copy<!copy, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>
!tiledmma = !fly.tiled_mma<!mma, !fly.layout<(2,2,1):(1,2,0)>, !fly.tile<[4|4|*]>>
!stateful = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>

// CHECK-LABEL: func.func @folds(%x: i32)
func.func @folds(%x: i32) {
  %t = fly.static : !fly.layout<(4,8):(8,1)>
  %n = fly.size(%t) : (!fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<32>
  %s = fly.make_shape(%x) : (i32) -> !fly.int_tuple<(?,8)>
  // CHECK-NEXT: %[[N:.*]] = fly.make_int_tuple() : () -> !fly.int_tuple<32>
  // CHECK-NEXT: %[[S:.*]] = fly.make_int_tuple(%x) : (i32) -> !fly.int_tuple<(?,8)>
  // CHECK-NEXT: "test.use"(%[[N]], %[[S]])
  "test.use"(%n, %s) : (!fly.int_tuple<32>, !fly.int_tuple<(?,8)>) -> ()
  %d = fly.make_stride(%x) {note = "kept"} : (i32) -> !fly.int_tuple<(?,1)>
  %k = fly.make_coord(%x) : (i32) -> !fly.int_tuple<(*,?)>
  // CHECK-NEXT: %[[D:.*]] = fly.make_int_tuple(%x) {note = "kept"} : (i32) -> !fly.int_tuple<(?,1)>
  // CHECK-NEXT: %[[K:.*]] = fly.make_int_tuple(%x) : (i32) -> !fly.int_tuple<(*,?)>
  // CHECK-NEXT: "test.use"(%[[D]], %[[K]])
  "test.use"(%d, %k) : (!fly.int_tuple<(?,1)>, !fly.int_tuple<(*,?)>) -> ()
  func.return
}
// CHECK-LABEL: func.func @normal_forms(
func.func @normal_forms(%c: !fly.coord_tensor<(0,0), (4,8):(1E0,1E1)>, %x: i32) {
  // CHECK-NEXT: %[[S:.*]] = fly.make_int_tuple() : () -> !fly.int_tuple<(4,8)>
  // CHECK-NEXT: %[[D:.*]] = fly.make_int_tuple() : () -> !fly.int_tuple<(8,1)>
  // CHECK-NEXT: %[[L:.*]] = fly.make_layout(%[[S]], %[[D]])
  %l = fly.static : !fly.layout<(4,8):(8,1)>
  // CHECK-NEXT: %[[SW:.*]] = fly.static : !fly.swizzle<S<3,4,3>>
  // CHECK-NEXT: %[[O:.*]] = fly.make_int_tuple() : () -> !fly.int_tuple<0>
  // CHECK-NEXT: %[[C:.*]] = fly.make_composed_layout(%[[SW]], %[[O]], %[[L]])
  %o = fly.static : !fly.composed_layout<S<3,4,3> o 0 o (4,8):(8,1)>
  // CHECK-NEXT: %[[Z:.*]] = fly.make_int_tuple() : () -> !fly.int_tuple<(0,0)>
  // CHECK-NEXT: %[[E:.*]] = fly.make_int_tuple() : () -> !fly.int_tuple<(1E0,1E1)>
  // CHECK-NEXT: %[[I:.*]] = fly.make_layout(%[[S]], %[[E]])
  // CHECK-NEXT: %[[T:.*]] = fly.make_view(%[[Z]], %[[I]])
  %v = fly.static : !fly.coord_tensor<(0,0), (4,8):(1E0,1E1)>
  // CHECK-NEXT: %[[A:.*]] = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 32>
  %a = fly.static : !copy
  // CHECK-NEXT: %[[MA:.*]] = fly.make_mma_atom : !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
  %m = "test.any"() : () -> !mma
  // CHECK: %[[TILE:.*]] = fly.static : !fly.tile<[4]>
  // CHECK-NEXT: %[[TC:.*]] = fly.make_tiled_copy(%[[A]], %{{.*}}, %[[TILE]])
  %tc = fly.static : !tiled
  // CHECK: %[[TM:.*]] = fly.make_tiled_mma(%[[MA]], %{{.*}}, %{{.*}})
  %tm = fly.static : !tiledmma
  // Tiles and swizzles have no other form; atoms with state and dynamic values are not static.
  // CHECK-NEXT: %[[W:.*]] = "test.any"() : () -> !fly.tile<[2|2]>
  %w = "test.any"() : () -> !fly.tile<[2|2]>
  // CHECK-NEXT: %[[SA:.*]] = "test.any"() : () -> !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>
  %sa = "test.any"() : () -> !stateful
  // CHECK-NEXT: "test.use"(%[[L]], %[[C]], %[[T]], %[[A]], %[[MA]], %[[TC]], %[[TM]], %[[W]], %[[SA]])
  "test.use"(%l, %o, %v, %a, %m, %tc, %tm, %w, %sa) : (!fly.layout<(4,8):(8,1)>, !fly.composed_layout<S<3,4,3> o 0 o (4,8):(8,1)>, !fly.coord_tensor<(0,0), (4,8):(1E0,1E1)>, !copy, !mma, !tiled, !tiledmma, !fly.tile<[2|2]>, !stateful) -> ()
  func.return
}
