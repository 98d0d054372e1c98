"""What `fx.ktrace` leaves in a kernel that is compiled with tracing on: code that writes events (`runtime/ktrace`).

Everything is made of ordinary operations of the language, so every target and mode of the cpu stack has it.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, cast

from xdsl.ir import Block

from ...runtime.ktrace import layout as L
from ..arith import ceildiv
from ..atomics import atomic_add
from ..control.control_flow import if_, if_expr
from ..emit import inline_asm_ir
from ..emit.trace import current
from ..extern import ffi
from ..gpu import block_dim, block_idx, current_target, grid_dim, lane_id, thread_idx
from ..numeric import Boolean, Float64, Int32, Int64, Numeric, scalar_or_none
from ..tensor import Pointer, Tensor, make_rmem_tensor
from ..tensors.memory import ptrtoint

if TYPE_CHECKING:
    from ...target import GPUTarget
    from ..emit.side_buffers import SideBuffers

_CLOCK = ffi("clock_gettime", ["int32", "int64"], "int32")
_MONOTONIC = {"Linux": 1, "Darwin": 6}
"""The steady clock of C libraries, by system; elsewhere events have their order and no time."""

# Where a wave runs: register | first bit << 6 | bits - 1 << 11.
_HW_ID = 4 | 8 << 6 | 7 << 11
_HW_ID1 = 23 | 10 << 6 | 10 << 11
_XCC_ID = 20 | 0 << 6 | 3 << 11


class KernelTrace:
    """The recording code of one kernel."""

    def __init__(self, buffers: SideBuffers, events: int):
        tracer = current()
        self._buffers = buffers
        self._events = events
        self._target: GPUTarget = current_target()
        self._names: dict[tuple[str, int], int] = {}
        """Numbers of names; of a name that a token started, one for each token."""
        self._words = buffers.need("ktrace")
        self.tokens = 0
        """Ranges that were started by a token so far."""
        self.pushed: list[str] = []
        """Ranges that were begun by `range_push` and are open."""
        # Where a warp's events go is computed once, at the head; the block joins the kernel if it has any event.
        self._head = Block()
        with tracer.region(self._head):
            self._open()

    def _open(self) -> None:
        words, host, lanes = self._words, self._target.on_host, self._target.warp_size
        block = (Int64(block_idx.z) * Int64(grid_dim.y) + Int64(block_idx.y)) * Int64(grid_dim.x) + Int64(block_idx.x)
        threads = block_dim.x * block_dim.y * block_dim.z
        thread = (thread_idx.z * block_dim.y + thread_idx.y) * block_dim.x + thread_idx.x
        unit, units = (thread, threads) if host else (thread // lanes, ceildiv(threads, lanes))
        since = block - words[L.FIRST]
        self._on = (since >= 0) & (since < words[L.BLOCKS])
        region = since * Int64(units) + Int64(unit)
        self._region: Pointer = words + (region * L.region_words(self._events, host) + L.HEAD)
        self._count: Tensor | None = None
        if not host:
            self._count = make_rmem_tensor(1, Int32)
            self._count[0] = 0

    def close(self) -> None:
        """Declare the memory, or take everything out where the kernel has no event."""
        if not self._names:
            for op in reversed(list(self._head.ops)):
                op.detach()
                op.erase()
            self._buffers.drop("ktrace")
            return
        current().move_to_head(self._head)
        self._buffers.details("ktrace").update(
            names=[name for name, _ in self._names],
            events=self._events,
            host=self._target.on_host,
            warp_size=self._target.warp_size,
        )

    def event(self, name: str, kind: int, payload: object, token: int = 0) -> None:
        """Record an event."""
        number = self._names.setdefault((name, token), len(self._names))
        form, bits = _payload(payload)
        tag = L.tag_of(number, kind, form)
        if self._target.on_host:
            if_(self._on, lambda: self._write_on_host(tag, bits), None, ())
            return
        count = self._count
        assert count is not None
        lane = lane_id()
        if_(self._on & self._is_first(lane), lambda: self._write(tag, bits, lane, cast(Int32, count[0])), None, ())
        count[0] = count[0] + 1

    # --- on the cpu stack: every thread for itself ------------------------------------------------------------------

    def _write_on_host(self, tag: int, payload: Int64) -> None:
        region = self._region
        place = cast(Int64, region[L.LOST])
        region[L.LOST] = place + 1

        def write() -> None:
            record = region + (place * L.HOST_RECORD + L.REGION_HEAD)
            clock = _MONOTONIC.get(platform.system())
            if clock is not None:
                _CLOCK(clock, ptrtoint(record))
            record[2] = Int64(tag) | Int64(lane_id()) << 56
            record[3] = payload
            record[4] = cast(Int64, atomic_add(self._words + L.ORDER, Int64(1)))

        if_(place < self._events, write, None, ())

    # --- on a GPU: the first active lane -----------------------------------------------------------------------------

    def _write(self, tag: int, payload: Int64, lane: Int32, count: Int32) -> None:
        region, events = self._region, self._events
        sparse = L.sparse_places(events)
        # Times are read first: what follows takes a while of its own.
        time, cycles = _intrinsic("llvm.readsteadycounter"), _intrinsic("llvm.readcyclecounter")
        alone = lane == 0
        place = cast(
            Int32,
            if_expr(alone, lambda: count, lambda: Int32(cast(Int64, atomic_add(region + L.SPARSE, Int64(1)))) + events),
        )
        limit = cast(Int32, if_expr(alone, lambda: Int32(events), lambda: Int32(events + sparse)))

        def write() -> None:
            record = region + (place * L.RECORD + L.REGION_HEAD)
            record[0], record[1] = time, cycles
            record[2] = Int64(tag) | Int64(self._place_on_chip()) << 32 | Int64(lane) << 56
            record[3] = payload

        def lose() -> None:
            def note() -> None:
                region[L.LOST] = Int64(place) + (1 - events)

            if_(alone, note, None, ())

        if_(place < limit, write, lose, ())

    def _is_first(self, lane: Int32) -> Boolean:
        """Whether no lane before this one is here."""
        if self._target.has("amd"):
            before = (Int64(1) << Int64(lane)) - 1
            return (_intrinsic("llvm.amdgcn.ballot.i64", Boolean(True)) & before) == 0
        before = (Int32(1) << lane) - 1
        return (Int32(_emit("llvm.nvvm.activemask", Int32)) & before) == 0

    def _place_on_chip(self) -> Int32:
        """Number of the SM or compute unit, 24 bits at most."""
        if not self._target.has("amd"):
            return Int32(_emit("llvm.nvvm.read.ptx.sreg.smid", Int32))
        if self._target.has("hw_id"):
            unit = Int32(_emit("llvm.amdgcn.s.getreg", Int32, Int32(_HW_ID)))
        else:
            unit = Int32(_emit("llvm.amdgcn.s.getreg", Int32, Int32(_HW_ID1)))
        if self._target.has("xcc_id"):
            unit = unit | Int32(_emit("llvm.amdgcn.s.getreg", Int32, Int32(_XCC_ID))) << 11
        return unit


def _emit(name: str, result: type[Numeric], *operands: Numeric) -> Numeric:
    """An intrinsic that every target has which asks for it here."""
    made = inline_asm_ir.emit_intrinsic(name, [x.ir_value() for x in operands], result.ir_type)
    assert made is not None
    return result(made)


def _intrinsic(name: str, *operands: Numeric) -> Int64:
    return cast(Int64, _emit(name, Int64, *operands))


def _payload(value: object) -> tuple[int, Int64]:
    """A payload's kind and bits."""
    if value is None:
        return L.NOTHING, Int64(0)
    number = scalar_or_none(value)
    if number is None:
        from ...errors import DSLTypeError

        raise DSLTypeError(f"the payload of an event is a number, got {value!r}")
    if number.is_float:
        return L.FLOAT, Float64(number).bitcast(Int64)
    return L.INTEGER, Int64(number)
