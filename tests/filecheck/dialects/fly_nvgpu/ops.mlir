// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s

!g = !fly.ptr<f32, global>
!s = !fly.ptr<f32, shared>
!b = !fly.ptr<i64, shared>

// CHECK-LABEL: @barriers(
func.func @barriers(%barrier: !b, %place: !s, %n: i32, %phase: i32, %value: f32) -> i64 {
  // CHECK: "fly_nvgpu.call"(%barrier, %n) <{kind = "mbarrier.init"}> : (!fly.ptr<i64, shared>, i32) -> ()
  "fly_nvgpu.call"(%barrier, %n) <{kind = "mbarrier.init"}> : (!b, i32) -> ()
  // CHECK: "fly_nvgpu.mbarrier_wait"(%barrier, %phase) : (!fly.ptr<i64, shared>, i32) -> ()
  "fly_nvgpu.mbarrier_wait"(%barrier, %phase) : (!b, i32) -> ()
  // CHECK: "fly_nvgpu.mbarrier_arrive_remote"(%barrier, %n) : (!fly.ptr<i64, shared>, i32) -> ()
  "fly_nvgpu.mbarrier_arrive_remote"(%barrier, %n) : (!b, i32) -> ()
  // CHECK: %there = "fly_nvgpu.peer"(%place, %n) : (!fly.ptr<f32, shared>, i32) -> i64
  %there = "fly_nvgpu.peer"(%place, %n) : (!s, i32) -> i64
  // CHECK: "fly_nvgpu.hold"(%place, %value) : (!fly.ptr<f32, shared>, f32) -> ()
  "fly_nvgpu.hold"(%place, %value) : (!s, f32) -> ()
  return %there : i64
}

// CHECK-LABEL: @warps(
func.func @warps(%n: i32) -> (i1, i32, i32) {
  // CHECK: %one = "fly_nvgpu.elect"() : () -> i1
  %one = "fly_nvgpu.elect"() : () -> i1
  // CHECK: %same = "fly_nvgpu.uniform"(%n) : (i32) -> i32
  %same = "fly_nvgpu.uniform"(%n) : (i32) -> i32
  // CHECK: %clock = "fly_nvgpu.asm"() <{constraints = "=r", memory = "none", text = "mov.u32 $0, %clock;"}> : () -> i32
  %clock = "fly_nvgpu.asm"() <{text = "mov.u32 $0, %clock;", constraints = "=r", memory = "none"}> : () -> i32
  // CHECK: "fly_nvgpu.wgmma_wait"() <{pending = 1 : i32}> : () -> ()
  "fly_nvgpu.wgmma_wait"() <{pending = 1 : i32}> : () -> ()
  return %one, %same, %clock : i1, i32, i32
}

// CHECK-LABEL: @sums(
func.func @sums(%to: !g, %value: f32) {
  // CHECK: "fly_nvgpu.add_global"(%to, %value, %value) : (!fly.ptr<f32, global>, f32, f32) -> ()
  "fly_nvgpu.add_global"(%to, %value, %value) : (!g, f32, f32) -> ()
  return
}

// CHECK-LABEL: @tensors(
func.func @tensors(%to: !s, %barrier: !b, %from: !g, %n: i64, %x: i32) {
  // CHECK: %map = "fly_nvgpu.make_tensor_map"(%from, %n, %n, %n) <{box = [64 : i32, 8 : i32], dtype = 7 : i32, fill = 0 : i32, promotion = 2 : i32, swizzle = 0 : i32}>
  // CHECK-SAME: -> !fly_nvgpu.tensor_map
  %map = "fly_nvgpu.make_tensor_map"(%from, %n, %n, %n) <{dtype = 7 : i32, box = [64 : i32, 8 : i32], swizzle = 0 : i32, promotion = 2 : i32, fill = 0 : i32}> : (!g, i64, i64, i64) -> !fly_nvgpu.tensor_map
  // CHECK: "fly_nvgpu.tma_load"(%to, %barrier, %map, %x, %x) <{rank = 2 : i32}>
  "fly_nvgpu.tma_load"(%to, %barrier, %map, %x, %x) <{rank = 2 : i32}> : (!s, !b, !fly_nvgpu.tensor_map, i32, i32) -> ()
  // CHECK: "fly_nvgpu.tma_store"(%to, %map, %x, %x) <{rank = 2 : i32, reduce = "add"}>
  "fly_nvgpu.tma_store"(%to, %map, %x, %x) <{rank = 2 : i32, reduce = "add"}> : (!s, !fly_nvgpu.tensor_map, i32, i32) -> ()
  return
}
