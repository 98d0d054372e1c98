// RUN: %fly-opt --fly-expand-prints %s | FileCheck %s
// RUN: %fly-opt --pass-pipeline='builtin.module(fly-expand-prints,fly-rewrite-func-signature,fly-canonicalize,fly-layout-lowering,convert-fly-to-rocdl)' %s | FileCheck %s --check-prefix=LOW

// What says that there are prints to expand is gone with them.
// CHECK: module {
module attributes {fly.prints} {
gpu.module @m {
  // A wave asks for the room of its lanes by one atomic; each writes its record behind the two words of the head.
  // CHECK-LABEL: gpu.func @told
  // CHECK-SAME: %[[WORDS:[a-z0-9]+]]: !fly.ptr<i64, global, align<16>>) kernel
  // CHECK-SAME: fly.side_buffers = ["{\22formats\22: [\22%d: %.2f 100%%\\n\22, \22end\\n\22], \22kind\22: \22print\22}"]
  // LOW-LABEL: gpu.func @told
  // LOW-SAME: %[[WORDS:[a-z0-9]+]]: !llvm.ptr<1>) kernel
  gpu.func @told(%n: i32, %x: f32) kernel attributes {fly.side_buffers = ["{\"kind\": \"print\"}"]} {
    // CHECK: %[[HERE:.*]] = llvm.call_intrinsic "llvm.amdgcn.ballot.i64"(%{{.*}}) : (i1) -> i64
    // CHECK: %[[RANK:.*]] = math.ctpop
    // CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[RANK]]
    // CHECK: %[[ASKED:.*]] = scf.if %[[FIRST]] -> (i64) {
    // CHECK: %[[COUNT:.*]] = math.ctpop %[[HERE]]
    // CHECK: %[[SIZE:.*]] = arith.muli %[[COUNT]], %c3_i64
    // CHECK: fly.atomic_rmw(%[[WORDS]], %[[SIZE]]) {bin_op = "add", ordering = "monotonic"}
    // CHECK-COUNT-2: llvm.call_intrinsic "llvm.amdgcn.readfirstlane.i32"
    // CHECK: %[[ROOM:.*]] = fly.ptr.load
    // CHECK: %[[FITS:.*]] = arith.cmpi sle, %{{.*}}, %[[ROOM]] : i64
    // CHECK: scf.if %[[FITS]] {
    // CHECK: fly.ptr.store
    // CHECK: %[[WIDE:.*]] = arith.extsi %{{.*}} : i32 to i64
    // CHECK: fly.ptr.store(%[[WIDE]]
    // CHECK: %[[DOUBLE:.*]] = arith.extf %{{.*}} : f32 to f64
    // CHECK: %[[BITS:.*]] = arith.bitcast %[[DOUBLE]] : f64 to i64
    // CHECK: fly.ptr.store(%[[BITS]]
    // LOW: llvm.atomicrmw add %[[WORDS]]
    // LOW-NOT: fly.print
    fly.print(%n, %x) {format = "{}: {} 100%"} : (i32, f32) -> ()
    // A line without values is one word.
    // CHECK: fly.atomic_rmw(%[[WORDS]], %{{.*}})
    // CHECK-NOT: fly.print
    fly.print() {format = "end"} : () -> ()
    gpu.return
  }

  // A kernel that declares no memory prints through the driver: nothing happens to it here.
  // CHECK-LABEL: gpu.func @plain
  // CHECK: fly.print
  gpu.func @plain(%n: i32) kernel {
    fly.print(%n) {format = "{}"} : (i32) -> ()
    gpu.return
  }
}
}
