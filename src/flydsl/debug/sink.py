"""The third sink of the rules of lowering: Python source. What the two others write for LLVM, this one runs.

A kernel becomes a generator function of one thread. What an op means is said once, by the rules that also make LLVM IR
(`lowering/rules/`); the sink only has to know LLVM's instructions. Names in the source are those of values (`v12`), so
that whoever stopped the thread finds them among the generator's locals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue

from ..compiler.build.ir_errors import place
from ..errors import DSLCompileError
from ..ir.builder import i64
from ..ir.dead_code import is_used, mark_dead
from ..llvm.text.spelling import type_text
from ..lowering.rules.sink import Sink
from . import operations
from .kinds import Kind, kind, to_bfloat, zero
from .source import Source

FLOAT_FORMS = {
    "fadd": "{0} + {1}", "fsub": "{0} - {1}", "fmul": "{0} * {1}", "fdiv": "{0} / {1}", "frem": "np.fmod({0}, {1})",
}  # fmt: skip
"""Instructions of two floats as Python writes them."""


def refuse(op: Operation, why: str = "") -> NoReturn:
    """What the interpreter cannot run is refused by its name and its line."""
    error = DSLCompileError(f"the debugger cannot run '{op.name}'{why and ' ' + why}; run this kernel compiled")
    place(error, op.location)
    raise error


class PythonSink(Source, Sink[str]):
    """A function body being written as Python."""

    def __init__(self, op: Operation):
        super().__init__()
        self.names: dict[SSAValue, str] = {}
        self.dead = mark_dead(op)
        self.op: Operation = op
        """The op that is being written."""

    # --- values ---------------------------------------------------------------------------------------------------

    def value(self, old: SSAValue, /) -> str:
        return self.names[old]

    def give(self, old: SSAValue, new: str, /) -> None:
        self.names[old] = new

    def used(self, result: SSAValue) -> bool:
        return is_used(result, self.dead)

    def constant(self, attr: Attribute, type_: Attribute) -> str:
        k = kind(type_text(type_))
        if isinstance(attr, DenseIntOrFPElementsAttr):
            values: list[Any] = list(attr.get_values())
            return self.literal(values * k.count if len(values) == 1 else values, k)
        if isinstance(attr, IntegerAttr | FloatAttr):
            number: Any = attr.value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            return self.number(number.data, type_)
        refuse(self.op, f"with the constant {attr}")

    def number(self, value: int | float, type_: Attribute) -> str:
        k = kind(type_text(type_))
        return self.literal([value] * k.count if k.count else value, k)

    def poison(self, type_: Attribute) -> str:
        k = kind(type_text(type_))
        if not k.count and not k.is_float and not k.is_struct:
            return "0"
        name = self.bind(zero(k), ("zero", k))
        self.kinds[name] = k
        return name

    def null(self, type_: Attribute) -> str:
        return "0"

    # --- arithmetic -----------------------------------------------------------------------------------------------

    def binary(self, word: str, type_: Attribute, a: str, b: str, flags: Attribute | None = None) -> str:
        k = kind(type_text(type_))
        if k.is_float:
            form = FLOAT_FORMS[word]
            if k.element.text == "bfloat":
                form = f"{self.bind(to_bfloat, 'bfloat')}({form})"
            return self.computed(word, k, form, (a, b))
        return self.assign(k, self.integer(word, k, a, b))

    def divisor(self, op: Operation, signed: bool) -> str:
        first, second = op.operands
        k = kind(type_text(first.type))
        a, b = self.names[first], self.names[second]
        if b.isdigit() and b not in ("0", str(k.mask)):
            return b
        return self.assign(k, f"{self.function(('guard', k, signed), lambda: operations.guarded(k, signed))}({a}, {b})")

    def fneg(self, type_: Attribute, a: str, flags: Attribute | None = None) -> str:
        return self.computed("fneg", kind(type_text(type_)), "-{0}", (a,))

    def cast(self, word: str, a: str, source: Attribute, target: Attribute) -> str:
        s, t = kind(type_text(source)), kind(type_text(target))
        return a if s.text == t.text else self.convert(word, a, s, t)

    def icmp(self, predicate: str, type_: Attribute, a: str, b: str) -> str:
        return self.compare(predicate, kind(type_text(type_)), a, b)

    def fcmp(self, predicate: str, type_: Attribute, a: str, b: str, flags: Attribute | None = None) -> str:
        k = kind(type_text(type_))
        flag = kind(f"<{k.count} x i1>" if k.count else "i1")
        if predicate in ("true", "false"):
            value = predicate == "true"
            return self.literal([value] * k.count if k.count else value, flag)
        text = operations.FCMP[predicate].format(a=a, b=b)
        return self.assign(flag, text if k.count else f"bool({text})")

    def select(
        self, cond_type: Attribute, type_: Attribute, cond: str, a: str, b: str, flags: Attribute | None = None
    ) -> str:
        k = kind(type_text(type_))
        whole = not kind(type_text(cond_type)).count
        form = f"{{0}} if {cond} else {{1}}" if whole else f"np.where({cond}, {{0}}, {{1}})"
        return self.computed("select", k, form, (a, b)) if k.is_float else self.assign(k, form.format(a, b))

    def intr(
        self,
        key: str,
        result: Attribute,
        args: Sequence[str],
        types: Sequence[Attribute],
        flags: Attribute | None = None,
        immediate: int | None = None,
    ) -> str:
        kinds = [kind(type_text(t)) for t in types]
        return self.intrinsic(key, kind(type_text(result)), args, kinds, immediate)

    def intrinsic(self, key: str, k: Kind, args: Sequence[str], kinds: Sequence[Kind], immediate: int | None) -> str:
        """`llvm.KEY`."""
        try:
            name = self.function((key, *kinds, immediate), lambda: operations.intrinsic(key, kinds, immediate))
        except DSLCompileError as error:
            refuse(self.op, f"({error})")
        form = f"{name}({', '.join(f'{{{i}}}' for i in range(len(args)))})"
        return self.computed(key, k, form, args) if k.is_float else self.assign(k, form.format(*args))

    # --- vectors --------------------------------------------------------------------------------------------------

    def element(self, type_: Attribute, v: str, at: int | str, index: Attribute = i64) -> str:
        k = kind(type_text(type_))
        one = k.element
        form = f"{{0}}[{at}]" if isinstance(at, int) else f"{{0}}[min({at}, {k.count - 1})]"
        if one.is_float:
            return self.computed("element", one, form, (v,))
        return self.assign(one, f"int({form.format(v)})")

    def with_element(self, type_: Attribute, v: str, x: str, at: int | str, index: Attribute = i64) -> str:
        k = kind(type_text(type_))
        where = str(at) if isinstance(at, int) else f"min({at}, {k.count - 1})"
        form = f"{self.bind(_with, 'with')}({{0}}, {{1}}, {where})"
        return self.computed("with_element", k, form, (v, x)) if k.is_float else self.assign(k, form.format(v, x))

    def shuffle(self, type_: Attribute, a: str, b: str | None, mask: Sequence[int]) -> str:
        k = kind(type_text(type_))
        made = kind(f"<{len(mask)} x {k.element.text}>")
        chosen = self.bind(np.array([max(m, 0) for m in mask], np.int64), ("mask", *mask))
        form = f"{{0}}[{chosen}]" if b is None else f"np.concatenate(({{0}}, {{1}}))[{chosen}]"
        args = (a,) if b is None else (a, b)
        return self.computed("shuffle", made, form, args) if k.is_float else self.assign(made, form.format(*args))

    # --- what kernels on the CPU do not have ----------------------------------------------------------------------

    def load(self, type_: Attribute, at: str, pointer: Attribute, align: int, *, invariant: bool = False) -> str:
        refuse(self.op)

    def store(self, type_: Attribute, x: str, at: str, pointer: Attribute, align: int) -> None:
        refuse(self.op)

    def address(self, elem: Attribute, base: str, pointer: Attribute, indices: Sequence[int], flags: int = 0) -> str:
        refuse(self.op)

    def room(self, elem: Attribute, align: int) -> str:
        refuse(self.op)

    def fence(self, ordering: str, scope: str) -> None:
        refuse(self.op)

    def instruction(
        self, name: str, intrinsic: str, result: Attribute | None, args: Sequence[str] = (),
        types: Sequence[Attribute] = (), *, pure: bool = False, bound: int | None = None, defined: bool = False,
        keywords: Mapping[str, str] = {}, immediates: Sequence[tuple[Attribute, int]] = (),
        expand: Callable[[Sink[Any]], object] | None = None,
    ) -> str:  # fmt: skip
        refuse(self.op)

    def call(
        self, name: str, result: Attribute | None, args: Sequence[str], types: Sequence[Attribute], *,
        fixed: int | None = None, memory: str | None = None,
    ) -> str:  # fmt: skip
        refuse(self.op, f"of '{name}', which is compiled code")

    def text(self, text: str, prefix: str, space: int) -> str:
        refuse(self.op)


def _with(v: Any, x: Any, at: int) -> Any:
    made = v.copy()
    made[at] = x
    return made
