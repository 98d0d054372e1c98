// RUN: %fly-opt --convert-arith-to-llvm %s | FileCheck %s

// An index without a sign is widened by zeros, one with a sign by it.
// CHECK: llvm.zext %{{.*}} : i32 to i64
// CHECK: llvm.sext %{{.*}} : i32 to i64
func.func @widened(%i: i32) -> (index, index) {
  %0 = arith.index_castui %i : i32 to index
  %1 = arith.index_cast %i : i32 to index
  return %0, %1 : index, index
}
