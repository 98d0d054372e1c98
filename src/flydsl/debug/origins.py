"""Where a NaN came from: the launch runs again up to where it stands, with checks of floats."""

from __future__ import annotations

import numpy as np

from ..dialects.upstream import gpu
from .debugger import Debugger
from .machine import ClusterRun, Thread
from .memory import Memory, Now
from .numerics import Report, origin, run_checked
from .shadow import ShadowWriter
from .variables import Cell


class _Enough(Exception):
    """The run has come to where the other one stands."""


def origin_of(debugger: Debugger, thread: Thread, cell: Cell) -> str:
    """Say which operation made the NaN that a cell holds."""
    state = debugger.state
    memory, kernel = state.memory, state.launch.kernel
    done = list(memory.journal or ())
    # A watched write stops in the middle of a line: then that line is run to its end.
    goal = debugger.steps + bool(done and done[-1].step == debugger.steps)
    module = kernel.function.parent_op()
    assert isinstance(module, gpu.ModuleOp)
    shadowed = ShadowWriter(kernel.function, module, kernel.warp).write()
    report, again = Report(), Memory(Now())
    again.now.silent = True

    def enough(at: Thread, mark: int) -> None:
        if again.now.step >= goal:
            raise _Enough

    memory.undo(0)
    run: ClusterRun | None = None
    try:
        checker, run = run_checked(state.launch._replace(kernel=shadowed), report, again, enough, _Enough, each=True)
        shadow = checker.shadow_at(_same_place(state.run, run, cell.address))
    finally:
        again.undo(0)
        memory.redo(done)
    if shadow is None:
        return f"no kernel has written a float to {cell.label} in this launch"
    if not np.isnan(shadow):
        return f"{cell.label} is no NaN: {float(shadow):.9g} in double precision"
    number = origin(shadow)
    if number is None:
        return f"the NaN in {cell.label} was there before the launch, in what it read"
    return f"the NaN in {cell.label} was made at {report.findings[number]}"


def _same_place(mine: ClusterRun, theirs: ClusterRun, address: int) -> int:
    """An address in another run of the launch: shared memory and registers lie elsewhere there."""
    offset = address - mine.shared
    if 0 <= offset < mine.bytes * len(mine.blocks):
        return theirs.shared + offset
    for block, other in zip(mine.blocks, theirs.blocks, strict=True):
        for one, two in zip(block.threads, other.threads, strict=False):
            for key, (start, size) in one.rooms.items():
                if start <= address < start + size and key in two.rooms:
                    return two.rooms[key][0] + address - start
    return address
