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

// CHECK-LABEL: @tiled_tdm(
func.func @tiled_tdm(%t: !fly.memref<f16, global, (?,128):(128,1)>, %s: !fly.layout<(64,32):(40,1)>, %p: !fly.layout<(64,32):(32,1)>, %k: !fly.tile<[64|32]>, %d: !fly.memref<f16, shared, (64,32):(40,1)>) {
  // CHECK: %[[A:.*]], %[[C:.*]] = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, (?,128):(128,1)>, !fly.layout<(64,32):(40,1)>, !fly.tile<[64|32]>
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k {numWarps = 1 : i32} : !fly.memref<f16, global, (?,128):(128,1)>, !fly.layout<(64,32):(40,1)>, !fly.tile<[64|32]>
  // CHECK: fly.copy_atom_call(%[[A]], %[[C]], %d) : (!fly.copy_atom<!fly_rocdl.cdna5.tensor_load<shape = [64, 32], elem = f16, tensor2tdm = (1E0,1E1), padInterval = 32, padAmount = 8>, 16>, !fly.coord_tensor<(0,0), (?,128):(1E1,1E0)>, !fly.memref<f16, shared, (64,32):(40,1)>) -> ()
  fly.copy_atom_call(%a, %c, %d) : (!fly.copy_atom<!fly_rocdl.cdna5.tensor_load<shape = [64, 32], elem = f16, tensor2tdm = (1E0,1E1), padInterval = 32, padAmount = 8>, 16>, !fly.coord_tensor<(0,0), (?,128):(1E1,1E0)>, !fly.memref<f16, shared, (64,32):(40,1)>) -> ()
  // CHECK: fly_rocdl.make_tiled_tdm_store_atom %t, %p, %k {atomicBarrier = true, cacheModifier = 3 : i32, initBoundaryCheck = false, numWarps = 4 : i32} : !fly.memref<f16, global, (?,128):(128,1)>, !fly.layout<(64,32):(32,1)>, !fly.tile<[64|32]>
  %b, %e = "fly_rocdl.make_tiled_tdm_store_atom"(%t, %p, %k) <{numWarps = 4 : i32, initBoundaryCheck = false, cacheModifier = 3 : i32, atomicBarrier = true}> : (!fly.memref<f16, global, (?,128):(128,1)>, !fly.layout<(64,32):(32,1)>, !fly.tile<[64|32]>) -> (!fly.copy_atom<!fly_rocdl.cdna5.tensor_store<shape = [16, 32], elem = f16, tensor2tdm = (1E0,1E1), atomicBarrier = true, cacheModifier = 3>, 16>, !fly.coord_tensor<(0,0), (?,128):(1E1,1E0)>)
  func.return
}
