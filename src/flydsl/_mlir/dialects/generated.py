"""What the modules of all dialects share: names that are made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from ...expr.emit.facade import Made
from ..build import class_of, function_of
from ..signature import enums, functions, signatures


def module(dialect: str, own: dict[str, object]) -> tuple[Callable[[str], Made], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the module of a dialect; what the module defines itself comes first."""

    def get(name: str) -> Made:
        found: object = None
        if name in signatures(dialect):
            found = class_of(signatures(dialect)[name])
        elif name in functions(dialect):
            signature = functions(dialect)[name]
            cls = own.get(signature.cls) or class_of(signature)
            found = function_of(signature, cast("type", cls))
        elif name in enums(dialect):
            found = enums(dialect)[name]
        else:
            from .. import ir

            shared = getattr(ir, name, None)
            if shared is None or name.startswith("_"):
                raise AttributeError(f"the dialect '{dialect}' has no op, function or enumeration '{name}'")
            return cast(object, shared)
        own[name] = found
        return found

    def names() -> list[str]:
        return sorted({*own, *signatures(dialect), *functions(dialect), *enums(dialect)})

    return get, names


__all__ = ["module"]
