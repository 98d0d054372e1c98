// RUN: %fly-opt --allow-unregistered-dialect --convert-fly-to-rocdl %s | FileCheck %s

// What is left of `fly` on AMD: types, pointers, memory, atoms on memory and on values.

!universal = !fly.copy_atom<!fly.universal_copy<128>, 32>
!buffer = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<128>, 32>
!g4 = !fly.memref<f32, global, 4:1, align<16>>
!d4 = !fly.memref<f32, #fly_rocdl.buffer_desc, 4:1>
gpu.module @m {
  // CHECK-LABEL: gpu.func @types(
  // CHECK-SAME: %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<3>, %{{.*}}: !llvm.ptr<5>, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.struct<(ptr<8>, i32)>, %{{.*}}: !llvm.struct<(i32)>, %{{.*}}: !llvm.struct<()>, %{{.*}}: vector<4xi8>, %{{.*}}: i4) kernel
  gpu.func @types(%a: !fly.ptr<f32, global>, %b: !fly.ptr<f32, shared>, %c: !fly.ptr<f32, register>, %d: !fly.ptr<f32, generic>, %e: !fly.ptr<f32, #fly_rocdl.buffer_desc>, %f: !buffer, %g: !universal, %h: vector<4xf8E4M3FN>, %i: f4E2M1FN) kernel {
    gpu.return
  }

  // CHECK-LABEL: gpu.func @addresses(
  gpu.func @addresses(%p: !fly.ptr<f16, global, align<16>>, %i: i32, %out: !fly.ptr<f16, shared>) kernel {
    // CHECK: %[[Q:.*]] = llvm.getelementptr %p[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f16
    // CHECK: %[[X:.*]] = llvm.load %[[Q]] {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf16>
    %o = fly.make_int_tuple(%i) : (i32) -> !fly.int_tuple<?{div=8}>
    %q = fly.add_offset(%p, %o) : (!fly.ptr<f16, global, align<16>>, !fly.int_tuple<?{div=8}>) -> !fly.ptr<f16, global, align<16>>
    %x = fly.ptr.load(%q) : (!fly.ptr<f16, global, align<16>>) -> vector<4xf16>
    // CHECK: %[[R:.*]] = llvm.getelementptr %out[3] : (!llvm.ptr<3>) -> !llvm.ptr<3>, f16
    // CHECK: llvm.store %[[X]], %[[R]] {alignment = 2 : i64} : vector<4xf16>, !llvm.ptr<3>
    %c = fly.make_int_tuple() : () -> !fly.int_tuple<3>
    %r = fly.add_offset(%out, %c) : (!fly.ptr<f16, shared>, !fly.int_tuple<3>) -> !fly.ptr<f16, shared>
    fly.ptr.store(%x, %r) : (vector<4xf16>, !fly.ptr<f16, shared>) -> ()
    gpu.return
  }

  // A pointer's swizzle is applied to the byte address of the access.
  // CHECK-LABEL: gpu.func @swizzled(
  gpu.func @swizzled(%p: !fly.ptr<f32, shared, align<16>, S<2,4,3>>, %v: f32) kernel {
    // CHECK: %[[A:.*]] = llvm.ptrtoint %p : !llvm.ptr<3> to i64
    // CHECK: %[[B:.*]] = arith.andi %[[A]], %{{.*}} : i64
    // CHECK: %[[C:.*]] = arith.shrui %[[B]], %{{.*}} : i64
    // CHECK: %[[D:.*]] = arith.xori %[[A]], %[[C]] : i64
    // CHECK: %[[E:.*]] = llvm.inttoptr %[[D]] : i64 to !llvm.ptr<3>
    // CHECK: llvm.store %v, %[[E]] {alignment = 16 : i64} : f32, !llvm.ptr<3>
    fly.ptr.store(%v, %p) : (f32, !fly.ptr<f32, shared, align<16>, S<2,4,3>>) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @copies_on_values(
  gpu.func @copies_on_values(%g: !g4, %d: !d4, %flag: i1, %old: vector<4xf32>, %s: i32) kernel {
    %u = fly.make_copy_atom {valBits = 32 : i32} : !universal
    %b = fly.make_copy_atom {valBits = 32 : i32} : !buffer
    %bs = fly.atom.set_value(%b, "soffset", %s) : (!buffer, i32) -> !buffer
    // CHECK: %[[V:.*]] = llvm.load %g {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %v = fly.copy_atom_call_ssa(%u, %g) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!universal, !g4) -> vector<4xf32>
    // The state counts elements.
    // CHECK: %[[SOFF:.*]] = arith.muli %s, %{{.*}} : i32
    // CHECK: %[[BITS:.*]] = llvm.bitcast %[[V]] : vector<4xf32> to vector<4xi32>
    // CHECK: rocdl.raw.ptr.buffer.store %[[BITS]], %{{.*}}, %{{.*}}, %[[SOFF]], 0 : vector<4xi32>
    fly.copy_atom_call_ssa(%bs, %v, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!buffer, vector<4xf32>, !d4) -> ()
    // Where the predicate does not hold, what was there stays.
    // CHECK: %[[W:.*]] = scf.if %flag -> (vector<4xf32>) {
    // CHECK:   %[[L:.*]] = rocdl.raw.ptr.buffer.load %{{.*}}, %{{.*}}, %{{.*}}, 0 : vector<4xi32>
    // CHECK:   %[[F:.*]] = llvm.bitcast %[[L]] : vector<4xi32> to vector<4xf32>
    // CHECK:   scf.yield %[[F]] : vector<4xf32>
    // CHECK: } else {
    // CHECK:   scf.yield %old : vector<4xf32>
    %w = fly.copy_atom_call_ssa(%b, %d, %old, %flag) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!buffer, !d4, vector<4xf32>, i1) -> vector<4xf32>
    // CHECK: scf.if %flag {
    // CHECK-NEXT: llvm.store %[[W]], %g {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
    // CHECK-NEXT: }
    fly.copy_atom_call_ssa(%u, %w, %g, %flag) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!universal, vector<4xf32>, !g4, i1) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @products_on_values(
  gpu.func @products_on_values(%a: vector<4xf16>, %c: vector<4xf32>, %m: !fly.memref<f32, shared, 4:1>, %x: vector<32xi8>, %s: i32) kernel {
    %t = fly.make_mma_atom : !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>
    // CHECK: %[[D:.*]] = rocdl.mfma.f32.16x16x16f16 %a, %a, %c, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %d = fly.mma_atom_call_ssa(%t, %a, %a, %c) : (!fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>, vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    // The result may go to memory.
    // CHECK: %[[E:.*]] = rocdl.mfma.f32.16x16x16f16 %a, %a, %[[D]], 0, 0, none
    // CHECK: llvm.store %[[E]], %m {alignment = 4 : i64} : vector<4xf32>, !llvm.ptr<3>
    fly.mma_atom_call_ssa(%t, %a, %a, %d) dst = %m : (!fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>, !fly.memref<f32, shared, 4:1>, vector<4xf16>, vector<4xf16>, vector<4xf32>) -> ()
    // Scales are state, or come with A and B.
    %ts = fly.make_mma_atom : !fly.mma_atom<!fly_rocdl.cdna4.mfma_scale<16x16x128, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 1, opselB = 2>>
    %ss = fly.atom.set_value(%ts, "scale_a", %s) : (!fly.mma_atom<!fly_rocdl.cdna4.mfma_scale<16x16x128, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 1, opselB = 2>>, i32) -> !fly.mma_atom<!fly_rocdl.cdna4.mfma_scale<16x16x128, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 1, opselB = 2>>
    // CHECK: rocdl.mfma.scale.f32.16x16x128.f8f6f4 %{{.*}}, %{{.*}}, %c, fp8_e4m3, fp8_e4m3, 1, %s, 2, %{{.*}} : (vector<8xi32>, vector<8xi32>, vector<4xf32>, i32, i32) -> vector<4xf32>
    %y = fly.mma_atom_call_ssa(%ss, %x, %x, %c) : (!fly.mma_atom<!fly_rocdl.cdna4.mfma_scale<16x16x128, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 1, opselB = 2>>, vector<32xi8>, vector<32xi8>, vector<4xf32>) -> vector<4xf32>
    // CHECK: rocdl.mfma.scale.f32.16x16x128.f8f6f4 %{{.*}}, %{{.*}}, %c, fp8_e4m3, fp8_e4m3, 1, %s, 2, %s : (vector<8xi32>, vector<8xi32>, vector<4xf32>, i32, i32) -> vector<4xf32>
    %z = fly.mma_atom_call_ssa(%ts, [%x, %s], [%x, %s], %c) : (!fly.mma_atom<!fly_rocdl.cdna4.mfma_scale<16x16x128, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 1, opselB = 2>>, vector<32xi8>, i32, vector<32xi8>, i32, vector<4xf32>) -> vector<4xf32>
    gpu.return
  }

  // An atom with state crosses functions and loops as the struct of its fields.
  // CHECK-LABEL: gpu.func @state(
  // CHECK-SAME: %atom: !llvm.struct<(i32)>
  gpu.func @state(%atom: !buffer, %d: !d4, %g: !g4, %n: index, %s: i32) kernel {
    // CHECK: %[[F:.*]] = llvm.extractvalue %atom[0] : !llvm.struct<(i32)>
    // CHECK: %[[B:.*]] = arith.muli %[[F]], %{{.*}} : i32
    // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %{{.*}}, %[[B]], 0
    %v = fly.copy_atom_call_ssa(%atom, %d) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!buffer, !d4) -> vector<4xf32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // CHECK: scf.for {{.*}} iter_args(%a = %{{.*}}) -> (!llvm.struct<(i32)>) {
    // CHECK:   %[[G:.*]] = llvm.extractvalue %a[0] : !llvm.struct<(i32)>
    // CHECK:   %[[M:.*]] = arith.muli %[[G]], %{{.*}} : i32
    // CHECK:   rocdl.raw.ptr.buffer.store %{{.*}}, %{{.*}}, %{{.*}}, %[[M]], 0
    // CHECK:   %[[N:.*]] = llvm.insertvalue %s, %{{.*}}[0] : !llvm.struct<(i32)>
    // CHECK:   scf.yield %[[N]] : !llvm.struct<(i32)>
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%a = %atom) -> (!buffer) {
      fly.copy_atom_call_ssa(%a, %v, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!buffer, vector<4xf32>, !d4) -> ()
      %next = fly.atom.set_value(%a, "soffset", %s) : (!buffer, i32) -> !buffer
      scf.yield %next : !buffer
    }
    gpu.return
  }

  // CHECK-LABEL: gpu.func @pointers(
  gpu.func @pointers(%g: !g4, %s: !fly.ptr<i8, shared>, %n: i64) kernel {
    // CHECK: %[[P:.*]] = llvm.addrspacecast %g : !llvm.ptr<1> to !llvm.ptr
    %p = fly.extract_aligned_pointer_as_index %g : <f32, global, 4:1, align<16>> -> !llvm.ptr
    %q = fly.extract_aligned_pointer_as_index %g : <f32, global, 4:1, align<16>> -> !llvm.ptr<1>
    %r = fly.to_llvm_ptr(%s) {llvm_address_space = 3 : i32} : (!fly.ptr<i8, shared>) -> !llvm.ptr<3>
    // CHECK: %[[I:.*]] = llvm.ptrtoint %s : !llvm.ptr<3> to i32
    %i = fly.ptrtoint(%s) : (!fly.ptr<i8, shared>) -> i32
    // CHECK: %[[J:.*]] = llvm.inttoptr %n : i64 to !llvm.ptr<1>
    %j = fly.inttoptr(%n) : (i64) -> !fly.ptr<f32, global>
    %k = fly.to_llvm_ptr(%j) {llvm_address_space = 1 : i32} : (!fly.ptr<f32, global>) -> !llvm.ptr<1>
    // CHECK: "test.use"(%[[P]], %g, %s, %[[I]], %[[J]])
    "test.use"(%p, %q, %r, %i, %k) : (!llvm.ptr, !llvm.ptr<1>, !llvm.ptr<3>, i32, !llvm.ptr<1>) -> ()
    gpu.return
  }

  // Shared memory is a global of the module, registers are stack memory.
  // CHECK-LABEL: gpu.func @memory(
  gpu.func @memory() kernel {
    // CHECK: llvm.alloca %{{.*}} x f32 {{.*}}-> !llvm.ptr<5>
    %r = fly.make_ptr() {dictAttrs = {allocSize = 4 : i64}} : () -> !fly.ptr<f32, register>
    // CHECK: llvm.mlir.addressof @__shared_alloc_0 : !llvm.ptr<3>
    %s = fly.make_ptr() {dictAttrs = {allocBytes = 64 : i64, allocAlign = 16 : i64}} : () -> !fly.ptr<f32, shared>
    // CHECK: llvm.mlir.addressof @__dynamic_shared_0 : !llvm.ptr<3>
    %d = fly.get_dyn_shared() : !fly.ptr<i8, shared, align<1024>>
    "test.use"(%r, %s, %d) : (!fly.ptr<f32, register>, !fly.ptr<f32, shared>, !fly.ptr<i8, shared, align<1024>>) -> ()
    gpu.return
  }

  // A tiled operation has the state of its atom.
  // CHECK-LABEL: gpu.func @tiled(
  gpu.func @tiled(%d: !d4, %s: i32, %g: !g4) kernel {
    %b = fly.make_copy_atom {valBits = 32 : i32} : !buffer
    %bs = fly.atom.set_value(%b, "soffset", %s) : (!buffer, i32) -> !buffer
    %l = fly.static : !fly.layout<(1,4):(1,1)>
    %t = fly.static : !fly.tile<[4]>
    %tc = fly.make_tiled_copy(%bs, %l, %t) : (!buffer, !fly.layout<(1,4):(1,1)>, !fly.tile<[4]>) -> !fly.tiled_copy<!buffer, !fly.layout<(1,4):(1,1)>, !fly.tile<[4]>>
    %at = fly.get_copy_atom(%tc) : (!fly.tiled_copy<!buffer, !fly.layout<(1,4):(1,1)>, !fly.tile<[4]>>) -> !buffer
    // CHECK: %[[B:.*]] = arith.muli %s, %{{.*}} : i32
    // CHECK: rocdl.raw.ptr.buffer.load %{{.*}}, %{{.*}}, %[[B]], 0
    fly.copy_atom_call(%at, %d, %g) : (!buffer, !d4, !g4) -> ()
    gpu.return
  }
}

// CHECK-LABEL: func.func @made(
// CHECK-SAME: -> !llvm.struct<(i32)>
func.func @made(%s: i32) -> !buffer {
  // CHECK: %[[U:.*]] = llvm.mlir.undef : !llvm.struct<(i32)>
  // CHECK: %[[D:.*]] = llvm.insertvalue %{{.*}}, %[[U]][0] : !llvm.struct<(i32)>
  // CHECK: %[[V:.*]] = llvm.insertvalue %s, %[[D]][0] : !llvm.struct<(i32)>
  // CHECK: return %[[V]] : !llvm.struct<(i32)>
  %a = fly.make_copy_atom {valBits = 32 : i32} : !buffer
  %b = fly.atom.set_value(%a, "soffset", %s) : (!buffer, i32) -> !buffer
  func.return %b : !buffer
}
