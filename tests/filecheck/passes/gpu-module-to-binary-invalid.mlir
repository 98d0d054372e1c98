// RUN: %fly-opt --gpu-module-to-binary --verify-diagnostics --split-input-file %s
// RUN: not %fly-opt --gpu-module-to-binary='format=elf' %s 2>&1 | FileCheck %s

// CHECK: fly-opt: option 'format' is one of offloading, llvm, assembly, isa, binary, bin, fatbinary, fatbin, got 'elf'

// expected-error @+1 {{the module has no target attributes}}
gpu.module @kernels {
}

// -----

gpu.module @kernels [#rocdl.target<chip = "gfx942">] {
  llvm.func @k(%i: i32, %p: !llvm.ptr<1>) attributes {rocdl.kernel} {
    // expected-error @+1 {{cannot be converted to LLVM IR: 'arith.addi' is not of the llvm dialect}}
    %0 = arith.addi %i, %i : i32
    llvm.store %0, %p : i32, !llvm.ptr<1>
    llvm.return
  }
}

// -----

// expected-error @+1 {{cannot compile for "here": expected #rocdl.target or #nvvm.target}}
gpu.module @kernels ["here"] {
}
