// RUN: %fly-opt --verify-diagnostics --split-input-file %s

// Parameters no instruction has.
// expected-error @+1 {{MFMA requires M == N, got 16x32x4}}
func.func private @f(!fly_rocdl.cdna3.mfma<16x32x4, (f32, f32) -> f32>) -> ()
// -----
// expected-error @+1 {{integer MFMA requires both inputs i8, got 'i8' and 'f16'}}
func.func private @f(!fly_rocdl.cdna3.mfma<16x16x32, (i8, f16) -> i32>) -> ()
// -----
// expected-error @+1 {{integer MFMA requires i32 accumulator, got 'f32'}}
func.func private @f(!fly_rocdl.cdna3.mfma<16x16x32, (i8, i8) -> f32>) -> ()
// -----
// expected-error @+1 {{elemTyAcc must be f32, got 'f16'}}
func.func private @f(!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f16>) -> ()
// -----
// expected-error @+1 {{elemTyA must be f16, bf16, f32, f8E4M3FNUZ, f8E5M2FNUZ, f8E4M3FN or f8E5M2, got 'f64'}}
func.func private @f(!fly_rocdl.cdna3.mfma<16x16x4, (f64, f32) -> f32>) -> ()
// -----
// expected-error @+1 {{unsupported MNK for CDNA4 MFMA_Scale: 16x16x64 (expected 16x16x128 or 32x32x64)}}
func.func private @f(!fly_rocdl.cdna4.mfma_scale<16x16x64, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 0, opselB = 0>) -> ()
// -----
// expected-error @+1 {{elemTyAcc must be f32, got 'f16'}}
func.func private @f(!fly_rocdl.cdna4.mfma_scale<16x16x128, (f8E4M3FN, f8E4M3FN) -> f16, opselA = 0, opselB = 0>) -> ()
// -----
// expected-error @+1 {{elemTyB must be one of f8E4M3FN, f8E5M2, f6E2M3FN, f6E3M2FN, f4E2M1FN, got 'f16'}}
func.func private @f(!fly_rocdl.cdna4.mfma_scale<16x16x128, (f8E4M3FN, f16) -> f32, opselA = 0, opselB = 0>) -> ()
// -----
// expected-error @+1 {{opselA must be in [0, 3], got 4}}
func.func private @f(!fly_rocdl.cdna4.mfma_scale<16x16x128, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 4, opselB = 0>) -> ()
// -----
// expected-error @+1 {{GFX11 WMMA requires M=N=K=16, got 16x16x32}}
func.func private @f(!fly_rocdl.gfx11.wmma<16x16x32, (f16, f16) -> f32, signA = false, signB = false, clamp = false>) -> ()
// -----
// expected-error @+1 {{GFX11 WMMA fp16/bf16 path does not accept signA/signB/clamp, which are for i4 and i8 inputs; got signA=1, signB=0, clamp=0}}
func.func private @f(!fly_rocdl.gfx11.wmma<16x16x16, (f16, f16) -> f32, signA = true, signB = false, clamp = false>) -> ()
// -----
// expected-error @+1 {{unsupported GFX11 WMMA configuration: 16x16x16 with A='f16', B='f32', Acc='f32'}}
func.func private @f(!fly_rocdl.gfx11.wmma<16x16x16, (f16, f32) -> f32, signA = false, signB = false, clamp = false>) -> ()
// -----
// expected-error @+1 {{GFX120X WMMA floating-point forms require M=N=K=16, got 16x16x32}}
func.func private @f(!fly_rocdl.gfx120x.wmma<16x16x32, (f16, f16) -> f32, signA = false, signB = false, clamp = false>) -> ()
// -----
// expected-error @+1 {{GFX120X WMMA floating-point path does not accept signA/signB/clamp}}
func.func private @f(!fly_rocdl.gfx120x.wmma<16x16x16, (f16, f16) -> f32, signA = false, signB = false, clamp = true>) -> ()
// -----
// expected-error @+1 {{signA/signB/clamp are only valid for integer (iu4/iu8) WMMA, got A='f16'}}
func.func private @f(!fly_rocdl.gfx1250.wmma<16x16x32, (f16, f16) -> f32, signA = true, signB = false, clamp = false>) -> ()
// -----
// expected-error @+1 {{unsupported GFX1250 WMMA configuration: 16x16x16 with A='f16', B='f16', Acc='f32'}}
func.func private @f(!fly_rocdl.gfx1250.wmma<16x16x16, (f16, f16) -> f32, signA = false, signB = false, clamp = false>) -> ()
// -----
// expected-error @+1 {{modC must fit the i16 intrinsic field [0, 65535], got 70000}}
func.func private @f(!fly_rocdl.gfx1250.wmma<16x16x32, (f16, f16) -> f32, signA = false, signB = false, clamp = false, modC = 70000>) -> ()
// -----
// expected-error @+1 {{blockSize must be 16 or 32, got 8}}
func.func private @f(!fly_rocdl.gfx1250.wmma_scale<16x16x128, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 0, opselB = 0, modC = 0, reuseA = false, reuseB = false, blockSize = 8>) -> ()
// -----
// expected-error @+1 {{unsupported MNK for GFX1250 WMMA_Scale: 16x16x64 (expected 16x16x128 or 32x16x128)}}
func.func private @f(!fly_rocdl.gfx1250.wmma_scale<16x16x64, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 0, opselB = 0, modC = 0, reuseA = false, reuseB = false, blockSize = 32>) -> ()
// -----
// expected-error @+1 {{GFX1250 WMMA_Scale 32x16x128 requires f4E2M1FN A and B, got A='f8E4M3FN', B='f8E4M3FN'}}
func.func private @f(!fly_rocdl.gfx1250.wmma_scale<32x16x128, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 0, opselB = 0, modC = 0, reuseA = false, reuseB = false, blockSize = 32>) -> ()
// -----
// expected-error @+1 {{opselA must be in [0, 1] (row0/row1), got 2}}
func.func private @f(!fly_rocdl.gfx1250.wmma_scale<16x16x128, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 2, opselB = 0, modC = 0, reuseA = false, reuseB = false, blockSize = 32>) -> ()
// -----
// expected-error @+1 {{modC must fit the i16 intrinsic field [0, 65535], got 99999}}
func.func private @f(!fly_rocdl.gfx1250.wmma_scale<16x16x128, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 0, opselB = 0, modC = 99999, reuseA = false, reuseB = false, blockSize = 32>) -> ()
// -----
// expected-error @+1 {{TDM rank must be in [1, 5], got 6}}
func.func private @f(!fly_rocdl.gfx1250.tdm<rank = 6, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>) -> ()
// -----
// expected-error @+1 {{numWarps must be a positive power of two, got 3}}
func.func private @f(!fly_rocdl.gfx1250.tdm<rank = 2, warps = 3, pad = 0, 0, cache = 0, barrier = false, timeout = false>) -> ()
// -----
// expected-error @+1 {{padInterval and padAmount must be non-negative, got -4, -2}}
func.func private @f(!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = -4, -2, cache = 0, barrier = false, timeout = false>) -> ()
// -----
// expected-error @+1 {{padInterval and padAmount must both be zero or both non-zero, got 4, 0}}
func.func private @f(!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 4, 0, cache = 0, barrier = false, timeout = false>) -> ()
// -----
// expected-error @+1 {{padInterval must be a power of two (in elements), got 3}}
func.func private @f(!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 3, 1, cache = 0, barrier = false, timeout = false>) -> ()
// -----
// expected-error @+1 {{unsupported (bitSize, transGranularity) = (96, 16) for LDS read transpose}}
func.func private @f(!fly_rocdl.cdna4.lds_read_trans<trans = 16b, 96>) -> ()
// -----
// expected-error @+1 {{unsupported bitSize = 64 for BufferCopyLDS; expected 32 or 128 (the hardware copies dwords, and 128 bits only on gfx950)}}
func.func private @f(!fly_rocdl.cdna3.buffer_copy_lds<64>) -> ()
// -----
// expected-error @+1 {{unsupported bitSize = 64 for BufferLoadAsyncLDS; expected 32, 96 or 128}}
func.func private @f(!fly_rocdl.cdna4.buffer_load_async_lds<64>) -> ()
// -----
// expected-error @+1 {{unsupported bitSize = 16 for GlobalLoadAsyncLDS; expected 32, 96 or 128}}
func.func private @f(!fly_rocdl.cdna4.global_load_async_lds<16>) -> ()
// -----
// expected-error @+1 {{expected one of add, max, min, and, or, inc, dec, got 'xor'}}
func.func private @f(!fly_rocdl.cdna3.buffer_atomic<xor, i32>) -> ()
// -----
// An atom of such an operation fails as well.
// expected-error @+2 {{elemTyAcc must be f32, got 'f16'}}
// expected-error @+1 {{failed to parse Fly_MmaAtom parameter 'mmaOp'}}
func.func private @f(!fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f16>>) -> ()
// -----
// Ops.
func.func @rsrc(%p: i32) {
  // expected-error @+2 {{expected a fly.ptr, got i32}}
  // expected-error @+1 {{'fly_rocdl.get_buffer_rsrc' op failed to infer returned types}}
  %r = fly_rocdl.get_buffer_rsrc(%p) : (i32) -> !llvm.ptr<8>
  func.return
}
// -----
func.func @rsrc_space(%p: !fly.ptr<f32, global>) {
  // expected-error @+2 {{expected a buffer_desc address space pointer, got !fly.ptr<f32, global>}}
  // expected-error @+1 {{'fly_rocdl.get_buffer_rsrc' op failed to infer returned types}}
  %r = fly_rocdl.get_buffer_rsrc(%p) : (!fly.ptr<f32, global>) -> !llvm.ptr<8>
  func.return
}
// -----
func.func @rsrc_type(%p: !fly.ptr<f32, #fly_rocdl.buffer_desc>) {
  // expected-error @+2 {{'fly_rocdl.get_buffer_rsrc' op inferred type(s) '!llvm.ptr<8>' are incompatible with return type(s) of operation '!llvm.ptr'}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly_rocdl.get_buffer_rsrc(%p) : (!fly.ptr<f32, #fly_rocdl.buffer_desc>) -> !llvm.ptr
  func.return
}
// -----
func.func @count(%p: !fly.ptr<f32, #fly_rocdl.buffer_desc>) {
  // expected-error @+1 {{'fly_rocdl.buffer_load' op expected 2 operands, but found 1}}
  %r = fly_rocdl.buffer_load(%p) : (!fly.ptr<f32, #fly_rocdl.buffer_desc>) -> f32
  func.return
}
// -----
// expected-error @+1 {{TDM rank must be in [1, 5], got 6}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [2,2,2,2,2,2], elem = f16, tensor2tdm = 1E0>) -> ()
// -----
// expected-error @+1 {{TDM tile shape dims must be in [1, 65535], got 70000}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [70000], elem = f16, tensor2tdm = 1E0>) -> ()
// -----
// expected-error @+1 {{TDM dataType must be an integer or float type, got 'index'}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [64], elem = index, tensor2tdm = 1E0>) -> ()
// -----
// expected-error @+1 {{TDM element width must be one of 8, 16, 32 or 64 bits, got 'f4E2M1FN'}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [64], elem = f4E2M1FN, tensor2tdm = 1E0>) -> ()
// -----
// expected-error @+1 {{TDM iterCount must be in [1, 256], got 0}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [64], elem = f16, tensor2tdm = 1E0, iterCount = 0>) -> ()
// -----
// expected-error @+1 {{TDM tensor2tdm has 1 modes but the descriptor has 2 dims}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [64, 32], elem = f16, tensor2tdm = 1E0>) -> ()
// -----
// expected-error @+1 {{TDM tensor2tdm mode 0 must be a basis stride or 0, got 5}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [64], elem = f16, tensor2tdm = 5>) -> ()
// -----
// expected-error @+1 {{TDM tensor2tdm mode 0 must have a static scale, got ?E0}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [64], elem = f16, tensor2tdm = ?E0>) -> ()
// -----
// expected-error @+1 {{TDM tensor2tdm mode 0 lands on dim 3, which is not a descriptor dim in [0, 1)}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [64], elem = f16, tensor2tdm = 1E3>) -> ()
// -----
// expected-error @+1 {{padInterval and padAmount must be non-negative, got -1, 1}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [64], elem = f16, tensor2tdm = 1E0, padInterval = -1, padAmount = 1>) -> ()
// -----
// expected-error @+1 {{padInterval and padAmount must both be zero or both non-zero, got 8, 0}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [64], elem = f16, tensor2tdm = 1E0, padInterval = 8>) -> ()
// -----
// expected-error @+1 {{padInterval must be a power of two (in elements), got 6}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [64], elem = f16, tensor2tdm = 1E0, padInterval = 6, padAmount = 1>) -> ()
// -----
// expected-error @+1 {{duplicate or unknown struct parameter name: cache}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [64], elem = f16, tensor2tdm = 1E0, cache = 3>) -> ()
// -----
// expected-error @+1 {{duplicate or unknown struct parameter name: padInterval}}
func.func private @f(!fly_rocdl.cdna5.tensor_store<shape = [64], elem = f16, tensor2tdm = 1E0, padInterval = 8, padAmount = 1>) -> ()
// -----
// expected-error @+1 {{invalid tensor2tdm:}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [64], elem = f16, tensor2tdm = x>) -> ()
// -----
// expected-error @+1 {{atomicBarrier is true or false, got '1'}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [64], elem = f16, tensor2tdm = 1E0, atomicBarrier = 1>) -> ()
// -----
// expected-error @+1 {{expected an integer for cacheModifier, got 'x'}}
func.func private @f(!fly_rocdl.cdna5.tensor_load<shape = [64], elem = f16, tensor2tdm = 1E0, cacheModifier = x>) -> ()
// -----
func.func @f(%t: !fly.coord_tensor<(0,0), (256,128):(1E0,1E1)>, %s: !fly.layout<(64,32):(32,1)>, %k: !fly.tile<[64|32]>) {
  // expected-error @+1 {{expected a !fly.memref tensor of a plain layout, got '!fly.coord_tensor<(0,0), (256,128):(1E0,1E1)>'}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.coord_tensor<(0,0), (256,128):(1E0,1E1)>, !fly.layout<(64,32):(32,1)>, !fly.tile<[64|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(128,1)>, %s: i32, %k: !fly.tile<[64|32]>) {
  // expected-error @+1 {{expected !fly.layout for the LDS layout, got 'i32'}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, (256,128):(128,1)>, i32, !fly.tile<[64|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(128,1)>, %s: !fly.layout<(64,32):(32,1)>, %k: i32) {
  // expected-error @+1 {{expected !fly.tile for the tiler, got 'i32'}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, (256,128):(128,1)>, !fly.layout<(64,32):(32,1)>, i32
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(128,1)>, %s: !fly.layout<(64,32):(32,1)>, %k: !fly.tile<[64|32]>) {
  // expected-error @+1 {{internal_type must be omitted until rational basis strides are supported}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k {internalType = i32} : !fly.memref<f16, global, (256,128):(128,1)>, !fly.layout<(64,32):(32,1)>, !fly.tile<[64|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(128,1)>, %s: !fly.layout<(64,32):(40,1)>, %k: !fly.tile<[64|32]>) {
  // expected-error @+1 {{a TDM store cannot drain a padded LDS tile (pad interval 32, amount 8); TENSOR_STORE_FROM_LDS has no de-padding, it walks LDS with the packed tile stride}}
  %a, %c = fly_rocdl.make_tiled_tdm_store_atom %t, %s, %k : !fly.memref<f16, global, (256,128):(128,1)>, !fly.layout<(64,32):(40,1)>, !fly.tile<[64|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (2,2,2,2,2,2):(320,160,80,40,20,1)>, %s: !fly.layout<(2,2,2,2,2,2):(32,16,8,4,2,1)>, %k: !fly.tile<[2|2|2|2|2|2]>) {
  // expected-error @+1 {{tiled TDM currently supports global tensor flat-rank <= 5, got 6}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, (2,2,2,2,2,2):(320,160,80,40,20,1)>, !fly.layout<(2,2,2,2,2,2):(32,16,8,4,2,1)>, !fly.tile<[2|2|2|2|2|2]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(128,1)>, %s: !fly.layout<(64,32):(32,1)>, %k: !fly.tile<[64|32]>) {
  // expected-error @+1 {{num_warps must be positive, got 0}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k {numWarps = 0 : i32} : !fly.memref<f16, global, (256,128):(128,1)>, !fly.layout<(64,32):(32,1)>, !fly.tile<[64|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(128,1)>, %s: !fly.layout<(64,32):(32,1)>, %k: !fly.tile<[64|32]>) {
  // expected-error @+1 {{num_warps cuts a descriptor axis unevenly}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k {numWarps = 3 : i32} : !fly.memref<f16, global, (256,128):(128,1)>, !fly.layout<(64,32):(32,1)>, !fly.tile<[64|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(128,1)>, %s: !fly.layout<(64,32):(32,1)>, %k: !fly.tile<[64|32]>) {
  // expected-error @+1 {{num_warps exceeds the logical descriptor box}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k {numWarps = 4096 : i32} : !fly.memref<f16, global, (256,128):(128,1)>, !fly.layout<(64,32):(32,1)>, !fly.tile<[64|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(128,1)>, %s: !fly.layout<(64,32):(40,1)>, %k: !fly.tile<[64|32]>) {
  // expected-error @+1 {{padInterval must divide each warp's physical TDM box}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k {numWarps = 128 : i32} : !fly.memref<f16, global, (256,128):(128,1)>, !fly.layout<(64,32):(40,1)>, !fly.tile<[64|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(128,1)>, %s: !fly.layout<(32,32):(32,1)>, %k: !fly.tile<[64|32]>) {
  // expected-error @+1 {{the tiler holds 2048 elements but the LDS tile holds 1024; a tiler reshapes the tile, it does not shrink it}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, (256,128):(128,1)>, !fly.layout<(32,32):(32,1)>, !fly.tile<[64|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (2,65536):(65536,1)>, %s: !fly.layout<(1,65536):(65536,1)>, %k: !fly.tile<[1|65536]>) {
  // expected-error @+1 {{physical TDM tile dimension exceeds 65535}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, (2,65536):(65536,1)>, !fly.layout<(1,65536):(65536,1)>, !fly.tile<[1|65536]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,(?,2)):(128,(1,64))>, %s: !fly.layout<(64,32):(32,1)>, %k: !fly.tile<[64|32]>) {
  // expected-error @+1 {{the tiler cuts (?,2), whose sub-modes must be static for that}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, (256,(?,2)):(128,(1,64))>, !fly.layout<(64,32):(32,1)>, !fly.tile<[64|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,(64,2)):(128,(1,64))>, %s: !fly.layout<(64,96):(96,1)>, %k: !fly.tile<[64|96]>) {
  // expected-error @+1 {{the tiler's extent 96 is no multiple of 64, the mode it goes over}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, (256,(64,2)):(128,(1,64))>, !fly.layout<(64,96):(96,1)>, !fly.tile<[64|96]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(128,1)>, %s: !fly.layout<(64,32):(32,1)>, %k: !fly.tile<[64:2|32]>) {
  // expected-error @+1 {{the tiler's mode at nesting depth 1 must be an extent or a nested tile, got 64:2}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, (256,128):(128,1)>, !fly.layout<(64,32):(32,1)>, !fly.tile<[64:2|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, 256:1>, %s: !fly.layout<64:1>, %k: !fly.tile<[64]>) {
  // expected-error @+1 {{the tiler is deeper than the tensor at nesting depth 0; the tensor has a single extent there but the tiler has 1 sub-modes}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, 256:1>, !fly.layout<64:1>, !fly.tile<[64]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(128,1)>, %s: !fly.layout<(64,32,2):(32,1,2048)>, %k: !fly.tile<[64|32|2]>) {
  // expected-error @+1 {{the tiler has 3 modes at nesting depth 0 but the tensor has 2; a tiler selects from a mode's leading sub-modes}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, (256,128):(128,1)>, !fly.layout<(64,32,2):(32,1,2048)>, !fly.tile<[64|32|2]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(128,1)>, %s: !fly.layout<(64,32):(?,1)>, %k: !fly.tile<[64|32]>) {
  // expected-error @+1 {{the LDS tile must be fully static, mode 0 is not}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, (256,128):(128,1)>, !fly.layout<(64,32):(?,1)>, !fly.tile<[64|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(128,1)>, %s: !fly.layout<(64,32):(0,1)>, %k: !fly.tile<[64|32]>) {
  // expected-error @+1 {{LDS mode 0 has extent 64 and stride 0; TDM walks LDS linearly and cannot broadcast one location over several tile elements}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, (256,128):(128,1)>, !fly.layout<(64,32):(0,1)>, !fly.tile<[64|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(128,1)>, %s: !fly.layout<(64,32):(64,2)>, %k: !fly.tile<[64|32]>) {
  // expected-error @+1 {{the LDS tile must be contiguous along its fastest axis, but its smallest stride is 2 (mode 1)}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, (256,128):(128,1)>, !fly.layout<(64,32):(64,2)>, !fly.tile<[64|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(128,1)>, %s: !fly.layout<(64,32):(16,1)>, %k: !fly.tile<[64|32]>) {
  // expected-error @+1 {{LDS mode 0 has stride 16, smaller than the 32 elements inside it; the tile overlaps itself}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, (256,128):(128,1)>, !fly.layout<(64,32):(16,1)>, !fly.tile<[64|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (8,256,128):(32768,128,1)>, %s: !fly.layout<(2,64,32):(2568,40,1)>, %k: !fly.tile<[2|64|32]>) {
  // expected-error @+1 {{the LDS tile's stride (modes sorted by stride) is not a single-pad form; TDM can express one constant skip every pad_interval elements, so mode 0 must have stride 2560, got 2568}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, (8,256,128):(32768,128,1)>, !fly.layout<(2,64,32):(2568,40,1)>, !fly.tile<[2|64|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(128,1)>, %s: !fly.layout<(32,64):(64,1)>, %k: !fly.tile<[64|32]>) {
  // expected-error @+1 {{no common tile/global vectorization: the LDS tile and the global tile do not share a contiguous innermost run. Does the tiler select out the major global mode?}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, (256,128):(128,1)>, !fly.layout<(32,64):(64,1)>, !fly.tile<[64|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(1,256)>, %s: !fly.layout<(64,32):(32,1)>, %k: !fly.tile<[64|32]>) {
  // expected-error @+1 {{the innermost descriptor dim must be contiguous in global memory (stride 1), got global mode 1: the LDS tile's majorness does not match the global tensor's}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k : !fly.memref<f16, global, (256,128):(1,256)>, !fly.layout<(64,32):(32,1)>, !fly.tile<[64|32]>
  func.return
}
// -----
func.func @f(%t: !fly.memref<f16, global, (256,128):(128,1)>, %s: !fly.layout<(64,32):(32,1)>, %k: !fly.tile<[64|32]>) {
  // expected-error @+1 {{'fly_rocdl.make_tiled_tdm_load_atom' op attribute 'numWarps' failed to satisfy constraint: 32-bit signless integer attribute}}
  %a, %c = fly_rocdl.make_tiled_tdm_load_atom %t, %s, %k {numWarps = 4 : i64} : !fly.memref<f16, global, (256,128):(128,1)>, !fly.layout<(64,32):(32,1)>, !fly.tile<[64|32]>
  func.return
}
