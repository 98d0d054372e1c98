// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s

// Operations of AMD's atoms: every field is written, but for those at their defaults that may be left out.

// CHECK: @t0(%x: !fly_rocdl.cdna3.mfma<16x16x4, (f32, f32) -> f32>)
func.func private @t0(%x: !fly_rocdl.cdna3.mfma<16x16x4, (f32, f32) -> f32>) { func.return }
// CHECK: @t1(%x: !fly_rocdl.cdna3.mfma<32x32x16, (f8E4M3FNUZ, f8E5M2FNUZ) -> f32>)
func.func private @t1(%x: !fly_rocdl.cdna3.mfma<32x32x16, (f8E4M3FNUZ, f8E5M2FNUZ) -> f32>) { func.return }
// CHECK: @t2(%x: !fly_rocdl.cdna3.mfma<16x16x32, (i8, i8) -> i32>)
func.func private @t2(%x: !fly_rocdl.cdna3.mfma<16x16x32, (i8, i8) -> i32>) { func.return }
// CHECK: @t3(%x: !fly_rocdl.cdna4.mfma_scale<16x16x128, (f8E4M3FN, f4E2M1FN) -> f32, opselA = 0, opselB = 3>)
func.func private @t3(%x: !fly_rocdl.cdna4.mfma_scale<16x16x128, (f8E4M3FN, f4E2M1FN) -> f32, opselA = 0, opselB = 3>) { func.return }
// CHECK: @t4(%x: !fly_rocdl.cdna4.mfma_scale<32x32x64, (f6E2M3FN, f6E3M2FN) -> f32, opselA = 1, opselB = 2>)
func.func private @t4(%x: !fly_rocdl.cdna4.mfma_scale<32x32x64, (f6E2M3FN, f6E3M2FN) -> f32, opselA = 1, opselB = 2>) { func.return }
// CHECK: @t5(%x: !fly_rocdl.gfx11.wmma<16x16x16, (f16, f16) -> f32, signA = false, signB = false, clamp = false>)
func.func private @t5(%x: !fly_rocdl.gfx11.wmma<16x16x16, (f16, f16) -> f32, signA = false, signB = false, clamp = false>) { func.return }
// CHECK: @t6(%x: !fly_rocdl.gfx11.wmma<16x16x16, (i4, i4) -> i32, signA = true, signB = false, clamp = true>)
func.func private @t6(%x: !fly_rocdl.gfx11.wmma<16x16x16, (i4, i4) -> i32, signA = true, signB = false, clamp = true>) { func.return }
// CHECK: @t7(%x: !fly_rocdl.gfx120x.wmma<16x16x16, (f8E4M3FN, f8E5M2) -> f32, signA = false, signB = false, clamp = false>)
func.func private @t7(%x: !fly_rocdl.gfx120x.wmma<16x16x16, (f8E4M3FN, f8E5M2) -> f32, signA = false, signB = false, clamp = false>) { func.return }
// CHECK: @t8(%x: !fly_rocdl.gfx120x.wmma<16x16x32, (i4, i4) -> i32, signA = true, signB = true, clamp = false>)
func.func private @t8(%x: !fly_rocdl.gfx120x.wmma<16x16x32, (i4, i4) -> i32, signA = true, signB = true, clamp = false>) { func.return }
// CHECK: @t9(%x: !fly_rocdl.gfx1250.wmma<16x16x64, (f8E4M3FN, f8E5M2) -> f16, signA = false, signB = false, clamp = false>)
func.func private @t9(%x: !fly_rocdl.gfx1250.wmma<16x16x64, (f8E4M3FN, f8E5M2) -> f16, signA = false, signB = false, clamp = false>) { func.return }
// CHECK: @t10(%x: !fly_rocdl.gfx1250.wmma<16x16x32, (bf16, bf16) -> f32, signA = false, signB = false, clamp = false, modC = 1>)
func.func private @t10(%x: !fly_rocdl.gfx1250.wmma<16x16x32, (bf16, bf16) -> f32, signA = false, signB = false, clamp = false, modC = 1>) { func.return }
// CHECK: @t11(%x: !fly_rocdl.gfx1250.wmma_scale<16x16x128, (f8E5M2, f8E4M3FN) -> f32, opselA = 1, opselB = 0, modC = 0, reuseA = true, reuseB = false, blockSize = 16>)
func.func private @t11(%x: !fly_rocdl.gfx1250.wmma_scale<16x16x128, (f8E5M2, f8E4M3FN) -> f32, opselA = 1, opselB = 0, modC = 0, reuseA = true, reuseB = false, blockSize = 16>) { func.return }
// CHECK: @t12(%x: !fly_rocdl.gfx1250.wmma_scale<32x16x128, (f4E2M1FN, f4E2M1FN) -> f32, opselA = 0, opselB = 0, modC = 2, reuseA = false, reuseB = false, blockSize = 32>)
func.func private @t12(%x: !fly_rocdl.gfx1250.wmma_scale<32x16x128, (f4E2M1FN, f4E2M1FN) -> f32, opselA = 0, opselB = 0, modC = 2, reuseA = false, reuseB = false, blockSize = 32>) { func.return }
// CHECK: @t13(%x: !fly_rocdl.cdna3.buffer_copy<128>)
func.func private @t13(%x: !fly_rocdl.cdna3.buffer_copy<128>) { func.return }
// CHECK: @t14(%x: !fly_rocdl.cdna3.buffer_copy<32, cache = 2>)
func.func private @t14(%x: !fly_rocdl.cdna3.buffer_copy<32, cache = 2>) { func.return }
// CHECK: @t15(%x: !fly_rocdl.cdna3.buffer_copy_lds<32>)
func.func private @t15(%x: !fly_rocdl.cdna3.buffer_copy_lds<32>) { func.return }
// CHECK: @t16(%x: !fly_rocdl.cdna3.buffer_atomic<add, f32>)
func.func private @t16(%x: !fly_rocdl.cdna3.buffer_atomic<add, f32>) { func.return }
// CHECK: @t17(%x: !fly_rocdl.cdna3.buffer_atomic<max, i32>)
func.func private @t17(%x: !fly_rocdl.cdna3.buffer_atomic<max, i32>) { func.return }
// CHECK: @t18(%x: !fly_rocdl.cdna4.lds_read_trans<trans = 16b, 64>)
func.func private @t18(%x: !fly_rocdl.cdna4.lds_read_trans<trans = 16b, 64>) { func.return }
// CHECK: @t19(%x: !fly_rocdl.cdna4.lds_read_trans<trans = 6b, 96>)
func.func private @t19(%x: !fly_rocdl.cdna4.lds_read_trans<trans = 6b, 96>) { func.return }
// CHECK: @t20(%x: !fly_rocdl.cdna4.buffer_load_async_lds<96>)
func.func private @t20(%x: !fly_rocdl.cdna4.buffer_load_async_lds<96>) { func.return }
// CHECK: @t21(%x: !fly_rocdl.cdna4.global_load_async_lds<128>)
func.func private @t21(%x: !fly_rocdl.cdna4.global_load_async_lds<128>) { func.return }
// CHECK: @t22(%x: !fly_rocdl.gfx1250.tdm<rank = 2, warps = 4, pad = 64, 4, cache = 0, barrier = false, timeout = true>)
func.func private @t22(%x: !fly_rocdl.gfx1250.tdm<rank = 2, warps = 4, pad = 64, 4, cache = 0, barrier = false, timeout = true>) { func.return }
// CHECK: @t23(%x: !fly_rocdl.gfx1250.tdm<rank = 5, warps = 1, pad = 0, 0, cache = 3, barrier = true, timeout = false>)
func.func private @t23(%x: !fly_rocdl.gfx1250.tdm<rank = 5, warps = 1, pad = 0, 0, cache = 3, barrier = true, timeout = false>) { func.return }

// Integers of any sign: the flags decide.
// CHECK: @signs(%x: !fly_rocdl.gfx11.wmma<16x16x16, (ui8, si8) -> i32, signA = true, signB = false, clamp = false>)
func.func private @signs(%x: !fly_rocdl.gfx11.wmma<16x16x16, (ui8, si8) -> i32, signA = true, signB = false, clamp = false>) { func.return }

// Defaults may be written.
// CHECK: @plain_copy(%x: !fly_rocdl.cdna3.buffer_copy<64>)
func.func private @plain_copy(%x: !fly_rocdl.cdna3.buffer_copy<64, cache = 0>) { func.return }
// CHECK: @plain_wmma(%x: !fly_rocdl.gfx1250.wmma<16x16x4, (f32, f32) -> f32, signA = false, signB = false, clamp = false>)
func.func private @plain_wmma(%x: !fly_rocdl.gfx1250.wmma<16x16x4, (f32, f32) -> f32, signA = false, signB = false, clamp = false, modC = 0>) { func.return }

// Atoms of them, and their address space.
// CHECK: @atoms(%a: !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<128>, 32>, %b: !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>, %p: !fly.ptr<f32, #fly_rocdl.buffer_desc>, %m: !fly.memref<f16, #fly_rocdl.buffer_desc, (4,8):(8,1), align<16>>)
func.func private @atoms(%a: !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<128>, 32>, %b: !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>, %p: !fly.ptr<f32, #fly_rocdl.buffer_desc>, %m: !fly.memref<f16, #fly_rocdl.buffer_desc, (4,8):(8,1), align<16>>) { func.return }

// Boxes of the tensor data mover: what is at its default is not written.
// CHECK: @box0(%x: !fly_rocdl.cdna5.tensor_load<shape = [64, 32], elem = f16, tensor2tdm = (1E0,1E1)>)
func.func private @box0(%x: !fly_rocdl.cdna5.tensor_load<shape = [64,32], elem = f16, tensor2tdm = (1E0,1E1), cacheModifier = 0>) { func.return }
// CHECK: @box1(%x: !fly_rocdl.cdna5.tensor_load<shape = [1, 32], elem = f8E4M3FN, tensor2tdm = ((1E0,4E1),0,1E1), atomicBarrier = true, cacheModifier = 3, iterCount = 4, padInterval = 32, padAmount = 8>)
func.func private @box1(%x: !fly_rocdl.cdna5.tensor_load<shape = [1, 32], elem = f8E4M3FN, tensor2tdm = ((1E0,4E1),0,1E1), padAmount = 8, padInterval = 32, iterCount = 4, cacheModifier = 3, atomicBarrier = true>) { func.return }
// CHECK: @box2(%x: !fly.copy_atom<!fly_rocdl.cdna5.tensor_store<shape = [64], elem = i32, tensor2tdm = 1E0, atomicBarrier = true>, 32>)
func.func private @box2(%x: !fly.copy_atom<!fly_rocdl.cdna5.tensor_store<shape = [64], elem = i32, tensor2tdm = 1E0, atomicBarrier = true>, 32>) { func.return }
