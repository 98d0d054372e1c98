"""What every key depends on beside the function: our own sources, versions, libraries, extra folders."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from flydsl import config
from flydsl.compiler.guard import Guard
from flydsl.compiler.key.cache_key import digest, encode
from flydsl.compiler.key.component import Component
from flydsl.compiler.key.origin import PRODUCT, distribution_version
from flydsl.trusted_files import read_side_file, write_side_file

KEY_SCHEMA = 2
"""Raised when the same inputs start to mean something else."""

EXTRA_SOURCE_DIRS: list[str | Path] = []
"""More directories whose Python sources every key depends on, beside those of FLYDSL_EXTRA_SOURCE_DIRS."""

_SIDE_FILE = "producthash.json"


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


def content_digest(files: Iterable[tuple[str, str, os.stat_result]]) -> str:
    total = hashlib.sha256()
    for name, path, _ in files:
        with open(path, "rb") as file:
            data = file.read()
        total.update(encode((name, len(data))))
        total.update(data)
    return total.hexdigest()


def tree_digest(directory: str | os.PathLike[str]) -> str:
    """SHA-256 over the Python files below a directory: relative names and content."""
    return content_digest(_python_files(Path(directory)))


_product: list[str] = []
_guard = Guard()


def product_digest() -> str:
    """SHA-256 over the sources of this package but `kernels/`, computed once per process.

    A side file in the cache root spares the reading while no file's size or time changes.
    """
    with _guard:
        if not _product:
            files = _python_files(PRODUCT, skip="kernels")
            stamp = digest([(name, info.st_size, info.st_mtime_ns, info.st_ino) for name, _, info in files])
            side = _side_file()
            known = _read_side(side).get(str(PRODUCT)) if side is not None else None
            if known is not None and known[0] == stamp:
                _product.append(known[1])
            else:
                _product.append(content_digest(files))
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
        data = cast("dict[str, tuple[str, str]]", json.loads(read_side_file(side)))
        return {str(key): (str(stamp), str(value)) for key, (stamp, value) in data.items() if len(value) == 64}
    except (OSError, ValueError, TypeError, AttributeError):  # absent or broken: computed again
        return {}


def _write_side(side: Path, stamp: str, value: str) -> None:
    write_side_file(side, json.dumps({**_read_side(side), str(PRODUCT): (stamp, value)}).encode())


@functools.lru_cache(maxsize=1)
def llvm_library_digest() -> str:
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

    extra = tuple(tree_digest(path) for path in (*config.compile.extra_source_dirs, *EXTRA_SOURCE_DIRS))
    return _components(
        ("key schema", KEY_SCHEMA),
        ("assertions", sys.flags.optimize),
        ("flydsl version", __version__),
        ("flydsl sources", product_digest()),
        ("xdsl version", distribution_version("xdsl")),
        ("llvmlite version", distribution_version("llvmlite")),
        ("llvmlite library", llvm_library_digest()),
        ("extra sources", extra),
    )


@functools.lru_cache(maxsize=8)
def _components(*parts: tuple[str, object]) -> tuple[Component, ...]:
    return tuple(Component(name, "environment", digest(value)) for name, value in parts)
