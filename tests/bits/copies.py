"""Every copy of the dialect: matrices, `cp.async`, global accesses with advice, the tensor and bulk copy engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.dialects.fly_nvgpu import bulk, cp_async, global_access, matrix_copy

from .draw import FORMATS, Draw, values
from .program import Array, Call, Program, class_of, output

# --- ldmatrix and stmatrix ----------------------------------------------------------------------------------------


def move_matrices(load: bool, count: int, trans: bool) -> Callable[..., object]:
    """`count` matrices of 8x8 between shared memory and the registers of a warp."""

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        lane = fx.thread_idx.x
        shared = fx.make_view(fx.get_dyn_shared(fx.Int16), fx.make_layout((8 * count, 8), (8, 1)))
        mine = fx.make_rmem_tensor(2 * count, fx.Int16)
        if fx.const_expr(load):
            for i in fx.range_constexpr(2 * count):
                shared[(i * 32 + lane) // 8, (i * 32 + lane) % 8] = x[i * 32 + lane]
            fx.barrier()
            atom = fx.make_copy_atom(fx.nvgpu.LdMatrix(count, trans), fx.Int16)
            fx.copy_atom_call(atom, shared[lane % (8 * count), None], mine)
            for i in fx.range_constexpr(2 * count):
                y[lane * 2 * count + i] = mine[i]
        else:
            atom = fx.make_copy_atom(fx.nvgpu.StMatrix(count, trans), fx.Int16)
            for i in fx.range_constexpr(2 * count):
                mine[i] = x[lane * 2 * count + i]
            fx.copy_atom_call(atom, mine, shared[lane % (8 * count), None])
            fx.barrier()
            for i in fx.range_constexpr(2 * count):
                y[i * 32 + lane] = shared[(i * 32 + lane) // 8, (i * 32 + lane) % 8]

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=1, block=32, smem=128 * count)

    return run


def _matrices(label: str, load: bool, count: int, trans: bool) -> Call:
    x = Array(values(Draw(label), "i16", 64 * count, "any"), "i16")
    return Call(move_matrices(load, count, trans), (x, output((64 * count,), "i16")), static=True)


# --- cp.async -----------------------------------------------------------------------------------------------------


def copy_asynchronously(bits: int, cache: str, zero_fill: bool) -> Callable[..., object]:
    """A copy per thread; with `zero_fill` of as many elements as the thread's number says."""
    count = bits // 8

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        tid = fx.thread_idx.x
        shared = fx.make_view(fx.get_dyn_shared(fx.Int8), fx.make_layout((64, count), (count, 1)))
        atom = fx.make_copy_atom(fx.nvgpu.CpAsync(bits, cache, zero_fill=zero_fill), fx.Int8)
        if fx.const_expr(zero_fill):
            fx.copy(atom, x[tid, None], shared[tid, None], valid=tid % (count + 3) - 1)
        else:
            fx.copy(atom, x[tid, None], shared[tid, None])
        fx.nvgpu.cp_async_commit()
        fx.nvgpu.cp_async_wait(0)
        fx.barrier()
        for i in fx.range_constexpr(count):
            y[tid, i] = shared[63 - tid, i]

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=1, block=64, smem=64 * count)

    return run


def _asynchronous(label: str, bits: int, cache: str, zero_fill: bool) -> Call:
    x = Array(values(Draw(label), "i8", 64 * bits // 8, "any").reshape(64, bits // 8), "i8")
    return Call(copy_asynchronously(bits, cache, zero_fill), (x, output((64, bits // 8), "i8")), static=True)


# --- global accesses ----------------------------------------------------------------------------------------------

Forms = tuple[global_access.Access, ...]


def access(bits: int, forms: Forms, load: bool) -> Callable[..., object]:
    """All forms of accesses of a width, one after the other, each to a row of its own."""
    count = bits // 8

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        _each(x[fx.thread_idx.x, None], y, fx.thread_idx.x)

    def _each(source: Any, y: Any, tid: Any) -> None:
        plain = fx.make_copy_atom(fx.UniversalCopy(bits), fx.Int8)
        for i, form in enumerate(forms):
            said = {name: value for name, value in form._asdict().items() if name != "bits" and value}
            op = (fx.nvgpu.LoadGlobal if load else fx.nvgpu.StoreGlobal)(bits, **said)
            atom = fx.make_copy_atom(op, fx.Int8)
            mine = fx.make_rmem_tensor(count, fx.Int8)
            fx.copy(atom if load else plain, source, mine)
            fx.copy(plain if load else atom, mine, y[i, tid, None])

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=1, block=32)

    return run


def forms_of(bits: int, load: bool) -> Forms:
    """All that the dialect takes."""
    operators = (None, *(global_access.LOAD_OPERATORS if load else global_access.STORE_OPERATORS))
    every = product(
        (False, True) if load else (False,),
        operators,
        (None, *global_access.L1_PRIORITIES),
        (None, *global_access.PREFETCH_BYTES) if load else (None,),
        (None, *global_access.L2_POLICIES),
    )
    made = (global_access.Access(bits, *form) for form in every)
    return tuple(form for form in made if global_access.problem(form, load=load) is None)


def _access(label: str, bits: int, load: bool, part: int) -> Call:
    forms = forms_of(bits, load)[part::4] if load else forms_of(bits, load)
    x = Array(values(Draw(label), "i8", 32 * bits // 8, "any").reshape(32, bits // 8), "i8")
    names = [global_access.instruction(form, load=load) for form in forms]
    return Call(access(bits, forms, load), (x, output((len(forms), 32, bits // 8), "i8", names=names)), static=True)


# --- the tensor copy engine ---------------------------------------------------------------------------------------


def tensor_copy(name: str, rows: int, columns: int, width: int) -> Callable[..., object]:
    """Boxes of a tensor that are partly outside: `padded` gets them with zeros around, `copied` the tensor."""
    cls = class_of(name)
    mask = {0: 0, 32: 1, 64: 2, 128: 3}[width]

    @flyc.kernel
    def kernel(load: fx.nvgpu.TmaAtom, store: fx.nvgpu.TmaAtom, padded: fx.Tensor):
        bm, bn, _ = fx.block_idx
        tid = fx.thread_idx.x
        pointer = fx.get_dyn_shared(cls)
        view = pointer
        if fx.const_expr(mask > 0):
            view = fx.apply_swizzle(pointer, fx.static(fx.SwizzleType.get(mask, 4, 3)))
        shared = fx.make_view(view, fx.make_layout((rows, columns), (columns, 1)))
        barrier = fx.nvgpu.MBarrier(pointer + rows * columns)
        if tid == 0:
            barrier.init(1)
            fx.nvgpu.fence_mbarrier_init()
        fx.barrier()
        if tid == 0:
            barrier.expect_tx(load.nbytes)
            load.load((bm * rows, bn * columns), shared, barrier)
        barrier.wait(0)
        for i in range(tid, rows * columns, 64):
            padded[bm * rows + i // columns, bn * columns + i % columns] = shared[i // columns, i % columns]
        fx.barrier()
        if tid == 0:
            store.store(shared, (bm * rows, bn * columns))
            fx.nvgpu.tma_commit()
            fx.nvgpu.tma_wait(0)

    @flyc.jit
    def run(x: fx.Tensor, padded: fx.Tensor, copied: fx.Tensor):
        nv = fx.nvgpu
        load = nv.make_tma_atom(nv.TMALoad(), x, None, (rows, columns), swizzle=width)
        store = nv.make_tma_atom(nv.TMAStore(), copied, None, (rows, columns), swizzle=width)
        nbytes = rows * columns * cls.width // 8 + 8
        kernel(load, store, padded).launch(grid=(2, 2), block=64, smem=nbytes)

    return run


def _tensor_copy(label: str, name: str, width: int) -> Call:
    draw = Draw(label)
    nbytes = FORMATS[name].width // 8
    columns, rows = (width or 64) // nbytes, 8
    shape = (rows + 1 + draw.number(rows), columns + 16 // nbytes)
    x = Array(values(draw, name, shape[0] * shape[1]).reshape(shape), name, typed=True)
    outputs = (output((2 * rows, 2 * columns), name, typed=True), output(shape, name, typed=True))
    return Call(tensor_copy(name, rows, columns, width), (x, *outputs), static=True)


def tensor_reduce(op: str, name: str) -> Callable[..., object]:
    """One box combined into a tensor."""
    cls = class_of(name)

    @flyc.kernel
    def kernel(x: fx.Tensor, store: fx.nvgpu.TmaAtom):
        tid = fx.thread_idx.x
        shared = fx.make_view(fx.get_dyn_shared(cls), fx.make_layout((8, 16), (16, 1)))
        shared[tid // 16, tid % 16] = x[tid // 16, tid % 16]
        fx.nvgpu.fence_proxy_async()
        fx.barrier()
        if tid == 0:
            store.store(shared, (0, 0))
            fx.nvgpu.tma_commit()
            fx.nvgpu.tma_wait(0)

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor):
        store = fx.nvgpu.make_tma_atom(fx.nvgpu.TMAReduce(op), y, None, (8, 16))
        kernel(x, store).launch(grid=1, block=128, smem=16 * cls.width)

    return run


def bulk_reduce(op: str, name: str) -> Callable[..., object]:
    """A row of bytes by the copy engine: in, and combined into what is there."""
    cls = class_of(name)

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        nv, tid = fx.nvgpu, fx.thread_idx.x
        pointer = fx.recast_iter(cls, fx.get_dyn_shared(fx.Float32))
        shared = fx.make_view(pointer, fx.make_layout(128, 1))
        barrier = nv.MBarrier(pointer + 128)
        if tid == 0:
            barrier.init(1)
            nv.fence_mbarrier_init()
        fx.barrier()
        if tid == 0:
            barrier.expect_tx(16 * cls.width)
            nv.bulk_load(fx.recast_iter(cls, fx.get_iter(x)), pointer, barrier, nbytes=16 * cls.width)
        barrier.wait(0)
        if tid == 0:
            if fx.const_expr(op == "store"):
                nv.bulk_store(shared, fx.recast_iter(cls, fx.get_iter(y)))
            else:
                nv.bulk_reduce(shared, fx.recast_iter(cls, fx.get_iter(y)), op)
            nv.tma_commit()
            nv.tma_wait(0)

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=1, block=32, smem=16 * cls.width + 8)

    return run


_WORDS = {"s32": "i32", "s64": "i64", "b32": "u32", "b64": "u64"}


def _reduce(label: str, make: Callable[[str, str], Callable[..., object]], op: str, name: str) -> Call:
    draw = Draw(label)
    x, y = (values(draw, name, 128).reshape(8, 16) for _ in range(2))
    whole = make is tensor_reduce
    return Call(make(op, name), (Array(x, name, typed=whole), Array(y, name, output=True, typed=whole)), static=True)


def programs() -> Iterator[Program]:
    for load, count, trans in product((True, False), matrix_copy.COUNTS, (False, True)):
        label = f"{'ld' if load else 'st'}matrix x{count}{' trans' if trans else ''}"
        yield Program(label, "matrix copies", partial(_matrices, label, load, count, trans))
    for bits, cache, zero_fill in product(cp_async.BITS, ("ca", "cg"), (False, True)):
        if cp_async.problem(cp_async.CpAsyncData(bits, cache)) is None:
            label = f"cp.async {bits} {cache}{' zero fill' if zero_fill else ''}"
            yield Program(label, "cp.async", partial(_asynchronous, label, bits, cache, zero_fill))
    for bits, load in product(global_access.BITS, (True, False)):
        for part in range(4 if load else 1):
            label = f"{'load' if load else 'store'} global {bits} {part}"
            yield Program(label, "global accesses", partial(_access, label, bits, load, part))
    for name, width in product(("f32", "f16", "bf16", "e4m3", "f64", "i32", "u8"), (0, 32, 64, 128)):
        label = f"tma {name} S{width}"
        yield Program(label, "tma", partial(_tensor_copy, label, name, width))
    for name in ("f32", "i8"):
        label = f"bulk store {name}"
        yield Program(label, "bulk copies", partial(_reduce, label, bulk_reduce, "store", name))
    for op, words in bulk.REDUCTIONS.items():
        for word in words:
            name = _WORDS.get(word, word)
            label = f"bulk {op} {word}"
            yield Program(label, "bulk copies", partial(_reduce, label, bulk_reduce, op, name))
            if name not in ("u32", "u64"):
                label = f"tma {op} {word}"
                yield Program(label, "tma", partial(_reduce, label, tensor_reduce, op, name))


__all__ = ["programs"]
