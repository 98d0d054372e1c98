// RUN: %fly-opt --convert-fly-to-nvvm --verify-diagnostics --split-input-file %s

// Bulk copies came with sm_90: older targets are refused before LLVM sees them.

gpu.module @m attributes {fly.target = "cuda:sm_80:w32"} {
  gpu.func @f(%to: !fly.ptr<f32, shared>, %from: !fly.ptr<f32, global>, %n: i32) kernel {
    // expected-error @+1 {{a bulk copy does not exist on sm_80; it needs sm_90}}
    "fly_nvgpu.bulk_load"(%to, %to, %from, %n) : (!fly.ptr<f32, shared>, !fly.ptr<f32, shared>, !fly.ptr<f32, global>, i32) -> ()
    gpu.return
  }
}
// -----
gpu.module @m attributes {fly.target = "cuda:sm_89:w32"} {
  gpu.func @f(%from: !fly.ptr<f32, shared>, %to: !fly.ptr<f32, global>, %n: i32) kernel {
    // expected-error @+1 {{a bulk copy does not exist on sm_89; it needs sm_90}}
    "fly_nvgpu.bulk_store"(%from, %to, %n) : (!fly.ptr<f32, shared>, !fly.ptr<f32, global>, i32) -> ()
    gpu.return
  }
}
// -----
gpu.module @m attributes {fly.target = "cuda:sm_80:w32"} {
  gpu.func @f(%from: !fly.ptr<f32, shared>, %to: !fly.ptr<f32, global>, %n: i32) kernel {
    // expected-error @+1 {{a bulk copy does not exist on sm_80; it needs sm_90}}
    "fly_nvgpu.bulk_store"(%from, %to, %n) <{reduce = "add", element = "f32"}> : (!fly.ptr<f32, shared>, !fly.ptr<f32, global>, i32) -> ()
    gpu.return
  }
}
// -----
gpu.module @m attributes {fly.target = "cuda:sm_80:w32"} {
  gpu.func @f(%to: !fly.ptr<f32, shared>, %n: i32) kernel {
    // expected-error @+1 {{a bulk copy to another block does not exist on sm_80; it needs sm_90}}
    "fly_nvgpu.bulk_send"(%to, %to, %to, %n, %n) : (!fly.ptr<f32, shared>, !fly.ptr<f32, shared>, !fly.ptr<f32, shared>, i32, i32) -> ()
    gpu.return
  }
}
// -----
gpu.module @m attributes {fly.target = "cuda:sm_80:w32"} {
  gpu.func @f(%from: !fly.ptr<f32, global>, %n: i32) kernel {
    // expected-error @+1 {{a bulk prefetch does not exist on sm_80; it needs sm_90}}
    "fly_nvgpu.bulk_prefetch"(%from, %n) : (!fly.ptr<f32, global>, i32) -> ()
    gpu.return
  }
}
