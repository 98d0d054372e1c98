// RUN: %fly-opt --convert-fly-to-rocdl %s | FileCheck %s

// Every group has at least two copies: the youngest n groups are 2 n operations. The copy in front of the loop is in no
// group for certain, nor is one of another block.

gpu.module @m {
  // CHECK-LABEL: gpu.func @groups
  gpu.func @groups(%src: !llvm.ptr<1>, %dst: !llvm.ptr<3>, %far: !llvm.ptr<1>, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %size = arith.constant 4 : i32
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i16
    %none = arith.constant 0 : i16
    llvm.call_intrinsic "llvm.amdgcn.global.load.lds"(%src, %dst, %size, %zero, %zero) : (!llvm.ptr<1>, !llvm.ptr<3>, i32, i32, i32) -> ()
    scf.for %i = %c0 to %n step %c1 {
      llvm.call_intrinsic "llvm.amdgcn.global.load.lds"(%src, %dst, %size, %zero, %zero) : (!llvm.ptr<1>, !llvm.ptr<3>, i32, i32, i32) -> ()
      llvm.call_intrinsic "llvm.amdgcn.global.load.lds"(%src, %dst, %size, %zero, %zero) : (!llvm.ptr<1>, !llvm.ptr<3>, i32, i32, i32) -> ()
      // CHECK-NOT: asyncmark
      llvm.call_intrinsic "llvm.amdgcn.asyncmark"() : () -> ()
      // vmcnt(2), and no wait for anything else.
      // CHECK: llvm.fence syncscope("wavefront") release
      // CHECK-NEXT: llvm.call_intrinsic "llvm.amdgcn.s.waitcnt"(%c3954_i32)
      // CHECK-NEXT: llvm.fence syncscope("wavefront") acquire
      llvm.call_intrinsic "llvm.amdgcn.wait.asyncmark"(%one) : (i16) -> ()
      // CHECK: llvm.load {{.*}} {fly_rocdl.async_read{{.*}}} : !llvm.ptr<3> -> f32
      %x = llvm.load %dst : !llvm.ptr<3> -> f32
      // CHECK-NOT: async_read
      %y = llvm.load %far : !llvm.ptr<1> -> f32
      // CHECK: llvm.store
      %z = arith.addf %x, %y : f32
      llvm.store %z, %far : f32, !llvm.ptr<1>
    }
    llvm.call_intrinsic "llvm.amdgcn.wait.asyncmark"(%none) : (i16) -> ()
    // CHECK: llvm.call_intrinsic "llvm.amdgcn.s.waitcnt"(%c3952_i32)
    gpu.return
  }

  // Nobody knows whether there is a copy in the group: wait for all.
  // CHECK-LABEL: gpu.func @unknown
  gpu.func @unknown(%src: !llvm.ptr<1>, %dst: !llvm.ptr<3>, %flag: i1) kernel {
    %size = arith.constant 4 : i32
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i16
    scf.if %flag {
      llvm.call_intrinsic "llvm.amdgcn.global.load.lds"(%src, %dst, %size, %zero, %zero) : (!llvm.ptr<1>, !llvm.ptr<3>, i32, i32, i32) -> ()
    }
    llvm.call_intrinsic "llvm.amdgcn.asyncmark"() : () -> ()
    llvm.call_intrinsic "llvm.amdgcn.wait.asyncmark"(%one) : (i16) -> ()
    // CHECK: llvm.call_intrinsic "llvm.amdgcn.s.waitcnt"(%c3952_i32)
    gpu.return
  }

  // Without marks nothing is declared.
  // CHECK-LABEL: gpu.func @plain
  gpu.func @plain(%dst: !llvm.ptr<3>) kernel {
    // CHECK-NOT: async_read
    %x = llvm.load %dst : !llvm.ptr<3> -> f32
    llvm.store %x, %dst : f32, !llvm.ptr<3>
    gpu.return
  }
}
