// RUN: %fly-opt --verify-diagnostics --split-input-file %s

func.func @f(%a: i32) {
  // expected-error @+1 {{'fly_ktrace.mark' op operand #0 must be 64-bit signless integer, but got 'i32'}}
  fly_ktrace.mark "a" payload %a : i32
  func.return
}
// -----
func.func @f(%a: i32) {
  // expected-error @+1 {{'fly_ktrace.range_stop' op operand #1 must be 64-bit signless integer, but got 'i32'}}
  fly_ktrace.range_stop %a, "a" payload %a : i32 : i32
  func.return
}
// -----
func.func @f() {
  // expected-error @+1 {{event_name}}
  "fly_ktrace.mark"() : () -> ()
  func.return
}
// -----
func.func @f() {
  // The string is missed where the next line begins.
  // expected-error @+2 {{string literal expected}}
  fly_ktrace.range_push
  func.return
}
