"""Operations of `fly_nvgpu` on the CPU: barriers in shared memory, named barriers, clusters, tensor copies, warp roles.

What touches memory is a function of `cpu/code/routines.py`. Copies happen when they are issued; checked mode knows
until when their data must not be used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import Float8E4M3FNType, Float8E5M2Type, VectorType, f16, f32, i1, i16
from xdsl.ir import Attribute, SSAValue

from ...dialects.upstream import llvm
from ...dialects.upstream.vector import FromElementsOp
from ...ir.builder import i32, i64
from ...ir.fold import FORMATS
from ...lowering.expand.small_floats import decode_codes, encode

if TYPE_CHECKING:
    from .lanes import Emulation

_NOTHING = ("wgmma.", "mbarrier.inval", "fence.", "griddepcontrol.", "tma.prefetch", "bulk.prefetch")
"""Products are done when they are issued, and memory has one view."""
_COUNTED = {
    "cp_async.commit": "fly_check_cp_async_commit",
    "cp_async.wait": "fly_check_cp_async_wait",
    "cp_async.wait_all": "fly_check_cp_async_wait_all",
    "tma.commit": "fly_check_tma_commit",
    "tma.wait": "fly_check_tma_wait",
    "tma.wait_read": "fly_check_tma_wait_read",
    "wgmma.commit": "fly_check_wgmma_commit",
    "wgmma.wait": "fly_check_wgmma_wait",
}
"""Groups of asynchronous copies and products: of interest to checked mode alone."""
_TENSOR_RANK = 5


def _update(low: Emulation, at: SSAValue, arrivals: SSAValue | int, expected: SSAValue | int) -> None:
    b = low.b
    counts = [b.i32(x) if isinstance(x, int) else x for x in (arrivals, expected)]
    low.routine("fly_mbarrier_update", [at, *counts])


def _init(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> None:
    low.routine("fly_mbarrier_init", operands)


def _arrive(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> None:
    _update(low, operands[0], operands[1], 0)


def _arrive_after_copies(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> None:
    """The thread's copies are there at once, so it arrives now; until the phase is over nobody may rely on them."""
    if low.checked:
        low.routine("fly_check_cp_async_arrive", operands)
    low.routine("fly_mbarrier_arrive_copied", operands)


def _arrive_also_after_copies(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> None:
    """The same for a phase that was not set up to expect it: one more arrival is due, and comes."""
    _update(low, operands[0], -1, 0)
    _arrive_after_copies(low, operands)


def _arrive_remote(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> None:
    _update(low, low.routine("fly_remote", operands, llvm.ptr()), 1, 0)


def _peer(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> Sequence[SSAValue]:
    return (low.routine("fly_remote", operands, llvm.ptr()),)


def _arrive_expect(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> None:
    _update(low, operands[0], 1, operands[1])


def _expect(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> None:
    _update(low, operands[0], 0, operands[1])


def _complete(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> None:
    _update(low, operands[0], 0, low.b.int_binary("subi", low.b.i32(0), operands[1]))


def _test(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> Sequence[SSAValue]:
    low.yield_thread()
    return (low.routine("fly_mbarrier_passed", operands, i1),)


def _wait(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> None:
    low.wait_until("an mbarrier's phase", lambda: low.routine("fly_mbarrier_passed", operands, i1))


def _named_arrive(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> None:
    low.routine("fly_named_arrive", operands, i32)


def _named_sync(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> None:
    phase = low.routine("fly_named_arrive", operands, i32)
    number = operands[0]
    low.wait_until("a named barrier", lambda: low.routine("fly_named_passed", (number, phase), i1))


def _cluster_arrive(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> None:
    low.routine("fly_cluster_arrive")


def _cluster_arrive_relaxed(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> None:
    low.routine("fly_cluster_arrive_relaxed")


def _cluster_wait(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> None:
    low.wait_until("the cluster's barrier", lambda: low.routine("fly_cluster_passed", (), i1))


def _cluster_rank(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> Sequence[SSAValue]:
    return (low.routine("fly_cluster_rank", (), i32),)


def _cluster_size(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> Sequence[SSAValue]:
    return (low.routine("fly_cluster_size", (), i32),)


def _elect(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> Sequence[SSAValue]:
    return (low.b.cmpi("eq", low.group_lane(), low.b.const(0, i64)),)


def _uniform(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> Sequence[SSAValue]:
    return (low.exchange(operands[0])(low.b.const(0, i64)),)


def _any(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> Sequence[SSAValue]:
    b = low.b
    of = low.exchange(b.cast("extui", operands[1], i32))
    found = of(b.const(0, i64))
    for lane in range(1, low.warp_size()):
        found = b.int_binary("ori", found, of(b.const(lane, i64)))
    return (b.cmpi("ne", found, b.i32(0)),)


def _registers(low: Emulation, count: SSAValue, more: int) -> None:
    """Registers are not counted here, except where schedules are explored."""
    if low.checked:
        low.routine("fly_check_registers", (count, low.b.i32(more)))


def _more_registers(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> None:
    _registers(low, operands[0], 1)


def _fewer_registers(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> None:
    _registers(low, operands[0], 0)


def _coords(low: Emulation, operands: Sequence[SSAValue], rank: int) -> list[SSAValue]:
    return [*operands[:rank], *[low.b.i32(0)] * (_TENSOR_RANK - rank)]


def _tma_load(low: Emulation, operands: Sequence[SSAValue], *, rank: int, multicast: bool, **_: Any) -> None:
    to, barrier, tensor_map, *rest = operands
    b = low.b
    mask = b.cast("extui", rest[rank], i32) if multicast else b.i32(0)
    args = [to, barrier, tensor_map, *_coords(low, rest, rank), mask, b.const(int(multicast), i1)]
    low.routine("fly_tma_load", args)


def _tma_store(low: Emulation, operands: Sequence[SSAValue], *, rank: int, reduce: str | None, **_: Any) -> None:
    source, tensor_map, *rest = operands
    name = "fly_tma_store" if reduce is None else f"fly_tma_reduce_{reduce}"
    low.routine(name, [source, tensor_map, *_coords(low, rest, rank)])


def _bulk_load(low: Emulation, operands: Sequence[SSAValue], *, multicast: bool, **_: Any) -> None:
    to, barrier, source, nbytes, *rest = operands
    if multicast:
        low.routine("fly_bulk_load_all", [to, barrier, source, nbytes, low.b.cast("extui", rest[0], i32)])
    else:
        low.routine("fly_bulk_load", [to, barrier, source, nbytes])


def _bulk_send(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> None:
    low.routine("fly_bulk_send", operands)


def _bulk_store(low: Emulation, operands: Sequence[SSAValue], *, reduction: tuple[str, str] | None, **_: Any) -> None:
    name = "fly_bulk_store" if reduction is None else "fly_bulk_" + "_".join(reduction)
    low.routine(name, operands[:3])


def _fp8_pair(elem: Attribute) -> Callable[..., Sequence[SSAValue]]:
    """Two f32, the first in the upper half; no infinity is left, and what is no number stays one."""
    most = FORMATS[str(elem)].max

    def rule(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> Sequence[SSAValue]:
        b = low.b
        codes: list[SSAValue] = []
        for x in operands:
            bound = b.float_binary("minimumf", b.float_binary("maximumf", x, b.const(-most, f32)), b.const(most, f32))
            codes.append(b.cast("extui", encode(b, bound, elem), i16))
        return (b.int_binary("ori", b.int_binary("shli", codes[0], b.const(8, i16)), codes[1]),)

    return rule


def _from_fp8_pair(elem: Attribute) -> Callable[..., Sequence[SSAValue]]:
    """Two f16 of two bytes, the first of which is the lower one."""

    def rule(low: Emulation, operands: Sequence[SSAValue], **_: Any) -> Sequence[SSAValue]:
        b = low.b
        word = b.cast("extui", operands[0], i32)
        codes = (b.int_binary("andi", word, b.i32(255)), b.int_binary("shrui", word, b.i32(8)))
        halves = [b.cast("truncf", decode_codes(b, x, elem), f16) for x in codes]
        return (b.pure(FromElementsOp, halves, VectorType(f16, [2]), {}),)

    return rule


_CALLS: dict[str, Callable[..., Sequence[SSAValue] | None]] = {
    "mbarrier.init": _init,
    "mbarrier.arrive": _arrive,
    "mbarrier.arrive_remote": _arrive_remote,
    "peer": _peer,
    "cp_async.arrive": _arrive_also_after_copies,
    "cp_async.arrive_noinc": _arrive_after_copies,
    "mbarrier.arrive_expect_tx": _arrive_expect,
    "mbarrier.expect_tx": _expect,
    "mbarrier.complete_tx": _complete,
    "mbarrier.test": _test,
    "mbarrier.try_wait": _test,
    "mbarrier.wait": _wait,
    "barrier.sync": _named_sync,
    "barrier.arrive": _named_arrive,
    "cluster.arrive": _cluster_arrive,
    "cluster.arrive_relaxed": _cluster_arrive_relaxed,
    "cluster.wait": _cluster_wait,
    "cluster.rank": _cluster_rank,
    "cluster.size": _cluster_size,
    "elect": _elect,
    "setmaxnreg.inc": _more_registers,
    "setmaxnreg.dec": _fewer_registers,
    "uniform": _uniform,
    "vote.any": _any,
    "tma.load": _tma_load,
    "tma.store": _tma_store,
    "bulk.load": _bulk_load,
    "bulk.send": _bulk_send,
    "bulk.store": _bulk_store,
    "cvt.e4m3x2": _fp8_pair(Float8E4M3FNType()),
    "cvt.e5m2x2": _fp8_pair(Float8E5M2Type()),
    "cvt.from_e4m3x2": _from_fp8_pair(Float8E4M3FNType()),
    "cvt.from_e5m2x2": _from_fp8_pair(Float8E5M2Type()),
}


def emulate_call(low: Emulation, name: str, operands: Sequence[SSAValue], **properties: Any) -> Sequence[SSAValue]:
    """Emit the operation `name` of `fly_nvgpu.ops.KINDS`; gives its results."""
    call = _CALLS.get(name)
    if call is not None:
        return call(low, operands, **properties) or ()
    counted = _COUNTED.get(name)
    if counted is not None:
        if low.checked:
            low.routine(counted, operands)
        return ()
    if name.startswith(_NOTHING):
        return ()
    raise NotImplementedError(f"{name} is not emulated on the cpu stack yet")
