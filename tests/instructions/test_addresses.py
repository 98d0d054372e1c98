"""Addresses as integers, and descriptors of buffers made of them: what they read, and what checked mode says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl._mlir.dialects import arith, fly, llvm, rocdl, scf
from flydsl._mlir.extras import types as T
from flydsl.errors import KernelCheckError

Body = Callable[[Any, Any, fx.Int64, fx.Int32], None]
LARGE, FAR = 1 << 30, 1 << 26


def unmapped(address: int) -> int:
    """How many elements behind an address, within `LARGE` bytes, there is no memory: a large process has much."""
    spans = [line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines()]
    taken = [(int(first, 16), int(last, 16)) for first, last in spans]
    for by in range(FAR, LARGE // 4 - 64, 1 << 18):
        here = address + 4 * by
        if not any(first < here + (1 << 20) and here < last for first, last in taken):
            return by
    pytest.skip("this process has memory everywhere")


def const(value: int, type_: Any = None) -> Any:
    return arith.constant(type_ or T.i32(), value)


def loaded(rsrc: Any, at: Any) -> fx.Int32:
    return fx.Int32(rocdl.RawPtrBufferLoadOp(T.i32(), rsrc, at * 4, const(0)).result)


def resource(base: Any, nbytes: int) -> Any:
    return rocdl.make_buffer_rsrc(
        llvm.PointerType.get(8), base, const(0, T.i16()), const(nbytes, T.i64()), const(0x27000)
    )


def shared(a: Any, out: Any, address: fx.Int64, by: fx.Int32) -> None:
    """Shared memory by the number of an address, which counts from its beginning."""
    cells = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 64]).peek()
    i = fx.thread_idx.x
    cells[i] = a[i]
    fx.barrier()
    place = fx.inttoptr(cells.ptr.type, fx.ptrtoint(cells.ptr) + (i + by) * 4)
    out[i] = fx.make_view(place, fx.make_layout(1, 1))[0]


def raw_shared(a: Any, out: Any, address: fx.Int64, by: fx.Int32) -> None:
    cells = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 64]).peek()
    i = fx.thread_idx.x
    cells[i] = a[i]
    fx.barrier()
    first = llvm.inttoptr(llvm.PointerType.get(3), fx.Int32(fx.ptrtoint(cells.ptr)).ir_value())
    place = llvm.GEPOp(llvm.PointerType.get(3), first, [i + by], [-(2**31)], T.i32(), llvm.GEPNoWrapFlags.none)
    again = llvm.inttoptr(llvm.PointerType.get(3), llvm.ptrtoint(T.i32(), place))
    out[i] = fx.Int32(llvm.load(T.i32(), again, alignment=4))


def of_address(a: Any, out: Any, address: fx.Int64, by: fx.Int32) -> None:
    i = fx.thread_idx.x
    out[i] = loaded(resource(llvm.inttoptr(llvm.PointerType.get(1), address.ir_value()), LARGE), i + by)


def of_words(a: Any, out: Any, address: fx.Int64, by: fx.Int32) -> None:
    i = fx.thread_idx.x
    words = [fx.Int32(address), fx.Int32(address >> 32) & 0xFFFF, fx.Int32(LARGE), fx.Int32(0x27000)]
    rsrc = fx.Vector.from_elements(words, fx.Int32)
    out[i] = fx.llvm_intrinsic(fx.Int32, "llvm.amdgcn.raw.buffer.load.i32", [rsrc, (i + by) * 4, 0, 0])


def as_an_integer(a: Any, out: Any, address: fx.Int64, by: fx.Int32) -> None:
    """A descriptor as 128 bits, and back."""
    i = fx.thread_idx.x
    made = resource(llvm.inttoptr(llvm.PointerType.get(1), address.ir_value()), LARGE)
    bits = llvm.ptrtoint(ir.IntegerType.get_signless(128), made)
    out[i] = loaded(llvm.inttoptr(llvm.PointerType.get(8), bits), i + by)


def carried(a: Any, out: Any, address: fx.Int64, by: fx.Int32) -> None:
    """A struct with a descriptor in it, through a loop and a branch."""
    i = fx.thread_idx.x
    base = fly.extract_aligned_pointer_as_index(llvm.PointerType.get(1), a)
    type_ = ir.Type.parse("!llvm.struct<(ptr<8>, i32)>")
    start = llvm.insertvalue(llvm.insertvalue(llvm.mlir_undef(type_), resource(base, LARGE), [0]), const(0), [1])
    loop = scf.ForOp(0, 3, 1, [start])
    with ir.InsertionPoint(loop.body):
        held = loop.inner_iter_args[0]
        value = loaded(llvm.extractvalue(llvm.PointerType.get(8), held, [0]), i + by)
        kept = scf.IfOp(i < 64, [type_], has_else=True)
        with ir.InsertionPoint(kept.then_block):
            scf.YieldOp([llvm.insertvalue(held, value, [1])])
        with ir.InsertionPoint(kept.else_block):
            scf.YieldOp([held])
        scf.YieldOp([kept.results[0]])
    out[i] = fx.Int32(llvm.extractvalue(T.i32(), loop.results[0], [1]))


def of_tensor(a: Any, out: Any, address: fx.Int64, by: fx.Int32) -> None:
    i = fx.thread_idx.x
    out[i] = fx.rocdl.make_buffer_tensor(a)[i + by]


def direct(a: Any, out: Any, address: fx.Int64, by: fx.Int32) -> None:
    """From memory into shared memory, without registers."""
    cells = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 64]).peek()
    i = fx.thread_idx.x
    place = llvm.inttoptr(llvm.PointerType.get(3), fx.Int32(fx.ptrtoint(cells.ptr)).ir_value())
    base = fly.extract_aligned_pointer_as_index(llvm.PointerType.get(1), a)
    zero = const(0)
    rocdl.raw_ptr_buffer_load_lds(resource(base, LARGE), place, const(4), (i + by) * 4, zero, zero)
    fx.rocdl.s_waitcnt(vmcnt=0)
    fx.barrier()
    out[i] = cells[i]


BODIES = [shared, raw_shared, of_address, of_words, as_an_integer, carried, of_tensor, direct]


def launcher(body: Body) -> Any:
    @flyc.kernel
    def kernel(a: fx.Tensor, out: fx.Tensor, address: fx.Int64, by: fx.Int32):
        body(a, out, address, by)

    @flyc.jit
    def launch(a: fx.Tensor, out: fx.Tensor, address: fx.Int64, by: fx.Int32):
        kernel(a, out, address, by).launch(grid=1, block=64)

    return launch


@pytest.mark.parametrize("body", BODIES, ids=lambda b: b.__name__)
def test_address(body: Body, emulate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The right elements; in checked mode too, and there what is far outside is told and left out."""
    emulate("gfx942")
    a = np.random.default_rng().integers(-(2**31), 2**31, 64).astype(np.int32)
    for checked in ("0", "1"):
        monkeypatch.setenv("FLYDSL_CPU_CHECK", checked)
        out = np.zeros(64, np.int32)
        launcher(body)(a, out, a.ctypes.data, 0)
        np.testing.assert_array_equal(out, a)
    with pytest.raises(KernelCheckError, match=r"out of bounds of|where there is no memory") as caught:
        launcher(body)(a, out, a.ctypes.data, unmapped(a.ctypes.data))
    assert "test_addresses.py" in str(caught.value)


def test_a_buffer_ends_where_its_descriptor_says(emulate: Any) -> None:
    emulate("gfx942")

    def bounded(a: Any, out: Any, address: fx.Int64, by: fx.Int32) -> None:
        i = fx.thread_idx.x
        base = llvm.inttoptr(llvm.PointerType.get(1), address.ir_value())
        out[i] = loaded(resource(base, 4 * 40), i + by)

    a, out = np.arange(1, 65, dtype=np.int32), np.full(64, -1, np.int32)
    launcher(bounded)(a, out, a.ctypes.data, 0)
    np.testing.assert_array_equal(out, np.where(np.arange(64) < 40, a, 0))
    launcher(bounded)(a, out, a.ctypes.data, FAR)
    assert not out.any()


def test_a_wild_address_ends_nothing(emulate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    emulate("gfx942")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")

    def wild(a: Any, out: Any, address: fx.Int64, by: fx.Int32) -> None:
        place = llvm.inttoptr(llvm.PointerType.get(1), (address * 0 + fx.Int64(by) * 4096).ir_value())
        llvm.StoreOp(const(5), place, alignment=4)

    a = np.zeros(64, np.int32)
    for page in (0, 3, FAR, -1):
        with pytest.raises(KernelCheckError, match="write at an address where there is no memory"):
            launcher(wild)(a, a, 0, page)
