// RUN: %fly-opt --verify-diagnostics --split-input-file %s

// expected-error @+1 {{invalid basis: expected a basis leaf such as 1E0}}
func.func private @basis(!fly.basis<4>) -> ()
// -----
// expected-error @+1 {{invalid composed layout: expected a composed layout 'inner o offset o outer', got '(8,8):(8,1)'}}
func.func private @composed(!fly.composed_layout<(8,8):(8,1)>) -> ()
// -----
// expected-error @+1 {{alignment must be a positive multiple of element byte size (4), got 6}}
func.func private @align(!fly.ptr<f32, global, align<6>>) -> ()
// -----
// expected-error @+1 {{alignment must be a positive multiple of element byte size (2), got 0}}
func.func private @align_memref(!fly.memref<f16, global, 4:1, align<0>>) -> ()
// -----
// expected-error @+1 {{expected 'align<N>' or a swizzle, got 'foo'}}
func.func private @tail(!fly.ptr<f32, global, foo>) -> ()
// -----
// expected-error @+1 {{expected 'align<N>' or a swizzle, got 'align<x>'}}
func.func private @align_word(!fly.ptr<f32, global, align<x>>) -> ()
// -----
// expected-error-re @+1 {{invalid swizzle: {{.*}}}}
func.func private @short_swizzle(!fly.ptr<f32, global, S<1,2>>) -> ()
// -----
// expected-error-re @+1 {{invalid int tuple: {{.*}}}}
func.func private @empty(!fly.int_tuple<()>) -> ()
// -----
// expected-error-re @+1 {{invalid tile: {{.*}}}}
func.func private @tile(!fly.tile<[1E0]>) -> ()
// -----
// expected-error @+1 {{expected 3 dimensions in MNK dimension list}}
func.func private @mnk(!fly.universal_fma<1x1, (f32, f32) -> f32>) -> ()
// -----
// expected-error @+1 {{universal_fma has shape 1x1x1, got 2x1x1}}
func.func private @fma(!fly.universal_fma<2x1x1, (f32, f32) -> f32>) -> ()
// -----
// expected-error @+1 {{universal_fma needs three equal types}}
func.func private @fma_types(!fly.universal_fma<1x1x1, (f16, f16) -> f32>) -> ()
// -----
// expected-error @+1 {{failed to parse Fly_CopyAtom parameter 'copyOp'}}
func.func private @copy(!fly.copy_atom<f32, 32>) -> ()
// -----
// expected-error @+1 {{failed to parse Fly_MmaAtom parameter 'mmaOp'}}
func.func private @mma(!fly.mma_atom<f32>) -> ()
// -----
// expected-error @+1 {{expected one of add, max, min, and, or, inc, dec, got 'xor'}}
func.func private @atomic(!fly.universal_atomic<xor, i32>) -> ()
// -----
// expected-error @+1 {{expected one of generic, global, shared, register, got 'something else'}}
module attributes {x = #fly.address_space<global>} {}
// -----
func.func @operand(%t: !fly.int_tuple<4>) {
  // expected-error @+1 {{expected one of a, b, c, d, got 'e'}}
  %r = fly.mma.make_fragment(e, %t, %t) : (!fly.int_tuple<4>, !fly.int_tuple<4>) -> i32
}
// -----
// expected-error @+1 {{Operation fly.unknown is not registered}}
fly.unknown() : () -> ()
// -----
// expected-error @+1 {{failed to parse Fly_CopyAtom parameter 'copyOp': f32 is not a copy operation}}
func.func private @copy_kind(!fly.copy_atom<f32, 32>) -> ()
// -----
// expected-error @+1 {{failed to parse Fly_MmaAtom parameter 'mmaOp': !fly.universal_copy<32> is not an mma operation}}
func.func private @mma_kind(!fly.mma_atom<!fly.universal_copy<32>>) -> ()
// -----
// expected-error @+1 {{expected a copy atom, got f32}}
func.func private @tiled_copy(!fly.tiled_copy<f32, !fly.layout<4:1>, !fly.tile<[4]>>) -> ()
// -----
// expected-error @+1 {{expected a plain layout}}
func.func private @tiled_copy_layout(!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, f32, !fly.tile<[4]>>) -> ()
// -----
// expected-error @+1 {{expected a tile}}
func.func private @tiled_copy_tile(!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<4:1>, f32>) -> ()
// -----
// expected-error @+1 {{expected an mma atom, got f32}}
func.func private @tiled_mma(!fly.tiled_mma<f32, !fly.layout<(2,2,1):(1,2,0)>>) -> ()
// -----
// expected-error-re @+1 {{invalid layout: {{.*}}}}
func.func private @layout(!fly.layout<(4,8):1>) -> ()
// -----
// expected-error-re @+1 {{invalid {{.*}}expected one integer leaf such as 4 or ?{{.*}}}}
module attributes {x = #fly<int (1,2)>} {}
// -----
// expected-error @+1 {{invalid element type: none has no width in bits}}
func.func private @width(!fly.ptr<none, global>) -> ()
