// RUN: %fly-opt --fly-layout-lowering %s | FileCheck %s

// Words that lie one behind the other in global memory are copied at once on a target that takes vectors at any word.

gpu.module @amd attributes {fly.target = "rocm:gfx942:w64"} {
// Registers in the order of memory take a vector as it is. Two elements are left over.
// CHECK-LABEL: func.func @in_order
// CHECK: fly.ptr.load({{.*}}) : (!fly.ptr<f32, global>) -> vector<4xf32>
// CHECK-NEXT: fly.ptr.store({{.*}}) : (vector<4xf32>,
// CHECK: fly.ptr.load({{.*}}) : (!fly.ptr<f32, global>) -> vector<2xf32>
// CHECK-NOT: fly.copy_atom_call
func.func @in_order(%p: !fly.ptr<f32, global>) -> f32 {
  %l = fly.static : !fly.layout<(1,6):(0,1)>
  %v = fly.make_view(%p, %l) : (!fly.ptr<f32, global>, !fly.layout<(1,6):(0,1)>) -> !fly.memref<f32, global, (1,6):(0,1)>
  %r = fly.make_fragment_like(%v) : (!fly.memref<f32, global, (1,6):(0,1)>) -> !fly.memref<f32, register, (1,6):(0,1)>
  %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 32>
  fly.copy(%a, %v, %r) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, global, (1,6):(0,1)>, !fly.memref<f32, register, (1,6):(0,1)>) -> ()
  %c = fly.static : !fly.int_tuple<(0,5)>
  %x = fly.memref.load(%r, %c) : (!fly.memref<f32, register, (1,6):(0,1)>, !fly.int_tuple<(0,5)>) -> f32
  return %x : f32
}

// Turned around on the way: vectors on both sides, elements between them.
// CHECK-LABEL: func.func @turned
// CHECK-COUNT-2: fly.ptr.load({{.*}}) : (!fly.ptr<f32, global>) -> vector<2xf32>
// CHECK-COUNT-2: fly.ptr.store({{.*}}) : (vector<2xf32>, !fly.ptr<f32, global>) -> ()
// CHECK-NOT: fly.copy_atom_call
func.func @turned(%p: !fly.ptr<f32, global>, %q: !fly.ptr<f32, global>) {
  %l = fly.static : !fly.layout<(1,2,2):(0,1,8)>
  %m = fly.static : !fly.layout<(1,2,2):(0,8,1)>
  %v = fly.make_view(%p, %l) : (!fly.ptr<f32, global>, !fly.layout<(1,2,2):(0,1,8)>) -> !fly.memref<f32, global, (1,2,2):(0,1,8)>
  %w = fly.make_view(%q, %m) : (!fly.ptr<f32, global>, !fly.layout<(1,2,2):(0,8,1)>) -> !fly.memref<f32, global, (1,2,2):(0,8,1)>
  %r = fly.make_fragment_like(%v) : (!fly.memref<f32, global, (1,2,2):(0,1,8)>) -> !fly.memref<f32, register, (1,2,2):(0,1,2)>
  %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 32>
  fly.copy(%a, %v, %r) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, global, (1,2,2):(0,1,8)>, !fly.memref<f32, register, (1,2,2):(0,1,2)>) -> ()
  fly.copy(%a, %r, %w) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, register, (1,2,2):(0,1,2)>, !fly.memref<f32, global, (1,2,2):(0,8,1)>) -> ()
  return
}

// Shared memory has other rules, and elements apart stay apart.
// CHECK-LABEL: func.func @apart
// CHECK-COUNT-4: fly.copy_atom_call(
// CHECK-NOT: vector
func.func @apart(%p: !fly.ptr<f32, shared>, %q: !fly.ptr<f32, global>) {
  %l = fly.static : !fly.layout<(1,2):(0,1)>
  %m = fly.static : !fly.layout<(1,2):(0,3)>
  %v = fly.make_view(%p, %l) : (!fly.ptr<f32, shared>, !fly.layout<(1,2):(0,1)>) -> !fly.memref<f32, shared, (1,2):(0,1)>
  %w = fly.make_view(%q, %m) : (!fly.ptr<f32, global>, !fly.layout<(1,2):(0,3)>) -> !fly.memref<f32, global, (1,2):(0,3)>
  %r = fly.make_fragment_like(%v) : (!fly.memref<f32, shared, (1,2):(0,1)>) -> !fly.memref<f32, register, (1,2):(0,1)>
  %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 32>
  fly.copy(%a, %v, %r) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, shared, (1,2):(0,1)>, !fly.memref<f32, register, (1,2):(0,1)>) -> ()
  fly.copy(%a, %r, %w) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, register, (1,2):(0,1)>, !fly.memref<f32, global, (1,2):(0,3)>) -> ()
  return
}
}
