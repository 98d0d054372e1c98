"""What FlyDSL accepts is accepted: each rule on the cpu stack emulating an AMD GPU, and compiled for that GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError, PortabilityWarning

ARCH = "gfx942"


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", ARCH)


def ran(body: Callable[..., None], x: np.ndarray[Any, Any], *more: Any, block: int = 1, arch: str = ARCH) -> Any:
    """The array after a kernel, which is compiled for the GPU as well."""
    kernel = flyc.kernel(body)

    @flyc.jit
    def run(x: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        kernel(x, *more).launch(grid=1, block=block, stream=stream)

    run(x)
    assert flyc.compile(run, x, target=f"rocm:{arch}").artifact.binary()
    return x


def numbers(n: int = 16) -> np.ndarray[Any, Any]:
    return np.arange(n, dtype=np.float32)


def test_a_tensor_of_a_tensor():
    def body(x: fx.Tensor):
        view = fx.Tensor(fx.make_view(fx.get_iter(x), fx.make_layout(4, 1)))
        again = fx.Tensor(x)
        again[0] = view[3]
        fx.Tensor(view.ir_value())[1] = 7.0

    got = ran(body, numbers())
    np.testing.assert_array_equal(got[:4], [3, 7, 2, 3])
    with pytest.raises(DSLTypeError, match="takes a tensor"):
        flyc.evaluate(lambda i: fx.Tensor(i.ir_value()), 1)  # pyright: ignore[reportUnknownLambdaType]


def test_a_view_with_a_nested_layout_is_an_argument():
    @flyc.kernel
    def kernel(view: fx.Tensor, out: fx.Tensor, bounded: fx.Constexpr[bool]):
        seen = fx.rocdl.make_buffer_tensor(view, max_size=not bounded)
        t = fx.thread_idx.x
        out[t] = seen[(t % 8, t // 8)]

    @flyc.jit
    def run(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
        static = fx.make_view(fx.get_iter(x), fx.make_layout(((2, 4), 4), ((1, 8), 2)))
        kernel(static, out, False).launch(grid=1, block=32)
        mixed = fx.make_view(fx.get_iter(x), fx.make_layout(((2, 4), (4, n)), ((1, 8), (2, 32))))
        kernel(mixed, fx.make_view(fx.get_iter(out) + 32, fx.make_layout(32, 1)), True).launch(grid=1, block=32)

    x, out = numbers(64), np.full(64, -1, np.float32)
    run(x, out, 2)
    expected = [(t % 8 % 2) + 8 * (t % 8 // 2) + 2 * (t // 8) for t in range(32)]
    np.testing.assert_array_equal(out, expected * 2)
    assert flyc.compile(run, x, out, 2, target="rocm:gfx942").artifact.binary()


def test_coordinates_are_loaded_as_a_vector():
    def body(x: fx.Tensor):
        v = fx.make_view(3, fx.make_layout((2, 2), (1, 4))).load()
        assert (v.shape, v.dtype) == ((2, 2), fx.Int32)
        w = fx.make_view(fx.thread_idx.x + 2, fx.make_layout(3, 5)).load()
        for i in fx.range_constexpr(4):
            x[i] = fx.Float32(v.reshape(4)[i])
        for i in fx.range_constexpr(3):
            x[4 + i] = fx.Float32(w[i])

    np.testing.assert_array_equal(ran(body, numbers())[:7], [3, 4, 7, 8, 2, 7, 12])
    with pytest.raises(DSLTypeError, match="single integers"):
        flyc.evaluate(lambda: fx.make_view((0, 0), fx.make_identity_layout((2, 2))).load())


def test_a_wide_atom_moves_all_its_bits_from_one_element():
    def one(pointer: Any) -> Any:
        return fx.make_view(pointer, fx.make_layout(1, 1))

    def body(x: fx.Tensor):
        wide = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
        p = fx.get_iter(x)
        fx.copy(wide, one(p), one(p + 8))
        r = fx.make_rmem_tensor(4, fx.Float32)
        r.fill(-1.0)
        fx.copy(wide, one(p + 4), one(fx.get_iter(r)))
        fx.copy(wide, r, one(p + 12))
        fx.copy_atom_call(wide, one(p + 4), r)
        fx.copy(wide, r, fx.make_view(p + 16, fx.make_layout(4, 1)))

    got = ran(body, numbers(20))
    np.testing.assert_array_equal(got, [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7])


def test_a_copy_moves_bits_between_element_types():
    def body(x: fx.Tensor):
        atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
        p = fx.get_iter(x)
        source = fx.make_view(p, fx.make_layout(4, 1))
        halves, words = fx.make_rmem_tensor(8, fx.Float16), fx.make_rmem_tensor(4, fx.Int32)
        fx.copy(atom, source, halves)
        fx.copy(atom, source, words)
        fx.copy(atom, words, fx.make_view(p + 4, fx.make_layout(4, 1)))
        fx.copy(atom, halves, fx.make_view(p + 8, fx.make_layout(4, 1)))
        x[12] = fx.Float32(halves[3])

    got = ran(body, numbers())
    np.testing.assert_array_equal(got[4:12], [0, 1, 2, 3, 0, 1, 2, 3])
    assert got[12] == np.float32([0, 1, 2, 3]).view(np.float16)[3]

    def uneven(x: fx.Tensor):
        fx.copy(
            fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32),
            fx.make_view(fx.get_iter(x), fx.make_layout(4, 1)),
            fx.make_rmem_tensor(4, fx.Float16),
        )

    with pytest.raises(DSLTypeError, match="source holds Float32, destination Float16"):
        ran(uneven, numbers())


def test_ir_types_and_values_stand_for_classes_and_vectors():
    def body(x: fx.Tensor):
        r = fx.make_rmem_tensor(4, fx.T.f32)
        r.fill(2.0)
        like = fx.make_fragment_like(r, fx.T.i32)
        like.fill(3)
        p = fx.get_iter(x)
        x[0] = r[0] + fx.Float32(like[1])
        x[1] = fx.ptr_load(p + 5, result_type=fx.T.f32)
        x[2] = fx.ptr_load(p + 4, result_type=fx.T.f32x4)[3]
        x[3] = fx.Float32(fx.recast_iter(fx.T.i32, p)[6])
        bare = fx.Vector.filled(4, 1.5, fx.Float32).ir_value()
        r.store(bare)
        x[4] = r[2]
        fx.ptr_store(bare, p + 8)
        x[12] = fx.Float32(fx.make_view(p + 13, fx.make_layout(1, 1)).load())

    got = ran(body, numbers())
    bits = float(np.float32([6]).view(np.int32)[0])
    np.testing.assert_array_equal(got[:5], np.float32([5, 5, 7, bits, 1.5]))
    np.testing.assert_array_equal(got[8:13], [1.5, 1.5, 1.5, 1.5, 13])
    with pytest.raises(DSLValueError, match=r"convert its elements with \.to\(fx\.Float32\)"):
        flyc.evaluate(lambda: fx.Float32(fx.full(2, 1, fx.Int32)))


def test_types_of_pointers_and_memrefs():
    def body(x: fx.Tensor):
        made = fx.PointerType.get(elem_ty=fx.T.f32, address_space=1, alignment=16)
        assert (made.alignment, made.element_type) == (16, fx.T.f32)
        assert fx.PointerType.get(fx.T.f32, fx.rocdl.BufferDesc).address_space == fx.rocdl.BufferDesc
        layout = fx.LayoutType.get((4, 2), (1, 4))
        assert (layout.rank, layout.is_static, str(layout.stride)) == (2, True, "!fly.int_tuple<(1,4)>")  # pyright: ignore
        memory = fx.MemRefType.get(fx.Float32, layout, fx.AddressSpace.Register)
        assert memory == fx.MemRefType.get(fx.T.f32, fx.AddressSpace.Register, layout)
        assert fx.static(layout).type == layout and x.type == x.ir_value().type
        m = fx.memref_alloca(memory, fx.static(layout))
        fx.memref_store(2.5, m, (1, 1))
        x[0] = fx.memref_load(m, (1, 1))
        x[1] = fx.inttoptr(made, fx.ptrtoint(fx.get_iter(x)))[9]

    np.testing.assert_array_equal(ran(body, numbers())[:2], [2.5, 9])
    with pytest.raises(DSLTypeError, match="expected an fx.AddressSpace"):
        fx.PointerType.get(fx.T.f32, "shared")


def test_values_that_leave_a_loop_bare():
    def body(x: fx.Tensor):
        v = fx.Vector.filled(4, 0.0, fx.Float32)
        for _i in range(4):
            v = (v + 1.0).ir_value()
        for _i, state in range(0, 4, 1, init=[fx.Float32(1.0)]):
            result = yield [state[0] * 2.0]
        x[0] = v[1]
        x[1] = result

    np.testing.assert_array_equal(ran(body, numbers())[:2], [4, 16])


def test_matrix_operands_in_registers_of_another_type():
    def body(x: fx.Tensor):
        atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16))
        halves, words = fx.make_rmem_tensor(4, fx.Float16), fx.make_rmem_tensor(2, fx.Int32)
        halves.fill(2.0)
        fx.copy(fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float16), halves, words)
        c = fx.make_rmem_tensor(4, fx.Float32)
        c.fill(1.5)
        fx.mma_atom_call(atom, c, words, halves, c)
        x[fx.thread_idx.x] = c[0]

    np.testing.assert_array_equal(ran(body, numbers(64), block=64), np.full(64, 16 * 4 + 1.5))


def test_fnuz_inputs_on_gfx950_are_what_the_hardware_reads(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx950")

    def body(x: fx.Tensor):
        atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 32, fx.Float8E4M3FNUZ))
        a = fx.make_rmem_tensor(8, fx.Float8E4M3FNUZ)
        a.fill(1.0)
        c = fx.make_rmem_tensor(4, fx.Float32)
        c.fill(0.0)
        fx.mma_atom_call(atom, c, a, a, c)
        x[fx.thread_idx.x] = c[0]

    with pytest.warns(PortabilityWarning, match="gfx950 reads the bytes") as told:
        got = ran(body, numbers(64), block=64, arch="gfx950")
    np.testing.assert_array_equal(got, np.full(64, 32 * 4.0))  # the bytes of 1.0 are 2.0 there
    assert told[0].filename == __file__


def test_an_atom_that_is_only_made_may_be_missing():
    def made(x: fx.Tensor):
        fx.make_mma_atom(fx.rocdl.cdna4.MFMA_Scale(16, 16, 128, fx.Float8E4M3FN))
        fx.make_copy_atom(fx.rocdl.cdna4.LDSReadTrans16_64b(), fx.Float16)
        x[0] = 1.0

    def used(x: fx.Tensor):
        r = fx.make_rmem_tensor(8, fx.Float16)
        c = fx.make_rmem_tensor(4, fx.Float32)
        fx.mma_atom_call(fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 32, fx.Float16)), c, r, r, c)

    assert ran(made, numbers())[0] == 1
    with pytest.raises(DSLValueError, match="does not exist on gfx942"):
        ran(used, numbers(), block=64)


def test_the_order_of_a_product_as_text():
    def body(x: fx.Tensor):
        atom = fx.make_mma_atom(fx.UniversalFMA(fx.Float32))
        a, b, c = (fx.make_rmem_tensor((1, 2, 2), fx.Float32) for _ in range(3))
        for t, value in ((a, 1.0), (b, 2.0), (c, 0.0)):
            t.fill(value)
        fx.gemm(atom, c, a, b, c, traversal_order="kmn")
        fx.gemm(atom, c, a, b, c, traversal_order="MNK_Serpentine")
        x[0] = c[0, 1, 1]

    assert ran(body, numbers())[0] == 8
    with pytest.raises(DSLValueError, match="one of KMN"):
        c = "c"
        fx.gemm(fx.make_mma_atom(fx.UniversalFMA(fx.Float32)), c, c, c, c, traversal_order="abc")  # pyright: ignore


def test_integers_of_128_bits_are_arguments():
    @flyc.kernel
    def kernel(x: fx.Tensor, a: fx.Int128, b: fx.Uint128):
        x[0] = fx.Int64(a >> 64)
        x[1] = fx.Int64(b >> 64)
        x[2] = fx.Int64(a)
        x[3] = fx.Int64(b)

    @flyc.jit
    def run(x: fx.Tensor, a: fx.Int128, b: fx.Uint128):
        kernel(x, a, b).launch(grid=1, block=1)

    x = np.zeros(4, np.int64)
    for a, b in ((-(3 << 64) + 5, (1 << 127) + 7), (-1, (1 << 128) - 1), (1 << 100, 0)):
        run(x, a, b)
        both = np.array([a >> 64, b >> 64, a, b], dtype=object) & (2**64 - 1)
        np.testing.assert_array_equal(x.view(np.uint64), both.astype(np.uint64))
    assert flyc.compile(run, x, 1, 1, target="rocm:gfx942").artifact.binary()
    with pytest.raises(OverflowError, match="does not fit Uint128"):
        run(x, 0, -1)
