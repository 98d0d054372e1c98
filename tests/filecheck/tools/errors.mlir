// RUN: not %fly-opt --split-input-file %s 2>&1 | FileCheck %s
// RUN: not %fly-opt --verify-diagnostics --split-input-file %s 2>&1 | FileCheck %s --check-prefix=VERIFY


// CHECK: {{.*}}errors.mlir:9:8: error: 'fly.get_scalar' op inferred type(s) 'i32'
// CHECK-NEXT: %s = fly.get_scalar(%t)
// CHECK-NEXT: {{^       \^$}}
func.func @a(%t: !fly.int_tuple<?>) {
  %s = fly.get_scalar(%t) : (!fly.int_tuple<?>) -> i64
  func.return
}
// -----
// CHECK: {{.*}}errors.mlir:14:{{.*}}: error: {{.*}}
func.func @b(%t: !fly.int_tuple<(>) {
  func.return
}
// -----
// VERIFY: errors.mlir:{{.*}}: error: unexpected error: 'fly.get_scalar' op inferred
// VERIFY: errors.mlir:20: error: expected error "not here" was not produced
func.func @c() {
  // expected-error @above {{not here}}
  func.return
}
