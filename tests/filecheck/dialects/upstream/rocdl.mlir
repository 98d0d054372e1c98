// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s

// AMD's instructions. Text forms are upstream's.

// CHECK: llvm.func @ids() {
llvm.func @ids() {
  // CHECK: %{{.*}} = rocdl.workitem.id.x range <i32, 0, 128> : i32
  %0 = rocdl.workitem.id.x range <i32, 0, 128> : i32
  // CHECK: %{{.*}} = rocdl.workgroup.id.y : i32
  %1 = rocdl.workgroup.id.y : i32
  // CHECK: %{{.*}} = rocdl.workgroup.dim.x : i64
  %2 = rocdl.workgroup.dim.x : i64
  // CHECK: %{{.*}} = rocdl.grid.dim.x : i64
  %3 = rocdl.grid.dim.x : i64
  // CHECK: %{{.*}} = rocdl.cluster.id.x : i32
  %4 = rocdl.cluster.id.x : i32
  // CHECK: %{{.*}} = rocdl.wavefrontsize : i32
  %5 = rocdl.wavefrontsize : i32
  // CHECK: llvm.return
  llvm.return
}
// CHECK: llvm.func @lanes(%{{.*}}: i32, %{{.*}}: i1, %{{.*}}: f32) {
llvm.func @lanes(%i: i32, %b: i1, %f: f32) {
  // CHECK: %{{.*}} = llvm.mlir.constant(31 : i32) : i32
  %c = llvm.mlir.constant(31 : i32) : i32
  // CHECK: %{{.*}} = rocdl.mbcnt.lo %{{.*}}, %{{.*}} {res_attrs = [{llvm.noundef, llvm.range = #llvm.constant_range<i32, 0, 32>}]} : (i32, i32) -> i32
  %0 = rocdl.mbcnt.lo %i, %i {res_attrs = [{llvm.noundef, llvm.range = #llvm.constant_range<i32, 0, 32>}]} : (i32, i32) -> i32
  // CHECK: %{{.*}} = rocdl.ds_swizzle %{{.*}}, %{{.*}} : (i32, i32) -> i32
  %1 = rocdl.ds_swizzle %i, %c : (i32, i32) -> i32
  // CHECK: %{{.*}} = rocdl.ds_bpermute %{{.*}}, %{{.*}} : (i32, i32) -> i32
  %2 = rocdl.ds_bpermute %i, %i : (i32, i32) -> i32
  // CHECK: %{{.*}} = rocdl.readfirstlane %{{.*}} : f32
  %3 = rocdl.readfirstlane %f : f32
  // CHECK: %{{.*}} = rocdl.readlane %{{.*}}, %{{.*}} : (f32, i32) -> f32
  %4 = rocdl.readlane %f, %i : (f32, i32) -> f32
  // CHECK: %{{.*}} = rocdl.ballot %{{.*}} : i64
  %5 = rocdl.ballot %b : i64
  // CHECK: %{{.*}} = rocdl.permlane32.swap %{{.*}}, %{{.*}}, false, true : (i32, i32) -> !llvm.struct<(i32, i32)>
  %6 = rocdl.permlane32.swap %i, %i, false, true : (i32, i32) -> !llvm.struct<(i32, i32)>
  // CHECK: %{{.*}} = rocdl.update.dpp %{{.*}}, %{{.*}} with 1, 15, 15, false : i32
  %7 = rocdl.update.dpp %i, %i with 1, 15, 15, false : i32
  // CHECK: llvm.return
  llvm.return
}
// CHECK: llvm.func @memory(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<3>, %{{.*}}: i16, %{{.*}}: i64, %{{.*}}: i32) {
llvm.func @memory(%p: !llvm.ptr<1>, %s: !llvm.ptr<3>, %h: i16, %l: i64, %i: i32) {
  // CHECK: %{{.*}} = rocdl.make.buffer.rsrc %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : <1> to <8>
  %0 = rocdl.make.buffer.rsrc %p, %h, %l, %i : <1> to <8>
  // CHECK: %{{.*}} = rocdl.ds.read.tr16.b64 %{{.*}} : <3> -> vector<4xi16>
  %1 = rocdl.ds.read.tr16.b64 %s : <3> -> vector<4xi16>
  // CHECK: %{{.*}} = rocdl.ds.read.tr6.b96 %{{.*}} : <3> -> vector<3xi32>
  %2 = rocdl.ds.read.tr6.b96 %s : <3> -> vector<3xi32>
  // CHECK: rocdl.global.prefetch %{{.*}}, scope 0 : !llvm.ptr<1>
  rocdl.global.prefetch %p, scope 0 : !llvm.ptr<1>
  // CHECK: rocdl.global.load.async.to.lds.b32 %{{.*}}, %{{.*}}, 0, 0 : !llvm.ptr<1>, !llvm.ptr<3>
  rocdl.global.load.async.to.lds.b32 %p, %s, 0, 0 : !llvm.ptr<1>, !llvm.ptr<3>
  // CHECK: rocdl.cluster.load.async.to.lds.b32 %{{.*}}, %{{.*}}, 0, 0, %{{.*}} : !llvm.ptr<1>, !llvm.ptr<3>
  rocdl.cluster.load.async.to.lds.b32 %p, %s, 0, 0, %i : !llvm.ptr<1>, !llvm.ptr<3>
  // CHECK: llvm.return
  llvm.return
}
// CHECK: llvm.func @schedule() {
llvm.func @schedule() {
  // CHECK: rocdl.s.barrier
  rocdl.s.barrier
  // CHECK: rocdl.s.waitcnt 16240
  rocdl.s.waitcnt 16240
  // CHECK: rocdl.s.setprio 1
  rocdl.s.setprio 1
  // CHECK: rocdl.s.nop 0
  rocdl.s.nop 0
  // CHECK: rocdl.s.sleep 2
  rocdl.s.sleep 2
  // CHECK: rocdl.s.wait.dscnt 0
  rocdl.s.wait.dscnt 0
  // CHECK: rocdl.s.wait.tensorcnt 0
  rocdl.s.wait.tensorcnt 0
  // CHECK: rocdl.s.wait.asynccnt 0
  rocdl.s.wait.asynccnt 0
  // CHECK: rocdl.s.barrier.signal id = -1
  rocdl.s.barrier.signal id = -1
  // CHECK: rocdl.s.barrier.wait id = -1
  rocdl.s.barrier.wait id = -1
  // CHECK: rocdl.iglp.opt 1
  rocdl.iglp.opt 1
  // CHECK: llvm.return
  llvm.return
}
// CHECK: llvm.func @math(%{{.*}}: f32, %{{.*}}: i32, %{{.*}}: vector<16xf16>, %{{.*}}: vector<4xi32>, %{{.*}}: vector<8xf32>, %{{.*}}: vector<8xi32>) {
llvm.func @math(%f: f32, %i: i32, %a: vector<16xf16>, %b: vector<4xi32>, %c: vector<8xf32>, %d: vector<8xi32>) {
  // CHECK: %{{.*}} = rocdl.exp2 %{{.*}} f32 -> f32
  %0 = rocdl.exp2 %f f32 -> f32
  // CHECK: %{{.*}} = rocdl.rcp %{{.*}} f32 -> f32
  %1 = rocdl.rcp %f f32 -> f32
  // CHECK: %{{.*}} = rocdl.fmed3 %{{.*}}, %{{.*}}, %{{.*}} : f32
  %2 = rocdl.fmed3 %f, %f, %f : f32
  // CHECK: %{{.*}} = rocdl.cvt.pkrtz %{{.*}}, %{{.*}} : vector<2xf16>
  %3 = rocdl.cvt.pkrtz %f, %f : vector<2xf16>
  // CHECK: %{{.*}} = rocdl.cvt.pk.fp8.f32 %{{.*}}, %{{.*}} -> %{{.*}}[false] : i32
  %4 = rocdl.cvt.pk.fp8.f32 %f, %f -> %i[false] : i32
  // CHECK: %{{.*}} = rocdl.cvt.pk.f32.fp8 %{{.*}}[true] : vector<2xf32>
  %5 = rocdl.cvt.pk.f32.fp8 %i[true] : vector<2xf32>
  // CHECK: %{{.*}} = rocdl.wmma.f32.16x16x16.f16 %{{.*}}, %{{.*}}, %{{.*}} : (vector<16xf16>, vector<16xf16>, vector<8xf32>) -> vector<8xf32>
  %6 = rocdl.wmma.f32.16x16x16.f16 %a, %a, %c : (vector<16xf16>, vector<16xf16>, vector<8xf32>) -> vector<8xf32>
  // CHECK: %{{.*}} = rocdl.wmma.i32.16x16x16.iu8 %{{.*}}, %{{.*}}, %{{.*}} {clamp = false, signA = true, signB = false} : (vector<4xi32>, vector<4xi32>, vector<8xi32>) -> vector<8xi32>
  %7 = rocdl.wmma.i32.16x16x16.iu8 %b, %b, %d {clamp = false, signA = true, signB = false} : (vector<4xi32>, vector<4xi32>, vector<8xi32>) -> vector<8xi32>
  // CHECK: llvm.return
  llvm.return
}
