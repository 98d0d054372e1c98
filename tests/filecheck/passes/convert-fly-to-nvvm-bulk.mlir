// RUN: %fly-opt --convert-fly-to-nvvm --fly-nvgpu-insert-fences %s | FileCheck %s
// RUN: %fly-opt --convert-fly-to-cpu %s | FileCheck %s --check-prefix=CPU

// Bulk copies: intrinsics where LLVM has them, the instruction itself for reductions; on the CPU a routine.

!g = !fly.ptr<f32, global>
!s = !fly.ptr<f32, shared, align<16>>
!b = !fly.ptr<i64, shared>

gpu.module @m {
  // CHECK-LABEL: gpu.func @loads(
  // CPU-LABEL: gpu.func @loads(
  gpu.func @loads(%to: !s, %barrier: !b, %from: !g, %n: i32, %mask: i16, %policy: i64) kernel {
    // CHECK:      %[[OFF:.*]] = arith.constant false
    // CHECK:      %[[ON:.*]] = arith.constant true
    // CHECK:      %[[HERE:.*]] = llvm.ptrtoint %to : !llvm.ptr<3> to i64
    // CHECK-NEXT: %[[WINDOW:.*]] = llvm.inttoptr %[[HERE]] : i64 to !llvm.ptr<7>
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.cp.async.bulk.global.to.shared.cluster"(%[[WINDOW]], %barrier, %from, %n, %{{.*}}, %{{.*}}, %[[OFF]], %[[OFF]])
    // CPU:      "fly_cpu.call"(%to, %barrier, %from, %n) <{callee = "fly_bulk_load"}>
    "fly_nvgpu.bulk_load"(%to, %barrier, %from, %n) : (!s, !b, !g, i32) -> ()
    // CHECK: llvm.call_intrinsic "llvm.nvvm.cp.async.bulk.global.to.shared.cluster"(%{{.*}}, %barrier, %from, %n, %mask, %policy, %[[ON]], %[[ON]])
    // CPU:      %[[MASK:.*]] = arith.extui %mask : i16 to i32
    // CPU-NEXT: "fly_cpu.call"(%to, %barrier, %from, %n, %[[MASK]]) <{callee = "fly_bulk_load_all"}>
    "fly_nvgpu.bulk_load"(%to, %barrier, %from, %n, %mask, %policy) <{multicast = true, hint = true}> : (!s, !b, !g, i32, i16, i64) -> ()
    // CHECK: llvm.call_intrinsic "llvm.nvvm.cp.async.bulk.prefetch.L2"(%from, %n, %policy, %[[ON]])
    // CPU-NOT: fly_cpu.call
    "fly_nvgpu.bulk_prefetch"(%from, %n, %policy) <{hint = true}> : (!g, i32, i64) -> ()
    gpu.return
  }
  // Both the destination and the barrier are those of the other block.
  // CHECK-LABEL: gpu.func @send(
  // CPU-LABEL: gpu.func @send(
  gpu.func @send(%to: !s, %barrier: !b, %from: !s, %n: i32, %rank: i32) kernel {
    // CHECK: %[[TO:.*]] = llvm.call_intrinsic "llvm.nvvm.mapa.shared.cluster"(%to, %rank)
    // CHECK: %[[AT:.*]] = llvm.call_intrinsic "llvm.nvvm.mapa.shared.cluster"(%barrier, %rank)
    // CHECK: %[[BITS:.*]] = llvm.ptrtoint %[[AT]] : !llvm.ptr<7> to i64
    // CHECK: %[[SIGNAL:.*]] = llvm.inttoptr %[[BITS]] : i64 to !llvm.ptr<3>
    // CHECK: llvm.call_intrinsic "llvm.nvvm.cp.async.bulk.shared.cta.to.cluster"(%[[TO]], %[[SIGNAL]], %from, %n)
    // CPU: "fly_cpu.call"(%to, %barrier, %from, %n, %rank) <{callee = "fly_bulk_send"}>
    "fly_nvgpu.bulk_send"(%to, %barrier, %from, %n, %rank) : (!s, !b, !s, i32, i32) -> ()
    gpu.return
  }
  // What threads wrote is fenced in front of the barrier before the copy, whichever copy it is.
  // CHECK-LABEL: gpu.func @stores(
  // CPU-LABEL: gpu.func @stores(
  gpu.func @stores(%from: !s, %to: !g, %n: i32, %policy: i64, %v: f32) kernel {
    // CHECK:      llvm.store %v, %from
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.fence.proxy.async.shared_cta"
    // CHECK-NEXT: gpu.barrier
    fly.ptr.store(%v, %from) : (f32, !s) -> ()
    gpu.barrier
    // CHECK: llvm.call_intrinsic "llvm.nvvm.cp.async.bulk.shared.cta.to.global"(%to, %from, %n, %{{.*}}, %{{.*}})
    // CPU: "fly_cpu.call"(%from, %to, %n) <{callee = "fly_bulk_store"}>
    "fly_nvgpu.bulk_store"(%from, %to, %n) : (!s, !g, i32) -> ()
    gpu.return
  }
  // CHECK-LABEL: gpu.func @reduces(
  // CPU-LABEL: gpu.func @reduces(
  gpu.func @reduces(%from: !s, %to: !g, %n: i32, %policy: i64, %v: f32) kernel {
    // CHECK:      llvm.store %v, %from
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.fence.proxy.async.shared_cta"
    // CHECK-NEXT: gpu.barrier
    fly.ptr.store(%v, %from) : (f32, !s) -> ()
    gpu.barrier
    // CHECK: "fly_nvgpu.asm"(%to, %{{.*}}, %n) <{constraints = "l,r,r,~{memory}", text = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [$0], [$1], $2;"}>
    // CPU: "fly_cpu.call"(%from, %to, %n) <{callee = "fly_bulk_add_f32"}>
    "fly_nvgpu.bulk_store"(%from, %to, %n) <{reduce = "add", element = "f32"}> : (!s, !g, i32) -> ()
    // CHECK: "fly_nvgpu.asm"(%to, %{{.*}}, %n, %policy) <{constraints = "l,r,r,l,~{memory}", text = "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.noftz.bf16 [$0], [$1], $2, $3;"}>
    // CPU: "fly_cpu.call"(%from, %to, %n) <{callee = "fly_bulk_add_bf16"}>
    "fly_nvgpu.bulk_store"(%from, %to, %n, %policy) <{reduce = "add", element = "bf16", hint = true}> : (!s, !g, i32, i64) -> ()
    gpu.return
  }
  // The barrier of a bulk load is published like that of a tensor copy.
  // CHECK-LABEL: gpu.func @barriers(
  gpu.func @barriers(%to: !s, %barrier: !b, %from: !g, %n: i32) kernel {
    // CHECK:      llvm.call_intrinsic "llvm.nvvm.mbarrier.init.shared"
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.fence.mbarrier_init.release.cluster"
    // CHECK-NEXT: gpu.barrier
    "fly_nvgpu.call"(%barrier, %n) <{kind = "mbarrier.init"}> : (!b, i32) -> ()
    gpu.barrier
    "fly_nvgpu.bulk_load"(%to, %barrier, %from, %n) : (!s, !b, !g, i32) -> ()
    gpu.return
  }
}
