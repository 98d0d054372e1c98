"""`DiskCache`: artifacts by key, one checked file each."""

from __future__ import annotations

import errno
import logging
import os
import re
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from flydsl import config
from flydsl.compiler.build.artifact import ArtifactFormatError, CompiledArtifact, read_header
from flydsl.compiler.build.load_hooks import foreign_hook
from flydsl.compiler.build.signing import SignatureCheck
from flydsl.compiler.cache import files, locks
from flydsl.compiler.cache.files import SCHEMA, SUFFIX, make_directories, remove_if_same, remove_leftovers, unlink
from flydsl.compiler.cache.roots import UnusableError, check_private, check_root, fallback_roots
from flydsl.compiler.cache.settings import Settings, current_settings
from flydsl.compiler.cache.stats import CacheStats, guard, totals, warn_once, why
from flydsl.compiler.cache.store import RemoteStore
from flydsl.errors import ArtifactSignatureError
from flydsl.trusted_files import (
    OWNERS_KNOWN,
    Trust,
    UntrustedError,
    atomic_write,
    open_file,
    open_folder,
    read_file,
    warn_untrusted,
)

EVICTION_INTERVAL = 60.0
"""Seconds between two checks of the size bound."""
TOUCH_INTERVAL = 3600.0
"""Seconds after which a hit renews an entry's modification time, which is the order of eviction."""

_README = """Compiled kernels of FlyDSL. It is safe to delete this folder at any time.
`fly cache list` tells what the entries are; FLYDSL_RUNTIME_CACHE_DIR puts the folder elsewhere.
"""
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# A cache of FlyDSL; backup programs may leave it out.\n"
_KEY = re.compile(r"[0-9a-f]{64}")
_FULL = (errno.ENOSPC, errno.EDQUOT)

_logger = logging.getLogger("flydsl.cache")


class Removed(NamedTuple):
    """What a clean-up removed."""

    entries: int
    size: int


class DiskCache:
    """Artifacts by disk key (64 hex digits) below one root, with more roots and a store to look in."""

    def __init__(self, settings: Settings | str | os.PathLike[str]):
        self.settings = settings if isinstance(settings, Settings) else Settings(Path(settings))
        self.stats = CacheStats()
        self._resolved: tuple[Path | None, bool] | None = None
        self._read_roots: tuple[Path, ...] | None = None
        self._store = RemoteStore(self.settings.store)
        self._trust = Trust.of(self.settings.trusted_owners) if OWNERS_KNOWN else Trust(frozenset())
        self._signatures = SignatureCheck(self.settings.trusted_keys)
        self._next_eviction = 0.0
        self._marked = False

    def __repr__(self) -> str:
        return f"<DiskCache {self.root or 'off'}{'' if self.writable or self.root is None else ' (read-only)'}>"

    # -- where -----------------------------------------------------------------------------------------

    @property
    def root(self) -> Path | None:
        """The root in use, or None when results are kept in memory only."""
        return self._resolve()[0]

    @property
    def writable(self) -> bool:
        """Whether entries can be added."""
        return self._resolve()[1]

    @property
    def enabled(self) -> bool:
        """Whether anything can be found here."""
        return self.root is not None or bool(self.settings.read_roots) or bool(self.settings.store)

    def _resolve(self) -> tuple[Path | None, bool]:
        found = self._resolved
        if found is None:
            found = self._resolved = self._find_root()
        return found

    def _find_root(self) -> tuple[Path | None, bool]:
        settings = self.settings
        root = settings.root
        if root is None and settings.explicit:
            return None, False
        reasons: list[str] = []
        try:
            if root is not None:
                return root, check_root(root, self._trust, readonly=settings.readonly)
            reasons.append("there is no home directory")
        except UnusableError as error:
            reasons.append(f"{root}: {error}")
            if settings.explicit or error.untrusted:
                name = "FLYDSL_RUNTIME_CACHE_DIR" if settings.explicit else "the default cache directory"
                self._off(f"{name} cannot be used ({root}: {error})")
                return None, False
        for candidate, private in fallback_roots():
            try:
                if private:
                    check_private(candidate)
                return candidate, check_root(candidate, self._trust, readonly=settings.readonly)
            except UnusableError as error:
                reasons.append(f"{candidate}: {error}")
        self._off(f"no directory can hold the disk cache ({'; '.join(reasons)})")
        return None, False

    def _off(self, why: str) -> None:
        warn_once(f"root {self.settings.root}", f"{why}; compiled kernels are kept in memory only")

    def _roots(self) -> Iterator[tuple[Path, bool]]:
        """Roots to read, in order, and whether each may be written to."""
        root, writable = self._resolve()
        if root is not None:
            yield root, writable
        if self._read_roots is None:
            usable: list[Path] = []
            for extra in self.settings.read_roots:
                try:
                    check_root(extra, self._trust, readonly=True)
                    usable.append(extra)
                except UnusableError as error:
                    warn_once(f"root {extra}", f"{extra} of FLYDSL_RUNTIME_CACHE_PATH is not used: {error}")
            self._read_roots = tuple(usable)
        for extra in self._read_roots:
            yield extra, False

    def path_of(self, key: str, root: Path | None = None) -> Path | None:
        """Where an entry is or would be; None without a root."""
        if not _KEY.fullmatch(key):
            raise ValueError(f"a cache key is 64 hex digits, got {key!r}")
        base = root or self.root
        return base / f"v{SCHEMA}/{key[:2]}/{key}{SUFFIX}" if base else None

    def count_compilation(self, seconds: float) -> None:
        """One more compilation, because an entry was not there."""
        self._count(compilations=1, compile_seconds=seconds)

    def _count(self, **changes: int | float) -> None:
        with guard:
            for stats in (self.stats, totals):
                for name, change in changes.items():
                    setattr(stats, name, getattr(stats, name) + change)

    # -- read ------------------------------------------------------------------------------------------

    def get(self, key: str) -> CompiledArtifact | None:
        """The stored artifact, or None. Takes no lock; a damaged entry is removed and counts as none."""
        for root, writable in self._roots():
            if (artifact := self._read(key, root, writable)) is not None:
                self._count(hits=1)
                return artifact
        if self.settings.store and (artifact := self._fetch(key)) is not None:
            self._count(hits=1, store_hits=1)
            return artifact
        self._count(misses=1)
        return None

    def contains(self, key: str) -> bool:
        """Whether some root has a file for a key; it is not checked."""
        return any(_there(cast(Path, self.path_of(key, root))) for root, _ in self._roots())

    def read_bytes(self, path: Path, root: Path | None = None) -> tuple[bytes, os.stat_result]:
        """Content and status of a file below a root, if nobody else can have put it there: raises `OSError`."""
        base = cast(Path, root or self.root)
        with open_folder(base, path.relative_to(base).parent.parts, self._trust) as folder:
            limit = self.settings.max_entry_bytes
            return read_file(path.name, limit, folder=folder, trust=self._trust, path=str(path))

    def read_header(self, path: Path) -> dict[str, Any]:
        """The header of an entry of the root, under the same condition; its checksum is not looked at."""
        root = cast(Path, self.root)
        with open_folder(root, path.relative_to(root).parent.parts, self._trust) as folder:
            handle = open_file(path.name, os.O_RDONLY, folder=folder, path=str(path))
            try:
                self._trust.check(path, os.fstat(handle))
                return read_header(handle)
            finally:
                os.close(handle)

    def _read(self, key: str, root: Path, writable: bool) -> CompiledArtifact | None:
        path = cast(Path, self.path_of(key, root))
        try:
            data, info = self.read_bytes(path, root)
        except UntrustedError as error:
            warn_untrusted(root, error)
            return None
        except OSError as error:  # not there, just removed, stale, unreadable: a miss in any case
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                _logger.info("cache entry %s: %s", path, why(error))
            return None
        try:
            artifact = CompiledArtifact.from_bytes(data)
            if artifact.key != key:
                raise ArtifactFormatError("key", f"it is the entry of {artifact.key or 'no key'}")
            if not writable:
                self._signatures.check(data, path)
        except ArtifactSignatureError as error:
            warn_once(f"root {root}", f"an entry of the disk cache is ignored: {error}")
            return None
        except ArtifactFormatError as error:
            self._count(corrupt=1)
            warn_once("corrupt", f"the cache entry {path} is damaged and will be made again ({error})")
            if writable:
                remove_if_same(path, info)
            return None
        hook = foreign_hook(artifact.metadata.get("load_hooks") or ())
        if hook is not None and not config.runtime.run_only:  # compiling again imports what the program wants
            _logger.info("cache entry %s is not used: the module of its hook %s is not imported", path, hook)
            return None
        self._count(bytes_read=len(data))
        if writable and time.time() - info.st_mtime > TOUCH_INTERVAL:
            try:
                os.utime(path)
            except OSError:  # evicted meanwhile, or another user's: it only ages earlier
                pass
        return artifact

    # -- write -----------------------------------------------------------------------------------------

    def put(self, key: str, artifact: CompiledArtifact, *, overwrite: bool = False) -> bool:
        """Store an artifact; whether it is on disk now. Failures warn once and are no errors.

        A valid entry that is already there stays, unless `overwrite`.
        """
        path = self.path_of(key)
        if not self.writable and not self.settings.store:
            return False
        data = artifact.to_bytes(key=key, binary_only=self.settings.binary_only)
        stored = path is not None and self.writable and self._publish(key, path, data, overwrite)
        if self.settings.store and not self.settings.readonly:
            self._store.ask("put", lambda store: store.put(key, data))
        return stored

    def _publish(self, key: str, path: Path, data: bytes, overwrite: bool) -> bool:
        if not overwrite and _there(path) and self._read(key, cast(Path, self.root), True) is not None:
            return True
        try:
            try:
                self._write(path, data)
            except OSError as error:
                if error.errno not in _FULL or not self.settings.max_bytes:
                    raise
                self._make_room(len(data))
                self._write(path, data)
        except UntrustedError as error:
            self._count(write_errors=1)
            warn_untrusted(cast(Path, self.root), error)
            return False
        except OSError as error:
            self._count(write_errors=1)
            if error.errno not in (errno.ESTALE, errno.EBUSY, errno.EINTR):
                self._resolved = (self.root, False)
                warn_once(
                    f"write {self.root}",
                    f"the disk cache {self.root} cannot be written to ({why(error)}); this process writes no more "
                    "entries",
                )
            return False
        self._count(writes=1, bytes_written=len(data))
        self._enforce_bound(keep=path)
        return True

    @contextmanager
    def _folder(self, *parts: str) -> Generator[int]:
        """A descriptor of a folder below the root, made if need be."""
        root = cast(Path, self.root)
        make_directories(root)
        with open_folder(root, (f"v{SCHEMA}", *parts), self._trust, make=True) as folder:
            yield folder

    def _write(self, path: Path, data: bytes) -> None:
        if not self._marked:
            self._marked = True
            self._mark(cast(Path, self.root))
        for last in (False, True):
            try:
                with self._folder(path.parent.name) as folder:
                    return atomic_write(path.name, data, folder=folder)
            except FileNotFoundError:  # someone deleted the folder between the two steps
                if last:
                    raise

    @staticmethod
    def _mark(root: Path) -> None:
        """Files for people and backup programs; the cache works without them."""
        for name, text in (("CACHEDIR.TAG", _TAG), ("README", _README)):
            if not _there(root / name):
                try:
                    atomic_write(root / name, text.encode())
                except OSError as error:
                    _logger.info("%s: %s", root / name, why(error))

    # -- eviction --------------------------------------------------------------------------------------

    def _files(self) -> list[tuple[float, int, Path]]:
        """Modification time, size and path of every entry below the root, oldest first."""
        return sorted(files.scan(self.root / f"v{SCHEMA}")) if self.root else []

    def _enforce_bound(self, keep: Path) -> None:
        bound = self.settings.max_bytes
        if not bound:
            return
        now = time.monotonic()
        with guard:
            if now < self._next_eviction:
                return
            self._next_eviction = now + EVICTION_INTERVAL
        stamp = cast(Path, self.root) / f"v{SCHEMA}" / "locks" / "eviction"
        try:
            if 0 <= time.time() - stamp.stat().st_mtime < EVICTION_INTERVAL:
                return
        except OSError:  # no check was made yet
            pass
        with self._file_lock(stamp, timeout=0, remove=False) as held:
            if held:
                self.evict(bound, keep=keep)
                try:
                    os.utime(stamp)
                except OSError:
                    pass

    def _make_room(self, size: int) -> None:
        files = self._files()
        total = sum(entry[1] for entry in files)
        self.evict(max(total - max(2 * size, total // 10), 0))

    def evict(self, max_bytes: int, *, keep: Path | None = None) -> Removed:
        """Remove the entries unused for longest until the rest fits, and leftovers of killed writers."""
        root, writable = self._resolve()
        if root is None or not writable:
            return Removed(0, 0)
        remove_leftovers(root)
        files = self._files()
        total = sum(size for _, size, _ in files)
        count = freed = 0
        for _, size, path in files:
            if total - freed <= max_bytes:
                break
            if path != keep and unlink(path):
                count, freed = count + 1, freed + size
        self._count(evictions=count)
        return Removed(count, freed)

    # -- locks -----------------------------------------------------------------------------------------

    @contextmanager
    def lock(self, key: str) -> Generator[bool]:
        """Compile once: hold the lock of a key against other threads and processes. Look again inside it.

        Gives whether other processes are kept out as well. They are not, after one warning, where the file system
        cannot lock or the wait takes longer than FLYDSL_RUNTIME_LOCK_TIMEOUT, nor without a writable root.
        """
        path = self.path_of(key)
        root, writable = self._resolve()
        with locks.thread_lock((str(root), key)) as entry:
            if entry.held is not None:  # the same thread again
                yield entry.held
                return
            if path is None or root is None or not writable:
                yield False
                return
            with self._file_lock(root / f"v{SCHEMA}/locks/{key}", self.settings.lock_timeout) as held:
                entry.held = held
                try:
                    yield held
                finally:
                    entry.held = None

    @contextmanager
    def thread_lock(self, key: str) -> Generator[None]:
        """Hold the lock of a key against the other threads of this process alone."""
        with locks.thread_lock(("", key)):
            yield

    @contextmanager
    def _file_lock(self, path: Path, timeout: float, *, remove: bool = True) -> Generator[bool]:
        owner = os.getpid()
        handle: int | None = None
        try:
            with self._folder(path.parent.name) as folder:
                handle = locks.acquire(path, folder, timeout, lambda: self._count(lock_waits=1))
            if handle is None:
                self._lock_timeout(path, timeout)
        except UntrustedError as error:
            self._count(lock_failures=1)
            warn_untrusted(cast(Path, self.root), error)
        except OSError as error:
            self._count(lock_failures=1)
            warn_once(
                f"lock {self.root}",
                f"the disk cache {self.root} cannot be locked ({why(error)}); a kernel may be compiled by several "
                "processes at once",
            )
        try:
            yield handle is not None
        finally:
            if handle is not None and os.getpid() == owner:
                locks.release(handle, path, remove=remove)

    def _lock_timeout(self, path: Path, timeout: float) -> None:
        if timeout > 0:
            self._count(lock_failures=1)
            warn_once(
                f"timeout {self.root}",
                f"waited {timeout:g} s for another process to compile ({path}); compiling without its result. "
                "FLYDSL_RUNTIME_LOCK_TIMEOUT sets how long to wait",
            )

    # -- remote store ----------------------------------------------------------------------------------

    def _fetch(self, key: str) -> CompiledArtifact | None:
        data = self._store.ask("get", lambda store: store.get(key))
        if not isinstance(data, bytes) or len(data) > self.settings.max_entry_bytes:
            return None
        try:
            artifact = CompiledArtifact.from_bytes(data)
            self._signatures.check(data, self.settings.store)
        except ArtifactSignatureError as error:
            warn_once("signature store", f"an entry of the cache store {self.settings.store} is ignored: {error}")
            return None
        except ArtifactFormatError as error:
            self._count(corrupt=1)
            warn_once("corrupt store", f"an entry of the cache store {self.settings.store} is damaged ({error})")
            return None
        if artifact.key != key:
            return None
        if (path := self.path_of(key)) is not None and self.writable:
            self._publish(key, path, data, overwrite=True)
        return artifact


def _there(path: Path) -> bool:
    try:
        os.lstat(path)
    except OSError:
        return False
    return True


caches: dict[tuple[Settings, str | None], DiskCache] = {}


def default_cache() -> DiskCache:
    """The cache of the current environment; the same object as long as its settings stay the same."""
    key = (current_settings(), os.environ.get("XDG_CACHE_HOME"))
    with guard:
        cache = caches.get(key)
        if cache is None:
            cache = caches[key] = DiskCache(key[0])
        return cache
