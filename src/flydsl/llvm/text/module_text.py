"""A module of LLVM IR text being written: declarations are collected as they are needed."""

from __future__ import annotations

from collections.abc import Sequence

from .debug_info import DebugInfo
from .spelling import quoted


class ModuleText:
    """Globals, functions, declarations and metadata."""

    def __init__(self, triple: str, data_layout: str):
        self.header = [f'target datalayout = "{data_layout}"'] if data_layout else []
        self.triple = triple
        self.header.append(f'target triple = "{triple}"')
        self.triple = triple
        self.declarations: dict[str, str] = {}
        self.globals: list[str] = []
        self.functions: list[str] = []
        self.footer: list[str] = []
        self.defined: set[str] = set()
        """Names of functions with a body, which a call must not declare."""
        self.notes: dict[str, str] = {}
        """What parts of the translation remember between functions."""
        self.debug: DebugInfo | None = None
        """Writes line tables, if they are wanted."""
        self._constants: dict[tuple[str, str], str] = {}

    def declare(self, name: str, result: str, params: Sequence[str]) -> None:
        """Note an external function."""
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({', '.join(params)})"

    def constant_text(self, text: str, prefix: str, space: int) -> str:
        """Name of a zero-terminated constant, made once per text; names count up behind a prefix."""
        found = self._constants.get((prefix, text))
        if found is None:
            number = sum(1 for known, _ in self._constants if known == prefix)
            found = self._constants[prefix, text] = f"{prefix}{number}"
            self.globals.append(text_line(found, text.encode() + b"\0", space))
        return found

    def metadata(self, line: str) -> None:
        """Add a node of metadata with a fixed number, once."""
        if line not in self.footer:
            self.footer.append(line)

    def text(self) -> str:
        """The whole module; declarations stand in order of their names, so that nothing else decides it."""
        if self.debug is not None:
            self.debug.finish(self.footer)
        declarations = [self.declarations[name] for name in sorted(self.declarations) if name not in self.defined]
        parts = [*self.header, "", *sorted(self.globals), *self.functions, *declarations, "", *self.footer]
        return "\n".join(parts) + "\n"


def text_line(name: str, data: bytes, space: int) -> str:
    """A constant of bytes."""
    where = f"addrspace({space}) " if space else ""
    return f"@{name} = internal {where}constant [{len(data)} x i8] c{quoted(data)}"
