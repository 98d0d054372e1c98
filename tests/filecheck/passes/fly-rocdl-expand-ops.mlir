// RUN: %fly-opt --fly-rocdl-expand-ops --split-input-file %s | FileCheck %s
// RUN: %fly-opt --pass-pipeline='builtin.module(fly-rewrite-func-signature,fly-canonicalize,fly-rocdl-expand-ops,fly-layout-lowering,convert-fly-to-rocdl)' --split-input-file %s | FileCheck %s --check-prefix=LOW

!tensor = !fly.memref<f16, global, (?,?):(?,1)>
!shared = !fly.memref<f16, shared, (64,32):(40,1)>
!load = !fly.copy_atom<!fly_rocdl.cdna5.tensor_load<shape = [64, 32], elem = f16, tensor2tdm = (1E0,1E1), padInterval = 32, padAmount = 8>, 16>

// The coordinates of a copy are a place in memory and what is left of the tensor from there.
// CHECK-LABEL: gpu.func @load
// LOW-LABEL: gpu.func @load
gpu.module @m {
  gpu.func @load(%t: !tensor, %s: !fly.layout<(64,32):(40,1)>, %k: !fly.tile<[64|32]>, %d: !shared, %x: i32, %mask: i32) kernel {
    // CHECK: %[[L:.*]] = fly.get_layout(%t)
    // CHECK: %[[SHAPE:.*]] = fly.get_shape(%[[L]])
    // CHECK: %[[N:.*]]:2 = fly.get_leaves(%[[SHAPE]]) {dynamicOnly = true} : (!fly.int_tuple<(?,?)>) -> (i32, i32)
    // CHECK: %[[PITCH:.*]] = fly.get_leaves(%{{.*}}) {dynamicOnly = true} : (!fly.int_tuple<(?,1)>) -> i32
    // CHECK: %[[P:.*]] = fly.get_iter(%t)
    // CHECK: %[[FRESH:.*]] = fly.make_copy_atom {valBits = 16 : i32} : !fly.copy_atom<!fly_rocdl.cdna5.tensor_load<
    // CHECK: %[[WIDE:.*]] = arith.extsi %[[PITCH]] : i32 to i64
    // CHECK: %[[ATOM:.*]] = fly.atom.set_value(%[[FRESH]], "stride_0", %[[WIDE]])
    // CHECK: fly.make_view(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(0,0)>, !fly.layout<(?,?):(1E1,1E0)>) -> !fly.coord_tensor<(0,0), (?,?):(1E1,1E0)>
    %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !tensor, !fly.layout<(64,32):(40,1)>, !fly.tile<[64|32]>
    %at = fly.make_int_tuple(%x) : (i32) -> !fly.int_tuple<(32,?)>
    %shape = fly.make_int_tuple() : () -> !fly.int_tuple<(64,32)>
    %axes = fly.make_int_tuple() : () -> !fly.int_tuple<(1E1,1E0)>
    %l = fly.make_layout(%shape, %axes) : (!fly.int_tuple<(64,32)>, !fly.int_tuple<(1E1,1E0)>) -> !fly.layout<(64,32):(1E1,1E0)>
    %v = fly.make_view(%at, %l) : (!fly.int_tuple<(32,?)>, !fly.layout<(64,32):(1E1,1E0)>) -> !fly.coord_tensor<(32,?), (64,32):(1E1,1E0)>
    // CHECK: %[[MASKED:.*]] = fly.atom.set_value(%[[ATOM]], "workgroup_mask", %mask)
    %b = fly.atom.set_value(%a, "workgroup_mask", %mask) : (!load, i32) -> !load
    // CHECK: %[[C32:.*]] = arith.constant 32 : i32
    // CHECK: %[[LEFT:.*]] = arith.subi %[[N]]#1, %[[C32]] : i32
    // CHECK: fly.atom.set_value(%[[MASKED]], "extent_1", %[[LEFT]])
    // CHECK: fly.atom.set_value(%{{.*}}, "extent_0", %{{.*}})
    // CHECK: fly.crd2idx(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(32,?)>, !fly.layout<(32,64):(1,?)>)
    // CHECK: fly.add_offset(%[[P]], %{{.*}})
    // CHECK: fly.copy(%{{.*}}, %{{.*}}, %d) : (!fly.copy_atom<!fly_rocdl.cdna5.tensor_load<{{.*}}>, 16>, !fly.memref<f16, global, (64,32):(?,1)>, !fly.memref<f16, shared, (64,32):(40,1)>) -> ()
    // CHECK-NOT: make_tiled_tdm
    // LOW: llvm.call_intrinsic "llvm.amdgcn.tensor.load.to.lds.d2"
    fly.copy(%b, %v, %d) : (!load, !fly.coord_tensor<(32,?), (64,32):(1E1,1E0)>, !shared) -> ()
    gpu.return
  }
}

// -----

!tensor = !fly.memref<f32, global, (256,128):(128,1)>
!shared = !fly.memref<f32, shared, (16,128):(128,1)>
!store = !fly.copy_atom<!fly_rocdl.cdna5.tensor_store<shape = [2048], elem = f32, tensor2tdm = (128E0,1E0), atomicBarrier = true>, 32>

// Rows that follow each other in memory are one dimension; no limits where no check was asked for.
// CHECK-LABEL: gpu.func @store
// LOW-LABEL: gpu.func @store
gpu.module @m {
  gpu.func @store(%t: !tensor, %s: !fly.layout<(16,128):(128,1)>, %k: !fly.tile<[16|128]>, %d: !shared, %barrier: i32) kernel {
    %a, %c = fly_rocdl.make_tiled_tdm_store_atom %t, %s, %k {initBoundaryCheck = false, atomicBarrier = true} : !tensor, !fly.layout<(16,128):(128,1)>, !fly.tile<[16|128]>
    // CHECK-NOT: extent
    // CHECK: fly.atom.set_value(%{{.*}}, "atomic_barrier_addr", %barrier)
    // CHECK: fly.copy_atom_call(%{{.*}}, %d, %{{.*}}) : (!fly.copy_atom<!fly_rocdl.cdna5.tensor_store<{{.*}}>, 32>, !fly.memref<f32, shared, (16,128):(128,1)>, !fly.memref<f32, global, (2048):(1)>) -> ()
    %b = fly.atom.set_value(%a, "atomic_barrier_addr", %barrier) : (!store, i32) -> !store
    // LOW: %[[LOW:.*]] = arith.andi %barrier, %{{.*}} : i32
    // LOW: llvm.call_intrinsic "llvm.amdgcn.tensor.store.from.lds.d2"
    fly.copy_atom_call(%b, %d, %c) : (!store, !shared, !fly.coord_tensor<(0), (256,128):(128E0,1E0)>) -> ()
    // With the check asked for in place of the option: 256 rows of 128, and a time-out.
    %axes = fly.make_int_tuple() : () -> !fly.int_tuple<(1)>
    %e = fly.atom.set_value(%a, "boundary_check_axes", %axes) : (!store, !fly.int_tuple<(1)>) -> !store
    %f = fly.atom.set_value(%e, "early_timeout", %barrier) : (!store, i32) -> !store
    // CHECK: fly.atom.set_value(%{{.*}}, "early_timeout", %barrier)
    // CHECK: %[[ALL:.*]] = arith.constant 32768 : i32
    // CHECK: fly.atom.set_value(%{{.*}}, "extent_0", %[[ALL]])
    // LOW: arith.cmpi ne, %barrier
    // LOW: llvm.call_intrinsic "llvm.amdgcn.tensor.store.from.lds.d2"
    fly.copy_atom_call(%f, %d, %c) : (!store, !shared, !fly.coord_tensor<(0), (256,128):(128E0,1E0)>) -> ()
    gpu.return
  }
}

// -----

// Nothing of it: nothing happens.
// CHECK-LABEL: func.func @other
// CHECK-NEXT: arith.addi %a, %a : i32
func.func @other(%a: i32) -> i32 {
  %0 = arith.addi %a, %a : i32
  func.return %0 : i32
}

// -----

!tensor = !fly.memref<f16, global, (256,128):(128,1)>
!shared = !fly.memref<f16, shared, (64,32):(32,1)>
!load = !fly.copy_atom<!fly_rocdl.cdna5.tensor_load<shape = [64, 32], elem = f16, tensor2tdm = (1E0,1E1)>, 16>
!at = !fly.coord_tensor<(32,64), (64,32):(1E1,1E0)>

// What is checked, by the modes of the tensor and by the dimensions, outermost first: here the rows alone.
// CHECK-LABEL: gpu.func @checked
// CHECK: arith.constant 192 : i32
// CHECK-NOT: extent_1
// CHECK: fly.atom.set_value(%{{.*}}, "extent_0", %{{.*}})
// CHECK-NOT: extent_1
// CHECK: fly.copy
// CHECK: arith.constant 192 : i32
// CHECK-NOT: extent_1
// CHECK: fly.atom.set_value(%{{.*}}, "extent_0", %{{.*}})
// CHECK-NOT: extent_1
// CHECK: fly.copy
gpu.module @m {
  gpu.func @checked(%t: !tensor, %s: !fly.layout<(64,32):(32,1)>, %k: !fly.tile<[64|32]>, %d: !shared, %v: !at) kernel {
    %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !tensor, !fly.layout<(64,32):(32,1)>, !fly.tile<[64|32]>
    %rows = fly.make_int_tuple() : () -> !fly.int_tuple<(1,0)>
    %modes = fly.atom.set_value(%a, "boundary_check", %rows) : (!load, !fly.int_tuple<(1,0)>) -> !load
    %dims = fly.atom.set_value(%a, "boundary_check_axes", %rows) : (!load, !fly.int_tuple<(1,0)>) -> !load
    fly.copy(%modes, %v, %d) : (!load, !at, !shared) -> ()
    fly.copy(%dims, %v, %d) : (!load, !at, !shared) -> ()
    gpu.return
  }
}
