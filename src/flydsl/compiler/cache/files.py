"""Files and folders of the disk cache: nothing here knows what an entry is. Paths are those of checked folders."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from flydsl.trusted_files import UntrustedError, open_file

SCHEMA = 1
"""Number of the layout below the root."""
SUFFIX = ".fly"
STALE_TEMPORARY = 3600.0
"""Seconds after which a temporary file is taken for the leftover of a killed writer."""
HOST_CODE = "host"
"""The folder of machine code of host functions; see `host_code.py`."""
OLD_HOST_CODE = 30 * 24 * 3600.0
"""Seconds after which such a file is removed, in use or not: it is made again in milliseconds."""


def make_directories(path: Path) -> None:
    """Create a directory and its parents, each for its owner alone."""
    missing: list[Path] = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        try:
            directory.mkdir(0o700)
        except FileExistsError:  # another process was faster
            continue


def unlink(path: Path) -> bool:
    """Remove a file; whether that worked."""
    try:
        path.unlink()
    except OSError:
        return False
    return True


def remove_if_same(path: Path, info: os.stat_result) -> None:
    """Remove a file unless it was replaced since `info` was taken."""
    try:
        now = path.lstat()
    except OSError:
        return
    if (now.st_ino, now.st_size, now.st_mtime_ns) == (info.st_ino, info.st_size, info.st_mtime_ns):
        unlink(path)


def same_file(path: Path, handle: int) -> bool:
    """Whether a path still names the file a descriptor is open on."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(handle))
    except OSError:
        return False


def open_lock(path: Path, folder: int) -> int:
    """A descriptor of a lock file in an open folder, made if need be."""
    try:
        return open_file(path.name, os.O_RDWR | os.O_CREAT, 0o644, folder=folder, path=str(path))
    except UntrustedError:
        raise
    except PermissionError:  # made by another user of a shared root; reading is enough to lock
        return open_file(path.name, os.O_RDONLY, folder=folder, path=str(path))


def children(directory: Path) -> list[os.DirEntry[str]]:
    """What a directory holds; nothing if it cannot be read."""
    try:
        if stat.S_ISLNK(os.lstat(directory).st_mode):
            return []
        with os.scandir(directory) as found:
            return list(found)
    except OSError:
        return []


def scan(version: Path) -> Iterator[tuple[float, int, Path]]:
    """Modification time, size and path of every entry."""
    for folder in children(version):
        if len(folder.name) != 2:
            continue
        for entry in children(Path(folder.path)):
            if entry.name.endswith(SUFFIX) and not entry.name.startswith("."):
                try:
                    info = entry.stat(follow_symlinks=False)
                except OSError:  # removed since it was listed
                    continue
                yield info.st_mtime, info.st_size, Path(entry.path)


def remove_leftovers(root: Path, age: float = STALE_TEMPORARY, host_age: float = OLD_HOST_CODE) -> None:
    """Remove temporary files of writers that were killed, and old machine code of host functions."""
    for folder in children(root / f"v{SCHEMA}"):
        if len(folder.name) == 2:
            _remove_older(Path(folder.path), age, ".", ".tmp")
    _remove_older(root / HOST_CODE, host_age, "", ".o")
    _remove_older(root / HOST_CODE, age, ".", ".tmp")


def _remove_older(folder: Path, age: float, start: str, end: str) -> None:
    now = time.time()
    for entry in children(folder):
        if entry.name.startswith(start) and entry.name.endswith(end):
            try:
                if now - entry.stat(follow_symlinks=False).st_mtime > age:
                    os.unlink(entry.path)
            except OSError:  # its writer was faster
                continue
