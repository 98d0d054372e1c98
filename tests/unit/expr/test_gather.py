"""Gather, scatter and atom state."""

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def gather_kernel(src: fx.Pointer, offsets: fx.Tensor, dst: fx.Tensor, n: fx.Int32):
    """Each thread gathers 3 groups of 4 floats, those whose offset is valid."""
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    t = fx.thread_idx.x
    where = fx.make_rmem_tensor(3, fx.Int32)
    ok = fx.make_rmem_tensor(3, fx.Boolean)
    for i in fx.range_constexpr(3):
        where[i] = offsets[t, i]
        ok[i] = offsets[t, i] < n
    data = fx.make_rmem_tensor((4, 3), fx.Float32)
    data.fill(-1.0)
    fx.gather(atom, src, where, data, pred=ok)
    for i in fx.range_constexpr(12):
        dst[t, i] = data[i]


@flyc.jit
def gather_rows(src: fx.Pointer, offsets: fx.Tensor, dst: fx.Tensor, n: fx.Int32, threads: fx.Constexpr[int]):
    gather_kernel(src, offsets, dst, n).launch(block=threads)


def aligned(count: int) -> np.ndarray:
    """Floats at an address that 128-bit accesses may use."""
    room = np.zeros(count + 16, np.float32)
    start = (-room.ctypes.data // 4) % 4
    return room[start : start + count]


def test_gather():
    rng = np.random.default_rng()
    src = aligned(400)
    src[:] = rng.standard_normal(400)
    offsets = (rng.integers(0, 99, (32, 3)) * 4).astype(np.int32)
    dst = np.full((32, 12), np.nan, np.float32)
    gather_rows(flyc.from_c_void_p(fx.Float32, src.ctypes.data, assumed_align=16), offsets, dst, 200, 32)
    rows = src[offsets[..., None] + np.arange(4)]
    rows[offsets >= 200] = -1.0
    np.testing.assert_array_equal(dst, rows.reshape(32, 12))


@flyc.kernel
def scatter_kernel(dst: fx.Pointer, offsets: fx.Tensor):
    """Each thread scatters 2 x 3 groups of 2 floats: value = 100 * thread + number."""
    atom = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32)
    t = fx.thread_idx.x
    where = fx.make_rmem_tensor((2, 3), fx.Int32)
    for i in fx.range_constexpr(6):
        where[i] = offsets[t, i]
    data = fx.make_rmem_tensor(((2, 2), 3), fx.Float32)
    for i in fx.range_constexpr(12):
        data[i] = t.to(fx.Float32) * 100.0 + i
    fx.scatter(atom, data, dst, where)


@flyc.jit
def scatter_rows(dst: fx.Pointer, offsets: fx.Tensor):
    scatter_kernel(dst, offsets).launch(block=8)


def test_scatter():
    rng = np.random.default_rng()
    dst = aligned(96)
    offsets = (rng.permutation(48).reshape(8, 6) * 2).astype(np.int32)
    scatter_rows(flyc.from_c_void_p(fx.Float32, dst.ctypes.data, assumed_align=8), offsets)
    values = (100.0 * np.arange(8)[:, None] + np.arange(12)).reshape(8, 6, 2)
    np.testing.assert_array_equal(dst[offsets[..., None] + np.arange(2)], values)


def test_errors(in_kernel):
    def body(p):
        atom = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32)
        offsets = fx.make_rmem_tensor((2, 3), fx.Int32)
        with pytest.raises(ValueError, match="no TV mode"):
            fx.gather(atom, p, offsets, fx.make_rmem_tensor((2, 6), fx.Float32))
        with pytest.raises(ValueError, match="no TV mode"):
            fx.scatter(atom, fx.make_rmem_tensor(2, fx.Float32), p, fx.make_rmem_tensor(2, fx.Int32))
        with pytest.raises(ValueError, match="do not fit"):
            fx.gather(atom, p, offsets, fx.make_rmem_tensor(((2, 2), 4), fx.Float32))

    in_kernel(body)


def test_atoms_without_state(in_kernel):
    def body(p):
        atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
        with pytest.raises(ValueError, match="unknown atom state 'soffset'"):
            atom.set_value("soffset", 3)
        with pytest.raises(ValueError, match="unknown atom state"):
            fx.atom_set_value(atom, {"soffset": 3})
        tensor = fx.make_view(p, fx.make_layout(1, 1))
        with pytest.raises(ValueError, match="unknown atom state"):
            fx.copy(atom, tensor, fx.make_rmem_tensor(1, fx.Float32), soffset=4)

    in_kernel(body)


def test_atom_state(in_kernel):
    """With a copy operation made for the test; the real ones are the targets'."""
    from xdsl.ir import Data
    from xdsl.irdl import irdl_attr_definition

    from flydsl.dialects.fly.atoms import CopyOpType

    @irdl_attr_definition
    class StatefulType(Data[int], CopyOpType):
        name = "fly.test_stateful_copy"
        state = (("soffset", 32), ("scale", 64))
        bits = 32

        @classmethod
        def parse_parameter(cls, parser):
            return 0

        def print_parameter(self, printer):
            printer.print_string("<0>")

        def lower(self, low, src, dst):
            raise AssertionError("nothing is lowered here")

        emulate = lower

    class Op:
        type = StatefulType(0)

    def body(p):
        atom = fx.make_copy_atom(Op(), fx.Float32)
        changed = atom.set_value("soffset", fx.thread_idx.x).set_value({"scale": 3, "soffset": fx.Int64(4)})
        assert isinstance(changed, fx.CopyAtom) and changed.type == atom.type and changed != atom
        tiled = fx.make_tiled_copy_tv(atom, fx.make_layout(4, 1), fx.make_layout(1, 1)).set_value("soffset", 8)
        assert isinstance(tiled, fx.TiledCopy) and isinstance(tiled.get_slice(0), fx.ThrCopy)
        with pytest.raises(TypeError, match="32 bits"):
            atom.set_value("soffset", "x")

    text = in_kernel(body)
    assert text.count('"soffset"') == 3 and text.count('"scale"') == 1
