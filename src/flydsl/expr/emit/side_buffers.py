"""Memory that a kernel wants beside its arguments, while it is traced: a hidden argument each, behind the others.

What is declared here becomes the attribute `fly.side_buffers` of the `gpu.func` and of its launches; who makes the
memory and reads it is in `runtime/side_buffers.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from xdsl.dialects.builtin import ArrayAttr, StringAttr, i64
from xdsl.ir import BlockArgument

from ...dialects.fly.types import ptr_type
from ...ir.enums import AddressSpace
from ..numeric import Int64
from ..tensor import Pointer
from .trace import current


class SideBuffers:
    """The side memory of a kernel, in the order of its hidden arguments."""

    def __init__(self) -> None:
        self._arguments: dict[str, BlockArgument] = {}
        self._details: dict[str, dict[str, object]] = {}

    def need(self, kind: str) -> Pointer:
        """The memory of a kind, as words of 64 bits; asked for once."""
        found = self._arguments.get(kind)
        if found is None:
            entry = current().entry
            found = entry.insert_arg(ptr_type(i64, AddressSpace.Global, 16), len(entry.args))
            self._arguments[kind] = found
            self._details[kind] = {}
        return Pointer(found, Int64)

    def details(self, kind: str) -> dict[str, object]:
        """What whoever reads the memory has to know of the kernel: goes into the artifact."""
        return self._details[kind]

    def drop(self, kind: str) -> None:
        """The kernel does without after all."""
        argument = self._arguments.pop(kind)
        del self._details[kind]
        current().entry.erase_arg(argument)

    def declared(self) -> ArrayAttr[StringAttr] | None:
        """The attribute that says so."""
        if not self._details:
            return None
        return ArrayAttr([_text(kind, details) for kind, details in self._details.items()])


def _text(kind: str, details: Mapping[str, object]) -> StringAttr:
    return StringAttr(json.dumps({"kind": kind, **details}, sort_keys=True))


__all__ = ["SideBuffers"]
