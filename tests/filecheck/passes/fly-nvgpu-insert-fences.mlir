// RUN: %fly-opt --fly-nvgpu-insert-fences %s | FileCheck %s

// Shared memory that threads write and the copy engine reads: a fence in front of the barrier between them, in front of
// the loop that holds the barrier, and none where one is written already or nothing was written.

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @straight
  gpu.func @straight(%p: !llvm.ptr<3>, %map: !llvm.ptr, %c: i32, %v: f32) kernel {
    %h = arith.constant 0 : i64
    %f = arith.constant 0 : i1
    // CHECK:      gpu.barrier
    // CHECK-NEXT: llvm.store
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.fence.proxy.async.shared_cta"
    // CHECK-NEXT: gpu.barrier
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.cp.async.bulk.tensor.s2g.tile.1d"
    // CHECK-NEXT: gpu.barrier
    // CHECK-NEXT: gpu.return
    gpu.barrier
    llvm.store %v, %p : f32, !llvm.ptr<3>
    gpu.barrier
    llvm.call_intrinsic "llvm.nvvm.cp.async.bulk.tensor.s2g.tile.1d"(%p, %map, %c, %h, %f) {fly_nvgpu.effects = ["reads_shared_async"]} : (!llvm.ptr<3>, !llvm.ptr, i32, i64, i1) -> ()
    gpu.barrier
    gpu.return
  }

  // CHECK-LABEL: gpu.func @author
  gpu.func @author(%p: !llvm.ptr<3>, %map: !llvm.ptr, %c: i32, %v: f32) kernel {
    %h = arith.constant 0 : i64
    %f = arith.constant 0 : i1
    // CHECK:      llvm.store
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.fence.proxy.async.shared_cta"
    // CHECK-NEXT: gpu.barrier
    llvm.store %v, %p : f32, !llvm.ptr<3>
    llvm.call_intrinsic "llvm.nvvm.fence.proxy.async.shared_cta"() {fly_nvgpu.effects = ["proxy_fence"]} : () -> ()
    gpu.barrier
    llvm.call_intrinsic "llvm.nvvm.cp.async.bulk.tensor.s2g.tile.1d"(%p, %map, %c, %h, %f) {fly_nvgpu.effects = ["reads_shared_async"]} : (!llvm.ptr<3>, !llvm.ptr, i32, i64, i1) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @loop
  gpu.func @loop(%p: !llvm.ptr<3>, %map: !llvm.ptr, %c: i32, %v: f32, %n: index) kernel {
    %h = arith.constant 0 : i64
    %f = arith.constant 0 : i1
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    // CHECK:      llvm.store
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.fence.proxy.async.shared_cta"
    // CHECK-NEXT: scf.for
    // CHECK-NEXT:   gpu.barrier
    // CHECK-NEXT:   llvm.call_intrinsic "llvm.nvvm.cp.async.bulk.tensor.s2g.tile.1d"
    // CHECK-NEXT: }
    llvm.store %v, %p : f32, !llvm.ptr<3>
    scf.for %i = %zero to %n step %one {
      gpu.barrier
      llvm.call_intrinsic "llvm.nvvm.cp.async.bulk.tensor.s2g.tile.1d"(%p, %map, %c, %h, %f) {fly_nvgpu.effects = ["reads_shared_async"]} : (!llvm.ptr<3>, !llvm.ptr, i32, i64, i1) -> ()
    }
    gpu.return
  }

  // What the last turn wrote, the first barrier of the next one has in front of it.
  // CHECK-LABEL: gpu.func @around
  gpu.func @around(%p: !llvm.ptr<3>, %map: !llvm.ptr, %c: i32, %v: f32, %n: index) kernel {
    %h = arith.constant 0 : i64
    %f = arith.constant 0 : i1
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    // CHECK:      scf.for
    // CHECK-NEXT:   llvm.call_intrinsic "llvm.nvvm.fence.proxy.async.shared_cta"
    // CHECK-NEXT:   gpu.barrier
    // CHECK-NEXT:   llvm.call_intrinsic "llvm.nvvm.cp.async.bulk.tensor.s2g.tile.1d"
    // CHECK-NEXT:   llvm.store
    // CHECK-NEXT: }
    scf.for %i = %zero to %n step %one {
      gpu.barrier
      llvm.call_intrinsic "llvm.nvvm.cp.async.bulk.tensor.s2g.tile.1d"(%p, %map, %c, %h, %f) {fly_nvgpu.effects = ["reads_shared_async"]} : (!llvm.ptr<3>, !llvm.ptr, i32, i64, i1) -> ()
      llvm.store %v, %p : f32, !llvm.ptr<3>
    }
    gpu.return
  }

  // Atomics write, too: sums collected in shared memory before the copy engine takes them.
  // CHECK-LABEL: gpu.func @atomic
  gpu.func @atomic(%p: !llvm.ptr<3>, %map: !llvm.ptr, %c: i32) kernel {
    %h = arith.constant 0 : i64
    %f = arith.constant 0 : i1
    // CHECK:      llvm.atomicrmw
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.fence.proxy.async.shared_cta"
    // CHECK-NEXT: gpu.barrier
    // CHECK:      llvm.cmpxchg
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.fence.proxy.async.shared_cta"
    // CHECK-NEXT: gpu.barrier
    %old = llvm.atomicrmw add %p, %c monotonic : !llvm.ptr<3>, i32
    gpu.barrier
    %pair = llvm.cmpxchg %p, %c, %c monotonic monotonic : !llvm.ptr<3>, i32
    gpu.barrier
    llvm.call_intrinsic "llvm.nvvm.cp.async.bulk.tensor.s2g.tile.1d"(%p, %map, %c, %h, %f) {fly_nvgpu.effects = ["reads_shared_async"]} : (!llvm.ptr<3>, !llvm.ptr, i32, i64, i1) -> ()
    gpu.return
  }

  // What a warp wrote is fenced by all its lanes, not by the one that starts the copy.
  // CHECK-LABEL: gpu.func @warp
  gpu.func @warp(%p: !llvm.ptr<3>, %v: f32, %map: !llvm.ptr, %c: i32, %flag: i1) kernel {
    %h = arith.constant 0 : i64
    %f = arith.constant 0 : i1
    // CHECK:      llvm.store
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.fence.proxy.async.shared_cta"
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"
    // CHECK-NEXT: scf.if
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.cp.async.bulk.tensor.s2g.tile.1d"
    llvm.store %v, %p : f32, !llvm.ptr<3>
    llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%c) {fly_nvgpu.effects = ["synchronizes"]} : (i32) -> ()
    scf.if %flag {
      llvm.call_intrinsic "llvm.nvvm.cp.async.bulk.tensor.s2g.tile.1d"(%p, %map, %c, %h, %f) {fly_nvgpu.effects = ["reads_shared_async"]} : (!llvm.ptr<3>, !llvm.ptr, i32, i64, i1) -> ()
    }
    gpu.return
  }

  // Barriers that the copy engine signals are published by who set them up, once.
  // CHECK-LABEL: gpu.func @barriers
  gpu.func @barriers(%p: !llvm.ptr<3>, %q: !llvm.ptr<7>, %map: !llvm.ptr, %c: i32, %flag: i1) kernel {
    %h = arith.constant 0 : i64
    %m = arith.constant 0 : i16
    %f = arith.constant 0 : i1
    // CHECK:      scf.if
    // CHECK-NEXT:   llvm.call_intrinsic "llvm.nvvm.mbarrier.init.shared"
    // CHECK-NEXT:   llvm.call_intrinsic "llvm.nvvm.mbarrier.init.shared"
    // CHECK-NEXT:   llvm.call_intrinsic "llvm.nvvm.fence.mbarrier_init.release.cluster"
    // CHECK-NEXT: }
    // CHECK-NEXT: gpu.barrier
    scf.if %flag {
      llvm.call_intrinsic "llvm.nvvm.mbarrier.init.shared"(%p, %c) {fly_nvgpu.effects = ["mbarrier_init"]} : (!llvm.ptr<3>, i32) -> ()
      llvm.call_intrinsic "llvm.nvvm.mbarrier.init.shared"(%p, %c) {fly_nvgpu.effects = ["mbarrier_init"]} : (!llvm.ptr<3>, i32) -> ()
    }
    gpu.barrier
    llvm.call_intrinsic "llvm.nvvm.cp.async.bulk.tensor.g2s.tile.1d"(%q, %p, %map, %c, %m, %h, %f, %f, %c) {fly_nvgpu.effects = ["shares_mbarrier"]} : (!llvm.ptr<7>, !llvm.ptr<3>, !llvm.ptr, i32, i16, i64, i1, i1, i32) -> ()
    gpu.return
  }

  // Without the copy engine or the tensor cores there is nothing to order.
  // CHECK-LABEL: gpu.func @plain
  gpu.func @plain(%p: !llvm.ptr<3>, %v: f32) kernel {
    // CHECK:      llvm.store
    // CHECK-NEXT: gpu.barrier
    llvm.store %v, %p : f32, !llvm.ptr<3>
    gpu.barrier
    gpu.return
  }

  // A batch of products is fenced where it starts and closed before it is waited for. One with an operand in registers
  // starts anew where threads have computed that since, and not where it was only moved.
  // CHECK-LABEL: gpu.func @products
  gpu.func @products(%a: f32, %g: i64, %n: index) kernel {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    // CHECK:      llvm.call_intrinsic "llvm.nvvm.wgmma.fence.sync.aligned"
    // CHECK-NEXT: "fly_nvgpu.asm"
    // CHECK-NEXT: "fly_nvgpu.asm"
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.wgmma.commit_group.sync.aligned"
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.wgmma.wait_group.sync.aligned"
    %0 = "fly_nvgpu.asm"(%a) <{text = "first", constraints = "=f,0"}> {fly_nvgpu.effects = ["wgmma"]} : (f32) -> f32
    %1 = "fly_nvgpu.asm"(%0) <{text = "second", constraints = "=f,0"}> {fly_nvgpu.effects = ["wgmma"]} : (f32) -> f32
    llvm.call_intrinsic "llvm.nvvm.wgmma.wait_group.sync.aligned"(%g) {fly_nvgpu.effects = ["wgmma_wait"]} : (i64) -> ()
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.wgmma.fence.sync.aligned"
    // CHECK-NEXT: "fly_nvgpu.asm"
    // CHECK-NEXT: ub.poison
    // CHECK-NEXT: vector.insert
    // CHECK-NEXT: vector.extract
    // CHECK-NEXT: "fly_nvgpu.asm"
    // CHECK-NEXT: arith.addf
    // CHECK-NEXT: arith.bitcast
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.wgmma.fence.sync.aligned"
    // CHECK-NEXT: "fly_nvgpu.asm"
    %2 = "fly_nvgpu.asm"(%a) <{text = "third", constraints = "=f,0"}> {fly_nvgpu.effects = ["wgmma", "wgmma_registers"]} : (f32) -> f32
    %none = ub.poison : vector<2xf32>
    %in = vector.insert %2, %none [0] : f32 into vector<2xf32>
    %out = vector.extract %in[0] : f32 from vector<2xf32>
    %3 = "fly_nvgpu.asm"(%out) <{text = "fourth", constraints = "=f,0"}> {fly_nvgpu.effects = ["wgmma", "wgmma_registers"]} : (f32) -> f32
    %sum = arith.addf %a, %a : f32
    %word = arith.bitcast %sum : f32 to i32
    %again = "fly_nvgpu.asm"(%3, %word) <{text = "again", constraints = "=f,0,r"}> {fly_nvgpu.effects = ["wgmma", "wgmma_registers"]} : (f32, i32) -> f32
    // CHECK-NEXT: scf.for
    // CHECK-NEXT:   llvm.call_intrinsic "llvm.nvvm.wgmma.fence.sync.aligned"
    // CHECK-NEXT:   "fly_nvgpu.asm"
    // CHECK-NEXT:   llvm.call_intrinsic "llvm.nvvm.wgmma.commit_group.sync.aligned"
    // CHECK-NEXT:   llvm.call_intrinsic "llvm.nvvm.wgmma.wait_group.sync.aligned"
    // CHECK-NEXT: }
    scf.for %i = %zero to %n step %one {
      %4 = "fly_nvgpu.asm"(%a) <{text = "fifth", constraints = "=f,0"}> {fly_nvgpu.effects = ["wgmma"]} : (f32) -> f32
      llvm.call_intrinsic "llvm.nvvm.wgmma.wait_group.sync.aligned"(%g) {fly_nvgpu.effects = ["wgmma_wait"]} : (i64) -> ()
    }
    gpu.return
  }

  // In a kernel that addresses other blocks' shared memory a generic store may write there: all memory is fenced.
  // CHECK-LABEL: gpu.func @peers
  gpu.func @peers(%p: !llvm.ptr, %s: !llvm.ptr<3>, %map: !llvm.ptr, %c: i32, %v: f32) kernel {
    %h = arith.constant 0 : i64
    %f = arith.constant 0 : i1
    // CHECK:      llvm.store
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.fence.proxy.async.shared_cta"
    // CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.fence.proxy.async"()
    // CHECK-NEXT: gpu.barrier
    %there = "fly_nvgpu.asm"(%c) <{text = "mapa", constraints = "=l,r"}> {fly_nvgpu.effects = ["addresses_peer"]} : (i32) -> i64
    llvm.store %v, %p : f32, !llvm.ptr
    llvm.call_intrinsic "llvm.nvvm.fence.proxy.async.shared_cta"() {fly_nvgpu.effects = ["proxy_fence"]} : () -> ()
    gpu.barrier
    llvm.call_intrinsic "llvm.nvvm.cp.async.bulk.tensor.s2g.tile.1d"(%s, %map, %c, %h, %f) {fly_nvgpu.effects = ["reads_shared_async"]} : (!llvm.ptr<3>, !llvm.ptr, i32, i64, i1) -> ()
    gpu.return
  }

  // Nothing is left to be read a second time.
  // CHECK-NOT: fly_nvgpu.effects
}
