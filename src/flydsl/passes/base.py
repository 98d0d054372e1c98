"""A pass is a frozen value with a name and one method; options are its fields."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp


@dataclass(frozen=True)
class Pass(ABC):
    """Base of all passes."""

    name: ClassVar[str]
    needs: ClassVar[str] = ""
    """What must hold of the module before, for the table of passes in docs/pipeline.md."""

    @abstractmethod
    def run(self, module: ModuleOp) -> ModuleOp:
        """The module after the pass; it may be the same object, changed, or a new one."""
