"""Classes of `ir` that stand for classes of xDSL's: they make, cast and recognise, and have no objects of their own.

`IntegerType.get_signless(32)` is xDSL's type, `isinstance(t, IntegerType)` asks for xDSL's class, and `IntegerType(t)`
gives `t` back or refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar, cast

from ..errors import DSLTypeError

T = TypeVar("T")


class Facade(type):
    """Metaclass of such classes."""

    _accepts: Callable[[object], bool]

    def __instancecheck__(cls, instance: object) -> bool:
        return cls._accepts(instance)

    def __call__(cls, value: object, *_: object, **__: object) -> object:
        if not cls._accepts(value):
            raise DSLTypeError(f"cannot cast {value} to {cls.__name__}")
        return value

    def isinstance(cls, value: object) -> bool:
        """Whether a type, attribute or value is of this class."""
        return cls._accepts(value)


class Stands(metaclass=Facade):
    """Base of the facades of classes of attributes."""

    FOR: ClassVar[tuple[type, ...]] = ()

    @classmethod
    def _accepts(cls, x: object) -> bool:
        return isinstance(x, cls.FOR)


def static(method: Callable[..., T]) -> Callable[..., T]:
    """A static method that takes MLIR's `context=` and `loc=`, which nothing here needs."""

    def call(*args: object, context: object = None, loc: object = None, **given: object) -> T:
        return method(*args, **given)

    call.__doc__, call.__name__ = method.__doc__, method.__name__
    return cast("Callable[..., T]", staticmethod(call))


__all__ = ["Facade", "Stands", "static"]
