"""The values that the emitter makes: xDSL's, with Python's operators.

What `x.ir_value()` gives, what a class of the user is rebuilt from, the results of an op: FlyDSL lets authors compute
with them, so they have the operators and methods of the scalar or vector that the value is. Only `==` keeps its
meaning, since values are kept in lists and tables: two values are equal where they are the same one.

xDSL makes values too, when it parses or clones; `own` makes one of these of such a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from xdsl import ir as theirs
from xdsl.ir import Attribute, Block, SSAValue

V = TypeVar("V", bound=SSAValue)

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "divmod")
OPERATORS: Final = (
    *(f"__{side}{name}__" for name in _BINARY for side in ("", "r")),
    *(f"__{name}__" for name in ("lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "getitem")),
)
METHODS: Final = (
    "addf", "bitcast", "exp2", "extf", "extsi", "extui", "index_cast", "maximumf", "minimumf", "reduce", "reshape",
    "rsqrt", "select", "shrui", "shuffle", "shuffle_xor", "to", "truncf", "trunci", "with_signedness",
)  # fmt: skip

_language: list[Callable[[SSAValue], object]] = []


def use_language(as_dsl_value: Callable[[SSAValue], object]) -> None:
    """Say what makes a scalar or vector of the language of a value: the language stands above this package."""
    _language[:] = [as_dsl_value]


class Computes:
    """The operators and methods, looked up in the class that the language has for the type of the value."""

    __slots__ = ()

    def __fly_cache_key__(self) -> None:
        """In a cache key, where a program left one in a global variable: there is nothing to know of a trace that is
        over, and its ops lead from each to all others."""


def _of_the_class(name: str) -> Callable[..., object]:
    def method(self: SSAValue, *args: Any, **options: object) -> object:
        if not _language:
            return NotImplemented
        speak = _language[0]
        value = speak(self)
        found: Any = getattr(type(value), name, None)
        if found is None:
            if name in OPERATORS:
                return NotImplemented
            raise AttributeError(f"a value of type {self.type} has no {name}()")
        return found(value, *(speak(x) if type(x) in SSA_CLASSES else x for x in args), **options)

    method.__name__ = name
    method.__qualname__ = f"Computes.{name}"
    return method


for _name in (*OPERATORS, *METHODS):
    setattr(Computes, _name, _of_the_class(_name))


class OpResult(theirs.OpResult[Attribute], Computes):
    """A result of an op."""

    # xDSL's says the same, the identity, in Python: compiling asks a value for it dozens of times.
    __hash__ = object.__hash__


class BlockArgument(theirs.BlockArgument[Attribute], Computes):
    """An argument of a block."""

    __hash__ = object.__hash__


_OURS: Final[dict[type[SSAValue], type[SSAValue]]] = {
    theirs.OpResult: OpResult,
    theirs.BlockArgument: BlockArgument,
}

OP_RESULTS: Final = frozenset[type[object]]((theirs.OpResult, OpResult))
"""The exact classes of results."""
SSA_CLASSES: Final = OP_RESULTS | {theirs.BlockArgument, BlockArgument}
"""What values are; `isinstance(x, SSAValue)` asks `ABCMeta`, which takes ten times as long as a look in here."""


def own(value: V) -> V:
    """The same object, as one of the classes here: they add methods and no fields, and have xDSL's class as first base,
    without which Python refuses. Its hash is another one from then on, so no table may have it yet."""
    kind = _OURS.get(type(value))
    if kind is not None:
        value.__class__ = kind  # pyright: ignore[reportAttributeAccessIssue]
    return value


def add_argument(block: Block, type_: Attribute) -> theirs.BlockArgument[Attribute]:
    """A new last argument of a block."""
    return own(block.insert_arg(type_, len(block.args)))
