// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s

// Vectors. Text forms are upstream's.

func.func @vector(%f: f32, %v: vector<4xf32>, %w: vector<8xf32>, %m: memref<16xf32>, %i: index, %t: vector<2x4xf32>, %n: vector<4xi32>, %s: i32) {
  // CHECK: %{{.*}} = vector.bitcast %{{.*}} : vector<4xf32> to vector<8xf16>
  %0 = vector.bitcast %v : vector<4xf32> to vector<8xf16>
  // CHECK: %{{.*}} = vector.broadcast %{{.*}} : f32 to vector<4xf32>
  %1 = vector.broadcast %f : f32 to vector<4xf32>
  // CHECK: %{{.*}} = vector.extract %{{.*}}[2] : f32 from vector<4xf32>
  %2 = vector.extract %v[2] : f32 from vector<4xf32>
  // CHECK: %{{.*}} = vector.insert %{{.*}}, %{{.*}} [1] : f32 into vector<4xf32>
  %3 = vector.insert %f, %v[1] : f32 into vector<4xf32>
  // CHECK: %{{.*}} = vector.load %{{.*}}[%{{.*}}] : memref<16xf32>, vector<4xf32>
  %4 = vector.load %m[%i] : memref<16xf32>, vector<4xf32>
  // CHECK: vector.store %{{.*}}, %{{.*}}[%{{.*}}] : memref<16xf32>, vector<4xf32>
  vector.store %4, %m[%i] : memref<16xf32>, vector<4xf32>
  // CHECK: %{{.*}} = vector.reduction <add>, %{{.*}} : vector<4xf32> into f32
  %5 = vector.reduction <add>, %v : vector<4xf32> into f32
  // CHECK: %{{.*}} = vector.reduction <add>, %{{.*}}, %{{.*}} : vector<4xf32> into f32
  %6 = vector.reduction <add>, %v, %f : vector<4xf32> into f32
  // CHECK: %{{.*}} = vector.shuffle %{{.*}}, %{{.*}} [0, 4, 1, 5] : vector<4xf32>, vector<4xf32>
  %7 = vector.shuffle %v, %v [0, 4, 1, 5] : vector<4xf32>, vector<4xf32>
  // CHECK: %{{.*}} = vector.fma %{{.*}}, %{{.*}}, %{{.*}} : vector<4xf32>
  %8 = vector.fma %v, %v, %v : vector<4xf32>
  // CHECK: %{{.*}} = vector.extract_strided_slice %{{.*}} {offsets = [2], sizes = [4], strides = [1]} : vector<8xf32> to vector<4xf32>
  %9 = vector.extract_strided_slice %w {offsets = [2], sizes = [4], strides = [1]} : vector<8xf32> to vector<4xf32>
  // CHECK: %{{.*}} = vector.insert_strided_slice %{{.*}}, %{{.*}} {offsets = [4], strides = [1]} : vector<4xf32> into vector<8xf32>
  %10 = vector.insert_strided_slice %v, %w {offsets = [4], strides = [1]} : vector<4xf32> into vector<8xf32>
  // CHECK: %{{.*}} = vector.from_elements %{{.*}}, %{{.*}} : vector<2xf32>
  %11 = vector.from_elements %f, %f : vector<2xf32>
  // CHECK: %{{.*}}:2 = vector.to_elements %{{.*}} : vector<2xf32>
  %12, %13 = vector.to_elements %11 : vector<2xf32>
  // CHECK: %{{.*}} = vector.shape_cast %{{.*}} : vector<8xf32> to vector<2x4xf32>
  %14 = vector.shape_cast %w : vector<8xf32> to vector<2x4xf32>
  // CHECK: %{{.*}} = vector.transpose %{{.*}}, [1, 0] : vector<2x4xf32> to vector<4x2xf32>
  %15 = vector.transpose %t, [1, 0] : vector<2x4xf32> to vector<4x2xf32>
  // CHECK: %{{.*}} = vector.reduction <maxsi>, %{{.*}} : vector<4xi32> into i32
  %16 = vector.reduction <maxsi>, %n : vector<4xi32> into i32
  // CHECK: %{{.*}} = vector.extract %{{.*}}[%{{.*}}] : f32 from vector<4xf32>
  %17 = vector.extract %v[%i] : f32 from vector<4xf32>
  // CHECK: %{{.*}} = vector.insert %{{.*}}, %{{.*}} [%{{.*}}] : f32 into vector<4xf32>
  %18 = vector.insert %f, %v[%i] : f32 into vector<4xf32>
  // CHECK: vector.print str "hello"
  vector.print str "hello"
  // CHECK: vector.print %{{.*}} : i32 punctuation <no_punctuation>
  vector.print %s : i32 punctuation <no_punctuation>
  // CHECK: vector.print %{{.*}} : vector<4xf32>
  vector.print %v : vector<4xf32>
  // CHECK: %{{.*}} = ub.poison : vector<4xf32>
  %19 = ub.poison : vector<4xf32>
  // CHECK: vector.print
  vector.print punctuation <newline>
  func.return
}
