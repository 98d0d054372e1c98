"""What functions of all dialects have in common."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import FunctionType

from ..errors import DSLValueError
from ..expr.emit.facade import Made
from ..ir.emitter import new_block
from .blocks import Block
from .operations import OpView, Values


class FunctionLike(OpView):
    """An op with a name, a type and a body."""

    @property
    def entry_block(self) -> Block:
        """The first block."""
        first = self.raw.regions[0].blocks.first
        if first is None:
            raise DSLValueError(
                f"the function {self.attributes['sym_name']} is a declaration: it has no block and no arguments"
            )
        return Block(first)

    @property
    def type(self) -> Made:
        """Its inputs and results."""
        return self.attributes["function_type"]

    @property
    def arguments(self) -> Values:
        """The arguments of the entry block."""
        return self.entry_block.arguments

    @property
    def is_external(self) -> bool:
        """Whether it is a declaration."""
        return self.raw.regions[0].blocks.first is None

    def add_entry_block(self, arg_locs: object = None) -> Block:
        """Give it a body."""
        if not self.is_external:
            raise DSLValueError(f"the function {self.attributes['sym_name']} already has an entry block")
        made = new_block(cast(FunctionType, self.type).inputs.data)
        self.raw.regions[0].add_block(made)
        return Block(made)


__all__ = ["FunctionLike"]
