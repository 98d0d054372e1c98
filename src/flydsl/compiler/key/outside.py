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
from typing import TypeAlias, cast

from flydsl.compiler.guard import Guard
from flydsl.compiler.key.changes import recording
from flydsl.compiler.key.origin import origin_of

Reads: TypeAlias = Mapping[tuple[str, str], str]
"""By kind (`environment`, `file`, `folder`) and name: a digest of the content, or empty for what is not there."""

_ALL = "*"


class OutsideReads:
    """What one trace has read, in the order it did."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], str] = {}
        self.unrepeatable: str = ""
        """What cannot be asked again to compare, if anything."""
        self.drawn = False
        """Whether random numbers were drawn meanwhile: the next ones are others."""
        self._busy = False

    def heard(self, kind: str, name: str, arguments: tuple[object, ...], options: Mapping[str, object]) -> None:
        """The thread that traces calls something that reads."""
        if self._busy:
            return
        if kind == "file":
            path = arguments[0] if arguments else options.get("file", options.get("path"))
            how = arguments[1] if len(arguments) > 1 else options.get("mode", options.get("flags", "r"))
            if path is not None and not _writes(how):
                self._add("file", path)
        elif kind == "folder":
            path = arguments[0] if arguments else options.get("path")
            self._add("folder", "." if path is None else path)
        else:
            self.unrepeatable = name

    def _add(self, kind: str, name: object) -> None:
        if isinstance(name, int):  # a descriptor, of something that was opened by name
            return
        path = os.path.abspath(os.fsdecode(cast("str | bytes | os.PathLike[str]", name)))
        self._busy = True  # whose file it is, is asked with reads of our own
        try:
            if origin_of(path) != "user" or path.startswith(("/proc/", "/sys/")):
                return
            plain = not os.path.exists(path) or os.path.isfile(path) or os.path.isdir(path)
        finally:
            self._busy = False
        if plain:
            self._note(kind, path)
        else:  # a device or a pipe: what it gives is gone once it is read
            self.unrepeatable = path

    def _note(self, kind: str, name: str) -> None:
        if self._busy or (kind, name) in self.found:
            return
        self._busy = True
        try:
            self.found[kind, name] = _now(kind, name)
        finally:
            self._busy = False

    def variable(self, name: str) -> None:
        """A variable of the environment was read; those of this package are part of every key."""
        if not name.startswith("FLYDSL_"):
            self._note("environment", name)


def _writes(how: object) -> bool:
    """Whether a mode of `open`, or flags of `os.open`, say so."""
    if isinstance(how, str):
        return not how.startswith("r") or "+" in how
    return isinstance(how, int) and bool(how & (os.O_WRONLY | os.O_RDWR))


def _now(kind: str, name: str) -> str:
    """A digest of what is there now."""
    try:
        if kind == "file":
            with open(name, "rb") as file:
                return hashlib.sha256(file.read()).hexdigest()
        if kind == "folder":
            return _digest(sorted(os.listdir(name)))
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
        if recording.current is not None and isinstance(key, str):
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


_READERS = (
    *(("file", module, "open") for module in ("builtins", "io", "os")),
    *(("folder", "os", name) for name in ("listdir", "scandir")),
    *(("answer", "os", name) for name in ("system", "popen", "posix_spawn")),
    ("answer", "subprocess", "Popen.__init__"),
    ("answer", "socket", "socket.__init__"),
)
"""What reads a file, a folder, or an answer that may be another one the next time: a module and a name in it.

They are replaced while something is traced, rather than heard of by an audit hook: that would stay in the process, and
be called for every `id()`.
"""


def _watched(kind: str, name: str, original: Callable[..., object]) -> Callable[..., object]:
    def call(*arguments: object, **options: object) -> object:
        record = recording.current
        if record is not None:
            record.heard(kind, name, arguments, options)
        return original(*arguments, **options)

    call.__fly_watched__ = True  # pyright: ignore[reportFunctionMemberAccess]
    return call


def _replace_readers() -> list[tuple[object, str, object]]:
    """Put the watched ones in place; gives what was there."""
    before: list[tuple[object, str, object]] = []
    for kind, module, path in _READERS:
        place: object = import_module(module)
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
            os.environ.__class__ = _RecordedEnvironment
            _before[:] = _replace_readers()
    recording.current, states = record, _random_states()
    try:
        yield record
    finally:
        recording.current, record.drawn = before, _random_states()[: len(states)] != states
        with _guard:
            _depth[0] -= 1
            if _depth[0] == 0:
                os.environ.__class__ = os._Environ  # pyright: ignore[reportPrivateUsage]
                for place, name, original in _before:
                    # Somebody else may have replaced it meanwhile, and puts back what was there himself.
                    if hasattr(getattr(place, name), "__fly_watched__"):
                        setattr(place, name, original)
