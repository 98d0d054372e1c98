"""Content hashes of tool files, remembered by (path, size, time, inode) in the process and in the cache root."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from pathlib import Path
from typing import cast

from flydsl import config
from flydsl.trusted_files import read_side_file, write_side_file

SIDE_FILE = "toolhash.json"

_lock = threading.Lock()
if hasattr(os, "register_at_fork"):

    def _renew_lock() -> None:
        global _lock
        _lock = threading.Lock()

    os.register_at_fork(after_in_child=_renew_lock)

_known: dict[str, str] = {}
_read: set[Path] = set()


def _stamp(path: Path) -> str:
    info = path.stat()
    return f"{os.path.realpath(path)}|{info.st_size}|{info.st_mtime_ns}|{info.st_ino}"


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content."""
    stamp = _stamp(path)
    if (digest := _known.get(stamp)) is not None:
        return digest
    with _lock:
        side = _side_file()
        if side is not None and side not in _read:
            _read.add(side)
            for key, value in _load(side).items():
                _known.setdefault(key, value)
        if stamp not in _known:
            with open(path, "rb") as file:
                _known[stamp] = hashlib.file_digest(file, "sha256").hexdigest()
            if side is not None:
                _save(side)
        return _known[stamp]


def _side_file() -> Path | None:
    env = config.runtime
    return env.cache_dir / SIDE_FILE if env.enable_cache else None


def _load(side: Path) -> dict[str, str]:
    try:
        data = json.loads(read_side_file(side))
    except (OSError, ValueError, RecursionError):  # Absent or broken: hashes are computed again.
        return {}
    if not isinstance(data, dict):
        return {}
    pairs = cast("dict[object, object]", data).items()
    return {key: value for key, value in pairs if isinstance(key, str) and isinstance(value, str) and len(value) == 64}


def _save(side: Path) -> None:
    write_side_file(side, json.dumps({**_load(side), **_known}).encode())
