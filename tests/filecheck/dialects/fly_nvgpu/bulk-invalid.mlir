// RUN: %fly-opt --verify-diagnostics --split-input-file %s

func.func @f(%to: !fly.ptr<f32, shared>, %from: !fly.ptr<f32, global>, %n: i32) {
  // expected-error @+1 {{fly_nvgpu.bulk_load takes 4 operands, got 3}}
  "fly_nvgpu.bulk_load"(%to, %from, %n) : (!fly.ptr<f32, shared>, !fly.ptr<f32, global>, i32) -> ()
  func.return
}
// -----
func.func @f(%to: !fly.ptr<f32, shared>, %from: !fly.ptr<f32, global>, %n: i32) {
  // expected-error @+1 {{fly_nvgpu.bulk_load takes 5 operands, got 4}}
  "fly_nvgpu.bulk_load"(%to, %to, %from, %n) <{multicast = true}> : (!fly.ptr<f32, shared>, !fly.ptr<f32, shared>, !fly.ptr<f32, global>, i32) -> ()
  func.return
}
// -----
func.func @f(%to: !fly.ptr<f32, shared>, %n: i32) {
  // expected-error @+1 {{operand 2 of fly_nvgpu.bulk_load points to global memory, got !fly.ptr<f32, shared>}}
  "fly_nvgpu.bulk_load"(%to, %to, %to, %n) : (!fly.ptr<f32, shared>, !fly.ptr<f32, shared>, !fly.ptr<f32, shared>, i32) -> ()
  func.return
}
// -----
func.func @f(%from: !fly.ptr<f32, global>, %n: i64) {
  // expected-error @+1 {{operand 1 of fly_nvgpu.bulk_prefetch is i32, got i64}}
  "fly_nvgpu.bulk_prefetch"(%from, %n) : (!fly.ptr<f32, global>, i64) -> ()
  func.return
}
// -----
func.func @f(%from: !fly.ptr<f32, shared>, %to: !fly.ptr<f32, global>, %n: i32) {
  // expected-error @+1 {{fly_nvgpu.bulk_store has both `reduce` and `element` or neither}}
  "fly_nvgpu.bulk_store"(%from, %to, %n) <{reduce = "add"}> : (!fly.ptr<f32, shared>, !fly.ptr<f32, global>, i32) -> ()
  func.return
}
// -----
func.func @f(%from: !fly.ptr<f32, shared>, %to: !fly.ptr<f32, global>, %n: i32) {
  // expected-error @+1 {{fly_nvgpu.bulk_store reduces with add, min, max, inc, dec, and, or, xor, got mul}}
  "fly_nvgpu.bulk_store"(%from, %to, %n) <{reduce = "mul", element = "f32"}> : (!fly.ptr<f32, shared>, !fly.ptr<f32, global>, i32) -> ()
  func.return
}
// -----
func.func @f(%from: !fly.ptr<f32, shared>, %to: !fly.ptr<f32, global>, %n: i32) {
  // expected-error @+1 {{fly_nvgpu.bulk_store does max on u32, s32, u64, s64, f16, bf16, got f32}}
  "fly_nvgpu.bulk_store"(%from, %to, %n) <{reduce = "max", element = "f32"}> : (!fly.ptr<f32, shared>, !fly.ptr<f32, global>, i32) -> ()
  func.return
}
