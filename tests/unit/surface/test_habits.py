"""What programs written for FlyDSL do beside the kernels: questions on the host, old allocators, raw buffers."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.kernel_function import CompilationContext
from flydsl.errors import DSLRuntimeError, DSLTypeError
from flydsl.expr import meta
from flydsl.expr.utils import arith as raw
from flydsl.runtime import device
from flydsl.utils.smem_allocator import SmemAllocator, SmemPtr  # pyright: ignore


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx942")


def test_questions_about_the_target_on_the_host(monkeypatch: pytest.MonkeyPatch):
    assert (fx.num_warp_threads(), fx.gpu.current_target().arch) == (64, "gfx942")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx1201")
    assert fx.num_warp_threads() == 32
    assert flyc.evaluate(fx.num_warp_threads, target="cpu:gfx942") == 64, "the trace's target comes first"
    assert device.SMEM_CAPACITY_MAP["gfx950"] == 160 * 1024
    device.check_smem_capacity(64 * 1024, "gfx942")
    with pytest.raises(RuntimeError, match="Shared Memory Overflow"):
        device.check_smem_capacity(64 * 1024 + 1, "gfx942")
    assert [device.supports_bf16_global_atomics(a) for a in ("gfx90a", "gfx942", "gfx1201")] == [False, True, True]


def test_small_values():
    assert (fx.Stream(5).value, fx.Stream(value=None).value) == (5, None)
    assert fx.Align[fx.Int32, 16].dtype is fx.Int32
    assert fx.arith.FastMathFlags.fast.text == "fast"
    assert fx.make_tile(256).unpack() == (256,)
    assert flyc.evaluate(lambda n: fx.make_int_tuple((fx.Basis(n, [0]), 4)).unpack()[0].value, 3) == 3
    assert flyc.evaluate(lambda: type(fx.Float32x4.filled(4, 1.0, fx.Float32)).__name__) == "Float32x4"
    sizes = flyc.evaluate(lambda: tuple(fx.coop.BlockReduce[fx.Float32, n].warp_threads for n in (16, 128)))
    assert sizes[0] == 16

    @flyc.kernel(known_block_size=(fx.Int32(64), 1, 1))
    def kernel(x: fx.Tensor): ...

    assert (kernel.known_block_size, kernel.func.__name__) == ((64, 1, 1), "kernel")


def test_options_of_a_trace():
    with meta.tracing_context(a=1), meta.tracing_context(b=2):
        assert (meta.tracing_option("a"), meta.tracing_option("b"), meta.tracing_option("c", 3)) == (1, 2, 3)
    assert meta.tracing_option("a") is None
    assert CompilationContext.get_current() is None
    assert flyc.evaluate(lambda: CompilationContext.get_current() is not None)
    with CompilationContext.compile_hints({"maxnreg": 3}):
        assert CompilationContext.get_compile_hints() == {"maxnreg": 3}


def test_raw_values():
    def body(x: Any, n: Any):
        value = fx.arith.ArithValue(x.ir_value())
        assert isinstance(value, fx.arith.ArithValue) and not isinstance(3, fx.arith.ArithValue)
        wide = raw.int_to_int(n.ir_value(), fx.T.i64, signed=False)
        return value + raw.arith_const(1.5), raw.int_to_fp(n.ir_value(), False, fx.T.f64), wide

    assert flyc.evaluate(body, 2.0, -1) == (3.5, float(2**32 - 1), 2**32 - 1)
    assert raw.is_narrow_float_type(fx.Float8E5M2.ir_type) and not raw.is_float_type(fx.T.i32)
    assert str(raw.recast_type(fx.T.f32x4, fx.T.i32)) == "vector<4xi32>"
    assert (raw.resolve_fastmath("fast"), raw.current_fastmath()) == ("fast", None)


def test_fields_of_storage_are_assigned():
    def body():
        place = fx.SharedAllocator().allocate(fx.Struct["a" : fx.Int32, "b" : fx.Float32])
        place.a = 4
        place.b = 2.5
        return place.a.peek(), place.b.peek()

    assert flyc.evaluate(body) == (4, 2.5)


def test_shared_memory_by_offsets():
    allocator = SmemAllocator(None, arch="gfx942")
    offset = SmemAllocator._align(allocator.ptr, 16)
    allocator.ptr = offset + 64 * 4

    @flyc.kernel
    def kernel(x: fx.Tensor):
        cells = SmemPtr(allocator.get_base(), offset, fx.T.f32, shape=(64,))
        i = fx.thread_idx.x
        cells.store(x[i] * 2.0, [i])
        fx.barrier()
        x[i] = cells.load([63 - i])

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(grid=1, block=64)

    x = np.arange(64, dtype=np.float32)
    flyc.compile(run, x)
    np.testing.assert_array_equal(x, 2.0 * np.arange(63, -1, -1))
    assert flyc.compile(run, x, target="rocm:gfx942").artifact.binary()
    with pytest.raises(DSLRuntimeError, match="inside a @kernel"):
        allocator.get_base()


def test_a_compiled_function_takes_addresses():
    @flyc.kernel
    def kernel(p: fx.Pointer):
        p[fx.thread_idx.x] = 3.0

    @flyc.jit
    def run(p: fx.Pointer):
        kernel(p).launch(grid=1, block=4)

    x = np.zeros(4, np.float32)
    compiled = flyc.compile(run, flyc.from_c_void_p(fx.Float32, x.ctypes.data))
    np.testing.assert_array_equal(x, np.full(4, 3))
    for address in (x.ctypes.data, ctypes.c_void_p(x.ctypes.data)):
        x[:] = 0
        compiled(address)
        np.testing.assert_array_equal(x, np.full(4, 3))


def test_buffers_by_instruction():
    def body(x: Any):
        whole = fx.rocdl.make_buffer_tensor(x, max_size=False)
        descriptor = fx.rocdl.get_buffer_rsrc(whole)
        fx.rocdl.raw_ptr_buffer_store(fx.Float32(9.0), descriptor, 4, 0)
        fx.rocdl.raw_ptr_buffer_atomic_fadd(fx.Float32(0.5), whole, 8, 4)
        beyond = fx.rocdl.raw_ptr_buffer_load(fx.T.f32, descriptor, 16, 0)
        return fx.rocdl.raw_ptr_buffer_load(fx.T.f32x4, descriptor, 0, 0), beyond

    got = flyc.evaluate(body, np.arange(4, dtype=np.float32), target="cpu:gfx942")
    assert got == ([0.0, 9.0, 2.0, 3.5], 0.0)
    with pytest.raises(DSLTypeError, match="expected a buffer resource"):
        flyc.evaluate(lambda x: fx.rocdl.raw_ptr_buffer_load(fx.T.f32, fx.get_iter(x), 0, 0), np.zeros(4, np.float32))
    with pytest.raises(DSLTypeError, match="no parameter 'glc'"):
        flyc.evaluate(lambda x: fx.rocdl.raw_ptr_buffer_load(fx.T.f32, x, 0, 0, glc=1), np.zeros(4, np.float32))


def test_a_scaled_product_on_values(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx950")

    @flyc.kernel
    def kernel(x: fx.Tensor):
        ones = fx.full(8, 0x38383838, fx.Int32)  # 32 bytes of 1.0
        c = fx.full(4, 0.5, fx.Float32)
        operands = [ones, ones, c, 0, 0, 0, fx.Int32(0x80808080), 0, fx.Int32(0x7F7F7F7F)]
        x[fx.thread_idx.x] = fx.rocdl.mfma_scale_f32_16x16x128_f8f6f4(fx.T.f32x4, operands)[0]

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(grid=1, block=64)

    x = np.zeros(64, np.float32)
    flyc.compile(run, x)
    np.testing.assert_array_equal(x, np.full(64, 128 * 2 + 0.5))
    assert "v_mfma_scale_f32_16x16x128" in flyc.compile(run, x, target="rocm:gfx950").artifact.asm


def test_a_tiled_product_of_an_atom_with_state(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx950")

    @flyc.kernel
    def kernel(x: fx.Tensor):
        op = fx.rocdl.cdna4.MFMAScale(16, 16, 128, fx.Float8E4M3FN)
        atom = fx.make_mma_atom(op).set_value({"scale_a": fx.Int32(0x7F7F7F7F), "scale_b": fx.Int32(0x80808080)})
        tiled = fx.make_tiled_mma(atom, fx.make_layout((1, 1, 1), (0, 0, 0)))
        a = fx.make_rmem_tensor(fx.make_layout((32, 1, 1), (1, 0, 0)), fx.Float8E4M3FN)
        a.fill(1.0)
        c = fx.make_rmem_tensor(fx.make_layout((4, 1, 1), (1, 0, 0)), fx.Float32)
        c.fill(0.0)
        fx.gemm(tiled, c, a, a, c)
        x[fx.thread_idx.x] = c[0]

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(grid=1, block=64)

    x = np.zeros(64, np.float32)
    run(x)
    np.testing.assert_array_equal(x, np.full(64, 256))


def test_allocators_of_helpers_have_memory_of_their_own():
    """Each is gone when its helper returns, and the next may have its place in Python's memory."""
    from flydsl.utils.smem_allocator import SmemAllocator, SmemPtr

    def place():
        allocator = SmemAllocator(None)
        allocator.ptr = 4
        return SmemPtr(allocator.get_base(), 0, fx.Int32, (1,))

    def body():
        first, second = place(), place()
        first.store(fx.Int32(1))
        second.store(fx.Int32(2))
        return first.load() * 10 + second.load()

    assert flyc.evaluate(body) == 12
