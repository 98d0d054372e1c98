// RUN: %fly-opt --convert-fly-to-nvvm %s | FileCheck %s

// Pairs of bf16 are widened as words, one instruction for each; an odd one is left to LLVM.

// CHECK-LABEL: func.func @widen(
// CHECK-SAME: %[[X:.*]]: vector<4xbf16>, %[[Y:.*]]: bf16, %[[Z:.*]]: vector<3xbf16>)
func.func @widen(%x: vector<4xbf16>, %y: bf16, %z: vector<3xbf16>) -> (vector<4xf32>, f32, vector<3xf32>) {
  // CHECK-DAG: %[[BITS:.*]] = arith.constant dense<16> : vector<2xi32>
  // CHECK-DAG: %[[UPPER:.*]] = arith.constant dense<-65536> : vector<2xi32>
  // CHECK: %[[WORDS:.*]] = llvm.bitcast %[[X]] : vector<4xbf16> to vector<2xi32>
  // CHECK: %[[LOW:.*]] = arith.shli %[[WORDS]], %[[BITS]]
  // CHECK: %[[A:.*]] = arith.bitcast %[[LOW]] : vector<2xi32> to vector<2xf32>
  // CHECK: %[[HIGH:.*]] = arith.andi %[[WORDS]], %[[UPPER]]
  // CHECK: %[[B:.*]] = arith.bitcast %[[HIGH]] : vector<2xi32> to vector<2xf32>
  // CHECK: vector.shuffle %[[A]], %[[B]] [0, 2, 1, 3]
  %a = arith.extf %x : vector<4xbf16> to vector<4xf32>
  // CHECK: arith.extf %[[Y]] : bf16 to f32
  %b = arith.extf %y : bf16 to f32
  // CHECK: arith.extf %[[Z]] : vector<3xbf16> to vector<3xf32>
  %c = arith.extf %z : vector<3xbf16> to vector<3xf32>
  func.return %a, %b, %c : vector<4xf32>, f32, vector<3xf32>
}
