"""The disk cache: one checked file per compiled artifact, shared by threads, processes and machines.

An entry appears by one rename and is read without a lock. Whatever goes wrong costs a compilation, never a failure: the
cache says so once per kind of trouble, with a `CacheWarning`, and goes on without.
"""

from __future__ import annotations

import errno
import fcntl
import importlib
import logging
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from flydsl import config
from flydsl.compiler.artifact import ArtifactFormatError, CompiledArtifact, atomic_write, read_header
from flydsl.errors import CacheWarning

SCHEMA = 1
"""Number of the layout below the root."""
SUFFIX = ".fly"
EVICTION_INTERVAL = 60.0
"""Seconds between two checks of the size bound."""
TOUCH_INTERVAL = 3600.0
"""Seconds after which a hit renews an entry's modification time, which is the order of eviction."""
STALE_TEMPORARY = 3600.0
"""Seconds after which a temporary file is taken for the leftover of a killed writer."""

_README = """Compiled kernels of FlyDSL. It is safe to delete this folder at any time.
`fly cache list` tells what the entries are; FLYDSL_RUNTIME_CACHE_DIR puts the folder elsewhere.
"""
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# A cache of FlyDSL; backup programs may leave it out.\n"
_KEY = re.compile(r"[0-9a-f]{64}")
_FULL = (errno.ENOSPC, errno.EDQUOT)

_logger = logging.getLogger("flydsl.cache")


class Store(Protocol):
    """A remote store of entries (`FLYDSL_RUNTIME_CACHE_STORE=module:Class`), made without arguments."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, data: bytes) -> None: ...

    def contains(self, key: str) -> bool: ...

    def list(self) -> Iterator[str]: ...


@dataclass
class CacheStats:
    """What happened since the process started."""

    hits: int = 0
    misses: int = 0
    corrupt: int = 0
    writes: int = 0
    write_errors: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    evictions: int = 0
    lock_waits: int = 0
    lock_failures: int = 0
    store_hits: int = 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that decides what a `DiskCache` does."""

    root: Path | None = None
    """The root to use; None: no disk."""
    explicit: bool = True
    """Whether the user chose the root. If not, other places are tried when it cannot be used."""
    read_roots: tuple[Path, ...] = ()
    readonly: bool = False
    max_bytes: int = 0
    binary_only: bool = False
    lock_timeout: float = 600
    store: str = ""


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


class Removed(NamedTuple):
    """What a clean-up removed."""

    entries: int
    size: int


class Defect(NamedTuple):
    """A file that is no valid entry, and why."""

    path: Path
    problem: str


@dataclass(slots=True)
class _KeyLock:
    lock: threading.RLock = field(default_factory=threading.RLock)
    users: int = 0
    held: bool | None = None
    """Whether the owning thread has the file lock too; None: nobody is inside."""


# One guard for all short sections. It is renewed in a forked child, where another thread may have held it.
_guard = threading.Lock()
_key_locks: dict[tuple[str, str], _KeyLock] = {}
_held: set[int] = set()
"""Descriptors of the file locks this process holds."""
_warned: set[str] = set()
_caches: dict[tuple[Settings, str | None], DiskCache] = {}
totals = CacheStats()
"""Sums over all caches of this process."""


def _after_fork() -> None:
    global _guard
    _guard = threading.Lock()
    _key_locks.clear()
    for handle in _held:
        # The lock belongs to the parent as well: closing leaves it alone, unlocking would not.
        try:
            os.close(handle)
        except OSError:
            continue
    _held.clear()


os.register_at_fork(after_in_child=_after_fork)


def _warn_once(kind: str, message: str) -> None:
    with _guard:
        if kind in _warned:
            return
        _warned.add(kind)
    config.warn(message, CacheWarning, stacklevel=4)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


# -- roots -------------------------------------------------------------------------------------------


def _make_directories(path: Path) -> None:
    """Create a directory and its parents: each for its owner alone, or for the group where the group may write."""
    missing: list[Path] = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        shared = directory.parent.stat().st_mode
        try:
            directory.mkdir(0o700)
            if shared & stat.S_IWGRP and not shared & stat.S_IWOTH:
                directory.chmod(0o700 | (shared & 0o2070))
        except FileExistsError:  # another process was faster
            continue


class _UnusableError(Exception):
    """Why a directory cannot be a root; `open` if everyone may write to it."""

    def __init__(self, reason: str, *, open: bool = False):
        super().__init__(reason)
        self.open = open


def _check_root(root: Path, *, readonly: bool) -> bool:
    """Make a root ready; whether it can be written to. Raises `_UnusableError`."""
    try:
        if not readonly:
            _make_directories(root)
        info = root.stat()
    except OSError as error:
        raise _UnusableError(_reason(error)) from None
    if not stat.S_ISDIR(info.st_mode):
        raise _UnusableError("it is not a directory")
    if info.st_mode & stat.S_IWOTH:
        raise _UnusableError("everyone may write to it", open=True)
    version = root / f"v{SCHEMA}"
    reason = "it cannot be read"
    if not readonly:
        try:
            _make_directories(version)
            if os.access(root, os.W_OK | os.X_OK) and os.access(version, os.W_OK | os.X_OK):
                return True
            reason = "it cannot be written to"
        except OSError as error:
            reason = _reason(error)
    if version.is_dir() and os.access(version, os.R_OK | os.X_OK):
        return False
    if readonly and os.access(root, os.R_OK | os.X_OK):
        return False
    raise _UnusableError(reason)


def _check_private(path: Path) -> None:
    """Refuse a directory below the shared temporary one that someone else could have put there."""
    try:
        path.mkdir(0o700, exist_ok=True)
        info = path.lstat()
    except OSError as error:
        raise _UnusableError(_reason(error)) from None
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o022:
        raise _UnusableError("it belongs to someone else, or others may write to it")


def _fallback_roots() -> Iterator[tuple[Path, bool]]:
    """Roots to try when the default one cannot be used, and whether others could tamper with the place."""
    try:
        if (xdg := config.system.xdg_cache_home) is not None:
            yield xdg / "flydsl", False
    except RuntimeError:  # a `~` in it, and no home
        pass
    import tempfile

    yield Path(tempfile.gettempdir()) / f"flydsl-{os.getuid()}", True


# -- the cache ---------------------------------------------------------------------------------------


class DiskCache:
    """Artifacts by disk key (64 hex digits) below one root, with more roots and a store to look in."""

    def __init__(self, settings: Settings | str | os.PathLike[str]):
        self.settings = settings if isinstance(settings, Settings) else Settings(Path(settings))
        self.stats = CacheStats()
        self._resolved: tuple[Path | None, bool] | None = None
        self._read_roots: tuple[Path, ...] | None = None
        self._store: Store | None = None
        self._store_tried = False
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
                return root, _check_root(root, readonly=settings.readonly)
            reasons.append("there is no home directory")
        except _UnusableError as error:
            reasons.append(f"{root}: {error}")
            if settings.explicit or error.open:
                name = "FLYDSL_RUNTIME_CACHE_DIR" if settings.explicit else "the default cache directory"
                self._off(f"{name} cannot be used ({root}: {error})")
                return None, False
        for candidate, private in _fallback_roots():
            try:
                if private:
                    _check_private(candidate)
                return candidate, _check_root(candidate, readonly=settings.readonly)
            except _UnusableError as error:
                reasons.append(f"{candidate}: {error}")
        self._off(f"no directory can hold the disk cache ({'; '.join(reasons)})")
        return None, False

    def _off(self, why: str) -> None:
        _warn_once(f"root {self.settings.root}", f"{why}; compiled kernels are kept in memory only")

    def _roots(self) -> Iterator[tuple[Path, bool]]:
        """Roots to read, in order, and whether each may be written to."""
        root, writable = self._resolve()
        if root is not None:
            yield root, writable
        if self._read_roots is None:
            usable: list[Path] = []
            for extra in self.settings.read_roots:
                try:
                    _check_root(extra, readonly=True)
                    usable.append(extra)
                except _UnusableError as error:
                    _warn_once(f"root {extra}", f"{extra} of FLYDSL_RUNTIME_CACHE_PATH is not used: {error}")
            self._read_roots = tuple(usable)
        for extra in self._read_roots:
            yield extra, False

    def path_of(self, key: str, root: Path | None = None) -> Path | None:
        """Where an entry is or would be; None without a root."""
        if not _KEY.fullmatch(key):
            raise ValueError(f"a cache key is 64 hex digits, got {key!r}")
        base = root or self.root
        return base / f"v{SCHEMA}" / key[:2] / f"{key}{SUFFIX}" if base else None

    def _count(self, **changes: int) -> None:
        with _guard:
            for stats in (self.stats, totals):
                for name, change in changes.items():
                    setattr(stats, name, getattr(stats, name) + change)

    # -- read ------------------------------------------------------------------------------------------

    def get(self, key: str) -> CompiledArtifact | None:
        """The stored artifact, or None. Takes no lock; a damaged entry is removed and counts as none."""
        for root, writable in self._roots():
            path = cast(Path, self.path_of(key, root))
            if (artifact := self._read(key, path, writable)) is not None:
                self._count(hits=1)
                return artifact
        if self.settings.store and (artifact := self._fetch(key)) is not None:
            self._count(hits=1, store_hits=1)
            return artifact
        self._count(misses=1)
        return None

    def contains(self, key: str) -> bool:
        """Whether some root has a file for a key; it is not checked."""
        return any(cast(Path, self.path_of(key, root)).exists() for root, _ in self._roots())

    def _read(self, key: str, path: Path, writable: bool) -> CompiledArtifact | None:
        try:
            with open(path, "rb") as file:
                info = os.fstat(file.fileno())
                data = file.read()
        except OSError as error:  # not there, just removed, stale, unreadable: a miss in any case
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                _logger.info("cache entry %s: %s", path, _reason(error))
            return None
        try:
            artifact = CompiledArtifact.from_bytes(data)
            if artifact.key != key:
                raise ArtifactFormatError("key", f"it is the entry of {artifact.key or 'no key'}")
        except ArtifactFormatError as error:
            self._count(corrupt=1)
            _warn_once("corrupt", f"the cache entry {path} is damaged and will be made again ({error})")
            if writable:
                _remove_if_same(path, info)
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
            self._ask_store("put", lambda store: store.put(key, data))
        return stored

    def _publish(self, key: str, path: Path, data: bytes, overwrite: bool) -> bool:
        if not overwrite and path.exists() and self._read(key, path, True) is not None:
            return True
        try:
            try:
                self._write(path, data)
            except OSError as error:
                if error.errno not in _FULL or not self.settings.max_bytes:
                    raise
                self._make_room(len(data))
                self._write(path, data)
        except OSError as error:
            self._count(write_errors=1)
            if error.errno not in (errno.ESTALE, errno.EBUSY, errno.EINTR):
                self._resolved = (self.root, False)
                _warn_once(
                    f"write {self.root}",
                    f"the disk cache {self.root} cannot be written to ({_reason(error)}); this process writes no more "
                    "entries",
                )
            return False
        self._count(writes=1, bytes_written=len(data))
        self._enforce_bound(keep=path)
        return True

    def _write(self, path: Path, data: bytes) -> None:
        if not self._marked:
            self._marked = True
            self._mark(cast(Path, self.root))
        for last in (False, True):
            _make_directories(path.parent)
            try:
                return atomic_write(path, data)
            except FileNotFoundError:  # someone deleted the folder between the two steps
                if last:
                    raise

    @staticmethod
    def _mark(root: Path) -> None:
        for name, text in (("CACHEDIR.TAG", _TAG), ("README", _README)):
            if not (root / name).exists():
                atomic_write(root / name, text.encode())

    # -- eviction --------------------------------------------------------------------------------------

    def _files(self, root: Path | None = None) -> list[tuple[float, int, Path]]:
        """Modification time, size and path of every entry below a root, oldest first."""
        base = root or self.root
        return sorted(_scan(base / f"v{SCHEMA}")) if base else []

    def _enforce_bound(self, keep: Path) -> None:
        bound = self.settings.max_bytes
        if not bound:
            return
        now = time.monotonic()
        with _guard:
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
        _remove_leftovers(root)
        files = self._files()
        total = sum(size for _, size, _ in files)
        count = freed = 0
        for _, size, path in files:
            if total - freed <= max_bytes:
                break
            if path != keep and _unlink(path):
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
        name = (str(root), key)
        with _guard:
            entry = _key_locks.setdefault(name, _KeyLock())
            entry.users += 1
        try:
            with entry.lock:
                if entry.held is not None:  # the same thread again
                    yield entry.held
                    return
                if path is None or root is None or not writable:
                    yield False
                    return
                with self._file_lock(root / f"v{SCHEMA}" / "locks" / key, self.settings.lock_timeout) as held:
                    entry.held = held
                    try:
                        yield held
                    finally:
                        entry.held = None
        finally:
            with _guard:
                entry.users -= 1
                if not entry.users and _key_locks.get(name) is entry:
                    del _key_locks[name]

    @contextmanager
    def _file_lock(self, path: Path, timeout: float, *, remove: bool = True) -> Generator[bool]:
        owner = os.getpid()
        try:
            handle = self._acquire(path, timeout)
        except OSError as error:
            handle = None
            self._count(lock_failures=1)
            _warn_once(
                f"lock {self.root}",
                f"the disk cache {self.root} cannot be locked ({_reason(error)}); a kernel may be compiled by several "
                "processes at once",
            )
        try:
            yield handle is not None
        finally:
            if handle is not None and os.getpid() == owner:
                with _guard:
                    _held.discard(handle)
                if remove:
                    _unlink(path)
                try:
                    fcntl.flock(handle, fcntl.LOCK_UN)
                finally:
                    os.close(handle)

    def _acquire(self, path: Path, timeout: float) -> int | None:
        """A descriptor that holds the lock; None when the time is over."""
        _make_directories(path.parent)
        started = time.monotonic()
        pause = 0.001
        while True:
            handle = _open_lock(path)
            done = False
            try:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR):
                        raise
                else:
                    # The holder before us removes the file: then our lock is on a file nobody else will find.
                    done = _same_file(path, handle)
                    if done:
                        with _guard:
                            _held.add(handle)
                        return handle
                    continue
            finally:
                if not done:
                    os.close(handle)
            waited = time.monotonic() - started
            if waited >= timeout:
                self._lock_timeout(path, timeout)
                return None
            if pause == 0.001:
                self._count(lock_waits=1)
            time.sleep(min(pause, max(timeout - waited, 0.001)))
            pause = min(pause * 1.5, 0.05)

    def _lock_timeout(self, path: Path, timeout: float) -> None:
        if timeout > 0:
            self._count(lock_failures=1)
            _warn_once(
                f"timeout {self.root}",
                f"waited {timeout:g} s for another process to compile ({path}); compiling without its result. "
                "FLYDSL_RUNTIME_LOCK_TIMEOUT sets how long to wait",
            )

    # -- remote store ----------------------------------------------------------------------------------

    def _ask_store(self, what: str, ask: Callable[[Store], Any]) -> Any:
        """Call the store; whatever it raises only means that it did not help."""
        try:
            if not self._store_tried:
                self._store_tried = True
                module, _, name = self.settings.store.partition(":")
                found: Any = importlib.import_module(module)
                for part in name.split("."):
                    found = getattr(found, part)
                self._store = found()
            return ask(self._store) if self._store is not None else None
        except Exception as error:
            _logger.debug("cache store %s: %s failed", self.settings.store, what, exc_info=True)
            _warn_once(
                f"store {self.settings.store}",
                f"the cache store {self.settings.store} failed ({what}: {error!r}); going on with the local cache",
            )
            return None

    def _fetch(self, key: str) -> CompiledArtifact | None:
        data = self._ask_store("get", lambda store: store.get(key))
        if not isinstance(data, bytes):
            return None
        try:
            artifact = CompiledArtifact.from_bytes(data)
        except ArtifactFormatError as error:
            self._count(corrupt=1)
            _warn_once("corrupt store", f"an entry of the cache store {self.settings.store} is damaged ({error})")
            return None
        if artifact.key != key:
            return None
        if (path := self.path_of(key)) is not None and self.writable:
            self._publish(key, path, data, overwrite=True)
        return artifact


# -- files -------------------------------------------------------------------------------------------


def _unlink(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True


def _remove_if_same(path: Path, info: os.stat_result) -> None:
    """Remove a file unless it was replaced since `info` was taken."""
    try:
        now = path.stat()
    except OSError:
        return
    if (now.st_ino, now.st_size, now.st_mtime_ns) == (info.st_ino, info.st_size, info.st_mtime_ns):
        _unlink(path)


def _same_file(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except OSError:
        return False


def _open_lock(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except PermissionError:  # made by another user of a shared root; reading is enough to lock
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _children(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return list(found)
    except OSError:
        return []


def _scan(version: Path) -> Iterator[tuple[float, int, Path]]:
    for folder in _children(version):
        if len(folder.name) != 2:
            continue
        for entry in _children(Path(folder.path)):
            if entry.name.endswith(SUFFIX) and not entry.name.startswith("."):
                try:
                    info = entry.stat()
                except OSError:  # removed since it was listed
                    continue
                yield info.st_mtime, info.st_size, Path(entry.path)


def _remove_leftovers(root: Path, age: float = STALE_TEMPORARY) -> None:
    """Remove temporary files of writers that were killed."""
    now = time.time()
    for folder in (*_children(root / f"v{SCHEMA}"),):
        for entry in _children(Path(folder.path)) if len(folder.name) == 2 else ():
            if entry.name.startswith(".") and entry.name.endswith(".tmp"):
                try:
                    if now - entry.stat().st_mtime > age:
                        os.unlink(entry.path)
                except OSError:  # its writer was faster
                    continue


# -- for everyone ------------------------------------------------------------------------------------


def current_settings() -> Settings:
    """The settings of the environment as it is now."""
    env = config.runtime
    reading = env.enable_cache or env.run_only
    if not reading:
        return Settings(lock_timeout=env.lock_timeout)
    explicit = config.RuntimeEnv.cache_dir.raw() is not None
    try:
        root = env.cache_dir.absolute()
    except RuntimeError:  # "~" and nobody knows the home directory
        root = Path("~") if explicit else None
    return Settings(
        root=root,
        explicit=explicit,
        read_roots=tuple(path.absolute() for path in env.cache_path),
        readonly=env.cache_readonly or not env.enable_cache,
        max_bytes=env.cache_max_bytes,
        binary_only=env.cache_binary_only,
        lock_timeout=env.lock_timeout,
        store=env.cache_store,
    )


def default_cache() -> DiskCache:
    """The cache of the current environment; the same object as long as its settings stay the same."""
    key = (current_settings(), os.environ.get("XDG_CACHE_HOME"))
    with _guard:
        cache = _caches.get(key)
        if cache is None:
            cache = _caches[key] = DiskCache(key[0])
        return cache


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


def _describe(path: Path, size: int, modified: float) -> EntryInfo:
    header = read_header(path)
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
            entry = _describe(path, size, modified)
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
        found = [(path, size) for version in _versions(root) for _, size, path in _scan(version)]
        _remove_leftovers(root, age=0.0)
    else:
        chosen_entries = entries(function=function, backend=backend, arch=arch, older_than=older_than, cache=chosen)
        found = [(entry.path, entry.size) for entry in chosen_entries]
    gone = [size for path, size in found if _unlink(path)]
    return Removed(len(gone), sum(gone))


def _versions(root: Path) -> list[Path]:
    return [Path(entry.path) for entry in _children(root) if re.fullmatch(r"v\d+", entry.name)]


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
            artifact = CompiledArtifact.load(path)
            if artifact.key != path.stem:
                raise ArtifactFormatError("key", f"it is the entry of {artifact.key or 'no key'}")
        except FileNotFoundError:
            continue
        except (OSError, ArtifactFormatError) as error:
            defects.append(Defect(path, str(error)))
            if remove and chosen.writable:
                _unlink(path)
    return defects


__all__ = [
    "CacheInfo",
    "CacheStats",
    "Defect",
    "DiskCache",
    "EntryInfo",
    "Removed",
    "Settings",
    "Store",
    "clear",
    "current_settings",
    "default_cache",
    "entries",
    "info",
    "prune",
    "totals",
    "verify",
]
