// RUN: %fly-opt --pass-pipeline='builtin.module(gpu.module(cse))' %s | FileCheck %s --check-prefixes=DEVICE,HOST-AS-WRITTEN
// RUN: %fly-opt --pass-pipeline='builtin.module(func.func(cse))' %s | FileCheck %s --check-prefixes=DEVICE-AS-WRITTEN,HOST
// RUN: %fly-opt --pass-pipeline='builtin.module(gpu.module(gpu.func(canonicalize,cse)),func.func(cse))' %s | FileCheck %s --check-prefixes=DEVICE,HOST
// RUN: not %fly-opt --pass-pipeline='builtin.module(scf.for(cse))' %s 2>&1 | FileCheck %s --check-prefix=ANCHOR
// RUN: not %fly-opt --pass-pipeline='builtin.module(gpu.module(cse)' %s 2>&1 | FileCheck %s --check-prefix=OPEN

// Passes run on the ops their anchor names, and on nothing else.
// ANCHOR: fly-opt: unknown anchor 'scf.for' in pipeline
// OPEN: fly-opt: unbalanced parentheses in pipeline

// DEVICE-LABEL: gpu.func @k(
// DEVICE-NEXT: %[[A:.*]] = arith.addi %a, %a : i32
// DEVICE-NEXT: %[[B:.*]] = arith.muli %[[A]], %[[A]] : i32
// DEVICE-AS-WRITTEN-LABEL: gpu.func @k(
// DEVICE-AS-WRITTEN-NEXT: %[[A:.*]] = arith.addi %a, %a : i32
// DEVICE-AS-WRITTEN-NEXT: %[[C:.*]] = arith.addi %a, %a : i32
// DEVICE-AS-WRITTEN-NEXT: %[[B:.*]] = arith.muli %[[A]], %[[C]] : i32
gpu.module @m {
  gpu.func @k(%a: i32, %p: !fly.ptr<i32, global>) kernel {
    %0 = arith.addi %a, %a : i32
    %1 = arith.addi %a, %a : i32
    %2 = arith.muli %0, %1 : i32
    fly.ptr.store(%2, %p) : (i32, !fly.ptr<i32, global>) -> ()
    gpu.return
  }
}
// HOST-LABEL: func.func @h(
// HOST-NEXT: %[[A:.*]] = arith.addi %a, %a : i32
// HOST-NEXT: %[[B:.*]] = arith.muli %[[A]], %[[A]] : i32
// HOST-AS-WRITTEN-LABEL: func.func @h(
// HOST-AS-WRITTEN-NEXT: %[[A:.*]] = arith.addi %a, %a : i32
// HOST-AS-WRITTEN-NEXT: %[[C:.*]] = arith.addi %a, %a : i32
// HOST-AS-WRITTEN-NEXT: %[[B:.*]] = arith.muli %[[A]], %[[C]] : i32
func.func @h(%a: i32) -> i32 {
  %0 = arith.addi %a, %a : i32
  %1 = arith.addi %a, %a : i32
  %2 = arith.muli %0, %1 : i32
  func.return %2 : i32
}
// What stands between and behind stays where it was.
// HOST: func.func @last
// HOST-AS-WRITTEN: func.func @last
func.func @last(%a: i32) -> i32 {
  func.return %a : i32
}
