"""Shared memory: static and dynamic allocation, inferred launch sizes, limits."""

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLCompileError


@fx.union
class Both:
    half: fx.Array[fx.Float16, 16]
    single: fx.Array[fx.Float32, 16]


@fx.struct
class Tile:
    body: fx.Array[fx.Float32, 1024, 16]
    counter: fx.Int32
    both: Both


def launcher(body, **launch):
    @flyc.kernel
    def kernel(x: fx.Tensor):
        body(x)

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(block=64, **launch)

    return run


X = np.zeros(4, np.float32)


def test_static_allocations_are_scattered(traced):
    def body(x):
        shared = fx.SharedAllocator()
        place = shared.allocate(Tile)
        assert shared.is_static and shared.allocated_bytes == 4176
        assert type(place) is fx.Storage[Tile]
        lds = place.peek()
        lds.body[0] = 1.0
        lds.both.single.peek()[0] = 2.0
        place.counter.poke(3)
        with pytest.raises(RuntimeError, match="no shared base pointer"):
            _ = shared.base_ptr

    text = traced(launcher(body), X)
    assert "{allocAlign = 16 : i64, allocBytes = 4096 : i64}" in text
    assert "{allocAlign = 4 : i64, allocBytes = 4 : i64}" in text
    assert "{allocAlign = 4 : i64, allocBytes = 64 : i64}" in text
    assert text.count("fly.make_ptr") == 3
    assert "dynamic_shared_memory_size" not in text


def test_static_bytes(traced):
    def body(x):
        place = fx.SharedAllocator().allocate(100, 32)
        assert type(place) is fx.Storage[fx.Array[fx.Uint8, 100]]
        assert place.peek().ptr.address_space is fx.AddressSpace.Shared

    assert "{allocAlign = 32 : i64, allocBytes = 100 : i64}" in traced(launcher(body), X)


def dynamic(x):
    shared = fx.SharedAllocator(static=False)
    a = shared.allocate(fx.Int8)
    lds = shared.allocate(Tile).peek()
    assert not shared.is_static and shared.allocated_bytes == 16 + 4176
    a.poke(1)
    lds.body[1] = 2.0
    assert shared.base_ptr.alignment == 1024


def test_dynamic_size_is_inferred(traced):
    text = traced(launcher(dynamic), X)
    assert "fly.get_dyn_shared" in text and "fly.make_ptr" not in text
    assert "arith.constant 4192 : i32" in text and "dynamic_shared_memory_size" in text
    assert "!fly.int_tuple<16>" in text


def test_explicit_size(traced):
    text = traced(launcher(dynamic, smem=8192), X)
    assert "arith.constant 8192 : i32" in text and "arith.constant 4192" not in text
    with pytest.raises(ValueError, match="smem=100 is less than the 4192 bytes"):
        traced(launcher(dynamic, smem=100), X)
    with pytest.raises(TypeError, match="number of bytes"):
        traced(launcher(dynamic, smem=1.5), X)


def test_runtime_size_is_at_least_what_is_needed(traced):
    @flyc.kernel
    def kernel(x: fx.Tensor):
        dynamic(x)

    @flyc.jit
    def run(x: fx.Tensor, n: fx.Int32):
        kernel(x).launch(block=64, smem=n)

    assert "arith.maxsi" in traced(run, X, 5000)


def test_launching_twice_keeps_the_size(traced):
    @flyc.kernel
    def kernel(x: fx.Tensor):
        dynamic(x)

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(block=64)
        kernel(x).launch(block=64)

    text = traced(run, X)
    assert text.count("gpu.func") == 1 and text.count("dynamic_shared_memory_size") == 2


def test_where_it_can_be_made(traced, host_trace):
    with pytest.raises(RuntimeError, match="@kernel"):
        fx.SharedAllocator()


def test_outside_any_trace():
    with pytest.raises(RuntimeError, match="@kernel"):
        fx.SharedAllocator()


def test_one_per_kernel(traced):
    def body(x):
        fx.SharedAllocator()
        with pytest.raises(RuntimeError, match="Only one SharedAllocator"):
            fx.SharedAllocator(static=False)

    traced(launcher(body), X)


@pytest.mark.parametrize(
    ("target", "limit"), [("rocm:gfx942", 64), ("rocm:gfx950", 160), ("rocm:gfx1201", 64), ("cuda:sm_90", 48)]
)
def test_static_limit(traced, target, limit):
    def body(size):
        return lambda x: fx.SharedAllocator().allocate(size)

    traced(launcher(body(limit * 1024)), X, target=target)
    with pytest.raises(DSLCompileError, match="bytes of static shared memory"):
        traced(launcher(body(limit * 1024 + 1)), X, target=target)


def test_dynamic_limit(traced):
    def body(size):
        return lambda x: fx.SharedAllocator(static=False).allocate(size)

    traced(launcher(body(227 * 1024)), X, target="cuda:sm_90")
    with pytest.raises(DSLCompileError, match="dynamic shared memory"):
        traced(launcher(body(227 * 1024 + 1)), X, target="cuda:sm_90")


def test_scattered_storage_is_a_dsl_value(traced):
    def body(x):
        from flydsl.compiler.protocol import construct_from_ir_values, extract_to_ir_values

        place = fx.SharedAllocator().allocate(Tile)
        values = extract_to_ir_values(place)
        assert len(values) == 3
        again = construct_from_ir_values(place, values)
        assert again.counter.peek().ir_value() is not None
        with pytest.raises(TypeError, match="scattered"):
            place.__storage_pointer__()

    traced(launcher(body), X)
