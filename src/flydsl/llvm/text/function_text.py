"""A function of LLVM IR text being written: the sink of rules that is fastest, and what walks the ops.

Constants have no line of their own: their literal is their name. A pure instruction is written once where its first
place dominates the others, and so is a load with nothing between that may write: the text is the same whether equal ops
were shared before or not. What differs between targets is in the table of rules and, for code that runs on the host,
in `Abi`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from xdsl.dialects import func
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...dialects.upstream import gpu, scf
from ...dialects.upstream.llvm.gep import no_wrap_words
from ...errors import DSLCompileError, FlyDSLError
from ...ir.builder import elem_of, i64
from ...ir.dead_code import is_used, mark_dead, unread_stores
from ...lowering.rules.sink import Sink, Sizes
from .module_text import ModuleText
from .spelling import LLVM, Spelling, flag_words, quoted, symbol

TERMINATORS = (scf.YieldOp, scf.ConditionOp, gpu.ReturnOp, func.ReturnOp)


_INSTRUCTION_DIALECTS = ("rocdl", "nvvm")
"""Dialects whose ops are instructions of a target."""


class Abi:
    """What host code and the cpu stack do in their own way; a GPU needs nothing but its rules."""

    rules: ClassVar[Mapping[type[Operation], Handler]] = {}
    """What writes the ops of a function of the upper dialects."""
    late: ClassVar[Mapping[str, Handler]] = {}
    """The same by name, for dialects few functions need."""
    shares: ClassVar[bool] = True
    """Whether equal instructions are written once."""
    own_memory: ClassVar[str] = ""
    """What says of an atomic update within the device that its memory is the device's own, as its allocator gives it.

    On AMD LLVM takes a loop of compare-and-swap for whatever is not defined in memory shared with the host.
    """
    relaxes_updates: ClassVar[bool] = False
    """Whether LLVM drops the ordering of atomic updates, and takes the device's scope for the system's."""
    checked: bool = False
    """Whether memory accesses and fences go through `access` and `fence` here."""
    block: Sizes | None = None
    grid: Sizes | None = None

    def __init__(self, block: Sizes | None = None, grid: Sizes | None = None):
        self.block, self.grid = block, grid

    def instruction(self, op: Operation) -> Handler | None:
        """What writes an op of the target's own dialect."""
        handler = self.late.get(op.name)
        if handler is None and op.dialect_name() in _INSTRUCTION_DIALECTS:
            # Loads a large table; most modules have no such op.
            from .instructions import INSTRUCTIONS

            return INSTRUCTIONS.get(type(op))
        return handler

    def divisor(self, f: FunctionText, op: Operation, signed: bool) -> str:
        """What an integer division is to divide by."""
        return f.names[op.operands[1]]

    def access(self, f: FunctionText, op: Operation, text: str | None) -> None:
        """A checked access, whose instruction is `text`; plain loads and stores bring none."""
        raise NotImplementedError

    def update(self, f: FunctionText, op: Operation, word: str) -> str | None:
        """The instruction of an atomic update that LLVM's own cannot do; None for the others."""
        return None

    def fence(self, f: FunctionText, op: Operation) -> None:
        """What comes before a fence in checked code."""
        raise NotImplementedError

    def address_of(self, f: FunctionText, name: str) -> str:
        """Address of a global of the module."""
        return f"@{symbol(name)}"

    def launch(self, f: FunctionText, op: gpu.LaunchFuncOp) -> None:
        """A kernel launch in host code."""
        raise DSLCompileError("gpu.launch_func in device code")


_NUMBERED = re.compile(r'"[^"]*"|%(v|room)(\d+)\b')


class FunctionText(Sink[str]):
    """A function body being written."""

    spelling: ClassVar[Spelling] = LLVM
    """How its types and numbers are written."""

    def __init__(self, module: ModuleText, abi: Abi, op: Operation):
        self.module = module
        self.abi = abi
        self.type_text = self.spelling.type_text
        self.op = op
        self.rules = abi.rules
        self.block_size, self.grid_size = abi.block, abi.grid
        self.lines: list[str] = []
        self.names: dict[SSAValue, str] = {}
        self.label = "entry"
        self._count = 0
        self._labels = 0
        self._rooms = 0
        self.known: dict[str, str] = {}
        """Pure instructions in reach and their names; what a region adds goes when it is done."""
        self._loads: dict[str, str] = {}
        """The same for loads, until something may write."""
        if not abi.shares:
            self.pure = self.read = self.assign
        self.notes: set[str] = set()
        self.dead = mark_dead(op, dead=unread_stores(op))
        self.kept: set[SSAValue] = set()
        """Values of a coroutine that must not be computed again."""
        self.locations = None if module.debug is None else module.debug.function(op)
        """Gives the source location of an op as metadata, if line tables are wanted."""

    # --- names and lines ------------------------------------------------------------------------------------------

    def fresh(self) -> str:
        """A new value name."""
        self._count += 1
        return f"%v{self._count}"

    def line(self, text: str) -> None:
        """Append an instruction without a result."""
        if self._loads:
            self._loads.clear()
        self.lines.append("  " + text)

    def assign(self, text: str) -> str:
        """Append an instruction with a result and effects; give its name."""
        if self._loads:
            self._loads.clear()
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def pure(self, text: str) -> str:
        """An instruction without effects, once."""
        name = self.known.get(text)
        if name is None:
            self._count += 1
            name = self.known[text] = f"%v{self._count}"
            self.lines.append(f"  {name} = {text}")
        return name

    def read(self, text: str) -> str:
        """A load, once as long as nothing writes."""
        name = self._loads.get(text)
        if name is None:
            self._count += 1
            name = self._loads[text] = f"%v{self._count}"
            self.lines.append(f"  {name} = {text}")
        return name

    def forget(self, mark: int) -> None:
        """Forget the instructions known since there were `mark` of them: they do not dominate what comes."""
        known = self.known
        while len(known) > mark:
            known.popitem()

    def start(self, label: str) -> None:
        """Begin a basic block."""
        self._loads.clear()
        self.lines.append(f"{label}:")
        self.label = label

    def new_label(self) -> str:
        """A new block label."""
        self._labels += 1
        return f"b{self._labels}"

    def typed(self, value: SSAValue) -> str:
        """`type name`."""
        return f"{self.type_text(value._type)} {self.names[value]}"  # pyright: ignore[reportPrivateUsage]

    def typed_list(self, values: Sequence[SSAValue]) -> str:
        """The same of several, with commas."""
        names = self.names
        return ", ".join([f"{self.type_text(v._type)} {names[v]}" for v in values])  # pyright: ignore[reportPrivateUsage]

    def intrinsic(self, name: str, result: str, params: Sequence[str], args: Sequence[str], flags: str = "") -> str:
        """Call an intrinsic with a result."""
        return self.assign(self.call_text(name, result, params, args, flags))

    def call_void(self, name: str, params: Sequence[str], args: Sequence[str]) -> None:
        """Call an intrinsic without a result."""
        self.line(self.call_text(name, "void", params, args, ""))

    def call_text(self, name: str, result: str, params: Sequence[str], args: Sequence[str], flags: str) -> str:
        """The call of an intrinsic, which is declared."""
        self.module.declare(name, result, params)
        actual = ", ".join([f"{t} {a}" for t, a in zip(params, args, strict=True)])
        return f"call {flags}{result} @{name}({actual})"

    def take(self, text: str) -> str:
        """Stack memory at the head of the function, in the order it was asked for."""
        name = f"%room{self._rooms}"
        self._rooms += 1
        self.lines.insert(self._rooms, f"  {name} = alloca {text}")
        return name

    def written(self) -> int:
        """How many lines there are without those of stack memory: they have no place in the source, and move others."""
        return len(self.lines) - self._rooms

    def number_rooms(self) -> None:
        """Number stack memory at the head of the function as what it is, the first of its values.

        A function that comes as blocks has them there. Texts in quotes (inline assembly) stay as they are.
        """
        if not self._rooms:
            return

        def renamed(match: re.Match[str]) -> str:
            kind, number = match[1], match[2]
            if kind is None:
                return match[0]
            return f"%v{int(number) + (1 if kind == 'room' else self._rooms)}"

        self.lines = [_NUMBERED.sub(renamed, line) for line in self.lines]

    # --- values ---------------------------------------------------------------------------------------------------

    def value(self, old: SSAValue, /) -> str:
        return self.names[old]

    def give(self, old: SSAValue, new: str, /) -> None:
        self.names[old] = new

    def used(self, result: SSAValue) -> bool:
        return is_used(result, self.dead)

    def note(self, what: str) -> None:
        self.notes.add(what)

    def constant(self, attr: Attribute, type_: Attribute) -> str:
        return self.spelling.constant(attr, type_)

    def number(self, value: int | float, type_: Attribute) -> str:
        return self.spelling.splat(value, type_)

    def poison(self, type_: Attribute) -> str:
        return "poison"

    def null(self, type_: Attribute) -> str:
        return "null"

    # --- arithmetic -----------------------------------------------------------------------------------------------

    def binary(self, word: str, type_: Attribute, a: str, b: str, flags: Attribute | None = None) -> str:
        if flags is not None:
            return self.pure(f"{word} {flag_words(flags)}{self.type_text(type_)} {a}, {b}")
        return self.pure(f"{word} {self.type_text(type_)} {a}, {b}")

    def divisor(self, op: Operation, signed: bool) -> str:
        return self.abi.divisor(self, op, signed)

    def fneg(self, type_: Attribute, a: str, flags: Attribute | None = None) -> str:
        return self.pure(f"fneg {'' if flags is None else flag_words(flags)}{self.type_text(type_)} {a}")

    def cast(self, word: str, a: str, source: Attribute, target: Attribute) -> str:
        s, t = self.type_text(source), self.type_text(target)
        return a if s == t else self.pure(f"{word} {s} {a} to {t}")

    def icmp(self, predicate: str, type_: Attribute, a: str, b: str) -> str:
        return self.pure(f"icmp {predicate} {self.type_text(type_)} {a}, {b}")

    def fcmp(self, predicate: str, type_: Attribute, a: str, b: str, flags: Attribute | None = None) -> str:
        words = "" if flags is None else flag_words(flags)
        return self.pure(f"fcmp {words}{predicate} {self.type_text(type_)} {a}, {b}")

    def select(
        self, cond_type: Attribute, type_: Attribute, cond: str, a: str, b: str, flags: Attribute | None = None
    ) -> str:
        t, words = self.type_text(type_), "" if flags is None else flag_words(flags)
        return self.pure(f"select {words}{self.type_text(cond_type)} {cond}, {t} {a}, {t} {b}")

    def intr(
        self,
        key: str,
        result: Attribute,
        args: Sequence[str],
        types: Sequence[Attribute],
        flags: Attribute | None = None,
        immediate: int | None = None,
    ) -> str:
        """LLVM appends the type of the first operand, of the vector to a reduction, and of the power to `powi`."""
        name = f"llvm.{key}.{self.spelling.mangle(types[-1] if key.startswith('vector.') else types[0])}"
        if key == "powi":
            name += f".{self.spelling.mangle(types[1])}"
        params, values = [self.type_text(t) for t in types], args
        if immediate is not None:
            params, values = [*params, "i32" if key == "is.fpclass" else "i1"], [*args, _immediate(key, immediate)]
        words = "" if flags is None else flag_words(flags)
        return self.pure(self.call_text(name, self.type_text(result), params, values, words))

    # --- vectors --------------------------------------------------------------------------------------------------

    def element(self, type_: Attribute, v: str, at: int | str, index: Attribute = i64) -> str:
        return self.pure(f"extractelement {self.type_text(type_)} {v}, {self.type_text(index)} {at}")

    def with_element(self, type_: Attribute, v: str, x: str, at: int | str, index: Attribute = i64) -> str:
        elem = self.type_text(elem_of(type_))
        return self.pure(f"insertelement {self.type_text(type_)} {v}, {elem} {x}, {self.type_text(index)} {at}")

    def shuffle(self, type_: Attribute, a: str, b: str | None, mask: Sequence[int]) -> str:
        t = self.type_text(type_)
        if b is None:
            if len(mask) == int(t[1 : t.index(" ")]) and all(i == m for i, m in enumerate(mask)):
                return a
            b = "poison"
        lanes = ", ".join([f"i32 {m}" if m >= 0 else "i32 poison" for m in mask])
        return self.pure(f"shufflevector {t} {a}, {t} {b}, <{len(mask)} x i32> <{lanes}>")

    # --- memory and calls -----------------------------------------------------------------------------------------

    def load(self, type_: Attribute, at: str, pointer: Attribute, align: int, *, invariant: bool = False) -> str:
        text = f"load {self.type_text(type_)}, {self.type_text(pointer)} {at}{_aligned(align)}"
        if not invariant:
            return self.read(text)
        self.module.metadata(EMPTY_NODE)
        return self.pure(f"{text}, !invariant.load !8001")

    def store(self, type_: Attribute, x: str, at: str, pointer: Attribute, align: int) -> None:
        self.line(f"store {self.type_text(type_)} {x}, {self.type_text(pointer)} {at}{_aligned(align)}")

    def address(self, elem: Attribute, base: str, pointer: Attribute, indices: Sequence[int], flags: int = 0) -> str:
        words = "".join(f"{w} " for w in no_wrap_words(flags))
        places = ", ".join(f"i32 {i}" for i in indices)
        return self.pure(f"getelementptr {words}{self.type_text(elem)}, {self.type_text(pointer)} {base}, {places}")

    def room(self, elem: Attribute, align: int) -> str:
        return self.take(f"{self.type_text(elem)}{_aligned(align)}")

    def fence(self, ordering: str, scope: str) -> None:
        self.line(f'fence syncscope("{scope}") {ordering}')

    def instruction(
        self, name: str, intrinsic: str, result: Attribute | None, args: Sequence[str] = (),
        types: Sequence[Attribute] = (), *, pure: bool = False, bound: int | None = None, defined: bool = False,
        keywords: Mapping[str, str] = {}, immediates: Sequence[tuple[Attribute, int]] = (),
        expand: Callable[[Sink[Any]], Any] | None = None,
    ) -> str:  # fmt: skip
        if expand is not None:
            return expand(self)
        params = [*map(self.type_text, types), *(self.type_text(t) for t, _ in immediates)]
        values = [*args, *(self.spelling.literal(n, t) for t, n in immediates)]
        if result is None:
            self.call_void(intrinsic, params, values)
            return ""
        t = self.type_text(result)
        facts = ("noundef " if defined else "") + ("" if bound is None else f"range({t} 0, {bound}) ")
        text = self.call_text(intrinsic, t, params, values, facts)
        return self.pure(text) if pure else self.assign(text)

    def spelled_for(self, name: str) -> Callable[[Attribute], str]:
        """How types are written in the signature of a function."""
        return self.type_text

    def instead(self, name: str, result: Attribute, args: Sequence[str], types: Sequence[Attribute]) -> str | None:
        """What is written instead of an intrinsic by its full name; None for the call of it."""
        return None

    def call(
        self, name: str, result: Attribute | None, args: Sequence[str], types: Sequence[Attribute], *,
        fixed: int | None = None, memory: str | None = None, words: str = "",
    ) -> str:  # fmt: skip
        spell = self.spelled_for(name)
        params, known = [spell(t) for t in types], symbol(name)
        t = "void" if result is None else spell(result)
        taken = params if fixed is None else [*params[:fixed], "..."]
        self.module.declarations.setdefault(name, f"declare {t} @{known}({', '.join(taken)})")
        signature = t if fixed is None else f"{t} ({', '.join(taken)})"
        actual = ", ".join(f"{p} {a}" for p, a in zip(params, args, strict=True))
        text = f"call {signature} @{known}({actual}){memory_words(memory) or words}"
        if result is not None:
            return self.assign(text)
        self.line(text)
        return ""

    def text(self, text: str, prefix: str, space: int) -> str:
        return f"@{self.module.constant_text(text, prefix, space)}"

    def asm(
        self,
        text: str,
        constraints: str,
        result: Attribute | None,
        args: Sequence[str],
        types: Sequence[Attribute],
        memory: str | None,
        effects: bool = True,
    ) -> str:
        words = " sideeffect" if memory is None and effects else ""
        t = "void" if result is None else self.type_text(result)
        actual = ", ".join(f"{self.type_text(p)} {a}" for p, a in zip(types, args, strict=True))
        what = f"asm{words} {quoted(text.encode())}, {quoted(constraints.encode())}"
        call = f"call {t} {what}({actual}){memory_words(memory)}"
        if result is not None:
            return self.assign(call)
        self.line(call)
        return ""

    # --- walking --------------------------------------------------------------------------------------------------

    def region(self, block: Block) -> Operation | None:
        """Write a block that does not dominate what comes behind it."""
        mark = len(self.known)
        end = self.block(block)
        self.forget(mark)
        return end

    def block(self, block: Block) -> Operation | None:
        """Write all ops of a block but its terminator, which is returned."""
        op: Any = block.first_op
        last = block.last_op
        if self.locations is not None:
            return self._located(block)
        dead, kept, rules = self.dead, self.kept, self.rules
        while op is not None:
            if id(op) in dead:
                op = op._next_op
                continue
            handler = rules.get(type(op))  # pyright: ignore[reportUnknownArgumentType]
            if handler is None:
                if op is last and isinstance(op, TERMINATORS):
                    return op
                handler = self.late(op)
            handler(self, op)
            if kept and op.results and op.results[0] in kept:
                value = op.results[0]
                self.names[value] = self.assign(f"freeze {self.typed(value)}")
            op = op._next_op
        return None

    def place(self, op: Operation, start: int) -> None:
        """Give the instructions from `start` on the location of an op, before others follow."""
        if self.locations is not None:
            self.locations.annotate(self.lines, start, op)

    def late(self, op: Operation) -> Handler:
        """What writes an op that the table does not know."""
        handler = self.abi.instruction(op)
        if handler is None and op.name.startswith("llvm."):
            # Few kernels hold ops of `llvm` beyond memory, and theirs bring the tables of all instructions with them.
            from .llvm_ops import STRAIGHT

            handler = STRAIGHT.get(type(op))
        if handler is not None:
            return handler
        write = getattr(op, "write_llvm", None)
        if write is None:
            raise DSLCompileError(f"no translation of '{op.name}' to LLVM IR")
        return lambda f, _: write(f)

    def write(self, op: Operation) -> None:
        handler = self.rules.get(type(op)) or self.late(op)
        handler(self, op)

    def _located(self, block: Block) -> Operation | None:
        """The same with a source location on every instruction."""
        for op in block.ops:
            if id(op) in self.dead:
                continue
            if op is block.last_op and isinstance(op, TERMINATORS):
                return op
            start = self.written()
            try:
                self.write(op)
            except (FlyDSLError, NotImplementedError) as error:
                if not hasattr(error, "ir_location"):
                    error.ir_location = op.location  # pyright: ignore[reportAttributeAccessIssue]
                raise
            if op.results and op.results[0] in self.kept:
                value = op.results[0]
                self.names[value] = self.assign(f"freeze {self.typed(value)}")
            self.place(op, start + self._rooms)
        return None


Handler = Callable[[FunctionText, Any], None]

EMPTY_NODE = "!8001 = !{}"
"""Metadata of loads that always give the same."""


def memory_words(memory: str | None) -> str:
    """What is known of a call that does nothing unexpected."""
    return "" if memory is None else f" nounwind willreturn memory({memory})"


def _aligned(align: int) -> str:
    return f", align {align}" if align else ""


def _immediate(key: str, value: int) -> str:
    return str(value) if key == "is.fpclass" else "true" if value else "false"
