// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s

// Float operations that say how they round and what may be seen of traps, as `mlir-translate --import-llvm` writes them.

// CHECK-LABEL: llvm.func @every
llvm.func @every(%x: f32, %d: f64, %i: i32, %v: vector<2xf32>) {
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.acos %{{.*}} towardzero ignore : f32
  %0 = llvm.intr.experimental.constrained.acos %x towardzero ignore : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.asin %{{.*}} tonearest maytrap : f32
  %1 = llvm.intr.experimental.constrained.asin %x tonearest maytrap : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.atan %{{.*}} upward strict : f32
  %2 = llvm.intr.experimental.constrained.atan %x upward strict : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.cos %{{.*}} downward ignore : f32
  %3 = llvm.intr.experimental.constrained.cos %x downward ignore : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.cosh %{{.*}} tonearestaway maytrap : f32
  %4 = llvm.intr.experimental.constrained.cosh %x tonearestaway maytrap : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.exp %{{.*}} dynamic strict : f32
  %5 = llvm.intr.experimental.constrained.exp %x dynamic strict : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.exp2 %{{.*}} towardzero ignore : f32
  %6 = llvm.intr.experimental.constrained.exp2 %x towardzero ignore : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.log %{{.*}} tonearest maytrap : f32
  %7 = llvm.intr.experimental.constrained.log %x tonearest maytrap : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.log10 %{{.*}} upward strict : f32
  %8 = llvm.intr.experimental.constrained.log10 %x upward strict : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.log2 %{{.*}} downward ignore : f32
  %9 = llvm.intr.experimental.constrained.log2 %x downward ignore : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.nearbyint %{{.*}} tonearestaway maytrap : f32
  %10 = llvm.intr.experimental.constrained.nearbyint %x tonearestaway maytrap : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.rint %{{.*}} dynamic strict : f32
  %11 = llvm.intr.experimental.constrained.rint %x dynamic strict : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.sin %{{.*}} towardzero ignore : f32
  %12 = llvm.intr.experimental.constrained.sin %x towardzero ignore : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.sinh %{{.*}} tonearest maytrap : f32
  %13 = llvm.intr.experimental.constrained.sinh %x tonearest maytrap : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.sqrt %{{.*}} upward strict : f32
  %14 = llvm.intr.experimental.constrained.sqrt %x upward strict : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.tan %{{.*}} downward ignore : f32
  %15 = llvm.intr.experimental.constrained.tan %x downward ignore : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.tanh %{{.*}} tonearestaway maytrap : f32
  %16 = llvm.intr.experimental.constrained.tanh %x tonearestaway maytrap : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.ceil %{{.*}} strict : f32
  %17 = llvm.intr.experimental.constrained.ceil %x strict : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.floor %{{.*}} ignore : f32
  %18 = llvm.intr.experimental.constrained.floor %x ignore : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.round %{{.*}} maytrap : f32
  %19 = llvm.intr.experimental.constrained.round %x maytrap : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.roundeven %{{.*}} strict : f32
  %20 = llvm.intr.experimental.constrained.roundeven %x strict : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.trunc %{{.*}} ignore : f32
  %21 = llvm.intr.experimental.constrained.trunc %x ignore : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.atan2 %{{.*}}, %{{.*}} tonearestaway maytrap : f32
  %22 = llvm.intr.experimental.constrained.atan2 %x, %x tonearestaway maytrap : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.fadd %{{.*}}, %{{.*}} dynamic strict : f32
  %23 = llvm.intr.experimental.constrained.fadd %x, %x dynamic strict : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.fdiv %{{.*}}, %{{.*}} towardzero ignore : f32
  %24 = llvm.intr.experimental.constrained.fdiv %x, %x towardzero ignore : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.fmul %{{.*}}, %{{.*}} tonearest maytrap : f32
  %25 = llvm.intr.experimental.constrained.fmul %x, %x tonearest maytrap : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.frem %{{.*}}, %{{.*}} upward strict : f32
  %26 = llvm.intr.experimental.constrained.frem %x, %x upward strict : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.fsub %{{.*}}, %{{.*}} downward ignore : f32
  %27 = llvm.intr.experimental.constrained.fsub %x, %x downward ignore : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.pow %{{.*}}, %{{.*}} tonearestaway maytrap : f32
  %28 = llvm.intr.experimental.constrained.pow %x, %x tonearestaway maytrap : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.maximum %{{.*}}, %{{.*}} strict : f32
  %29 = llvm.intr.experimental.constrained.maximum %x, %x strict : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.maxnum %{{.*}}, %{{.*}} ignore : f32
  %30 = llvm.intr.experimental.constrained.maxnum %x, %x ignore : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.minimum %{{.*}}, %{{.*}} maytrap : f32
  %31 = llvm.intr.experimental.constrained.minimum %x, %x maytrap : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.minnum %{{.*}}, %{{.*}} strict : f32
  %32 = llvm.intr.experimental.constrained.minnum %x, %x strict : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.fma %{{.*}}, %{{.*}}, %{{.*}} downward ignore : f32
  %33 = llvm.intr.experimental.constrained.fma %x, %x, %x downward ignore : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.fmuladd %{{.*}}, %{{.*}}, %{{.*}} tonearestaway maytrap : f32
  %34 = llvm.intr.experimental.constrained.fmuladd %x, %x, %x tonearestaway maytrap : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.ldexp %{{.*}}, %{{.*}} dynamic strict : (f32, i32) -> f32
  %35 = llvm.intr.experimental.constrained.ldexp %x, %i dynamic strict : (f32, i32) -> f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.powi %{{.*}}, %{{.*}} towardzero ignore : (f32, i32) -> f32
  %36 = llvm.intr.experimental.constrained.powi %x, %i towardzero ignore : (f32, i32) -> f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.fptrunc %{{.*}} tonearest maytrap : f64 to f32
  %37 = llvm.intr.experimental.constrained.fptrunc %d tonearest maytrap : f64 to f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.llrint %{{.*}} upward strict : f32 to i64
  %38 = llvm.intr.experimental.constrained.llrint %x upward strict : f32 to i64
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.lrint %{{.*}} downward ignore : f32 to i32
  %39 = llvm.intr.experimental.constrained.lrint %x downward ignore : f32 to i32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.sitofp %{{.*}} tonearestaway maytrap : i32 to f32
  %40 = llvm.intr.experimental.constrained.sitofp %i tonearestaway maytrap : i32 to f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.uitofp %{{.*}} dynamic strict : i32 to f64
  %41 = llvm.intr.experimental.constrained.uitofp %i dynamic strict : i32 to f64
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.fpext %{{.*}} ignore : f32 to f64
  %42 = llvm.intr.experimental.constrained.fpext %x ignore : f32 to f64
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.fptosi %{{.*}} maytrap : f32 to i32
  %43 = llvm.intr.experimental.constrained.fptosi %x maytrap : f32 to i32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.fptoui %{{.*}} strict : f32 to i32
  %44 = llvm.intr.experimental.constrained.fptoui %x strict : f32 to i32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.llround %{{.*}} ignore : f32 to i64
  %45 = llvm.intr.experimental.constrained.llround %x ignore : f32 to i64
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.lround %{{.*}} maytrap : f32 to i32
  %46 = llvm.intr.experimental.constrained.lround %x maytrap : f32 to i32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.fcmp olt %{{.*}}, %{{.*}} strict : f32
  %47 = llvm.intr.experimental.constrained.fcmp olt %x, %x strict : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.fcmps une %{{.*}}, %{{.*}} ignore : f32
  %48 = llvm.intr.experimental.constrained.fcmps une %x, %x ignore : f32
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.fadd %{{.*}}, %{{.*}} tonearest ignore {fastmathFlags = #llvm.fastmath<nnan>} : vector<2xf32>
  %49 = llvm.intr.experimental.constrained.fadd %v, %v tonearest ignore {fastmathFlags = #llvm.fastmath<nnan>} : vector<2xf32>
  // CHECK: %{{.*}} = llvm.intr.experimental.constrained.fcmp oeq %{{.*}}, %{{.*}} ignore : vector<2xf32>
  %50 = llvm.intr.experimental.constrained.fcmp oeq %v, %v ignore : vector<2xf32>
  // CHECK: llvm.return
  llvm.return
}
