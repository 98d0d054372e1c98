"""Fast-math flags: what float operations may assume, and where the assumption comes from.

An explicit `fastmath=` argument wins over the innermost `with fastmath(...)`, which wins over the default the driver
takes from the compile hints. Light: flags become IR attributes only when an operation is built.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar, Token
from enum import IntFlag
from typing import TYPE_CHECKING, cast

from ...errors import DSLTypeError, DSLValueError

if TYPE_CHECKING:
    from ..annotations import Attribute, FastMathLike


class FastMathFlags(IntFlag):
    """Liberties a float operation may take; combine with `|`.

    >>> (FastMathFlags.nnan | FastMathFlags.ninf).text
    'nnan,ninf'
    >>> FastMathFlags.fast.text, FastMathFlags.none.text
    ('fast', 'none')
    """

    none = 0
    reassoc = 1
    nnan = 2
    ninf = 4
    nsz = 8
    arcp = 16
    contract = 32
    afn = 64
    fast = 127

    @property
    def text(self) -> str:
        """The flags as IR spells them, separated by commas."""
        if self == FastMathFlags.fast:
            return "fast"
        return ",".join(flag.name or "" for flag in SINGLE if flag in self) or "none"


SINGLE = tuple(f for f in FastMathFlags.__members__.values() if f.name not in ("none", "fast"))


def parse_flags(flags: object) -> FastMathFlags:
    """Flags from any accepted form: flags, a comma-separated string, or a list, tuple or set of either.

    >>> parse_flags("nnan, contract") == FastMathFlags.nnan | FastMathFlags.contract
    True
    >>> parse_flags(["fast"]) is FastMathFlags.fast
    True
    """
    if isinstance(flags, FastMathFlags):
        return flags
    if isinstance(flags, str):
        found = FastMathFlags.none
        for word in flags.split(","):
            member = FastMathFlags.__members__.get(word.strip())
            if member is None:
                raise DSLValueError(
                    f"unknown fast-math flag {word.strip()!r}; the flags are {', '.join(FastMathFlags.__members__)}"
                )
            found |= member
        return found
    if isinstance(flags, (list, tuple, set, frozenset)):
        found = FastMathFlags.none
        for item in cast("Iterable[object]", flags):
            found |= parse_flags(item)
        return found
    raise DSLTypeError(
        f"fast-math flags are fx.FastMathFlags, a string such as 'nnan,contract', or a list of those; got {flags!r}"
    )


ambient_flags: ContextVar[FastMathFlags | None] = ContextVar("flydsl_fastmath", default=None)
default_flags: ContextVar[FastMathFlags | None] = ContextVar("flydsl_fastmath_default", default=None)


@contextmanager
def set_default(flags: FastMathLike) -> Generator[None]:
    """Flags of float operations built inside where nothing else sets any; None for no default.

    The driver calls it with the compile hint `fastmath`, or `"fast"` for the hint `fast_fp_math`.

    >>> with set_default("fast"):
    ...     effective().text
    'fast'
    """
    token = default_flags.set(None if flags is None else parse_flags(flags))
    try:
        yield
    finally:
        default_flags.reset(token)


class fastmath:
    """Set the flags of all float operations built inside a `with` block; blocks nest.

    >>> with fastmath("contract"):
    ...     with fastmath("none"):
    ...         inner = effective().text
    ...     effective().text, inner
    ('contract', 'none')
    """

    __slots__ = ("_tokens", "flags")

    set_default = staticmethod(set_default)

    def __init__(self, flags: FastMathLike):
        self.flags = parse_flags(flags)
        self._tokens: list[Token[FastMathFlags | None]] = []

    def __enter__(self) -> FastMathFlags:
        self._tokens.append(ambient_flags.set(self.flags))
        return self.flags

    def __exit__(self, *exc: object) -> None:
        ambient_flags.reset(self._tokens.pop())


def effective(explicit: FastMathLike = None) -> FastMathFlags:
    """The flags in force here, given those of an explicit `fastmath=` argument.

    >>> effective().text, effective("afn").text
    ('none', 'afn')
    """
    if explicit is not None:
        return parse_flags(explicit)
    found = ambient_flags.get()
    if found is None:
        found = default_flags.get()
    return FastMathFlags.none if found is None else found


def flags_attr(explicit: FastMathLike = None) -> Attribute | None:
    """The IR attribute of the flags in force, or None when there are none."""
    if explicit is None:
        found = ambient_flags.get()
        if found is None:
            found = default_flags.get()
            if found is None:
                return None
    else:
        found = parse_flags(explicit)
    if not found:
        return None
    from ..emit.scalar_types import fastmath_attr

    return fastmath_attr(found)
