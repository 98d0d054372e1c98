// RUN: %fly-opt --convert-fly-to-rocdl %s | FileCheck %s

// A load whose address is the same in all lanes takes the raw descriptor, and its two offsets as one.

gpu.module @m {
  // CHECK-LABEL: gpu.func @scalar(
  gpu.func @scalar(%p: !fly.ptr<f32, #fly_rocdl.buffer_desc>, %soffset: i32, %out: !fly.ptr<f32, global, align<16>>) kernel {
    // CHECK: %[[R:.*]] = llvm.extractvalue %p[0]
    // CHECK: %[[AT:.*]] = arith.addi %{{.*}}, %soffset : i32
    // CHECK: %[[N:.*]] = llvm.ptrtoint %[[R]] : !llvm.ptr<8> to i128
    // CHECK: %[[D:.*]] = llvm.bitcast %[[N]] : i128 to vector<4xi32>
    // CHECK: s.buffer.load{{.*}}%[[D]], %[[AT]]
    %v = fly_rocdl.buffer_load(%p, %soffset) {scalar} : (!fly.ptr<f32, #fly_rocdl.buffer_desc>, i32) -> vector<4xf32>
    fly.ptr.store(%v, %out) : (vector<4xf32>, !fly.ptr<f32, global, align<16>>) -> ()
    gpu.return
  }
}
