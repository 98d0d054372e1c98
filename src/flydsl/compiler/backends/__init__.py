"""The registry of compile backends, the only source of their names: built-ins, entry points, `register_backend`.

Discovery runs at the first use, and a backend's module is imported when that backend is first asked for.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import pkgutil
import re
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, TypeVar, cast, overload

from flydsl import config
from flydsl.compiler.backends.base import (
    BaseBackend,
    DeviceBinary,
    Options,
    Tool,
    set_helper_finder,
    set_supporter_finder,
)
from flydsl.errors import ExperimentalBackendWarning, TargetError
from flydsl.target import BUILTIN_STACKS, CPU_NATIVE, GPUTarget, TargetCaps, make_builtin_target, on_host

ENTRY_POINT_GROUP = "flydsl.backends"

BackendName = Literal["auto", "rocm", "cuda", "cpu"] | str
"""A backend id: editors complete the built-in ones, any other passes too."""

CORE_RESERVED_LAUNCH_PARAM_NAMES = frozenset(
    ("grid", "block", "smem", "stream", "cluster", "unit_attrs", "value_attrs")
)
"""Parameter names no kernel may use, whatever the backend: the launch call takes them."""

B = TypeVar("B", bound=type[BaseBackend])

_log = logging.getLogger("flydsl")


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """What is known of a registered backend; a backend that is not loaded tells less."""

    name: str
    class_path: str | None
    origin: str
    """`builtin`, `entry-point:<distribution>` or `explicit`."""
    experimental: bool | None
    runtime_kind: str | None
    loaded: bool
    import_error: str | None


class _Entry:
    """One name of the registry."""

    def __init__(self, name: str, origin: str, load: Callable[[], type[BaseBackend]] | None = None):
        self.name = name
        self.origin = origin
        self.load = load
        self.cls: type[BaseBackend] | None = None
        self.error: Exception | None = None


class _Registry:
    """All state of this module, in one place."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.entries: dict[str, _Entry] = {}
        self.listed = False
        """Whether the built-ins are in `entries`."""
        self.discovered = False
        """Whether the entry points are."""
        self.generation = 0
        self.instances: dict[tuple[int, str, GPUTarget], BaseBackend] = {}
        self.warned: set[str] = set()

    def drop_instances(self, name: str) -> None:
        self.generation += 1
        self.instances = {}
        self.warned.discard(name)


_registry = _Registry()


def _renew_lock() -> None:
    _registry.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


# --- discovery ----------------------------------------------------------------------------------------


def _discover() -> dict[str, _Entry]:
    """Every backend there is: those known so far, and the names of entry points."""
    if _registry.discovered:
        return _registry.entries
    _known()
    with _registry.lock:
        if not _registry.discovered:
            if not config.compile.backends_in_tree:
                _add_entry_points()
            _registry.discovered = True
    return _registry.entries


def _known() -> dict[str, _Entry]:
    """Built-ins and explicit registrations. Entry points wait: reading those of an installation takes 30 ms."""
    if _registry.listed:
        return _registry.entries
    with _registry.lock:
        if not _registry.listed:
            for name, module in _builtin_modules():
                _registry.entries.setdefault(name, _Entry(name, "builtin", _builtin_loader(module)))
            _connect_runtime()
            _registry.listed = True
            config.warn_unknown_variables()
    return _registry.entries


def _builtin_modules() -> list[tuple[str, str]]:
    names = sorted(info.name for info in pkgutil.iter_modules(__path__))
    return [(name, f"{__name__}.{name}") for name in names if not name.startswith("_") and name != "base"]


def _builtin_loader(module_name: str) -> Callable[[], type[BaseBackend]]:
    return lambda: backend_class_of_module(importlib.import_module(module_name))


def backend_class_of_module(module: ModuleType) -> type[BaseBackend]:
    """The one concrete backend a module (or its package) defines, or what it names as `BACKEND`."""
    named = getattr(module, "BACKEND", None)
    if named is not None:
        return named
    inside = (module.__name__, f"{module.__name__}.")
    found = {
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, BaseBackend)
        and not inspect.isabstract(value)
        and (value.__module__ == inside[0] or value.__module__.startswith(inside[1]))
    }
    if len(found) != 1:
        names = ", ".join(sorted(cls.__name__ for cls in found)) or "none"
        raise ImportError(f"{module.__name__} must define one backend class or set BACKEND; found: {names}")
    return found.pop()


def _add_entry_points() -> None:
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINT_GROUP):
        name = point.name.strip().lower()
        distribution = point.dist.name if point.dist is not None else "?"
        if name in _registry.entries:
            _log.info("backend %r of %s is shadowed by the %s one", name, distribution, _registry.entries[name].origin)
            continue
        _registry.entries[name] = _Entry(name, f"entry-point:{distribution}", _entry_point_loader(point))


def _entry_point_loader(point: Any) -> Callable[[], type[BaseBackend]]:
    def load() -> type[BaseBackend]:
        cls = point.load()
        _check_class(cls)
        return cls

    return load


def _connect_runtime() -> None:
    """Let the runtime ask which kind a backend class declares."""
    from flydsl.runtime import device_runtime

    device_runtime.set_backend_kind_resolver(_declared_kind)


def _declared_kind(name: str) -> str | None:
    return runtime_kind_of(name) if name in _known() or name in _discover() else None


# --- registration -------------------------------------------------------------------------------------


def _valid_name(name: str) -> str:
    key = name.strip().lower()
    if not re.fullmatch(r"[a-z][a-z0-9_]*", key) or key == "auto":
        raise ValueError(f"bad backend name {name!r}: expected letters, digits and _, a letter first, and not 'auto'")
    return key


def _check_class(cls: object) -> None:
    if not (inspect.isclass(cls) and issubclass(cls, BaseBackend)):
        raise TypeError(f"a compile backend must be a subclass of BaseBackend, got {cls!r}")
    missing = sorted(cast("frozenset[str]", getattr(cls, "__abstractmethods__", frozenset[str]())))
    if missing:
        raise TypeError(f"{cls.__name__} is not a complete backend; missing: {', '.join(missing)}")


@overload
def register_backend(name: str, *, force: bool = False) -> Callable[[B], B]: ...
@overload
def register_backend(name: str, backend_cls: type[BaseBackend], *, force: bool = False) -> None: ...
def register_backend(
    name: str, backend_cls: type[BaseBackend] | None = None, *, force: bool = False
) -> Callable[[B], B] | None:
    """Register a backend class under a name; without the class, a decorator that does so.

    A name in use needs `force=True`; the same class again is no error. Never changes which backend is the default.

    >>> from flydsl.compiler.backends.cpu import CpuBackend
    >>> class Mine(CpuBackend):
    ...     pass
    >>> register_backend("mine", Mine)
    >>> "mine" in list_backends()
    True
    >>> unregister_backend("mine")
    """
    key = _valid_name(name)
    if backend_cls is None:

        def decorate(cls: B) -> B:
            register_backend(key, cls, force=force)
            return cls

        return decorate
    _check_class(backend_cls)
    with _registry.lock:
        before = _discover().get(key)
        if before is not None:
            if before.cls is backend_cls:
                return None
            if not force:
                raise ValueError(f"compile backend {key!r} is registered already; pass force=True to replace it")
            _log.warning("compile backend %r: %s replaces %s", key, _path(backend_cls), _path(before.cls))
            _registry.drop_instances(key)
        entry = _Entry(key, "explicit")
        entry.cls = backend_cls
        _registry.entries[key] = entry
    return None


def unregister_backend(name: str) -> None:
    """Take a backend out again; a built-in or entry point it had replaced comes back. Meant for tests.

    >>> from flydsl.compiler.backends.cpu import CpuBackend
    >>> register_backend("gone", type("Gone", (CpuBackend,), {}))
    >>> unregister_backend("gone")
    >>> "gone" in list_backends()
    False
    """
    key = _valid_name(name)
    with _registry.lock:
        if key not in _discover():
            raise _unknown(key)
        del _registry.entries[key]
        _registry.drop_instances(key)
        _registry.listed = _registry.discovered = False


def _path(cls: type[BaseBackend] | None) -> str:
    return "a backend not loaded yet" if cls is None else f"{cls.__module__}.{cls.__qualname__}"


# --- lookup -------------------------------------------------------------------------------------------


def _unknown(name: str) -> ValueError:
    return ValueError(f"Unknown compile backend '{name}'. Registered: {', '.join(list_backends())}")


def get_backend_class(name: str) -> type[BaseBackend]:
    """The class of a backend; its module is imported if need be.

    >>> get_backend_class("cuda").__name__
    'CudaBackend'
    """
    key = name.strip().lower()
    entry = _known().get(key) or _discover().get(key)
    if entry is None:
        raise _unknown(key)
    if entry.cls is not None:
        return entry.cls
    with _registry.lock:
        if entry.cls is None and entry.error is None and entry.load is not None:
            try:
                entry.cls = entry.load()
            except Exception as error:  # noqa: BLE001 - any failure of the module is kept and shown on use
                entry.error = error
    if entry.cls is None:
        raise ImportError(f"Compile backend '{key}' failed to import: {entry.error}") from entry.error
    return entry.cls


def runtime_kind_of(name: str) -> str:
    """The device-runtime kind a backend needs.

    >>> runtime_kind_of("cuda")
    'cuda'
    """
    key = name.strip().lower()
    return _kind(key, get_backend_class(key))


def _kind(key: str, cls: type[BaseBackend]) -> str:
    """What `register_compile_runtime_mapping` says goes before what the class declares."""
    from flydsl.runtime import device_runtime

    return device_runtime.mapped_kind(key) or cls.runtime_kind or key


def list_backends() -> list[str]:
    """Names of the backends that are usable or not loaded yet, sorted.

    >>> [name for name in list_backends() if name in ("cpu", "cuda", "rocm")]
    ['cpu', 'cuda', 'rocm']
    """
    return sorted(name for name, entry in _discover().items() if entry.error is None)


def backend_info() -> list[BackendInfo]:
    """What is known of every backend, also of those whose import failed.

    >>> [info.name for info in backend_info() if info.origin == "builtin"]
    ['cpu', 'cuda', 'rocm']
    """
    return [
        BackendInfo(
            name,
            _path(entry.cls) if entry.cls is not None else None,
            entry.origin,
            _experimental(name, entry.cls) if entry.cls is not None else None,
            _kind(name, entry.cls) if entry.cls is not None else None,
            entry.cls is not None,
            f"{type(entry.error).__name__}: {entry.error}" if entry.error is not None else None,
        )
        for name, entry in sorted(_discover().items())
    ]


def _experimental(name: str, cls: type[BaseBackend]) -> bool | None:
    """What a class says; where it is a property, what an instance says, and None while there is none."""
    said = cast(object, cls.experimental)
    if isinstance(said, bool):
        return said
    made = [b for (_, key, _), b in _registry.instances.items() if key == name and type(b) is cls]
    return bool(made[-1].experimental) if made else None


def compile_backend_name(arch: str = "") -> str:
    """The id of the active backend: FLYDSL_COMPILE_BACKEND, else what an architecture decides, else what is present.

    >>> compile_backend_name() in ("auto", "cpu")
    True
    """
    name = config.compile.backend
    if name != "auto":
        return name
    from flydsl.runtime import probe

    return probe.selected_backend(arch)


def get_backend(name: BackendName | None = None, *, arch: str = "") -> BaseBackend:
    """The backend of a name (default: the active one) for an architecture (default: detected), one per target.

    >>> get_backend("rocm", arch="gfx942").target
    GPUTarget(backend='rocm', arch='gfx942', warp_size=64, features=())
    """
    key = (name or "auto").strip().lower()
    if key == "auto":
        key = compile_backend_name(arch)
    cls = get_backend_class(key)
    target = cls.make_target(arch) if arch else cls.detect_target()
    return backend_for_target(target, name=key)


def backend_for_target(target: GPUTarget, *, name: str | None = None) -> BaseBackend:
    """The backend instance of a resolved target; instances are kept by (registry generation, name, target).

    >>> backend_for_target(parse_target("rocm:gfx942")).binary_ext
    'hsaco'
    """
    key = (name or target.backend).strip().lower()
    memo = (_registry.generation, key, target)
    instance = _registry.instances.get(memo)
    if instance is not None:
        return instance
    cls = get_backend_class(key)
    with _registry.lock:
        instance = _registry.instances.get(memo)
        if instance is None:
            instance = cls(target)
            instance.name = key
            _registry.instances[memo] = instance
    if instance.experimental and key not in _registry.warned:
        _registry.warned.add(key)
        config.warn(f"the compile backend {key!r} is experimental", ExperimentalBackendWarning, stacklevel=3)
    return instance


def _loaded_classes() -> Iterator[tuple[str, type[BaseBackend]]]:
    """Every built-in backend and every other one that is loaded; those that cannot be imported are left out."""
    for name, entry in list(_known().items()):
        if entry.cls is None and entry.origin == "builtin" and entry.error is None:
            try:
                get_backend_class(name)
            except ImportError:  # Kept in the entry, and shown when this backend is asked for.
                continue
        if entry.cls is not None:
            yield name, entry.cls


def _supporters(target: GPUTarget) -> str:
    names = [name for name, cls in _loaded_classes() if cls.supports_target(target)]
    return ", ".join(sorted(names)) or "none"


def parse_target(text: str) -> GPUTarget:
    """`GPUTarget.parse`, and `backend:arch` of any registered backend, whose class completes the target.

    >>> parse_target("cuda:sm_90").warp_size
    32
    """
    backend, _, arch = text.strip().partition(":")
    try:
        return GPUTarget.parse(text)
    except TargetError:
        if backend.lower() in BUILTIN_STACKS or not arch:
            raise
    return get_backend_class(backend).make_target(arch)


traced_for: ContextVar[GPUTarget | None] = ContextVar("flydsl_traced_for", default=None)
"""The target of the trace in progress."""


def current_target() -> GPUTarget:
    """The target of the trace in progress, as `fx.target()` has it; outside one that of the active backend.

    >>> current_target().backend
    'cpu'
    """
    return traced_for.get() or get_backend().target


def resolve_llvm_address_space(address_space: object) -> int:
    """LLVM's number of an address space on the active backend.

    >>> resolve_llvm_address_space("shared")
    0
    """
    return get_backend_class(compile_backend_name()).llvm_address_space(address_space)


def all_reserved_launch_param_names() -> frozenset[str]:
    """Parameter names some backend's launches take: built-in and registered ones, and entry points once loaded.

    >>> "maxnreg" in all_reserved_launch_param_names()
    True
    """
    return frozenset[str]().union(*(cls.reserved_launch_param_names() for _, cls in _loaded_classes()))


_CONVERSIONS = {"convert-fly-to-cpu": "cpu", "convert-fly-to-rocdl": "rocm", "convert-fly-to-nvvm": "cuda"}


def _helper_of(backend: BaseBackend) -> BaseBackend | None:
    """The built-in backend whose conversion pass a pipeline names, for the same architecture."""
    for fragment in backend.pipeline_fragments(compile_hints={}):
        name = _CONVERSIONS.get(re.split(r"[{(]", fragment.strip())[0])
        if name is None:
            continue
        try:
            target = make_builtin_target(name, backend.target.arch)
        except TargetError:
            if not on_host(name):
                raise
            target = make_builtin_target(name, CPU_NATIVE)
        helper = backend_for_target(target)
        return None if type(helper) is type(backend) else helper
    return None


set_helper_finder(_helper_of)
set_supporter_finder(_supporters)


def __getattr__(name: str) -> type[BaseBackend]:
    """`RocmBackend` and the other built-in classes, whose modules are loaded when one is asked for."""
    stack = name.removesuffix("Backend").lower()
    if not name.endswith("Backend") or stack not in BUILTIN_STACKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{stack}"), name)


__all__ = [
    "CORE_RESERVED_LAUNCH_PARAM_NAMES", "BackendInfo", "BackendName", "BaseBackend", "DeviceBinary", "GPUTarget",
    "Options", "TargetCaps", "Tool", "all_reserved_launch_param_names", "backend_for_target", "backend_info",
    "compile_backend_name", "current_target", "get_backend", "get_backend_class", "list_backends", "parse_target",
    "register_backend", "resolve_llvm_address_space", "runtime_kind_of", "unregister_backend",
]  # fmt: skip
