"""Looking at the disk cache and cleaning it: what `fly cache` does."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from flydsl.compiler.build.artifact import ArtifactFormatError, CompiledArtifact
from flydsl.compiler.cache import files
from flydsl.compiler.cache.disk_cache import DiskCache, Removed, default_cache
from flydsl.compiler.cache.files import children, remove_leftovers, unlink


class EntryInfo(NamedTuple):
    """One entry, as its header and its file describe it."""

    key: str
    path: Path
    size: int
    modified: float
    name: str
    function: str
    """module:qualname"""
    backend: str
    arch: str
    created: float
    header: dict[str, Any]


class CacheInfo(NamedTuple):
    """The state of a cache on disk."""

    root: Path | None
    mode: str
    """`read-write`, `read-only` or `off`"""
    entries: int
    size: int
    """Bytes"""
    max_bytes: int
    read_roots: tuple[Path, ...]
    store: str


class Defect(NamedTuple):
    """A file that is no valid entry, and why."""

    path: Path
    problem: str


def info(cache: DiskCache | None = None) -> CacheInfo:
    """Root, mode, number of entries and size; looks through the whole cache."""
    chosen = cache or default_cache()
    root, writable = chosen.root, chosen.writable
    files = chosen._files()  # pyright: ignore[reportPrivateUsage]
    settings = chosen.settings
    return CacheInfo(
        root,
        "off" if root is None else "read-write" if writable else "read-only",
        len(files),
        sum(size for _, size, _ in files),
        settings.max_bytes,
        settings.read_roots,
        settings.store,
    )


def _describe(chosen: DiskCache, path: Path, size: int, modified: float) -> EntryInfo:
    header = chosen.read_header(path)
    target: Any = header.get("target")
    words = [*str(target or "").split(":"), ""]
    fields = cast("dict[str, Any]", target) if isinstance(target, dict) else {"backend": words[0], "arch": words[1]}
    created: Any = header.get("created")
    return EntryInfo(
        path.stem,
        path,
        size,
        modified,
        str(header.get("name") or ""),
        f"{header.get('module') or ''}:{header.get('qualname') or header.get('name') or ''}",
        str(header.get("backend") or fields.get("backend") or ""),
        str(fields.get("arch") or ""),
        float(created) if isinstance(created, int | float) else modified,
        header,
    )


def entries(
    *,
    function: str | None = None,
    backend: str | None = None,
    arch: str | None = None,
    older_than: float | None = None,
    cache: DiskCache | None = None,
) -> Iterator[EntryInfo]:
    """Entries that match, most recently used first; files that are no entries are passed over.

    `function` matches the name, the qualified name or `module:qualname`; `older_than` is seconds since last use.
    """
    chosen = cache or default_cache()
    now = time.time()
    for modified, size, path in reversed(chosen._files()):  # pyright: ignore[reportPrivateUsage]
        if older_than is not None and now - modified < older_than:
            continue
        try:
            entry = _describe(chosen, path, size, modified)
        except (OSError, ArtifactFormatError):
            continue
        names = (entry.name, entry.function, entry.function.partition(":")[2])
        if function is not None and function not in names:
            continue
        if backend in (None, entry.backend) and arch in (None, entry.arch):
            yield entry


def clear(
    *,
    function: str | None = None,
    backend: str | None = None,
    arch: str | None = None,
    older_than: float | None = None,
    cache: DiskCache | None = None,
) -> Removed:
    """Remove the entries that match; without a filter all files of the cache, also those of other versions of it."""
    chosen = cache or default_cache()
    root, writable = chosen.root, chosen.writable
    if root is None or not writable:
        return Removed(0, 0)
    if function is backend is arch is older_than is None:
        found = [(path, size) for version in _versions(root) for _, size, path in files.scan(version)]
        remove_leftovers(root, age=0.0, host_age=0.0)
    else:
        chosen_entries = entries(function=function, backend=backend, arch=arch, older_than=older_than, cache=chosen)
        found = [(entry.path, entry.size) for entry in chosen_entries]
    gone = [size for path, size in found if unlink(path)]
    return Removed(len(gone), sum(gone))


def _versions(root: Path) -> list[Path]:
    return [Path(entry.path) for entry in children(root) if re.fullmatch(r"v\d+", entry.name)]


def prune(*, max_bytes: int | None = None, max_age: float | None = None, cache: DiskCache | None = None) -> Removed:
    """Remove entries unused for more than `max_age` seconds, then the least recently used above `max_bytes`.

    Without arguments the bound is that of the settings.
    """
    chosen = cache or default_cache()
    if max_bytes is None and max_age is None:
        max_bytes = chosen.settings.max_bytes or None
    first = clear(older_than=max_age, cache=chosen) if max_age is not None else Removed(0, 0)
    bound = max_bytes if max_bytes is not None else info(chosen).size
    second = chosen.evict(bound)
    return Removed(first.entries + second.entries, first.size + second.size)


def verify(*, remove: bool = False, cache: DiskCache | None = None) -> list[Defect]:
    """Read every entry and report those that are damaged; `remove` deletes them."""
    chosen = cache or default_cache()
    defects: list[Defect] = []
    for _, _, path in chosen._files():  # pyright: ignore[reportPrivateUsage]
        try:
            artifact = CompiledArtifact.from_bytes(chosen.read_bytes(path)[0])
            if artifact.key != path.stem:
                raise ArtifactFormatError("key", f"it is the entry of {artifact.key or 'no key'}")
        except FileNotFoundError:
            continue
        except (OSError, ArtifactFormatError) as error:
            defects.append(Defect(path, str(error)))
            if remove and chosen.writable:
                unlink(path)
    return defects
