// RUN: %fly-opt --convert-cf-to-llvm %s | FileCheck %s

// Arguments of blocks get types of llvm; a cast stands where the value is still used with its own.
// CHECK-LABEL: func.func @branches(%c: i1, %i: index) -> index
func.func @branches(%c: i1, %i: index) -> index {
  // CHECK-NEXT: %[[I:.*]] = builtin.unrealized_conversion_cast %i : index to i64
  // CHECK-NEXT: llvm.cond_br %c, ^[[A:bb[0-9]+]](%[[I]] : i64), ^[[B:bb[0-9]+]]
  cf.cond_br %c, ^a(%i : index), ^b
// CHECK-NEXT: ^[[A]](%x: i64):
^a(%x: index):
  // CHECK-NEXT: llvm.br ^[[B]] {loop_annotation = #llvm.loop_annotation<unroll = <full = true>>}
  cf.br ^b {llvm.loop_annotation = #llvm.loop_annotation<unroll = <full = true>>}
^b:
  func.return %i : index
}

// CHECK-LABEL: func.func @switch(%k: i32, %a: i32)
func.func @switch(%k: i32, %a: i32) {
  // CHECK-NEXT: llvm.switch %k : i32, ^[[D:bb[0-9]+]] [1: ^[[O:bb[0-9]+]](%a : i32), 7: ^[[D]]]
  cf.switch %k : i32, [
    default: ^d,
    1: ^o(%a : i32),
    7: ^d
  ]
^o(%x: i32):
  // CHECK: llvm.br ^[[D]]
  cf.br ^d
^d:
  func.return
}

// An assertion that does not hold ends the process.
// CHECK-LABEL: func.func @assert(%c: i1)
func.func @assert(%c: i1) {
  // CHECK-NEXT: llvm.cond_br %c, ^[[ON:bb[0-9]+]], ^[[BAD:bb[0-9]+]]
  // CHECK: ^[[ON]]:
  // CHECK-NEXT: return
  // CHECK: ^[[BAD]]:
  // CHECK-NEXT: llvm.call @abort() : () -> ()
  // CHECK-NEXT: llvm.unreachable
  cf.assert %c, "must hold"
  func.return
}
