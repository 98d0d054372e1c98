// RUN: %fly-opt --convert-vector-to-llvm %s | FileCheck %s

// CHECK-LABEL: func.func @elements
func.func @elements(%v: vector<4xf32>, %x: f32, %i: index) -> vector<4xf32> {
  // CHECK: %[[E:.*]] = llvm.extractelement %v[%{{.*}} : i64] : vector<4xf32>
  %0 = vector.extract %v[2] : f32 from vector<4xf32>
  // CHECK: %[[W:.*]] = llvm.insertelement %[[E]], %v[%{{.*}} : i64] : vector<4xf32>
  %1 = vector.insert %0, %v[%i] : f32 into vector<4xf32>
  // CHECK: %[[F:.*]] = llvm.insertelement %x, %{{.*}}[%{{.*}} : i64] : vector<4xf32>
  // CHECK: %[[S:.*]] = llvm.shufflevector %[[F]], %{{.*}} [0, 0, 0, 0] : vector<4xf32>
  %2 = vector.broadcast %x : f32 to vector<4xf32>
  // CHECK: llvm.bitcast %[[S]] : vector<4xf32> to vector<8xf16>
  %3 = vector.bitcast %2 : vector<4xf32> to vector<8xf16>
  // CHECK: "llvm.intr.vector.reduce.fadd"(%{{.*}}, %[[W]]) : (f32, vector<4xf32>) -> f32
  %4 = vector.reduction <add>, %1 : vector<4xf32> into f32
  func.return %1 : vector<4xf32>
}

// A slice is a shuffle; putting one in widens it, then chooses lane by lane.
// CHECK-LABEL: func.func @slices(%v: vector<4xf32>, %w: vector<2xf32>)
func.func @slices(%v: vector<4xf32>, %w: vector<2xf32>) -> (vector<2xf32>, vector<4xf32>) {
  // CHECK: llvm.shufflevector %v, %{{.*}} [1, 2] : vector<4xf32>
  %0 = vector.extract_strided_slice %v {offsets = [1], sizes = [2], strides = [1]} : vector<4xf32> to vector<2xf32>
  // CHECK: %[[WIDE:.*]] = llvm.shufflevector %w, %{{.*}} [0, 1, -1, -1] : vector<2xf32>
  // CHECK-NEXT: llvm.shufflevector %v, %[[WIDE]] [0, 4, 5, 3] : vector<4xf32>
  %1 = vector.insert_strided_slice %w, %v {offsets = [1], strides = [1]} : vector<2xf32> into vector<4xf32>
  func.return %0, %1 : vector<2xf32>, vector<4xf32>
}

// Several dimensions are one: a transpose is a permutation of known lanes.
// CHECK-LABEL: func.func @transpose(%v: vector<6xf32>) -> vector<6xf32>
func.func @transpose(%v: vector<6xf32>) -> vector<6xf32> {
  // CHECK-NOT: vector.
  // CHECK: %[[T:.*]] = llvm.shufflevector %v, %{{.*}} [0, 3, 1, 4, 2, 5] : vector<6xf32>
  // CHECK-NEXT: return %[[T]] : vector<6xf32>
  %0 = vector.shape_cast %v : vector<6xf32> to vector<2x3xf32>
  %1 = vector.transpose %0, [1, 0] : vector<2x3xf32> to vector<3x2xf32>
  %2 = vector.shape_cast %1 : vector<3x2xf32> to vector<6xf32>
  func.return %2 : vector<6xf32>
}
