"""Names a code object uses: globals, cells, attribute chains, imports."""

from __future__ import annotations

import functools
import opcode
from collections.abc import Iterator
from types import (
    CodeType,
)
from typing import Any, NamedTuple, cast

from flydsl.compiler.key.bytecode import instructions


class Chain(NamedTuple):
    """A name and the attributes taken from it, as `cfg.tiles.M`; `root` is global, cell, local or import."""

    root: str
    names: tuple[str, ...]


_ATTRIBUTE = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
_ROOTS = {
    **dict.fromkeys(("LOAD_GLOBAL", "LOAD_NAME"), "global"),
    **dict.fromkeys(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"), "cell"),
    **dict.fromkeys((name for name in opcode.opname if name.startswith("LOAD_FAST")), "local"),
}
"""Instructions a chain may begin with, and its root."""
_IMPORT = opcode.opmap["IMPORT_NAME"]


class _ImportScan:
    """Follows the import statements of a code object, to know which locals are modules or come from one."""

    def __init__(self) -> None:
        self.aliases: dict[str, tuple[str, ...]] = {}
        self._constants: list[Any] = [0, None]
        self._module: str | None = None
        self._names = False
        """Whether the statement is `from ... import`."""
        self._bound: tuple[str, ...] | None = None

    def see(self, operation: str, value: Any) -> Chain | None:
        """Take one instruction; the chain of what it imports, if any."""
        if operation in ("LOAD_CONST", "LOAD_SMALL_INT"):
            self._constants.append(value)
        elif operation == "IMPORT_NAME":
            level, wanted = self._constants[-2:]
            module = "." * level + value
            self._module, self._names, self._bound = module, wanted is not None, (module,)
            return None if self._names else Chain("import", (module,))
        elif operation == "IMPORT_FROM" and self._names and self._module is not None:
            self._bound = (self._module, value)
            return Chain("import", self._bound)
        elif operation == "STORE_FAST" and self._bound is not None:
            first = self._bound[0].partition(".")[0]
            # `import a.b` binds a, `import a.b as c` binds the inner module.
            self.aliases[value] = (first,) if not self._names and value == first else self._bound
            self._bound = None
        elif operation == "POP_TOP" and self._names:
            self._module = self._bound = None
        return None


@functools.lru_cache(maxsize=4096)
def used_names(code: CodeType) -> tuple[Chain, ...]:
    """The chains a code object loads, in order and once each; those of code inside it included."""
    found: dict[Chain, None] = {}
    current: tuple[str, list[str]] | None = None
    # Most code has no import statement, and then nothing to follow; a byte that looks like one is followed in vain.
    imports = _ImportScan() if _IMPORT in code.co_code else None
    for name, value in instructions(code):
        if current is not None:
            if name in _ATTRIBUTE:
                current[1].append(value)
                continue
            found.setdefault(Chain(current[0], tuple(current[1])))
            current = None
        root = _ROOTS.get(name)
        if root == "local":
            local = cast(str, value)
            alias = None if imports is None else imports.aliases.get(local)
            current = ("import", list(alias)) if alias is not None else ("local", [local])
        elif root == "cell":
            current = ("cell" if value in code.co_freevars else "local", [value])
        elif root is not None:
            current = (root, [value])
        elif imports is not None and (chain := imports.see(name, value)) is not None:
            found.setdefault(chain)
    if current is not None:
        found.setdefault(Chain(current[0], tuple(current[1])))
    own = code.co_varnames + code.co_cellvars
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            for chain in used_names(inner):
                if chain.root == "cell" and chain.names[0] in own:
                    chain = Chain("local", chain.names)
                elif chain.root == "local" and chain.names[0] not in own:
                    continue
                found.setdefault(chain)
    # A local variable is interesting only as the object methods are called on.
    first = code.co_varnames[:1]
    return tuple(c for c in found if c.root != "local" or (c.names[0] in (*first, "self", "cls") and len(c.names) > 1))


def code_record(code: CodeType, *, positions: bool) -> object:
    """What a code object does, as data; with its file and lines only if `positions`."""
    consts = tuple(
        code_record(const, positions=positions) if isinstance(const, CodeType) else const for const in code.co_consts
    )
    place = (code.co_filename, code.co_firstlineno, code.co_linetable) if positions else ()
    return (
        *(code.co_name, code.co_code, consts, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
        *(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_exceptiontable),
        place,
    )


def all_codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those inside it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from all_codes(const)
