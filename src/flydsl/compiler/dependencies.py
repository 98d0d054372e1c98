"""What a function's compiled code depends on: its source, what its names refer to, the helpers it calls, our own code.

`function_key` walks from a function over everything its code can reach by name (globals, closure cells, attributes of
modules, classes and namespaces, members used through `self`) and numbers what it finds in the order of the code, so
recursion ends by itself. Values count by value, helpers of the user by their code, other packages by their version.
The result knows how to tell, in a few hundred nanoseconds, whether all of it still is what it was.
"""

from __future__ import annotations

import builtins
import functools
import hashlib
import importlib
import importlib.util
import inspect
import json
import marshal
import os
import reprlib
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, NamedTuple, cast

from flydsl import config
from flydsl.compiler.artifact import atomic_write
from flydsl.compiler.bytecode import instructions
from flydsl.compiler.cache_key import digest, encode, qualified_name
from flydsl.errors import DSLRuntimeError, UntrackedGlobalWarning

KEY_SCHEMA = 1
"""Raised when the same inputs start to mean something else."""

EXTRA_SOURCE_DIRS: list[str | Path] = []
"""More directories whose Python sources every key depends on, beside those of FLYDSL_EXTRA_SOURCE_DIRS."""

PRODUCT = Path(__file__).resolve().parents[1]
_SIDE_FILE = "producthash.json"


class Component(NamedTuple):
    """One part of a key. The `kind` is source, function, kernel, class, value, external, environment, ..."""

    name: str
    kind: str
    digest: str


class _MissingType:
    def __repr__(self) -> str:
        return "nothing"


_MISSING: Any = _MissingType()


# -- names a code object uses ------------------------------------------------------------------------


class Chain(NamedTuple):
    """A name and the attributes taken from it, as `cfg.tiles.M`; `root` is global, cell, local or import."""

    root: str
    names: tuple[str, ...]


_ATTRIBUTE = frozenset(("LOAD_ATTR", "LOAD_METHOD"))


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
    imports = _ImportScan()
    for name, value in instructions(code):
        if name in _ATTRIBUTE and current is not None:
            current[1].append(value)
            continue
        if current is not None:
            found.setdefault(Chain(current[0], tuple(current[1])))
            current = None
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            current = ("global", [value])
        elif name in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"):
            current = ("cell" if value in code.co_freevars else "local", [value])
        elif name.startswith("LOAD_FAST"):
            local = cast(str, value[-1] if type(value) is tuple else value)
            alias = imports.aliases.get(local)
            current = ("import", list(alias)) if alias is not None else ("local", [local])
        elif (chain := imports.see(name, value)) is not None:
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


# -- whose code it is --------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def _library_dirs() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Directories of installed packages, and of the standard library."""
    import sysconfig

    paths = sysconfig.get_paths()
    installed = {os.path.realpath(paths[name]) for name in ("purelib", "platlib") if name in paths}
    installed |= {
        os.path.realpath(path) for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")
    }
    standard = {os.path.realpath(paths[name]) for name in ("stdlib", "platstdlib") if name in paths}
    standard.add(os.path.realpath(os.path.dirname(os.__file__)))  # a virtual environment shares it
    return tuple(sorted(installed)), tuple(sorted(standard))


def _below(path: str, directories: Iterable[str]) -> bool:
    return any(path.startswith(directory + os.sep) for directory in directories)


@functools.lru_cache(maxsize=4096)
def _origin(filename: str) -> str:
    """`product`, `standard`, `installed` or `user`."""
    if filename.startswith("<frozen "):
        return "standard"
    if filename.startswith("<"):
        return "user"
    path = os.path.realpath(filename)
    product = str(PRODUCT)
    if _below(path, (product,)) and not _below(path, (os.path.join(product, "kernels"),)):
        return "product"
    installed, standard = _library_dirs()
    if _below(path, installed):
        return "installed"
    return "standard" if _below(path, standard) else "user"


_decorated_packages: set[str] = set()


def note_decorated(module: str) -> None:
    """Tell that a module holds a decorated function: helpers of its package then count as user code."""
    _decorated_packages.add(module.partition(".")[0])


@functools.lru_cache(maxsize=512)
def _package_version(top: str) -> str:
    """Version of the distribution that offers a top-level package; empty if there is none."""
    version: Any = getattr(sys.modules.get(top), "__version__", None)
    if isinstance(version, str):
        return str(version)
    return distribution_version(top)


@functools.lru_cache(maxsize=64)
def distribution_version(name: str) -> str:
    """Version of an installed distribution, which is not imported for it; empty if there is none."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


# -- the product itself ------------------------------------------------------------------------------


def _python_files(directory: Path, skip: str = "") -> list[tuple[str, str, os.stat_result]]:
    """Relative name, path and stat of every Python file below a directory, in a fixed order."""
    found: list[tuple[str, str, os.stat_result]] = []
    pending = [(str(directory), "")]
    while pending:
        folder, prefix = pending.pop()
        try:
            with os.scandir(folder) as listing:
                children = list(listing)
        except OSError:
            continue
        for entry in children:
            name = prefix + entry.name
            if entry.name.endswith(".py"):
                found.append((name, entry.path, entry.stat()))
            elif name != skip and entry.name != "__pycache__" and not entry.name.startswith(".") and entry.is_dir():
                pending.append((entry.path, name + "/"))
    return sorted(found, key=lambda item: item[0])


def _content_digest(files: Iterable[tuple[str, str, os.stat_result]]) -> str:
    total = hashlib.sha256()
    for name, path, _ in files:
        with open(path, "rb") as file:
            data = file.read()
        total.update(encode((name, len(data))))
        total.update(data)
    return total.hexdigest()


def tree_digest(directory: str | os.PathLike[str]) -> str:
    """SHA-256 over the Python files below a directory: relative names and content."""
    return _content_digest(_python_files(Path(directory)))


_product: list[str] = []
_product_lock = threading.Lock()
if hasattr(os, "register_at_fork"):

    def _renew_lock() -> None:
        global _product_lock
        _product_lock = threading.Lock()

    os.register_at_fork(after_in_child=_renew_lock)


def product_digest() -> str:
    """SHA-256 over the sources of this package but `kernels/`, computed once per process.

    A side file in the cache root spares the reading while no file's size or time changes.
    """
    with _product_lock:
        if not _product:
            files = _python_files(PRODUCT, skip="kernels")
            stamp = digest([(name, info.st_size, info.st_mtime_ns, info.st_ino) for name, _, info in files])
            side = _side_file()
            known = _read_side(side).get(str(PRODUCT)) if side is not None else None
            if known is not None and known[0] == stamp:
                _product.append(known[1])
            else:
                _product.append(_content_digest(files))
                if side is not None:
                    _write_side(side, stamp, _product[0])
        return _product[0]


def _side_file() -> Path | None:
    env = config.runtime
    try:
        return env.cache_dir / _SIDE_FILE if env.enable_cache else None
    except RuntimeError:  # no home directory
        return None


def _read_side(side: Path) -> dict[str, tuple[str, str]]:
    try:
        if side.parent.stat().st_mode & 0o002:  # everyone may write here
            return {}
        data: Any = json.loads(side.read_text())
        return {str(key): (str(stamp), str(value)) for key, (stamp, value) in data.items() if len(value) == 64}
    except (OSError, ValueError, TypeError, AttributeError):  # absent or broken: computed again
        return {}


def _write_side(side: Path, stamp: str, value: str) -> None:
    if config.runtime.cache_readonly or not side.parent.is_dir():
        return
    try:
        atomic_write(side, json.dumps({**_read_side(side), str(PRODUCT): (stamp, value)}).encode())
    except OSError:  # it only saves time
        return


@functools.lru_cache(maxsize=1)
def _llvm_library_digest() -> str:
    """Content hash of llvmlite's native library, found without importing it."""
    from flydsl.compiler.backends._fingerprint import file_digest  # pyright: ignore[reportPrivateUsage]

    spec = importlib.util.find_spec("llvmlite")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        for name in ("libllvmlite.so", "libllvmlite.dylib", "llvmlite.dll"):
            path = Path(place, "binding", name)
            if path.is_file():
                return file_digest(path)
    return ""


def environment_components() -> tuple[Component, ...]:
    """What every key holds whatever the function: our version and sources, xDSL, llvmlite, extra sources."""
    from flydsl import __version__

    parts: list[tuple[str, object]] = [
        ("key schema", KEY_SCHEMA),
        ("flydsl version", __version__),
        ("flydsl sources", product_digest()),
        ("xdsl version", distribution_version("xdsl")),
        ("llvmlite version", distribution_version("llvmlite")),
        ("llvmlite library", _llvm_library_digest()),
        ("extra sources", [tree_digest(path) for path in (*config.compile.extra_source_dirs, *EXTRA_SOURCE_DIRS)]),
    ]
    return tuple(Component(name, "environment", digest(value)) for name, value in parts)


# -- the key -----------------------------------------------------------------------------------------


class _Watch:
    """A place whose content a key depends on: a name in a namespace, or a closure cell."""

    __slots__ = ("blank", "container", "deep", "expected", "kind", "marshalled", "module", "name", "old", "token")

    def __init__(self, container: Any, name: str, expected: Any, kind: str, module: str):
        self.container = container
        self.name = name
        self.expected = expected
        self.kind = kind
        """`value`, or anything else for what is compared by identity alone."""
        self.module = module
        self.deep = kind == "value" and not _immutable(expected)
        self.old = ""
        self.marshalled: bytes | None = None
        self.token = self.blank = b""
        if kind == "value":
            self.remember(expected)

    def remember(self, value: Any) -> None:
        self.expected = value
        self.token = _token(value)
        self.old = reprlib.repr(value)
        self.marshalled = None
        if self.deep:
            self.blank = _token(value, blank=True)
            self.marshalled = _marshal(value)

    def current(self) -> Any:
        if isinstance(self.container, CellType):
            return _contents(self.container)
        return self.container.get(self.name, _MISSING)

    def unchanged(self, value: Any) -> bool:
        """Whether a value that may be another object still means the same."""
        if self.marshalled is not None and value is self.expected and _marshal(value) == self.marshalled:
            return True
        if self.kind != "value" or value is _MISSING:
            return value is self.expected
        try:
            same = _token(value) == self.token
        except TypeError:
            return False
        if same and value is not self.expected:
            self.remember(value)
        return same


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING


def _marshal(value: Any) -> bytes | None:
    """Exact bytes of plain data at the speed of C; version 2 has neither references nor interning."""
    try:
        return marshal.dumps(value, 2)
    except ValueError:
        return None


def _token(value: object, *, blank: bool = False) -> bytes:
    """An encoding to compare a value with itself later; functions and classes by identity, or not at all."""
    return encode(value, resolve=(lambda obj: None) if blank else (lambda obj: ("identity", id(obj))))


_IMMUTABLE = (type(None), bool, int, float, complex, str, bytes, type, Enum, FunctionType, BuiltinFunctionType)


def _immutable(value: Any) -> bool:
    if isinstance(value, tuple | frozenset):
        return all(_immutable(item) for item in cast("Iterable[Any]", value))
    if is_dataclass(value) and not isinstance(value, type):
        params: Any = getattr(type(value), "__dataclass_params__", None)
        return bool(getattr(params, "frozen", False)) and all(_immutable(getattr(value, f.name)) for f in fields(value))
    return isinstance(value, _IMMUTABLE)


class FunctionKey:
    """The part of a cache key that a function contributes, and the check whether it still holds."""

    __slots__ = (
        "_cells",
        "_codes",
        "_deep",
        "_names",
        "_watches",
        "components",
        "debug_info",
        "digest",
        "source_missing",
    )

    def __init__(
        self,
        components: tuple[Component, ...],
        watches: Sequence[_Watch],
        codes: Sequence[tuple[FunctionType, CodeType]],
        *,
        debug_info: bool = False,
        source_missing: bool = False,
    ):
        self.components = components
        self.digest = digest([tuple(component) for component in components])
        """64 hex digits over all components."""
        self.debug_info = debug_info
        self.source_missing = source_missing
        """Whether the source text was not to be found, so that compiled code stands for it."""
        self._watches = tuple(watches)
        self._codes = tuple(codes)
        self._index()

    def _index(self) -> None:
        """Lay the watches out for the warm path."""
        self._deep = [watch for watch in self._watches if watch.deep]
        plain = [watch for watch in self._watches if not watch.deep]
        self._cells = [(w.container, w.expected) for w in plain if isinstance(w.container, CellType)]
        self._names = [(w.container.get, w.name, w.expected) for w in plain if not isinstance(w.container, CellType)]

    def __repr__(self) -> str:
        return f"<FunctionKey {self.digest[:12]}: {len(self.components)} components>"

    def check(self, *, environment: bool = True) -> bool:
        """Whether the key still holds; False: compute it again.

        A changed value of a global variable or closure cell raises `RuntimeError`, unless
        FLYDSL_COMPILE_GLOBALS=recompile. A changed helper, class or module never does. `environment=False` is for a
        caller that compares `config.environment_snapshot()` itself: the switch for debug info is not looked at.
        """
        missing = _MISSING
        for get, name, expected in self._names:
            if get(name, missing) is not expected:
                return self._compare()
        try:
            for cell, expected in self._cells:
                if cell.cell_contents is not expected:
                    return self._compare()
        except ValueError:
            if any(_contents(cell) is not expected for cell, expected in self._cells):
                return self._compare()
        for function, code in self._codes:
            if function.__code__ is not code:
                return False
        for watch in self._deep:
            if not watch.unchanged(watch.current()):
                return self._compare()
        return not environment or config.debug.enable_debug_info == self.debug_info

    def _compare(self) -> bool:
        """The slow way: which value changed, and what follows from it."""
        refreshed = False
        for watch in self._watches:
            value = watch.current()
            before = watch.expected
            if value is before and not watch.deep:
                continue
            if not watch.unchanged(value):
                if watch.kind != "value" or config.compile.globals == "recompile" or self._only_callables(watch, value):
                    return False
                raise DSLRuntimeError(
                    f"{watch.name!r} of {watch.module} has changed since a kernel that uses it was compiled: it was "
                    f"{watch.old}, now it is {reprlib.repr(value)}. Pass it as an argument (Constexpr), or set "
                    "FLYDSL_COMPILE_GLOBALS=recompile to compile again for each value"
                )
            refreshed = refreshed or watch.expected is not before
        if refreshed:
            self._index()
        return all(f.__code__ is c for f, c in self._codes) and config.debug.enable_debug_info == self.debug_info

    @staticmethod
    def _only_callables(watch: _Watch, value: Any) -> bool:
        """Whether a container differs in the functions and classes it holds, not in its values."""
        if not watch.deep or value is _MISSING:
            return False
        try:
            return _token(value, blank=True) == watch.blank
        except TypeError:
            return False


def changed_components(ours: Iterable[Sequence[str]], theirs: Iterable[Sequence[str]]) -> list[tuple[str, str]]:
    """Name and kind of the components in which two keys differ, those of `ours` first.

    Components are (name, kind, digest), as in `FunctionKey.components` or read back from an artifact's header.
    """
    left = [tuple(component) for component in ours]
    right = [tuple(component) for component in theirs]
    differ = [c for c in left if c not in right] + [c for c in right if c not in left]
    return list(dict.fromkeys((c[0], c[1]) for c in differ))


def function_key(
    function: Any,
    *,
    owner: type | None = None,
    options: object = None,
    depends_on: Iterable[object] = (),
    extra: Mapping[str, object] | None = None,
    environment: bool = True,
) -> FunctionKey:
    """The key of a function, a `RewrittenFunction` or an object with one as `__fly_function__`.

    `owner` is the class a method is called on, `options` what the decorator was given, `depends_on` functions, classes,
    modules or names of packages that count as the user's, `extra` more named parts such as the backend's hash.
    `environment` adds what does not depend on the function.
    """
    return _Walk(function, owner, options, tuple(depends_on), extra or {}, environment).run()


def _rewritten(obj: Any) -> Any:
    """The RewrittenFunction-like of a decorated function, or None."""
    if isinstance(obj, type):
        return None
    found = inspect.getattr_static(cast("type[Any]", type(obj)), "__fly_function__", None)
    if found is None and "__fly_function__" not in getattr(obj, "__dict__", {}):
        return None
    return obj.__fly_function__


class _Walk:
    """One computation of a key: the components found so far and the functions still to look into."""

    def __init__(
        self,
        function: Any,
        owner: type | None,
        options: object,
        depends_on: tuple[object, ...],
        extra: Mapping[str, object],
        environment: bool,
    ):
        self.decorated = function if _rewritten(function) is not None else None
        record = _rewritten(function) or function
        self.function: FunctionType = getattr(record, "original", record)
        if not isinstance(self.function, FunctionType):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a function is needed, got {type(function).__name__}")
        self.source: str | None = getattr(record, "source", None)
        self.owner = owner
        self.options = options
        self.depends_on = depends_on
        self.extra = extra
        self.environment = environment
        self.positions = config.debug.enable_debug_info
        self.components: list[Component | None] = []
        self.seen: dict[tuple[int, int], int] = {}
        self.alive: list[object] = []
        """Objects in `seen`, which must keep their identity."""
        self.pending: deque[Callable[[], None]] = deque()
        self.watches: dict[tuple[int, str], _Watch] = {}
        self.namespaces: dict[type, Mapping[str, Any]] = {}
        self.codes: dict[int, tuple[FunctionType, CodeType]] = {}
        # Below an installed root file its folder counts. Elsewhere the tree may hold a virtual environment, and what is
        # not installed is the user's anyway.
        root = self.function.__code__.co_filename
        folder = os.path.dirname(os.path.realpath(root)) if _origin(root) == "installed" else ""
        self.user_dirs = [folder] if _below(folder, _library_dirs()[0]) else []
        self.user_dirs += [os.path.realpath(p) for p in (*config.compile.extra_source_dirs, *EXTRA_SOURCE_DIRS)]
        self.packages = {self.function.__module__.partition(".")[0], *_decorated_packages}
        self.prefixes = {
            str(getattr(item, "__name__", item)) for item in depends_on if isinstance(item, str | ModuleType)
        }

    def run(self) -> FunctionKey:
        fn = self.function
        self.add_function(fn, self.owner, "source", source=self.source)
        named: list[tuple[str, str, object]] = [
            ("name", "source", (fn.__module__, fn.__qualname__)),
            ("options", "options", self.options),
        ]
        if self.owner is not None:
            named.append(("class", "class", qualified_name(self.owner)))
        for name, value in self.extra.items():
            named.append((name, "extra", value))
        for name, kind, value in named:
            self.components.append(Component(name, kind, digest(value, resolve=self.reference)))
        for item in self.depends_on:
            if not isinstance(item, str | ModuleType):
                self.leaf(item, f"depends_on {getattr(item, '__qualname__', type(item).__name__)}")
        while self.pending:
            self.pending.popleft()()
        found = cast("list[Component]", self.components)
        ours = environment_components() if self.environment else ()
        return FunctionKey(
            (*ours, *found),
            tuple(self.watches.values()),
            tuple(self.codes.values()),
            debug_info=self.positions,
            source_missing=not self.source,
        )

    # -- whose code --------------------------------------------------------------------------------------

    def is_user(self, filename: str, module: str) -> bool:
        """The author's own code, and what belongs to no installed package: nothing else would notice its changes."""
        origin = _origin(filename)
        if origin in ("product", "standard"):
            return False
        if origin == "user" or module.partition(".")[0] in self.packages:
            return True
        if any(module == prefix or module.startswith(prefix + ".") for prefix in self.prefixes):
            return True
        return _below(os.path.realpath(filename), self.user_dirs)

    def module_origin(self, module: ModuleType) -> str:
        name = module.__name__
        if name.partition(".")[0] == "flydsl" and not (name + ".").startswith("flydsl.kernels."):
            return "product"
        file = getattr(module, "__file__", None)
        if not file:
            paths = list(cast("Iterable[str]", getattr(module, "__path__", ())))
            file = os.path.join(paths[0], "__init__.py") if paths else "<frozen builtin>"
            if name == "__main__":
                file = "<main>"
        return "user" if self.is_user(str(file), name) else _origin(str(file))

    # -- components --------------------------------------------------------------------------------------

    def reserve(self, obj: object, owner: object = None) -> tuple[int, bool]:
        """The number of an object, and whether it is new."""
        key = (id(obj), id(owner))
        if key in self.seen:
            return self.seen[key], False
        self.alive.append(obj)
        self.seen[key] = len(self.components)
        self.components.append(None)
        return self.seen[key], True

    def simple(self, name: str, kind: str, value: object) -> int:
        """The number of a component that is complete at once; equal ones are one."""
        made = Component(name, kind, digest(value, resolve=self.reference))
        if made in self.components:
            return self.components.index(made)
        self.components.append(made)
        return len(self.components) - 1

    def reference(self, obj: object) -> object:
        """How a function, class or other non-value stands inside an encoded value: by its component's number."""
        found = self.named_object(obj, getattr(obj, "__qualname__", type(obj).__name__), None)
        return NotImplemented if found is None else ("component", found)

    def leaf(self, value: Any, name: str, owner: type | None = None) -> tuple[int, str]:
        """The component of whatever a name refers to, and its kind."""
        found = self.named_object(value, name, owner)
        if found is not None:
            return found, "object"
        try:
            return self.simple(name, "value", value), "value"
        except TypeError:
            self.warn_untracked(value, name)
            return self.simple(name, "untracked", qualified_name(type(value))), "untracked"

    def named_object(self, value: Any, name: str, owner: type | None) -> int | None:
        """The component of a function, class, module or callable; None for a value."""
        if value is _MISSING:
            return self.simple(name, "missing", None)
        record = _rewritten(value)
        if record is not None:
            options = getattr(value, "__fly_options__", None)
            self.packages.add(record.original.__module__.partition(".")[0])
            return self.add_function(record.original, owner, "kernel", source=record.source, options=options)
        if isinstance(value, ModuleType):
            return self.simple(name, "module", value.__name__)
        if isinstance(value, FunctionType):
            return self.add_helper(value, owner)
        if isinstance(value, MethodType):
            bound: Any = value.__self__
            return self.leaf(value.__func__, name, bound if isinstance(bound, type) else type(bound))[0]
        if isinstance(value, type):
            return self.add_class(value)
        if isinstance(value, staticmethod | classmethod):
            return self.leaf(cast(Any, value).__func__, name, owner)[0]
        if isinstance(value, property) or type(value) is functools.cached_property:
            parts = (value.fget,) if isinstance(value, property) else (cast(Any, value).func,)
            return self.simple(name, "property", tuple(self.leaf(p, name, owner)[0] for p in parts if p))
        if isinstance(value, functools.partial):
            made = cast("functools.partial[Any]", value)
            return self.simple(name, "partial", (self.leaf(made.func, name)[0], made.args, made.keywords))
        if isinstance(inner := getattr(value, "__wrapped__", None), FunctionType) and callable(value):
            return self.leaf(inner, name, owner)[0]
        if isinstance(value, BuiltinFunctionType):
            return self.external(value.__module__ or "builtins", value.__qualname__)
        return None

    def external(self, module: str, name: str) -> int:
        """A component for code that is not the user's: which, and of which version."""
        top = module.partition(".")[0]
        version = "" if top in sys.stdlib_module_names else _package_version(top)
        return self.simple(f"{module}:{name}", "external", (module, name, version))

    def add_helper(self, fn: FunctionType, owner: type | None) -> int | None:
        module = fn.__module__ or ""
        if self.is_user(fn.__code__.co_filename, module):
            return self.add_function(fn, owner, "function")
        if _origin(fn.__code__.co_filename) == "product":  # its sources are part of every key
            return self.simple(f"{module}:{fn.__qualname__}", "product", (module, fn.__qualname__))
        return self.external(module, fn.__qualname__)

    def add_function(
        self, fn: FunctionType, owner: type | None, kind: str, *, source: str | None = None, options: object = None
    ) -> int:
        """A function whose code counts: reserve its number now, look into it later."""
        number, new = self.reserve(fn, owner)
        if new:
            self.pending.append(lambda: self.fill_function(number, fn, owner, kind, source, options))
        return number

    def fill_function(
        self, number: int, fn: FunctionType, owner: type | None, kind: str, source: str | None, options: object
    ) -> None:
        code = fn.__code__
        self.codes[id(fn)] = (fn, code)
        label = f"{fn.__module__}:{fn.__qualname__}"
        # The text may have changed on disk since a helper was imported; its code is what runs. The text of decorated
        # functions was read when they were decorated.
        body: object = source if source else code_record(code, positions=False)
        place = code_record(code, positions=True) if self.positions else None
        defaults = [self.leaf(v, f"{label} default {i}")[0] for i, v in enumerate(fn.__defaults__ or ())]
        named = cast("dict[str, object]", fn.__kwdefaults__ or {})
        keywords = [(n, self.leaf(v, f"{label} default {n}")[0]) for n, v in sorted(named.items())]
        references = [(chain, self.resolve(chain, fn, owner)) for chain in used_names(code)]
        content = (body, place, defaults, keywords, [(tuple(c), r) for c, r in references if r is not None], options)
        self.components[number] = Component(label, kind, digest(content, resolve=self.reference))
        if owner is not None and "__class__" in code.co_freevars:
            self.follow_super(code, owner)

    def follow_super(self, code: CodeType, owner: type) -> None:
        """`super().name()` can reach any definition of a name used in the code."""
        for name in sorted({name for c in _all_codes(code) for name in c.co_names}):
            for base in owner.__mro__:
                member = vars(base).get(name)
                if isinstance(member, FunctionType | staticmethod | classmethod | property):
                    self.leaf(member, f"{qualified_name(base)}.{name}", owner)

    def add_class(self, cls: type) -> int:
        module = cls.__module__
        file = getattr(sys.modules.get(module), "__file__", None) or ("<main>" if module == "__main__" else "<class>")
        if module in sys.builtin_module_names or not self.is_user(file, module):
            if module.partition(".")[0] == "flydsl":
                return self.simple(qualified_name(cls), "product", encode(cls))
            return self.external(module, cls.__qualname__)
        number, new = self.reserve(cls)
        if new:
            self.pending.append(lambda: self.fill_class(number, cls))
        return number

    def fill_class(self, number: int, cls: type) -> None:
        """A class of the user counts with its bases, the code of its members and their values."""
        label = qualified_name(cls)
        members: list[tuple[str, int]] = []
        content: dict[str, Any] = dict(vars(cls))
        members_of_enum: Mapping[str, Any] = getattr(cls, "__members__", {}) if _is_enum(cls) else {}
        content.update((name, member.value) for name, member in members_of_enum.items())
        for name, member in sorted(content.items()):
            if name in _CLASS_NOISE or isinstance(member, _DESCRIPTORS):
                continue
            if (known := self.named_object(member, f"{label}.{name}", cls)) is not None:
                members.append((name, known))
                continue
            try:
                members.append((name, self.simple(f"{label}.{name}", "value", member)))
            except TypeError:  # registries, locks and the like: only their presence counts
                members.append((name, -1))
        bases = [self.add_class(base) for base in cls.__bases__]
        self.components[number] = Component(label, "class", digest((label, bases, members)))

    def warn_untracked(self, value: Any, name: str) -> None:
        kind = cast("type[Any]", type(value))
        if kind.__module__.partition(".")[0] == "flydsl":
            last = name.rpartition(".")[2]
            modules = [m for n, m in sys.modules.copy().items() if n.partition(".")[0] == "flydsl"]
            if any(getattr(m, "__dict__", {}).get(last) is value for m in modules):
                return  # one of our own objects, imported by its name
        with _product_lock:
            if name in _warned:
                return
            _warned.add(name)
        config.warn(
            f"{name} is a {qualified_name(kind)}, whose content a cache key cannot hold: a kernel that uses it is not "
            f"compiled again when it changes. Pass it as an argument, or give {kind.__name__} a method "
            "__fly_cache_key__()",
            UntrackedGlobalWarning,
            stacklevel=3,
        )

    # -- names ---------------------------------------------------------------------------------------------

    def resolve(self, chain: Chain, fn: FunctionType, owner: type | None) -> int | None:
        """The component a chain refers to; None if it needs none."""
        first, *rest = chain.names
        module = fn.__module__ or "?"
        if chain.root == "local":
            return self.through_owner(chain, fn, owner)
        if chain.root == "import":
            return self.through_import(first, rest, fn)
        if chain.root == "cell":
            cell = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)).get(first)
            if cell is None or first == "__class__":
                return None
            value, place = _contents(cell), (cell, "cell")
            label = f"{module}:{fn.__qualname__}.{first}"
        else:
            label = f"{module}.{first}"
            value, place = fn.__globals__.get(first, _MISSING), (fn.__globals__, first)
            if value is _MISSING and hasattr(builtins, first):
                return None
        return self.follow(value, place, first, rest, label, module)

    def through_owner(self, chain: Chain, fn: FunctionType, owner: type | None) -> int | None:
        """A member used through `self` or `cls`, if the class has it."""
        if owner is None or chain.names[0] not in fn.__code__.co_varnames[:1]:
            return None
        return self.step(owner, chain.names[0], list(chain.names[1:]), qualified_name(owner), owner.__module__, owner)

    def through_import(self, name: str, rest: list[str], fn: FunctionType) -> int | None:
        """A module imported inside the function. The user's own are loaded: tracing is about to do the same."""
        level = len(name) - len(name.lstrip("."))
        package = fn.__globals__.get("__package__") or ""
        try:
            full = importlib.util.resolve_name(name, package).rstrip(".") if level else name
            if full.partition(".")[0] in sys.stdlib_module_names:
                return None
            module = sys.modules.get(full)
            spec = module.__spec__ if module is not None else importlib.util.find_spec(full)
            if module is None and (spec is None or not spec.origin or not self.is_user(spec.origin, full)):
                return self.external(full, ".".join(rest))
            loaded = module if module is not None else importlib.import_module(full)
        except (ImportError, ValueError):
            return self.simple(name, "missing", None)
        if rest and rest[0] not in vars(loaded) and hasattr(loaded, "__path__"):
            inner = f"{full}.{rest[0]}"  # `from package import module`
            if inner in sys.modules or importlib.util.find_spec(inner) is not None:
                return self.through_import(inner, rest[1:], fn)
        return self.step(loaded, full, rest, full, full, None)

    def watch(self, place: tuple[Any, str], value: Any, kind: str, name: str, module: str) -> None:
        container, key = place
        if (id(container), key) not in self.watches:
            made = _Watch(container, key, value, kind, module)
            if isinstance(container, CellType):
                made.name = name
            self.watches[id(container), key] = made

    def follow(
        self,
        value: Any,
        place: tuple[Any, str] | None,
        name: str,
        rest: list[str],
        label: str,
        module: str,
        owner: type | None = None,
    ) -> int | None:
        """The component of `value.rest...`, found at a place that is watched from now on."""
        if isinstance(value, ModuleType) and self.module_origin(value) == "product":
            return None
        if rest and _rewritten(value) is None and _is_namespace(value):
            if place is not None:
                self.watch(place, value, "namespace", name, module)
            return self.step(value, name, rest, label, module, owner)
        number, kind = self.leaf(value, label, owner)
        if place is not None and kind != "untracked":
            self.watch(place, value, kind, name, module)
        return number

    def step(self, holder: Any, name: str, rest: list[str], label: str, module: str, owner: type | None) -> int | None:
        """Take the first attribute of `rest` from a namespace."""
        if not rest:
            return self.leaf(holder, label, owner)[0]
        attribute, *more = rest
        label = f"{label}.{attribute}"
        if isinstance(holder, ModuleType):
            origin = self.module_origin(holder)
            if origin == "product":
                return None
            if origin != "user":
                return self.external(holder.__name__, ".".join(rest))
            if attribute not in vars(holder) and "__getattr__" in vars(holder):
                return self.follow(getattr(holder, attribute, _MISSING), None, attribute, more, label, holder.__name__)
            value = vars(holder).get(attribute, _MISSING)
            return self.follow(value, (vars(holder), attribute), attribute, more, label, holder.__name__)
        if not isinstance(holder, type):
            own = cast("dict[str, Any]", getattr(holder, "__dict__", {}))
            if attribute in own:
                return self.follow(own[attribute], (own, attribute), attribute, more, label, module)
        cls: type = holder if isinstance(holder, type) else type(holder)
        members: Mapping[str, Any] = getattr(cls, "__members__", {}) if _is_enum(holder) else {}
        if attribute in members:
            return self.leaf(members[attribute], label)[0]  # they cannot be assigned to: nothing to watch
        for base in cls.__mro__:
            if attribute in vars(base):
                member = vars(base)[attribute]
                if isinstance(member, _DESCRIPTORS) or base is object:
                    break
                if base.__module__.partition(".")[0] == "flydsl":
                    return None
                place = (self.namespaces.setdefault(base, vars(base)), attribute)
                return self.follow(member, place, attribute, more, label, base.__module__, cls)
        if owner is not None:  # an attribute of the instance, unknown here
            return None
        value = getattr(holder, attribute, _MISSING)
        return self.follow(value, None, attribute, more, label, module)


_DESCRIPTORS = (MemberDescriptorType, GetSetDescriptorType)
_CLASS_NOISE = frozenset(
    (
        *("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__firstlineno__", "__annotations__"),
        *("__annotate__", "__annotate_func__", "__annotations_cache__", "__static_attributes__", "__abstractmethods__"),
        *("_abc_impl", "__parameters__", "__orig_bases__", "__hash__", "__match_args__", "__dataclass_params__"),
        *("__dataclass_fields__", "_member_map_", "_value2member_map_", "_hashable_values_", "_unhashable_values_"),
        *("_unhashable_values_map_", "_member_type_", "_generate_next_value_", "_new_member_", "_use_args_"),
        *("_use_default_", "_value_repr_", "__new_member__"),
    )
)
_warned: set[str] = set()


def _is_namespace(value: Any) -> bool:
    """Whether attributes of a value count one by one, and not the value as a whole."""
    if isinstance(value, ModuleType | type | SimpleNamespace):
        return True
    module = cast("type[Any]", type(value)).__module__
    if (
        callable(value)
        or module == "builtins"
        or module.partition(".")[0] == "flydsl"
        or not hasattr(value, "__dict__")
    ):
        return False
    try:
        encode(value, resolve=lambda obj: None if callable(obj) else NotImplemented)
    except TypeError:
        return True
    return False


def _is_enum(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Enum)


def _all_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _all_codes(const)


__all__ = [
    "EXTRA_SOURCE_DIRS",
    "KEY_SCHEMA",
    "Component",
    "FunctionKey",
    "changed_components",
    "distribution_version",
    "environment_components",
    "function_key",
    "note_decorated",
    "product_digest",
    "tree_digest",
    "used_names",
]
