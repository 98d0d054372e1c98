// RUN: %fly-opt --verify-diagnostics --split-input-file %s

llvm.func @f(%p: !llvm.ptr) {
  // expected-error @+1 {{expected alignment for atomic access}}
  %0 = llvm.load %p atomic acquire : !llvm.ptr -> i32
  llvm.return
}

// -----

llvm.func @f(%p: !llvm.ptr) {
  // expected-error @+1 {{expected one of unordered, monotonic, acquire, release, acq_rel, seq_cst, got 'relaxed'}}
  llvm.fence relaxed
  llvm.return
}

// -----

llvm.func @f(%p: !llvm.ptr, %i: i32) {
  // expected-error @+1 {{expected 2 dynamic indices, got 1}}
  %0 = "llvm.getelementptr"(%p, %i) <{elem_type = i32, noWrapFlags = 0 : i32, rawConstantIndices = array<i32: -2147483648, -2147483648>}> : (!llvm.ptr, i32) -> !llvm.ptr
  llvm.return
}

// -----

// expected-error @+1 {{entry block arguments do not match the function type}}
"llvm.func"() <{CConv = #llvm.cconv<ccc>, function_type = !llvm.func<void (i32)>, linkage = #llvm.linkage<external>, sym_name = "f", visibility_ = 0 : i64}> ({
^bb0(%x: f32):
  llvm.return
}) : () -> ()

// -----

llvm.func @f(%x: i32) {
  // expected-error @+1 {{expected 2 operands, got 1}}
  %0 = llvm.intr.smax(%x) : (i32) -> i32
  llvm.return
}

// -----

llvm.func @f(%v: vector<4xf32>, %i: i32) {
  // expected-error @+1 {{failed to verify that result type matches vector element type}}
  %0 = "llvm.extractelement"(%v, %i) : (vector<4xf32>, i32) -> i32
  llvm.return
}

// -----

// expected-error @+1 {{unknown calling convention 'mycc'}}
llvm.func mycc @f()

// -----

// expected-error @+1 {{must have at least one object}}
gpu.binary @b []

// -----

llvm.func @f(%x: f32) {
  // expected-error @+1 {{expected one of towardzero, tonearest, upward, downward, tonearestaway, dynamic, got 'sideways'}}
  %0 = llvm.intr.experimental.constrained.fadd %x, %x sideways ignore : f32
  llvm.return
}

// -----

llvm.func @f(%x: f32) {
  // expected-error @+1 {{expected 2 operands, got 1}}
  %0 = llvm.intr.experimental.constrained.fadd %x upward ignore : f32
  llvm.return
}

// -----

llvm.func @f(%x: f32) {
  // expected-error @+1 {{'roundingmode' must be one of none, got 2}}
  %0 = "llvm.intr.experimental.constrained.fpext"(%x) <{fpExceptionBehavior = 0 : i64, roundingmode = 2 : i64}> : (f32) -> f64
  llvm.return
}
