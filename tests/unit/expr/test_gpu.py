"""Thread indices, shuffles, atomics and the low-level memory functions, as traced."""

import re

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx


def shuffles(text: str) -> list[str]:
    return re.findall(r"gpu\.shuffle (\w+ .*? : \w+)", text)


def value(p, cls):
    """A run-time scalar of a class."""
    return fx.recast_iter(cls, p).load()


# --- indices ------------------------------------------------------------------------------------------------------


def test_indices(in_kernel):
    def body(p):
        x, y, z = fx.thread_idx
        assert {type(v) for v in (x, y, z, fx.block_idx.x, fx.block_dim.y, fx.grid_dim.z, fx.lane_id())} == {fx.Int32}
        with pytest.raises(AttributeError):
            _ = fx.thread_idx.w
        assert fx.known_block_size() == (64, 1, 1) and fx.num_warp_threads() == 64
        assert type(fx.gpu.thread_id("y")) is fx.Index and type(fx.gpu.block_id("x")) is fx.Index
        with pytest.raises(ValueError, match="'x', 'y' or 'z'"):
            fx.gpu.thread_id("w")
        assert fx.gpu.smem_space() is fx.AddressSpace.Shared and fx.gpu.lds_space(int=True) == 3
        fx.gpu.barrier()
        fx.barrier()

    text = in_kernel(body)
    assert text.count("gpu.barrier") == 2 and "gpu.lane_id" in text


@pytest.mark.parametrize(("target", "lanes"), [("rocm:gfx942", 64), ("rocm:gfx1100", 32), ("cuda:sm_90", 32)])
def test_warp_size(in_kernel, target, lanes):
    def body(p):
        assert fx.num_warp_threads() == lanes

    in_kernel(body, target=target)


def test_unknown_block_size(traced):
    @flyc.kernel
    def kernel(n: fx.Int32):
        with pytest.raises(RuntimeError, match="no compile-time block size"):
            fx.known_block_size()

    @flyc.jit
    def launch(n: fx.Int32):
        kernel(n).launch(block=n)

    traced(launch, 4)


# --- shuffles -----------------------------------------------------------------------------------------------------


def test_modes(in_kernel):
    def body(p):
        x = value(p, fx.Float32)
        for result in (
            fx.shuffle_xor(x, 1, 32),
            fx.shuffle_up(x, fx.lane_id(), 16),
            fx.shuffle_down(x, 2),
            fx.shuffle_idx(x, fx.Int64(3), 8),
            fx.gpu.shuffle(x, 1, 32, mode="down"),
            x.shuffle_xor(4, 64),
        ):
            assert type(result) is fx.Float32
        with pytest.raises(ValueError, match="mode"):
            fx.gpu.shuffle(x, 1, 32, "left")
        with pytest.raises(TypeError, match="offset must be an integer"):
            fx.shuffle_xor(x, 1.5, 32)
        with pytest.raises(TypeError, match="scalars and Vectors"):
            fx.shuffle_xor("x", 1, 32)

    found = shuffles(in_kernel(body))
    assert [f.split()[0] for f in found] == ["xor", "up", "down", "idx", "down", "xor"]
    assert all(f.endswith("f32") for f in found)


@pytest.mark.parametrize(
    ("cls", "pieces"),
    [
        (fx.Int32, ["i32"]),
        (fx.Uint32, ["i32"]),
        (fx.Float32, ["f32"]),
        (fx.Boolean, ["i32"]),
        (fx.Int8, ["i32"]),
        (fx.Uint16, ["i32"]),
        (fx.Float16, ["i32"]),
        (fx.BFloat16, ["i32"]),
        (fx.Float8E4M3FN, ["i32"]),
        (fx.Int64, ["i32"] * 2),
        (fx.Uint64, ["i32"] * 2),
        (fx.Float64, ["i32"] * 2),
        (fx.Int128, ["i32"] * 4),
    ],
)
def test_classes(in_kernel, cls, pieces):
    def body(p):
        result = fx.shuffle_xor(value(p, cls), 1, 32)
        assert type(result) is cls and not result.is_static()
        fx.recast_iter(cls, p).store(result)

    assert [f.split()[-1] for f in shuffles(in_kernel(body))] == pieces


def test_index_and_literals(in_kernel):
    def body(p):
        assert type(fx.shuffle_xor(fx.Index(fx.thread_idx.x), 1, 32)) is fx.Index
        assert type(fx.shuffle_xor(3, 1, 32)) is fx.Int32

    assert len(shuffles(in_kernel(body))) == 3


@pytest.mark.parametrize(
    ("alias", "count"),
    [(fx.Float32x4, 4), (fx.Float16x4, 2), (fx.Int8x4, 1), (fx.Float64x2, 4), (fx.Float16x1, 1), (fx.Int8x2, 2)],
)
def test_vectors(in_kernel, alias, count):
    def body(p):
        v = fx.recast_iter(alias.dtype, p).load(alias)
        result = fx.shuffle_xor(v, 1, 32)
        assert isinstance(result, fx.Vector) and result.dtype is alias.dtype and result.shape == alias.shape

    assert len(shuffles(in_kernel(body))) == count


# --- atomics ------------------------------------------------------------------------------------------------------


def test_atomics(in_kernel):
    def body(p):
        i = fx.recast_iter(fx.Int32, p)
        u = fx.recast_iter(fx.Uint32, p)
        assert type(fx.atomic_add(i, 1)) is fx.Int32
        assert type(fx.atomic_max(u, 3)) is fx.Uint32
        assert type(fx.atomic_add(p, 1)) is fx.Float32
        assert type(fx.atomic_fmax(p, 2.0, is_positive=True)) is fx.Float32
        fx.atomic_fmin(p, 2.0, is_positive=False)
        fx.atomic_fmin(p, 2.0)
        for op in (fx.atomic_sub, fx.atomic_min, fx.atomic_and, fx.atomic_or, fx.atomic_xor, fx.atomic_xchg):
            op(i, 1, syncscope="agent", ordering=fx.AtomicOrdering.AcqRel)
        old, done = fx.atomic_cas(i, 1, 2, weak=True)
        assert type(old) is fx.Int32 and type(done) is fx.Boolean
        old, done = fx.atomic_cas(p, 1.0, 2.0, success_ordering=fx.AtomicOrdering.SeqCst)
        assert type(old) is fx.Float32

    text = in_kernel(body)
    assert re.findall(r'bin_op = "(\w+)"', text) == [
        "add", "umax", "fadd", "max", "umax", "fmin", "sub", "min", "_and", "_or", "_xor", "xchg",
    ]  # fmt: skip
    assert text.count('syncscope = "agent"') == 6 and 'ordering = "acq_rel"' in text
    assert text.count("fly.atomic_cas") == 2 and "weak" in text and 'success = "seq_cst"' in text


def test_atomic_errors(in_kernel):
    def body(p):
        i = fx.recast_iter(fx.Int32, p)
        for op in (fx.atomic_and, fx.atomic_or, fx.atomic_xor):
            with pytest.raises(TypeError, match="not defined for Float32"):
                op(p, 1.0)
        with pytest.raises(TypeError, match="convert it"):
            fx.atomic_add(i, fx.Int64(fx.thread_idx.x))
        with pytest.raises(TypeError, match="fx.Pointer"):
            fx.atomic_add(3, 1)
        with pytest.raises(TypeError, match="works on floats"):
            fx.atomic_fmax(i, 1)
        with pytest.raises(ValueError, match="cannot be NotAtomic"):
            fx.atomic_add(i, 1, ordering=fx.AtomicOrdering.NotAtomic)
        with pytest.raises(TypeError, match="AtomicOrdering"):
            fx.atomic_add(i, 1, ordering="relaxed")
        with pytest.raises(ValueError, match="cannot be Release"):
            fx.generic_load(i, memory_order=fx.AtomicOrdering.Release)
        with pytest.raises(ValueError, match="one element"):
            fx.generic_load(i, count=4, memory_order=fx.AtomicOrdering.Acquire)
        with pytest.raises(ValueError, match="cannot be Monotonic"):
            fx.memory_fence(ordering=fx.AtomicOrdering.Monotonic)

    in_kernel(body)


def test_qualified_access(in_kernel):
    def body(p):
        assert type(fx.generic_load(p)) is fx.Float32
        v = fx.generic_load(p, count=4, nontemporal=True)
        assert v.shape == (4,)
        fx.generic_load(p, dtype=fx.Int32, memory_order=fx.AtomicOrdering.Acquire, syncscope="workgroup")
        fx.generic_store(p, 1, volatile=True)
        fx.generic_store(p, v)
        fx.memory_fence()

    text = in_kernel(body)
    assert text.count("fly.ptr.load") == 1 and text.count("fly.ptr.store") == 1
    assert text.count("fly.load(") == 2 and 'ordering = "acquire"' in text and "nontemporal" in text
    assert "volatile" in text and 'fly.fence() {ordering = "seq_cst"}' in text


# --- pointers -----------------------------------------------------------------------------------------------------


def test_addresses(in_kernel):
    def body(p):
        address = fx.ptrtoint(p)
        assert type(address) is fx.Int64
        again = fx.inttoptr(fx.PointerType.get(fx.T.f32, fx.AddressSpace.Global, 16), address)
        assert again.dtype is fx.Float32 and again.alignment == 16
        assert type(fx.ptrtoint(fx.get_dyn_shared())) is fx.Int32
        registers = fx.make_rmem_tensor(4, fx.Float32)
        with pytest.raises(ValueError, match="Global or Shared"):
            fx.ptrtoint(fx.get_iter(registers))
        with pytest.raises(TypeError, match="IR pointer type"):
            fx.inttoptr(fx.Float32, address)
        assert str(fx.to_llvm_ptr(p).type) == "!llvm.ptr<1>" and str(p.llvm_ptr.type) == "!llvm.ptr<1>"
        swizzled = fx.apply_swizzle(fx.get_dyn_shared(), fx.static(fx.SwizzleType.get(3, 4, 3)))
        assert "S<3,4,3>" in str(swizzled.type)
        with pytest.raises(TypeError, match="expects a Swizzle"):
            fx.apply_swizzle(p, 3)

    text = in_kernel(body)
    assert "llvm_address_space = 1" in text


def test_low_level_allocation(in_kernel):
    def body(p):
        type_ = fx.PointerType.get(fx.T.f32, fx.AddressSpace.Register, 4)
        assert fx.make_ptr(type_, [], dict_attrs={"allocSize": 4}).address_space is fx.AddressSpace.Register
        layout = fx.make_layout(4, 1)
        t = fx.memref_alloca(fx.MemRefType.get(fx.Float32, fx.AddressSpace.Register, layout), layout)
        assert t.dtype is fx.Float32
        with pytest.raises(TypeError, match="memref"):
            fx.memref_alloca(3, layout)

    assert "allocSize = 4 : i64" in in_kernel(body)


def test_address_spaces():
    shared = fx.AddressSpace.Shared
    assert fx.is_generic_address_space(shared, shared) and not fx.is_generic_address_space(
        shared, fx.AddressSpace.Global
    )
    assert not fx.is_target_address_space(shared, shared) and fx.is_target_address_space("buffer", "buffer")


def test_get_is_deprecated(in_kernel):
    def body(p):
        with pytest.deprecated_call():
            assert type(fx.get(fx.make_shape(4, fx.thread_idx.x), 1)) is fx.Index

    in_kernel(body)


# --- extern functions ---------------------------------------------------------------------------------------------


def test_extern_calls(in_kernel):
    from flydsl.expr.extern import ExternFunction, ffi

    f = ffi("my_func", ["float32", "uint64", "int32"], "float64")
    g = ffi("my_void", [], "void", is_pure=False)

    def body(p):
        assert isinstance(f, ExternFunction)
        assert type(f(1, fx.Int32(fx.thread_idx.x), fx.Int64(fx.thread_idx.x))) is fx.Float64
        assert g() is None
        with pytest.raises(TypeError, match="takes 3 arguments, got 1"):
            f(1)
        with pytest.raises(TypeError, match="argument 1 must be a uint64"):
            f(1.0, 2.0, 3)

    text = in_kernel(body)
    assert "func.call @my_func" in text and "(f32, i64, i32) -> f64" in text and "arith.extui" in text
    assert "func.call @my_void() : () -> ()" in text
    with pytest.raises(RuntimeError, match="inside a @flyc.kernel"):
        f(1, 2, 3)
    with pytest.raises(ValueError, match="unknown type 'int16'"):
        ffi("bad", ["int16"], "void")


def test_linked_extern_functions(in_kernel):
    from flydsl.compiler.extern_link import (
        BoundExternFunction,
        link_extern,
        register_extern_resolver,
        unregister_extern_resolver,
    )
    from flydsl.expr.extern import ffi

    linked = link_extern(ffi("f", ["float32"], "float32"), bitcode_path="/nowhere/lib.bc")
    bound = BoundExternFunction(linked, lambda x: (x * 2.0,))
    assert linked.symbol == "f"
    with pytest.raises(ValueError, match="extern function 'f' cannot be read: /nowhere/lib.bc: No such file"):
        in_kernel(lambda p: bound(p[0]))
    with pytest.raises(ValueError, match="Cannot pass external bitcode path"):
        link_extern(ffi("f", [], "void"), bitcode_path="/tmp/a b.bc")
    with pytest.raises(TypeError, match="ffi"):
        link_extern(3)
    assert register_extern_resolver(str.lower) is str.lower
    unregister_extern_resolver(str.lower)
