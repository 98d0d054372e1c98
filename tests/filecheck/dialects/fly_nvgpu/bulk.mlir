// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s

!g = !fly.ptr<f32, global>
!s = !fly.ptr<f32, shared, align<16>>
!b = !fly.ptr<i64, shared>

// CHECK-LABEL: @loads(
func.func @loads(%to: !s, %barrier: !b, %from: !g, %n: i32, %mask: i16, %policy: i64) {
  // CHECK: "fly_nvgpu.bulk_load"(%to, %barrier, %from, %n) : (!fly.ptr<f32, shared, align<16>>, !fly.ptr<i64, shared>, !fly.ptr<f32, global>, i32) -> ()
  "fly_nvgpu.bulk_load"(%to, %barrier, %from, %n) : (!s, !b, !g, i32) -> ()
  // CHECK: "fly_nvgpu.bulk_load"(%to, %barrier, %from, %n, %mask) <{multicast = true}>
  "fly_nvgpu.bulk_load"(%to, %barrier, %from, %n, %mask) <{multicast = true}> : (!s, !b, !g, i32, i16) -> ()
  // CHECK: "fly_nvgpu.bulk_load"(%to, %barrier, %from, %n, %mask, %policy) <{hint = true, multicast = true}>
  "fly_nvgpu.bulk_load"(%to, %barrier, %from, %n, %mask, %policy) <{multicast = true, hint = true}> : (!s, !b, !g, i32, i16, i64) -> ()
  // CHECK: "fly_nvgpu.bulk_send"(%to, %barrier, %to, %n, %n) : (!fly.ptr<f32, shared, align<16>>, !fly.ptr<i64, shared>, !fly.ptr<f32, shared, align<16>>, i32, i32) -> ()
  "fly_nvgpu.bulk_send"(%to, %barrier, %to, %n, %n) : (!s, !b, !s, i32, i32) -> ()
  // CHECK: "fly_nvgpu.bulk_prefetch"(%from, %n) : (!fly.ptr<f32, global>, i32) -> ()
  "fly_nvgpu.bulk_prefetch"(%from, %n) : (!g, i32) -> ()
  // CHECK: "fly_nvgpu.bulk_prefetch"(%from, %n, %policy) <{hint = true}> : (!fly.ptr<f32, global>, i32, i64) -> ()
  "fly_nvgpu.bulk_prefetch"(%from, %n, %policy) <{hint = true}> : (!g, i32, i64) -> ()
  func.return
}
// CHECK-LABEL: @stores(
func.func @stores(%from: !s, %to: !g, %n: i32, %policy: i64) {
  // CHECK: "fly_nvgpu.bulk_store"(%from, %to, %n) : (!fly.ptr<f32, shared, align<16>>, !fly.ptr<f32, global>, i32) -> ()
  "fly_nvgpu.bulk_store"(%from, %to, %n) : (!s, !g, i32) -> ()
  // CHECK: "fly_nvgpu.bulk_store"(%from, %to, %n, %policy) <{hint = true}>
  "fly_nvgpu.bulk_store"(%from, %to, %n, %policy) <{hint = true}> : (!s, !g, i32, i64) -> ()
  // CHECK: "fly_nvgpu.bulk_store"(%from, %to, %n) <{element = "f32", reduce = "add"}>
  "fly_nvgpu.bulk_store"(%from, %to, %n) <{reduce = "add", element = "f32"}> : (!s, !g, i32) -> ()
  func.return
}
