// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s

// The conformance vectors of the dialect reference, 2.9. The verifier infers every result type again and compares.

// CHECK-LABEL: @v0
// CHECK: fly.int_tuple_add{{.*}}-> !fly.int_tuple<(?{div=2},?)>
func.func @v0(%a: !fly.int_tuple<(2,?)>, %b: !fly.int_tuple<(?{div=4},3)>) {
  %r = fly.int_tuple_add(%a, %b) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(?{div=4},3)>) -> !fly.int_tuple<(?{div=2},?)>
  func.return
}
// CHECK-LABEL: @v1
// CHECK: fly.int_tuple_add{{.*}}-> !fly.int_tuple<?{i64 div=2}>
func.func @v1(%a: !fly.int_tuple<?{div=6}>, %b: !fly.int_tuple<?{i64 div=4}>) {
  %r = fly.int_tuple_add(%a, %b) : (!fly.int_tuple<?{div=6}>, !fly.int_tuple<?{i64 div=4}>) -> !fly.int_tuple<?{i64 div=2}>
  func.return
}
// CHECK-LABEL: @v2
// CHECK: fly.int_tuple_add{{.*}}-> !fly.int_tuple<(4,?{div=6})>
func.func @v2(%a: !fly.int_tuple<4E0>, %b: !fly.int_tuple<?{div=6}E1>) {
  %r = fly.int_tuple_add(%a, %b) : (!fly.int_tuple<4E0>, !fly.int_tuple<?{div=6}E1>) -> !fly.int_tuple<(4,?{div=6})>
  func.return
}
// CHECK-LABEL: @v3
// CHECK: fly.int_tuple_sub{{.*}}-> !fly.int_tuple<?{div=6}>
func.func @v3(%a: !fly.int_tuple<0>, %b: !fly.int_tuple<?{div=6}>) {
  %r = fly.int_tuple_sub(%a, %b) : (!fly.int_tuple<0>, !fly.int_tuple<?{div=6}>) -> !fly.int_tuple<?{div=6}>
  func.return
}
// CHECK-LABEL: @v4
// CHECK: fly.int_tuple_mul{{.*}}-> !fly.int_tuple<?{div=24}>
func.func @v4(%a: !fly.int_tuple<?{div=6}>, %b: !fly.int_tuple<4>) {
  %r = fly.int_tuple_mul(%a, %b) : (!fly.int_tuple<?{div=6}>, !fly.int_tuple<4>) -> !fly.int_tuple<?{div=24}>
  func.return
}
// CHECK-LABEL: @v5
// CHECK: fly.int_tuple_mod{{.*}}-> !fly.int_tuple<?{div=4}>
func.func @v5(%a: !fly.int_tuple<?{div=8}>, %b: !fly.int_tuple<12>) {
  %r = fly.int_tuple_mod(%a, %b) : (!fly.int_tuple<?{div=8}>, !fly.int_tuple<12>) -> !fly.int_tuple<?{div=4}>
  func.return
}
// CHECK-LABEL: @v6
// CHECK: fly.int_tuple_product_like{{.*}}-> !fly.int_tuple<(15,(2,7))>
func.func @v6(%a: !fly.int_tuple<((3,5),(2,7))>, %b: !fly.int_tuple<(1,(1,1))>) {
  %r = fly.int_tuple_product_like(%a, %b) : (!fly.int_tuple<((3,5),(2,7))>, !fly.int_tuple<(1,(1,1))>) -> !fly.int_tuple<(15,(2,7))>
  func.return
}
// CHECK-LABEL: @v7
// CHECK: fly.shape_div{{.*}}-> !fly.int_tuple<(1,4)>
func.func @v7(%a: !fly.int_tuple<(3,8)>, %b: !fly.int_tuple<6>) {
  %r = fly.shape_div(%a, %b) : (!fly.int_tuple<(3,8)>, !fly.int_tuple<6>) -> !fly.int_tuple<(1,4)>
  func.return
}
// CHECK-LABEL: @v8
// CHECK: fly.ceil_div{{.*}}-> !fly.int_tuple<(4,?)>
func.func @v8(%a: !fly.int_tuple<(11,?)>, %b: !fly.int_tuple<(3,4)>) {
  %r = fly.ceil_div(%a, %b) : (!fly.int_tuple<(11,?)>, !fly.int_tuple<(3,4)>) -> !fly.int_tuple<(4,?)>
  func.return
}
// CHECK-LABEL: @v9
// CHECK: fly.crd2idx{{.*}}-> !fly.int_tuple<25>
func.func @v9(%a: !fly.int_tuple<17>, %b: !fly.layout<(5,(3,4)):(12,(4,1))>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<17>, !fly.layout<(5,(3,4)):(12,(4,1))>) -> !fly.int_tuple<25>
  func.return
}
// CHECK-LABEL: @v10
// CHECK: fly.crd2idx{{.*}}-> !fly.int_tuple<?{div=3}>
func.func @v10(%a: !fly.int_tuple<(?{div=2},3)>, %b: !fly.layout<(5,6):(6,1)>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<(?{div=2},3)>, !fly.layout<(5,6):(6,1)>) -> !fly.int_tuple<?{div=3}>
  func.return
}
// CHECK-LABEL: @v11
// CHECK: fly.crd2idx{{.*}}-> !fly.int_tuple<(2,3)>
func.func @v11(%a: !fly.int_tuple<(2,3)>, %b: !fly.layout<(5,6):(1E0,1E1)>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<(2,3)>, !fly.layout<(5,6):(1E0,1E1)>) -> !fly.int_tuple<(2,3)>
  func.return
}
// CHECK-LABEL: @v12
// CHECK: fly.crd2idx{{.*}}-> !fly.int_tuple<27>
func.func @v12(%a: !fly.int_tuple<(2,3)>, %b: !fly.composed_layout<S<1,1,3> o 6 o (4,8):(8,1)>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<(2,3)>, !fly.composed_layout<S<1,1,3> o 6 o (4,8):(8,1)>) -> !fly.int_tuple<27>
  func.return
}
// CHECK-LABEL: @v13
// CHECK: fly.crd2idx{{.*}}-> !fly.int_tuple<36>
func.func @v13(%a: !fly.int_tuple<44>, %b: !fly.swizzle<S<2,2,2>>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<44>, !fly.swizzle<S<2,2,2>>) -> !fly.int_tuple<36>
  func.return
}
// CHECK-LABEL: @v14
// CHECK: fly.crd2idx{{.*}}-> !fly.int_tuple<?{div=4}>
func.func @v14(%a: !fly.int_tuple<?{div=24}>, %b: !fly.swizzle<S<2,2,2>>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<?{div=24}>, !fly.swizzle<S<2,2,2>>) -> !fly.int_tuple<?{div=4}>
  func.return
}
// CHECK-LABEL: @v15
// CHECK: fly.crd2idx{{.*}}-> !fly.int_tuple<(6,5)>
func.func @v15(%a: !fly.int_tuple<(6,9)>, %b: !fly.coord_swizzle<CS<2,1,[0],2,[1]>>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<(6,9)>, !fly.coord_swizzle<CS<2,1,[0],2,[1]>>) -> !fly.int_tuple<(6,5)>
  func.return
}
// CHECK-LABEL: @v16
// CHECK: fly.crd2idx{{.*}}-> !fly.int_tuple<(?,?{div=4})>
func.func @v16(%a: !fly.int_tuple<(?,?{div=12})>, %b: !fly.coord_swizzle<CS<2,1,[0],2,[1]>>) {
  %r = fly.crd2idx(%a, %b) : (!fly.int_tuple<(?,?{div=12})>, !fly.coord_swizzle<CS<2,1,[0],2,[1]>>) -> !fly.int_tuple<(?,?{div=4})>
  func.return
}
// CHECK-LABEL: @v17
// CHECK: fly.idx2crd{{.*}}-> !fly.int_tuple<(3,5)>
func.func @v17(%a: !fly.int_tuple<23>, %b: !fly.layout<(5,6):(6,1)>) {
  %r = fly.idx2crd(%a, %b) : (!fly.int_tuple<23>, !fly.layout<(5,6):(6,1)>) -> !fly.int_tuple<(3,5)>
  func.return
}
// CHECK-LABEL: @v18
// CHECK: fly.idx2crd{{.*}}-> !fly.int_tuple<(?,0,?)>
func.func @v18(%a: !fly.int_tuple<?>, %b: !fly.layout<(5,1,6):(6,0,1)>) {
  %r = fly.idx2crd(%a, %b) : (!fly.int_tuple<?>, !fly.layout<(5,1,6):(6,0,1)>) -> !fly.int_tuple<(?,0,?)>
  func.return
}
// CHECK-LABEL: @v19
// CHECK: fly.get_flat_coord{{.*}}-> !fly.int_tuple<(3,5)>
func.func @v19(%a: !fly.int_tuple<23>, %b: !fly.layout<((3,2),6):((6,18),1)>) {
  %r = fly.get_flat_coord(%a, %b) : (!fly.int_tuple<23>, !fly.layout<((3,2),6):((6,18),1)>) -> !fly.int_tuple<(3,5)>
  func.return
}
// CHECK-LABEL: @v20
// CHECK: fly.get_1d_coord{{.*}}-> !fly.int_tuple<28>
func.func @v20(%a: !fly.int_tuple<23>, %b: !fly.layout<(5,6):(6,1)>) {
  %r = fly.get_1d_coord(%a, %b) : (!fly.int_tuple<23>, !fly.layout<(5,6):(6,1)>) -> !fly.int_tuple<28>
  func.return
}
// CHECK-LABEL: @v21
// CHECK: fly.coshape{{.*}}-> !fly.int_tuple<(13,6)>
func.func @v21(%a: !fly.layout<(5,6):(3E0,1E1)>) {
  %r = fly.coshape(%a) : (!fly.layout<(5,6):(3E0,1E1)>) -> !fly.int_tuple<(13,6)>
  func.return
}
// CHECK-LABEL: @v22
// CHECK: fly.cosize{{.*}}-> !fly.int_tuple<40>
func.func @v22(%a: !fly.layout<(5,6):(1,7)>) {
  %r = fly.cosize(%a) : (!fly.layout<(5,6):(1,7)>) -> !fly.int_tuple<40>
  func.return
}
// CHECK-LABEL: @v23
// CHECK: fly.size{{.*}}-> !fly.int_tuple<?{div=5}>
func.func @v23(%a: !fly.layout<(5,?):(1,5)>) {
  %r = fly.size(%a) : (!fly.layout<(5,?):(1,5)>) -> !fly.int_tuple<?{div=5}>
  func.return
}
// CHECK-LABEL: @v24
// CHECK: fly.coalesce{{.*}}-> !fly.layout<21:1>
func.func @v24(%a: !fly.layout<(3,(1,7)):(1,(9,3))>) {
  %r = fly.coalesce(%a) : (!fly.layout<(3,(1,7)):(1,(9,3))>) -> !fly.layout<21:1>
  func.return
}
// CHECK-LABEL: @v25
// CHECK: fly.coalesce{{.*}}-> !fly.layout<(6,5):(1,6)>
func.func @v25(%a: !fly.layout<((3,2),(5,1)):((1,3),(6,4))>, %b: !fly.int_tuple<(1,1)>) {
  %r = fly.coalesce(%a, %b) : (!fly.layout<((3,2),(5,1)):((1,3),(6,4))>, !fly.int_tuple<(1,1)>) -> !fly.layout<(6,5):(1,6)>
  func.return
}
// CHECK-LABEL: @v26
// CHECK: fly.coalesce{{.*}}-> !fly.layout<1:0>
func.func @v26(%a: !fly.layout<(1,(1,1)):(7,(2,3))>) {
  %r = fly.coalesce(%a) : (!fly.layout<(1,(1,1)):(7,(2,3))>) -> !fly.layout<1:0>
  func.return
}
// CHECK-LABEL: @v27
// CHECK: fly.composition{{.*}}-> !fly.layout<(6,4):(12,3)>
func.func @v27(%a: !fly.layout<24:3>, %b: !fly.layout<(6,4):(4,1)>) {
  %r = fly.composition(%a, %b) : (!fly.layout<24:3>, !fly.layout<(6,4):(4,1)>) -> !fly.layout<(6,4):(12,3)>
  func.return
}
// CHECK-LABEL: @v28
// CHECK: fly.composition{{.*}}-> !fly.layout<(3,(2,4)):(20,(60,5))>
func.func @v28(%a: !fly.layout<(6,4):(20,5)>, %b: !fly.layout<(3,8):(1,3)>) {
  %r = fly.composition(%a, %b) : (!fly.layout<(6,4):(20,5)>, !fly.layout<(3,8):(1,3)>) -> !fly.layout<(3,(2,4)):(20,(60,5))>
  func.return
}
// CHECK-LABEL: @v29
// CHECK: fly.composition{{.*}}-> !fly.layout<((2,3),2):((36,2),9)>
func.func @v29(%a: !fly.layout<(8,3):(9,2)>, %b: !fly.layout<(6,2):(4,1)>) {
  %r = fly.composition(%a, %b) : (!fly.layout<(8,3):(9,2)>, !fly.layout<(6,2):(4,1)>) -> !fly.layout<((2,3),2):((36,2),9)>
  func.return
}
// CHECK-LABEL: @v30
// CHECK: fly.composition{{.*}}-> !fly.layout<(5,(2,2)):(210,(33,1))>
func.func @v30(%a: !fly.layout<(15,(6,4)):(70,(11,1))>, %b: !fly.tile<[5:3|4:3]>) {
  %r = fly.composition(%a, %b) : (!fly.layout<(15,(6,4)):(70,(11,1))>, !fly.tile<[5:3|4:3]>) -> !fly.layout<(5,(2,2)):(210,(33,1))>
  func.return
}
// CHECK-LABEL: @v31
// CHECK: fly.composition{{.*}}-> !fly.layout<(5,6):(?{i64},1)>
func.func @v31(%a: !fly.layout<(?,6):(?{i64},1)>, %b: !fly.tile<[5|*]>) {
  %r = fly.composition(%a, %b) : (!fly.layout<(?,6):(?{i64},1)>, !fly.tile<[5|*]>) -> !fly.layout<(5,6):(?{i64},1)>
  func.return
}
// CHECK-LABEL: @v32
// CHECK: fly.composition{{.*}}-> !fly.layout<(5,3):(1E0,2E1)>
func.func @v32(%a: !fly.layout<(5,6):(1E0,1E1)>, %b: !fly.layout<(5,3):(1,10)>) {
  %r = fly.composition(%a, %b) : (!fly.layout<(5,6):(1E0,1E1)>, !fly.layout<(5,3):(1,10)>) -> !fly.layout<(5,3):(1E0,2E1)>
  func.return
}
// CHECK-LABEL: @v33
// CHECK: fly.composition{{.*}}-> !fly.layout<((?,?),(?,?)):((2,?{div=8}),(1,8))>
func.func @v33(%a: !fly.layout<(?,4):(1,8)>, %b: !fly.layout<(2,2):(2,1)>) {
  %r = fly.composition(%a, %b) : (!fly.layout<(?,4):(1,8)>, !fly.layout<(2,2):(2,1)>) -> !fly.layout<((?,?),(?,?)):((2,?{div=8}),(1,8))>
  func.return
}
// CHECK-LABEL: @v34
// CHECK: fly.complement{{.*}}-> !fly.layout<6:5>
func.func @v34(%a: !fly.layout<5:1>, %b: !fly.int_tuple<30>) {
  %r = fly.complement(%a, %b) : (!fly.layout<5:1>, !fly.int_tuple<30>) -> !fly.layout<6:5>
  func.return
}
// CHECK-LABEL: @v35
// CHECK: fly.complement{{.*}}-> !fly.layout<(3,3):(3,18)>
func.func @v35(%a: !fly.layout<(3,2):(1,9)>, %b: !fly.int_tuple<54>) {
  %r = fly.complement(%a, %b) : (!fly.layout<(3,2):(1,9)>, !fly.int_tuple<54>) -> !fly.layout<(3,3):(3,18)>
  func.return
}
// CHECK-LABEL: @v36
// CHECK: fly.complement{{.*}}-> !fly.layout<(?,?):(1,?{div=4})>
func.func @v36(%a: !fly.layout<4:?>, %b: !fly.int_tuple<32>) {
  %r = fly.complement(%a, %b) : (!fly.layout<4:?>, !fly.int_tuple<32>) -> !fly.layout<(?,?):(1,?{div=4})>
  func.return
}
// CHECK-LABEL: @v37
// CHECK: fly.right_inverse{{.*}}-> !fly.layout<(5,3):(3,1)>
func.func @v37(%a: !fly.layout<(3,5):(5,1)>) {
  %r = fly.right_inverse(%a) : (!fly.layout<(3,5):(5,1)>) -> !fly.layout<(5,3):(3,1)>
  func.return
}
// CHECK-LABEL: @v38
// CHECK: fly.right_inverse{{.*}}-> !fly.layout<5:3>
func.func @v38(%a: !fly.layout<(3,5):(10,1)>) {
  %r = fly.right_inverse(%a) : (!fly.layout<(3,5):(10,1)>) -> !fly.layout<5:3>
  func.return
}
// CHECK-LABEL: @v39
// CHECK: fly.left_inverse{{.*}}-> !fly.layout<(10,3):(3,1)>
func.func @v39(%a: !fly.layout<(3,5):(10,1)>) {
  %r = fly.left_inverse(%a) : (!fly.layout<(3,5):(10,1)>) -> !fly.layout<(10,3):(3,1)>
  func.return
}
// CHECK-LABEL: @v40
// CHECK: fly.logical_divide{{.*}}-> !fly.layout<(3,(2,(2,5))):(4,(2,(1,12)))>
func.func @v40(%a: !fly.layout<(6,2,5):(2,1,12)>, %b: !fly.layout<3:2>) {
  %r = fly.logical_divide(%a, %b) : (!fly.layout<(6,2,5):(2,1,12)>, !fly.layout<3:2>) -> !fly.layout<(3,(2,(2,5))):(4,(2,(1,12)))>
  func.return
}
// CHECK-LABEL: @v41
// CHECK: fly.logical_divide{{.*}}-> !fly.layout<(12,(5,2)):(10,(1,5))>
func.func @v41(%a: !fly.layout<(12,10):(10,1)>, %b: !fly.tile<[*|5]>) {
  %r = fly.logical_divide(%a, %b) : (!fly.layout<(12,10):(10,1)>, !fly.tile<[*|5]>) -> !fly.layout<(12,(5,2)):(10,(1,5))>
  func.return
}
// CHECK-LABEL: @v42
// CHECK: fly.zipped_divide{{.*}}-> !fly.layout<((5,(3,2)),(2,(2,2))):((100,(8,4)),(50,(24,2)))>
func.func @v42(%a: !fly.layout<(10,(6,4)):(50,(8,2))>, %b: !fly.tile<[5:2|(3,2):(1,12)]>) {
  %r = fly.zipped_divide(%a, %b) : (!fly.layout<(10,(6,4)):(50,(8,2))>, !fly.tile<[5:2|(3,2):(1,12)]>) -> !fly.layout<((5,(3,2)),(2,(2,2))):((100,(8,4)),(50,(24,2)))>
  func.return
}
// CHECK-LABEL: @v43
// CHECK: fly.tiled_divide{{.*}}-> !fly.layout<((5,(3,2)),2,(2,2)):((100,(8,4)),50,(24,2))>
func.func @v43(%a: !fly.layout<(10,(6,4)):(50,(8,2))>, %b: !fly.tile<[5:2|(3,2):(1,12)]>) {
  %r = fly.tiled_divide(%a, %b) : (!fly.layout<(10,(6,4)):(50,(8,2))>, !fly.tile<[5:2|(3,2):(1,12)]>) -> !fly.layout<((5,(3,2)),2,(2,2)):((100,(8,4)),50,(24,2))>
  func.return
}
// CHECK-LABEL: @v44
// CHECK: fly.zipped_divide{{.*}}-> !fly.layout<((3,5),(4,2,7)):((10,1),(30,5,120))>
func.func @v44(%a: !fly.layout<(12,10,7):(10,1,120)>, %b: !fly.tile<[3|5]>) {
  %r = fly.zipped_divide(%a, %b) : (!fly.layout<(12,10,7):(10,1,120)>, !fly.tile<[3|5]>) -> !fly.layout<((3,5),(4,2,7)):((10,1),(30,5,120))>
  func.return
}
// CHECK-LABEL: @v45
// CHECK: fly.zipped_divide{{.*}}-> !fly.layout<((16,32),(?,?)):((?{i64 div=8},1),(?{i64 div=128},32))>
func.func @v45(%a: !fly.layout<(?{div=16},?):(?{i64 div=8},1)>, %b: !fly.tile<[16|32]>) {
  %r = fly.zipped_divide(%a, %b) : (!fly.layout<(?{div=16},?):(?{i64 div=8},1)>, !fly.tile<[16|32]>) -> !fly.layout<((16,32),(?,?)):((?{i64 div=8},1),(?{i64 div=128},32))>
  func.return
}
// CHECK-LABEL: @v46
// CHECK: fly.zipped_divide{{.*}}-> !fly.layout<((4),(4,8)):((8),(32,1))>
func.func @v46(%a: !fly.layout<(16,8):(8,1)>, %b: !fly.tile<[4]>) {
  %r = fly.zipped_divide(%a, %b) : (!fly.layout<(16,8):(8,1)>, !fly.tile<[4]>) -> !fly.layout<((4),(4,8)):((8),(32,1))>
  func.return
}
// CHECK-LABEL: @v47
// CHECK: fly.zipped_divide{{.*}}-> !fly.layout<(4,(4,8)):(8,(32,1))>
func.func @v47(%a: !fly.layout<(16,8):(8,1)>, %b: !fly.tile<4>) {
  %r = fly.zipped_divide(%a, %b) : (!fly.layout<(16,8):(8,1)>, !fly.tile<4>) -> !fly.layout<(4,(4,8)):(8,(32,1))>
  func.return
}
// CHECK-LABEL: @v48
// CHECK: fly.flat_divide{{.*}}-> !fly.layout<(3,5,4,?):(?{i64},1,?{i64 div=3},5)>
func.func @v48(%a: !fly.layout<(12,?):(?{i64},1)>, %b: !fly.tile<[3|5]>) {
  %r = fly.flat_divide(%a, %b) : (!fly.layout<(12,?):(?{i64},1)>, !fly.tile<[3|5]>) -> !fly.layout<(3,5,4,?):(?{i64},1,?{i64 div=3},5)>
  func.return
}
// CHECK-LABEL: @v49
// CHECK: fly.logical_product{{.*}}-> !fly.layout<((3,2),5):((2,1),6)>
func.func @v49(%a: !fly.layout<(3,2):(2,1)>, %b: !fly.layout<5:1>) {
  %r = fly.logical_product(%a, %b) : (!fly.layout<(3,2):(2,1)>, !fly.layout<5:1>) -> !fly.layout<((3,2),5):((2,1),6)>
  func.return
}
// CHECK-LABEL: @v50
// CHECK: fly.zipped_product{{.*}}-> !fly.layout<((3,2),(5,4)):((1,3),(24,6))>
func.func @v50(%a: !fly.layout<(3,2):(1,3)>, %b: !fly.layout<(5,4):(4,1)>) {
  %r = fly.zipped_product(%a, %b) : (!fly.layout<(3,2):(1,3)>, !fly.layout<(5,4):(4,1)>) -> !fly.layout<((3,2),(5,4)):((1,3),(24,6))>
  func.return
}
// CHECK-LABEL: @v51
// CHECK: fly.blocked_product{{.*}}-> !fly.layout<((3,5),(4,2)):((4,12),(1,60))>
func.func @v51(%a: !fly.layout<(3,4):(4,1)>, %b: !fly.layout<(5,2):(1,5)>) {
  %r = fly.blocked_product(%a, %b) : (!fly.layout<(3,4):(4,1)>, !fly.layout<(5,2):(1,5)>) -> !fly.layout<((3,5),(4,2)):((4,12),(1,60))>
  func.return
}
// CHECK-LABEL: @v52
// CHECK: fly.raked_product{{.*}}-> !fly.layout<((5,3),(2,4)):((12,4),(60,1))>
func.func @v52(%a: !fly.layout<(3,4):(4,1)>, %b: !fly.layout<(5,2):(1,5)>) {
  %r = fly.raked_product(%a, %b) : (!fly.layout<(3,4):(4,1)>, !fly.layout<(5,2):(1,5)>) -> !fly.layout<((5,3),(2,4)):((12,4),(60,1))>
  func.return
}
// CHECK-LABEL: @v53
// CHECK: fly.blocked_product{{.*}}-> !fly.layout<((6,5),(1,2)):((1,6),(0,30))>
func.func @v53(%a: !fly.layout<6:1>, %b: !fly.layout<(5,2):(1,5)>) {
  %r = fly.blocked_product(%a, %b) : (!fly.layout<6:1>, !fly.layout<(5,2):(1,5)>) -> !fly.layout<((6,5),(1,2)):((1,6),(0,30))>
  func.return
}
// CHECK-LABEL: @v54
// CHECK: fly.recast_layout{{.*}}-> !fly.layout<(3,5):(1,3)>
func.func @v54(%a: !fly.layout<(12,5):(1,12)>) {
  %r = fly.recast_layout(%a) {new_type_bits = 32 : i32, old_type_bits = 8 : i32} : (!fly.layout<(12,5):(1,12)>) -> !fly.layout<(3,5):(1,3)>
  func.return
}
// CHECK-LABEL: @v55
// CHECK: fly.recast_layout{{.*}}-> !fly.layout<(48,5):(1,48)>
func.func @v55(%a: !fly.layout<(12,5):(1,12)>) {
  %r = fly.recast_layout(%a) {new_type_bits = 4 : i32, old_type_bits = 16 : i32} : (!fly.layout<(12,5):(1,12)>) -> !fly.layout<(48,5):(1,48)>
  func.return
}
// CHECK-LABEL: @v56
// CHECK: fly.recast_layout{{.*}}-> !fly.composed_layout<S<1,2,3> o 8 o (4,4):(4,1)>
func.func @v56(%a: !fly.composed_layout<S<1,4,3> o 32 o (4,16):(16,1)>) {
  %r = fly.recast_layout(%a) {new_type_bits = 32 : i32, old_type_bits = 8 : i32} : (!fly.composed_layout<S<1,4,3> o 32 o (4,16):(16,1)>) -> !fly.composed_layout<S<1,2,3> o 8 o (4,4):(4,1)>
  func.return
}
// CHECK-LABEL: @v57
// CHECK: fly.tile_to_shape{{.*}}-> !fly.layout<((3,2),(2,5)):((2,30),(1,6))>
func.func @v57(%a: !fly.layout<(3,2):(2,1)>, %b: !fly.int_tuple<(6,10)>, %c: !fly.int_tuple<(1,0)>) {
  %r = fly.tile_to_shape(%a, %b, %c) : (!fly.layout<(3,2):(2,1)>, !fly.int_tuple<(6,10)>, !fly.int_tuple<(1,0)>) -> !fly.layout<((3,2),(2,5)):((2,30),(1,6))>
  func.return
}
// CHECK-LABEL: @v58
// CHECK: fly.make_ordered_layout{{.*}}-> !fly.layout<(5,3,2):(2,10,1)>
func.func @v58(%a: !fly.int_tuple<(5,3,2)>, %b: !fly.int_tuple<(1,2,0)>) {
  %r = fly.make_ordered_layout(%a, %b) : (!fly.int_tuple<(5,3,2)>, !fly.int_tuple<(1,2,0)>) -> !fly.layout<(5,3,2):(2,10,1)>
  func.return
}
// CHECK-LABEL: @v59
// CHECK: fly.make_layout_like{{.*}}-> !fly.layout<(5,3,2):(2,1,1)>
func.func @v59(%a: !fly.layout<(5,3,2):(6,0,3)>) {
  %r = fly.make_layout_like(%a) : (!fly.layout<(5,3,2):(6,0,3)>) -> !fly.layout<(5,3,2):(2,1,1)>
  func.return
}
// CHECK-LABEL: @v60
// CHECK: fly.make_fragment_layout_like{{.*}}-> !fly.layout<((6,2),5):((1,6),12)>
func.func @v60(%a: !fly.layout<((6,2),5):((1,0),100)>) {
  %r = fly.make_fragment_layout_like(%a) : (!fly.layout<((6,2),5):((1,0),100)>) -> !fly.layout<((6,2),5):((1,6),12)>
  func.return
}
// CHECK-LABEL: @v61
// CHECK: fly.make_fragment_layout_like{{.*}}-> !fly.layout<(6,5,3):(1,18,6)>
func.func @v61(%a: !fly.layout<(6,5,3):(1,90,6)>) {
  %r = fly.make_fragment_layout_like(%a) : (!fly.layout<(6,5,3):(1,90,6)>) -> !fly.layout<(6,5,3):(1,18,6)>
  func.return
}
// CHECK-LABEL: @v62
// CHECK: fly.make_identity_layout{{.*}}-> !fly.layout<(5,(3,?)):(1E0,(1E1E0,1E1E1))>
func.func @v62(%a: !fly.int_tuple<(5,(3,?))>) {
  %r = fly.make_identity_layout(%a) : (!fly.int_tuple<(5,(3,?))>) -> !fly.layout<(5,(3,?)):(1E0,(1E1E0,1E1E1))>
  func.return
}
// CHECK-LABEL: @v63
// CHECK: fly.slice{{.*}}-> !fly.composed_layout<S<1,3,3> o 26 o 6:1>
func.func @v63(%a: !fly.composed_layout<S<1,3,3> o 2 o (6,5):(1,6)>, %b: !fly.int_tuple<(*,4)>) {
  %r = fly.slice(%a, %b) : (!fly.composed_layout<S<1,3,3> o 2 o (6,5):(1,6)>, !fly.int_tuple<(*,4)>) -> !fly.composed_layout<S<1,3,3> o 26 o 6:1>
  func.return
}
// CHECK-LABEL: @v64
// CHECK: fly.slice{{.*}}-> !fly.memref<f16, global, 6:1, align<24>>
func.func @v64(%a: !fly.memref<f16, global, (6,5):(1,12), align<48>>, %b: !fly.int_tuple<(*,?)>) {
  %r = fly.slice(%a, %b) : (!fly.memref<f16, global, (6,5):(1,12), align<48>>, !fly.int_tuple<(*,?)>) -> !fly.memref<f16, global, 6:1, align<24>>
  func.return
}
// CHECK-LABEL: @v65
// CHECK: fly.slice{{.*}}-> !fly.coord_tensor<(0,?), 6:1E0>
func.func @v65(%a: !fly.coord_tensor<(0,7), (6,5):(1E0,1E1)>, %b: !fly.int_tuple<(*,?{div=3})>) {
  %r = fly.slice(%a, %b) : (!fly.coord_tensor<(0,7), (6,5):(1E0,1E1)>, !fly.int_tuple<(*,?{div=3})>) -> !fly.coord_tensor<(0,?), 6:1E0>
  func.return
}
// CHECK-LABEL: @v66
// CHECK: fly.add_offset{{.*}}-> !fly.ptr<f16, shared, align<8>>
func.func @v66(%a: !fly.ptr<f16, shared, align<32>>, %b: !fly.int_tuple<12>) {
  %r = fly.add_offset(%a, %b) : (!fly.ptr<f16, shared, align<32>>, !fly.int_tuple<12>) -> !fly.ptr<f16, shared, align<8>>
  func.return
}
// CHECK-LABEL: @v67
// CHECK: fly.apply_swizzle{{.*}}-> !fly.ptr<f16, shared, align<16>, S<2,3,4>>
func.func @v67(%a: !fly.ptr<f16, shared, align<256>>, %b: !fly.swizzle<S<2,3,4>>) {
  %r = fly.apply_swizzle(%a, %b) : (!fly.ptr<f16, shared, align<256>>, !fly.swizzle<S<2,3,4>>) -> !fly.ptr<f16, shared, align<16>, S<2,3,4>>
  func.return
}
// CHECK-LABEL: @v68
// CHECK: fly.decomposition{{.*}}-> !fly.memref<f16, shared, (8,8):(8,1), align<64>>
func.func @v68(%a: !fly.memref<f16, shared, S<1,3,3> o 72 o (8,8):(8,1), align<64>>) {
  %r = fly.decomposition(%a) : (!fly.memref<f16, shared, S<1,3,3> o 72 o (8,8):(8,1), align<64>>) -> !fly.memref<f16, shared, (8,8):(8,1), align<64>>
  func.return
}
// CHECK-LABEL: @v69
// CHECK: fly.tiled_copy.partition_src{{.*}}-> !fly.memref<f16, global, ((4,1),2,2):((1,0),256,16), align<8>>
func.func @v69(%a: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,8),4):((32,1),8)>, !fly.tile<[8|16]>>, %b: !fly.memref<f16, global, (16,32):(32,1), align<8>>, %c: !fly.int_tuple<?>) {
  %r = fly.tiled_copy.partition_src(%a, %b, %c) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,8),4):((32,1),8)>, !fly.tile<[8|16]>>, !fly.memref<f16, global, (16,32):(32,1), align<8>>, !fly.int_tuple<?>) -> !fly.memref<f16, global, ((4,1),2,2):((1,0),256,16), align<8>>
  func.return
}
// CHECK-LABEL: @v70
// CHECK: fly.tiled_copy.partition_dst{{.*}}-> !fly.memref<f16, global, ((4,1),2,2):((1,0),256,16), align<8>>
func.func @v70(%a: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,8),4):((32,1),8)>, !fly.tile<[8|16]>>, %b: !fly.memref<f16, global, (16,32):(32,1), align<8>>, %c: !fly.int_tuple<?>) {
  %r = fly.tiled_copy.partition_dst(%a, %b, %c) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,8),4):((32,1),8)>, !fly.tile<[8|16]>>, !fly.memref<f16, global, (16,32):(32,1), align<8>>, !fly.int_tuple<?>) -> !fly.memref<f16, global, ((4,1),2,2):((1,0),256,16), align<8>>
  func.return
}
// CHECK-LABEL: @v71
// CHECK: fly.tiled_copy.retile{{.*}}-> !fly.memref<f16, register, ((4,1),2,2):((1,0),4,8)>
func.func @v71(%a: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,8),4):((32,1),8)>, !fly.tile<[8|16]>>, %b: !fly.memref<f16, register, (4,2,2):(1,4,8)>) {
  %r = fly.tiled_copy.retile(%a, %b) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,8),4):((32,1),8)>, !fly.tile<[8|16]>>, !fly.memref<f16, register, (4,2,2):(1,4,8)>) -> !fly.memref<f16, register, ((4,1),2,2):((1,0),4,8)>
  func.return
}
// CHECK-LABEL: @v72
// CHECK: fly.tiled_mma.partition{{.*}}-> !fly.memref<f16, shared, (4,1,2):(1,0,8), align<8>>
func.func @v72(%a: !fly.tiled_mma<!fly.mma_atom<!fly_rocdl.cdna3.mfma<32x32x8, (f16, f16) -> f32>>, !fly.layout<(2,1,1):(1,0,0)>>, %b: !fly.memref<f16, shared, (64,16):(16,1), align<16>>, %c: !fly.int_tuple<?>) {
  %r = fly.tiled_mma.partition(a, %a, %b, %c) : (!fly.tiled_mma<!fly.mma_atom<!fly_rocdl.cdna3.mfma<32x32x8, (f16, f16) -> f32>>, !fly.layout<(2,1,1):(1,0,0)>>, !fly.memref<f16, shared, (64,16):(16,1), align<16>>, !fly.int_tuple<?>) -> !fly.memref<f16, shared, (4,1,2):(1,0,8), align<8>>
  func.return
}
// CHECK-LABEL: @v73
// CHECK: fly.tiled_mma.partition_shape{{.*}}-> !fly.int_tuple<((4,4),1,1)>
func.func @v73(%a: !fly.tiled_mma<!fly.mma_atom<!fly_rocdl.cdna3.mfma<32x32x8, (f16, f16) -> f32>>, !fly.layout<(2,1,1):(1,0,0)>>, %b: !fly.int_tuple<(64,32)>) {
  %r = fly.tiled_mma.partition_shape(%a, %b) {operand_id = #fly<mma_operand c>} : (!fly.tiled_mma<!fly.mma_atom<!fly_rocdl.cdna3.mfma<32x32x8, (f16, f16) -> f32>>, !fly.layout<(2,1,1):(1,0,0)>>, !fly.int_tuple<(64,32)>) -> !fly.int_tuple<((4,4),1,1)>
  func.return
}
// CHECK-LABEL: @v74
// CHECK: fly.mma.make_fragment{{.*}}-> !fly.memref<f16, register, (4,1,2):(1,0,4)>
func.func @v74(%a: !fly.tiled_mma<!fly.mma_atom<!fly_rocdl.cdna3.mfma<32x32x8, (f16, f16) -> f32>>, !fly.layout<(2,1,1):(1,0,0)>>, %b: !fly.memref<f16, shared, (64,16):(16,1), align<16>>) {
  %r = fly.mma.make_fragment(a, %a, %b) : (!fly.tiled_mma<!fly.mma_atom<!fly_rocdl.cdna3.mfma<32x32x8, (f16, f16) -> f32>>, !fly.layout<(2,1,1):(1,0,0)>>, !fly.memref<f16, shared, (64,16):(16,1), align<16>>) -> !fly.memref<f16, register, (4,1,2):(1,0,4)>
  func.return
}
