"""Classes that stand for classes of xDSL's: they make, cast and recognise, and have no objects of their own.

`IntegerType.get_signless(32)` is xDSL's type, `isinstance(t, IntegerType)` asks for xDSL's class, and `IntegerType(t)`
gives `t` back or refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, ParamSpec, TypeAlias, TypeVar

from ...errors import MLIRError
from ...ir.readable import readable

P = ParamSpec("P")
T = TypeVar("T")

Made: TypeAlias = Any
"""A type, attribute or value, as MLIR's bindings hand it out: what it offers depends on what it is at run time."""


class Facade(type):
    """Metaclass of such classes."""

    _accepts: Callable[[object], bool]

    def __instancecheck__(cls, instance: object) -> bool:
        return cls._accepts(instance)

    def __call__(cls, value: object, *_: object, **__: object) -> Made:
        if not cls._accepts(value):
            raise MLIRError(f"cannot cast {value} to {cls.__name__}")
        return readable(value)

    def isinstance(cls, value: object) -> bool:
        """Whether a type, attribute or value is of this class."""
        return cls._accepts(value)


class Stands(metaclass=Facade):
    """Base of the facades of classes of attributes: `class IndexType(Stands, of=builtin.IndexType)`."""

    stands_for: ClassVar[type | tuple[type, ...]] = ()

    def __init_subclass__(cls, of: type | tuple[type, ...] | None = None) -> None:
        if of is not None:
            cls.stands_for = of

    @classmethod
    def _accepts(cls, x: object) -> bool:
        return isinstance(x, cls.stands_for)


def anywhere(method: Callable[P, T]) -> Callable[..., T]:
    """A function that also takes MLIR's `context=` and `loc=`, which nothing here needs; what it gives is readable."""

    def call(*args: P.args, **given: P.kwargs) -> T:
        given.pop("context", None)
        given.pop("loc", None)
        return readable(method(*args, **given))

    call.__doc__, call.__name__ = method.__doc__, method.__name__
    return call
