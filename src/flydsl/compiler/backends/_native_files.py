"""Native files of a backend: those that count for the key of what it compiles, and those its host code needs."""

from __future__ import annotations

import glob
import hashlib
import sys
from pathlib import Path

from flydsl.compiler.backends._fingerprint import file_digest
from flydsl.compiler.backends.base import BaseBackend


def _home(backend: BaseBackend) -> Path | None:
    """The folder of the module that defines a backend; relative patterns and names start there."""
    file = getattr(sys.modules.get(type(backend).__module__), "__file__", None)
    return None if file is None else Path(file).resolve().parent


def native_files(backend: BaseBackend) -> list[Path]:
    """The files that the patterns of a backend name, each once, in order."""
    patterns = backend.native_lib_patterns()
    if not patterns:
        return []
    home = _home(backend)
    found: dict[Path, None] = {}
    for pattern in patterns:
        for match in sorted(glob.glob(pattern, root_dir=home, recursive=True)):
            path = Path(match) if home is None else home / match
            if path.is_file():
                found[path.resolve()] = None
    return list(found)


def identity(backend: BaseBackend) -> str:
    """Text that changes with anything of a backend that can change a binary: its own hash, and its native files."""
    files, libraries = native_files(backend), host_libraries(backend)
    if not files and not libraries:
        return backend.hash()
    parts = [backend.hash(), *libraries, *(f"{path.name}|{file_digest(path)}" for path in files)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def host_libraries(backend: BaseBackend) -> list[str]:
    """The shared libraries to load with host code: by path where they lie beside the backend, else by name."""
    names = backend.jit_runtime_lib_basenames()
    home = _home(backend) if names else None
    return [str(home / name) if home is not None and (home / name).is_file() else name for name in names]
