"""Blocks and regions with the members that MLIR's bindings have, around xDSL's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast, overload

from xdsl.ir import Attribute
from xdsl.ir import Block as XBlock
from xdsl.ir import Region as XRegion

from ..errors import DSLValueError
from ..expr.emit.facade import Made
from ..ir.emitter import new_block
from ..ir.values import add_argument
from .operations import Values, view
from .text import block_text
from .values import wrap

if TYPE_CHECKING:
    from .operations import OperationBase


class Block:
    """`ir.Block`."""

    def __init__(self, raw: XBlock):
        self.raw = raw

    @staticmethod
    def create_at_start(parent: Region, arg_types: Sequence[Attribute] = (), arg_locs: object = None) -> Block:
        """A new first block of a region."""
        made = new_block(arg_types)
        parent.raw.insert_block(made, 0)
        return Block(made)

    def create_after(self, *arg_types: Attribute, arg_locs: object = None) -> Block:
        """A new block behind this one."""
        made = new_block(arg_types)
        cast(XRegion, self.raw.parent).insert_block_after(made, self.raw)
        return Block(made)

    def create_before(self, *arg_types: Attribute, arg_locs: object = None) -> Block:
        """A new block in front of this one."""
        made = new_block(arg_types)
        cast(XRegion, self.raw.parent).insert_block_before(made, self.raw)
        return Block(made)

    @property
    def arguments(self) -> Values:
        return Values(self.raw.args)

    @property
    def operations(self) -> list[OperationBase]:
        return [view(op) for op in self.raw.ops]

    @property
    def owner(self) -> OperationBase | None:
        """The operation whose region it is in."""
        found = self.raw.parent_op()
        return None if found is None else view(found)

    @property
    def region(self) -> Region | None:
        return None if self.raw.parent is None else Region(self.raw.parent)

    def add_argument(self, type: Attribute, loc: object = None) -> Made:
        """A new last argument."""
        return wrap(add_argument(self.raw, type))

    def erase_argument(self, index: int) -> None:
        """Remove an argument that nobody uses."""
        arg = self.raw.args[index]
        users = [use.operation.name for use in arg.uses]
        if users:
            raise DSLValueError(
                f"argument {index} of the block cannot be erased: it is used by {', '.join(map(repr, users))}; call "
                "replace_all_uses_with first"
            )
        self.raw.erase_arg(arg)

    @property
    def successors(self) -> list[Block]:
        """The blocks that its last operation may go on to."""
        last = self.raw.last_op
        return [] if last is None else [Block(b) for b in last.successors]

    @property
    def predecessors(self) -> list[Block]:
        """The blocks it may be come from."""
        return [] if self.region is None else [b for b in self.region if self in b.successors]

    def append(self, operation: OperationBase) -> None:
        """Move an operation to its end."""
        if operation.raw.parent is not None:
            operation.detach_from_parent()
        self.raw.add_op(operation.raw)

    def __str__(self) -> str:
        return block_text(self.raw)

    def append_to(self, region: Region) -> None:
        """Move it to the end of a region."""
        if self.raw.parent is not None:
            self.raw.parent.detach_block(self.raw)
        region.raw.add_block(self.raw)

    def __iter__(self) -> Iterator[OperationBase]:
        return iter(self.operations)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Block) and self.raw is other.raw

    def __hash__(self) -> int:
        return hash(self.raw)


class BlockList(Sequence[Block]):
    """The blocks of a region."""

    def __init__(self, region: XRegion):
        self._region = region

    def append(self, *types: Attribute, arg_locs: object = None) -> Block:
        """A new last block with arguments of these types."""
        made = new_block(types)
        self._region.add_block(made)
        return Block(made)

    @overload
    def __getitem__(self, index: int) -> Block: ...
    @overload
    def __getitem__(self, index: slice) -> list[Block]: ...
    def __getitem__(self, index: int | slice) -> Block | list[Block]:
        blocks = [Block(raw) for raw in self._region.blocks]
        return blocks[index]

    def __len__(self) -> int:
        return len(list(self._region.blocks))


class Region:
    """`ir.Region`."""

    def __init__(self, raw: XRegion):
        self.raw = raw

    @property
    def blocks(self) -> BlockList:
        return BlockList(self.raw)

    @property
    def owner(self) -> OperationBase | None:
        return None if self.raw.parent is None else view(self.raw.parent)

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, index: int) -> Block:
        return self.blocks[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Region) and self.raw is other.raw

    def __hash__(self) -> int:
        return hash(self.raw)


__all__ = ["Block", "BlockList", "Region"]
