"""A kernel as a generator function of one thread: memory, control flow and synchronization around the arithmetic.

The generator yields where something outside may happen: the number of a mark where a line begins (0 or more), and the
negative of a status of the cpu stack's scheduler (`cpu/code/block.py`) where the thread waits for others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from xdsl.dialects import func
from xdsl.dialects import llvm as xllvm
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..cpu.code.abi import synchronization_of
from ..cpu.code.block import BARRIER, MAX_THREADS, POLL, WAIT, Synchronization
from ..cpu.code.check import where
from ..cpu.code.routines import CHECKS
from ..dialects import fly_cpu
from ..dialects.upstream import gpu, llvm, scf
from ..dialects.upstream.gpu import warp as gpu_warp
from ..dialects.upstream.llvm.atomics import CmpXchgOp, FenceOp
from ..ir.builder import operands_of
from ..ir.types import dense_ints
from ..llvm.text.function_text import TERMINATORS
from ..llvm.text.shared_memory import SharedLayout, shared_layout
from ..llvm.text.spelling import type_text
from ..lowering.rules.arith_rules import ARITH
from ..lowering.rules.gpu_rules import sizes_of, source_lane
from ..lowering.rules.math_rules import INTRINSICS, math_rules
from ..lowering.rules.vector_rules import VECTOR
from . import atomics, operations
from .formats import printed
from .kinds import Kind, kind, offsets
from .sink import PythonSink, refuse

Rule = Callable[[Any, Any], None]


class Mark(NamedTuple):
    """Where a line begins in the code of a kernel."""

    site: int
    """Which line: an index of the sites that tracing collected."""
    values: tuple[str, ...]
    """The values its variables need, by their names in the Python source, or as numbers."""
    kinds: tuple[Kind, ...]


@dataclass
class Kernel:
    """A kernel that can be run."""

    name: str
    function: gpu.FuncOp
    source: str
    thread: Callable[..., Any]
    """`thread(memory, block, thread, *arguments)`: the generator."""
    arguments: list[Kind | None]
    """Types of the arguments; None for one that is passed as the address of its bytes."""
    marks: list[Mark]
    sites: dict[int, str]
    """What to say of threads that wait in vain, by the number of the place."""
    shared: SharedLayout
    block_size: tuple[int, int, int] | None
    how: Synchronization
    warp: int
    constants: dict[str, Any]
    """Values of names that are not in the generator: constants."""


class KernelWriter(PythonSink):
    """Writes one kernel."""

    def __init__(self, op: gpu.FuncOp, module: gpu.ModuleOp, warp: int):
        super().__init__(op)
        self.function_op = op
        self.warp = warp
        self.shared = shared_layout(op, module)
        self.functions = {
            x.sym_name.data: x.body.block for x in module.body.block.ops if isinstance(x, func.FuncOp) and x.body.blocks
        }
        """What the kernel may call."""
        self.how = synchronization_of(op, warp) or Synchronization(MAX_THREADS, 0)
        self.marks: list[Mark] = []
        self.sites: dict[int, str] = {}
        self._sites = self._rooms = 0
        self._loaders: dict[str, str] = {}

    # --- the function ---------------------------------------------------------------------------------------------

    def write(self) -> Kernel:
        """The whole kernel."""
        params: list[str] = []
        kinds: list[Kind | None] = []
        for arg in self.function_op.body.block.args:
            by_value = bool(getattr(arg.type, "by_value", False))
            k = kind("ptr") if by_value else kind(type_text(arg.type))
            name = self.names[arg] = self.fresh(k)
            params.append(name)
            kinds.append(None if by_value else k)
            self.parameter(name, k)
        self.block(self.function_op.body.block)
        self.line("return")
        self.line("yield 0")
        head = f"def thread(m, block, t{''.join(', ' + p for p in params)}):"
        prologue = [
            f"    {name} = m.{which}er({self.globals_of(k)})"
            for (which, k), name in cast("dict[tuple[str, Kind], str]", self._loaders).items()
        ]
        source = "\n".join([head, *prologue, *self.lines, ""])
        name = self.function_op.sym_name.data
        space = dict(self.globals)
        exec(compile(source, f"<kernel {name}>", "exec"), space)  # noqa: S102 - our own text
        return Kernel(
            name, self.function_op, source, space["thread"], kinds, self.marks, self.sites, self.shared,
            sizes_of(self.function_op.known_block_size), self.how, self.warp, space,
        )  # fmt: skip

    def parameter(self, name: str, k: Kind) -> None:
        """An argument, before the first line of the body."""

    def globals_of(self, k: Kind) -> str:
        return self.bind(k, ("kind", k.text))

    def loader(self, k: Kind) -> str:
        """Name of what loads a type."""
        return self._loaders.setdefault(cast(Any, ("load", k)), f"load{len(self._loaders)}")

    def storer(self, k: Kind) -> str:
        """Name of what stores a type."""
        return self._loaders.setdefault(cast(Any, ("stor", k)), f"store{len(self._loaders)}")

    def block(self, block: Block) -> Operation | None:
        """Write the ops of a block; give its terminator."""
        op = block.first_op
        while op is not None:
            if id(op) not in self.dead:
                self.op = op
                if isinstance(op, TERMINATORS):
                    return op
                rule = RULES.get(type(op))
                if rule is None:
                    refuse(op)
                rule(self, op)
            op = op.next_op
        return None

    def nested(self, block: Block) -> Operation | None:
        """The same, indented."""
        self.depth += 1
        end = self.block(block)
        return end

    def suspend(self, status: int, text: str | None = None) -> None:
        """Wait for others."""
        self._sites += 1
        if text is not None:
            self.sites[self._sites] = text
        self.line(f"yield -{status | self._sites}")

    def next_room(self) -> int:
        """A number for registers in memory; the same however a kernel is written."""
        self._rooms += 1
        return self._rooms

    def kind_of(self, value: SSAValue) -> Kind:
        return kind(type_text(value.type))

    # --- what a subclass may look at ------------------------------------------------------------------------------

    def loaded(self, k: Kind, address: str) -> str:
        """A value from memory."""
        return self.assign(k, f"{self.loader(k)}({address})")

    def stored(self, k: Kind, value: str, address: str) -> None:
        """A value into memory."""
        self.line(f"{self.storer(k)}({value}, {address})")

    def moved(self, pairs: list[tuple[str, str, Kind]]) -> None:
        """Set variables, all at once: `(name, value, type)`."""
        if pairs:
            self.line(f"{', '.join(p[0] for p in pairs)} = {', '.join(p[1] for p in pairs)}")

    def left(self, k: Kind, value: str) -> str:
        """What a thread leaves for its warp."""
        return value

    def taken(self, k: Kind, lane: str) -> str:
        """What a lane of the warp left; the threads have met."""
        return self.assign(k, f"block.shown(t.tid, {lane})")


# --- control flow -------------------------------------------------------------------------------------------------


def _ends(w: KernelWriter, end: Operation | None) -> list[str]:
    return [] if end is None else [w.names[v] for v in operands_of(end)]


def _for(w: KernelWriter, op: scf.ForOp) -> None:
    low, high, step, *init = operands_of(op)
    body = op.body.block
    index, *carried = body.args
    k = w.kind_of(index)
    counter = w.fresh(k)
    w.line(f"{counter} = {w.names[low]}")
    names = [w.fresh(w.kind_of(arg)) for arg in carried]
    w.moved([(n, w.names[v], w.kind_of(v)) for n, v in zip(names, init, strict=True)])
    unsigned = "unsignedCmp" in op.properties or "unsignedCmp" in op.attributes
    half = 0 if unsigned else 1 << (k.bits - 1)
    w.line(f"while ({counter} ^ {half}) < ({w.names[high]} ^ {half}):")
    for arg, name in zip(body.args, [counter, *names], strict=True):
        w.names[arg] = name
    stop = w.names[step]
    end = w.nested(body)
    w.moved([(n, v, w.kind_of(a)) for n, v, a in zip(names, _ends(w, end), carried, strict=True)])
    w.line(f"{counter} = ({counter} + {stop}) & {k.mask}")
    w.depth -= 1
    for result, name in zip(op.results, names, strict=True):
        w.names[result] = name


def _if(w: KernelWriter, op: scf.IfOp) -> None:
    (cond,) = operands_of(op)
    names = [w.fresh(w.kind_of(r)) for r in op.results]
    for word, region in ((f"if {w.names[cond]}:", op.true_region), ("else:", op.false_region)):
        if not region.blocks:
            continue
        w.line(word)
        end = w.nested(region.block)
        w.moved([(n, v, w.kind_of(r)) for n, v, r in zip(names, _ends(w, end), op.results, strict=True)])
        w.line("pass")
        w.depth -= 1
    for result, name in zip(op.results, names, strict=True):
        w.names[result] = name


def _while(w: KernelWriter, op: scf.WhileOp) -> None:
    before, after = op.before_region.block, op.after_region.block
    names = [w.fresh(w.kind_of(a)) for a in before.args]
    w.moved([(n, w.names[v], w.kind_of(v)) for n, v in zip(names, operands_of(op), strict=True)])
    for arg, name in zip(before.args, names, strict=True):
        w.names[arg] = name
    results = [w.fresh(w.kind_of(r)) for r in op.results]
    w.line("while True:")
    condition = w.nested(before)
    assert condition is not None
    cond, *passed = operands_of(condition)
    w.moved([(n, w.names[v], w.kind_of(v)) for n, v in zip(results, passed, strict=True)])
    w.line(f"if not {w.names[cond]}:")
    w.line("    break")
    for arg, name in zip(after.args, results, strict=True):
        w.names[arg] = name
    end = w.block(after)
    w.moved([(n, v, w.kind_of(a)) for n, v, a in zip(names, _ends(w, end), before.args, strict=True)])
    w.depth -= 1
    for result, name in zip(op.results, results, strict=True):
        w.names[result] = name


# --- memory -------------------------------------------------------------------------------------------------------


def _load(w: KernelWriter, op: Operation) -> None:
    (p,) = operands_of(op)
    (result,) = op.results
    w.names[result] = w.loaded(w.kind_of(result), w.names[p])


def _store(w: KernelWriter, op: Operation) -> None:
    v, p = operands_of(op)
    w.stored(w.kind_of(v), w.names[v], w.names[p])


def _gep(w: KernelWriter, op: llvm.GEPOp) -> None:
    p, *dynamic = operands_of(op)
    values = iter(dynamic)
    inside = kind(type_text(op.elem_type))
    text, fixed = w.names[p], 0
    for i, raw in enumerate(dense_ints(op.rawConstantIndices)):
        if i:
            if raw == llvm.GEP_DYNAMIC or not inside.is_struct:
                refuse(op, "with a dynamic index into a struct")
            fixed += offsets(inside)[raw]
            inside = inside.fields[raw]
            continue
        if raw != llvm.GEP_DYNAMIC:
            fixed += raw * inside.stride
            continue
        at = next(values)
        k, name = w.kind_of(at), w.names[at]
        half = 1 << (k.bits - 1)
        text += f" + (({name} ^ {half}) - {half}) * {inside.stride}"
    w.names[op.result] = w.assign(kind("ptr"), f"({text} + {fixed}) & {(1 << 64) - 1}")


def _alloca(w: KernelWriter, op: xllvm.AllocaOp) -> None:
    (count,) = operands_of(op)
    elem = kind(type_text(op.elem_type))
    align = op.alignment.value.data if op.alignment is not None else elem.align
    text = f"t.room({w.next_room()}, {w.names[count]} * {elem.stride}, {max(align, 16)})"
    w.names[op.results[0]] = w.assign(kind("ptr"), text)


def _address_of(w: KernelWriter, op: llvm.AddressOfOp) -> None:
    name = op.global_name.string_value()
    offset = w.shared.offsets.get(name)
    if offset is None:
        refuse(op, f"of the constant '{name}'")
    w.names[op.results[0]] = w.assign(kind("ptr"), f"block.shared + {offset}")


def _atomic(w: KernelWriter, op: llvm.AtomicRMWOp) -> None:
    p, v = operands_of(op)
    k = w.kind_of(v)
    word = llvm.ATOMIC_BINARY[op.bin_op.value.data].lstrip("_")
    update = w.function(("atomic", word, k), lambda: atomics.update(word, k))
    old = w.loaded(k, w.names[p])
    w.stored(k, w.assign(k, f"{update}({old}, {w.names[v]})"), w.names[p])
    w.line("block.touch()")
    w.names[op.results[0]] = old


def _cmpxchg(w: KernelWriter, op: CmpXchgOp) -> None:
    p, wanted, new = (w.names[v] for v in (op.ptr, op.cmp, op.val))
    k = w.kind_of(op.val)
    old = w.loaded(k, p)
    same = w.assign(kind("i1"), f"{old} == {wanted}")
    w.line(f"if {same}:")
    w.depth += 1
    w.stored(k, new, p)
    w.line("block.touch()")
    w.depth -= 1
    w.names[op.res] = w.assign(w.kind_of(op.res), f"({old}, {same})")


def _extract_value(w: KernelWriter, op: llvm.ExtractValueOp) -> None:
    at = "".join(f"[{i}]" for i in dense_ints(op.position))
    (s,) = operands_of(op)
    w.names[op.res] = w.assign(w.kind_of(op.res), f"{w.names[s]}{at}")


def _insert_value(w: KernelWriter, op: llvm.InsertValueOp) -> None:
    s, v = operands_of(op)
    at = tuple(dense_ints(op.position))
    name = w.bind(_inserted, "inserted")
    w.names[op.res] = w.assign(w.kind_of(op.res), f"{name}({w.names[s]}, {w.names[v]}, {at})")


def _inserted(s: tuple[Any, ...], x: Any, at: tuple[int, ...]) -> tuple[Any, ...]:
    inner = x if len(at) == 1 else _inserted(s[at[0]], x, at[1:])
    return (*s[: at[0]], inner, *s[at[0] + 1 :])


def _cast(word: str) -> Rule:
    def rule(w: KernelWriter, op: Operation) -> None:
        (a,) = operands_of(op)
        (result,) = op.results
        w.names[result] = w.cast(word, w.names[a], a.type, result.type)

    return rule


def _undefined(w: KernelWriter, op: Operation) -> None:
    (result,) = op.results
    w.names[result] = w.poison(result.type)


def _call_intrinsic(w: KernelWriter, op: llvm.CallIntrinsicOp) -> None:
    args = operands_of(op)
    key = op.intrin.data.removeprefix("llvm.")
    known = next((k for k in _BY_NAME if key == k or key.startswith(k + ".")), None)
    if known is None or not op.results:
        refuse(op, f"of {op.intrin.data}")
    (result,) = op.results
    kinds = [w.kind_of(a) for a in args]
    w.names[result] = w.intrinsic(known, w.kind_of(result), [w.names[a] for a in args], kinds, None)


_BY_NAME = (*INTRINSICS.values(), "ctpop", "ctlz", "cttz", "abs", "smin", "smax", "umin", "umax", "minnum", "maxnum",
            "minimum", "maximum", "rint")  # fmt: skip


def _nothing(w: KernelWriter, op: Operation) -> None:
    """Memory has one view here, and threads take turns."""


# --- ids and meetings ---------------------------------------------------------------------------------------------


def _index(text: str) -> Rule:
    def rule(w: KernelWriter, op: Any) -> None:
        w.names[op.results[0]] = w.assign(kind("i64"), text.format("xyz".index(op.dimension.data)))

    return rule


def _lane_id(w: KernelWriter, op: Operation) -> None:
    w.names[op.results[0]] = w.assign(kind("i64"), f"t.tid & {w.warp - 1}")


def _subgroup_size(w: KernelWriter, op: Operation) -> None:
    w.names[op.results[0]] = str(w.warp)


def _barrier(w: KernelWriter, op: gpu.BarrierOp) -> None:
    if op.of_warp:
        w.line(f"block.leave(t.tid, {w.left(kind('i32'), '0')})")
        w.suspend(0)
    else:
        w.suspend(BARRIER)


def _meet(w: KernelWriter, value: SSAValue) -> None:
    """Leave a value for the warp and meet it."""
    w.line(f"block.leave(t.tid, {w.left(w.kind_of(value), w.names[value])})")
    w.suspend(0)


def _shuffle(w: KernelWriter, op: gpu.ShuffleOp) -> None:
    lane = w.assign(kind("i32"), f"t.tid & {w.warp - 1}")
    source, valid = source_lane(w, op, lane, str(w.warp))
    _meet(w, op.value)
    w.names[op.shuffle_result] = w.taken(w.kind_of(op.value), source)
    w.names[op.valid] = valid


def _ballot(w: KernelWriter, op: gpu_warp.BallotOp) -> None:
    _meet(w, op.predicate)
    (result,) = op.results
    w.names[result] = w.assign(w.kind_of(result), "block.ballot(t.tid)")


def _vote(w: KernelWriter, op: gpu_warp.VoteOp) -> None:
    _meet(w, op.predicate)
    (result,) = op.results
    text = "block.ballot(t.tid) != 0" if op.mode.data == "any" else "block.ballot(t.tid, False) == 0"
    w.names[result] = w.assign(w.kind_of(result), text)


def _broadcast(w: KernelWriter, op: gpu_warp.SubgroupBroadcastOp) -> None:
    _meet(w, op.value)
    lane = "block.first(t.tid)" if op.lane is None else f"{w.names[op.lane]} & {w.warp - 1}"
    w.names[op.result] = w.taken(w.kind_of(op.value), lane)


def _number(attr: Attribute) -> int:
    return cast(Any, attr).value.data


def _deposit(w: KernelWriter, op: fly_cpu.DepositOp) -> None:
    group = _number(op.group) or w.warp
    w.names[op.at] = w.assign(kind("ptr"), f"block.region(True, t.tid, {group})")
    w.names[op.stride] = str(w.how.slot)


def _rendezvous(w: KernelWriter, op: fly_cpu.RendezvousOp) -> None:
    w.suspend(0)
    w.names[op.at] = w.assign(kind("ptr"), f"block.region(False, t.tid, {_number(op.group) or w.warp})")


def _lane(w: KernelWriter, op: fly_cpu.LaneOp) -> None:
    w.names[op.result] = w.assign(kind("i64"), f"t.tid & {(_number(op.group) or w.warp) - 1}")


def _yield(w: KernelWriter, op: fly_cpu.YieldOp) -> None:
    w.suspend(POLL, f"{where(op)}: memory was looked at again and again")


def _wait(w: KernelWriter, op: fly_cpu.WaitOp) -> None:
    w.suspend(WAIT, f"{where(op)}: a wait for {op.what.data} never ends")


def _call(w: KernelWriter, op: fly_cpu.CallOp) -> None:
    name = op.callee.data
    if name.startswith(CHECKS):
        return
    args = "".join(f", {w.names[v]}" for v in op.args)
    text = f"block.call({name!r}, t.tid{args})"
    if op.res:
        w.names[op.res[0]] = w.assign(w.kind_of(op.res[0]), text)
    else:
        w.line(text)


def _emulated(w: KernelWriter, op: func.CallOp) -> None:
    """A function that does the work of an instruction, in its place."""
    body = w.functions.get(op.callee.string_value())
    if body is None:
        refuse(op, f"of {op.callee.string_value()}")
    for arg, given in zip(body.args, operands_of(op), strict=True):
        w.names[arg] = w.names[given]
    end = w.block(body)
    assert end is not None
    for result, value in zip(op.results, operands_of(end), strict=True):
        w.names[result] = w.names[value]


def _line(w: KernelWriter, op: fly_cpu.LineOp) -> None:
    names = tuple(w.names[v] for v in op.values)
    w.marks.append(Mark(_number(op.site), names, tuple(w.kind_of(v) for v in op.values)))
    w.line(f"yield {len(w.marks) - 1}")


def _printf(w: KernelWriter, op: gpu.PrintfOp) -> None:
    kinds = w.bind([w.kind_of(v) for v in op.args])
    args = "".join(f"{w.names[v]}, " for v in op.args)
    w.line(f"block.print({w.bind(printed, 'printed')}({op.format.data!r}, {kinds}, ({args})))")


RULES: dict[type[Operation], Rule] = {
    **ARITH,
    **VECTOR,
    **math_rules(INTRINSICS),
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.WhileOp: _while,
    llvm.LoadOp: _load,
    llvm.StoreOp: _store,
    llvm.GEPOp: _gep,
    llvm.AllocaOp: _alloca,
    llvm.AddressOfOp: _address_of,
    llvm.AtomicRMWOp: _atomic,
    CmpXchgOp: _cmpxchg,
    FenceOp: _nothing,
    llvm.ExtractValueOp: _extract_value,
    llvm.InsertValueOp: _insert_value,
    llvm.PtrToIntOp: _cast("ptrtoint"),
    llvm.IntToPtrOp: _cast("inttoptr"),
    llvm.BitcastOp: _cast("bitcast"),
    llvm.UndefOp: _undefined,
    llvm.CallIntrinsicOp: _call_intrinsic,
    gpu.ThreadIdOp: _index("t.ids[{0}]"),
    gpu.BlockIdOp: _index("block.ids[{0}]"),
    gpu.BlockDimOp: _index("block.size[{0}]"),
    gpu.GridDimOp: _index("block.grid[{0}]"),
    gpu.LaneIdOp: _lane_id,
    gpu.SubgroupSizeOp: _subgroup_size,
    gpu.BarrierOp: _barrier,
    gpu.ShuffleOp: _shuffle,
    gpu_warp.BallotOp: _ballot,
    gpu_warp.VoteOp: _vote,
    gpu_warp.SubgroupBroadcastOp: _broadcast,
    gpu.PrintfOp: _printf,
    func.CallOp: _emulated,
    fly_cpu.DepositOp: _deposit,
    fly_cpu.RendezvousOp: _rendezvous,
    fly_cpu.LaneOp: _lane,
    fly_cpu.YieldOp: _yield,
    fly_cpu.WaitOp: _wait,
    fly_cpu.CallOp: _call,
    fly_cpu.ExtentOp: _nothing,
    fly_cpu.CountOp: _nothing,
    fly_cpu.LineOp: _line,
}
"""What writes the ops of a kernel."""

__all__ = ["Kernel", "KernelWriter", "Mark", "operations"]
