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
