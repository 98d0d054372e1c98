// RUN: %fly-opt --convert-arith-to-llvm %s | FileCheck %s

// CHECK-LABEL: func.func @integers(%a: i32, %b: i32) -> i1
func.func @integers(%a: i32, %b: i32) -> i1 {
  // CHECK-DAG: %[[C:.*]] = llvm.mlir.constant(7 : i32) : i32
  %c = arith.constant 7 : i32
  // CHECK: %[[S:.*]] = llvm.add %a, %[[C]] overflow<nsw> : i32
  %0 = arith.addi %a, %c overflow<nsw> : i32
  // CHECK: %[[M:.*]] = llvm.intr.smin(%[[S]], %b) : (i32, i32) -> i32
  %1 = arith.minsi %0, %b : i32
  // CHECK: %[[H:.*]] = llvm.lshr %[[M]], %b : i32
  %2 = arith.shrui %1, %b : i32
  // CHECK: %[[W:.*]] = llvm.sext %[[H]] : i32 to i64
  %3 = arith.extsi %2 : i32 to i64
  // CHECK: %[[N:.*]] = llvm.trunc %[[W]] : i64 to i16
  %4 = arith.trunci %3 : i64 to i16
  // CHECK: llvm.icmp "ugt" %[[N]], %[[N]] : i16
  %5 = arith.cmpi ugt, %4, %4 : i16
  func.return %5 : i1
}

// An index has 64 bits; a cast stands where one comes from code that is not converted.
// CHECK-LABEL: func.func @index(%i: index) -> i32
func.func @index(%i: index) -> i32 {
  // CHECK-DAG: %[[C:.*]] = llvm.mlir.constant(4) : i64
  // CHECK: %[[I:.*]] = builtin.unrealized_conversion_cast %i : index to i64
  // CHECK-NEXT: %[[P:.*]] = llvm.mul %[[I]], %[[C]] : i64
  // CHECK-NEXT: %[[R:.*]] = llvm.trunc %[[P]] : i64 to i32
  // CHECK-NEXT: return %[[R]] : i32
  %c = arith.constant 4 : index
  %0 = arith.muli %i, %c : index
  %1 = arith.index_cast %0 : index to i32
  func.return %1 : i32
}

// Rounding down: one less where there is a rest and the signs differ.
// CHECK-LABEL: func.func @floor(%a: i32, %b: i32) -> i32
func.func @floor(%a: i32, %b: i32) -> i32 {
  // CHECK: %[[Q:.*]] = llvm.sdiv %a, %b : i32
  // CHECK-NEXT: %[[R:.*]] = llvm.srem %a, %b : i32
  // CHECK-NEXT: %[[X:.*]] = llvm.icmp "ne" %[[R]], %{{.*}} : i32
  // CHECK-NEXT: %[[S:.*]] = llvm.xor %a, %b : i32
  // CHECK-NEXT: %[[D:.*]] = llvm.icmp "slt" %[[S]], %{{.*}} : i32
  // CHECK-NEXT: %[[L:.*]] = llvm.and %[[X]], %[[D]] : i1
  // CHECK-NEXT: %[[O:.*]] = llvm.sext %[[L]] : i1 to i32
  // CHECK-NEXT: llvm.add %[[Q]], %[[O]] : i32
  %0 = arith.floordivsi %a, %b : i32
  func.return %0 : i32
}

// CHECK-LABEL: func.func @floats(%x: f32, %v: vector<4xf16>, %c: i1) -> f32
func.func @floats(%x: f32, %v: vector<4xf16>, %c: i1) -> f32 {
  // CHECK: %[[A:.*]] = llvm.fadd %x, %x {fastmathFlags = #llvm.fastmath<contract>} : f32
  %0 = arith.addf %x, %x fastmath<contract> : f32
  // CHECK: %[[M:.*]] = llvm.intr.maximum(%[[A]], %x) : (f32, f32) -> f32
  %1 = arith.maximumf %0, %x : f32
  // CHECK: llvm.fpext %v : vector<4xf16> to vector<4xf32>
  %2 = arith.extf %v : vector<4xf16> to vector<4xf32>
  // CHECK: llvm.fptosi %[[M]] : f32 to i32
  %3 = arith.fptosi %1 : f32 to i32
  // CHECK: %[[P:.*]] = llvm.fcmp "olt" %x, %[[M]] : f32
  %4 = arith.cmpf olt, %x, %1 : f32
  // CHECK: llvm.select %[[P]], %x, %[[M]] : i1, f32
  %5 = arith.select %4, %x, %1 : f32
  func.return %5 : f32
}
