"""A pass is a frozen value with a name and one method; options are its fields. And what a module is compiled for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, auto
from functools import lru_cache
from typing import ClassVar, NamedTuple

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from ..errors import DSLCompileError, TargetError
from ..target import EXAMPLE, GPUTarget

TARGET_ATTRIBUTE = "fly.target"
"""Attribute of a device module up to its conversion: `GPUTarget.key()` of what it is compiled for."""
HINTS_ATTRIBUTE = "fly.hints"
"""Attribute of a device module up to its conversion: the compile hints, a dictionary."""
_parsed = lru_cache(maxsize=64)(GPUTarget.parse)


def target_of(device: Operation) -> GPUTarget | None:
    """What a device module is compiled for; None where it does not say. What is no target is an error at its line."""
    told = device.attributes.get(TARGET_ATTRIBUTE)
    if told is None:
        return None
    try:
        if not isinstance(told, StringAttr):
            raise TargetError(f"expected a text such as '{EXAMPLE}', got {told}")
        return _parsed(told.data)
    except TargetError as reason:
        error = DSLCompileError(f"{TARGET_ATTRIBUTE} of a device module: {reason}")
        error.ir_location = device.location  # pyright: ignore[reportAttributeAccessIssue]
        raise error from reason


class Form(IntEnum):
    """How far a module is on its way from `fly` to the dialects of MLIR; each pass that takes part brings it on."""

    TRACED = auto()
    CARRIED = auto()
    """No layout crosses a boundary."""
    NORMAL = auto()
    """What is static has its normal form."""
    LOWERED = auto()
    """Layouts are arithmetic."""
    SIMPLE = auto()
    """Swizzles keep to what they permute."""
    FOLDED = auto()
    CALLED = auto()
    """Calls of atoms take registers as values."""
    PROMOTED = auto()
    """Registers are values."""
    CONVERTED = auto()
    """Nothing of `fly` is left."""
    SETTLED = auto()
    """And that is folded: what a shared walk leaves."""


class Part(NamedTuple):
    """What a pass does in a walk it shares with its neighbours (`fuse.py`)."""

    forms: Mapping[Form, Form]
    """The form a module has behind the pass, by the one it had before; from others it does not take part."""
    walk: str = ""
    """`module:class` in this package with the handlers it brings; empty where those of the others do its work."""
    opens: bool = False
    """Whether a walk can start with it, on IR that the passes before have left."""
    cleans: bool = False
    """Whether it leaves a module of any other form in that form."""


@dataclass(frozen=True)
class Pass(ABC):
    """Base of all passes."""

    name: ClassVar[str]
    needs: ClassVar[str] = ""
    """What must hold of the module before, for the table of passes in docs/pipeline.md."""
    part: ClassVar[Part | None] = None
    """What it does in a walk it shares; None where it runs alone."""

    @abstractmethod
    def run(self, module: ModuleOp) -> ModuleOp:
        """The module after the pass; it may be the same object, changed, or a new one."""
