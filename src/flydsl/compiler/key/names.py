"""What a code object can read: globals, cells, imports, attributes by name, and the ways around names."""

from __future__ import annotations

import functools
import opcode
import re
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any, NamedTuple, cast

from flydsl.compiler.key.bytecode import instructions


class Chain(NamedTuple):
    """A name and the attributes taken from it, as `cfg.tiles.M`; `root` is global, cell or import."""

    root: str
    names: tuple[str, ...]


class CodeReads(NamedTuple):
    """What the code of a function and the code inside it can read."""

    chains: tuple[Chain, ...]
    attributes: frozenset[str]
    """Names of attributes: those it loads, and every word of its text constants, which `getattr` may be given."""
    computed: bool
    """Whether it may read attributes whose names it computes."""
    whole: bool
    """Whether it may read any global of its module."""


_ATTRIBUTE = frozenset(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"))
_ROOTS = {
    **dict.fromkeys(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"), "global"),
    **dict.fromkeys(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"), "cell"),
    **dict.fromkeys((name for name in opcode.opname if name.startswith("LOAD_FAST")), "local"),
}
"""Instructions a chain may begin with, and its root."""
_IMPORT = opcode.opmap["IMPORT_NAME"]
_WORD = re.compile(r"[^\W\d]\w*")

_COMPUTED = frozenset(
    (
        *(
            "getattr",
            "hasattr",
            "vars",
            "dir",
            "eval",
            "exec",
            "attrgetter",
            "methodcaller",
            "getattr_static",
            "getmembers",
        ),
        *("__dict__", "__getattribute__", "__getstate__", "__reduce__", "__reduce_ex__", "__dataclass_fields__"),
    )
)
"""Ways to read attributes without naming them."""
_WHOLE = frozenset(("globals", "eval", "exec", "__globals__", "f_globals", "__builtins__"))


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
        elif operation in ("STORE_FAST", "STORE_DEREF", "STORE_NAME") and self._bound is not None:
            first = self._bound[0].partition(".")[0]
            # `import a.b` binds a, `import a.b as c` binds the inner module.
            self.aliases[value] = (first,) if not self._names and value == first else self._bound
            self._bound = None
        elif operation == "POP_TOP" and self._names:
            self._module = self._bound = None
        return None


_LOADED = frozenset(("LOAD_CONST", "RETURN_CONST", "KW_NAMES"))
_TEXTS = frozenset((str, tuple, frozenset))
"""Classes of constants that hold words."""


class _Scan:
    """One pass over the instructions of a code object."""

    def __init__(self, code: CodeType):
        self.chains: dict[Chain, None] = {}
        self.attributes: set[str] = set()
        # Most code has no import statement, and then nothing to follow; a byte that looks like one is followed in vain.
        imports = _ImportScan() if _IMPORT in code.co_code else None
        # Not one call for an instruction: all the code that a kernel reaches comes by here.
        attribute, root_of, add = _ATTRIBUTE, _ROOTS.get, self.attributes.add
        root, names = "", list[str]()
        """The chain so far; no names: none."""
        for name, value in instructions(code):
            if name in attribute:
                add(value)
                if names:
                    names.append(value)
                continue
            if names:
                self.chains.setdefault(Chain(root, tuple(names)))
                names = []
            begins = root_of(name)
            if begins is not None:
                if begins == "local":
                    alias = None if imports is None else imports.aliases.get(value)
                    if alias is not None:
                        root, names = "import", list(alias)
                elif begins != "cell" or value in code.co_freevars:
                    root, names = begins, [value]
            elif name in _LOADED:
                if type(value) in _TEXTS:
                    self.attributes.update(_words(value))
            elif name == "IMPORT_FROM":
                add(value)
            if imports is not None and (chain := imports.see(name, value)) is not None:
                self.chains.setdefault(chain)
        if names:
            self.chains.setdefault(Chain(root, tuple(names)))


def _words(constant: object) -> Iterator[str]:
    """Words of a text, and of those in a tuple."""
    if isinstance(constant, str):
        yield from _WORD.findall(constant)
    elif isinstance(constant, tuple | frozenset):
        for each in cast("Iterable[object]", constant):
            yield from _words(each)


@functools.lru_cache(maxsize=4096)
def code_reads(code: CodeType) -> CodeReads:
    """What a code object can read; that of code inside it included."""
    scan = _Scan(code)
    chains, attributes = scan.chains, set(scan.attributes)
    computed = whole = False
    own = code.co_varnames + code.co_cellvars
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found = code_reads(inner)
            attributes |= found.attributes
            computed, whole = computed or found.computed, whole or found.whole
            for chain in found.chains:
                if chain.root != "cell" or chain.names[0] not in own:
                    chains.setdefault(chain)
    names = {name for chain in chains for name in chain.names} | scan.attributes
    computed = computed or not names.isdisjoint(_COMPUTED)
    whole = whole or not names.isdisjoint(_WHOLE)
    return CodeReads(tuple(chains), frozenset(attributes), computed, whole)


def code_record(code: CodeType, *, positions: bool) -> object:
    """What a code object does, as data; with its file and lines only if `positions`."""
    consts = tuple(
        code_record(const, positions=positions) if isinstance(const, CodeType) else const for const in code.co_consts
    )
    place = (code.co_filename, code.co_firstlineno, code.co_linetable) if positions else ()
    # One text of all names, which have no such character: a key of hundreds of functions is made of thousands of them.
    names = map("\0".join, (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
    return (
        *(code.co_name, code.co_code, consts, *names),
        *(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_exceptiontable),
        place,
    )
