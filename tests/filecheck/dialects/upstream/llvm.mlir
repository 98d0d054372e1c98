// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s

// The llvm dialect. Text forms are upstream's.

// CHECK: llvm.func @printf(!llvm.ptr, ...) -> i32
llvm.func @printf(!llvm.ptr, ...) -> i32
// CHECK: llvm.func internal @helper(%{{.*}}: !llvm.ptr {llvm.align = 16 : i64, llvm.noundef}, %{{.*}}: i32) -> (i32 {llvm.noundef}) attributes {passthrough = ["noinline", ["key", "value"]]} {
llvm.func internal @helper(%p: !llvm.ptr {llvm.align = 16 : i64, llvm.noundef}, %i: i32) -> (i32 {llvm.noundef}) attributes {passthrough = ["noinline", ["key", "value"]]} {
  // CHECK: %{{.*}} = llvm.call @printf(%{{.*}}, %{{.*}}) vararg(!llvm.func<i32 (ptr, ...)>) : (!llvm.ptr, i32) -> i32
  %0 = llvm.call @printf(%p, %i) vararg(!llvm.func<i32 (ptr, ...)>) : (!llvm.ptr, i32) -> i32
  // CHECK: llvm.return %{{.*}} : i32
  llvm.return %0 : i32
}
// CHECK: llvm.func protected @declared(i32, !llvm.struct<packed (i32, i64)>)
llvm.func protected @declared(i32, !llvm.struct<packed (i32, i64)>)
// CHECK: llvm.func @values(%{{.*}}: i32, %{{.*}}: i64, %{{.*}}: f32, %{{.*}}: i1, %{{.*}}: vector<4xf32>, %{{.*}}: vector<4xi32>) {
llvm.func @values(%i: i32, %l: i64, %f: f32, %b: i1, %v: vector<4xf32>, %w: vector<4xi32>) {
  // CHECK: %{{.*}} = llvm.mlir.constant(7 : i32) : i32
  %0 = llvm.mlir.constant(7 : i32) : i32
  // CHECK: %{{.*}} = llvm.mlir.poison : f32
  %1 = llvm.mlir.poison : f32
  // CHECK: %{{.*}} = llvm.mlir.undef : !llvm.struct<(i32, f32)>
  %2 = llvm.mlir.undef : !llvm.struct<(i32, f32)>
  // CHECK: %{{.*}} = llvm.mlir.zero : !llvm.ptr
  %3 = llvm.mlir.zero : !llvm.ptr
  // CHECK: %{{.*}} = llvm.add %{{.*}}, %{{.*}} overflow<nsw,nuw> : i32
  %4 = llvm.add %i, %0 overflow<nsw, nuw> : i32
  // CHECK: %{{.*}} = llvm.udiv %{{.*}}, %{{.*}} : i32
  %5 = llvm.udiv %i, %0 : i32
  // CHECK: %{{.*}} = llvm.icmp "slt" %{{.*}}, %{{.*}} : i32
  %6 = llvm.icmp "slt" %i, %0 : i32
  // CHECK: %{{.*}} = llvm.fadd %{{.*}}, %{{.*}} {fastmathFlags = #llvm.fastmath<contract>} : f32
  %7 = llvm.fadd %f, %f {fastmathFlags = #llvm.fastmath<contract>} : f32
  // CHECK: %{{.*}} = llvm.fcmp "olt" %{{.*}}, %{{.*}} : f32
  %8 = llvm.fcmp "olt" %f, %f : f32
  // CHECK: %{{.*}} = llvm.select %{{.*}}, %{{.*}}, %{{.*}} : i1, f32
  %9 = llvm.select %b, %f, %7 : i1, f32
  // CHECK: %{{.*}} = llvm.fptosi %{{.*}} : f32 to i32
  %10 = llvm.fptosi %f : f32 to i32
  // CHECK: %{{.*}} = llvm.fptoui %{{.*}} : f32 to i32
  %11 = llvm.fptoui %f : f32 to i32
  // CHECK: %{{.*}} = llvm.uitofp %{{.*}} : i32 to f32
  %12 = llvm.uitofp %i : i32 to f32
  // CHECK: %{{.*}} = llvm.freeze %{{.*}} : i32
  %13 = llvm.freeze %i : i32
  // CHECK: %{{.*}} = llvm.extractelement %{{.*}}[%{{.*}} : i32] : vector<4xf32>
  %14 = llvm.extractelement %v[%i : i32] : vector<4xf32>
  // CHECK: %{{.*}} = llvm.insertelement %{{.*}}, %{{.*}}[%{{.*}} : i32] : vector<4xf32>
  %15 = llvm.insertelement %f, %v[%i : i32] : vector<4xf32>
  // CHECK: %{{.*}} = llvm.shufflevector %{{.*}}, %{{.*}} [3, 2, 1, 0] : vector<4xf32>
  %16 = llvm.shufflevector %v, %v [3, 2, 1, 0] : vector<4xf32>
  // CHECK: %{{.*}} = llvm.insertvalue %{{.*}}, %{{.*}}[0] : !llvm.struct<(i32, f32)>
  %17 = llvm.insertvalue %i, %2[0] : !llvm.struct<(i32, f32)>
  // CHECK: %{{.*}} = llvm.extractvalue %{{.*}}[1] : !llvm.struct<(i32, f32)>
  %18 = llvm.extractvalue %17[1] : !llvm.struct<(i32, f32)>
  // CHECK: %{{.*}} = llvm.inline_asm has_side_effects "nop", "=r,r" %{{.*}} : (i32) -> i32
  %19 = llvm.inline_asm has_side_effects "nop", "=r,r" %i : (i32) -> i32
  // CHECK: %{{.*}} = llvm.call_intrinsic "llvm.amdgcn.readfirstlane"(%{{.*}}) : (i32) -> i32
  %20 = llvm.call_intrinsic "llvm.amdgcn.readfirstlane"(%i) : (i32) -> i32
  // CHECK: llvm.return
  llvm.return
}
// CHECK: llvm.func @intrinsics(%{{.*}}: i32, %{{.*}}: f32, %{{.*}}: vector<4xf32>, %{{.*}}: vector<4xi32>) {
llvm.func @intrinsics(%i: i32, %f: f32, %v: vector<4xf32>, %w: vector<4xi32>) {
  // CHECK: %{{.*}} = llvm.intr.fabs(%{{.*}}) {fastmathFlags = #llvm.fastmath<fast>} : (f32) -> f32
  %0 = llvm.intr.fabs(%f) {fastmathFlags = #llvm.fastmath<fast>} : (f32) -> f32
  // CHECK: %{{.*}} = llvm.intr.sqrt(%{{.*}}) : (vector<4xf32>) -> vector<4xf32>
  %1 = llvm.intr.sqrt(%v) : (vector<4xf32>) -> vector<4xf32>
  // CHECK: %{{.*}} = llvm.intr.fma(%{{.*}}, %{{.*}}, %{{.*}}) : (f32, f32, f32) -> f32
  %2 = llvm.intr.fma(%f, %f, %f) : (f32, f32, f32) -> f32
  // CHECK: %{{.*}} = llvm.intr.maximum(%{{.*}}, %{{.*}}) : (f32, f32) -> f32
  %3 = llvm.intr.maximum(%f, %f) : (f32, f32) -> f32
  // CHECK: %{{.*}} = llvm.intr.minnum(%{{.*}}, %{{.*}}) : (f32, f32) -> f32
  %4 = llvm.intr.minnum(%f, %f) : (f32, f32) -> f32
  // CHECK: %{{.*}} = llvm.intr.smax(%{{.*}}, %{{.*}}) : (i32, i32) -> i32
  %5 = llvm.intr.smax(%i, %i) : (i32, i32) -> i32
  // CHECK: %{{.*}} = llvm.intr.umin(%{{.*}}, %{{.*}}) : (vector<4xi32>, vector<4xi32>) -> vector<4xi32>
  %6 = llvm.intr.umin(%w, %w) : (vector<4xi32>, vector<4xi32>) -> vector<4xi32>
  // CHECK: %{{.*}} = llvm.intr.ctpop(%{{.*}}) : (i32) -> i32
  %7 = llvm.intr.ctpop(%i) : (i32) -> i32
  // CHECK: %{{.*}} = "llvm.intr.ctlz"(%{{.*}}) <{is_zero_poison = false}> : (i32) -> i32
  %8 = "llvm.intr.ctlz"(%i) <{is_zero_poison = false}> : (i32) -> i32
  // CHECK: %{{.*}} = "llvm.intr.abs"(%{{.*}}) <{is_int_min_poison = false}> : (i32) -> i32
  %9 = "llvm.intr.abs"(%i) <{is_int_min_poison = false}> : (i32) -> i32
  // CHECK: %{{.*}} = "llvm.intr.is.fpclass"(%{{.*}}) <{bit = 3 : i32}> : (f32) -> i1
  %10 = "llvm.intr.is.fpclass"(%f) <{bit = 3 : i32}> : (f32) -> i1
  // CHECK: %{{.*}} = llvm.intr.powi(%{{.*}}, %{{.*}}) : (f32, i32) -> f32
  %11 = llvm.intr.powi(%f, %i) : (f32, i32) -> f32
  // CHECK: %{{.*}} = "llvm.intr.vector.reduce.add"(%{{.*}}) : (vector<4xi32>) -> i32
  %12 = "llvm.intr.vector.reduce.add"(%w) : (vector<4xi32>) -> i32
  // CHECK: %{{.*}} = llvm.intr.vector.reduce.fmax(%{{.*}}) : (vector<4xf32>) -> f32
  %13 = llvm.intr.vector.reduce.fmax(%v) : (vector<4xf32>) -> f32
  // CHECK: %{{.*}} = llvm.intr.sincos(%{{.*}}) : (f32) -> !llvm.struct<(f32, f32)>
  %14 = llvm.intr.sincos(%f) : (f32) -> !llvm.struct<(f32, f32)>
  // CHECK: %{{.*}} = llvm.intr.tanh(%{{.*}}) : (f32) -> f32
  %15 = llvm.intr.tanh(%f) : (f32) -> f32
  // CHECK: %{{.*}} = llvm.intr.atan2(%{{.*}}, %{{.*}}) : (f32, f32) -> f32
  %16 = llvm.intr.atan2(%f, %f) : (f32, f32) -> f32
  // CHECK: llvm.return
  llvm.return
}
// CHECK: llvm.func @memory(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<5>, %{{.*}}: i64, %{{.*}}: i32, %{{.*}}: f32) {
llvm.func @memory(%p: !llvm.ptr<1>, %q: !llvm.ptr<5>, %n: i64, %i: i32, %f: f32) {
  // CHECK: %{{.*}} = llvm.alloca %{{.*}} x f32 {alignment = 16 : i64} : (i64) -> !llvm.ptr<5>
  %0 = llvm.alloca %n x f32 {alignment = 16 : i64} : (i64) -> !llvm.ptr<5>
  // CHECK: %{{.*}} = llvm.getelementptr %{{.*}}[%{{.*}}] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  %1 = llvm.getelementptr %p[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  // CHECK: %{{.*}} = llvm.getelementptr inbounds|nuw %{{.*}}[4, %{{.*}}] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, vector<4xf32>
  %2 = llvm.getelementptr inbounds|nuw %p[4, %i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, vector<4xf32>
  // CHECK: %{{.*}} = llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> f32
  %3 = llvm.load %1 {alignment = 4 : i64} : !llvm.ptr<1> -> f32
  // CHECK: %{{.*}} = llvm.load volatile %{{.*}} atomic syncscope("agent") monotonic {alignment = 4 : i64} : !llvm.ptr<1> -> f32
  %4 = llvm.load volatile %1 atomic syncscope("agent") monotonic {alignment = 4 : i64} : !llvm.ptr<1> -> f32
  // CHECK: %{{.*}} = llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<1> -> f32
  %5 = llvm.load %1 invariant {alignment = 4 : i64} : !llvm.ptr<1> -> f32
  // CHECK: llvm.store %{{.*}}, %{{.*}} {alignment = 4 : i64, nontemporal} : f32, !llvm.ptr<1>
  llvm.store %f, %1 {alignment = 4 : i64, nontemporal} : f32, !llvm.ptr<1>
  // CHECK: llvm.store volatile %{{.*}}, %{{.*}} atomic release {alignment = 4 : i64} : f32, !llvm.ptr<1>
  llvm.store volatile %f, %1 atomic release {alignment = 4 : i64} : f32, !llvm.ptr<1>
  // CHECK: %{{.*}} = llvm.atomicrmw add %{{.*}}, %{{.*}} syncscope("agent") monotonic : !llvm.ptr<1>, i32
  %6 = llvm.atomicrmw add %1, %i syncscope("agent") monotonic : !llvm.ptr<1>, i32
  // CHECK: %{{.*}} = llvm.cmpxchg weak volatile %{{.*}}, %{{.*}}, %{{.*}} syncscope("agent") acq_rel monotonic {alignment = 4 : i64} : !llvm.ptr<1>, i32
  %7 = llvm.cmpxchg weak volatile %1, %i, %i syncscope("agent") acq_rel monotonic {alignment = 4 : i64} : !llvm.ptr<1>, i32
  // CHECK: llvm.fence syncscope("workgroup") release
  llvm.fence syncscope("workgroup") release
  // CHECK: %{{.*}} = llvm.addrspacecast %{{.*}} : !llvm.ptr<1> to !llvm.ptr
  %8 = llvm.addrspacecast %p : !llvm.ptr<1> to !llvm.ptr
  // CHECK: %{{.*}} = llvm.ptrtoint %{{.*}} : !llvm.ptr to i64
  %9 = llvm.ptrtoint %8 : !llvm.ptr to i64
  // CHECK: %{{.*}} = llvm.inttoptr %{{.*}} : i64 to !llvm.ptr<3>
  %10 = llvm.inttoptr %9 : i64 to !llvm.ptr<3>
  // CHECK: llvm.return
  llvm.return
}
// CHECK: llvm.func @branches(%{{.*}}: i1, %{{.*}}: i32, %{{.*}}: f32) {
llvm.func @branches(%b: i1, %i: i32, %f: f32) {
  // CHECK: llvm.cond_br %{{.*}}, ^{{.*}}(%{{.*}} : f32), ^{{.*}}
  llvm.cond_br %b, ^one(%f : f32), ^two
^one(%x: f32):
  // CHECK: llvm.switch %{{.*}} : i32, ^{{.*}} [1: ^{{.*}}(%{{.*}} : i32), 2: ^{{.*}}]
  llvm.switch %i : i32, ^two [1: ^three(%i : i32), 2: ^two]
^three(%y: i32):
  // CHECK: llvm.br ^{{.*}} {loop_annotation = #llvm.loop_annotation<unroll = <count = 4 : i32>>}
  llvm.br ^two {loop_annotation = #llvm.loop_annotation<unroll = <count = 4 : i32>>}
^two:
  // CHECK: llvm.return
  llvm.return
}
