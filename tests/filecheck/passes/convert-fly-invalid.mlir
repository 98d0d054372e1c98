// RUN: %fly-opt --convert-fly-to-rocdl --verify-diagnostics --split-input-file %s

!universal = !fly.copy_atom<!fly.universal_copy<32>, 32>
func.func @left(%t: !fly.layout<4:1>) {
  // expected-error @below {{failed to legalize operation 'fly.print' that was explicitly marked illegal}}
  fly.print() {format = "x"} : () -> ()
  func.return
}
// -----
func.func @field(%s: i32) {
  %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>
  // expected-error @below {{has no state field 'scale_a'; it has: soffset}}
  %b = fly.atom.set_value(%a, "scale_a", %s) : (!fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>, i32) -> !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>
  %m = fly.make_ptr() {dictAttrs = {allocSize = 1 : i64}} : () -> !fly.ptr<f32, register>
  %l = fly.static : !fly.layout<1:1>
  %v = fly.make_view(%m, %l) : (!fly.ptr<f32, register>, !fly.layout<1:1>) -> !fly.memref<f32, register, 1:1>
  fly.copy_atom_call(%b, %v, %v) : (!fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
  func.return
}
// -----
func.func @shared() -> !fly.ptr<f32, shared> {
  // expected-error @below {{shared make_ptr must be inside a gpu.module}}
  %p = fly.make_ptr() {dictAttrs = {allocBytes = 64 : i64, allocAlign = 16 : i64}} : () -> !fly.ptr<f32, shared>
  func.return %p : !fly.ptr<f32, shared>
}
// -----
func.func @space(%p: !fly.ptr<f32, global>) -> !llvm.ptr {
  // expected-error @below {{requested LLVM address space 0 but the rocdl conversion requires 1}}
  %q = fly.to_llvm_ptr(%p) {llvm_address_space = 0 : i32} : (!fly.ptr<f32, global>) -> !llvm.ptr
  func.return %q : !llvm.ptr
}
// -----
func.func @buffer_pointer(%p: !fly.ptr<f32, #fly_rocdl.buffer_desc>) -> !llvm.ptr<8> {
  // expected-error-re @below {{pointer address space does not lower to a bare ROCDL LLVM pointer: {{.*}}}}
  %q = fly.to_llvm_ptr(%p) {llvm_address_space = 8 : i32} : (!fly.ptr<f32, #fly_rocdl.buffer_desc>) -> !llvm.ptr<8>
  func.return %q : !llvm.ptr<8>
}
// -----
!atom = !fly.copy_atom<!fly.universal_copy<32>, 32>
func.func @no_old_value(%m: !fly.memref<f32, global, 1:1>, %p: i1) -> f32 {
  %a = fly.make_copy_atom {valBits = 32 : i32} : !atom
  // expected-error @below {{a predicated copy on values needs the value that stays where it does not write}}
  %v = fly.copy_atom_call_ssa(%a, %m, %p) {operandSegmentSizes = array<i32: 1, 1, 0, 1>} : (!atom, !fly.memref<f32, global, 1:1>, i1) -> f32
  func.return %v : f32
}
// -----
!atom = !fly.copy_atom<!fly.universal_copy<32>, 32>
func.func @nowhere(%v: f32) {
  %a = fly.make_copy_atom {valBits = 32 : i32} : !atom
  // expected-error @below {{a copy on values without a result needs a destination in memory}}
  fly.copy_atom_call_ssa(%a, %v) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!atom, f32) -> ()
  func.return
}
// -----
!mma = !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
func.func @product_nowhere(%v: f32) {
  %a = fly.make_mma_atom : !mma
  // expected-error @below {{an MMA on values without a result needs a destination in memory}}
  fly.mma_atom_call_ssa(%a, %v, %v, %v) : (!mma, f32, f32, f32) -> ()
  func.return
}
// -----
!mma = !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
func.func @many(%v: f32) -> f32 {
  %a = fly.make_mma_atom : !mma
  // expected-error @below {{an MMA operand is a tensor and its scales, got 3 tensors}}
  %r = fly.mma_atom_call_ssa(%a, [%v, %v, %v], %v, %v) : (!mma, f32, f32, f32, f32, f32) -> f32
  func.return %r : f32
}
// -----
!tdm = !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 64, 3, cache = 0, barrier = false, timeout = false>, 16>
func.func @padding(%g: !fly.memref<f16, global, (16,64):(64,1)>, %s: !fly.memref<f16, shared, (16,64):(67,1)>) {
  %a = fly.make_copy_atom {valBits = 16 : i32} : !tdm
  // expected-error-re @below {{gfx1250 TDM: padding (interval=64, amount=3 elements at 16-bit) is not encodable{{.*}}}}
  fly.copy_atom_call(%a, %g, %s) : (!tdm, !fly.memref<f16, global, (16,64):(64,1)>, !fly.memref<f16, shared, (16,64):(67,1)>) -> ()
  func.return
}
// -----
!atom = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy_lds<32>, 32>
func.func @count(%s: i32) -> !atom {
  // expected-error @below {{this atom takes no construction arguments, got 1}}
  %a = fly.make_copy_atom(%s : i32) {valBits = 32 : i32} : !atom
  func.return %a : !atom
}
