"""Every file operation of the disk cache fails once: that costs time, and never a result.

Each scenario is run once to count the calls it makes on files below its root, then once for each of them and each way
to fail: the system reports an error, takes or gives less than asked, or says "done" and has lost it.
"""

import errno
import fcntl
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import trusted_files
from flydsl.compiler.backends import _fingerprint
from flydsl.compiler.build.artifact import CompiledArtifact
from flydsl.compiler.cache import DiskCache, Settings, clear, disk_cache, entries, info, locks, prune, stats, verify
from flydsl.errors import CacheWarning

CALLS = (
    *("open", "read", "write", "fsync", "close", "replace", "rename", "unlink", "mkdir", "rmdir", "stat", "lstat"),
    *("fstat", "link", "symlink", "scandir", "utime", "chmod", "access", "readlink"),
)
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EACCES": errno.EACCES}
LOST = ("replace", "rename", "unlink", "mkdir", "utime", "chmod")
"""Calls that can report success and leave nothing behind."""
K, OLD, BAD = "ab" * 32, "ab" + "cd" * 31, "ef" * 32


class Faults:
    """Counts the calls on files below a root and lets one of them fail."""

    def __init__(self, root: Path):
        self.root = str(root)
        self.calls: list[str] = []
        self.at = -1
        self.fault = ""
        self._real = {name: getattr(os, name) for name in CALLS} | {"flock": fcntl.flock}

    def _ours(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        target: Any = args[0] if args else "."
        folder = kwargs.get("dir_fd", kwargs.get("src_dir_fd"))
        for handle in (target if isinstance(target, int) else None, folder):
            if handle is not None:
                try:
                    return self._real["readlink"](f"/proc/self/fd/{handle}").startswith(self.root)
                except OSError:
                    return False
        return not isinstance(target, int) and os.fspath(target).startswith(self.root)

    def _wrapped(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(*args: Any, **kwargs: Any) -> Any:
            if not self._ours(args, kwargs):
                return real(*args, **kwargs)
            self.calls.append(name)
            if len(self.calls) - 1 != self.at:
                return real(*args, **kwargs)
            if self.fault == "short":
                return real(args[0], args[1][: len(args[1]) // 2]) if name == "write" else real(args[0], 7)
            if self.fault == "lost":
                return None
            if name == "access":
                return False
            if name == "close":  # the descriptor is gone even so
                real(*args, **kwargs)
            raise OSError(ERRORS[self.fault], os.strerror(ERRORS[self.fault]))

        return call

    @contextmanager
    def on(self, at: int = -1, fault: str = "") -> Iterator[None]:
        self.calls, self.at, self.fault = [], at, fault
        with pytest.MonkeyPatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, self._wrapped(name))
            patch.setattr(fcntl, "flock", self._wrapped("flock"))
            yield

    def ways(self) -> list[tuple[int, str]]:
        """Every call of the last run, with every way it can fail."""
        found: list[tuple[int, str]] = []
        for i, name in enumerate(self.calls):
            more = ("short",) if name in ("read", "write") else ("lost",) if name in LOST else ()
            found += [(i, fault) for fault in (*(ERRORS if name != "access" else ("EACCES",)), *more)]
        return found


def artifact(name: str) -> CompiledArtifact:
    return CompiledArtifact({"name": name, "binary_ext": "o"}, {"o": name.encode() * 200, "llvm": b"; ir"})


def fill(root: Path) -> None:
    cache = DiskCache(root)
    for key in (OLD, BAD):
        assert cache.put(key, artifact("old"))
    os.utime(root / "v1/ab" / f"{OLD}.fly", (1000, 1000))
    leftover = root / "v1/ab/.x.tmp"
    leftover.write_bytes(b"half")
    os.utime(leftover, (1000, 1000))
    path = root / "v1/ef" / f"{BAD}.fly"
    path.write_bytes(path.read_bytes()[:-1] + b"!")


def put_and_get(root: Path) -> None:
    cache = DiskCache(root)
    with cache.lock(K), cache.lock(K):
        assert cache.get(K) is None
        stored = cache.put(K, artifact("new"))
    found = cache.get(K)
    assert found is None or found.name == "new"
    assert found is not None or not stored or cache.stats.misses > 1
    cache.contains(K)


def hits(root: Path) -> None:
    cache = DiskCache(root)
    for _ in range(2):
        found = cache.get(OLD)
        assert found is None or found.name == "old"
    assert cache.contains(OLD) in (True, False)
    reader = DiskCache(Settings(None, read_roots=(root,)))
    found = reader.get(OLD)
    assert found is None or found.name == "old"


def damaged(root: Path) -> None:
    cache = DiskCache(root)
    assert cache.get(BAD) is None
    cache.put(BAD, artifact("mended"))
    found = cache.get(BAD)
    assert found is None or found.name == "mended"


def eviction(root: Path) -> None:
    cache = DiskCache(Settings(root, max_bytes=1500))
    for number in range(3):
        cache.put(f"{number:064x}", artifact(f"n{number}"))
    cache.evict(0)


def administration(root: Path) -> None:
    cache = DiskCache(root)
    info(cache)
    for each in entries(cache=cache):
        assert each.name == "old"
    verify(cache=cache, remove=True)
    prune(max_bytes=100, max_age=1e6, cache=cache)
    clear(cache=cache)


def side_files(root: Path) -> None:
    side = root / _fingerprint.SIDE_FILE
    digest = "a" * 64
    trusted_files.write_side_file(side, b'{"tool": "%s"}' % digest.encode())
    assert _fingerprint._load(side) in ({}, {"tool": digest})


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "caches", {})
    monkeypatch.setattr(locks, "VANISHED_LIMIT", 20)


def run(scenario: Callable[[], None]) -> list[str]:
    """The warnings of a run."""
    stats.warned.clear()
    trusted_files._warned.clear()
    disk_cache.caches.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scenario()
    assert all(issubclass(w.category, CacheWarning) for w in caught), [str(w.message) for w in caught]
    return [str(w.message) for w in caught]


def check_entries(root: Path) -> None:
    """What is visible is whole, but for the one that was damaged before."""
    for path in root.rglob("*.fly"):
        if path.stem != BAD and not path.name.startswith("."):
            assert CompiledArtifact.load(path).key == path.stem
    assert not locks.held and not locks.key_locks


@pytest.mark.parametrize("scenario", [put_and_get, hits, damaged, eviction, administration, side_files])
def test_one_failure_never_reaches_the_caller(tmp_path: Path, scenario: Callable[[Path], None]) -> None:
    start = tmp_path / "start"
    fill(start)
    root = tmp_path / "cache"
    faults = Faults(root)

    def once(at: int = -1, fault: str = "") -> list[str]:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(start, root)
        root.chmod(0o700)
        with faults.on(at, fault):
            found = run(lambda: scenario(root))
        check_entries(root)
        return found

    usual = once()
    ways = faults.ways()
    assert len(ways) > 15
    before = len(os.listdir("/proc/self/fd"))
    for at, fault in ways:
        try:
            found = once(at, fault)
        except Exception as error:
            raise AssertionError(f"call {at} ({faults.calls[at]}) with {fault}: {error!r}") from error
        assert len(found) == len(set(found)) <= len(usual) + 1, (at, fault, found)
    assert len(os.listdir("/proc/self/fd")) == before


# -- the first call of a kernel ----------------------------------------------------------------------


@flyc.kernel
def twice_kernel(x: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 32 + fx.thread_idx.x
    if i < n:
        x[i] = x[i] * 2 + 1


@flyc.jit
def twice(x: fx.Tensor, n: fx.Int32):
    twice_kernel(x, n).launch(grid=fx.ceildiv(n, 32), block=32)


@pytest.mark.parametrize("warm", [False, True])
def test_the_first_call_is_right_whatever_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: bool) -> None:
    root = tmp_path / "cache"
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(root))
    made: list[Any] = []
    real = type(twice).compile

    def compile_once(*args: Any, **kwargs: Any) -> Any:
        """The compiler itself is not what is tested here, and takes most of the time."""
        if not made:
            made.append(real(*args, **kwargs))
        return made[0]

    monkeypatch.setattr(type(twice), "compile", compile_once)
    faults = Faults(root)

    def call(at: int = -1, fault: str = "") -> list[str]:
        twice.invalidate()
        x = np.random.default_rng(at + 2).integers(-1000, 1000, 37).astype(np.int32)
        expected = x * 2 + 1
        with faults.on(at, fault):
            found = run(lambda: twice(x, 37))
        np.testing.assert_array_equal(x, expected)
        check_entries(root)
        return found

    call()
    saved = tmp_path / "saved"
    shutil.copytree(root, saved)

    def reset() -> None:
        shutil.rmtree(root, ignore_errors=True)
        if warm:
            shutil.copytree(saved, root)
            root.chmod(0o700)

    reset()
    assert not call()
    ways = faults.ways()
    assert len(ways) > (10 if warm else 60)
    start = time.monotonic()
    for at, fault in ways:
        reset()
        try:
            found = call(at, fault)
        except Exception as error:
            raise AssertionError(f"call {at} ({faults.calls[at]}) with {fault}: {error!r}") from error
        assert len(found) <= 1, (at, fault, found)
    assert time.monotonic() - start < 120
