// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s

// What `mlir-translate --import-llvm` writes around the code.

// CHECK: module attributes {dlti.dl_spec = #dlti.dl_spec<!llvm.ptr = dense<64> : vector<4xi64>, "dlti.endianness" = "little">, llvm.ident = "clang"} {
module attributes {dlti.dl_spec = #dlti.dl_spec<!llvm.ptr = dense<64> : vector<4xi64>, "dlti.endianness" = "little">, llvm.ident = "clang"} {
  // CHECK-NEXT: llvm.module_flags [#llvm.mlir.module_flag<error, "wchar_size", 4 : i32>, #llvm.mlir.module_flag<min, "PIC Level", 2 : i32>]
  llvm.module_flags [#llvm.mlir.module_flag<error, "wchar_size", 4 : i32>, #llvm.mlir.module_flag<min, "PIC Level", 2 : i32>]
  // CHECK-NEXT: llvm.mlir.global external local_unnamed_addr constant @g(42 : i32) {addr_space = 0 : i32, alignment = 4 : i64, dso_local} : i32
  llvm.mlir.global external local_unnamed_addr constant @g(42 : i32) {addr_space = 0 : i32, alignment = 4 : i64, dso_local} : i32
  // CHECK-NEXT: llvm.func local_unnamed_addr @add(%arg0: i32 {llvm.noundef}) -> (i32 {llvm.noundef}) attributes {dso_local, memory_effects = #llvm.memory_effects<other = none, argMem = none>, target_features = #llvm.target_features<["+cx8", "+mmx"]>} {
  llvm.func local_unnamed_addr @add(%arg0: i32 {llvm.noundef}) -> (i32 {llvm.noundef}) attributes {dso_local, memory_effects = #llvm.memory_effects<other = none, argMem = none>, target_features = #llvm.target_features<["+cx8", "+mmx"]>} {
    llvm.return %arg0 : i32
  }
  // CHECK: llvm.func internal unnamed_addr fastcc @declared(i32)
  llvm.func internal unnamed_addr fastcc @declared(i32)
}
