"""JSON objects, as files about compiled code hold them; their readers check what they take from one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Record: TypeAlias = Mapping[str, Any]
"""One that is read."""
NewRecord: TypeAlias = dict[str, Any]
"""One that is being made."""
