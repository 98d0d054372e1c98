"""From `arith`, `scf`, `vector`, `math`, `gpu` and `llvm` ops straight to LLVM IR text.

One walk, one table from op class to a function that appends lines. Constants have no line of their own: their literal
is their name. A block argument of a loop is a phi whose incoming values are filled in when the loop is closed.
What differs between targets (ids, barriers, kernel signature, math) is behind `Abi`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.dialects import func, math, ub, vector
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...dialects import fly_cpu
from ...dialects.upstream import gpu, llvm, scf
from ...dialects.upstream import vector as fvector
from ...dialects.upstream.extra_math import ErfcOp, RemFOp
from ...dialects.upstream.gpu import warp as gpu_warp
from ...dialects.upstream.llvm.atomics import CmpXchgOp, FenceOp
from ...dialects.upstream.llvm.gep import no_wrap_words
from ...dialects.upstream.llvm.memory import ORDERING_WORDS
from ...errors import DSLCompileError, FlyDSLError
from ...ir import arith
from ...ir.builder import CASTS, CMPF, CMPI, INT_BINARY, elem_of, operands_of
from ...ir.dead_code import PURE_CALL, mark_dead, unread_stores
from ...ir.identity import by_identity
from .debug_info import DebugInfo, FunctionLocations

_FLOATS: dict[type[Attribute], str] = {
    Float16Type: "half",
    BFloat16Type: "bfloat",
    Float32Type: "float",
    Float64Type: "double",
}


@by_identity
def type_text(type_: Attribute) -> str:
    """LLVM spelling of a type."""
    return _spell(type_)


@by_identity
def int_list(attr: Attribute) -> tuple[int, ...]:
    """The numbers of an `array<i32: ...>` or `array<i64: ...>`, whose unpacking takes longer than writing them."""
    return tuple(cast(DenseArrayBase[Any], attr).get_values())


def _spell(type_: Attribute) -> str:
    if isinstance(type_, IntegerType):
        return f"i{type_.width.data}"  # pyright: ignore[reportUnknownMemberType]
    if isinstance(type_, IndexType):
        return "i64"
    found = _FLOATS.get(type(type_))
    if found is not None:
        return found
    if isinstance(type_, VectorType):
        return f"<{type_.get_shape()[0]} x {type_text(cast(VectorType, type_).element_type)}>"
    if isinstance(type_, llvm.LLVMPointerType):
        space = llvm.address_space(type_)
        return f"ptr addrspace({space})" if space else "ptr"
    if isinstance(type_, llvm.StructType):
        inner = ", ".join(type_text(t) for t in type_.fields)
        return f"<{{ {inner} }}>" if type_.packed else f"{{ {inner} }}"
    if isinstance(type_, llvm.LLVMArrayType):
        return f"[{type_.size.data} x {type_text(type_.type)}]"
    if isinstance(type_, gpu.AsyncTokenType):
        return "ptr"
    bits = getattr(type_, "bitwidth", None)
    if bits is not None:
        return f"i{bits}"
    own = getattr(type_, "llvm_text", None)
    if own is not None:
        return own
    raise DSLCompileError(f"type {type_} has no LLVM counterpart")


def float_text(value: float, type_: Attribute) -> str:
    """A float literal by its bits."""
    if isinstance(type_, Float64Type):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if isinstance(type_, Float16Type):
        return f"0xH{struct.unpack('<H', _half(value))[0]:04X}"
    bits = struct.unpack("<I", _single(value))[0]
    if isinstance(type_, BFloat16Type):
        if value != value:
            return "0xR7FC0"
        return f"0xR{((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF:04X}"
    if isinstance(type_, Float32Type):
        rounded = struct.unpack("<f", struct.pack("<I", bits))[0]
        return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    raise DSLCompileError(f"no literals of type {type_}")


def _single(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))


def _half(value: float) -> bytes:
    try:
        return struct.pack("<e", value)
    except OverflowError:
        return struct.pack("<e", float("inf") if value > 0 else float("-inf"))


def literal(value: Any, type_: Attribute) -> str:
    """Text of a scalar constant."""
    if isinstance(type_, (IntegerType, IndexType)):
        return str(int(value))
    return float_text(float(value), type_)


class Abi:
    """What a target decides about a function's text."""

    def instruction(self, op: Operation) -> Handler | None:
        """What writes an op of the target's own dialect."""
        return None

    def index(self, f: FunctionText, kind: str, dim: str) -> str:
        """An i64 with a thread or block id or dimension."""
        raise NotImplementedError(f"gpu.{kind} on this target")

    def lane_id(self, f: FunctionText) -> str:
        """An i64 with the lane."""
        raise NotImplementedError("gpu.lane_id on this target")

    def divisor(self, f: FunctionText, op: Operation, signed: bool) -> str:
        """What an integer division is to divide by."""
        return f.names[op.operands[1]]

    def barrier(self, f: FunctionText, op: Operation) -> None:
        """A block barrier."""
        raise NotImplementedError("gpu.barrier on this target")

    def subgroup_size(self, f: FunctionText) -> str:
        """An i64 with the lanes of a warp."""
        raise NotImplementedError("gpu.subgroup_size on this target")

    def shuffle(self, f: FunctionText, op: gpu.ShuffleOp) -> None:
        """A value of another lane."""
        raise NotImplementedError("gpu.shuffle on this target")

    def ballot(self, f: FunctionText, predicate: str) -> str:
        """An i64 with a bit per lane."""
        raise NotImplementedError("gpu.ballot on this target")

    def vote(self, f: FunctionText, predicate: str, mode: str) -> str:
        """An i1: `any` or `all` of the lanes."""
        raise NotImplementedError("gpu.vote on this target")

    def broadcast(self, f: FunctionText, op: gpu_warp.SubgroupBroadcastOp) -> None:
        """The value of one lane."""
        raise NotImplementedError("gpu.subgroup_broadcast on this target")

    checked: bool = False
    """Whether memory accesses go through `load` and `store` here."""

    def load(self, f: FunctionText, op: Operation) -> None:
        """A checked load."""
        raise NotImplementedError

    def store(self, f: FunctionText, op: Operation) -> None:
        """A checked store."""
        raise NotImplementedError

    def printf(self, f: FunctionText, text: str, values: Sequence[SSAValue]) -> None:
        """Print by a format of C."""
        raise NotImplementedError("printing on this target")

    def address_of(self, f: FunctionText, name: str) -> str:
        """Address of a global of the device module."""
        return f"@{name}"

    def synchronize(self, f: FunctionText, op: Operation) -> None:
        """An op of `fly_cpu`."""
        raise DSLCompileError(f"'{op.name}' exists on the cpu stack alone")

    def math(self, f: FunctionText, name: str, type_: Attribute, args: Sequence[str], flags: str) -> str:
        """A function of the `math` dialect."""
        intrinsic = INTRINSICS.get(name)
        if intrinsic is None or (name not in self.native_math):
            raise NotImplementedError(f"math.{name} on {type_} has no lowering for this target yet")
        return f.intrinsic(
            f"llvm.{intrinsic}.{mangle(type_)}", type_text(type_), [type_text(type_)] * len(args), args, flags
        )

    native_math: frozenset[str] = frozenset()

    def launch(self, f: FunctionText, op: gpu.LaunchFuncOp) -> None:
        """A kernel launch in host code."""
        raise DSLCompileError("gpu.launch_func in device code")


INTRINSICS = {
    "absf": "fabs",
    "ceil": "ceil",
    "floor": "floor",
    "trunc": "trunc",
    "round": "round",
    "roundeven": "roundeven",
    "sqrt": "sqrt",
    "exp": "exp",
    "exp2": "exp2",
    "log": "log",
    "log2": "log2",
    "log10": "log10",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "atan2": "atan2",
    "powf": "pow",
    "copysign": "copysign",
    "fma": "fma",
}
"""Functions of `math` that are LLVM intrinsics of the same meaning; a target lists those it can select."""

SIMPLE_MATH = frozenset({"absf", "ceil", "floor", "trunc", "round", "roundeven", "sqrt", "copysign", "fma"})


def mangle(type_: Attribute) -> str:
    """Suffix of an overloaded intrinsic."""
    if isinstance(type_, VectorType):
        return f"v{type_.get_shape()[0]}{mangle(cast(VectorType, type_).element_type)}"
    if isinstance(type_, IndexType):
        return "i64"
    if isinstance(type_, IntegerType):
        return f"i{type_.width.data}"  # pyright: ignore[reportUnknownMemberType]
    return {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}[type_text(type_)]


class ModuleText:
    """A module being written: declarations are collected as they are needed."""

    def __init__(self, triple: str, data_layout: str):
        self.header = [f'target datalayout = "{data_layout}"'] if data_layout else []
        self.header.append(f'target triple = "{triple}"')
        self.declarations: dict[str, str] = {}
        self.globals: list[str] = []
        self.functions: list[str] = []
        self.footer: list[str] = []
        self.notes: dict[str, str] = {}
        """What parts of the translation remember between functions."""
        self.debug: DebugInfo | None = None
        """Writes line tables, if they are wanted."""

    def declare(self, name: str, result: str, params: Sequence[str]) -> None:
        """Note an external function."""
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({', '.join(params)})"

    def text(self) -> str:
        """The whole module."""
        if self.debug is not None:
            self.debug.finish(self.footer)
        parts = [*self.header, "", *self.globals, *self.functions, *self.declarations.values(), "", *self.footer]
        return "\n".join(parts) + "\n"


class FunctionText:
    """A function body being written."""

    def __init__(self, module: ModuleText, abi: Abi, op: Operation):
        self.module = module
        self.abi = abi
        self.op = op
        self.lines: list[str] = []
        self.names: dict[SSAValue, str] = {}
        self.label = "entry"
        self._count = 0
        self._labels = 0
        self.ids: dict[tuple[str, str], str] = {}
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
        """Append an instruction."""
        self.lines.append("  " + text)

    def assign(self, text: str) -> str:
        """Append an instruction with a result; give its name."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def start(self, label: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{label}:")
        self.label = label

    def new_label(self) -> str:
        """A new block label."""
        self._labels += 1
        return f"b{self._labels}"

    def typed(self, value: SSAValue) -> str:
        """`type name`."""
        return f"{type_text(value.type)} {self.names[value]}"

    def intrinsic(self, name: str, result: str, params: Sequence[str], args: Sequence[str], flags: str = "") -> str:
        """Call an intrinsic with a result."""
        self.module.declare(name, result, params)
        actual = ", ".join(f"{t} {a}" for t, a in zip(params, args, strict=True))
        return self.assign(f"call {flags}{result} @{name}({actual})")

    def call_void(self, name: str, params: Sequence[str], args: Sequence[str]) -> None:
        """Call an intrinsic without a result."""
        self.module.declare(name, "void", params)
        actual = ", ".join(f"{t} {a}" for t, a in zip(params, args, strict=True))
        self.line(f"call void @{name}({actual})")

    # --- walking --------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> Operation | None:
        """Write all ops of a block but its terminator, which is returned."""
        op: Any = block.first_op
        last = block.last_op
        if self.locations is not None:
            return self._located(block, self.locations)
        dead, kept = self.dead, self.kept
        while op is not None:
            if id(op) in dead:
                op = op._next_op
                continue
            if op is last and isinstance(op, TERMINATORS):
                return op
            handler = TABLE.get(type(op))  # pyright: ignore[reportUnknownArgumentType]
            if handler is None:
                write = getattr(op, "write_llvm", None)
                if write is not None:
                    write(self)
                    op = op._next_op
                    continue
                handler = self.abi.instruction(op)
                if handler is None:
                    raise DSLCompileError(f"no translation of '{op.name}' to LLVM IR")
            handler(self, op)
            if kept and op.results and op.results[0] in kept:
                value = op.results[0]
                self.names[value] = self.assign(f"freeze {self.typed(value)}")
            op = op._next_op
        return None

    def write(self, op: Operation) -> None:
        """Write one op."""
        handler = TABLE.get(type(op))
        write: Any = getattr(op, "write_llvm", None) if handler is None else None
        if write is not None:
            write(self)
            return
        handler = handler or self.abi.instruction(op)
        if handler is None:
            raise DSLCompileError(f"no translation of '{op.name}' to LLVM IR")
        handler(self, op)

    def _located(self, block: Block, locations: FunctionLocations) -> Operation | None:
        """The same with a source location on every instruction."""
        for op in block.ops:
            if id(op) in self.dead:
                continue
            if op is block.last_op and isinstance(op, TERMINATORS):
                return op
            start = len(self.lines)
            try:
                self.write(op)
            except (FlyDSLError, NotImplementedError) as error:
                if not hasattr(error, "ir_location"):
                    error.ir_location = op.location  # pyright: ignore[reportAttributeAccessIssue]
                raise
            if op.results and op.results[0] in self.kept:
                value = op.results[0]
                self.names[value] = self.assign(f"freeze {self.typed(value)}")
            locations.annotate(self.lines, start, op)
        return None


Handler = Callable[[FunctionText, Any], None]


def flags_of(op: Operation) -> str:
    """Fast-math flags as LLVM writes them, with a trailing space."""
    attr: Any = op.properties.get("fastmath")
    if attr is None or not attr.data:
        return ""
    words = sorted(str(getattr(f, "value", f)) for f in attr.data)
    if len(words) >= 7:
        return "fast "
    return " ".join(words) + " "


_INT_NAMES = {
    "addi": "add", "subi": "sub", "muli": "mul", "divsi": "sdiv", "divui": "udiv", "remsi": "srem", "remui": "urem",
    "andi": "and", "ori": "or", "xori": "xor", "shli": "shl", "shrsi": "ashr", "shrui": "lshr",
}  # fmt: skip
_INT_MINMAX = {"minsi": "smin", "maxsi": "smax", "minui": "umin", "maxui": "umax"}
_FLOAT_NAMES = {arith.AddfOp: "fadd", arith.SubfOp: "fsub", arith.MulfOp: "fmul", arith.DivfOp: "fdiv"}
_FLOAT_MINMAX = {
    arith.MaximumfOp: "maximum",
    arith.MinimumfOp: "minimum",
    arith.MaxnumfOp: "maxnum",
    arith.MinnumfOp: "minnum",
}
_CAST_NAMES = {
    "extsi": "sext", "extui": "zext", "trunci": "trunc", "extf": "fpext", "truncf": "fptrunc", "sitofp": "sitofp",
    "uitofp": "uitofp", "fptosi": "fptosi", "fptoui": "fptoui", "bitcast": "bitcast",
}  # fmt: skip
_CMPI_NAMES = {i: p for p, i in CMPI.items()}
_CMPF_NAMES = {i: p for p, i in CMPF.items()}


def _constant(f: FunctionText, op: arith.ConstantOp) -> None:
    value, result = op.properties["value"], op.results[0]
    type_ = result.type
    if isinstance(value, (IntegerAttr, FloatAttr)):
        f.names[result] = literal(cast(Any, value).value.data, type_)
    elif isinstance(value, DenseIntOrFPElementsAttr):
        elem = elem_of(type_)
        values: Sequence[Any] = cast(Any, value).get_values()
        if len(set(map(repr, values))) == 1:
            f.names[result] = f"splat ({type_text(elem)} {literal(values[0], elem)})"
        else:
            parts = ", ".join(f"{type_text(elem)} {literal(v, elem)}" for v in values)
            f.names[result] = f"<{parts}>"
    else:
        raise DSLCompileError(f"no translation of constant {value}")


def _int_binary(name: str) -> Handler:
    word = _INT_NAMES.get(name)
    if word is not None and name.startswith(("div", "rem")):
        return _division(word)

    def simple(f: FunctionText, op: Operation) -> None:
        a, b = operands_of(op)
        (result,) = op.results
        f.names[result] = f.assign(f"{word} {type_text(a.type)} {f.names[a]}, {f.names[b]}")

    def minmax(f: FunctionText, op: Operation) -> None:
        a, b = operands_of(op)
        t = type_text(a.type)
        name_ = f"llvm.{_INT_MINMAX[name]}.{mangle(a.type)}"
        f.names[op.results[0]] = f.intrinsic(name_, t, [t, t], [f.names[a], f.names[b]])

    return simple if word is not None else minmax


def _division(word: str) -> Handler:
    def divide(f: FunctionText, op: Operation) -> None:
        a, _ = operands_of(op)
        divisor = f.abi.divisor(f, op, word[0] == "s")
        f.names[op.results[0]] = f.assign(f"{word} {type_text(a.type)} {f.names[a]}, {divisor}")

    return divide


def _floordiv(f: FunctionText, op: Operation) -> None:
    """Toward minus infinity: the truncated quotient, less one when signs differ and there is a remainder."""
    a, _ = operands_of(op)
    t, x, y = type_text(a.type), f.names[a], f.abi.divisor(f, op, True)
    q = f.assign(f"sdiv {t} {x}, {y}")
    rest = f.assign(f"srem {t} {x}, {y}")
    inexact = f.assign(f"icmp ne {t} {rest}, {_zero(a.type)}")
    sign = f.assign(f"xor {t} {x}, {y}")
    negative = f.assign(f"icmp slt {t} {sign}, {_zero(a.type)}")
    down = f.assign(f"and {bool_text(a.type)} {inexact}, {negative}")
    one = f.assign(f"sext {bool_text(a.type)} {down} to {t}")
    f.names[op.results[0]] = f.assign(f"add {t} {q}, {one}")


def _ceildiv(f: FunctionText, op: Operation) -> None:
    """Toward plus infinity."""
    a, _ = operands_of(op)
    unsigned = isinstance(op, arith.CeilDivUIOp)
    t, x, y = type_text(a.type), f.names[a], f.abi.divisor(f, op, not unsigned)
    q = f.assign(f"{'udiv' if unsigned else 'sdiv'} {t} {x}, {y}")
    rest = f.assign(f"{'urem' if unsigned else 'srem'} {t} {x}, {y}")
    up = f.assign(f"icmp ne {t} {rest}, {_zero(a.type)}")
    if not unsigned:
        sign = f.assign(f"xor {t} {x}, {y}")
        same = f.assign(f"icmp sge {t} {sign}, {_zero(a.type)}")
        up = f.assign(f"and {bool_text(a.type)} {up}, {same}")
    one = f.assign(f"zext {bool_text(a.type)} {up} to {t}")
    f.names[op.results[0]] = f.assign(f"add {t} {q}, {one}")


def _zero(type_: Attribute) -> str:
    return "zeroinitializer" if isinstance(type_, VectorType) else "0"


def bool_text(type_: Attribute) -> str:
    """The type of a comparison."""
    return f"<{type_.get_shape()[0]} x i1>" if isinstance(type_, VectorType) else "i1"


def _float_binary(f: FunctionText, op: Operation) -> None:
    a, b = operands_of(op)
    word = _FLOAT_NAMES[cast(Any, type(op))]
    f.names[op.results[0]] = f.assign(f"{word} {flags_of(op)}{type_text(a.type)} {f.names[a]}, {f.names[b]}")


def _float_minmax(f: FunctionText, op: Operation) -> None:
    a, b = operands_of(op)
    t = type_text(a.type)
    name = f"llvm.{_FLOAT_MINMAX[cast(Any, type(op))]}.{mangle(a.type)}"
    f.names[op.results[0]] = f.intrinsic(name, t, [t, t], [f.names[a], f.names[b]], flags_of(op))


def _negf(f: FunctionText, op: Operation) -> None:
    (a,) = operands_of(op)
    f.names[op.results[0]] = f.assign(f"fneg {flags_of(op)}{f.typed(a)}")


def _remf(f: FunctionText, op: Operation) -> None:
    a, b = operands_of(op)
    f.names[op.results[0]] = f.assign(f"frem {flags_of(op)}{type_text(a.type)} {f.names[a]}, {f.names[b]}")


def _cast(name: str) -> Handler:
    word = _CAST_NAMES[name]

    def handle(f: FunctionText, op: Operation) -> None:
        (a,) = operands_of(op)
        (result,) = op.results
        source, target = type_text(a.type), type_text(result.type)
        f.names[result] = f.names[a] if source == target else f.assign(f"{word} {source} {f.names[a]} to {target}")

    return handle


def _index_cast(f: FunctionText, op: Operation) -> None:
    (a,) = operands_of(op)
    source, target = type_text(a.type), type_text(op.results[0].type)
    if source == target:
        f.names[op.results[0]] = f.names[a]
        return
    word = "trunc" if int(source[1:]) > int(target[1:]) else "sext"
    f.names[op.results[0]] = f.assign(f"{word} {source} {f.names[a]} to {target}")


def _cmpi(f: FunctionText, op: arith.CmpiOp) -> None:
    a, b = operands_of(op)
    word = _CMPI_NAMES[op.predicate.value.data]
    f.names[op.results[0]] = f.assign(f"icmp {word} {type_text(a.type)} {f.names[a]}, {f.names[b]}")


def _cmpf(f: FunctionText, op: arith.CmpfOp) -> None:
    a, b = operands_of(op)
    word = _CMPF_NAMES[op.predicate.value.data]
    f.names[op.results[0]] = f.assign(f"fcmp {flags_of(op)}{word} {type_text(a.type)} {f.names[a]}, {f.names[b]}")


def _select(f: FunctionText, op: Operation) -> None:
    c, a, b = operands_of(op)
    f.names[op.results[0]] = f.assign(f"select {flags_of(op)}{f.typed(c)}, {f.typed(a)}, {f.typed(b)}")


def _poison(f: FunctionText, op: Operation) -> None:
    f.names[op.results[0]] = "poison"


def _undef(f: FunctionText, op: Operation) -> None:
    f.names[op.results[0]] = "poison"


# --- vectors ------------------------------------------------------------------------------------------------------


def _position(op: Operation) -> list[int]:
    return list(int_list(op.properties["static_position"]))


_DYNAMIC = -(2**63)


def _index_name(f: FunctionText, static: int, dynamic: Sequence[SSAValue]) -> str:
    return f"i64 {static}" if static != _DYNAMIC else f.typed(dynamic[0])


def _vector_extract(f: FunctionText, op: Operation) -> None:
    v, *dynamic = operands_of(op)
    at = _index_name(f, _position(op)[0], dynamic)
    f.names[op.results[0]] = f.assign(f"extractelement {f.typed(v)}, {at}")


def _vector_insert(f: FunctionText, op: Operation) -> None:
    x, v, *dynamic = operands_of(op)
    at = _index_name(f, _position(op)[0], dynamic)
    f.names[op.results[0]] = f.assign(f"insertelement {f.typed(v)}, {f.typed(x)}, {at}")


def _shuffle(f: FunctionText, a: str, b: str, type_: str, mask: Sequence[int]) -> str:
    lanes = ", ".join(f"i32 {m}" if m >= 0 else "i32 poison" for m in mask)
    return f.assign(f"shufflevector {type_} {a}, {type_} {b}, <{len(mask)} x i32> <{lanes}>")


def _vector_broadcast(f: FunctionText, op: Operation) -> None:
    (x,) = operands_of(op)
    type_ = cast(VectorType, op.results[0].type)
    t = type_text(type_)
    splat = [0] * type_.get_shape()[0]
    source = x.type
    if isinstance(source, VectorType):
        f.names[op.results[0]] = _shuffle(f, f.names[x], "poison", type_text(cast(Attribute, source)), splat)
        return
    first = f.assign(f"insertelement {t} poison, {f.typed(x)}, i64 0")
    f.names[op.results[0]] = _shuffle(f, first, "poison", t, splat)


def _vector_shuffle(f: FunctionText, op: Operation) -> None:
    a, b = operands_of(op)
    mask = int_list(op.properties["mask"])
    if a.type == b.type:
        f.names[op.results[0]] = _shuffle(f, f.names[a], f.names[b], type_text(a.type), mask)
        return
    na, nb = (cast(VectorType, v.type).get_shape()[0] for v in (a, b))
    n = max(na, nb)
    wide = [
        _shuffle(f, f.names[v], "poison", type_text(v.type), [*range(k), *[-1] * (n - k)]) if k < n else f.names[v]
        for v, k in ((a, na), (b, nb))
    ]
    elem = type_text(elem_of(a.type))
    moved = [m if m < na else m - na + n for m in mask]
    f.names[op.results[0]] = _shuffle(f, wide[0], wide[1], f"<{n} x {elem}>", moved)


def _from_elements(f: FunctionText, op: Operation) -> None:
    t = type_text(op.results[0].type)
    whole = "poison"
    for i, x in enumerate(operands_of(op)):
        whole = f.assign(f"insertelement {t} {whole}, {f.typed(x)}, i64 {i}")
    f.names[op.results[0]] = whole


def _offset(op: Operation) -> int:
    return cast(Any, op.properties["offsets"]).data[0].value.data


def _extract_slice(f: FunctionText, op: Operation) -> None:
    (v,) = operands_of(op)
    count = cast(VectorType, op.results[0].type).get_shape()[0]
    start = _offset(op)
    f.names[op.results[0]] = _shuffle(f, f.names[v], "poison", type_text(v.type), range(start, start + count))


def _insert_slice(f: FunctionText, op: Operation) -> None:
    """Widen the small vector, then blend."""
    x, v = operands_of(op)
    small, whole = (cast(VectorType, t.type).get_shape()[0] for t in (x, v))
    start = _offset(op)
    if small == whole:
        f.names[op.results[0]] = f.names[x]
        return
    wide = _shuffle(f, f.names[x], "poison", type_text(x.type), [*range(small), *[-1] * (whole - small)])
    mask = [whole + i - start if start <= i < start + small else i for i in range(whole)]
    f.names[op.results[0]] = _shuffle(f, f.names[v], wide, type_text(v.type), mask)


_REDUCTIONS = {
    "add": ("add", "fadd"), "mul": ("mul", "fmul"), "and": ("and", ""), "or": ("or", ""), "xor": ("xor", ""),
    "minsi": ("smin", ""), "maxsi": ("smax", ""), "minui": ("umin", ""), "maxui": ("umax", ""),
    "minnumf": ("", "fmin"), "maxnumf": ("", "fmax"), "minimumf": ("", "fminimum"), "maximumf": ("", "fmaximum"),
}  # fmt: skip


def _reduction(f: FunctionText, op: Operation) -> None:
    v, *init = operands_of(op)
    kind = str(cast(Any, op.properties["kind"]).data)
    elem = elem_of(v.type)
    is_float = type(elem) in _FLOATS
    name = _REDUCTIONS[kind][is_float]
    t, vt = type_text(elem), type_text(v.type)
    intrinsic = f"llvm.vector.reduce.{name}.{mangle(v.type)}"
    flags = flags_of(op)
    if name in ("fadd", "fmul"):
        start = f.names[init[0]] if init else literal(0.0 if name == "fmul" else -0.0, elem)
        if name == "fmul" and not init:
            start = literal(1.0, elem)
        f.names[op.results[0]] = f.intrinsic(intrinsic, t, [t, vt], [start, f.names[v]], flags)
        return
    result = f.intrinsic(intrinsic, t, [vt], [f.names[v]], flags)
    if init:
        word = {"add": "add", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}.get(name)
        if word is not None:
            result = f.assign(f"{word} {t} {result}, {f.names[init[0]]}")
        else:
            pair = {"fmin": "minnum", "fmax": "maxnum", "fminimum": "minimum", "fmaximum": "maximum"}.get(name, name)
            result = f.intrinsic(f"llvm.{pair}.{mangle(elem)}", t, [t, t], [result, f.names[init[0]]], flags)
    f.names[op.results[0]] = result


# --- memory -------------------------------------------------------------------------------------------------------


def _align(op: Operation) -> str:
    attr: Any = op.properties.get("alignment")
    return f", align {attr.value.data}" if attr is not None else ""


def _qualified(f: FunctionText, op: Operation) -> tuple[str, str, str] | None:
    """What an ordering, a scope, `volatile` and `nontemporal` add: after the keyword, after the pointer, at the end."""
    props: Any = op.properties
    ordering = props["ordering"].value.data if "ordering" in props else 0
    if len(props) <= 2 and not ordering:
        return None
    words = tail = end = ""
    if ordering:
        words = "atomic "
        tail = f"{_scope(op)} {ORDERING_WORDS[ordering]}"
    if "volatile_" in props:
        words += "volatile "
    if "nontemporal" in props:
        end = ", !nontemporal !8000"
        if "!8000 = !{i32 1}" not in f.module.footer:
            f.module.footer.append("!8000 = !{i32 1}")
    if "invariant" in props:
        end += ", !invariant.load !8001"
        if "!8001 = !{}" not in f.module.footer:
            f.module.footer.append("!8001 = !{}")
    return words, tail, end


def _scope(op: Operation) -> str:
    scope: Any = op.properties.get("syncscope")
    return "" if scope is None else f' syncscope("{scope.data}")'


def _load(f: FunctionText, op: Operation) -> None:
    (p,) = operands_of(op)
    (result,) = op.results
    t = type_text(result.type)
    qualified = _qualified(f, op)
    if qualified is None:
        if f.abi.checked:
            f.abi.load(f, op)
            return
        f.names[result] = f.assign(f"load {t}, {f.typed(p)}{_align(op)}")
        return
    words, tail, end = qualified
    f.names[result] = f.assign(f"load {words}{t}, {f.typed(p)}{tail}{_align(op)}{end}")


def _store(f: FunctionText, op: Operation) -> None:
    v, p = operands_of(op)
    qualified = _qualified(f, op)
    if qualified is None:
        if f.abi.checked:
            f.abi.store(f, op)
            return
        f.line(f"store {f.typed(v)}, {f.typed(p)}{_align(op)}")
        return
    words, tail, end = qualified
    f.line(f"store {words}{f.typed(v)}, {f.typed(p)}{tail}{_align(op)}{end}")


def _cmpxchg(f: FunctionText, op: CmpXchgOp) -> None:
    words = ("weak " if op.weak is not None else "") + ("volatile " if op.volatile_ is not None else "")
    success, failure = (ORDERING_WORDS[o.value.data] for o in (op.success_ordering, op.failure_ordering))
    f.names[op.res] = f.assign(
        f"cmpxchg {words}{f.typed(op.ptr)}, {f.typed(op.cmp)}, {f.typed(op.val)}{_scope(op)} "
        f"{success} {failure}{_align(op)}"
    )


def _fence(f: FunctionText, op: FenceOp) -> None:
    f.line(f"fence{_scope(op)} {ORDERING_WORDS[op.ordering.value.data]}")


def _gep(f: FunctionText, op: Operation) -> None:
    p, *dynamic = operands_of(op)
    values = iter(dynamic)
    indices = [
        f.typed(next(values)) if i == llvm.GEP_DYNAMIC else f"i32 {i}"
        for i in int_list(op.properties["rawConstantIndices"])
    ]
    elem = type_text(op.properties["elem_type"])
    no_wrap: Any = op.properties["noWrapFlags"]
    words = "".join(f"{w} " for w in no_wrap_words(no_wrap.value.data)) if no_wrap.value.data else ""
    (result,) = op.results
    f.names[result] = f.assign(f"getelementptr {words}{elem}, {f.typed(p)}, {', '.join(indices)}")


def _alloca(f: FunctionText, op: Operation) -> None:
    (n,) = operands_of(op)
    elem = type_text(op.properties["elem_type"])
    space = llvm.address_space(op.results[0].type)
    where = f", addrspace({space})" if space else ""
    f.names[op.results[0]] = f.assign(f"alloca [{f.names[n]} x {elem}]{_align(op)}{where}")


def _ptrtoint(f: FunctionText, op: Operation) -> None:
    (p,) = operands_of(op)
    f.names[op.results[0]] = f.assign(f"ptrtoint {f.typed(p)} to {type_text(op.results[0].type)}")


def _inttoptr(f: FunctionText, op: Operation) -> None:
    (p,) = operands_of(op)
    f.names[op.results[0]] = f.assign(f"inttoptr {f.typed(p)} to {type_text(op.results[0].type)}")


def _extract_value(f: FunctionText, op: Operation) -> None:
    (s,) = operands_of(op)
    at = ", ".join(map(str, int_list(op.properties["position"])))
    f.names[op.results[0]] = f.assign(f"extractvalue {f.typed(s)}, {at}")


def _insert_value(f: FunctionText, op: Operation) -> None:
    s, v = operands_of(op)
    at = ", ".join(map(str, int_list(op.properties["position"])))
    f.names[op.results[0]] = f.assign(f"insertvalue {f.typed(s)}, {f.typed(v)}, {at}")


def _atomicrmw(f: FunctionText, op: llvm.AtomicRMWOp) -> None:
    p, v = operands_of(op)
    word = llvm.ATOMIC_BINARY[op.bin_op.value.data].lstrip("_")
    scope = f' syncscope("{op.syncscope.data}")' if op.syncscope is not None else ""
    order = {n: k for k, n in llvm.ORDERINGS.items()}[op.ordering.value.data]
    f.names[op.results[0]] = f.assign(f"atomicrmw {word} {f.typed(p)}, {f.typed(v)}{scope} {order}{_align(op)}")


def _call_intrinsic(f: FunctionText, op: llvm.CallIntrinsicOp) -> None:
    """An intrinsic by its full LLVM name; `immarg` operands are constants, which are literals here."""
    count = int_list(op.properties["operandSegmentSizes"])[0]
    args = list(operands_of(op))[:count]
    params = [type_text(a.type) for a in args]
    names = [f.names[a] for a in args]
    name = cast(StringAttr, op.properties["intrin"]).data
    if op.results:
        (result,) = op.results
        f.names[result] = f.intrinsic(name, type_text(result.type), params, names)
    else:
        f.call_void(name, params, names)


def _extern_call(f: FunctionText, op: func.CallOp) -> None:
    """A function from outside of the module."""
    name = op.callee.string_value()
    values = operands_of(op)
    params = [type_text(v.type) for v in values]
    result = type_text(op.results[0].type) if op.results else "void"
    f.module.declare(f'"{name}"', result, params)
    call = f'call {result} @"{name}"({", ".join(map(f.typed, values))})'
    if PURE_CALL in op.attributes:
        call += " nounwind willreturn memory(none)"
    if op.results:
        f.names[op.results[0]] = f.assign(call)
    else:
        f.line(call)


def _inline_asm(f: FunctionText, op: llvm.InlineAsmOp) -> None:
    """Assembly as it stands; LLVM IR writes what would end its quotes as hexadecimal."""

    def quoted(text: str) -> str:
        return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in text.encode())

    flags = "sideeffect " if op.has_side_effects is not None else ""
    args = ", ".join(f.typed(v) for v in op.operands)
    what = f'asm {flags}"{quoted(op.asm_string.data)}", "{quoted(op.constraints.data)}"({args})'
    if op.res is None:
        f.line(f"call void {what}")
    else:
        f.names[op.res] = f.assign(f"call {type_text(op.res.type)} {what}")


# --- control flow -------------------------------------------------------------------------------------------------


def _phi(f: FunctionText, type_: Attribute) -> tuple[str, int]:
    """Room for a phi; give its name and the line to fill in."""
    name = f.fresh()
    f.lines.append(f"\0{name}")
    return name, len(f.lines) - 1


def _fill(f: FunctionText, at: int, name: str, type_: Attribute, incoming: Sequence[tuple[str, str]]) -> None:
    pairs = ", ".join(f"[ {v}, %{label} ]" for v, label in incoming)
    # Stack memory taken at the head of the function since (`host_stub.py`) has moved the line down.
    while f.lines[at] != f"\0{name}":
        at += 1
    f.lines[at] = f"  {name} = phi {type_text(type_)} {pairs}"


def _for(f: FunctionText, op: scf.ForOp) -> None:
    lb, ub_, step, *init = operands_of(op)
    body = op.body.block
    iv, *carried = body.args
    head, inside, after = f.new_label(), f.new_label(), f.new_label()
    before = f.label
    f.line(f"br label %{head}")
    f.start(head)
    phis = [_phi(f, a.type) for a in body.args]
    for arg, (name, _) in zip(body.args, phis, strict=True):
        f.names[arg] = name
    t = type_text(iv.type)
    predicate = "ult" if "unsignedCmp" in op.properties else "slt"
    more = f.assign(f"icmp {predicate} {t} {f.names[iv]}, {f.names[ub_]}")
    f.line(f"br i1 {more}, label %{inside}, label %{after}")
    f.start(inside)
    end = f.block(body)
    following = f.assign(f"add {t} {f.names[iv]}, {f.names[step]}")
    latch = f.label
    unroll = loop_metadata(f, op.attributes.get("llvm.loop_annotation"))
    f.line(f"br label %{head}{unroll}")
    yielded = [following, *(f.names[v] for v in (operands_of(end) if end is not None else ()))]
    for (name, at), arg, start, again in zip(phis, body.args, [lb, *init], yielded, strict=True):
        _fill(f, at, name, arg.type, [(f.names[start], before), (again, latch)])
    f.start(after)
    for result, arg in zip(op.results, carried, strict=True):
        f.names[result] = f.names[arg]


def loop_metadata(f: FunctionText, annotation: Any) -> str:
    """What `#llvm.loop_annotation` asks of a loop, for the branch that closes it."""
    if annotation is None:
        return ""
    hints: list[str] = []
    for name, value in annotation.data.data:
        number = value.value.data
        if name == "count":
            hints.append(f'!{{!"llvm.loop.unroll.count", i32 {number}}}')
        elif name in ("full", "disable") and number:
            hints.append(f'!{{!"llvm.loop.unroll.{name}"}}')
    footer = f.module.footer
    first = 900 + len(footer)
    numbers = [f"!{first + 1 + i}" for i in range(len(hints))]
    footer.append(f"!{first} = distinct !{{{', '.join([f'!{first}', *numbers])}}}")
    footer += [f"{n} = {hint}" for n, hint in zip(numbers, hints, strict=True)]
    return f", !llvm.loop !{first}"


def _if(f: FunctionText, op: scf.IfOp) -> None:
    (cond,) = operands_of(op)
    yes, no, after = f.new_label(), f.new_label(), f.new_label()
    has_else = bool(op.false_region.blocks)
    f.line(f"br i1 {f.names[cond]}, label %{yes}, label %{no if has_else else after}")
    incoming: list[tuple[list[str], str]] = []
    for label, region in ((yes, op.true_region), (no, op.false_region)):
        if not region.blocks:
            continue
        f.start(label)
        end = f.block(region.block)
        incoming.append(([f.names[v] for v in operands_of(end)] if end is not None else [], f.label))
        f.line(f"br label %{after}")
    f.start(after)
    for i, result in enumerate(op.results):
        pairs = ", ".join(f"[ {values[i]}, %{label} ]" for values, label in incoming)
        f.names[result] = f.assign(f"phi {type_text(result.type)} {pairs}")


def _while(f: FunctionText, op: scf.WhileOp) -> None:
    before, after = op.before_region.block, op.after_region.block
    head, inside, out = f.new_label(), f.new_label(), f.new_label()
    entry = f.label
    f.line(f"br label %{head}")
    f.start(head)
    phis = [_phi(f, a.type) for a in before.args]
    for arg, (name, _) in zip(before.args, phis, strict=True):
        f.names[arg] = name
    condition = f.block(before)
    assert condition is not None
    cond, *passed = operands_of(condition)
    f.line(f"br i1 {f.names[cond]}, label %{inside}, label %{out}")
    f.start(inside)
    for arg, value in zip(after.args, passed, strict=True):
        f.names[arg] = f.names[value]
    end = f.block(after)
    again = [f.names[v] for v in operands_of(end)] if end is not None else []
    latch = f.label
    f.line(f"br label %{head}")
    for (name, at), arg, start, value in zip(phis, before.args, operands_of(op), again, strict=True):
        _fill(f, at, name, arg.type, [(f.names[start], entry), (value, latch)])
    f.start(out)
    for result, value in zip(op.results, passed, strict=True):
        f.names[result] = f.names[value]


# --- gpu and math -------------------------------------------------------------------------------------------------


def _gpu_index(kind: str) -> Handler:
    def handle(f: FunctionText, op: Any) -> None:
        f.names[op.results[0]] = f.abi.index(f, kind, op.dimension.data)

    return handle


def _lane_id(f: FunctionText, op: Operation) -> None:
    f.names[op.results[0]] = f.abi.lane_id(f)


def _subgroup_size(f: FunctionText, op: Operation) -> None:
    f.names[op.results[0]] = f.abi.subgroup_size(f)


def _barrier(f: FunctionText, op: Operation) -> None:
    f.abi.barrier(f, op)


def _shuffle_lanes(f: FunctionText, op: gpu.ShuffleOp) -> None:
    f.abi.shuffle(f, op)


def _ballot(f: FunctionText, op: gpu_warp.BallotOp) -> None:
    f.names[op.results[0]] = f.abi.ballot(f, f.names[op.predicate])


def _vote(f: FunctionText, op: gpu_warp.VoteOp) -> None:
    f.names[op.results[0]] = f.abi.vote(f, f.names[op.predicate], op.mode.data)


def _broadcast(f: FunctionText, op: gpu_warp.SubgroupBroadcastOp) -> None:
    f.abi.broadcast(f, op)


def _address_of(f: FunctionText, op: llvm.AddressOfOp) -> None:
    f.names[op.results[0]] = f.abi.address_of(f, op.global_name.string_value())


def _printf(f: FunctionText, op: gpu.PrintfOp) -> None:
    f.abi.printf(f, op.format.data, op.args)


def _host_print(f: FunctionText, op: fvector.PrintOp) -> None:
    text = "" if op.stringLiteral is None else op.stringLiteral.data.replace("%", "%%")
    values: list[SSAValue] = []
    if op.source is not None:
        t = type_text(op.source.type)
        text += "%g" if t in _FLOATS.values() else "%ld" if t == "i64" else "%d"
        values.append(op.source)
    f.abi.printf(f, text + ("\n" if op.punctuation.data == "newline" else ""), values)


def _synchronize(f: FunctionText, op: Operation) -> None:
    f.abi.synchronize(f, op)


def _launch(f: FunctionText, op: gpu.LaunchFuncOp) -> None:
    f.abi.launch(f, op)


def _math(f: FunctionText, op: Operation) -> None:
    args = [f.names[v] for v in operands_of(op)]
    name = op.name.removeprefix("math.")
    f.names[op.results[0]] = f.abi.math(f, name, op.results[0].type, args, flags_of(op))


def _int_math(f: FunctionText, op: Operation) -> None:
    (x,) = operands_of(op)
    t = type_text(x.type)
    name = {"math.ctpop": "ctpop", "math.ctlz": "ctlz", "math.cttz": "cttz", "math.absi": "abs"}[op.name]
    extra = [] if name == "ctpop" else ["i1"]
    f.names[op.results[0]] = f.intrinsic(
        f"llvm.{name}.{mangle(x.type)}", t, [t, *extra], [f.names[x], *(["false"] if extra else [])]
    )


def _rsqrt(f: FunctionText, op: Operation) -> None:
    (x,) = operands_of(op)
    t, flags = type_text(x.type), flags_of(op)
    root = f.intrinsic(f"llvm.sqrt.{mangle(x.type)}", t, [t], [f.names[x]], flags)
    elem = elem_of(x.type)
    one = literal(1.0, elem)
    if isinstance(x.type, VectorType):
        one = f"splat ({type_text(elem)} {one})"
    f.names[op.results[0]] = f.assign(f"fdiv {flags}{t} {one}, {root}")


_INT_MATH = ("math.ctpop", "math.ctlz", "math.cttz", "math.absi")

TERMINATORS = (scf.YieldOp, scf.ConditionOp, gpu.ReturnOp, func.ReturnOp)

TABLE: dict[type[Operation], Handler] = {
    arith.ConstantOp: _constant,
    **{cls: _int_binary(name) for name, cls in INT_BINARY.items() if name in _INT_NAMES or name in _INT_MINMAX},
    arith.FloorDivSIOp: _floordiv,
    arith.CeilDivSIOp: _ceildiv,
    arith.CeilDivUIOp: _ceildiv,
    **dict.fromkeys(_FLOAT_NAMES, _float_binary),
    **dict.fromkeys(_FLOAT_MINMAX, _float_minmax),
    arith.NegfOp: _negf,
    RemFOp: _remf,
    ErfcOp: _math,
    **{cls: _cast(name) for name, cls in CASTS.items() if name in _CAST_NAMES},
    arith.IndexCastOp: _index_cast,
    arith.CmpiOp: _cmpi,
    arith.CmpfOp: _cmpf,
    arith.SelectOp: _select,
    ub.PoisonOp: _poison,
    vector.ExtractOp: _vector_extract,
    vector.InsertOp: _vector_insert,
    vector.BroadcastOp: _vector_broadcast,
    vector.ShuffleOp: _vector_shuffle,
    vector.BitcastOp: _cast("bitcast"),
    vector.ReductionOp: _reduction,
    fvector.FromElementsOp: _from_elements,
    fvector.ExtractStridedSliceOp: _extract_slice,
    fvector.InsertStridedSliceOp: _insert_slice,
    llvm.LoadOp: _load,
    llvm.StoreOp: _store,
    llvm.GEPOp: _gep,
    llvm.AllocaOp: _alloca,
    llvm.PtrToIntOp: _ptrtoint,
    llvm.IntToPtrOp: _inttoptr,
    llvm.UndefOp: _undef,
    llvm.ExtractValueOp: _extract_value,
    llvm.InsertValueOp: _insert_value,
    llvm.AtomicRMWOp: cast(Handler, _atomicrmw),
    CmpXchgOp: cast(Handler, _cmpxchg),
    FenceOp: cast(Handler, _fence),
    llvm.CallIntrinsicOp: cast(Handler, _call_intrinsic),
    llvm.InlineAsmOp: cast(Handler, _inline_asm),
    func.CallOp: cast(Handler, _extern_call),
    llvm.BitcastOp: _cast("bitcast"),
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.WhileOp: _while,
    gpu.ThreadIdOp: _gpu_index("thread_id"),
    gpu.BlockIdOp: _gpu_index("block_id"),
    gpu.BlockDimOp: _gpu_index("block_dim"),
    gpu.GridDimOp: _gpu_index("grid_dim"),
    gpu.LaneIdOp: _lane_id,
    gpu.SubgroupSizeOp: _subgroup_size,
    gpu.BarrierOp: _barrier,
    gpu.ShuffleOp: cast(Handler, _shuffle_lanes),
    gpu_warp.BallotOp: cast(Handler, _ballot),
    gpu_warp.VoteOp: cast(Handler, _vote),
    gpu_warp.SubgroupBroadcastOp: cast(Handler, _broadcast),
    llvm.AddressOfOp: cast(Handler, _address_of),
    gpu.PrintfOp: cast(Handler, _printf),
    fvector.PrintOp: cast(Handler, _host_print),
    **dict.fromkeys(fly_cpu.FlyCpu.operations, _synchronize),
    gpu.LaunchFuncOp: _launch,
    **{op: _math for op in math.Math.operations if op.name not in (*_INT_MATH, "math.rsqrt")},
    **{op: _int_math for op in math.Math.operations if op.name in _INT_MATH},
    math.RsqrtOp: _rsqrt,
}
"""Op class to the function that writes it."""
