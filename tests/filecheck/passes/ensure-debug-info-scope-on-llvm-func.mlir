// RUN: %fly-opt --ensure-debug-info-scope-on-llvm-func --mlir-print-debuginfo %s | FileCheck %s
// RUN: not %fly-opt --ensure-debug-info-scope-on-llvm-func='emission-kind=Some' %s 2>&1 | FileCheck %s --check-prefix=KIND

// KIND: fly-opt: option 'emission-kind' is one of None, Full, LineTablesOnly, DebugDirectivesOnly, got 'Some'

// The scope is the place the function was written at; its emission kind is the compile unit's.
// CHECK: llvm.func @f()
// CHECK: } loc(fused<#llvm.di_subprogram<id = distinct[3]<>, compileUnit = #llvm.di_compile_unit<id = distinct[0]<>, sourceLanguage = DW_LANG_Python, file = #llvm.di_file<"ensure-debug-info-scope-on-llvm-func.mlir" in "{{.*}}">, producer = "flydsl", isOptimized = true, emissionKind = LineTablesOnly>
// CHECK-SAME: name = "f", linkageName = "f"
// CHECK-SAME: line = 11, scopeLine = 11, subprogramFlags = "Definition|Optimized"
llvm.func @f() {
  llvm.return
}
