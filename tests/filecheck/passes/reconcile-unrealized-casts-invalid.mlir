// RUN: %fly-opt --reconcile-unrealized-casts --verify-diagnostics %s

func.func @stays(%a: i64) -> index {
  // expected-error @+1 {{failed to legalize operation 'builtin.unrealized_conversion_cast' that was explicitly marked illegal: i64 to index}}
  %0 = builtin.unrealized_conversion_cast %a : i64 to index
  func.return %0 : index
}
