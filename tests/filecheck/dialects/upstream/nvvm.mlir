// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s

// NVIDIA's instructions. Text forms are upstream's.

// CHECK: llvm.func @registers() {
llvm.func @registers() {
  // CHECK: %{{.*}} = nvvm.read.ptx.sreg.tid.x range <i32, 0, 128> : i32
  %0 = nvvm.read.ptx.sreg.tid.x range <i32, 0, 128> : i32
  // CHECK: %{{.*}} = nvvm.read.ptx.sreg.ctaid.y : i32
  %1 = nvvm.read.ptx.sreg.ctaid.y : i32
  // CHECK: %{{.*}} = nvvm.read.ptx.sreg.laneid : i32
  %2 = nvvm.read.ptx.sreg.laneid : i32
  // CHECK: %{{.*}} = nvvm.read.ptx.sreg.cluster.ctarank : i32
  %3 = nvvm.read.ptx.sreg.cluster.ctarank : i32
  // CHECK: llvm.return
  llvm.return
}
// CHECK: llvm.func @warps(%{{.*}}: i32, %{{.*}}: i1, %{{.*}}: f32) {
llvm.func @warps(%i: i32, %b: i1, %f: f32) {
  // CHECK: %{{.*}} = nvvm.shfl.sync bfly %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : f32 -> f32
  %0 = nvvm.shfl.sync bfly %i, %f, %i, %i : f32 -> f32
  // CHECK: %{{.*}} = nvvm.shfl.sync idx %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : i32 -> i32
  %1 = nvvm.shfl.sync idx %i, %i, %i, %i : i32 -> i32
  // CHECK: %{{.*}} = nvvm.vote.sync ballot %{{.*}}, %{{.*}} -> i32
  %2 = nvvm.vote.sync ballot %i, %b -> i32
  // CHECK: %{{.*}} = nvvm.vote.sync any %{{.*}}, %{{.*}} -> i1
  %3 = nvvm.vote.sync any %i, %b -> i1
  // CHECK: %{{.*}} = nvvm.elect.sync -> i1
  %4 = nvvm.elect.sync -> i1
  // CHECK: nvvm.bar.warp.sync %{{.*}} : i32
  nvvm.bar.warp.sync %i : i32
  // CHECK: nvvm.barrier0
  nvvm.barrier0
  // CHECK: llvm.return
  llvm.return
}
// CHECK: llvm.func @copies() {
llvm.func @copies() {
  // CHECK: nvvm.cp.async.commit.group
  nvvm.cp.async.commit.group
  // CHECK: nvvm.cp.async.wait.group 1
  nvvm.cp.async.wait.group 1
  // CHECK: nvvm.cluster.arrive
  nvvm.cluster.arrive
  // CHECK: nvvm.cluster.wait
  nvvm.cluster.wait
  // CHECK: llvm.return
  llvm.return
}
