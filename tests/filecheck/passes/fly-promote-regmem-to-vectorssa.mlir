// RUN: %fly-opt --fly-promote-regmem-to-vectorssa --allow-unregistered-dialect %s | FileCheck %s

!reg = !fly.ptr<f32, register>
gpu.module @m {
  // CHECK-LABEL: gpu.func @loop(%v: vector<4xf32>, %n: index)
  gpu.func @loop(%v: vector<4xf32>, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %r = fly.make_ptr() {dictAttrs = {allocSize = 4 : i64}} : () -> !reg
    // CHECK: %[[P:.*]] = ub.poison : vector<4xf32>
    // CHECK-NEXT: %[[L:.*]] = scf.for %{{.*}} = %{{.*}} to %n step %{{.*}} iter_args(%[[S:.*]] = %[[P]]) -> (vector<4xf32>) {
    // CHECK-NEXT: %[[I:.*]] = vector.insert_strided_slice %v, %[[S]] {offsets = [0], strides = [1]} : vector<4xf32> into vector<4xf32>
    // CHECK-NEXT: scf.yield %[[I]] : vector<4xf32>
    // CHECK-NEXT: }
    scf.for %i = %c0 to %n step %c1 {
      fly.ptr.store(%v, %r) : (vector<4xf32>, !reg) -> ()
    }
    // CHECK-NEXT: %[[X:.*]] = vector.extract_strided_slice %[[L]] {offsets = [0], sizes = [4], strides = [1]} : vector<4xf32> to vector<4xf32>
    %x = fly.ptr.load(%r) : (!reg) -> vector<4xf32>
    // CHECK-NEXT: "test.use"(%[[X]])
    "test.use"(%x) : (vector<4xf32>) -> ()
    gpu.return
  }
  // Scalars at static offsets; an if without else gets one; only what is touched is carried, in order of allocation.
  // CHECK-LABEL: gpu.func @branches(%c: i1, %f: f32)
  gpu.func @branches(%c: i1, %f: f32) kernel {
    %r = fly.make_ptr() {dictAttrs = {allocSize = 4 : i64}} : () -> !reg
    %s = fly.make_ptr() {dictAttrs = {allocSize = 2 : i64}} : () -> !reg
    %u = fly.make_ptr() {dictAttrs = {allocSize = 1 : i64}} : () -> !reg
    %o2 = fly.make_int_tuple() : () -> !fly.int_tuple<2>
    %o1 = fly.make_int_tuple() : () -> !fly.int_tuple<1>
    %r2 = fly.add_offset(%r, %o2) : (!reg, !fly.int_tuple<2>) -> !reg
    %r3 = fly.add_offset(%r2, %o1) : (!reg, !fly.int_tuple<1>) -> !reg
    // CHECK: %[[P4:.*]] = ub.poison : vector<4xf32>
    // CHECK: %[[P2:.*]] = ub.poison : vector<2xf32>
    // CHECK: %[[P1:.*]] = ub.poison : vector<1xf32>
    // CHECK: %[[U:.*]] = vector.insert %f, %[[P1]] [0]
    fly.ptr.store(%f, %u) : (f32, !reg) -> ()
    // CHECK: %[[AB:.*]]:2 = scf.if %c -> (vector<4xf32>, vector<2xf32>) {
    // CHECK: %[[A0:.*]] = vector.insert %f, %[[P4]] [3]
    // CHECK: %[[B0:.*]] = vector.insert %f, %[[P2]] [0]
    // CHECK: scf.yield %[[A0]], %[[B0]]
    // CHECK: } else {
    // CHECK: scf.yield %[[P4]], %[[P2]]
    scf.if %c {
      fly.ptr.store(%f, %r3) : (f32, !reg) -> ()
      fly.ptr.store(%f, %s) : (f32, !reg) -> ()
    }
    // CHECK: %[[X:.*]] = vector.extract %[[AB]]#0[3]
    %x = fly.ptr.load(%r3) : (!reg) -> f32
    // CHECK: %[[Y:.*]] = vector.extract %[[AB]]#1[0]
    %y = fly.ptr.load(%s) : (!reg) -> f32
    // CHECK: %[[Z:.*]] = vector.extract %[[U]][0]
    %z = fly.ptr.load(%u) : (!reg) -> f32
    // CHECK: "test.use"(%[[X]], %[[Y]], %[[Z]])
    "test.use"(%x, %y, %z) : (f32, f32, f32) -> ()
    gpu.return
  }
  // CHECK-LABEL: gpu.func @while(%f: f32, %c: i1)
  gpu.func @while(%f: f32, %c: i1) kernel {
    %r = fly.make_ptr() {dictAttrs = {allocSize = 1 : i64}} : () -> !reg
    // CHECK: %[[W:.*]] = scf.while (%[[B:.*]] = %{{.*}}) : (vector<1xf32>) -> vector<1xf32> {
    // CHECK: scf.condition(%c) %[[B]] : vector<1xf32>
    // CHECK: ^{{.*}}(%[[A:.*]]: vector<1xf32>):
    // CHECK: %[[I:.*]] = vector.insert %f, %[[A]] [0]
    // CHECK: scf.yield %[[I]]
    scf.while () : () -> () {
      scf.condition(%c)
    } do {
      fly.ptr.store(%f, %r) : (f32, !reg) -> ()
      scf.yield
    }
    // CHECK: vector.extract %[[W]][0]
    %x = fly.ptr.load(%r) : (!reg) -> f32
    "test.use"(%x) : (f32) -> ()
    gpu.return
  }
  // Storage of small floats is integers; other element types are bridged bit for bit. Storage in a loop is its own.
  // CHECK-LABEL: gpu.func @bridged(
  gpu.func @bridged(%b: vector<4xi8>, %w: i32, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %r = fly.make_ptr() {dictAttrs = {allocSize = 4 : i64}} : () -> !fly.ptr<f8E4M3FN, register>
    // CHECK: ub.poison : vector<4xi8>
    fly.ptr.store(%b, %r) : (vector<4xi8>, !fly.ptr<f8E4M3FN, register>) -> ()
    // CHECK: %[[S:.*]] = vector.extract_strided_slice %{{.*}} {offsets = [0], sizes = [4], strides = [1]} : vector<4xi8> to vector<4xi8>
    // CHECK: %[[C:.*]] = vector.bitcast %[[S]] : vector<4xi8> to vector<1xi32>
    // CHECK: vector.extract %[[C]][0]
    %x = fly.ptr.load(%r) : (!fly.ptr<f8E4M3FN, register>) -> i32
    // CHECK: vector.from_elements %w : vector<1xi32>
    // CHECK: vector.bitcast %{{.*}} : vector<1xi32> to vector<4xi8>
    fly.ptr.store(%w, %r) : (i32, !fly.ptr<f8E4M3FN, register>) -> ()
    %y = fly.ptr.load(%r) : (!fly.ptr<f8E4M3FN, register>) -> vector<4xi8>
    "test.use"(%x, %y) : (i32, vector<4xi8>) -> ()
    // CHECK: scf.for
    // CHECK-NOT: iter_args
    // CHECK: ub.poison : vector<2xi32>
    scf.for %i = %c0 to %n step %c1 {
      %q = fly.make_ptr() {dictAttrs = {allocSize = 2 : i64}} : () -> !fly.ptr<i32, register>
      fly.ptr.store(%w, %q) : (i32, !fly.ptr<i32, register>) -> ()
      %z = fly.ptr.load(%q) : (!fly.ptr<i32, register>) -> i32
      "test.use"(%z) : (i32) -> ()
    }
    gpu.return
  }
  // A reinterpreted address, or one with a run-time offset, stays in memory; other storage is still promoted.
  // CHECK-LABEL: gpu.func @kept(
  gpu.func @kept(%f: f32, %i: i32) kernel {
    %r = fly.make_ptr() {dictAttrs = {allocSize = 4 : i64}} : () -> !reg
    %d = fly.make_ptr() {dictAttrs = {allocSize = 4 : i64}} : () -> !reg
    %p = fly.make_ptr() {dictAttrs = {allocSize = 1 : i64}} : () -> !reg
    // CHECK: %[[R:.*]] = fly.make_ptr() {dictAttrs = {allocSize = 4 : i64}}
    // CHECK: %[[D:.*]] = fly.make_ptr() {dictAttrs = {allocSize = 4 : i64}}
    // CHECK-NOT: fly.make_ptr
    %ri = fly.recast_iter(%r) : (!reg) -> !fly.ptr<i32, register>
    %o = fly.make_int_tuple(%i) : (i32) -> !fly.int_tuple<?>
    %di = fly.add_offset(%d, %o) : (!reg, !fly.int_tuple<?>) -> !reg
    // CHECK: fly.ptr.store(%f, %[[R]])
    fly.ptr.store(%f, %r) : (f32, !reg) -> ()
    // CHECK: fly.ptr.store(%f, %{{.*}})
    fly.ptr.store(%f, %di) : (f32, !reg) -> ()
    // CHECK: vector.insert %f
    fly.ptr.store(%f, %p) : (f32, !reg) -> ()
    %x = fly.ptr.load(%ri) : (!fly.ptr<i32, register>) -> i32
    %y = fly.ptr.load(%p) : (!reg) -> f32
    "test.use"(%x, %y) : (i32, f32) -> ()
    gpu.return
  }
}
