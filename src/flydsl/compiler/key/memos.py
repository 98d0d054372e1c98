"""Results that `functools.lru_cache` keeps: a trace that is given one does not read what it was made from.

`def flag(): return os.environ.get("FLAG")` behind `lru_cache` reads the variable once, maybe long before any trace. So
a result that was there when a trace began, of a function that then gave the trace one of its results, counts as read
from outside: under the function's name and its arguments, with a digest of the result. Results of classes that cannot
be pickled count by their class.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from flydsl.compiler.key.cache_key import qualified_name

KIND = "memo"

_known: dict[str, weakref.WeakSet[Any]] = {}
"""Those that some key has met, by name."""
_places: weakref.WeakKeyDictionary[Any, dict[object, object]] = weakref.WeakKeyDictionary()
"""The memos themselves, which stay the same dictionaries."""


class _Found(NamedTuple):
    """Where results of a name were found last. More than one are those for arguments that cannot be told apart."""

    memo: weakref.ref[Any]
    keys: list[object]
    results: list[object]
    told: str
    fixed: bool
    """Whether what the results hold cannot change."""


_found: dict[str, _Found] = {}


def note(memo: Any) -> None:
    """A function with a memo was met: what traces are given by it counts from now on.

    Those of this package are left out: they read nothing but their arguments, and calls of the library fill them.
    """
    if str(getattr(memo, "__module__", "")).partition(".")[0] == __name__.partition(".")[0]:
        return
    _known.setdefault(_name(memo), weakref.WeakSet()).add(memo)


def _name(memo: Any) -> str:
    return f"{getattr(memo, '__module__', '')}:{getattr(memo, '__qualname__', '')}"


def _entries(memo: Any) -> dict[object, object]:
    """The memo itself, by the arguments as it keeps them."""
    known = _places.get(memo)
    if known is not None:
        return known
    size: int = memo.cache_info().currsize
    own: object = getattr(memo, "__dict__", None)
    links = "functools._lru_list_elem"
    referents: list[Any] = gc.get_referents(memo)
    found = [cast("dict[object, object]", each) for each in referents if type(each) is dict and each is not own]
    held = [each for each in found if len(each) == size]
    if memo.cache_parameters()["maxsize"] is not None:  # results that are dictionaries are among these
        held = [each for each in held if all(qualified_name(type(link)) == links for link in _values(each))]
    if size and held:
        _places[memo] = held[0]
    return held[0] if size and held else {}


def _values(held: dict[object, object]) -> list[object]:
    return list(held.values())


def _given(memo: Any, key: object) -> Any:
    """The result for a key that the memo has."""
    if not isinstance(key, tuple):
        return memo(key)
    parts = cast("tuple[Any, ...]", key)
    typed: bool = memo.cache_parameters()["typed"]  # then the classes of all arguments stand behind them
    at = next((i for i, part in enumerate(parts) if part is _MARK), None)
    if at is None:
        return memo(*parts[: len(parts) // 2 if typed else None])
    named = (len(parts) - 1 - 2 * at) // 3 if typed else (len(parts) - 1 - at) // 2
    names = parts[at + 1 : at + 1 + 2 * named]
    return memo(*parts[:at], **dict(zip(names[::2], names[1::2], strict=True)))


def _mark() -> object:
    """What stands in front of the keywords of a key."""

    def probe(**given: object) -> None: ...

    memo = functools.lru_cache(maxsize=None)(probe)
    memo(a=1)
    (key,) = _entries(memo)
    return cast("tuple[object, ...]", key)[0]


_MARK = _mark()


def _digest(value: object) -> str:
    import pickle  # programs without memos do not load it

    kind = qualified_name(type(value))
    try:
        data = pickle.dumps(value, 4)
    except Exception:  # noqa: BLE001 - a class may refuse in any way
        parts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
        data = " ".join((kind, *map(_digest, parts))).encode()
    return hashlib.sha256(data).hexdigest()


def _note(name: str, memo: Any, keys: list[object]) -> str:
    """Remember where results are; gives their digest."""
    results = [_given(memo, key) for key in keys]
    told = "+".join(sorted(map(_digest, results)))
    fixed = all(type(result) in _FIXED for result in results)
    _found[name] = _Found(weakref.ref(memo), keys, results, told, fixed)
    return told


_FIXED = frozenset((type(None), bool, int, float, complex, str, bytes))


class Memos:
    """What memos held when a trace began."""

    def __init__(self) -> None:
        alive = [memo for memos in list(_known.values()) for memo in list(memos)]
        self._before = [(memo, memo.cache_info().hits, list(_entries(memo))) for memo in alive]

    def given(self) -> Iterator[tuple[str, str]]:
        """Names and digests of results that the trace may have been given."""
        for memo, hits, keys in self._before:
            entries = _entries(memo) if memo.cache_info().hits != hits else {}
            for name, found in _by_name(memo, [key for key in keys if key in entries]).items():
                yield name, _note(name, memo, found)


def _by_name(memo: Any, keys: list[object]) -> dict[str, list[object]]:
    made: dict[str, list[object]] = {}
    for key in keys:
        made.setdefault(f"{_name(memo)} {_digest(_plain(key))}", []).append(key)
    return made


def _plain(key: object) -> object:
    """A key without the mark in front of keywords, which no two processes share."""
    parts = cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)
    return tuple("=" if part is _MARK else part for part in parts)


def held_now(name: str) -> str:
    """The digest of the results that are kept under a name, or nothing."""
    last = _found.get(name)
    memo = None if last is None else last.memo()
    if last is not None and memo is not None:
        entries = _entries(memo)
        if all(key in entries for key in last.keys):
            if last.fixed and all(_given(memo, key) is was for key, was in zip(last.keys, last.results, strict=True)):
                return last.told
            return _note(name, memo, last.keys)
    _found.pop(name, None)
    function, _, arguments = name.rpartition(" ")
    for memo in list(_known.get(function, ())):
        keys = [key for key in _entries(memo) if _digest(_plain(key)) == arguments]
        if keys:
            return _note(name, memo, keys)
    return ""


__all__ = ["KIND", "Memos", "held_now", "note"]
