"""Whose entries the disk cache uses, and what it does with anything that is not a plain file of theirs.

Where the tests run as root, the other user is real: files are given to them, or made by a process of theirs.
"""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import trusted_files
from flydsl.compiler.backends import _fingerprint
from flydsl.compiler.build.artifact import CompiledArtifact
from flydsl.compiler.cache import DiskCache, Settings, default_cache, disk_cache, entries, stats, verify
from flydsl.compiler.key import product
from flydsl.errors import CacheWarning, ConfigError

K = "ab" * 32
OTHER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")


def artifact(name: str = "gemm") -> CompiledArtifact:
    return CompiledArtifact({"name": name, "binary_ext": "o"}, {"o": b"x" * 100})


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "warned", set())
    monkeypatch.setattr(trusted_files, "_warned", set())
    monkeypatch.setattr(disk_cache, "caches", {})


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that another user can reach."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def entry(root: Path, key: str = K) -> Path:
    return root / "v1" / key[:2] / f"{key}.fly"


def filled(root: Path, key: str = K) -> Path:
    assert DiskCache(root).put(key, artifact())
    return root


def ignored(cache: DiskCache, match: str) -> None:
    """The entry is a miss, with one warning, however often it is asked for."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert cache.get(K) is None
            assert cache.get("cd" * 32) is None
    messages = [str(w.message) for w in caught]
    assert len(messages) == 1 and issubclass(caught[0].category, CacheWarning), messages
    import re

    assert re.search(match, messages[0]), messages[0]


# -- modes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o757, 0o777, 0o775, 0o1777])
@pytest.mark.parametrize("part", ["", "v1", "v1/ab"])
def test_folders_that_others_may_write_to(place: Path, part: str, mode: int) -> None:
    root = filled(place / "cache")
    (root / part).chmod(mode)
    who = "everyone may write to it" if mode & 0o002 else "the group .* may write to it"
    ignored(DiskCache(root), rf"{who}.*chmod")
    stats.warned.clear()
    trusted_files._warned.clear()
    ignored(DiskCache(Settings(None, read_roots=(root,))), rf"{who}.*chmod")
    (root / part).chmod(0o755)
    assert DiskCache(root).get(K) is not None


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_files_that_others_may_write_to(place: Path, mode: int) -> None:
    root = filled(place / "cache")
    entry(root).chmod(mode)
    cache = DiskCache(root)
    ignored(cache, f"{K}.fly of the disk cache is ignored: .* may write to it.*chmod")
    assert [d.path for d in verify(cache=cache)] == [entry(root)] and not list(entries(cache=cache))
    assert cache.put(K, artifact("new"))  # in a folder of our own, so it can be replaced
    assert cache.get(K) is not None and stat.S_IMODE(entry(root).stat().st_mode) & 0o022 == 0


def test_a_loose_umask_makes_no_loose_files(place: Path) -> None:
    before = os.umask(0)
    try:
        root = filled(place / "cache")
    finally:
        os.umask(before)
    assert all(not p.lstat().st_mode & 0o022 for p in (root, *root.rglob("*")))
    assert DiskCache(root).get(K) is not None


def test_parents(place: Path) -> None:
    """A root can be swapped by whoever may write above it, unless the sticky bit forbids it."""
    above = place / "above"
    above.mkdir()
    root = filled(above / "inner" / "cache")
    above.chmod(0o777)
    ignored(DiskCache(root), "everyone may write to .*/above, above it.*chmod o-w")
    above.chmod(0o1777)
    assert DiskCache(root).get(K) is not None


# -- no plain files ----------------------------------------------------------------------------------


def _link(path: Path) -> None:
    path.rename(path.parent / "real")
    path.symlink_to("real")


def _endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _sparse(path: Path) -> None:
    os.truncate(path, 30 << 30)


@pytest.mark.parametrize(
    ("plant", "match"),
    [
        (_link, "it is a link"),
        (_endless, "it is a link"),
        (_fifo, "not a regular file"),
        (_sparse, "32212254720 bytes, more than the limit.*FLYDSL_RUNTIME_CACHE_MAX_ENTRY_BYTES"),
    ],
)
def test_what_is_no_plain_file(place: Path, plant: Callable[[Path], None], match: str) -> None:
    root = filled(place / "cache")
    plant(entry(root))
    cache = DiskCache(root)
    done = threading.Event()

    def look() -> None:
        ignored(cache, match)
        assert [defect.path for defect in verify(cache=cache)] == [entry(root)]
        list(entries(cache=cache))
        assert cache.put(K, artifact("new")) and cache.get(K) is not None
        done.set()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(20)
    assert done.is_set()
    assert stat.S_ISREG(entry(root).lstat().st_mode)


@pytest.mark.parametrize("part", ["v1", "v1/ab", "v1/locks"])
def test_linked_folders(place: Path, part: str) -> None:
    root = filled(place / "cache")
    with DiskCache(root).lock(K):
        pass
    (root / part).rename(place / "elsewhere")
    (root / part).symlink_to(place / "elsewhere")
    cache = DiskCache(root)
    if part == "v1/locks":
        with pytest.warns(CacheWarning, match="it is a link; remove it"), cache.lock(K) as held:
            assert not held
    else:
        ignored(cache, "it is a link; remove it")
        assert not cache.put("ab" + "cd" * 31, artifact())
    assert not [p for p in (place / "elsewhere").rglob("*") if "cd" * 31 in p.name]


def test_a_root_may_be_a_link_of_ours(place: Path) -> None:
    root = filled(place / "cache")
    (place / "link").symlink_to(root)
    assert DiskCache(place / "link").get(K) is not None


def test_a_fifo_as_a_lock_does_not_hang(place: Path) -> None:
    root = filled(place / "cache")
    (root / "v1/locks").mkdir(mode=0o700)
    os.mkfifo(root / "v1/locks" / K, 0o600)
    with pytest.warns(CacheWarning, match="not a regular file"), DiskCache(root).lock(K) as held:
        assert not held


def test_the_size_limit(place: Path) -> None:
    root = filled(place / "cache")
    size = entry(root).stat().st_size
    assert DiskCache(Settings(root, max_entry_bytes=size)).get(K) is not None
    ignored(DiskCache(Settings(root, max_entry_bytes=size - 1)), f"it has {size} bytes, more than the limit")


# -- side files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [_fingerprint.SIDE_FILE, product._SIDE_FILE])
def test_side_files(place: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    root = filled(place / "cache")
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(root))
    load = _fingerprint._load if name == _fingerprint.SIDE_FILE else product._read_side
    side = root / name
    good = '{"tool": "%s"}' if name == _fingerprint.SIDE_FILE else '{"tool": ["stamp", "%s"]}'
    side.write_text(good % ("a" * 64))
    side.chmod(0o644)
    assert load(side)
    side.chmod(0o666)
    with pytest.warns(CacheWarning, match="everyone may write"):
        assert not load(side)
    assert not load(side)  # no second warning
    side.unlink()
    os.mkfifo(side, 0o600)
    assert not load(side)
    side.unlink()
    side.write_text(good % ("a" * 64))
    root.chmod(0o777)
    assert not load(side)  # the cache says why
    trusted_files.write_side_file(root / "more", b"{}")
    assert not (root / "more").exists()


# -- whole programs ----------------------------------------------------------------------------------


@flyc.kernel
def marked_kernel(x: fx.Tensor, mark: fx.Constexpr[int]):
    x[fx.thread_idx.x] = mark


@flyc.jit
def marked(x: fx.Tensor, mark: fx.Constexpr[int]):
    marked_kernel(x, mark).launch(grid=1, block=8)


def test_a_planted_kernel_does_not_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of one kernel under the key of another, as someone who may write there would put it."""
    root = place / "cache"
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(root))
    x = np.zeros(8, np.int32)
    for mark in (1, 666):
        marked(x, mark)
    right, evil = sorted(root.rglob("*.fly"), key=lambda p: p.stat().st_mtime_ns)
    planted = CompiledArtifact.load(evil).to_bytes(key=right.stem)
    # Put there by ourselves it is believed: this is what the checks are for.
    right.write_bytes(planted)
    marked.invalidate()
    marked(x, 1)
    assert (x == 666).all()
    right.chmod(0o666)
    if os.geteuid() == 0:
        right.chmod(0o644)
        os.chown(right, OTHER, OTHER)
    marked.invalidate()
    with pytest.warns(CacheWarning, match="is ignored: .*(belongs to|may write)"):
        marked(x, 1)
    assert (x == 1).all()
    marked.invalidate()
    marked(x, 1)  # replaced by the right one
    assert (x == 1).all() and right.stat().st_uid == os.geteuid()


# -- two users ---------------------------------------------------------------------------------------

PLANT = """
import os, sys
from flydsl.compiler.cache import DiskCache
from flydsl.compiler.build.artifact import CompiledArtifact
os.setgroups([]); os.setgid(65534); os.setuid(65534)
os.umask(0o022)
assert DiskCache(sys.argv[1]).put("ab" * 32, CompiledArtifact({"name": "planted"}, {"o": b"evil"}), overwrite=True)
"""


def plant(root: Path) -> None:
    """Another user puts an entry into a cache."""
    done = subprocess.run([sys.executable, "-c", PLANT, str(root)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@as_root
def test_a_kept_home(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`su` or `sudo -E`: HOME is that of another user, who has a cache there."""
    home = place / "home"
    home.mkdir()
    os.chown(home, OTHER, OTHER)
    plant(home / ".flydsl/cache")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("FLYDSL_RUNTIME_CACHE_DIR")
    cache = default_cache()
    ignored(cache, "default cache directory cannot be used .*belongs to .*FLYDSL_RUNTIME_CACHE_TRUSTED_OWNERS")
    assert cache.root is None


@as_root
def test_a_named_root(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.chmod(0o1777)
    plant(place / "cache")
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(place / "cache"))
    ignored(default_cache(), "FLYDSL_RUNTIME_CACHE_DIR cannot be used .*belongs to ")
    # It is an explicit choice to run what someone else compiled.
    for who in ("65534", "nobody", "@65534"):
        monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_TRUSTED_OWNERS", who)
        found = default_cache().get(K)
        assert found is not None and found.name == "planted"


@as_root
def test_an_open_folder_inside(place: Path) -> None:
    """The folder is put right afterwards; what was planted meanwhile still belongs to someone else."""
    root = filled(place / "cache")
    for part in (root, root / "v1", root / "v1/ab"):
        part.chmod(0o755)
    code = f"import os; os.setgid({OTHER}); os.setuid({OTHER}); open({str(entry(root, 'ab' + 'cd' * 31))!r}, 'wb')"
    (root / "v1/ab").chmod(0o777)
    data = entry(root).read_bytes()
    subprocess.run([sys.executable, "-c", f"{code}.write({data!r})"], check=True)
    ignored(DiskCache(root), "everyone may write")
    (root / "v1/ab").chmod(0o755)
    planted = entry(root, "ab" + "cd" * 31)
    planted.rename(entry(root))
    trusted_files._warned.clear()
    ignored(DiskCache(root), "it belongs to .*, not to you")


@as_root
def test_read_only_roots(place: Path) -> None:
    place.chmod(0o1777)
    plant(place / "shipped")
    ignored(DiskCache(Settings(None, read_roots=(place / "shipped",))), "CACHE_PATH is not used: it belongs to")
    reader = DiskCache(Settings(None, read_roots=(place / "shipped",), trusted_owners=("65534",)))
    assert reader.get(K) is not None


@as_root
def test_entries_and_folders_of_someone_else(place: Path) -> None:
    for part in ("v1", "v1/ab", f"v1/ab/{K}.fly"):
        root = filled(place / "cache")
        os.chown(root / part, OTHER, OTHER)
        trusted_files._warned.clear()
        stats.warned.clear()
        ignored(DiskCache(root), "it belongs to .*, not to you")
        shutil.rmtree(root)


@as_root
def test_a_shared_cache_is_read_by_others(place: Path) -> None:
    """root is trusted by all; another owner has to be named."""
    root = filled(place / "cache")
    for part in (root, root / "v1", root / "v1/ab"):
        part.chmod(0o755)
    code = """
    import os, sys, warnings
    from pathlib import Path
    from flydsl.compiler.cache import DiskCache, Settings
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    warnings.simplefilter("error" if sys.argv[2] == "found" else "ignore")
    cache = DiskCache(Settings(None, read_roots=(Path(sys.argv[1]),), trusted_owners=tuple(sys.argv[3:])))
    assert (cache.get("ab" * 32) is not None) == (sys.argv[2] == "found")
    """

    def read(expected: str, *owners: str) -> None:
        words = [sys.executable, "-c", textwrap.dedent(code), str(root), expected, *owners]
        subprocess.run(words, check=True)

    read("found")
    for part in (root, *root.rglob("*")):
        os.chown(part, 12345, 12345)
    read("refused")
    read("found", "12345")


def test_unknown_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    for word in ("no_such_user_here", "@no_such_group_here"):
        monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_TRUSTED_OWNERS", word)
        with pytest.raises(ConfigError, match="FLYDSL_RUNTIME_CACHE_TRUSTED_OWNERS names the .* not know"):
            default_cache()
