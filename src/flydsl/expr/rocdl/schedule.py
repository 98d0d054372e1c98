"""Waits, priorities and hints to the instruction scheduler.

On the cpu stack they have no effect on data; where a wave waits for what its lanes copied together, they meet.
"""

from __future__ import annotations

from typing import Any

from ...errors import DSLTypeError, DSLValueError
from ...target import has, where
from ...target.waitcnt import MOST_LOADS, vmcnt_of
from ..aliases import also_called, placed
from ..atomics import AtomicOrdering, memory_fence
from ..gpu import barrier
from .target import need, on_cpu, usual_gfx

_ALL_CLASSES = 0x7FF
"""Every class of instructions LLVM 22 knows; it ends the process at any other bit."""
_MASKS = {"mfma": 0x8, "vmem": 0x20, "dsrd": 0x100, "dswr": 0x200}


_XDL_ARBITRATION = 154
"""Bit 2 of the register SCHED_MODE, as `s_setreg` names it."""


def _call(name: str, *operands: tuple[int, str]) -> None:
    """An instruction without a result whose operands are constants `(value, type)`; nothing on the cpu."""
    if on_cpu(f"fx.rocdl.{name.replace('.', '_')}"):
        if name in _WAVE_WAITS:
            _wave_wait(_WAVE_WAITS[name], *(_static(name, v) for v, _ in operands))
        return
    from . import emit

    values = [emit.constant(_static(name, v), emit.integer_type(t)) for v, t in operands]
    emit.intrinsic(f"llvm.amdgcn.{name}", None, values)


_WAVE_WAITS = {"s.wait.asynccnt": "lane_wait", "s.wait.tensorcnt": "tensor_wait"}
"""Waits for what the lanes of a wave have copied together."""


def _wave_wait(name: str, *numbers: int) -> None:
    """On the cpu stack: counted is what all lanes have issued, and used what all have copied."""
    from ..emit import gpu_ir

    gpu_ir.warp_barrier()
    _note(name, *numbers)
    gpu_ir.warp_barrier()


def _note(name: str, *numbers: int) -> None:
    from . import emit

    emit.checked_note(name, *numbers)


def _static(what: str, value: Any) -> int:
    if isinstance(value, int):
        return int(value)
    known = getattr(value, "is_static", None)
    if known is not None and known():
        return int(value)
    raise DSLTypeError(f"{what} takes a compile-time integer, got {value!r}")


def _need(name: str, feature: str) -> None:
    arch = usual_gfx(f"fx.rocdl.{name}")
    if not has(arch, feature):
        raise DSLValueError(f"{name} exists on {where(feature)}, not on {arch}")


_WAIT_LIMITS = {"vmcnt": 63, "expcnt": 7, "lgkmcnt": 15}


def encode_waitcnt(arch: str, vmcnt: int | None, lgkmcnt: int | None, expcnt: int | None) -> int:
    """The operand of `s_waitcnt` on gfx9 to gfx11; a counter that is not given is not waited for.

    >>> hex(encode_waitcnt("gfx942", 0, None, None)), hex(encode_waitcnt("gfx1100", None, 0, None))
    ('0xf70', '0xfc07')
    """
    new = has(arch, "waitcnt_lgkm_first")
    limits = {**_WAIT_LIMITS, "lgkmcnt": 63 if new else 15}
    given = {"vmcnt": vmcnt, "lgkmcnt": lgkmcnt, "expcnt": expcnt}
    counts: dict[str, int] = {}
    for name, limit in limits.items():
        wanted = given[name]
        counts[name] = limit if wanted is None else wanted
        if not 0 <= counts[name] <= limit:
            raise DSLValueError(f"{name} must be 0 to {limit} on {arch}, got {wanted}")
    vm, lgkm, exp = counts["vmcnt"], counts["lgkmcnt"], counts["expcnt"]
    if new:
        return vm << 10 | lgkm << 4 | exp
    return (vm & 15) | exp << 4 | lgkm << 8 | (vm >> 4) << 14


def s_waitcnt(
    bitfield: int | None = None, *, vmcnt: int | None = None, lgkmcnt: int | None = None, expcnt: int | None = None
) -> None:
    """Wait until at most so many memory operations are outstanding: `s_waitcnt(vmcnt=4)`.

    `bitfield` is the raw operand. Where counters are split (gfx12) `vmcnt` waits for loads and stores, `lgkmcnt` for
    shared memory and scalar loads.

    >>> flyc.evaluate(lambda: fx.rocdl.s_waitcnt(vmcnt=0), target="cpu:gfx942")
    """
    arch = usual_gfx("fx.rocdl.s_waitcnt")
    if has(arch, "split_counters"):
        if bitfield is not None:
            raise DSLValueError(f"{arch} has no s_waitcnt bit field; give vmcnt, lgkmcnt or expcnt")
        for value, names in ((vmcnt, ("loadcnt", "storecnt")), (lgkmcnt, ("dscnt", "kmcnt")), (expcnt, ("expcnt",))):
            for name in names if value is not None else ():
                _call(f"s.wait.{name}", (_static("s_waitcnt", value), "i16"))
        return
    operand = bitfield if bitfield is not None else encode_waitcnt(arch, vmcnt, lgkmcnt, expcnt)
    if on_cpu("fx.rocdl.s_waitcnt"):
        loads = vmcnt_of(arch, _static("s_waitcnt", operand))
        if loads < MOST_LOADS and has(arch, "copy_to_lds_b32"):
            _wave_wait("to_shared_wait_count", loads)
    _call("s.waitcnt", (operand, "i32"))


def s_wait_loadcnt(count: int = 0) -> None:
    """Wait for vector loads (gfx12).

    >>> flyc.evaluate(lambda: fx.rocdl.s_wait_loadcnt(0), target="cpu:gfx1201")
    """
    _need("s_wait_loadcnt", "split_counters")
    _call("s.wait.loadcnt", (count, "i16"))


def s_wait_storecnt(count: int = 0) -> None:
    """Wait for vector stores (gfx12).

    >>> flyc.evaluate(lambda: fx.rocdl.s_wait_storecnt(0), target="cpu:gfx1201")
    """
    _need("s_wait_storecnt", "split_counters")
    _call("s.wait.storecnt", (count, "i16"))


def s_wait_dscnt(count: int = 0) -> None:
    """Wait for shared memory (gfx12).

    >>> flyc.evaluate(lambda: fx.rocdl.s_wait_dscnt(0), target="cpu:gfx1201")
    """
    _need("s_wait_dscnt", "split_counters")
    _call("s.wait.dscnt", (count, "i16"))


def s_wait_kmcnt(count: int = 0) -> None:
    """Wait for scalar loads (gfx12).

    >>> flyc.evaluate(lambda: fx.rocdl.s_wait_kmcnt(0), target="cpu:gfx1201")
    """
    _need("s_wait_kmcnt", "split_counters")
    _call("s.wait.kmcnt", (count, "i16"))


def s_wait_tensorcnt(count: int = 0) -> None:
    """Wait for the tensor data mover (gfx1250).

    >>> flyc.evaluate(lambda: fx.rocdl.s_wait_tensorcnt(0), target="cpu:gfx1250")
    """
    _need("s_wait_tensorcnt", "tdm")
    _call("s.wait.tensorcnt", (count, "i16"))


def s_wait_asynccnt(count: int = 0) -> None:
    """Wait for asynchronous copies into shared memory (gfx1250).

    >>> flyc.evaluate(lambda: fx.rocdl.s_wait_asynccnt(0), target="cpu:gfx1250")
    """
    _need("s_wait_asynccnt", "async_counter")
    _call("s.wait.asynccnt", (count, "i16"))


@placed
def sched_barrier(mask: int = 0) -> None:
    """Nothing moves across, but the classes of instructions in `mask`.

    >>> flyc.evaluate(lambda: fx.rocdl.sched_barrier(0), target="cpu:gfx942")
    """
    _call("sched.barrier", (mask, "i32"))


@also_called(group="group_id")
@placed
def sched_group_barrier(mask: int, size: int, group_id: int = 0) -> None:
    """The next `size` instructions of the classes in `mask` form a group; groups keep their order.

    >>> flyc.evaluate(lambda: fx.rocdl.sched_group_barrier(0x8, 1, 0), target="cpu:gfx942")
    """
    if not 0 <= _static("sched_group_barrier", mask) <= _ALL_CLASSES:
        raise DSLValueError(f"sched_group_barrier takes a mask of at most {_ALL_CLASSES:#x}, got {mask:#x}")
    _call("sched.group.barrier", (mask, "i32"), (size, "i32"), (group_id, "i32"))


@also_called(count="cnt")
def sched_mfma(cnt: int) -> None:
    """A group of matrix instructions.

    >>> flyc.evaluate(lambda: fx.rocdl.sched_mfma(2), target="cpu:gfx942")
    """
    sched_group_barrier(_MASKS["mfma"], cnt)


@also_called(count="cnt")
def sched_vmem(cnt: int) -> None:
    """A group of loads from global or buffer memory.

    >>> flyc.evaluate(lambda: fx.rocdl.sched_vmem(1), target="cpu:gfx942")
    """
    sched_group_barrier(_MASKS["vmem"], cnt)


@also_called(count="cnt")
def sched_dsrd(cnt: int) -> None:
    """A group of reads of shared memory.

    >>> flyc.evaluate(lambda: fx.rocdl.sched_dsrd(1), target="cpu:gfx942")
    """
    sched_group_barrier(_MASKS["dsrd"], cnt)


@also_called(count="cnt")
def sched_dswr(cnt: int) -> None:
    """A group of writes of shared memory.

    >>> flyc.evaluate(lambda: fx.rocdl.sched_dswr(1), target="cpu:gfx942")
    """
    sched_group_barrier(_MASKS["dswr"], cnt)


@also_called(strategy="variant")
def iglp_opt(variant: int) -> None:
    """Ask for one of LLVM's ready-made interleavings: 0 small GEMM, 1 one-wave GEMM, 2 attention.

    >>> flyc.evaluate(lambda: fx.rocdl.iglp_opt(0), target="cpu:gfx942")
    """
    _call("iglp.opt", (variant, "i32"))


def s_setprio(priority: int) -> None:
    """Priority of the wave, 0 to 3.

    >>> flyc.evaluate(lambda: fx.rocdl.s_setprio(1), target="cpu:gfx942")
    """
    if not 0 <= _static("s_setprio", priority) <= 3:
        raise DSLValueError(f"s_setprio takes 0 to 3, got {priority}")
    _call("s.setprio", (priority, "i16"))


def disable_xdl_arb_stall() -> None:
    """Let matrix instructions of a wave go on without the pause in which others are chosen (gfx1250).

    >>> flyc.evaluate(lambda: fx.rocdl.disable_xdl_arb_stall(), target="cpu:gfx1250")
    """
    need("disable_xdl_arb_stall", "wmma_scale")
    _call("s.setreg", (_XDL_ARBITRATION, "i32"), (1, "i32"))


@also_called(duration="count")
def s_sleep(count: int) -> None:
    """Sleep about 64 * `count` clocks.

    >>> flyc.evaluate(lambda: fx.rocdl.s_sleep(1), target="cpu:gfx942")
    """
    _call("s.sleep", (count, "i32"))


def s_nop(count: int = 0) -> None:
    """Nothing, a few clocks long.

    >>> flyc.evaluate(lambda: fx.rocdl.s_nop(0), target="cpu:gfx942")
    """
    _call("s.nop", (count, "i16"))


def s_barrier() -> None:
    """The bare workgroup barrier: it waits for no memory operation. `fx.barrier()` does.

    The compiler moves no access across it; fences for the wave itself say so and cost nothing.

    >>> flyc.evaluate(lambda: fx.rocdl.s_barrier(), target="cpu:gfx942")
    """
    if on_cpu("fx.rocdl.s_barrier"):
        from . import emit

        emit.bare_barrier()
        return
    memory_fence(syncscope="wavefront", ordering=AtomicOrdering.Release)
    _call("s.barrier")
    memory_fence(syncscope="wavefront", ordering=AtomicOrdering.Acquire)


@also_called(barrier_id="id")
def s_barrier_signal(id: int = -1) -> None:
    """First half of a split barrier (gfx12).

    >>> def meet():
    ...     fx.rocdl.s_barrier_signal()
    ...     fx.rocdl.s_barrier_wait()
    >>> flyc.evaluate(meet, target="cpu:gfx1201")
    """
    _need("s_barrier_signal", "split_barrier")
    _call("s.barrier.signal", (id, "i32"))


@also_called(barrier_id="id")
def s_barrier_wait(id: int = -1) -> None:
    """Second half of a split barrier (gfx12). On the cpu stack this is the barrier.

    >>> def meet():
    ...     fx.rocdl.s_barrier_signal()
    ...     fx.rocdl.s_barrier_wait()
    >>> flyc.evaluate(meet, target="cpu:gfx1201")
    """
    _need("s_barrier_wait", "split_barrier")
    if on_cpu("fx.rocdl.s_barrier_wait"):
        barrier()
        return
    _call("s.barrier.wait", (id, "i16"))


def asyncmark() -> None:
    """Close a group of asynchronous copies into shared memory (`cdna4.BufferLoadAsyncLDS*`, `GlobalLoadAsyncLDS*`).

    In a kernel that marks groups, reads of shared memory wait for no copy by themselves.

    >>> flyc.evaluate(lambda: fx.rocdl.asyncmark(), target="cpu:gfx950")
    """
    if on_cpu("fx.rocdl.asyncmark"):
        _note("to_shared_commit")
    elif has(usual_gfx("fx.rocdl.asyncmark"), "asyncmark"):
        _call("asyncmark")


@also_called(n="count")
def wait_asyncmark(count: int = 0) -> None:
    """Wait until at most `count` groups of this wave are outstanding; `fx.rocdl.s_barrier` then tells the other waves.

    `fx.barrier` waits for all copies. Where groups differ in size, or other loads are under way, the wait may be
    stricter than asked for.

    >>> flyc.evaluate(lambda: fx.rocdl.wait_asyncmark(0), target="cpu:gfx950")
    """
    if _static("wait_asyncmark", count) < 0:
        raise DSLValueError(f"wait_asyncmark takes a count of groups, got {count}")
    if on_cpu("fx.rocdl.wait_asyncmark"):
        _wave_wait("to_shared_wait", _static("wait_asyncmark", count))
    elif has(usual_gfx("fx.rocdl.wait_asyncmark"), "asyncmark"):
        _call("wait.asyncmark", (count, "i16"))
    else:
        s_waitcnt(vmcnt=0)
