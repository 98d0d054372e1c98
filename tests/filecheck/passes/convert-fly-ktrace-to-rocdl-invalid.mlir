// RUN: %fly-opt --verify-diagnostics --split-input-file --convert-fly-ktrace-to-rocdl %s

func.func @f() {
  // expected-error @+1 {{the token of 'fly_ktrace.range_start' is an integer, got 'f32'}}
  %t = fly_ktrace.range_start "a" -> f32
  fly_ktrace.range_stop %t, "a" : f32
  func.return
}
