"""What builders are called with: the tables under `signatures/`, and what the definitions of a dialect say without one.

A line of a table is an op, its class, and its parameters in order, as in `cmpi CmpIOp #predicate %lhs %rhs ; =`:

| item | stands for |
|---|---|
| `^res` | the type of a result |
| `%lhs` | an operand |
| `#predicate` | an attribute |
| `>dest` | a successor |
| `;` | those behind it are keywords |
| `=` | types of results are inferred; `results=` gives them all the same |

`?` behind a name says that it may be left out, `*` that it is a sequence.
"""

from __future__ import annotations

import builtins
import enum
import keyword
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple, cast

from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, OptionalDef, VariadicDef

from ..ir.registry import DIALECTS, make_context

KINDS = {"^": "result", "%": "operand", "#": "attribute", ">": "successor"}


class Parameter(NamedTuple):
    """One parameter of a builder."""

    kind: str
    name: str
    optional: bool = False
    many: bool = False
    by_keyword: bool = False


class Signature(NamedTuple):
    """How an op is built."""

    op: str
    cls: str
    parameters: tuple[Parameter, ...]
    inferred: bool

    @property
    def function(self) -> str:
        """Name of the builder function."""
        return function_name(self.op, self.cls)

    def named(self, kind: str) -> list[Parameter]:
        """The parameters of a kind, in order."""
        return [p for p in self.parameters if p.kind == kind]


def snake(name: str) -> str:
    """`overflowFlags` as `overflow_flags`: functions spell so what classes spell as the definition does."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def function_name(op: str, cls: str) -> str:
    """Name of the function that makes an op: its name, with an underscore where Python or the class has it."""
    name = op.partition(".")[2].replace(".", "_")
    taken = keyword.iskeyword(name) or name == cls or (hasattr(builtins, name) and name in ("print",))
    return f"{name}_" if taken else name


def _parameter(text: str, by_keyword: bool) -> Parameter:
    return Parameter(KINDS[text[0]], text[1:].rstrip("?*"), text.endswith("?"), text.endswith("*"), by_keyword)


def _line(dialect: str, line: str) -> Signature:
    op, cls, *items = line.split()
    inferred = "=" in items
    items = [i for i in items if i != "="]
    cut = items.index(";") if ";" in items else len(items)
    parameters = [_parameter(i, n > cut) for n, i in enumerate(items) if i != ";"]
    return Signature(f"{dialect}.{op}", cls, tuple(parameters), inferred)


def definitions(dialect: str) -> dict[str, type[Operation]]:
    """The ops of a dialect, by their names."""
    context = make_context()
    found = context.get_dialect(dialect) if dialect in DIALECTS else None
    return {} if found is None else {op.name: op for op in found.operations if issubclass(op, IRDLOperation)}


@cache
def _ours(dialect: str) -> dict[str, type[Operation]]:
    return definitions(dialect)


def definition(op: str) -> type[IRDLOperation] | None:
    """The class of an op, if there is such an op here."""
    return cast("type[IRDLOperation] | None", _ours(op.partition(".")[0]).get(op))


def _derived(cls: type[Operation]) -> Signature:
    """From the definition alone: types of results, operands, attributes."""
    made = cast("type[IRDLOperation]", cls).get_irdl_definition()
    parameters: list[Parameter] = []
    for kind, parts in (("result", made.results), ("operand", made.operands)):
        for name, part in parts:
            optional = isinstance(part, OptionalDef)
            parameters.append(Parameter(kind, name, optional, isinstance(part, VariadicDef) and not optional))
    later: list[Parameter] = []
    for name, part in {**made.properties, **made.attributes}.items():
        if name.endswith("SegmentSizes"):
            continue
        optional = isinstance(part, OptionalDef) or part.default_value is not None
        (later if optional else parameters).append(Parameter("attribute", name, optional, by_keyword=optional))
    short = (
        cls.__name__
        if cls.__name__.endswith("Op")
        else "".join(word.capitalize() for word in re.split(r"[._]", cls.name.partition(".")[2])) + "Op"
    )
    return Signature(cls.name, short, (*parameters, *later), False)


def _lines(name: str) -> Iterator[str]:
    where = files("flydsl._mlir").joinpath("signatures", f"{name}.txt")
    if where.is_file():
        yield from where.read_text().splitlines()


@cache
def signatures(dialect: str) -> dict[str, Signature]:
    """The builders of a dialect by the names of their classes; those of the table first."""
    found = [_line(dialect, line) for line in _lines(dialect)]
    known = {s.op for s in found}
    found += [_derived(cls) for name, cls in _ours(dialect).items() if name not in known]
    return {s.cls: s for s in found}


@cache
def functions(dialect: str) -> dict[str, Signature]:
    """The same by the names of their functions."""
    return {s.function: s for s in signatures(dialect).values()}


@cache
def by_op(dialect: str) -> dict[str, Signature]:
    """The same by the names of their ops."""
    return {s.op: s for s in signatures(dialect).values()}


@cache
def other_names() -> dict[str, dict[str, str]]:
    """Names that MLIR's classes have for operands, results and regions whose name is another one in our definition."""
    found: dict[str, dict[str, str]] = {}
    for line in _lines("names"):
        op, *pairs = line.split()
        found[op] = dict(pair.split("=") for pair in pairs)
    return found


@cache
def enums(dialect: str) -> dict[str, type[enum.IntEnum] | type[enum.IntFlag]]:
    """The enumerations of a dialect; a member's text is its word in the IR."""
    found: dict[str, type[enum.IntEnum] | type[enum.IntFlag]] = {}
    for line in _lines("enums"):
        owner, name, kind, *members = line.split()
        if owner == dialect:
            found[name] = _enum(name, kind, members)
    return found


def _enum(name: str, kind: str, members: list[str]) -> type[enum.IntEnum] | type[enum.IntFlag]:
    numbers: dict[str, int] = {}
    words: dict[int, str] = {}
    for member in members:
        label, _, value = member.partition("=")
        number, _, word = value.partition(":")
        numbers[label] = int(number)
        words.setdefault(int(number), word or label.strip("_"))
    base = enum.IntFlag if kind == "flags" else enum.IntEnum
    made = cast("type[enum.IntEnum]", base(name, numbers))  # pyright: ignore[reportCallIssue, reportArgumentType]

    def text(self: enum.IntEnum) -> str:
        known = words.get(int(self))
        if known is not None:
            return known
        return ",".join(word for number, word in words.items() if number and number & self == number)

    made.__str__ = text
    return made


__all__ = [
    "Parameter", "Signature", "by_op", "definition", "enums", "function_name", "functions", "other_names", "signatures",
    "snake",
]  # fmt: skip
