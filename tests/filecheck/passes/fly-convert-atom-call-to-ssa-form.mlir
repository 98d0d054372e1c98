// RUN: %fly-opt --fly-convert-atom-call-to-ssa-form %s | FileCheck %s

!copy = !fly.copy_atom<!fly.universal_copy<128>, 32>
!mma = !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
!g4 = !fly.memref<f32, global, 4:1>
!r4 = !fly.memref<f32, register, 4:1>
!r1 = !fly.memref<f32, register, 1:1>
!b8 = !fly.memref<f8E4M3FN, register, (2,2):(1,2)>
!s4 = !fly.memref<f32, register, 4:2>
!pr = !fly.memref<i1, register, 1:0>
gpu.module @m {
  // CHECK-LABEL: gpu.func @load(
  gpu.func @load(%at: !copy, %gv: !g4) kernel {
    // CHECK: %[[R:.*]] = fly.make_ptr()
    %r = fly.make_ptr() {dictAttrs = {allocSize = 4 : i64}} : () -> !fly.ptr<f32, register>
    %l = fly.static : !fly.layout<4:1>
    %rv = fly.make_view(%r, %l) : (!fly.ptr<f32, register>, !fly.layout<4:1>) -> !r4
    // CHECK: %[[V:.*]] = fly.copy_atom_call_ssa(%at, %gv) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!fly.copy_atom<!fly.universal_copy<128>, 32>, !fly.memref<f32, global, 4:1>) -> vector<4xf32>
    // CHECK-NEXT: fly.ptr.store(%[[V]], %[[R]]) : (vector<4xf32>, !fly.ptr<f32, register>) -> ()
    fly.copy_atom_call(%at, %gv, %rv) : (!copy, !g4, !r4) -> ()
    // CHECK-NEXT: %[[W:.*]] = fly.ptr.load(%[[R]]) : (!fly.ptr<f32, register>) -> vector<4xf32>
    // CHECK-NEXT: fly.copy_atom_call_ssa(%at, %[[W]], %gv) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!fly.copy_atom<!fly.universal_copy<128>, 32>, vector<4xf32>, !fly.memref<f32, global, 4:1>) -> ()
    fly.copy_atom_call(%at, %rv, %gv) : (!copy, !r4, !g4) -> ()
    gpu.return
  }
  // A predicated load keeps the old value where it does not write.
  // CHECK-LABEL: gpu.func @predicated(
  gpu.func @predicated(%at: !copy, %gv: !g4, %r: !fly.ptr<f32, register>, %p: !fly.ptr<i1, register>) kernel {
    %l = fly.static : !fly.layout<4:1>
    %l1 = fly.static : !fly.layout<1:0>
    %rv = fly.make_view(%r, %l) : (!fly.ptr<f32, register>, !fly.layout<4:1>) -> !r4
    %pv = fly.make_view(%p, %l1) : (!fly.ptr<i1, register>, !fly.layout<1:0>) -> !pr
    // CHECK: %[[P:.*]] = fly.ptr.load(%p) : (!fly.ptr<i1, register>) -> i1
    // CHECK-NEXT: %[[OLD:.*]] = fly.ptr.load(%r) : (!fly.ptr<f32, register>) -> vector<4xf32>
    // CHECK-NEXT: %[[V:.*]] = fly.copy_atom_call_ssa(%at, %gv, %[[OLD]], %[[P]]) {operandSegmentSizes = array<i32: 1, 1, 1, 1>}
    // CHECK-NEXT: fly.ptr.store(%[[V]], %r)
    fly.copy_atom_call(%at, %gv, %rv, %pv) : (!copy, !g4, !r4, !pr) -> ()
    gpu.return
  }
  // Not eligible: strided, or not in registers. Floats under 16 bits travel as integers.
  // CHECK-LABEL: gpu.func @types(
  gpu.func @types(%at: !copy, %gv: !g4, %r: !fly.ptr<f32, register>, %b: !fly.ptr<f8E4M3FN, register>, %gb: !fly.memref<f8E4M3FN, global, 4:1>) kernel {
    %l = fly.static : !fly.layout<4:2>
    %lb = fly.static : !fly.layout<(2,2):(1,2)>
    %sv = fly.make_view(%r, %l) : (!fly.ptr<f32, register>, !fly.layout<4:2>) -> !s4
    %bv = fly.make_view(%b, %lb) : (!fly.ptr<f8E4M3FN, register>, !fly.layout<(2,2):(1,2)>) -> !b8
    // CHECK: fly.copy_atom_call(%at, %gv, %{{.*}})
    fly.copy_atom_call(%at, %gv, %sv) : (!copy, !g4, !s4) -> ()
    // CHECK: %[[V:.*]] = fly.copy_atom_call_ssa(%at, %gb) {{.*}} -> vector<4xi8>
    fly.copy_atom_call(%at, %gb, %bv) : (!copy, !fly.memref<f8E4M3FN, global, 4:1>, !b8) -> ()
    gpu.return
  }
  // CHECK-LABEL: gpu.func @mma(
  gpu.func @mma(%at: !mma, %r: !fly.ptr<f32, register>, %q: !fly.ptr<f32, register>, %g: !fly.memref<f32, shared, 1:1>) kernel {
    %l = fly.static : !fly.layout<1:1>
    %a = fly.make_view(%r, %l) : (!fly.ptr<f32, register>, !fly.layout<1:1>) -> !r1
    %d = fly.make_view(%q, %l) : (!fly.ptr<f32, register>, !fly.layout<1:1>) -> !r1
    // CHECK: %[[A:.*]] = fly.ptr.load(%r) : (!fly.ptr<f32, register>) -> f32
    // CHECK-NEXT: %[[B:.*]] = fly.ptr.load(%r)
    // CHECK-NEXT: %[[C:.*]] = fly.ptr.load(%q)
    // CHECK-NEXT: %[[V:.*]] = fly.mma_atom_call_ssa(%at, %[[A]], %[[B]], %[[C]]) : ({{.*}}, f32, f32, f32) -> f32
    // CHECK-NEXT: fly.ptr.store(%[[V]], %q)
    fly.mma_atom_call(%at, %d, %a, %a, %d) : (!mma, !r1, !r1, !r1, !r1) -> ()
    // CHECK: fly.mma_atom_call_ssa(%at, %{{.*}}, %{{.*}}, %{{.*}}) dst = %g : ({{.*}}, !fly.memref<f32, shared, 1:1>, f32, f32, f32) -> ()
    fly.mma_atom_call(%at, %g, %a, %a, %d) : (!mma, !fly.memref<f32, shared, 1:1>, !r1, !r1, !r1) -> ()
    // CHECK: fly.mma_atom_call_ssa(%at, [%{{.*}}, %{{.*}}], [%{{.*}}, %{{.*}}], %{{.*}})
    fly.mma_atom_call(%at, %d, [%a, %a], [%a, %a], %d) : (!mma, !r1, !r1, !r1, !r1, !r1, !r1) -> ()
    gpu.return
  }
}
