// RUN: %fly-opt --convert-fly-to-rocdl %s | FileCheck %s

// An atom with state is the struct of its fields, also where nobody reads them.

!lds = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy_lds<32>, 32>
gpu.module @m {
  // CHECK-LABEL: gpu.func @run_time_offsets(
  // CHECK-SAME: %[[S:.*]]: i32, %[[I:.*]]: i32,
  gpu.func @run_time_offsets(%s: i32, %i: i32, %src: !fly.memref<f32, #fly_rocdl.buffer_desc, 1:1>, %dst: !fly.memref<f32, shared, 1:1>) kernel {
    // CHECK: %[[U:.*]] = llvm.mlir.undef : !llvm.struct<(i32, i32)>
    // CHECK: %[[A:.*]] = llvm.insertvalue %{{.*}}, %[[U]][0] : !llvm.struct<(i32, i32)>
    // CHECK: %[[B:.*]] = llvm.insertvalue %{{.*}}, %[[A]][1] : !llvm.struct<(i32, i32)>
    %atom = fly.make_copy_atom {valBits = 32 : i32} : !lds
    // CHECK: %[[C:.*]] = llvm.insertvalue %[[S]], %[[B]][0] : !llvm.struct<(i32, i32)>
    %a2 = fly.atom.set_value(%atom, "soffset", %s) : (!lds, i32) -> !lds
    // CHECK: llvm.insertvalue %[[I]], %[[C]][1] : !llvm.struct<(i32, i32)>
    %a3 = fly.atom.set_value(%a2, "imm_offset", %i) : (!lds, i32) -> !lds
    // CHECK: rocdl.raw.ptr.buffer.load.lds %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[I]], 0
    fly.copy_atom_call(%a3, %src, %dst) : (!lds, !fly.memref<f32, #fly_rocdl.buffer_desc, 1:1>, !fly.memref<f32, shared, 1:1>) -> ()
    gpu.return
  }
}
