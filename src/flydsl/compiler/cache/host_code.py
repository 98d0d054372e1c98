"""Machine code of host functions beside the entries of the cache.

Artifacts hold their host functions as text, which says nothing of the machine they run on. What this machine makes of
it lies in files named after the text, so that a process which finds its kernels on disk needs no LLVM to launch them.
"""

from __future__ import annotations

import hashlib
import importlib
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from flydsl.compiler.cache.disk_cache import default_cache
from flydsl.compiler.cache.files import HOST_CODE
from flydsl.trusted_files import read_side_file, write_side_file

_DIGEST = hashlib.sha256().digest_size


def host_code(text: str, passes: Sequence[str]) -> bytes:
    """The object of LLVM IR text for this kind of machine, by these passes: from disk, or compiled and kept there."""
    file = _file(text, passes)
    found = _read(file) if file is not None else None
    if found is not None:
        return found
    from flydsl.llvm import host_jit

    made = host_jit.compile_portable(text, passes)
    if file is not None:
        _write(file, made)
    return made


def _file(text: str, passes: Sequence[str]) -> Path | None:
    root = default_cache().root
    if root is None:
        return None
    version: str = importlib.import_module("llvmlite").__version__  # the package alone loads no library
    parts = "\0".join((version, sys.platform, platform.machine(), *passes, text))
    return root / HOST_CODE / f"{hashlib.sha256(parts.encode()).hexdigest()}.o"


def _read(file: Path) -> bytes | None:
    try:
        data = read_side_file(file)
    except OSError:
        return None
    code = data[_DIGEST:]
    return code if hashlib.sha256(code).digest() == data[:_DIGEST] else None


def _write(file: Path, code: bytes) -> None:
    if default_cache().writable:
        try:
            file.parent.mkdir(0o700, exist_ok=True)
        except OSError:  # it is compiled again
            return
        write_side_file(file, hashlib.sha256(code).digest() + code)
