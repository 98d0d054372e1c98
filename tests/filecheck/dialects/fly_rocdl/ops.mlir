// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s

// CHECK-LABEL: @buffers(
func.func @buffers(%p: !fly.ptr<f32, #fly_rocdl.buffer_desc>, %soffset: i32) {
  // CHECK: %{{.*}} = fly_rocdl.get_buffer_rsrc(%p) : (!fly.ptr<f32, #fly_rocdl.buffer_desc>) -> !llvm.ptr<8>
  %rsrc = fly_rocdl.get_buffer_rsrc(%p) : (!fly.ptr<f32, #fly_rocdl.buffer_desc>) -> !llvm.ptr<8>
  // CHECK: %[[V:.*]] = fly_rocdl.buffer_load(%p, %soffset) {cache = 2 : i32} : (!fly.ptr<f32, #fly_rocdl.buffer_desc>, i32) -> vector<4xf32>
  %v = fly_rocdl.buffer_load(%p, %soffset) {cache = 2 : i32} : (!fly.ptr<f32, #fly_rocdl.buffer_desc>, i32) -> vector<4xf32>
  // CHECK: %{{.*}} = fly_rocdl.buffer_load(%p, %soffset) {scalar} : (!fly.ptr<f32, #fly_rocdl.buffer_desc>, i32) -> vector<4xf32>
  %u = fly_rocdl.buffer_load(%p, %soffset) {scalar} : (!fly.ptr<f32, #fly_rocdl.buffer_desc>, i32) -> vector<4xf32>
  // CHECK: fly_rocdl.buffer_store(%[[V]], %p, %soffset) : (vector<4xf32>, !fly.ptr<f32, #fly_rocdl.buffer_desc>, i32) -> ()
  fly_rocdl.buffer_store(%v, %p, %soffset) : (vector<4xf32>, !fly.ptr<f32, #fly_rocdl.buffer_desc>, i32) -> ()
  func.return
}
