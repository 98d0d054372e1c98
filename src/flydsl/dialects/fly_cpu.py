"""`fly_cpu`: how the threads of a block meet on the CPU.

Threads are coroutines. Those of one group (a warp, or what a matrix atom spans) leave data for each other in a region
of their own: `deposit` says where to write, `rendezvous` waits until every thread of the group that comes by has
written, and says where to read. What was deposited is readable until the thread suspends again.

```mlir
%at, %stride = "fly_cpu.deposit"() <{group = 0 : i32, bytes = 4 : i32, shared = false}> : () -> (!llvm.ptr, i64)
%lane = "fly_cpu.lane"() <{group = 0 : i32}> : () -> i64
// store to %at + %lane * %stride
%from = "fly_cpu.rendezvous"() <{group = 0 : i32}> : () -> !llvm.ptr
// load from %from + %other * %stride
```

`group` is a number of threads, a power of two; 0 is the warp of the target. `bytes` is what one thread needs, or, where
the threads write to places of each other (`shared`), the whole group.
"""

from __future__ import annotations

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, StringAttr, i64
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Dialect
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure

BARE = "fly.bare"
"""Attribute of a `gpu.barrier` that waits for no asynchronous copies into shared memory."""

ISSUED = "fly.issued"
"""Attribute of an access to global memory by a copy that lasts until a wait for it."""

UNCOUNTED = "fly.uncounted"
"""Attribute of an access to global memory that is no vector memory instruction of its own: a further piece of one that
is done piece by piece, or a scalar load."""

EMULATED = "fly.emulated"
"""Attribute of a `func.call` to a function of the device module that does the work of an instruction."""


@irdl_op_definition
class DepositOp(IRDLOperation):
    """Where the group's data goes, and the bytes from one thread's slot to the next."""

    name = "fly_cpu.deposit"
    group = prop_def(IntegerAttr)
    bytes = prop_def(IntegerAttr)
    shared = prop_def(BoolAttr)
    at = result_def(LLVMPointerType)
    stride = result_def(i64)


@irdl_op_definition
class RendezvousOp(IRDLOperation):
    """Wait for the group; where its data can be read."""

    name = "fly_cpu.rendezvous"
    group = prop_def(IntegerAttr)
    at = result_def(LLVMPointerType)


@irdl_op_definition
class LaneOp(IRDLOperation):
    """Index of the thread in its group."""

    name = "fly_cpu.lane"
    group = prop_def(IntegerAttr)
    result = result_def(i64)
    traits = traits_def(Pure())


@irdl_op_definition
class SharedBaseOp(IRDLOperation):
    """Where the block's shared memory begins: addresses in it, as integers, count from there as on a GPU."""

    name = "fly_cpu.shared_base"
    at = result_def(LLVMPointerType)
    traits = traits_def(Pure())


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Let the other threads run: a thread that looked at memory and may do something else when it looks again."""

    name = "fly_cpu.yield"


@irdl_op_definition
class WaitOp(IRDLOperation):
    """Let the other threads run: the body of a loop that does nothing but wait for memory to change."""

    name = "fly_cpu.wait"
    what = prop_def(StringAttr)
    """What is waited for, in words."""


@irdl_op_definition
class CallOp(IRDLOperation):
    """A function of `cpu/code/routines.py`: `"fly_cpu.call"(%at, %rank) <{callee = "fly_remote"}>`."""

    name = "fly_cpu.call"
    callee = prop_def(StringAttr)
    args = var_operand_def()
    res = var_result_def()


@irdl_op_definition
class ExtentOp(IRDLOperation):
    """In checked mode, how many bytes the tensor of a kernel argument spans: `(%pointer, %bytes) <{argument = 0}>`.

    `modes` are its extents and then its strides in elements of `bits`, where they are known.
    """

    name = "fly_cpu.extent"
    pointer = operand_def(LLVMPointerType)
    nbytes = operand_def(i64)
    modes = var_operand_def(i64)
    argument = prop_def(IntegerAttr)
    bits = prop_def(IntegerAttr)


@irdl_op_definition
class CountOp(IRDLOperation):
    """A source line of the kernel runs: `<{file = "k.py", line = 12 : i32}>`."""

    name = "fly_cpu.count"
    file = prop_def(StringAttr)
    line = prop_def(IntegerAttr)


@irdl_op_definition
class LineOp(IRDLOperation):
    """A source line of the kernel begins, for the debugger: `(%values...) <{site = 3 : i32}>`.

    `site` is an index of what tracing knows of the line and its variables; `values` are what these need at run time.
    """

    name = "fly_cpu.line"
    values = var_operand_def()
    site = prop_def(IntegerAttr)


FlyCpu = Dialect(
    "fly_cpu", [CountOp, DepositOp, RendezvousOp, LaneOp, SharedBaseOp, YieldOp, WaitOp, CallOp, ExtentOp, LineOp]
)
