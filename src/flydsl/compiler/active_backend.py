"""Which backend a compilation is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .backends.base import BaseBackend


def resolve_backend(target: str | None) -> BaseBackend:
    """The backend of an explicit target, else the active one, checked against the device runtime."""
    from .backends import backend_for_target, get_backend, parse_target

    if target is not None:
        return backend_for_target(parse_target(target))
    from ..runtime.device_runtime import ensure_compile_runtime_pairing_from_env

    backend = get_backend()
    ensure_compile_runtime_pairing_from_env(backend.name)
    return backend
