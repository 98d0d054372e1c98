// RUN: %fly-opt %s | FileCheck %s

// Attributes that are only kept are written without the aliases of the file they came from.

#root = #llvm.tbaa_root<id = "a #root in quotes">
#desc = #llvm.tbaa_type_desc<id = "int", members = {<#root, 0>}>
llvm.func @f(%p: !llvm.ptr) {
  // CHECK: tbaa = [#llvm.tbaa_tag<base_type = #llvm.tbaa_type_desc<id = "int", members = {<#llvm.tbaa_root<id = "a #root in quotes">, 0>}>, access_type = #llvm.tbaa_type_desc<id = "int", members = {<#llvm.tbaa_root<id = "a #root in quotes">, 0>}>, offset = 0>]
  %0 = llvm.load %p {tbaa = [#llvm.tbaa_tag<base_type = #desc, access_type = #desc, offset = 0>]} : !llvm.ptr -> i32
  llvm.return
}
