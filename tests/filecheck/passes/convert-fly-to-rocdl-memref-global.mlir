// RUN: %fly-opt --convert-fly-to-rocdl %s | FileCheck %s

// The place of a `memref.global` is an address; the module keeps the memory.
gpu.module @kernels {
  memref.global @scratch : memref<384xi8, #gpu.address_space<workgroup>> {alignment = 1024 : i64}
  gpu.func @kernel(%x: f32, %i: index) kernel {
    %c256 = arith.constant 256 : index
    %base = memref.get_global @scratch : memref<384xi8, #gpu.address_space<workgroup>>
    %view = memref.view %base[%c256][] : memref<384xi8, #gpu.address_space<workgroup>> to memref<32xf32, #gpu.address_space<workgroup>>
    memref.store %x, %view[%i] : memref<32xf32, #gpu.address_space<workgroup>>
    gpu.return
  }
}
// CHECK:       memref.global @scratch
// CHECK:       %[[AT:[0-9]+]] = llvm.mlir.addressof @scratch : !llvm.ptr<3>
// CHECK:       llvm.getelementptr %[[AT]]
// CHECK:       llvm.store %{{.*}}, %{{.*}} {alignment = 4 : i64} : f32, !llvm.ptr<3>
