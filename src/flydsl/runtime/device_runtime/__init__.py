"""The process's one device runtime: which class, when it is made, when it may change, and what it must match.

States: unset -> selected (a class is registered) -> created (an instance exists) -> active (GPU work was done);
forked in the child of a process that had initialised the driver.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast

from flydsl import config
from flydsl.errors import RuntimeStateError, StackMismatchError
from flydsl.runtime import objects, probe
from flydsl.runtime.base import DeviceRuntime
from flydsl.runtime.cuda import CudaDeviceRuntime
from flydsl.runtime.objects import Device
from flydsl.runtime.rocm import RocmDeviceRuntime

State = Literal["unset", "selected", "created", "active", "forked"]

COMPILE_BACKEND_TO_RUNTIME_KIND: dict[str, str] = {"rocm": "rocm", "cuda": "cuda", "cpu": "cpu"}
"""Built-in compile backends and the runtime kind each needs."""

BUILT_IN: dict[str, type[DeviceRuntime] | str] = {
    "rocm": RocmDeviceRuntime,
    "cuda": CudaDeviceRuntime,
    "cpu": "flydsl.cpu.runtime:CpuDeviceRuntime",
}
"""Built-in runtimes by kind; that of the CPU stands in a layer above and is imported when it is asked for."""

ENTRY_POINT_GROUP = "flydsl.runtimes"
BACKEND_ENTRY_POINT_GROUP = "flydsl.backends"


class _Registry:
    """All state of this module, in one place."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.kinds: dict[str, type[DeviceRuntime] | str] = dict(BUILT_IN)
        self.mappings: dict[str, str] = {}
        self.import_errors: dict[str, Exception] = {}
        self.override: type[DeviceRuntime] | None = None
        self.instance: DeviceRuntime | None = None
        self.generation = 0
        self.paired: set[tuple[str, str, int]] = set()
        """Pairings found good: (backend id, FLYDSL_RUNTIME_KIND, generation)."""
        self.fork_hook = False
        self.backend_kind: Callable[[str], str | None] | None = None


_registry = _Registry()


def set_backend_kind_resolver(resolver: Callable[[str], str | None]) -> None:
    """Let the backend registry tell the `runtime_kind` a backend class declares; it imports us, not we it."""
    _registry.backend_kind = resolver


def _changed() -> None:
    _registry.generation += 1
    _registry.paired.clear()


# --- registration -------------------------------------------------------------------------------------


def register_compile_runtime_mapping(compile_backend: str, runtime_kind: str) -> None:
    """Say which runtime kind a compile backend needs; goes before the built-in mapping.

    >>> register_compile_runtime_mapping("doc_backend", "cpu")
    >>> runtime_kind_of_backend("doc_backend")
    'cpu'
    """
    with _registry.lock:
        _registry.mappings[compile_backend.strip().lower()] = runtime_kind.strip().lower()
        _changed()


def register_device_runtime(cls: type[DeviceRuntime], *, kind: str | None = None, force: bool = False) -> None:
    """Choose the runtime class of this process; with `kind` it is also filed under that kind.

    `force` replaces an earlier choice, and an instance as long as it has done no GPU work.

    >>> try:
    ...     register_device_runtime(int)
    ... except TypeError as error:
    ...     print(error)
    a device runtime must be a subclass of DeviceRuntime, got <class 'int'>
    """
    if not (inspect.isclass(cls) and issubclass(cls, DeviceRuntime)):  # pyright: ignore[reportUnnecessaryIsInstance, reportUnnecessaryComparison]
        raise TypeError(f"a device runtime must be a subclass of DeviceRuntime, got {cls!r}")
    missing = sorted(cast("frozenset[str]", getattr(cls, "__abstractmethods__", frozenset[str]())))
    if not isinstance(getattr(cls, "kind", None), str):
        missing.append("kind")
    if missing:
        raise TypeError(f"{cls.__name__} is not a complete device runtime; missing: {', '.join(missing)}")
    with _registry.lock:
        instance = _registry.instance
        if instance is not None:
            if not force:
                raise RuntimeStateError(
                    f"a {instance.kind} device runtime exists already; register before get_device_runtime(), "
                    "or pass force=True"
                )
            if instance.active:
                raise RuntimeStateError(
                    f"the {instance.kind} device runtime has done GPU work and cannot be replaced; "
                    "call reset_device_runtime() first"
                )
            instance.alive = False
            _registry.instance = None
        elif _registry.override is not None and not force:
            raise ValueError(
                f"device runtime {_registry.override.__name__} is registered already; pass force=True to replace it"
            )
        _registry.override = cls
        if kind is not None:
            _registry.kinds[kind.strip().lower()] = cls
        _changed()


def _entry_points(group: str = ENTRY_POINT_GROUP) -> dict[str, EntryPoint]:
    if config.compile.backends_in_tree:
        return {}
    from importlib.metadata import entry_points

    return {point.name.strip().lower(): point for point in entry_points(group=group)}


def _class_of(kind: str) -> type[DeviceRuntime]:
    known = _registry.kinds.get(kind)
    if isinstance(known, str):
        module, name = known.split(":")
        known = _registry.kinds[kind] = cast("type[DeviceRuntime]", getattr(import_module(module), name))
    if known is not None:
        return known
    with _registry.lock:
        points = _entry_points()
        if kind in points:
            if kind not in _registry.import_errors:
                try:
                    loaded = cast("type[DeviceRuntime]", points[kind].load())
                    _registry.kinds[kind] = loaded
                    return loaded
                except Exception as error:  # noqa: BLE001 - any failure of foreign code is reported on use
                    _registry.import_errors[kind] = error
            raise ImportError(f"Device runtime '{kind}' failed to import") from _registry.import_errors[kind]
        known_kinds = ", ".join(sorted({*_registry.kinds, *points}))
        raise ValueError(f"Unknown FLYDSL_RUNTIME_KIND '{kind}'. Known kinds: {known_kinds}")


# --- pairing ------------------------------------------------------------------------------------------


def mapped_kind(compile_backend: str) -> str | None:
    """The runtime kind that `register_compile_runtime_mapping` told for a compile backend."""
    return _registry.mappings.get(compile_backend.strip().lower())


def runtime_kind_of_backend(compile_backend: str) -> str:
    """The runtime kind a compile backend needs: extension mappings, built-ins, then what its class declares.

    >>> runtime_kind_of_backend("cuda")
    'cuda'
    """
    name = compile_backend.strip().lower()
    for table in (_registry.mappings, COMPILE_BACKEND_TO_RUNTIME_KIND):
        if name in table:
            return table[name]
    declared = _declared_kind(name)
    if declared is None:
        raise ValueError(
            f"No device runtime kind is known for compile backend {compile_backend!r}; "
            "tell it with register_compile_runtime_mapping()"
        )
    return declared.lower()


def _declared_kind(name: str) -> str | None:
    """What the class of a backend says; its entry point leads to it while the backend registry is not in use."""
    if _registry.backend_kind is not None:
        return _registry.backend_kind(name)
    point = _entry_points(BACKEND_ENTRY_POINT_GROUP).get(name)
    if point is None:
        return None
    try:
        return cast(str, point.load().runtime_kind) or name
    except Exception as error:  # any failure of foreign code is this backend's
        raise ImportError(f"Compile backend '{name}' failed to import: {error}") from error


def _selected_kind(compile_backend: str) -> str:
    """The kind in use or to be used, without making an instance."""
    instance = _registry.instance
    if instance is not None and instance.active:
        return instance.kind
    if _registry.override is not None:
        return _registry.override.kind
    return config.runtime.kind or runtime_kind_of_backend(compile_backend)


def _mismatch(compile_backend: str, expected: str, actual: str) -> StackMismatchError:
    return StackMismatchError(
        f"Compile backend {compile_backend!r} requires device runtime kind {expected!r}, but this process uses "
        f"{actual!r}. Make FLYDSL_COMPILE_BACKEND and FLYDSL_RUNTIME_KIND agree (leaving the latter unset is enough)."
    )


def ensure_compile_runtime_pairing_from_env(compile_backend_id: str) -> None:
    """Raise unless the backend fits the runtime that is, or would be, used; by name only, no runtime is made.

    >>> ensure_compile_runtime_pairing_from_env("cpu")
    """
    instance = _registry.instance
    active = instance.kind if instance is not None and instance.active else ""
    memo = (compile_backend_id, active or config.runtime.kind, _registry.generation)
    if memo in _registry.paired:
        return
    expected = runtime_kind_of_backend(compile_backend_id)
    actual = _selected_kind(compile_backend_id)
    if actual != expected:
        raise _mismatch(compile_backend_id, expected, actual)
    _registry.paired.add(memo)


def ensure_compile_runtime_compatible(compile_backend_id: str, *, runtime: DeviceRuntime | None = None) -> None:
    """Raise unless the backend fits `runtime` (default: the process's runtime, made if need be).

    >>> ensure_compile_runtime_compatible("cpu")
    """
    expected = runtime_kind_of_backend(compile_backend_id)
    actual = (runtime or get_device_runtime()).kind
    if actual != expected:
        raise _mismatch(compile_backend_id, expected, actual)


# --- the instance -------------------------------------------------------------------------------------


def get_device_runtime() -> DeviceRuntime:
    """The process's device runtime; made at the first call, after checking that it fits the compile backend.

    >>> get_device_runtime().kind
    'cpu'
    """
    instance = _registry.instance
    if instance is not None:
        return instance
    with _registry.lock:
        if _registry.instance is None:
            backend = probe.selected_backend()
            if _registry.override is not None:
                cls = _registry.override
            else:
                cls = _class_of(config.runtime.kind or runtime_kind_of_backend(backend))
            ensure_compile_runtime_pairing_from_env(backend)
            _watch_forks()
            _registry.instance = cls()
        return _registry.instance


def _watch_forks() -> None:
    if not _registry.fork_hook and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork_in_child)
        _registry.fork_hook = True


def _after_fork_in_child() -> None:
    _registry.lock = threading.RLock()
    if _registry.instance is not None:
        _registry.instance.after_fork_in_child()


def device_runtime_state() -> State:
    """Where the process stands: unset, selected, created, active or forked.

    >>> device_runtime_state() in ("unset", "created", "active")
    True
    """
    instance = _registry.instance
    if instance is None:
        return "unset" if _registry.override is None else "selected"
    if instance.forked:
        return "forked"
    return "active" if instance.active else "created"


def reset_device_runtime() -> None:
    """Wait for all work, release everything and return to `unset`; older handles become invalid. Meant for tests.

    >>> reset_device_runtime()
    >>> device_runtime_state()
    'unset'
    """
    with _registry.lock:
        instance = _registry.instance
        if instance is not None:
            instance.check_fork()
            if instance.active:
                instance.shutdown()
            instance.alive = False
        _registry.instance = None
        _registry.override = None
        _changed()


def list_device_runtimes() -> list[str]:
    """The known runtime kinds, loaded or not; those whose import failed are left out.

    >>> [kind for kind in list_device_runtimes() if kind in ("cpu", "cuda", "rocm")]
    ['cpu', 'cuda', 'rocm']
    """
    return sorted({*_registry.kinds, *_entry_points()} - set(_registry.import_errors))


objects.set_runtime_provider(get_device_runtime)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from flydsl.cpu.runtime import CpuDeviceRuntime


if not TYPE_CHECKING:
    # A type checker takes every name for one of a module that has this.
    def __getattr__(name: str) -> Any:
        if name == "CpuDeviceRuntime":
            return _class_of("cpu")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "COMPILE_BACKEND_TO_RUNTIME_KIND", "CpuDeviceRuntime", "CudaDeviceRuntime", "Device", "DeviceRuntime",
    "RocmDeviceRuntime", "device_runtime_state", "ensure_compile_runtime_compatible",
    "ensure_compile_runtime_pairing_from_env", "get_device_runtime", "list_device_runtimes",
    "register_compile_runtime_mapping", "register_device_runtime", "reset_device_runtime", "mapped_kind",
    "runtime_kind_of_backend", "set_backend_kind_resolver",
]  # fmt: skip
