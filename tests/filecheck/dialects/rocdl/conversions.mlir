// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt %s | %fly-opt | FileCheck %s

// Conversions that write a part of their first operand have it last in their text.

// CHECK-LABEL: llvm.func @conversions(
llvm.func @conversions(%i: i32, %f: f32, %h: vector<2xf16>, %w: vector<2xi16>, %b: vector<2xbf16>, %s: vector<6xi32>,
                       %x: vector<16xf32>, %e: vector<8xf32>) {
  // CHECK: rocdl.cvt.scalef32.pk.bf16.fp4 %{{.*}}[1], %{{.*}} : vector<2xbf16>
  %0 = rocdl.cvt.scalef32.pk.bf16.fp4 %i[1], %f : vector<2xbf16>
  // CHECK: rocdl.cvt.scalef32.pk.f32.bf8 %{{.*}}[true], %{{.*}} : vector<2xf32>
  %1 = rocdl.cvt.scalef32.pk.f32.bf8 %i[true], %f : vector<2xf32>
  // CHECK: rocdl.cvt.scalef32.f16.bf8 %{{.*}}[1], %{{.*}} -> %{{.*}}[true] : vector<2xf16>
  %2 = rocdl.cvt.scalef32.f16.bf8 %i[1], %f -> %h[true] : vector<2xf16>
  // CHECK: rocdl.cvt.scalef32.pk.bf8.bf16 %{{.*}}, %{{.*}} -> %{{.*}}[true] : vector<2xi16>
  %3 = rocdl.cvt.scalef32.pk.bf8.bf16 %b, %f -> %w[true] : vector<2xi16>
  // CHECK: rocdl.cvt.scalef32.pk.fp4.f32 %{{.*}}, %{{.*}}, %{{.*}} -> %{{.*}}[2] : i32
  %4 = rocdl.cvt.scalef32.pk.fp4.f32 %f, %f, %f -> %i[2] : i32
  // CHECK: rocdl.cvt.scalef32.pk32.f32.bf6 %{{.*}}, %{{.*}} : vector<32xf32>
  %5 = rocdl.cvt.scalef32.pk32.f32.bf6 %s, %f : vector<32xf32>
  // CHECK: rocdl.cvt.scalef32.2xpk16.fp6.f32 %{{.*}}, %{{.*}}, %{{.*}} : vector<6xi32>
  %6 = rocdl.cvt.scalef32.2xpk16.fp6.f32 %x, %x, %f : vector<6xi32>
  // CHECK: rocdl.cvt.scalef32.sr.bf8.f32 %{{.*}}, %{{.*}}, %{{.*}} -> %{{.*}}[1] : i32
  %7 = rocdl.cvt.scalef32.sr.bf8.f32 %f, %i, %f -> %i[1] : i32
  // CHECK: rocdl.cvt.scalef32.sr.pk8.fp8.f32 %{{.*}}, %{{.*}}, %{{.*}} : vector<2xi32>
  %8 = rocdl.cvt.scalef32.sr.pk8.fp8.f32 %e, %i, %f : vector<2xi32>
  // CHECK: rocdl.cvt.f32.bf8 %{{.*}}[1] : f32
  %9 = rocdl.cvt.f32.bf8 %i[1] : f32
  // CHECK: rocdl.cvt.sr.fp8.f32 %{{.*}}, %{{.*}} -> %{{.*}}[1] : i32
  %10 = rocdl.cvt.sr.fp8.f32 %f, %i -> %i[1] : i32
  // CHECK: rocdl.cvt.scale.pk8.f32.fp4 %{{.*}}, %{{.*}}[1] : vector<8xf32>
  %11 = rocdl.cvt.scale.pk8.f32.fp4 %i, %i[1] : vector<8xf32>
  llvm.return
}

// CHECK-LABEL: llvm.func @products(
llvm.func @products(%i: i32, %a: vector<2xi32>, %c: vector<8xi32>, %f: vector<8xf32>, %p: vector<2xf32>, %h: vector<4xf16>,
                    %g: vector<8xf16>, %d: vector<4xf32>) {
  // CHECK: rocdl.wmma.i32.16x16x32.iu4 %{{.*}}, %{{.*}}, %{{.*}} {clamp = true, signA = true} : (vector<2xi32>, vector<2xi32>, vector<8xi32>) -> vector<8xi32>
  %0 = rocdl.wmma.i32.16x16x32.iu4 %a, %a, %c {clamp = true, signA = true} : (vector<2xi32>, vector<2xi32>, vector<8xi32>) -> vector<8xi32>
  // CHECK: rocdl.wmma.f32.16x16x4.f32 %{{.*}}, %{{.*}}, %{{.*}}, modC = none : (vector<2xf32>, vector<2xf32>, vector<8xf32>) -> vector<8xf32>
  %1 = rocdl.wmma.f32.16x16x4.f32 %p, %p, %f, modC = none : (vector<2xf32>, vector<2xf32>, vector<8xf32>) -> vector<8xf32>
  // CHECK: rocdl.wmma.f32.16x16x16.fp8_bf8 %{{.*}}, %{{.*}}, %{{.*}} : (vector<2xi32>, vector<2xi32>, vector<8xf32>) -> vector<8xf32>
  %2 = rocdl.wmma.f32.16x16x16.fp8_bf8 %a, %a, %f : (vector<2xi32>, vector<2xi32>, vector<8xf32>) -> vector<8xf32>
  // CHECK: rocdl.smfmac.f32.16x16x32.f16 %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, 0, 1 : (vector<4xf16>, vector<8xf16>, vector<4xf32>, i32) -> vector<4xf32>
  %3 = rocdl.smfmac.f32.16x16x32.f16 %h, %g, %d, %i, 0, 1 : (vector<4xf16>, vector<8xf16>, vector<4xf32>, i32) -> vector<4xf32>
  // CHECK: rocdl.sdot4 %{{.*}}, %{{.*}}, %{{.*}} {clamp = true} : (i32, i32, i32) -> i32
  %4 = rocdl.sdot4 %i, %i, %i {clamp = true} : (i32, i32, i32) -> i32
  llvm.return
}
