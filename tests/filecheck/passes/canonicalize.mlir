// RUN: %fly-opt --canonicalize --allow-unregistered-dialect %s | FileCheck %s

// CHECK-LABEL: func.func @identities(%x: i32, %b: i1)
func.func @identities(%x: i32, %b: i1) {
  // CHECK-NEXT: %[[Z:.*]] = arith.constant 0 : i32
  // CHECK-NEXT: %[[ONES:.*]] = arith.constant -1 : i32
  // CHECK-NEXT: %[[SIX:.*]] = arith.constant 6 : i32
  // CHECK-NEXT: %[[TWO:.*]] = arith.constant 2 : i32
  // CHECK-NEXT: %[[T:.*]] = arith.constant true
  // CHECK-NEXT: %[[F:.*]] = arith.constant false
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %m1 = arith.constant -1 : i32
  %c5 = arith.constant 5 : i32
  %0 = arith.addi %x, %c0 : i32
  %1 = arith.muli %c1, %x : i32
  %2 = arith.subi %x, %c0 : i32
  %3 = arith.shli %x, %c0 : i32
  %4 = arith.andi %x, %x : i32
  %5 = arith.andi %m1, %x : i32
  %6 = arith.ori %x, %c0 : i32
  %7 = arith.divsi %x, %c1 : i32
  %8 = arith.maxsi %x, %x : i32
  %9 = arith.xori %c0, %x : i32
  // CHECK: "test.x"(%x, %x, %x, %x, %x, %x, %x, %x, %x, %x)
  "test.x"(%0, %1, %2, %3, %4, %5, %6, %7, %8, %9) : (i32, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> ()
  %z0 = arith.muli %x, %c0 : i32
  %z1 = arith.subi %x, %x : i32
  %z2 = arith.xori %x, %x : i32
  %z3 = arith.remsi %x, %c1 : i32
  %z4 = arith.andi %x, %c0 : i32
  %z5 = arith.shrui %c0, %x : i32
  // CHECK: "test.zero"(%[[Z]], %[[Z]], %[[Z]], %[[Z]], %[[Z]], %[[Z]])
  "test.zero"(%z0, %z1, %z2, %z3, %z4, %z5) : (i32, i32, i32, i32, i32, i32) -> ()
  %k0 = arith.addi %c5, %c1 : i32
  %k1 = arith.ceildivsi %k0, %c5 : i32
  %k2 = arith.cmpi slt, %c1, %c5 : i32
  %k3 = arith.cmpi ne, %x, %x : i32
  %k4 = arith.ori %x, %m1 : i32
  // CHECK: "test.const"(%[[SIX]], %[[TWO]], %[[T]], %[[F]], %[[ONES]])
  "test.const"(%k0, %k1, %k2, %k3, %k4) : (i32, i32, i1, i1, i32) -> ()
  func.return
}
// CHECK-LABEL: func.func @absorption(%x: i32, %y: i32, %v: vector<4xi32>, %w: vector<4xi32>)
func.func @absorption(%x: i32, %y: i32, %v: vector<4xi32>, %w: vector<4xi32>) {
  // CHECK-NEXT: %[[OR:.*]] = arith.ori %x, %y : i32
  // CHECK-NEXT: %[[KEPT:.*]] = arith.ori %[[OR]], %y : i32
  %or = arith.ori %x, %y : i32
  %and = arith.andi %x, %y : i32
  %0 = arith.andi %x, %or : i32
  %1 = arith.andi %or, %x : i32
  %2 = arith.ori %y, %and : i32
  %kept = arith.ori %or, %y : i32
  %vor = arith.ori %v, %w : vector<4xi32>
  %3 = arith.andi %w, %vor : vector<4xi32>
  // CHECK-NEXT: "test.use"(%x, %x, %y, %[[KEPT]], %w)
  "test.use"(%0, %1, %2, %kept, %3) : (i32, i32, i32, i32, vector<4xi32>) -> ()
  func.return
}
// CHECK-LABEL: func.func @reassociation(%x: i32)
func.func @reassociation(%x: i32) {
  %c3 = arith.constant 3 : i32
  %c5 = arith.constant 5 : i32
  %a = arith.addi %x, %c5 : i32
  %0 = arith.subi %a, %c3 : i32
  %1 = arith.subi %a, %c5 : i32
  %s = arith.subi %c5, %x : i32
  %2 = arith.addi %s, %c3 : i32
  %m = arith.muli %c3, %x : i32
  %3 = arith.muli %m, %c5 : i32
  // CHECK: %[[A:.*]] = arith.addi %x, %[[C2:.*]] : i32
  // CHECK: %[[S:.*]] = arith.subi %[[C8:.*]], %x : i32
  // CHECK: %[[M:.*]] = arith.muli %x, %[[C15:.*]] : i32
  // CHECK: "test.use"(%[[A]], %x, %[[S]], %[[M]])
  "test.use"(%0, %1, %2, %3) : (i32, i32, i32, i32) -> ()
  func.return
}
// CHECK-LABEL: func.func @flags(%b: i1, %x: i32, %y: i32)
func.func @flags(%b: i1, %x: i32, %y: i32) {
  %c0 = arith.constant 0 : i32
  %t = arith.constant true
  %f = arith.constant false
  %w = arith.extui %b : i1 to i32
  %0 = arith.cmpi ne, %w, %c0 : i32
  %1 = arith.trunci %w : i32 to i1
  %2 = arith.select %b, %t, %f : i1
  %3 = arith.select %t, %b, %f : i1
  // CHECK: "test.same"(%b, %b, %b, %b)
  "test.same"(%0, %1, %2, %3) : (i1, i1, i1, i1) -> ()
  %4 = arith.cmpi eq, %w, %c0 : i32
  %5 = arith.select %b, %f, %t : i1
  %less = arith.cmpi slt, %x, %y : i32
  %6 = arith.select %less, %f, %t : i1
  %7 = arith.cmpi sgt, %c0, %x : i32
  %8 = arith.select %4, %x, %y : i32
  // CHECK: %[[N:.*]] = arith.xori %b, %{{.*}} : i1
  // CHECK: %[[GE:.*]] = arith.cmpi sge, %x, %y : i32
  // CHECK: %[[LT:.*]] = arith.cmpi slt, %x, %{{.*}} : i32
  // CHECK: %[[S:.*]] = arith.select %b, %y, %x : i32
  // CHECK: "test.not"(%[[N]], %[[N]], %[[GE]], %[[LT]], %[[S]])
  "test.not"(%4, %5, %6, %7, %8) : (i1, i1, i1, i1, i32) -> ()
  func.return
}
// CHECK-LABEL: func.func @casts(%x: i8, %y: i32, %i: index, %h: f16)
func.func @casts(%x: i8, %y: i32, %i: index, %h: f16) {
  %0 = arith.extsi %x : i8 to i16
  %1 = arith.extsi %0 : i16 to i64
  %2 = arith.extui %x : i8 to i16
  %3 = arith.extsi %2 : i16 to i32
  %4 = arith.trunci %1 : i64 to i8
  %5 = arith.trunci %1 : i64 to i32
  %6 = arith.extsi %y : i32 to i64
  %7 = arith.trunci %6 : i64 to i16
  %8 = arith.index_cast %i : index to i64
  %9 = arith.index_cast %8 : i64 to index
  %10 = arith.extf %h : f16 to f32
  %11 = arith.truncf %10 : f32 to f16
  // CHECK: %[[A:.*]] = arith.extsi %x : i8 to i64
  // CHECK: %[[B:.*]] = arith.extui %x : i8 to i32
  // CHECK: %[[C:.*]] = arith.extsi %x : i8 to i32
  // CHECK: %[[D:.*]] = arith.trunci %y : i32 to i16
  // CHECK: "test.use"(%[[A]], %[[B]], %x, %[[C]], %[[D]], %i, %h)
  "test.use"(%1, %3, %4, %5, %7, %9, %11) : (i64, i32, i8, i32, i16, index, f16) -> ()
  func.return
}
// CHECK-LABEL: func.func @floats(%x: f32)
func.func @floats(%x: f32) {
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %nzero = arith.constant -0.0 : f32
  %0 = arith.mulf %x, %one : f32
  %1 = arith.addf %x, %nzero : f32
  %2 = arith.subf %x, %zero : f32
  %n = arith.negf %x : f32
  %3 = arith.negf %n : f32
  // x + 0.0 is not x when x is -0.0.
  %4 = arith.addf %x, %zero : f32
  // CHECK: %[[S:.*]] = arith.addf %x, %{{.*}} : f32
  // CHECK: "test.use"(%x, %x, %x, %x, %[[S]])
  "test.use"(%0, %1, %2, %3, %4) : (f32, f32, f32, f32, f32) -> ()
  func.return
}
// CHECK-LABEL: func.func @structs(%a: i32, %b: i64, %s: !llvm.struct<(struct<(i32, i64)>, i32)>)
func.func @structs(%a: i32, %b: i64, %s: !llvm.struct<(struct<(i32, i64)>, i32)>) {
  %u = llvm.mlir.undef : !llvm.struct<(i32, i64)>
  %v = llvm.insertvalue %a, %u[0] : !llvm.struct<(i32, i64)>
  %w = llvm.insertvalue %b, %v[1] : !llvm.struct<(i32, i64)>
  %0 = llvm.extractvalue %w[0] : !llvm.struct<(i32, i64)>
  %1 = llvm.extractvalue %w[1] : !llvm.struct<(i32, i64)>
  %n = llvm.insertvalue %w, %s[0] : !llvm.struct<(struct<(i32, i64)>, i32)>
  %2 = llvm.extractvalue %n[0, 1] : !llvm.struct<(struct<(i32, i64)>, i32)>
  %3 = llvm.extractvalue %n[1] : !llvm.struct<(struct<(i32, i64)>, i32)>
  %4 = llvm.extractvalue %s[0] : !llvm.struct<(struct<(i32, i64)>, i32)>
  %5 = llvm.extractvalue %4[1] : !llvm.struct<(i32, i64)>
  // CHECK-NEXT: %[[R3:.*]] = llvm.extractvalue %s[1]
  // CHECK-NEXT: %[[R5:.*]] = llvm.extractvalue %s[0, 1]
  // CHECK-NEXT: "test.use"(%a, %b, %b, %[[R3]], %[[R5]])
  "test.use"(%0, %1, %2, %3, %5) : (i32, i64, i64, i32, i64) -> ()
  func.return
}
// CHECK-LABEL: func.func @addresses(%p: !llvm.ptr, %i: i32)
func.func @addresses(%p: !llvm.ptr, %i: i32) {
  %c4 = arith.constant 4 : i32
  %c0 = arith.constant 0 : i32
  // CHECK-NEXT: %[[A:.*]] = llvm.getelementptr %p[4]
  %0 = llvm.getelementptr %p[%c4] : (!llvm.ptr, i32) -> !llvm.ptr, f32
  // CHECK-NEXT: %[[B:.*]] = llvm.getelementptr %p[%i]
  %1 = llvm.getelementptr %p[%i] : (!llvm.ptr, i32) -> !llvm.ptr, f32
  %2 = llvm.getelementptr %p[%c0] : (!llvm.ptr, i32) -> !llvm.ptr, f32
  // CHECK-NEXT: "test.use"(%[[A]], %[[B]], %p)
  "test.use"(%0, %1, %2) : (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> ()
  func.return
}
// CHECK-LABEL: func.func @vectors(%v: vector<4xf32>, %w: vector<8xf32>, %x: f32, %y: f32)
func.func @vectors(%v: vector<4xf32>, %w: vector<8xf32>, %x: f32, %y: f32) {
  %0 = vector.insert_strided_slice %v, %v {offsets = [0], strides = [1]} : vector<4xf32> into vector<4xf32>
  %1 = vector.extract_strided_slice %v {offsets = [0], sizes = [4], strides = [1]} : vector<4xf32> to vector<4xf32>
  %i = vector.insert_strided_slice %v, %w {offsets = [4], strides = [1]} : vector<4xf32> into vector<8xf32>
  %2 = vector.extract_strided_slice %i {offsets = [4], sizes = [4], strides = [1]} : vector<8xf32> to vector<4xf32>
  %3 = vector.extract_strided_slice %i {offsets = [0], sizes = [4], strides = [1]} : vector<8xf32> to vector<4xf32>
  %4 = vector.extract_strided_slice %i {offsets = [5], sizes = [2], strides = [1]} : vector<8xf32> to vector<2xf32>
  // CHECK-NEXT: %[[D:.*]] = vector.extract_strided_slice %w {offsets = [0], sizes = [4], strides = [1]} : vector<8xf32> to vector<4xf32>
  // CHECK-NEXT: %[[E:.*]] = vector.extract_strided_slice %v {offsets = [1], sizes = [2], strides = [1]} : vector<4xf32> to vector<2xf32>
  // CHECK-NEXT: "test.slices"(%v, %v, %v, %[[D]], %[[E]])
  "test.slices"(%0, %1, %2, %3, %4) : (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<2xf32>) -> ()
  %f = vector.from_elements %x, %y : vector<2xf32>
  %5 = vector.extract %f[1] : f32 from vector<2xf32>
  %b = vector.broadcast %x : f32 to vector<4xf32>
  %6 = vector.extract %b[2] : f32 from vector<4xf32>
  %n = vector.insert %y, %v [3] : f32 into vector<4xf32>
  %7 = vector.extract %n[3] : f32 from vector<4xf32>
  %8 = vector.extract %n[0] : f32 from vector<4xf32>
  %9 = vector.extract %i[6] : f32 from vector<8xf32>
  // CHECK-NEXT: %[[A:.*]] = vector.extract %v[0]
  // CHECK-NEXT: %[[B:.*]] = vector.extract %v[2]
  // CHECK-NEXT: "test.elements"(%y, %x, %y, %[[A]], %[[B]])
  "test.elements"(%5, %6, %7, %8, %9) : (f32, f32, f32, f32, f32) -> ()
  %s0 = vector.shape_cast %w : vector<8xf32> to vector<2x4xf32>
  %s1 = vector.shape_cast %s0 : vector<2x4xf32> to vector<8xf32>
  %t0 = vector.transpose %s0, [1, 0] : vector<2x4xf32> to vector<4x2xf32>
  %t1 = vector.shape_cast %t0 : vector<4x2xf32> to vector<8xf32>
  %c0 = vector.bitcast %w : vector<8xf32> to vector<8xi32>
  %c1 = vector.bitcast %c0 : vector<8xi32> to vector<8xf32>
  // CHECK-NEXT: %[[T:.*]] = vector.shuffle %w, %w [0, 4, 1, 5, 2, 6, 3, 7]
  // CHECK-NEXT: "test.shapes"(%w, %[[T]], %w)
  "test.shapes"(%s1, %t1, %c1) : (vector<8xf32>, vector<8xf32>, vector<8xf32>) -> ()
  %e0 = vector.extract %v[0] : f32 from vector<4xf32>
  %e1 = vector.extract %v[1] : f32 from vector<4xf32>
  %e2 = vector.extract %v[2] : f32 from vector<4xf32>
  %e3 = vector.extract %v[3] : f32 from vector<4xf32>
  %g = vector.from_elements %e0, %e1, %e2, %e3 : vector<4xf32>
  // CHECK-NEXT: "test.again"(%v)
  "test.again"(%g) : (vector<4xf32>) -> ()
  func.return
}
// CHECK-LABEL: func.func @ifs(%c: i1, %x: i32, %y: i32)
func.func @ifs(%c: i1, %x: i32, %y: i32) -> i32 {
  %t = arith.constant true
  // CHECK-NEXT: "test.known"(%x)
  %r = scf.if %t -> (i32) {
    "test.known"(%x) : (i32) -> ()
    scf.yield %x : i32
  } else {
    "test.never"() : () -> ()
    scf.yield %y : i32
  }
  // The unused result goes, and what was computed for it.
  // CHECK-NEXT: %[[A:.*]] = scf.if %c -> (i32) {
  // CHECK-NEXT: "test.a"
  // CHECK-NEXT: scf.yield %y : i32
  // CHECK-NEXT: } else {
  // CHECK-NEXT: scf.yield %x : i32
  // CHECK-NEXT: }
  // CHECK-NEXT: %[[R:.*]] = scf.if %c -> (i32) {
  // CHECK-NEXT: "test.b"(%[[A]])
  // CHECK-NEXT: scf.yield %[[A]] : i32
  // CHECK-NEXT: } else {
  // CHECK-NEXT: "test.b"(%[[A]])
  // CHECK-NEXT: scf.yield %x : i32
  // CHECK-NEXT: }
  %a, %u = scf.if %c -> (i32, i32) {
    "test.a"() : () -> ()
    %q = arith.muli %x, %y : i32
    scf.yield %y, %q : i32, i32
  } else {
    scf.yield %r, %y : i32, i32
  }
  %b = scf.if %c -> (i32) {
    "test.b"(%a) : (i32) -> ()
    scf.yield %a : i32
  } else {
    "test.b"(%a) : (i32) -> ()
    scf.yield %x : i32
  }
  // An if without effect or use goes.
  %d = scf.if %c -> (i32) {
    %q = arith.muli %x, %y : i32
    scf.yield %q : i32
  } else {
    scf.yield %y : i32
  }
  // CHECK-NEXT: return %[[R]]
  func.return %b : i32
}
// CHECK-LABEL: func.func @loops(%n: index, %x: i32)
func.func @loops(%n: index, %x: i32) -> (i32, i32, i32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  // Never runs; runs once.
  %z = scf.for %i = %c8 to %c0 step %c1 iter_args(%a = %x) -> (i32) {
    "test.never"() : () -> ()
    scf.yield %a : i32
  }
  // CHECK: %[[ZERO:.*]] = arith.constant 0 : index
  // CHECK: %[[O:.*]] = "test.once"(%[[ZERO]], %x) : (index, i32) -> i32
  %o = scf.for %i = %c0 to %c8 step %c8 iter_args(%a = %x) -> (i32) {
    %q = "test.once"(%i, %a) : (index, i32) -> i32
    scf.yield %q : i32
  }
  // What is handed on unchanged, and what nobody uses, is not carried.
  // CHECK: %[[L:.*]] = scf.for %{{.*}} = %{{.*}} to %n step %{{.*}} iter_args(%[[A:.*]] = %x) -> (i32) {
  // CHECK-NEXT: %[[Q:.*]] = "test.body"(%[[A]], %x)
  // CHECK-NEXT: scf.yield %[[Q]] : i32
  %l, %same, %unused = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %x, %u = %x) -> (i32, i32, i32) {
    %q = "test.body"(%a, %b) : (i32, i32) -> i32
    %m = arith.muli %q, %q : i32
    scf.yield %q, %b, %m : i32, i32, i32
  }
  // CHECK: return %[[O]], %[[L]], %x
  func.return %o, %l, %same : i32, i32, i32
}
// Constants stand at the head of the function, once; fly leftovers vanish.
// CHECK-LABEL: func.func @leftovers(%n: index)
func.func @leftovers(%n: index) {
  // CHECK-NEXT: %[[C:.*]] = arith.constant 7 : i32
  // CHECK-NEXT: scf.for
  %t = fly.make_int_tuple() : () -> !fly.int_tuple<4>
  %l = fly.make_layout(%t, %t) : (!fly.int_tuple<4>, !fly.int_tuple<4>) -> !fly.layout<4:4>
  scf.for %i = %n to %n step %n {
    %c = arith.constant 7 : i32
    %d = arith.constant 7 : i32
    // CHECK-NEXT: "test.use"(%[[C]], %[[C]])
    "test.use"(%c, %d) : (i32, i32) -> ()
  }
  func.return
}
// Control-flow graphs: folds and shares along dominance, drops what cannot be reached.
// CHECK-LABEL: func.func @graph(%c: i1, %x: i32)
func.func @graph(%c: i1, %x: i32) -> i32 {
  %c0 = arith.constant 0 : i32
  // CHECK: %[[A:.*]] = arith.addi %x, %x
  %a = arith.addi %x, %x : i32
  cf.cond_br %c, ^then, ^end(%a : i32)
^then:
  %b = arith.addi %x, %x : i32
  %d = arith.addi %b, %c0 : i32
  // CHECK: cf.br ^[[E:.*]](%[[A]] : i32)
  cf.br ^end(%d : i32)
^never:
  // CHECK-NOT: test.never
  "test.never"() : () -> ()
  cf.br ^end(%x : i32)
^end(%r: i32):
  func.return %r : i32
}
