"""Modules and symbol tables with the members that MLIR's bindings have, around xDSL's."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Operation
from xdsl.traits import SymbolTable as XSymbolTable

from ..errors import DSLTypeError, DSLValueError
from ..expr.emit.facade import Made
from .blocks import Block
from .insertion import Context, location_of
from .operations import Operation_, OperationBase, view
from .text import parse_module


class Module:
    """`ir.Module`."""

    def __init__(self, raw: ModuleOp):
        self.raw = raw

    @staticmethod
    def create(loc: object = None) -> Module:
        """An empty module."""
        made = ModuleOp([])
        made.location = location_of(loc)
        return Module(made)

    @staticmethod
    def parse(asm: str | bytes, context: object = None) -> Module:
        """The module of a text, which must verify."""
        return Module(parse_module(asm if isinstance(asm, str) else asm.decode(), "-"))

    @property
    def body(self) -> Block:
        return Block(self.raw.body.block)

    @property
    def operation(self) -> Operation_:
        return Operation_.of(self.raw)

    @property
    def context(self) -> Context:
        return cast(Context, Context.current)

    def dump(self) -> None:
        """Write its text to the standard output."""
        self.operation.print()

    def __str__(self) -> str:
        return str(self.operation)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Module) and self.raw is other.raw

    def __hash__(self) -> int:
        return hash(self.raw)


class SymbolTable:
    """`ir.SymbolTable`: the named operations in one."""

    def __init__(self, operation: OperationBase | Module):
        if not operation.raw.has_trait(XSymbolTable, value_if_unregistered=False):
            raise DSLTypeError(f"'{operation.raw.name}' is no symbol table")
        self._op = operation.raw

    def _named(self) -> dict[str, Operation]:
        found: dict[str, Operation] = {}
        for op in self._op.regions[0].block.ops:
            name = _symbol(op)
            if name is not None:
                found[name] = op
        return found

    def __getitem__(self, name: str) -> OperationBase:
        named = self._named()
        if name not in named:
            raise KeyError(f"symbol '{name}' is not in the symbol table, which has {', '.join(named) or 'none'}")
        return view(named[name])

    def __contains__(self, name: str) -> bool:
        return name in self._named()

    def __delitem__(self, name: str) -> None:
        self.erase(self[name])

    def erase(self, operation: OperationBase) -> None:
        """Remove a named operation."""
        operation.erase()

    def insert(self, operation: OperationBase) -> Attribute:
        """Put an operation at the end; gives its name, which gets a number behind it where it is taken."""
        wanted = SymbolTable.get_symbol_name(operation).value
        named, name, count = self._named(), wanted, 0
        while named.get(name, operation.raw) is not operation.raw:
            name, count = f"{wanted}_{count}", count + 1
        SymbolTable.set_symbol_name(operation, name)
        if operation.raw.parent_op() is not self._op:
            Block(self._op.regions[0].block).append(operation)
        return SymbolTable.get_symbol_name(operation)

    @staticmethod
    def get_symbol_name(symbol: OperationBase) -> Made:
        """The name of an operation."""
        if _symbol(symbol.raw) is None:
            raise DSLValueError(f"'{symbol.raw.name}' has no name in a symbol table")
        return symbol.attributes["sym_name"]

    @staticmethod
    def set_symbol_name(symbol: OperationBase, name: str) -> None:
        """Give an operation another name. Who refers to it is not looked for."""
        SymbolTable.get_symbol_name(symbol)
        symbol.attributes["sym_name"] = StringAttr(name)

    @staticmethod
    def get_visibility(symbol: OperationBase) -> Made:
        """Who may refer to an operation, as it is written there."""
        if "sym_visibility" not in symbol.attributes:
            raise DSLValueError(f"'{symbol.raw.name}' has no visibility")
        return symbol.attributes["sym_visibility"]

    @staticmethod
    def set_visibility(symbol: OperationBase, visibility: str) -> None:
        """Say who may refer to an operation."""
        if visibility not in ("public", "private", "nested"):
            raise DSLValueError(f"expected the visibility 'public', 'private' or 'nested', got {visibility!r}")
        symbol.attributes["sym_visibility"] = StringAttr(visibility)

    @staticmethod
    def replace_all_symbol_uses(old_symbol: str, new_symbol: str, from_op: OperationBase) -> None:
        """Let all inside an operation that refer to a name refer to another."""
        for op in from_op.raw.walk():
            for held in (op.properties, op.attributes):
                held.update({key: _renamed(value, old_symbol, new_symbol) for key, value in held.items()})

    @staticmethod
    def walk_symbol_tables(
        from_op: OperationBase, all_sym_uses_visible: bool, callback: Callable[[OperationBase, bool], object]
    ) -> None:
        """Call a function with each operation inside one that has a symbol table, innermost first."""
        tables = [op for op in from_op.raw.walk() if op.has_trait(XSymbolTable, value_if_unregistered=False)]
        for op in reversed(tables):
            callback(view(op), all_sym_uses_visible)


def _symbol(op: Operation) -> str | None:
    found = op.properties.get("sym_name", op.attributes.get("sym_name"))
    return found.data if isinstance(found, StringAttr) else None


def _renamed(attr: Attribute, old: str, new: str) -> Attribute:
    """An attribute that refers to another name, also deep inside."""
    if isinstance(attr, SymbolRefAttr) and attr.root_reference.data == old:
        return SymbolRefAttr(new, attr.nested_references)
    if isinstance(attr, ArrayAttr):
        return ArrayAttr([_renamed(each, old, new) for each in cast("ArrayAttr[Attribute]", attr).data])
    if isinstance(attr, DictionaryAttr):
        return DictionaryAttr({name: _renamed(each, old, new) for name, each in attr.data.items()})
    return attr


__all__ = ["Module", "SymbolTable"]
