// RUN: %fly-opt --convert-func-to-llvm %s | FileCheck %s

// CHECK: llvm.func @declared(f32) -> f32
func.func private @declared(f32) -> f32

// Several results travel in a struct.
// CHECK-LABEL: llvm.func @pair(%a: i32, %i: i64) -> !llvm.struct<(i32, i64)>
func.func @pair(%a: i32, %i: index) -> (i32, index) {
  // CHECK-NEXT: %[[U:.*]] = llvm.mlir.undef : !llvm.struct<(i32, i64)>
  // CHECK-NEXT: %[[A:.*]] = llvm.insertvalue %a, %[[U]][0] : !llvm.struct<(i32, i64)>
  // CHECK-NEXT: %[[B:.*]] = llvm.insertvalue %i, %[[A]][1] : !llvm.struct<(i32, i64)>
  // CHECK-NEXT: llvm.return %[[B]] : !llvm.struct<(i32, i64)>
  func.return %a, %i : i32, index
}

// CHECK-LABEL: llvm.func @caller(%a: i32, %i: i64, %x: f32) -> i32
func.func @caller(%a: i32, %i: index, %x: f32) -> i32 {
  // CHECK-NEXT: %[[P:.*]] = llvm.call @pair(%a, %i) : (i32, i64) -> !llvm.struct<(i32, i64)>
  // CHECK-NEXT: %[[R:.*]] = llvm.extractvalue %[[P]][0] : !llvm.struct<(i32, i64)>
  %0, %1 = func.call @pair(%a, %i) : (i32, index) -> (i32, index)
  // CHECK: llvm.call @declared(%x) : (f32) -> f32
  %2 = func.call @declared(%x) : (f32) -> f32
  // CHECK: llvm.return %[[R]] : i32
  func.return %0 : i32
}

// CHECK-LABEL: llvm.func @exported(%a: i32) attributes {llvm.emit_c_interface}
// CHECK: llvm.func @_mlir_ciface_exported(%{{.*}}: i32) attributes {llvm.emit_c_interface}
// CHECK-NEXT: llvm.call @exported(%{{.*}}) : (i32) -> ()
func.func @exported(%a: i32) attributes {llvm.emit_c_interface} {
  func.return
}
