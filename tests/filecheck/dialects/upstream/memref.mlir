// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s

// Buffers. Text forms are upstream's.

// CHECK: memref.global "private" @lds : memref<64xi8, 3> {alignment = 16 : i64}
memref.global "private" @lds : memref<64xi8, 3> {alignment = 16 : i64}
// CHECK: memref.global "private" constant @tab : memref<2xf32> = dense<[1.000000e+00, 2.000000e+00]>
memref.global "private" constant @tab : memref<2xf32> = dense<[1.000000e+00, 2.000000e+00]>
// CHECK: memref.global @ext : memref<4xf32> = uninitialized
memref.global @ext : memref<4xf32> = uninitialized
func.func @memref(%i: index, %f: f32) {
  // CHECK: %{{.*}} = memref.get_global @lds : memref<64xi8, 3>
  %0 = memref.get_global @lds : memref<64xi8, 3>
  // CHECK: %{{.*}} = memref.view %{{.*}}[%{{.*}}][] : memref<64xi8, 3> to memref<16xf32, 3>
  %1 = memref.view %0[%i][] : memref<64xi8, 3> to memref<16xf32, 3>
  // CHECK: %{{.*}} = memref.load %{{.*}}[%{{.*}}] : memref<16xf32, 3>
  %2 = memref.load %1[%i] : memref<16xf32, 3>
  // CHECK: memref.store %{{.*}}, %{{.*}}[%{{.*}}] : memref<16xf32, 3>
  memref.store %f, %1[%i] : memref<16xf32, 3>
  // CHECK: %{{.*}} = memref.extract_aligned_pointer_as_index %{{.*}} : memref<16xf32, 3> -> index
  %3 = memref.extract_aligned_pointer_as_index %1 : memref<16xf32, 3> -> index
  func.return
}
