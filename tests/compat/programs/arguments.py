"""What kernels are given: scalars, structs, pointers, addresses, static objects, and types of the user's own."""

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.protocol import construct_from_ir_values, extract_to_ir_values

from .case import Call, poison, program, randint, randn


@fx.struct
class Affine:
    scale: fx.Float32
    bias: fx.Float32
    times: fx.Constexpr[int]

    def apply(self, x):
        return self.scale * x + self.bias


@flyc.kernel
def affine_kernel(x: fx.Tensor, out: fx.Tensor, p: Affine):
    t = fx.thread_idx.x
    v = x[t]
    for _ in fx.range_constexpr(p.times):
        v = p.apply(v)
    out[t] = v


@flyc.jit
def affine(x: fx.Tensor, out: fx.Tensor, p: Affine):
    affine_kernel(x, out, p).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(affine)
def struct_with_methods():
    x, out = randn(64), poison(64)
    v = x.double()
    for _ in range(3):
        v = 0.5 * v + 2
    return Call([x, out, Affine(0.5, 2.0, 3)], [(out, v)], terms=6)


class Complex:
    """A type of the user's: two values of the IR."""

    def __init__(self, re, im):
        self.re, self.im = re, im

    def __extract_to_ir_values__(self):
        return [*extract_to_ir_values(self.re), *extract_to_ir_values(self.im)]

    @classmethod
    def __construct_from_ir_values__(cls, values, exemplar=None):
        return cls(fx.Float32(values[0]), fx.Float32(values[1]))

    def times(self, other):
        return Complex(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)


@flyc.kernel
def complex_kernel(x: fx.Tensor, out: fx.Tensor, factor: Complex, n: fx.Int32):
    t = fx.thread_idx.x
    z = Complex(x[t, 0], x[t, 1])
    for _i in range(n):
        z = z.times(factor)
    again = construct_from_ir_values(Complex, z, extract_to_ir_values(z))
    out[t, 0] = again.re
    out[t, 1] = again.im


@flyc.jit
def complex_power(x: fx.Tensor, out: fx.Tensor, re: fx.Float32, im: fx.Float32, n: fx.Int32):
    complex_kernel(x, out, Complex(re, im), n).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(complex_power)
def own_type_carried_by_a_loop():
    x, out = randn(64, 2), poison(64, 2)
    z = torch.view_as_complex(x.double()) * complex(0.6, 0.8) ** 5
    return Call([x, out, 0.6, 0.8, 5], [(out, torch.view_as_real(z))], rtol=1e-5, atol=1e-5)


@flyc.kernel
def pointer_kernel(src: fx.Pointer, dst: fx.Pointer, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        four = (src + i * 4).load(fx.Float32x4)
        fx.ptr_store(four * 2.0, dst + i * 4)


@flyc.jit
def pointers(src: fx.Pointer, dst: fx.Pointer, n: fx.Int32):
    pointer_kernel(src, dst, n).launch(grid=(fx.ceildiv(n, 64), 1, 1), block=(64, 1, 1))


@program(pointers)
def addresses():
    src, dst = randn(4 * 70), poison(4 * 70)
    args = [flyc.from_c_void_p(fx.Float32, x.data_ptr(), assumed_align=16) for x in (src, dst)]
    return Call([*args, 70], [(dst, 2 * src.double())], kept=src)


@flyc.kernel
def integers_kernel(addr: fx.Int64, out: fx.Tensor, wide: fx.Int128, flag: fx.Boolean, small: fx.Uint8):
    """An address that comes as a number, and scalars of several sizes."""
    t = fx.thread_idx.x
    type_ = fx.PointerType.get(elem_ty=fx.T.i32, address_space=fx.AddressSpace.Global, alignment=4)
    p = fx.inttoptr(type_, addr)
    more = fx.Int32(wide >> 64) if flag else fx.Int32(0)
    out[t] = p[t] + more + fx.Int32(small)


@flyc.jit
def integers(addr: fx.Int64, out: fx.Tensor, wide: fx.Int128, flag: fx.Boolean, small: fx.Uint8):
    integers_kernel(addr, out, wide, flag, small).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(integers)
def numbers_of_every_size():
    x, out = randint(-1000, 1000, 64), poison(64, dtype=torch.int32)
    return Call([x.data_ptr(), out, (7 << 64) + 5, True, 250], [(out, x + 7 + 250)], kept=x)


@flyc.kernel
def static_kernel(x: fx.Tensor, out: fx.Tensor, layout: fx.Layout, tile: fx.Tile, kind: fx.Constexpr[tuple]):
    """Layouts and tiles as arguments; they cost nothing."""
    t = fx.thread_idx.x
    cut = fx.zipped_divide(fx.make_view(fx.get_iter(x), layout), tile)
    mine = fx.slice(cut, (None, t))
    total = fx.Float32(0.0)
    for i in fx.range_constexpr(fx.size(mine.shape).unpack()):
        total += mine[i]
    out[t] = total * kind[0] + kind[1]


@flyc.jit
def static_objects(x: fx.Tensor, out: fx.Tensor, kind: fx.Constexpr[tuple]):
    layout = fx.make_ordered_layout((16, 16), (1, 0))
    static_kernel(x, out, layout, fx.make_tile(4, 2), kind).launch(grid=(1, 1, 1), block=(32, 1, 1))


@program(static_objects)
def static_arguments():
    x, out = randn(16, 16), poison(32)
    v = x.double().reshape(4, 4, 8, 2).sum((1, 3))
    return Call([x.reshape(-1), out, (2.0, 1.0)], [(out, 2 * v.T.reshape(-1) + 1)], terms=10, atol=1e-5)


@flyc.kernel
def shapes_kernel(x: fx.Tensor, out: fx.Tensor):
    m, n = x.shape.unpack()
    t = fx.thread_idx.x
    steps = [s for s in x.stride.unpack()]
    if t < m:
        out[t] = x[t, n - 1] + fx.Float32(fx.Int32(steps[0]))


@flyc.jit
def shapes(x: fx.Tensor, out: fx.Tensor):
    shapes_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(shapes)
def marked_layouts():
    x, out = randn(48, 12)[:, :8], poison(48)
    marked = flyc.from_torch_tensor(x, assumed_align=16).mark_layout_dynamic(leading_dim=1, divisibility=4)
    return Call([marked, out], [(out, x[:, 7].double() + 12)], terms=1)
