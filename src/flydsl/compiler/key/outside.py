"""What a trace reads from outside the program: variables of the environment, files, folders.

Only tracing tells which these are, so they are no part of the key itself: the compiled code carries their names with
digests of what they held, and is used while they hold the same.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias, cast

from flydsl.compiler.guard import Guard
from flydsl.compiler.key.changes import recording
from flydsl.compiler.key.memos import KIND, Memos, held_now
from flydsl.compiler.key.origin import origin_of

Reads: TypeAlias = Mapping[tuple[str, str], str]
"""By kind (`environment`, `file`, `folder`, `memo` or one of `_ASKED`) and name: a digest of what is there, or
nothing."""

_ALL = "*"


def _facts(path: str, *, follow: bool = True) -> tuple[int, ...]:
    """What `stat` tells but for the time of the last read."""
    about = os.stat(path, follow_symlinks=follow)
    return (*about[:7], about.st_mtime_ns, about.st_ctime_ns)


def _entries(path: str) -> list[tuple[object, ...]]:
    """A folder with what its entries are asked for."""
    return sorted((entry.name, *_facts(entry.path, follow=False)) for entry in os.scandir(path))


_ASKED: dict[str, Callable[[str], object]] = {
    **{f"os.path.{n}": getattr(os.path, n) for n in ("exists", "lexists", "isfile", "isdir", "islink", "realpath")},
    **{f"os.path.{n}": getattr(os.path, n) for n in ("getsize", "getmtime", "getctime", "ismount")},
    "os.stat": _facts,
    "os.lstat": lambda path: _facts(path, follow=False),
    "os.readlink": os.readlink,
    "os.getcwd": lambda path: os.getcwd(),
    "entries": _entries,
}
"""Questions about a path that can be asked again, by kind."""


class OutsideReads:
    """What one trace has read, in the order it did."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], str] = {}
        self.unrepeatable: str = ""
        """What cannot be asked again to compare, if anything."""
        self.drawn = False
        """Whether random numbers were drawn meanwhile: the next ones are others."""
        self._busy = False
        self._memos = Memos()

    def look_at_memos(self) -> None:
        """Let results count that were kept before."""
        self.found.update(((KIND, name), told) for name, told in self._memos.given())

    def heard(self, kind: str, name: str, arguments: tuple[object, ...], options: Mapping[str, object]) -> None:
        """The thread that traces calls something that reads."""
        if self._busy:
            return
        self._busy = True  # what follows reads as well
        try:
            self._heard(kind, name, arguments, options)
        finally:
            self._busy = False

    def _heard(self, kind: str, name: str, arguments: tuple[object, ...], options: Mapping[str, object]) -> None:
        given = dict(enumerate(arguments))
        if kind == "file":
            path = given.get(0, options.get("file", options.get("path")))
            how = given.get(1, options.get("mode", options.get("flags", "r")))
            if path is not None and not _writes(how):
                self._add("file", path)
        elif kind == "folder":
            path = given.get(0, options.get("path"))
            # Who is given the entries themselves may ask them more than their names.
            asked = name == "os.scandir" and origin_of(sys._getframe(3).f_code.co_filename) == "user"  # pyright: ignore[reportPrivateUsage]
            self._add("entries" if asked else "folder", "." if path is None else path)
        elif kind == "loader":
            self._add("file", given.get(1) if name.endswith("get_data") else getattr(given.get(0), "path", None))
        elif kind == "seed":
            if given.get(1 if name.endswith("seed") else 0, options.get("a", options.get("seed"))) is None:
                self.unrepeatable = name  # it is taken from the clock or the system
        elif kind == "os.getcwd":
            self._note(kind, "")
        elif kind in _ASKED:
            if options.get("dir_fd") is not None:
                self.unrepeatable = name
            follows = options.get("follow_symlinks", True)
            self._add(kind if follows or kind != "os.stat" else "os.lstat", given.get(0, options.get("path")))
        else:
            self.unrepeatable = name

    def _add(self, kind: str, name: object) -> None:
        if name is None or isinstance(name, int):  # a descriptor, of something that was opened by name
            return
        text = os.fsdecode(cast("str | bytes | os.PathLike[str]", name))
        if not os.path.isabs(text):
            self._note("os.getcwd", "")
        path = os.path.abspath(text)
        if origin_of(path) != "user" or path.startswith(("/proc/", "/sys/")):
            return
        if kind not in ("file", "folder") or not os.path.exists(path) or os.path.isfile(path) or os.path.isdir(path):
            self._note(kind, path)
        else:  # a device or a pipe: what it gives is gone once it is read
            self.unrepeatable = path

    def _note(self, kind: str, name: str) -> None:
        if (kind, name) not in self.found:
            self.found[kind, name] = _now(kind, name)

    @contextmanager
    def within(self, asked: bool) -> Generator[None]:
        """A block that answers what is on record: what is read for it does not count by itself."""
        busy, self._busy = self._busy, self._busy or asked
        try:
            yield
        finally:
            self._busy = busy

    def variable(self, key: str | bytes) -> None:
        """A variable of the environment was read; those of this package are part of every key."""
        name = os.fsdecode(key)
        if not self._busy and not name.startswith("FLYDSL_"):
            self._busy = True
            try:
                self._note("environment", name)
            finally:
                self._busy = False


def _writes(how: object) -> bool:
    """Whether a mode of `open`, or flags of `os.open`, say that nothing is read."""
    if isinstance(how, str):
        return "r" not in how and "+" not in how
    return isinstance(how, int) and how & (os.O_WRONLY | os.O_RDWR) == os.O_WRONLY


def _now(kind: str, name: str) -> str:
    """A digest of what is there now."""
    if kind == KIND:
        return held_now(name)
    try:
        if kind == "file":
            with open(name, "rb") as file:
                return hashlib.sha256(file.read()).hexdigest()
        if kind == "folder":
            return _digest(sorted(os.listdir(name)))
        if kind in _ASKED:
            return _digest([repr(_ASKED[kind](name))])
    except OSError:
        return ""
    if name == _ALL:
        return _digest(f"{k}={v}" for k, v in sorted(os.environ.items()) if not k.startswith("FLYDSL_"))
    value = os.environ.get(name)
    return "" if value is None else _digest([value])


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def read_again(names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """What is there now under the names of a record."""
    return {(kind, name): _now(kind, name) for kind, name in sorted(names)}


class _RecordedEnvironment(os._Environ[str]):  # pyright: ignore[reportPrivateUsage]
    """`os.environ` while something is traced: it tells the record of its thread what is read."""

    def __getitem__(self, key: str) -> str:
        if recording.current is not None:
            recording.current.variable(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        if recording.current is not None and isinstance(key, str | bytes):
            recording.current.variable(key)
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        if recording.current is not None:
            recording.current.variable(_ALL)
        return super().__iter__()

    def __len__(self) -> int:
        if recording.current is not None:
            recording.current.variable(_ALL)
        return super().__len__()


_ENVIRONMENTS: tuple[Any, ...] = tuple(getattr(os, name) for name in ("environ", "environb") if hasattr(os, name))
_READERS = (
    *(("file", module, "open") for module in ("builtins", "io", "os")),
    *(("file", module, "open_code") for module in ("io", "_io")),
    *(("file", module, name) for module, name in (("tokenize", "_builtin_open"), ("tarfile", "bltn_open"))),
    ("file", "numpy.lib._datasource", "open"),
    *(("loader", "importlib._bootstrap_external", name) for name in ("FileLoader.get_data", "SourceLoader.get_code")),
    *(("folder", "os", name) for name in ("listdir", "scandir")),
    *((kind, *kind.rsplit(".", 1)) for kind in _ASKED if "." in kind),
    *((f"os.path.{name}", "pathlib", f"Path.{method}") for name, method in (
        ("exists", "exists"), ("isfile", "is_file"), ("isdir", "is_dir"), ("islink", "is_symlink")
    )),
    ("os.stat", "os", "access"),
    *(("answer", "os", name) for name in ("system", "popen", "posix_spawn", "statvfs")),
    *(("seed", module, name) for module, name in (("random", "Random.seed"), ("numpy.random", "default_rng"))),
    ("answer", "threading", "Thread.start"),  # what it reads is not recorded
    ("answer", "subprocess", "Popen.__init__"),
    ("answer", "socket", "socket.__init__"),
)  # fmt: skip
"""What reads a file, a folder, or an answer that may be another one the next time: a module and a name in it.

They are replaced while something is traced, rather than heard of by an audit hook: that would stay in the process, and
be called for every `id()`. Modules that load meanwhile take the replaced ones.
"""


def _watched(kind: str, name: str, original: Callable[..., object]) -> Callable[..., object]:
    asked = kind in _ASKED

    def call(*arguments: object, **options: object) -> object:
        record = recording.current
        if record is None:
            return original(*arguments, **options)
        record.heard(kind, name, arguments, options)
        with record.within(asked):
            return original(*arguments, **options)

    call.__fly_watched__ = True  # pyright: ignore[reportFunctionMemberAccess]
    return call


WATCHED = frozenset(f"{module}.{path}" for _, module, path in _READERS)
"""The names by which they are found replaced; one that is held under another name reads unseen."""


def _replace_readers() -> list[tuple[object, str, object]]:
    """Put the watched ones in place; gives what was there."""
    before: list[tuple[object, str, object]] = []
    for kind, module, path in _READERS:
        place: object = import_module(module) if kind == "answer" else sys.modules.get(module)
        *outer, name = path.split(".")
        for each in outer:
            place = getattr(place, each, None)
        original = getattr(place, name, None)
        if callable(original):
            before.append((place, name, original))
            setattr(place, name, _watched(kind, f"{module}.{path}", original))
    return before


def _random_states() -> list[object]:
    """Where the generators of random numbers are that everybody shares, by whatever way a trace reaches them."""
    found: list[object] = []
    if (python := sys.modules.get("random")) is not None:
        found.append(python.getstate())
    if (numpy := sys.modules.get("numpy.random")) is not None:
        state = numpy.get_state(legacy=False)
        found.append(repr({**state, "state": {name: bytes(part) for name, part in state["state"].items()}}))
    return found


_guard = Guard()
_depth = [0]
_before: list[tuple[object, str, object]] = []


@contextmanager
def outside_reads() -> Generator[OutsideReads]:
    """A block in which what the thread reads from outside is recorded."""
    record, before = OutsideReads(), recording.current
    with _guard:
        _depth[0] += 1
        if _depth[0] == 1:
            for each in _ENVIRONMENTS:
                each.__class__ = _RecordedEnvironment
            _before[:] = _replace_readers()
    recording.current, states = record, _random_states()
    try:
        yield record
    finally:
        record.look_at_memos()
        recording.current, record.drawn = before, _random_states()[: len(states)] != states
        with _guard:
            _depth[0] -= 1
            if _depth[0] == 0:
                for each in _ENVIRONMENTS:
                    each.__class__ = os._Environ  # pyright: ignore[reportPrivateUsage]
                for place, name, original in _before:
                    # Somebody else may have replaced it meanwhile, and puts back what was there himself.
                    if hasattr(getattr(place, name), "__fly_watched__"):
                        setattr(place, name, original)
