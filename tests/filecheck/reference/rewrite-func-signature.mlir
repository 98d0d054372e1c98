// RUN: %fly-opt --allow-unregistered-dialect --fly-rewrite-func-signature %s | FileCheck %s

// A tensor argument with run-time leaves becomes its pointer and the packed struct of those leaves; what is static
// disappears; the tensor is rebuilt where it is used.

!t = !fly.memref<f16, global, (?,8):(?{i64 div=4},1), align<16>>
// CHECK: gpu.func @body(%t: !fly.ptr<f16, global, align<16>>, %{{.*}}: !llvm.struct<packed (struct<packed (i32)>, struct<packed (i64)>)>, %n: i32) kernel {
// CHECK-NEXT: %[[A:.*]] = llvm.extractvalue %[[S:.*]][0] : !llvm.struct<packed (struct<packed (i32)>, struct<packed (i64)>)>
// CHECK-NEXT: %[[B:.*]] = llvm.extractvalue %[[A]][0] : !llvm.struct<packed (i32)>
// CHECK-NEXT: %[[C:.*]] = fly.make_int_tuple(%[[B]]) : (i32) -> !fly.int_tuple<(?,8)>
// CHECK-NEXT: %[[D:.*]] = llvm.extractvalue %[[S]][1] : !llvm.struct<packed (struct<packed (i32)>, struct<packed (i64)>)>
// CHECK-NEXT: %[[E:.*]] = llvm.extractvalue %[[D]][0] : !llvm.struct<packed (i64)>
// CHECK-NEXT: %[[F:.*]] = fly.make_int_tuple(%[[E]]) : (i64) -> !fly.int_tuple<(?{i64 div=4},1)>
// CHECK-NEXT: %[[G:.*]] = fly.make_layout(%[[C]], %[[F]]) : (!fly.int_tuple<(?,8)>, !fly.int_tuple<(?{i64 div=4},1)>) -> !fly.layout<(?,8):(?{i64 div=4},1)>
// CHECK-NEXT: %[[H:.*]] = fly.make_view(%t, %[[G]]) : (!fly.ptr<f16, global, align<16>>, !fly.layout<(?,8):(?{i64 div=4},1)>) -> !fly.memref<f16, global, (?,8):(?{i64 div=4},1), align<16>>
// CHECK-NEXT: fly.get_shape(%[[H]]) : (!fly.memref<f16, global, (?,8):(?{i64 div=4},1), align<16>>) -> !fly.int_tuple<(?,8)>
gpu.module @m {
  gpu.func @body(%t: !t, %fixed: !fly.layout<(4,8):(8,1)>, %n: i32) kernel {
    %g = fly.get_shape(%t) : (!t) -> !fly.int_tuple<(?,8)>
    "test.use"(%g) : (!fly.int_tuple<(?,8)>) -> ()
    gpu.return
  }
}
// Carriers of other types.
// CHECK: func.func @carriers(%{{.*}}: !llvm.struct<packed (struct<packed (i32)>, struct<packed (i64)>)>, %{{.*}}: !llvm.struct<packed (struct<packed (i32)>, struct<packed (struct<packed (i32)>)>)>)
func.func @carriers(%l: !fly.layout<(?,8):(?{i64 div=4},1)>, %c: !fly.coord_tensor<(?,0), (4,?):(1E0,1E1)>) {
  func.return
}
