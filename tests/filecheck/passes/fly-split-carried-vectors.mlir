// RUN: %fly-opt --fly-split-carried-vectors --allow-unregistered-dialect %s | FileCheck %s

gpu.module @m {
  // Slices and inserts of four: two pieces of four. A scalar is taken out of its piece, an if in the loop follows.
  // CHECK-LABEL: gpu.func @pieces(%c: i1, %n: index, %v: vector<4xf32>)
  gpu.func @pieces(%c: i1, %n: index, %v: vector<4xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK: %[[Z:.*]] = arith.constant dense<1.000000e+00> : vector<4xf32>
    %z = arith.constant dense<1.0> : vector<8xf32>
    // CHECK: %[[L:.*]]:2 = scf.for %{{.*}} = %{{.*}} to %n step %{{.*}} iter_args(%[[A:.*]] = %[[Z]], %[[B:.*]] = %[[Z]]) -> (vector<4xf32>, vector<4xf32>) {
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %z) -> (vector<8xf32>) {
      // CHECK-NEXT: %[[D:.*]]:2 = scf.if %c -> (vector<4xf32>, vector<4xf32>) {
      %t = scf.if %c -> (vector<8xf32>) {
        // CHECK-NEXT: %[[W:.*]] = "test.make"(%[[B]])
        %b = vector.extract_strided_slice %s {offsets = [4], sizes = [4], strides = [1]} : vector<8xf32> to vector<4xf32>
        %w = "test.make"(%b) : (vector<4xf32>) -> vector<4xf32>
        // CHECK-NEXT: scf.yield %[[W]], %[[B]]
        %k = vector.insert_strided_slice %w, %s {offsets = [0], strides = [1]} : vector<4xf32> into vector<8xf32>
        scf.yield %k : vector<8xf32>
      } else {
        // CHECK: scf.yield %[[A]], %[[B]]
        scf.yield %s : vector<8xf32>
      }
      // CHECK: scf.yield %[[D]]#0, %v
      %u = vector.insert_strided_slice %v, %t {offsets = [4], strides = [1]} : vector<4xf32> into vector<8xf32>
      scf.yield %u : vector<8xf32>
    }
    // CHECK: %[[E:.*]] = vector.extract %[[L]]#1[1] : f32 from vector<4xf32>
    %e = vector.extract %r[5] : f32 from vector<8xf32>
    // CHECK-NEXT: "test.use"(%[[E]])
    "test.use"(%e) : (f32) -> ()
    gpu.return
  }
  // Accesses that overlap make one piece; what is written of it by less than that is put into the piece.
  // CHECK-LABEL: gpu.func @overlap
  gpu.func @overlap(%n: index, %v: vector<4xf32>, %w: vector<2xf32>, %f: f32) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK-DAG: %[[P:.*]] = ub.poison : vector<4xf32>
    %p = ub.poison : vector<8xf32>
    // CHECK: %[[L:.*]]:2 = scf.for {{.*}} iter_args(%[[A:.*]] = %[[P]], %[[B:.*]] = %[[P]])
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %p) -> (vector<8xf32>) {
      // CHECK-NEXT: %[[X:.*]] = vector.insert_strided_slice %w, %[[A]] {offsets = [2], strides = [1]} : vector<2xf32> into vector<4xf32>
      %x = vector.insert_strided_slice %w, %s {offsets = [2], strides = [1]} : vector<2xf32> into vector<8xf32>
      // CHECK-NEXT: %[[Y:.*]] = vector.insert %f, %[[X]] [1] : f32 into vector<4xf32>
      %y = vector.insert %f, %x [1] : f32 into vector<8xf32>
      %u = vector.insert_strided_slice %v, %y {offsets = [4], strides = [1]} : vector<4xf32> into vector<8xf32>
      // CHECK-NEXT: scf.yield %[[Y]], %v
      scf.yield %u : vector<8xf32>
    }
    // CHECK: "test.use"(%[[L]]#0)
    %lo = vector.extract_strided_slice %r {offsets = [0], sizes = [4], strides = [1]} : vector<8xf32> to vector<4xf32>
    "test.use"(%lo) : (vector<4xf32>) -> ()
    // CHECK-NEXT: %[[M:.*]] = vector.extract_strided_slice %[[L]]#1 {offsets = [2], sizes = [2], strides = [1]}
    %mid = vector.extract_strided_slice %r {offsets = [6], sizes = [2], strides = [1]} : vector<8xf32> to vector<2xf32>
    // CHECK-NEXT: "test.use"(%[[M]])
    "test.use"(%mid) : (vector<2xf32>) -> ()
    gpu.return
  }
  // Somebody takes all of it, or it comes from an op as a whole: it stays.
  // CHECK-LABEL: gpu.func @whole
  gpu.func @whole(%n: index, %v: vector<4xf32>, %q: vector<8xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %p = ub.poison : vector<8xf32>
    // CHECK: scf.for {{.*}} -> (vector<8xf32>) {
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %p) -> (vector<8xf32>) {
      %u = vector.insert_strided_slice %v, %s {offsets = [4], strides = [1]} : vector<4xf32> into vector<8xf32>
      scf.yield %u : vector<8xf32>
    }
    "test.use"(%r) : (vector<8xf32>) -> ()
    // CHECK: scf.for {{.*}} iter_args(%{{.*}} = %q) -> (vector<8xf32>) {
    %t = scf.for %i = %c0 to %n step %c1 iter_args(%s = %q) -> (vector<8xf32>) {
      %u = vector.insert_strided_slice %v, %s {offsets = [4], strides = [1]} : vector<4xf32> into vector<8xf32>
      scf.yield %u : vector<8xf32>
    }
    %lo = vector.extract_strided_slice %t {offsets = [0], sizes = [4], strides = [1]} : vector<8xf32> to vector<4xf32>
    "test.use"(%lo) : (vector<4xf32>) -> ()
    gpu.return
  }
  // Pieces of less than a register stay together, and zeros of both signs are no splat.
  // CHECK-LABEL: gpu.func @small
  gpu.func @small(%n: index, %v: vector<2xi8>, %w: vector<2xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %p = ub.poison : vector<4xi8>
    // CHECK: scf.for {{.*}} -> (vector<4xi8>) {
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %p) -> (vector<4xi8>) {
      %u = vector.insert_strided_slice %v, %s {offsets = [2], strides = [1]} : vector<2xi8> into vector<4xi8>
      scf.yield %u : vector<4xi8>
    }
    %lo = vector.extract_strided_slice %r {offsets = [0], sizes = [2], strides = [1]} : vector<4xi8> to vector<2xi8>
    "test.use"(%lo) : (vector<2xi8>) -> ()
    %z = arith.constant dense<[0.0, -0.0, 0.0, 0.0]> : vector<4xf32>
    // CHECK: scf.for {{.*}} -> (vector<4xf32>) {
    %t = scf.for %i = %c0 to %n step %c1 iter_args(%s = %z) -> (vector<4xf32>) {
      %u = vector.insert_strided_slice %w, %s {offsets = [2], strides = [1]} : vector<2xf32> into vector<4xf32>
      scf.yield %u : vector<4xf32>
    }
    %hi = vector.extract_strided_slice %t {offsets = [0], sizes = [2], strides = [1]} : vector<4xf32> to vector<2xf32>
    "test.use"(%hi) : (vector<2xf32>) -> ()
    gpu.return
  }
  // Two slots begin with the same inserts, which go once.
  // CHECK-LABEL: gpu.func @twice
  gpu.func @twice(%n: index, %v: vector<4xf32>, %w: vector<4xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %p = ub.poison : vector<8xf32>
    %x = vector.insert_strided_slice %v, %p {offsets = [0], strides = [1]} : vector<4xf32> into vector<8xf32>
    %y = vector.insert_strided_slice %w, %x {offsets = [4], strides = [1]} : vector<4xf32> into vector<8xf32>
    // CHECK: %[[L:.*]]:4 = scf.for {{.*}} iter_args(%[[A:.*]] = %v, %[[B:.*]] = %w, %[[C:.*]] = %v, %[[D:.*]] = %w)
    %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%s = %y, %t = %y) -> (vector<8xf32>, vector<8xf32>) {
      %b = vector.extract_strided_slice %s {offsets = [4], sizes = [4], strides = [1]} : vector<8xf32> to vector<4xf32>
      // CHECK-NEXT: %[[M:.*]] = "test.make"(%[[B]])
      %m = "test.make"(%b) : (vector<4xf32>) -> vector<4xf32>
      %u = vector.insert_strided_slice %m, %t {offsets = [0], strides = [1]} : vector<4xf32> into vector<8xf32>
      // CHECK-NEXT: scf.yield %[[M]], %[[D]], %[[A]], %[[B]]
      scf.yield %u, %s : vector<8xf32>, vector<8xf32>
    }
    // CHECK: "test.use"(%[[L]]#0)
    %lo = vector.extract_strided_slice %r#0 {offsets = [0], sizes = [4], strides = [1]} : vector<8xf32> to vector<4xf32>
    "test.use"(%lo) : (vector<4xf32>) -> ()
    gpu.return
  }
}
