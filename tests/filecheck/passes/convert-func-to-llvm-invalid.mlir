// RUN: not %fly-opt --convert-func-to-llvm='index-bitwidth=32' %s 2>&1 | FileCheck %s

// CHECK: fly-opt: option 'index-bitwidth' is 0 or 64, got 32: an index has 64 bits on every target
func.func @f() {
  func.return
}
