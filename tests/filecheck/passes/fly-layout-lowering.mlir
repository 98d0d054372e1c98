// RUN: %fly-opt --fly-canonicalize --fly-layout-lowering --allow-unregistered-dialect %s | FileCheck %s

!copy = !fly.copy_atom<!fly.universal_copy<32>, 32>
!mma = !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
gpu.module @m {
  // CHECK-LABEL: gpu.func @load(%p: !fly.ptr<f32, global, align<16>>, %r: i32, %c: i32)
  gpu.func @load(%p: !fly.ptr<f32, global, align<16>>, %r: i32, %c: i32) kernel {
    %l = fly.static : !fly.layout<(16,32):(32,1)>
    %v = fly.make_view(%p, %l) : (!fly.ptr<f32, global, align<16>>, !fly.layout<(16,32):(32,1)>) -> !fly.memref<f32, global, (16,32):(32,1), align<16>>
    %xy = fly.make_int_tuple(%r, %c) : (i32, i32) -> !fly.int_tuple<(?,?{div=4})>
    // CHECK-NEXT: %[[C32:.*]] = arith.constant 32 : i32
    // CHECK-NEXT: %[[M:.*]] = arith.muli %r, %[[C32]] : i32
    // CHECK-NEXT: %[[A:.*]] = arith.addi %[[M]], %c : i32
    // CHECK-NEXT: %[[T:.*]] = fly.make_int_tuple(%[[A]]) : (i32) -> !fly.int_tuple<?{div=4}>
    // CHECK-NEXT: %[[P:.*]] = fly.add_offset(%p, %[[T]]) : (!fly.ptr<f32, global, align<16>>, !fly.int_tuple<?{div=4}>) -> !fly.ptr<f32, global, align<16>>
    // CHECK-NEXT: %[[E:.*]] = fly.ptr.load(%[[P]]) : (!fly.ptr<f32, global, align<16>>) -> f32
    %e = fly.memref.load(%v, %xy) : (!fly.memref<f32, global, (16,32):(32,1), align<16>>, !fly.int_tuple<(?,?{div=4})>) -> f32
    // CHECK-NEXT: fly.ptr.store(%[[E]], %[[P]])
    fly.memref.store(%e, %v, %xy) : (f32, !fly.memref<f32, global, (16,32):(32,1), align<16>>, !fly.int_tuple<(?,?{div=4})>) -> ()
    gpu.return
  }
  // CHECK-LABEL: gpu.func @extract(%x: i32, %y: i64)
  gpu.func @extract(%x: i32, %y: i64) kernel {
    %s = fly.make_int_tuple(%x) : (i32) -> !fly.int_tuple<(?,8)>
    %d = fly.make_int_tuple(%y) : (i64) -> !fly.int_tuple<(?{i64 div=4},1)>
    %l = fly.make_layout(%s, %d) : (!fly.int_tuple<(?,8)>, !fly.int_tuple<(?{i64 div=4},1)>) -> !fly.layout<(?,8):(?{i64 div=4},1)>
    %gs = fly.get_shape(%l) : (!fly.layout<(?,8):(?{i64 div=4},1)>) -> !fly.int_tuple<(?,8)>
    %gd = fly.get_stride(%l) : (!fly.layout<(?,8):(?{i64 div=4},1)>) -> !fly.int_tuple<(?{i64 div=4},1)>
    %0, %1 = fly.get_leaves(%gs) : (!fly.int_tuple<(?,8)>) -> (i32, i32)
    %2 = fly.get_leaves(%gd) {dynamicOnly = true} : (!fly.int_tuple<(?{i64 div=4},1)>) -> i64
    %3 = fly.size(%l) : (!fly.layout<(?,8):(?{i64 div=4},1)>) -> !fly.int_tuple<?{div=8}>
    %4 = fly.get_scalar(%3) : (!fly.int_tuple<?{div=8}>) -> i32
    // CHECK-NEXT: %[[C8:.*]] = arith.constant 8 : i32
    // CHECK-NEXT: %[[S:.*]] = arith.muli %x, %[[C8]] : i32
    // CHECK-NEXT: "test.use"(%x, %[[C8]], %y, %[[S]])
    "test.use"(%0, %1, %2, %4) : (i32, i32, i64, i32) -> ()
    gpu.return
  }
  // Both widths in one sum; static results need no code; flags.
  // CHECK-LABEL: gpu.func @arithmetic(%x: i32, %y: i64)
  gpu.func @arithmetic(%x: i32, %y: i64) kernel {
    %a = fly.make_int_tuple(%x) : (i32) -> !fly.int_tuple<(?,2)>
    %b = fly.make_int_tuple(%y) : (i64) -> !fly.int_tuple<(?{i64},3)>
    %s = fly.int_tuple_add(%a, %b) : (!fly.int_tuple<(?,2)>, !fly.int_tuple<(?{i64},3)>) -> !fly.int_tuple<(?{i64},5)>
    // CHECK: %[[X:.*]] = arith.extsi %x : i32 to i64
    // CHECK-NEXT: %[[S:.*]] = arith.addi %[[X]], %y : i64
    // CHECK: %[[T:.*]] = fly.make_int_tuple(%[[S]]) : (i64) -> !fly.int_tuple<(?{i64},5)>
    // CHECK-NEXT: "test.use"(%[[T]])
    "test.use"(%s) : (!fly.int_tuple<(?{i64},5)>) -> ()
    %q = fly.ceil_div(%a, %a) : (!fly.int_tuple<(?,2)>, !fly.int_tuple<(?,2)>) -> !fly.int_tuple<(?,1)>
    // CHECK: arith.ceildivsi %x, %x : i32
    "test.use"(%q) : (!fly.int_tuple<(?,1)>) -> ()
    %less = fly.elem_less(%a, %b) : (!fly.int_tuple<(?,2)>, !fly.int_tuple<(?{i64},3)>) -> i1
    // CHECK: %[[L:.*]] = arith.cmpi slt, %[[X]], %y : i64
    %eq = fly.equal(%a, %b) : (!fly.int_tuple<(?,2)>, !fly.int_tuple<(?{i64},3)>) -> i1
    // CHECK: "test.flags"(%{{.*}}, %{{.*}}) : (i1, i1) -> ()
    "test.flags"(%less, %eq) : (i1, i1) -> ()
    gpu.return
  }
  // CHECK-LABEL: gpu.func @coordinates(%i: i32)
  gpu.func @coordinates(%i: i32) kernel {
    %l = fly.static : !fly.layout<(5,6):(6,1)>
    %sw = fly.static : !fly.swizzle<S<2,2,2>>
    %t = fly.make_int_tuple(%i) : (i32) -> !fly.int_tuple<?>
    %c = fly.idx2crd(%t, %l) : (!fly.int_tuple<?>, !fly.layout<(5,6):(6,1)>) -> !fly.int_tuple<(?,?)>
    // CHECK: %[[D:.*]] = arith.divsi %i, %{{.*}} : i32
    // CHECK-NEXT: %[[R:.*]] = arith.remsi %[[D]], %{{.*}} : i32
    // CHECK: %[[M:.*]] = arith.remsi %{{.*}}, %{{.*}} : i32
    // CHECK: fly.make_int_tuple(%[[R]], %[[M]])
    "test.use"(%c) : (!fly.int_tuple<(?,?)>) -> ()
    %s = fly.crd2idx(%t, %sw) : (!fly.int_tuple<?>, !fly.swizzle<S<2,2,2>>) -> !fly.int_tuple<?>
    // CHECK: %[[A:.*]] = arith.andi %i, %{{.*}} : i32
    // CHECK-NEXT: %[[H:.*]] = arith.shrui %[[A]], %{{.*}} : i32
    // CHECK-NEXT: %[[X:.*]] = arith.xori %i, %[[H]] : i32
    "test.use"(%s) : (!fly.int_tuple<?>) -> ()
    gpu.return
  }
  // A run-time and a static offset stay apart, the static one last.
  // CHECK-LABEL: gpu.func @offsets(%p: !fly.ptr<f32, global, align<64>>, %i: i32)
  gpu.func @offsets(%p: !fly.ptr<f32, global, align<64>>, %i: i32) kernel {
    %s = fly.make_int_tuple() : () -> !fly.int_tuple<4>
    %d = fly.make_int_tuple(%i) : (i32) -> !fly.int_tuple<?{div=8}>
    %a = fly.add_offset(%p, %s) : (!fly.ptr<f32, global, align<64>>, !fly.int_tuple<4>) -> !fly.ptr<f32, global, align<16>>
    %b = fly.add_offset(%a, %d) : (!fly.ptr<f32, global, align<16>>, !fly.int_tuple<?{div=8}>) -> !fly.ptr<f32, global, align<16>>
    %c = fly.add_offset(%b, %s) : (!fly.ptr<f32, global, align<16>>, !fly.int_tuple<4>) -> !fly.ptr<f32, global, align<16>>
    // CHECK-NEXT: %[[D:.*]] = fly.make_int_tuple(%i) : (i32) -> !fly.int_tuple<?{div=8}>
    // CHECK-NEXT: %[[P:.*]] = fly.add_offset(%p, %[[D]]) : {{.*}} -> !fly.ptr<f32, global, align<32>>
    // CHECK-NEXT: %[[S:.*]] = fly.make_int_tuple() : () -> !fly.int_tuple<8>
    // CHECK-NEXT: %[[Q:.*]] = fly.add_offset(%[[P]], %[[S]])
    // CHECK-NEXT: fly.ptr.load(%[[Q]])
    %x = fly.ptr.load(%c) : (!fly.ptr<f32, global, align<16>>) -> f32
    "test.use"(%x) : (f32) -> ()
    gpu.return
  }
  // CHECK-LABEL: gpu.func @vectors(
  gpu.func @vectors(%p: !fly.ptr<f32, global, align<16>>, %i: i32) kernel {
    %flat = fly.static : !fly.layout<(4,2):(1,4)>
    %rows = fly.static : !fly.layout<(2,4):(4,1)>
    %holes = fly.static : !fly.layout<(2,2):(2,8)>
    %v0 = fly.make_view(%p, %flat) : (!fly.ptr<f32, global, align<16>>, !fly.layout<(4,2):(1,4)>) -> !fly.memref<f32, global, (4,2):(1,4), align<16>>
    %v1 = fly.make_view(%p, %rows) : (!fly.ptr<f32, global, align<16>>, !fly.layout<(2,4):(4,1)>) -> !fly.memref<f32, global, (2,4):(4,1), align<16>>
    %v2 = fly.make_view(%p, %holes) : (!fly.ptr<f32, global, align<16>>, !fly.layout<(2,2):(2,8)>) -> !fly.memref<f32, global, (2,2):(2,8), align<16>>
    // CHECK: %[[A:.*]] = fly.ptr.load(%p) : {{.*}} -> vector<8xf32>
    %a = fly.memref.load_vec(%v0) : (!fly.memref<f32, global, (4,2):(1,4), align<16>>) -> vector<8xf32>
    // CHECK: %[[L0:.*]] = fly.ptr.load(%p) : {{.*}} -> vector<4xf32>
    // CHECK-NEXT: %[[I0:.*]] = vector.insert_strided_slice %[[L0]], %{{.*}} {offsets = [0], strides = [1]}
    // CHECK: %[[L1:.*]] = fly.ptr.load(%{{.*}}) : {{.*}} -> vector<4xf32>
    // CHECK-NEXT: %[[I1:.*]] = vector.insert_strided_slice %[[L1]], %[[I0]] {offsets = [4], strides = [1]}
    // CHECK-NEXT: %[[S:.*]] = vector.shape_cast %[[I1]] : vector<8xf32> to vector<2x4xf32>
    // CHECK-NEXT: %[[T:.*]] = vector.transpose %[[S]], [1, 0] : vector<2x4xf32> to vector<4x2xf32>
    // CHECK-NEXT: %[[B:.*]] = vector.shape_cast %[[T]] : vector<4x2xf32> to vector<8xf32>
    %b = fly.memref.load_vec(%v1) : (!fly.memref<f32, global, (2,4):(4,1), align<16>>) -> vector<8xf32>
    // CHECK: fly.ptr.load(%p) : {{.*}} -> f32
    // CHECK-NEXT: vector.insert %{{.*}}, %{{.*}} [0]
    // CHECK: vector.insert %{{.*}}, %{{.*}} [3]
    %c = fly.memref.load_vec(%v2) : (!fly.memref<f32, global, (2,2):(2,8), align<16>>) -> vector<4xf32>
    // CHECK: fly.ptr.store(%[[A]], %p)
    fly.memref.store_vec(%a, %v0) : (vector<8xf32>, !fly.memref<f32, global, (4,2):(1,4), align<16>>) -> ()
    // CHECK: %[[SS:.*]] = vector.shape_cast %[[B]] : vector<8xf32> to vector<4x2xf32>
    // CHECK-NEXT: %[[ST:.*]] = vector.transpose %[[SS]], [1, 0] : vector<4x2xf32> to vector<2x4xf32>
    // CHECK-NEXT: %[[SB:.*]] = vector.shape_cast %[[ST]] : vector<2x4xf32> to vector<8xf32>
    // CHECK-NEXT: %[[P0:.*]] = vector.extract_strided_slice %[[SB]] {offsets = [0], sizes = [4], strides = [1]}
    // CHECK-NEXT: fly.ptr.store(%[[P0]], %p)
    fly.memref.store_vec(%b, %v1) : (vector<8xf32>, !fly.memref<f32, global, (2,4):(4,1), align<16>>) -> ()
    // CHECK: vector.extract %{{.*}}[0]
    fly.memref.store_vec(%c, %v2) : (vector<4xf32>, !fly.memref<f32, global, (2,2):(2,8), align<16>>) -> ()
    gpu.return
  }
  // Integers of a coordinate tensor.
  // CHECK-LABEL: gpu.func @coordinate_vector(%i: i32)
  gpu.func @coordinate_vector(%i: i32) kernel {
    %b = fly.make_int_tuple(%i) : (i32) -> !fly.int_tuple<?>
    %l = fly.static : !fly.layout<2:3>
    %t = fly.make_view(%b, %l) : (!fly.int_tuple<?>, !fly.layout<2:3>) -> !fly.coord_tensor<?, 2:3>
    // CHECK: %[[A:.*]] = vector.insert %i, %{{.*}} [0]
    // CHECK-NEXT: %[[S:.*]] = arith.addi %i, %{{.*}} : i32
    // CHECK-NEXT: %[[B:.*]] = vector.insert %[[S]], %[[A]] [1]
    %v = fly.memref.load_vec(%t) : (!fly.coord_tensor<?, 2:3>) -> vector<2xi32>
    // CHECK-NEXT: "test.use"(%[[B]])
    "test.use"(%v) : (vector<2xi32>) -> ()
    gpu.return
  }
  // One call per element of the rest; a predicate with one mode less has one flag per call.
  // CHECK-LABEL: gpu.func @copies(
  gpu.func @copies(%g: !fly.ptr<f32, global>, %n: i32) kernel {
    %gl = fly.static : !fly.layout<(1,2):(0,4)>
    %gv = fly.make_view(%g, %gl) : (!fly.ptr<f32, global>, !fly.layout<(1,2):(0,4)>) -> !fly.memref<f32, global, (1,2):(0,4)>
    // CHECK: %[[R:.*]] = fly.make_ptr() {dictAttrs = {allocSize = 2 : i64}} : () -> !fly.ptr<f32, register>
    %rv = fly.make_fragment_like(%gv) : (!fly.memref<f32, global, (1,2):(0,4)>) -> !fly.memref<f32, register, (1,2):(0,1)>
    %pl = fly.static : !fly.layout<2:1>
    // CHECK: %[[P:.*]] = fly.make_ptr() {dictAttrs = {allocSize = 2 : i64}} : () -> !fly.ptr<i1, register>
    %pv = fly.memref.alloca(%pl) : (!fly.layout<2:1>) -> !fly.memref<i1, register, 2:1>
    %at = fly.make_copy_atom {valBits = 32 : i32} : !copy
    // CHECK: %[[AT:.*]] = fly.make_copy_atom
    // CHECK: fly.copy_atom_call(%[[AT]], %{{.*}}, %{{.*}}, %{{.*}}) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, global, 1:0>, !fly.memref<f32, register, 1:0>, !fly.memref<i1, register, 1:0>) -> ()
    // CHECK: %[[O:.*]] = fly.add_offset(%g, %{{.*}}) : (!fly.ptr<f32, global>, !fly.int_tuple<4>)
    // CHECK: fly.make_view(%[[O]], %{{.*}})
    // CHECK: fly.copy_atom_call(%[[AT]]
    // CHECK-NOT: fly.copy_atom_call
    fly.copy(%at, %gv, %rv, %pv) : (!copy, !fly.memref<f32, global, (1,2):(0,4)>, !fly.memref<f32, register, (1,2):(0,1)>, !fly.memref<i1, register, 2:1>) -> ()
    gpu.return
  }
  // The calls of one first mode share the flag of it.
  // CHECK-LABEL: gpu.func @shared_flags(
  gpu.func @shared_flags(%g: !fly.ptr<f32, global>, %f: !fly.ptr<i1, register>) kernel {
    %gl = fly.static : !fly.layout<((1,2),2):((0,1),2)>
    %gv = fly.make_view(%g, %gl) : (!fly.ptr<f32, global>, !fly.layout<((1,2),2):((0,1),2)>) -> !fly.memref<f32, global, ((1,2),2):((0,1),2)>
    %pl = fly.static : !fly.layout<2:1>
    %pv = fly.make_view(%f, %pl) : (!fly.ptr<i1, register>, !fly.layout<2:1>) -> !fly.memref<i1, register, 2:1>
    %at = fly.make_copy_atom {valBits = 32 : i32} : !copy
    // CHECK: %[[P:.*]] = fly.make_view(%f, %{{.*}})
    // CHECK: fly.copy_atom_call(%{{.*}}, %{{.*}}, %{{.*}}, %[[P]])
    // CHECK: fly.copy_atom_call(%{{.*}}, %{{.*}}, %{{.*}}, %[[P]])
    // CHECK: %[[F:.*]] = fly.add_offset(%f, %{{.*}}) : (!fly.ptr<i1, register>, !fly.int_tuple<1>)
    // CHECK: %[[Q:.*]] = fly.make_view(%[[F]], %{{.*}})
    // CHECK: fly.copy_atom_call(%{{.*}}, %{{.*}}, %{{.*}}, %[[Q]])
    // CHECK: fly.copy_atom_call(%{{.*}}, %{{.*}}, %{{.*}}, %[[Q]])
    fly.copy(%at, %gv, %gv, %pv) : (!copy, !fly.memref<f32, global, ((1,2),2):((0,1),2)>, !fly.memref<f32, global, ((1,2),2):((0,1),2)>, !fly.memref<i1, register, 2:1>) -> ()
    gpu.return
  }
  // The swizzle of a composed layout is folded into the address of each call.
  // CHECK-LABEL: gpu.func @swizzled(
  gpu.func @swizzled(%s: !fly.ptr<f32, shared, align<16>>, %i: i32) kernel {
    %l = fly.static : !fly.layout<(8,8):(8,1)>
    %sw = fly.static : !fly.swizzle<S<1,3,3>>
    %o = fly.make_int_tuple() : () -> !fly.int_tuple<0>
    %c = fly.make_composed_layout(%sw, %o, %l) : (!fly.swizzle<S<1,3,3>>, !fly.int_tuple<0>, !fly.layout<(8,8):(8,1)>) -> !fly.composed_layout<S<1,3,3> o 0 o (8,8):(8,1)>
    %v = fly.make_view(%s, %c) : (!fly.ptr<f32, shared, align<16>>, !fly.composed_layout<S<1,3,3> o 0 o (8,8):(8,1)>) -> !fly.memref<f32, shared, S<1,3,3> o 0 o (8,8):(8,1), align<16>>
    %k = fly.make_int_tuple(%i) : (i32) -> !fly.int_tuple<(?,*)>
    %row = fly.slice(%v, %k) : (!fly.memref<f32, shared, S<1,3,3> o 0 o (8,8):(8,1), align<16>>, !fly.int_tuple<(?,*)>) -> !fly.memref<f32, shared, S<1,3,3> o ?{div=8} o 8:1, align<16>>
    // CHECK: %[[M:.*]] = arith.muli %i, %{{.*}} : i32
    // CHECK: %[[A:.*]] = arith.andi %[[M]], %{{.*}} : i32
    // CHECK: %[[H:.*]] = arith.shrui %[[A]], %{{.*}} : i32
    // CHECK: %[[X:.*]] = arith.xori %[[M]], %[[H]] : i32
    // CHECK: %[[T:.*]] = fly.make_int_tuple(%[[X]]) : (i32) -> !fly.int_tuple<?{div=8}>
    // CHECK: fly.add_offset(%s, %[[T]])
    %d = fly.decomposition(%row) : (!fly.memref<f32, shared, S<1,3,3> o ?{div=8} o 8:1, align<16>>) -> !fly.memref<f32, shared, 8:1, align<16>>
    "test.use"(%d) : (!fly.memref<f32, shared, 8:1, align<16>>) -> ()
    gpu.return
  }
  // K is outermost, then M, then N; C is the source of the first visit of an accumulator, D afterwards.
  // CHECK-LABEL: gpu.func @gemm(
  gpu.func @gemm(%d: !fly.ptr<f32, register>, %a: !fly.ptr<f32, register>, %b: !fly.ptr<f32, register>, %c: !fly.ptr<f32, register>) kernel {
    %ld = fly.static : !fly.layout<(1,1,2):(0,0,1)>
    %la = fly.static : !fly.layout<(1,1,2):(0,0,1)>
    %lb = fly.static : !fly.layout<(1,2,2):(0,1,2)>
    %vd = fly.make_view(%d, %ld) : (!fly.ptr<f32, register>, !fly.layout<(1,1,2):(0,0,1)>) -> !fly.memref<f32, register, (1,1,2):(0,0,1)>
    %va = fly.make_view(%a, %la) : (!fly.ptr<f32, register>, !fly.layout<(1,1,2):(0,0,1)>) -> !fly.memref<f32, register, (1,1,2):(0,0,1)>
    %vb = fly.make_view(%b, %lb) : (!fly.ptr<f32, register>, !fly.layout<(1,2,2):(0,1,2)>) -> !fly.memref<f32, register, (1,2,2):(0,1,2)>
    %vc = fly.make_view(%c, %ld) : (!fly.ptr<f32, register>, !fly.layout<(1,1,2):(0,0,1)>) -> !fly.memref<f32, register, (1,1,2):(0,0,1)>
    %at = fly.make_mma_atom : !mma
    // CHECK: %[[D0:.*]] = fly.make_view(%d,
    // CHECK: %[[A0:.*]] = fly.make_view(%a,
    // CHECK: %[[B0:.*]] = fly.make_view(%b,
    // CHECK: %[[C0:.*]] = fly.make_view(%c,
    // CHECK: fly.mma_atom_call(%{{.*}}, %[[D0]], %[[A0]], %[[B0]], %[[C0]])
    // CHECK: fly.mma_atom_call(%{{.*}}, %[[D1:.*]], %[[A0]], %{{.*}}, %{{.*}})
    // CHECK: fly.mma_atom_call(%{{.*}}, %[[D0]], %{{.*}}, %{{.*}}, %[[D0]])
    // CHECK: fly.mma_atom_call(%{{.*}}, %[[D1]], %{{.*}}, %{{.*}}, %[[D1]])
    // CHECK-NOT: fly.mma_atom_call
    fly.gemm(%at, %vd, %va, %vb, %vc) : (!mma, !fly.memref<f32, register, (1,1,2):(0,0,1)>, !fly.memref<f32, register, (1,1,2):(0,0,1)>, !fly.memref<f32, register, (1,2,2):(0,1,2)>, !fly.memref<f32, register, (1,1,2):(0,0,1)>) -> ()
    gpu.return
  }
  // CHECK-LABEL: gpu.func @print(%f: f32, %x: i32, %y: i64, %b: i1, %v: vector<2xf16>)
  gpu.func @print(%f: f32, %x: i32, %y: i64, %b: i1, %v: vector<2xf16>) kernel {
    %t = fly.make_int_tuple(%x) : (i32) -> !fly.int_tuple<(?,(4,*))>
    %l = fly.static : !fly.layout<(4,8):(8,1)>
    // CHECK: gpu.printf "f=%.2f 100%% (%d,(4,*)) %ld %d [%.2f, %.2f] (4,8):(8,1) {}\0A", %f, %x, %y, %{{.*}}, %{{.*}}, %{{.*}} : f32, i32, i64, i32, f32, f32
    fly.print(%f, %t, %y, %b, %v, %l) {format = "f={} 100% {} {} {} {} {} {{}}"} : (f32, !fly.int_tuple<(?,(4,*))>, i64, i1, vector<2xf16>, !fly.layout<(4,8):(8,1)>) -> ()
    // CHECK: gpu.printf "%.2f %d\0A", %f, %x : f32, i32
    fly.print(%f, %x) {format = ""} : (f32, i32) -> ()
    gpu.return
  }
}
// CHECK-LABEL: func.func @host(%f: f32, %x: i32)
func.func @host(%f: f32, %x: i32) {
  // CHECK-NEXT: vector.print str "f=" punctuation <no_punctuation>
  // CHECK-NEXT: vector.print %f : f32 punctuation <no_punctuation>
  // CHECK-NEXT: vector.print str " x=" punctuation <no_punctuation>
  // CHECK-NEXT: vector.print %x : i32
  // CHECK-NEXT: return
  fly.print(%f, %x) {format = "f={} x={}"} : (f32, i32) -> ()
  func.return
}
