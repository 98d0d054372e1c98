"""Parts of a key, and the value of what is not there."""

from __future__ import annotations

from typing import NamedTuple


class Component(NamedTuple):
    """One part of a key. The `kind` is source, function, kernel, class, value, external, environment, ..."""

    name: str
    kind: str
    digest: str


class MissingType:
    def __repr__(self) -> str:
        return "nothing"


MISSING: object = MissingType()
