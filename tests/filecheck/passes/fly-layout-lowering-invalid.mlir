// RUN: %fly-opt --fly-layout-lowering --verify-diagnostics --split-input-file --allow-unregistered-dialect %s

func.func @argument(%t: !fly.int_tuple<(?,2)>) {
  // expected-error @below {{!fly.int_tuple<(?,2)> is not in normal form; run fly-rewrite-func-signature first}}
  %s = fly.size(%t) : (!fly.int_tuple<(?,2)>) -> !fly.int_tuple<?{div=2}>
  "test.use"(%s) : (!fly.int_tuple<?{div=2}>) -> ()
  func.return
}
// -----
func.func @rest(%p: !fly.ptr<f32, global>, %n: i32) {
  %s = fly.make_int_tuple(%n) : (i32) -> !fly.int_tuple<(1,?)>
  %d = fly.make_int_tuple() : () -> !fly.int_tuple<(0,1)>
  %l = fly.make_layout(%s, %d) : (!fly.int_tuple<(1,?)>, !fly.int_tuple<(0,1)>) -> !fly.layout<(1,?):(0,1)>
  %v = fly.make_view(%p, %l) : (!fly.ptr<f32, global>, !fly.layout<(1,?):(0,1)>) -> !fly.memref<f32, global, (1,?):(0,1)>
  %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 32>
  // expected-error @below {{restSize is not static}}
  fly.copy(%a, %v, %v) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, global, (1,?):(0,1)>, !fly.memref<f32, global, (1,?):(0,1)>) -> ()
  func.return
}
// -----
func.func @predicate(%p: !fly.ptr<f32, global>, %q: !fly.ptr<i1, register>) {
  %l = fly.static : !fly.layout<(1,2,2):(0,1,2)>
  %pl = fly.static : !fly.layout<2:1>
  %v = fly.make_view(%p, %l) : (!fly.ptr<f32, global>, !fly.layout<(1,2,2):(0,1,2)>) -> !fly.memref<f32, global, (1,2,2):(0,1,2)>
  %pv = fly.make_view(%q, %pl) : (!fly.ptr<i1, register>, !fly.layout<2:1>) -> !fly.memref<i1, register, 2:1>
  %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 32>
  // expected-error @below {{pred rank mismatch}}
  fly.copy(%a, %v, %v, %pv) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, global, (1,2,2):(0,1,2)>, !fly.memref<f32, global, (1,2,2):(0,1,2)>, !fly.memref<i1, register, 2:1>) -> ()
  func.return
}
// -----
func.func @format(%x: i32) {
  // expected-error @below {{fly.print: the format '{} {}' has 2 placeholders for 1 values}}
  fly.print(%x) {format = "{} {}"} : (i32) -> ()
  func.return
}
// -----
!mma = !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
!r = !fly.memref<f32, register, (1,2,2):(0,1,2)>
!i = !fly.memref<f32, register, (1,2,1):(0,1,0)>
func.func @traversal(%p: !fly.ptr<f32, register>) {
  %a = fly.make_mma_atom : !mma
  %l = fly.static : !fly.layout<(1,2,2):(0,1,2)>
  %k = fly.static : !fly.layout<(1,2,1):(0,1,0)>
  %t = fly.static : !fly.layout<3:1>
  %d = fly.make_view(%p, %l) : (!fly.ptr<f32, register>, !fly.layout<(1,2,2):(0,1,2)>) -> !r
  %x = fly.make_view(%p, %k) : (!fly.ptr<f32, register>, !fly.layout<(1,2,1):(0,1,0)>) -> !i
  // expected-error @below {{gemm: the traversal layout 3:1 must have size and cosize 4}}
  fly.gemm(%a, %d, %x, %x, %d) traversalLayout = %t : (!mma, !r, !i, !i, !r, !fly.layout<3:1>) -> ()
  func.return
}
// -----
!atom = !fly.copy_atom<!fly.universal_copy<32>, 32>
func.func @field(%x: i32) {
  %a = fly.make_copy_atom {valBits = 32 : i32} : !atom
  // expected-error @below {{!fly.copy_atom<!fly.universal_copy<32>, 32> has no state field 'soffset'; it has: none}}
  %b = fly.atom.set_value(%a, "soffset", %x) : (!atom, i32) -> !atom
  "test.use"(%b) : (!atom) -> ()
  func.return
}

// -----

// Coordinates are no memory; the pass that makes them some comes before.
!t = !fly.memref<f16, global, (256,128):(128,1)>
!l = !fly.layout<(64,32):(32,1)>
!k = !fly.tile<[64|32]>
!a = !fly.copy_atom<!fly_rocdl.cdna5.tensor_load<shape = [64, 32], elem = f16, tensor2tdm = (1E0,1E1)>, 16>
!c = !fly.coord_tensor<(0,0), (256,128):(1E1,1E0)>
!s = !fly.memref<f16, shared, (64,32):(32,1)>
func.func @unexpanded(%t: !t, %l: !l, %k: !k, %s: !s) {
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %l, %k : !t, !l, !k
  // expected-error @+1 {{'fly.copy_atom_call' copies memory, got !fly.coord_tensor<(0,0), (256,128):(1E1,1E0)>; coordinates of a tensor are copied by the atom made with them, which fly-rocdl-expand-ops expands}}
  fly.copy_atom_call(%a, %c, %s) : (!a, !c, !s) -> ()
  func.return
}
