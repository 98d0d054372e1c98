"""A store that machines share (`FLYDSL_CACHE_REMOTE`, any URL of fsspec): read behind the local cache, written later.

What is read is checked by whoever asked for it: entries have checksums, keys and signatures of their own. What is
written goes out on a thread of its own. A store that is down, slow, full or lying costs a warning and what it would
have saved; one that does not answer in time is not asked again by this process.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import json
import logging
import os
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, cast

from flydsl.compiler.cache.stats import warn_once
from flydsl.compiler.guard import Guard
from flydsl.errors import MissingPackageError

T = TypeVar("T")

ANSWER_S = 15.0
"""Seconds a store has to answer."""
PENDING = 256
"""Writes that wait; more are dropped."""
DRAIN_S = 10.0
"""Seconds for writes that wait when the process ends."""
LEASE_S = 900.0
"""Seconds after which a lease whose holder was killed is free again."""
SCHEMA = "v1"
_logger = logging.getLogger("flydsl.cache")


class _FileSystem(Protocol):
    """What is used of a file system of fsspec."""

    protocol: str | tuple[str, ...]

    def cat_file(self, path: str) -> bytes: ...
    def pipe_file(self, path: str, value: bytes, mode: str = ...) -> object: ...
    def exists(self, path: str) -> bool: ...
    def makedirs(self, path: str, exist_ok: bool = ...) -> object: ...
    def mv(self, path1: str, path2: str) -> object: ...
    def rm_file(self, path: str) -> object: ...
    def find(self, path: str) -> list[str]: ...


class SharedStore:
    """Objects by name below one URL."""

    def __init__(self, url: str):
        self.url = url
        self.who = f"{uuid.uuid4().hex}"
        self._fs: _FileSystem | None = None
        self._root = ""
        self._dead = False
        self._queue: queue.Queue[tuple[str, bytes] | None] = queue.Queue(PENDING)
        self._writer: threading.Thread | None = None
        self._lock = Guard()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        """A child has no writer and no connections: it makes its own; what waits is the parent's to write."""
        self._fs, self._writer, self._queue = None, None, queue.Queue(PENDING)

    # -- the interface of a cache store ----------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        """An entry; it is for the caller to check."""
        return self.read(self.name_of(key))

    def put(self, key: str, data: bytes) -> None:
        """Write an entry, later."""
        self.write_later(self.name_of(key), data)

    def contains(self, key: str) -> bool:
        """Whether there is an entry."""
        return self._answer(lambda fs: fs.exists(self._path(self.name_of(key))), False)

    def list(self) -> Iterator[str]:
        """Keys of entries."""
        names = self._answer(lambda fs: fs.find(self._path(f"{SCHEMA}/code")), [])
        return iter([name.rpartition("/")[2].removesuffix(".fly") for name in names if name.endswith(".fly")])

    @staticmethod
    def name_of(key: str) -> str:
        """Where an entry lies below the URL."""
        return f"{SCHEMA}/code/{key[:2]}/{key}.fly"

    # -- objects ---------------------------------------------------------------------------------------

    def read(self, name: str) -> bytes | None:
        """An object, or None where there is none or the store does not help."""

        def fetch(fs: _FileSystem) -> bytes | None:
            try:
                return fs.cat_file(self._path(name))
            except (FileNotFoundError, NotADirectoryError):
                return None

        return self._answer(fetch, None)

    def write(self, name: str, data: bytes) -> bool:
        """Write an object now; whether that worked."""
        return self._answer(lambda fs: self._write(fs, name, data), False)

    def _write(self, fs: _FileSystem, name: str, data: bytes) -> bool:
        path = self._path(name)
        fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        local = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
        if local & {"file", "local"}:  # object stores show an object when it is whole, files are renamed into place
            aside = f"{path}.{self.who[:8]}-{threading.get_ident()}.tmp"
            fs.pipe_file(aside, data)
            fs.mv(aside, path)
        else:
            fs.pipe_file(path, data)
        return True

    def write_later(self, name: str, data: bytes) -> None:
        """Write an object on a thread of its own; dropped, with a warning, where too many wait."""
        with self._lock:
            if self._dead:
                return
            if self._writer is None:
                self._writer = threading.Thread(target=self._work, name="flydsl-store", daemon=True)
                self._writer.start()
                atexit.register(self.drain)
        try:
            self._queue.put_nowait((name, data))
        except queue.Full:
            warn_once(
                f"full {self.url}", f"the store {self.url} is slower than what is written to it; some is left out"
            )

    def _work(self) -> None:
        while True:
            item = self._queue.get()
            try:
                if item is None:
                    return
                self.write(*item)
            finally:
                self._queue.task_done()

    def drain(self, seconds: float = DRAIN_S) -> None:
        """Wait for what is still to be written."""
        end = time.monotonic() + seconds
        while self._queue.unfinished_tasks and time.monotonic() < end and not self._dead:
            time.sleep(0.01)

    # -- leases ----------------------------------------------------------------------------------------

    def take_lease(self, name: str, seconds: float = LEASE_S) -> bool:
        """Whether this process now has the lease; one that has expired is taken over."""
        body = json.dumps({"who": self.who, "until": time.time() + seconds}).encode()
        path = f"{SCHEMA}/leases/{name}"

        def take(fs: _FileSystem) -> bool:
            fs.makedirs(self._path(path).rpartition("/")[0], exist_ok=True)
            try:
                fs.pipe_file(self._path(path), body, mode="create")
                return True
            except FileExistsError:
                pass
            except (TypeError, NotImplementedError, ValueError):  # a file system that cannot create exclusively
                if not fs.exists(self._path(path)):
                    fs.pipe_file(self._path(path), body)
            held = _lease_of(fs.cat_file(self._path(path)))
            if held is None or held[1] < time.time():
                fs.pipe_file(self._path(path), body)
                time.sleep(0.05)  # of several that found it free, the last to write has it
                held = _lease_of(fs.cat_file(self._path(path)))
            return held is not None and held[0] == self.who

        return self._answer(take, True)  # a store that does not help keeps nobody from working

    def drop_lease(self, name: str) -> None:
        """Give a lease back, if it is still ours."""
        path = self._path(f"{SCHEMA}/leases/{name}")

        def drop(fs: _FileSystem) -> None:
            held = _lease_of(fs.cat_file(path))
            if held is not None and held[0] == self.who:
                fs.rm_file(path)

        self._answer(drop, None)

    # -- asking ----------------------------------------------------------------------------------------

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _open(self) -> _FileSystem:
        if self._fs is None:
            try:
                core = importlib.import_module("fsspec.core")
            except ImportError:
                raise MissingPackageError("shared stores", "fsspec", "remote") from None
            self._fs, self._root = cast("tuple[_FileSystem, str]", cast(Any, core).url_to_fs(self.url))
        return self._fs

    def _answer(self, ask: Callable[[_FileSystem], T], otherwise: T) -> T:
        """What the store says in time, or `otherwise`."""
        if self._dead:
            return otherwise
        box: queue.Queue[tuple[bool, Any]] = queue.Queue(1)

        def work() -> None:
            try:
                box.put((True, ask(self._open())))
            except Exception as error:  # noqa: BLE001 - file systems have classes of their own
                box.put((False, error))

        # A thread that hangs cannot be ended; it is left behind, and the store with it.
        threading.Thread(target=work, name="flydsl-store-ask", daemon=True).start()
        try:
            good, value = box.get(timeout=ANSWER_S)
        except queue.Empty:
            self._dead = True
            warn_once(
                f"store {self.url}", f"the store {self.url} does not answer within {ANSWER_S:g} s; going on without it"
            )
            return otherwise
        if good:
            return cast(T, value)
        _logger.debug("store %s", self.url, exc_info=cast(Exception, value))
        warn_once(f"store {self.url}", f"the store {self.url} failed ({value!r}); going on with the local cache")
        return otherwise


def _lease_of(data: bytes) -> tuple[str, float] | None:
    try:
        body = json.loads(data)
        return str(body["who"]), float(body["until"])
    except (ValueError, TypeError, KeyError):
        return None


def sealed(data: bytes) -> bytes:
    """Data with its checksum."""
    return hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def unsealed(data: bytes) -> bytes | None:
    """What `sealed` was given, or None if it is not what came back."""
    digest, _, body = data.partition(b"\n")
    return body if hashlib.sha256(body).hexdigest().encode() == digest else None


_stores: dict[str, SharedStore] = {}


def shared_store(url: str) -> SharedStore:
    """The store of a URL; one object a process."""
    return _stores.setdefault(url, SharedStore(url))
