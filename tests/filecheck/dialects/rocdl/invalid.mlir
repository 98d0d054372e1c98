// RUN: %fly-opt --verify-diagnostics --split-input-file %s

llvm.func @f(%x: f32) {
  // expected-error @+1 {{'rocdl.ds_bpermute' op operand #0 must be i32, but got 'f32'}}
  %0 = rocdl.ds_bpermute %x, %x : (f32, f32) -> f32
  llvm.return
}

// -----

llvm.func @f(%i: i32) {
  // expected-error @+1 {{'rocdl.ballot' op expected 1 operands, got 0}}
  %0 = "rocdl.ballot"() : () -> i64
  llvm.return
}

// -----

llvm.func @f() {
  // expected-error @+1 {{expected one of none, non_mem_non_sideeffect, valu, salu, mfma_wmma, all_vmem, vmem_read, vmem_write, all_ds, ds_read, ds_write, transcendental, got 'everything'}}
  rocdl.sched.barrier everything
  llvm.return
}

// -----

// expected-error @+1 {{expected one of O, triple, chip, features, abi, flags, link, got 'arch'}}
gpu.module @k [#rocdl.target<arch = "gfx942">] {
}

// -----

// expected-error @+1 {{the optimization level is 0 to 3, got 7}}
gpu.module @k [#rocdl.target<O = 7>] {
}
