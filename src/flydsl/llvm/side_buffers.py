"""Memory that launches of a kernel add: how a kernel declares it, as text of JSON, and the type of its argument."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr, i64
from xdsl.ir import Operation

from ..dialects.fly.types import ptr_type
from ..ir.enums import AddressSpace
from .stub_abi import SIDE_BUFFERS_ATTRIBUTE

WORDS = ptr_type(i64, AddressSpace.Global, 16)
"""Type of the hidden argument."""


def declaration(kind: str, details: Mapping[str, object]) -> StringAttr:
    """What a kernel says of one of its side buffers."""
    return StringAttr(json.dumps({"kind": kind, **details}, sort_keys=True))


def declared_by(kernel: Operation) -> list[dict[str, Any]]:
    """The side buffers that a kernel declares, in the order of their arguments."""
    declared = kernel.attributes.get(SIDE_BUFFERS_ATTRIBUTE)
    return [json.loads(text.data) for text in cast("ArrayAttr[StringAttr]", declared).data] if declared else []
