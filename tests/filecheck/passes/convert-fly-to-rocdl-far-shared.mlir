// RUN: %fly-opt --convert-fly-to-rocdl %s | FileCheck %s

// What an instruction adds to an address of shared memory by itself has 16 bits. Places behind that share one address for
// each 64 KiB, whose distance LLVM does not learn: it would make an address of each place.

!shared = !fly.ptr<f16, shared, align<16>>
gpu.module @m {
  // CHECK-LABEL: gpu.func @far(
  gpu.func @far(%i: i32, %v: f16) kernel {
    // CHECK: %[[FAR:.*]] = arith.constant 65536 : i32
    // CHECK: %[[HIDDEN:.*]] = llvm.inline_asm "", "=s,0" %[[FAR]] : (i32) -> i32
    // CHECK-NOT: inline_asm
    // CHECK: %[[POOL:.*]] = llvm.mlir.addressof
    %p = fly.make_ptr() {dictAttrs = {allocBytes = 163840 : i64, allocAlign = 16 : i64}} : () -> !shared
    %o = fly.make_int_tuple(%i) : (i32) -> !fly.int_tuple<?{div=8}>
    %q = fly.add_offset(%p, %o) : (!shared, !fly.int_tuple<?{div=8}>) -> !shared
    // Within reach.
    // CHECK: %[[Q:.*]] = llvm.getelementptr %[[POOL]][%i] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f16
    // CHECK: %[[NEAR:.*]] = llvm.getelementptr %[[Q]][32760]
    // CHECK: llvm.store %v, %[[NEAR]]
    %c0 = fly.make_int_tuple() : () -> !fly.int_tuple<32760>
    %r0 = fly.add_offset(%q, %c0) : (!shared, !fly.int_tuple<32760>) -> !shared
    fly.ptr.store(%v, %r0) : (f16, !shared) -> ()
    // Two places of the second reach behind that.
    // CHECK: %[[SUM:.*]] = arith.addi %i, %[[HIDDEN]] : i32
    // CHECK: %[[AT:.*]] = llvm.getelementptr %[[POOL]][%[[SUM]]] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f16
    // CHECK: llvm.store %v, %[[AT]]
    %c1 = fly.make_int_tuple() : () -> !fly.int_tuple<65536>
    %r1 = fly.add_offset(%q, %c1) : (!shared, !fly.int_tuple<65536>) -> !shared
    fly.ptr.store(%v, %r1) : (f16, !shared) -> ()
    // CHECK: %[[LAST:.*]] = llvm.getelementptr %{{.*}}[8] : (!llvm.ptr<3>) -> !llvm.ptr<3>, f16
    // CHECK: llvm.store %v, %[[LAST]]
    %c2 = fly.make_int_tuple() : () -> !fly.int_tuple<65544>
    %r2 = fly.add_offset(%q, %c2) : (!shared, !fly.int_tuple<65544>) -> !shared
    fly.ptr.store(%v, %r2) : (f16, !shared) -> ()
    // A place that is known is a constant.
    // CHECK: llvm.getelementptr %[[POOL]][40960]
    %c3 = fly.make_int_tuple() : () -> !fly.int_tuple<40960>
    %r3 = fly.add_offset(%p, %c3) : (!shared, !fly.int_tuple<40960>) -> !shared
    fly.ptr.store(%v, %r3) : (f16, !shared) -> ()
    gpu.return
  }
}
