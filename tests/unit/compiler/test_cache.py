"""The disk cache: what is found again, what survives damage, and how it behaves where it cannot work."""

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flydsl.compiler.build.artifact import CompiledArtifact
from flydsl.compiler.cache import (
    DiskCache,
    Settings,
    clear,
    default_cache,
    disk_cache,
    entries,
    info,
    locks,
    prune,
    stats,
    verify,
)
from flydsl.compiler.cache import files as disk_files
from flydsl.errors import CacheWarning

# JAX, once imported by a test before, warns of every fork.
pytestmark = pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")


def key_of(number: int) -> str:
    return f"{number:064x}"


K = "ab" * 32


def artifact(name: str = "gemm", size: int = 100, arch: str = "gfx942") -> CompiledArtifact:
    target = {"backend": "rocm", "arch": arch, "warp_size": 64, "features": []}
    meta = {"name": name, "module": "m", "qualname": f"C.{name}", "backend": "rocm", "target": target}
    return CompiledArtifact({**meta, "binary_ext": "hsaco"}, {"hsaco": b"x" * size, "llvm": b"; ir"})


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "warned", set())
    monkeypatch.setattr(disk_cache, "caches", {})


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache")


def files(root: Path) -> list[str]:
    return sorted(p.name for p in (root / "v1").rglob("*") if p.is_file())


def path_of(cache: DiskCache, key: str = K) -> Path:
    path = cache.path_of(key)
    assert path is not None
    return path


def test_round_trip_and_layout(cache: DiskCache, tmp_path: Path) -> None:
    assert cache.get(K) is None
    assert cache.put(K, artifact())
    found = cache.get(K)
    assert found is not None and found.key == K and found.binary() == b"x" * 100
    root = tmp_path / "cache"
    assert (root / "v1" / "ab" / f"{K}.fly").is_file()
    assert (root / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")
    assert (root / "README").is_file()
    assert (root.stat().st_mode & 0o777, (root / "v1/ab").stat().st_mode & 0o777) == (0o700, 0o700)
    assert files(root) == [f"{K}.fly"]
    stats = cache.stats
    assert (stats.hits, stats.misses, stats.writes) == (1, 1, 1)
    assert stats.bytes_read == stats.bytes_written == path_of(cache).stat().st_size
    assert stats.as_dict()["corrupt"] == 0


def test_entries_follow_the_umask(cache: DiskCache) -> None:
    before = os.umask(0o022)
    try:
        cache.put(K, artifact())
    finally:
        os.umask(before)
    assert path_of(cache).stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("key", ["", "abc", "../" * 21 + "a", "AB" * 32, "ab" * 33])
def test_keys_are_hex(cache: DiskCache, key: str) -> None:
    for use in (cache.get, cache.path_of, lambda k: cache.put(k, artifact()), lambda k: cache.lock(k).__enter__()):
        with pytest.raises(ValueError, match="64 hex digits"):
            use(key)


def test_existing_entry_stays_unless_overwritten(cache: DiskCache) -> None:
    cache.put(K, artifact("first"))
    assert cache.put(K, artifact("second"))
    assert cache.get(K).name == "first"  # type: ignore[union-attr]
    assert cache.put(K, artifact("third"), overwrite=True)
    assert cache.get(K).name == "third"  # type: ignore[union-attr]


def test_binary_only(tmp_path: Path) -> None:
    cache = DiskCache(Settings(tmp_path / "c", binary_only=True))
    cache.put(K, artifact())
    assert set(cache.get(K).sections) == {"hsaco"}  # type: ignore[union-attr]


# -- damage ------------------------------------------------------------------------------------------


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(bytes(data))


def _foreign_entry(path: Path) -> None:
    path.write_bytes(artifact().to_bytes(key=key_of(7)))


@pytest.mark.parametrize(
    "damage",
    [_truncate, _flip, _foreign_entry, lambda p: p.write_bytes(b""), lambda p: p.write_bytes(b"#!/bin/sh\n" * 50)],
)
def test_damaged_entry_is_a_miss(cache: DiskCache, damage: Callable[[Path], None]) -> None:
    cache.put(K, artifact())
    damage(path_of(cache))
    with pytest.warns(CacheWarning, match="damaged"):
        assert cache.get(K) is None
    assert not path_of(cache).exists()
    assert cache.stats.corrupt == 1
    cache.put(K, artifact())
    damage(path_of(cache))
    assert cache.get(K) is None  # no second warning: warnings are errors here
    assert cache.put(K, artifact()) and cache.get(K) is not None


def test_damaged_entry_does_not_stop_a_writer(cache: DiskCache) -> None:
    cache.put(K, artifact("old"))
    _flip(path_of(cache))
    with pytest.warns(CacheWarning):
        assert cache.put(K, artifact("new"))
    assert cache.get(K).name == "new"  # type: ignore[union-attr]


def test_replaced_entry_is_not_deleted(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of a damaged file must not delete the good one that was renamed over it meanwhile."""
    cache.put(K, artifact())
    path = path_of(cache)
    good = path.read_bytes()
    _flip(path)
    real = CompiledArtifact.from_bytes

    def slow(data: bytes) -> CompiledArtifact:
        path.with_suffix(".new").write_bytes(good)
        os.replace(path.with_suffix(".new"), path)
        return real(data)

    monkeypatch.setattr(CompiledArtifact, "from_bytes", slow)
    with pytest.warns(CacheWarning):
        assert cache.get(K) is None
    monkeypatch.undo()
    assert cache.get(K) is not None


def test_directory_in_place_of_an_entry(cache: DiskCache) -> None:
    path_of(cache).mkdir(parents=True)
    assert cache.get(K) is None
    assert [entry.key for entry in entries(cache=cache)] == []


@pytest.mark.parametrize("code", [errno.ESTALE, errno.EIO, errno.EACCES, errno.ENOENT])
def test_read_errors_are_misses(cache: DiskCache, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    cache.put(K, artifact())

    def fail(*args: object, **kwargs: object) -> Any:
        raise OSError(code, "no")

    for name in ("read", "open", "fstat"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            assert cache.get(K) is None


def test_deleted_root_is_made_again(cache: DiskCache, tmp_path: Path) -> None:
    import shutil

    cache.put(K, artifact())
    shutil.rmtree(tmp_path / "cache")
    assert cache.get(K) is None
    assert cache.put(K, artifact()) and cache.get(K) is not None
    with cache.lock(K) as held:
        assert held


# -- writers -----------------------------------------------------------------------------------------


def _writer(root: str, number: int) -> None:
    cache = DiskCache(root)
    for i in range(8):
        cache.put(key_of(i), artifact(f"w{number}", size=20_000), overwrite=True)
        found = cache.get(key_of(i))
        assert found is not None
        assert found.binary() == b"x" * 20_000


def test_concurrent_processes_leave_valid_entries(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    context = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        workers = [context.Process(target=_writer, args=(str(root), i)) for i in range(4)]
        for worker in workers:
            worker.start()
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    assert files(root) == [f"{key_of(i)}.fly" for i in range(8)]
    assert verify(cache=DiskCache(root)) == []


def test_concurrent_threads_compile_once(cache: DiskCache) -> None:
    compiled: list[int] = []

    def work() -> None:
        if cache.get(K) is None:
            with cache.lock(K):
                if cache.get(K) is None:
                    compiled.append(1)
                    time.sleep(0.02)
                    cache.put(K, artifact())

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiled) == 1 and locks.key_locks == {}


def test_other_keys_are_not_held_up(cache: DiskCache) -> None:
    with cache.lock(K), cache.lock(key_of(1)) as held, cache.lock(K):
        assert held


ONCE = """
import sys, time
from pathlib import Path
from flydsl.compiler.cache import DiskCache
from flydsl.compiler.build.artifact import CompiledArtifact
cache, key = DiskCache(sys.argv[1]), "ab" * 32
if cache.get(key) is None:
    with cache.lock(key) as held:
        assert held
        if cache.get(key) is None:
            with open(sys.argv[2], "a") as log:
                log.write("x")
            time.sleep(0.2)
            cache.put(key, CompiledArtifact({}, {"o": b"1"}))
"""


def run(code: str, *args: object, wait: bool = True, **env: str) -> subprocess.Popen[str]:
    full = {**os.environ, **env}
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        env={name: value for name, value in full.items() if value != "-"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if wait:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0, out
        process.stdout_text = out  # type: ignore[attr-defined]
    return process


def test_processes_compile_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    workers = [run(ONCE, tmp_path / "cache", log, wait=False) for _ in range(3)]
    for worker in workers:
        out, _ = worker.communicate(timeout=60)
        assert worker.returncode == 0, out
    assert log.read_text() == "x"
    assert not any((tmp_path / "cache/v1/locks").iterdir())


KILLED = """
import os, signal, sys
from flydsl.compiler import cache
from flydsl.compiler.build import artifact
store = cache.DiskCache(sys.argv[1])
store.put("cd" * 32, artifact.CompiledArtifact({}, {"o": b"1"}))
replace = os.replace
def die(a, b, **folders):
    if str(b).endswith(".fly"):
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(a, b, **folders)
os.replace = die
with store.lock("ab" * 32):
    store.put("ab" * 32, artifact.CompiledArtifact({}, {"o": b"1"}))
"""


def test_kill_during_write(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    process = run(KILLED, root, wait=False)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    cache = DiskCache(root)
    assert cache.get(K) is None
    leftovers = [p for p in (root / "v1/ab").iterdir()]
    assert len(leftovers) == 1 and leftovers[0].name.startswith(".")
    with cache.lock(K) as held:  # the lock died with its owner
        assert held
        assert cache.put(K, artifact())
    assert cache.get(K) is not None
    prune(cache=cache)
    assert leftovers[0].exists()  # it might belong to a living writer
    os.utime(leftovers[0], (0, 0))
    prune(cache=cache)
    assert not leftovers[0].exists() and cache.get(K) is not None


# -- locks -------------------------------------------------------------------------------------------


HOLDER = """
import sys, time
from flydsl.compiler.cache import DiskCache
with DiskCache(sys.argv[1]).lock("ab" * 32) as held:
    assert held
    print("ready", flush=True)
    time.sleep(30)
"""


def test_lock_timeout_degrades(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    holder = run(HOLDER, root, wait=False)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "ready\n"
        cache = DiskCache(Settings(root, lock_timeout=0.05))
        with pytest.warns(CacheWarning, match="waited 0.05 s"), cache.lock(K) as held:
            assert not held
        with cache.lock(K) as held:
            assert not held
        assert cache.stats.lock_waits == 2 and cache.stats.lock_failures == 2
    finally:
        holder.kill()
        holder.communicate()
    with cache.lock(K) as held:
        assert held


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EROFS])
def test_unsupported_locks_degrade(cache: DiskCache, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(*args: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", fail)
    with pytest.warns(CacheWarning, match="cannot be locked"), cache.lock(K) as held:
        assert not held
        assert cache.put(K, artifact())
    with cache.lock(K) as held:
        assert not held


def test_lock_is_released_on_error(cache: DiskCache) -> None:
    with pytest.raises(KeyError), cache.lock(K):
        raise KeyError
    with cache.lock(K) as held:
        assert held
    assert locks.key_locks == {} and locks.held == set()


def test_fork_while_locked(cache: DiskCache) -> None:
    """The child neither inherits the lock nor takes it away from the parent."""
    with cache.lock(K), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                other = DiskCache(Settings(cache.root, lock_timeout=0))
                with other.lock(K) as held:
                    code = 1 if held else 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        lock = path_of(cache).parents[1] / "locks" / K
        assert lock.exists()
        probe = os.open(lock, os.O_RDWR)
        import fcntl

        with pytest.raises(BlockingIOError):
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(probe)


def test_fork_leaves_a_usable_cache(cache: DiskCache) -> None:
    """A child forked while another thread is inside the cache does not hang."""
    cache.put(K, artifact())
    with stats.guard, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(10)
                code = 0 if cache.get(K) is not None else 1
            finally:
                os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# -- roots -------------------------------------------------------------------------------------------


def test_read_only_setting(cache: DiskCache, tmp_path: Path) -> None:
    cache.put(K, artifact())
    before = files(tmp_path / "cache")
    reader = DiskCache(Settings(tmp_path / "cache", readonly=True))
    assert reader.get(K) is not None
    assert not reader.put(key_of(1), artifact())
    with reader.lock(K) as held:
        assert not held
    assert files(tmp_path / "cache") == before
    assert info(reader).mode == "read-only" and "read-only" in repr(reader)
    assert clear(cache=reader) == (0, 0)
    missing = DiskCache(Settings(tmp_path / "missing", readonly=True))
    with pytest.warns(CacheWarning, match="memory only"):
        assert missing.get(K) is None
    assert not (tmp_path / "missing").exists()


@pytest.fixture
def public_dir() -> Iterator[Path]:
    """A folder that an unprivileged user can reach."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


UNPRIVILEGED = """
import os, sys, warnings
from flydsl.compiler.cache import DiskCache
from flydsl.compiler.build.artifact import CompiledArtifact
# Only now: the interpreter's own files may be out of reach afterwards.
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
warnings.simplefilter("error")
"""


def test_read_only_root(public_dir: Path) -> None:
    root = public_dir / "cache"
    DiskCache(root).put(K, artifact())
    for directory in [root, *(p for p in root.rglob("*") if p.is_dir())]:
        directory.chmod(0o555)
    code = UNPRIVILEGED + textwrap.dedent(
        """
        cache = DiskCache(sys.argv[1])
        assert cache.root is not None and not cache.writable
        assert cache.get("ab" * 32) is not None
        with cache.lock("cd" * 32) as held:
            assert not held
        assert not cache.put("cd" * 32, CompiledArtifact({}, {}))
        """
    )
    try:
        run(code, root, PYTHONDONTWRITEBYTECODE="1")
    finally:
        for directory in [root, *(p for p in root.rglob("*") if p.is_dir())]:
            directory.chmod(0o755)


def test_explicit_root_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "file" / "sub"))
    cache = default_cache()
    with pytest.warns(CacheWarning, match="FLYDSL_RUNTIME_CACHE_DIR cannot be used .*file/sub.*memory only"):
        assert cache.get(K) is None
    assert not cache.put(K, artifact()) and cache.root is None and info(cache).mode == "off"
    with cache.lock(K) as held:
        assert not held
    assert repr(cache) == "<DiskCache off>"


def test_world_writable_root_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "open"
    root.mkdir()
    root.chmod(0o777)
    with pytest.warns(CacheWarning, match="everyone may write"):
        assert DiskCache(root).root is None
    assert list(root.iterdir()) == []
    assert DiskCache(Settings(root, explicit=False)).root is None  # no other place is tried either
    with pytest.warns(CacheWarning, match="CACHE_PATH is not used: everyone"):
        stats.warned.clear()
        assert DiskCache(Settings(None, read_roots=(root,))).get(K) is None


def test_group_writable_root_is_shared(tmp_path: Path) -> None:
    root = tmp_path / "team"
    root.mkdir()
    root.chmod(0o2770)
    with pytest.warns(CacheWarning, match="the group .* may write to it; run `chmod g-w"):
        assert DiskCache(root).root is None
    cache = DiskCache(Settings(root, trusted_owners=(f"@{root.stat().st_gid}",)))
    assert cache.put(K, artifact()) and cache.get(K) is not None
    assert (root / "v1/ab").stat().st_mode & 0o7777 == 0o2770
    with cache.lock(K) as held:
        assert held


def test_missing_home_falls_back(tmp_path: Path) -> None:
    code = """
    from flydsl.compiler.cache import default_cache
    cache = default_cache()
    print(cache.root, cache.writable)
    """
    (tmp_path / "file").write_text("")
    home = str(tmp_path / "file" / "home")
    xdg = tmp_path / "xdg"
    process = run(code, HOME=home, XDG_CACHE_HOME=str(xdg), FLYDSL_RUNTIME_CACHE_DIR="-")
    assert process.stdout_text == f"{xdg}/flydsl True\n"  # type: ignore[attr-defined]
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    process = run(code, HOME=home, XDG_CACHE_HOME="-", TMPDIR=str(scratch), FLYDSL_RUNTIME_CACHE_DIR="-")
    own = scratch / f"flydsl-{os.getuid()}"
    assert process.stdout_text == f"{own} True\n"  # type: ignore[attr-defined]
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o770)
    quiet = "import warnings; warnings.simplefilter('ignore')\n" + textwrap.dedent(code)
    process = run(quiet, HOME=home, XDG_CACHE_HOME="-", TMPDIR=str(scratch), FLYDSL_RUNTIME_CACHE_DIR="-")
    assert process.stdout_text == "None False\n"  # type: ignore[attr-defined]


def test_unknown_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No HOME and no account: `~` cannot be expanded at all."""

    def fail(self: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("FLYDSL_RUNTIME_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    real = Path.expanduser
    monkeypatch.setattr(Path, "expanduser", lambda self: fail(self) if str(self).startswith("~") else real(self))
    assert default_cache().root == tmp_path / "flydsl"


def test_extra_read_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DiskCache(tmp_path / "shipped").put(K, artifact("shipped"))
    before = path_of(DiskCache(tmp_path / "shipped")).stat().st_mtime_ns
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_PATH", f"{tmp_path / 'nothing'}:{tmp_path / 'shipped'}")
    cache = default_cache()
    with pytest.warns(CacheWarning, match="nothing"):
        assert cache.get(K).name == "shipped"  # type: ignore[union-attr]
    assert cache.contains(K) and not cache.contains(key_of(1))
    cache.put(K, artifact("own"))
    assert cache.get(K).name == "own"  # type: ignore[union-attr]
    assert path_of(DiskCache(tmp_path / "shipped")).stat().st_mtime_ns == before
    _flip(path_of(DiskCache(tmp_path / "shipped")))
    clear(cache=cache)
    with pytest.warns(CacheWarning, match="damaged"):
        assert cache.get(K) is None
    assert path_of(DiskCache(tmp_path / "shipped")).exists()  # not ours to delete


def test_environment_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "a"))
    first = default_cache()
    assert default_cache() is first and first.enabled
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "b"))
    assert default_cache().root == tmp_path / "b"
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    off = default_cache()
    assert off.root is None and not off.put(K, artifact()) and off.get(K) is None and not off.enabled
    first.put(K, artifact())
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "a"))
    monkeypatch.setenv("FLYDSL_RUNTIME_RUN_ONLY", "1")  # reads the disk even so
    assert default_cache().get(K) is not None and not default_cache().writable


def test_relative_root_survives_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", "rel")
    cache = default_cache()
    cache.put(K, artifact())
    monkeypatch.chdir("/")
    assert cache.get(K) is not None


# -- full disks and bounds ---------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_stops_writing(cache: DiskCache, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    cache.put(key_of(1), artifact())
    calls: list[int] = []

    def fail(*args: object, **kwargs: object) -> None:
        calls.append(1)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(disk_cache, "atomic_write", fail)
    with pytest.warns(CacheWarning, match="writes no more"):
        assert not cache.put(K, artifact())
    assert not cache.put(K, artifact()) and len(calls) == 1
    assert cache.get(key_of(1)) is not None


def test_full_disk_evicts_and_retries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(Settings(tmp_path / "c", max_bytes=1 << 30))
    for i in range(4):
        cache.put(key_of(i), artifact())
        os.utime(path_of(cache, key_of(i)), (1000 + i, 1000 + i))
    real = disk_cache.atomic_write
    calls: list[int] = []

    def once(path: Any, data: bytes, **folder: int) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, "full")
        real(path, data, **folder)

    monkeypatch.setattr(disk_cache, "atomic_write", once)
    assert cache.put(K, artifact())
    assert len(calls) == 2 and not path_of(cache, key_of(0)).exists() and path_of(cache, key_of(3)).exists()


def test_really_full_disk(tmp_path: Path) -> None:
    """/dev/full answers every write with ENOSPC: the temporary goes, the result stays usable."""
    cache = DiskCache(tmp_path / "c")
    real = os.open
    opened: list[str] = []

    def full(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if str(path).endswith(".tmp"):
            opened.append(str(path))
            os.close(real(path, flags, mode, dir_fd=dir_fd))
            return real("/dev/full", os.O_WRONLY)
        return real(path, flags, mode, dir_fd=dir_fd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", full)
        with pytest.warns(CacheWarning, match="No space left"):
            assert not cache.put(K, artifact())
    assert opened and not list(tmp_path.rglob("*.tmp"))


def test_eviction_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(artifact(size=1000).to_bytes(key=K))
    cache = DiskCache(Settings(tmp_path / "c", max_bytes=3 * size))
    monkeypatch.setattr(disk_cache, "EVICTION_INTERVAL", 0.0)
    now = time.time()
    for number, age in enumerate((4000, 8000, 6000)):
        cache.put(key_of(number), artifact(size=1000))
        os.utime(path_of(cache, key_of(number)), (now - age, now - age))
    assert cache.get(key_of(1)) is not None  # a hit makes the oldest the newest
    cache.put(K, artifact(size=1000))
    assert not path_of(cache, key_of(2)).exists()
    assert all(path_of(cache, key).exists() for key in (key_of(0), key_of(1), K))
    assert cache.stats.evictions == 1
    tiny = DiskCache(Settings(tmp_path / "c", max_bytes=1))
    tiny.put(key_of(9), artifact(size=1000))
    assert files(tmp_path / "c") == [f"{key_of(9)}.fly", "eviction"]  # what was just made stays


def test_eviction_at_most_once_a_minute(tmp_path: Path) -> None:
    for _ in range(2):  # the second cache stands for another process
        cache = DiskCache(Settings(tmp_path / "c", max_bytes=1))
        for i in range(3):
            cache.put(key_of(i), artifact())
    assert len(files(tmp_path / "c")) == 4


def test_hit_touches_at_most_hourly(cache: DiskCache) -> None:
    cache.put(K, artifact())
    for age, touched in ((60, False), (4000, True)):
        then = time.time() - age
        os.utime(path_of(cache), (then, then))
        cache.get(K)
        assert (path_of(cache).stat().st_mtime > then + 1) is touched


def test_no_scan_on_use(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(K, artifact())
    monkeypatch.setattr(disk_files, "scan", lambda *a: pytest.fail("looked through the cache"))
    other = DiskCache(cache.root or "")
    assert other.get(K) is not None and other.get(key_of(1)) is None and other.put(key_of(2), artifact())


# -- tools -------------------------------------------------------------------------------------------


def test_listing_and_clearing(cache: DiskCache) -> None:
    cache.put(key_of(1), artifact("gemm"))
    cache.put(key_of(2), artifact("gemm", arch="gfx950"))
    cache.put(key_of(3), artifact("copy"))
    os.utime(path_of(cache, key_of(3)), (1000, 1000))
    (path_of(cache, key_of(1)).parent / f"{key_of(4)}.fly").write_text("foreign")
    found = {entry.key: entry for entry in entries(cache=cache)}
    assert set(found) == {key_of(1), key_of(2), key_of(3)}
    first = found[key_of(1)]
    assert (first.name, first.function, first.backend, first.arch) == ("gemm", "m:C.gemm", "rocm", "gfx942")
    assert [e.key for e in entries(arch="gfx950", cache=cache)] == [key_of(2)]
    assert [e.key for e in entries(older_than=3600, cache=cache)] == [key_of(3)]
    assert len(list(entries(function="m:C.gemm", backend="rocm", cache=cache))) == 2
    assert info(cache).entries == 4 and info(cache).mode == "read-write"
    assert [defect.path.stem for defect in verify(cache=cache)] == [key_of(4)]
    assert len(verify(remove=True, cache=cache)) == 1 and verify(cache=cache) == []
    assert clear(function="gemm", arch="gfx942", cache=cache).entries == 1
    assert prune(max_age=3600, cache=cache).entries == 1
    removed = clear(cache=cache)
    assert removed.entries == 1 and removed.size > 0 and info(cache).entries == 0


def test_prune_to_a_size(cache: DiskCache) -> None:
    for i in range(3):
        cache.put(key_of(i), artifact())
        os.utime(path_of(cache, key_of(i)), (1000 + i, 1000 + i))
    one = path_of(cache, key_of(0)).stat().st_size
    assert prune(cache=cache).entries == 0
    assert prune(max_bytes=one, cache=cache) == (2, 2 * one)
    assert path_of(cache, key_of(2)).exists()


def test_functions_use_the_default_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "c"))
    default_cache().put(K, artifact())
    assert info().root == tmp_path / "c" and len(list(entries())) == 1 and verify() == []
    assert clear().entries == 1 and prune() == (0, 0)


# -- remote store ------------------------------------------------------------------------------------


class MemoryStore:
    data: dict[str, bytes] = {}
    broken = False

    def get(self, key: str) -> bytes | None:
        if self.broken:
            raise ConnectionError("unreachable")
        return self.data.get(key)

    def put(self, key: str, data: bytes) -> None:
        if self.broken:
            raise ConnectionError("unreachable")
        self.data[key] = data

    def contains(self, key: str) -> bool:
        return key in self.data

    def list(self) -> Iterator[str]:
        return iter(self.data)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> str:
    import types

    holder: Any = types.ModuleType("flydsl_test_store")
    holder.Store = MemoryStore
    monkeypatch.setitem(sys.modules, "flydsl_test_store", holder)
    monkeypatch.setattr(MemoryStore, "data", {})
    return "flydsl_test_store:Store"


def test_store_is_written_through_and_read(tmp_path: Path, store: str) -> None:
    DiskCache(Settings(tmp_path / "a", store=store)).put(K, artifact())
    assert list(MemoryStore.data) == [K]
    other = DiskCache(Settings(tmp_path / "b", store=store))
    assert other.get(K) is not None and path_of(other).exists() and other.stats.store_hits == 1
    MemoryStore.data[key_of(1)] = b"rubbish"
    with pytest.warns(CacheWarning, match="store.*damaged"):
        assert other.get(key_of(1)) is None
    MemoryStore.data[key_of(2)] = MemoryStore.data[K]  # the entry of another key
    assert other.get(key_of(2)) is None


def test_broken_store_degrades(tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryStore, "broken", True)
    cache = DiskCache(Settings(tmp_path / "a", store=store))
    with pytest.warns(CacheWarning, match="unreachable"):
        assert cache.get(K) is None
    assert cache.put(K, artifact()) and cache.get(K) is not None
    missing = DiskCache(Settings(tmp_path / "b", store="no_such_module_of_ours:Store"))
    with pytest.warns(CacheWarning, match="no_such_module_of_ours"):
        assert missing.put(K, artifact())
    assert missing.get(K) is not None
