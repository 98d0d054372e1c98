// RUN: %fly-opt --fly-convert-atom-call-to-ssa-form %s | FileCheck %s --check-prefix=VALUES
// RUN: %fly-opt --allow-unregistered-dialect --fly-convert-atom-call-to-ssa-form --fly-promote-regmem-to-vectorssa %s | FileCheck %s --check-prefix=PROMOTED

// A register operand of an atom call is loaded and stored around it; then the storage is a vector that the loop carries.

!at = !fly.copy_atom<!fly.universal_copy<128>, 32>
gpu.module @m {
  // VALUES-LABEL: gpu.func @copy(
  // VALUES: %[[V:.*]] = fly.copy_atom_call_ssa(%at, %gv) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!fly.copy_atom<!fly.universal_copy<128>, 32>, !fly.memref<f32, global, 4:1>) -> vector<4xf32>
  // VALUES-NEXT: fly.ptr.store(%[[V]], %{{.*}}) : (vector<4xf32>, !fly.ptr<f32, register>) -> ()
  gpu.func @copy(%at: !at, %gv: !fly.memref<f32, global, 4:1>) kernel {
    %r = fly.make_ptr() {dictAttrs = {allocSize = 4 : i64}} : () -> !fly.ptr<f32, register>
    %l = fly.static : !fly.layout<4:1>
    %rv = fly.make_view(%r, %l) : (!fly.ptr<f32, register>, !fly.layout<4:1>) -> !fly.memref<f32, register, 4:1>
    fly.copy_atom_call(%at, %gv, %rv) : (!at, !fly.memref<f32, global, 4:1>, !fly.memref<f32, register, 4:1>) -> ()
    gpu.return
  }
  // PROMOTED-LABEL: gpu.func @loop(
  // PROMOTED: %[[P:.*]] = ub.poison : vector<4xf32>
  // PROMOTED: %[[R:.*]] = scf.for %{{.*}} = %{{.*}} to %n step %{{.*}} iter_args(%[[S:.*]] = %[[P]]) -> (vector<4xf32>) {
  // PROMOTED-NEXT: %[[N:.*]] = vector.insert_strided_slice %v, %[[S]] {offsets = [0], strides = [1]} : vector<4xf32> into vector<4xf32>
  // PROMOTED-NEXT: scf.yield %[[N]] : vector<4xf32>
  // PROMOTED: %[[X:.*]] = vector.extract_strided_slice %[[R]] {offsets = [0], sizes = [4], strides = [1]} : vector<4xf32> to vector<4xf32>
  // PROMOTED: fly.ptr.store(%[[X]], %out)
  gpu.func @loop(%v: vector<4xf32>, %n: index, %out: !fly.ptr<f32, global>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %r = fly.make_ptr() {dictAttrs = {allocSize = 4 : i64}} : () -> !fly.ptr<f32, register>
    scf.for %i = %c0 to %n step %c1 {
      fly.ptr.store(%v, %r) : (vector<4xf32>, !fly.ptr<f32, register>) -> ()
    }
    %x = fly.ptr.load(%r) : (!fly.ptr<f32, register>) -> vector<4xf32>
    fly.ptr.store(%x, %out) : (vector<4xf32>, !fly.ptr<f32, global>) -> ()
    gpu.return
  }
}
