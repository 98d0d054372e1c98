// RUN: %fly-opt %s | FileCheck %s

// Later releases of MLIR leave out the name of the scope.

// CHECK-LABEL: func.func @prefetch(
func.func @prefetch(%p: !llvm.ptr<1>) {
  // CHECK: rocdl.global.prefetch %{{.*}}, scope 8 : !llvm.ptr<1>
  rocdl.global.prefetch %p, 8 : !llvm.ptr<1>
  func.return
}
