// RUN: %fly-opt --fly-promote-regmem-to-vectorssa --verify-diagnostics --split-input-file --allow-unregistered-dialect %s

gpu.module @m {
  gpu.func @other_use() kernel {
    %r = fly.make_ptr() {dictAttrs = {allocSize = 4 : i64}} : () -> !fly.ptr<f32, register>
    // expected-error @below {{register operand/result remain after rmem SSA promotion}}
    "test.use"(%r) : (!fly.ptr<f32, register>) -> ()
    gpu.return
  }
}
// -----
gpu.module @m {
  gpu.func @argument(%n: index, %r: !fly.ptr<f32, register>) kernel {
    %c0 = arith.constant 0 : index
    // expected-error @below {{register block arguments remain after rmem SSA promotion}}
    %x = scf.for %i = %c0 to %n step %n iter_args(%a = %r) -> (!fly.ptr<f32, register>) {
      scf.yield %a : !fly.ptr<f32, register>
    }
    gpu.return
  }
}
// -----
gpu.module @m {
  gpu.func @region(%f: f32) kernel {
    %r = fly.make_ptr() {dictAttrs = {allocSize = 4 : i64}} : () -> !fly.ptr<f32, register>
    // expected-error @below {{unsupported region op with register values during rmem SSA}}
    scf.execute_region {
      fly.ptr.store(%f, %r) : (f32, !fly.ptr<f32, register>) -> ()
      scf.yield
    }
    gpu.return
  }
}
