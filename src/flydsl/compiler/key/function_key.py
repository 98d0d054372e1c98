"""`FunctionKey`: what a function contributes to a cache key, and the check whether it still holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from operator import is_
from types import CellType
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, cast

from flydsl import config
from flydsl.compiler.guard import Guard
from flydsl.compiler.key.cache_key import digest, qualified_name
from flydsl.compiler.key.changes import changes
from flydsl.compiler.key.component import MISSING, Component
from flydsl.compiler.key.memos import KIND as MEMO
from flydsl.compiler.key.outside import Reads, read_again
from flydsl.errors import DSLRuntimeError, UntrackedGlobalWarning

if TYPE_CHECKING:
    from flydsl.compiler.key.walk import Walk

_Get: TypeAlias = Callable[[str, object], object]
Names: TypeAlias = tuple[_Get, str, object]
"""How a namespace is asked, for what, and what it said."""


class Problem(NamedTuple):
    """Something that code reads and no key can hold."""

    label: str
    kind: type | None
    """None for a call that was made while tracing."""
    why: str


class Walked:
    """What one walk found."""

    def __init__(self, walk: Walk, components: tuple[Component, ...]):
        self.components = components
        # Only a name could hold such a character: what follows it has none.
        self.digest = digest(["\0".join(component) for component in components])
        self.seen, self.alive = walk.seen, walk.alive
        self.read, self.computed = frozenset(walk.read), walk.computed
        self.names = list(walk.names.values())
        self.groups = _grouped(self.names)
        self.cells = walk.cells
        self.functions, self.options = walk.functions, walk.options
        self.probes = walk.probes
        self.values = walk.values
        """By label: the image of a value, and how it reads."""
        self.problems = tuple(walk.problems)
        self.positions = walk.positions
        self.source_missing = not walk.source
        self._options_seen = changes.count

    def unchanged(self) -> bool:
        """Whether everything it found is the same object with the same content: comparisons, no walk."""
        for get, names, values in self.groups:
            if not all(map(is_, map(get, names, _MISSING), values)):
                return False
        for cell, expected in self.cells:
            try:
                if cell.cell_contents is not expected:
                    return False
            except ValueError:
                if expected is not MISSING:
                    return False
        for fn, code, defaults, keywords in self.functions:
            if fn.__code__ is not code or fn.__defaults__ is not defaults or fn.__kwdefaults__ is not keywords:
                return False
        for probe in self.probes:
            if not probe():
                return False
        return True

    def same_options(self) -> bool:
        """Whether the decorated functions among it have the options they had."""
        return all(getattr(obj, "__fly_options__", None) == options for obj, options in self.options)

    def told(self) -> bool:
        """The same, asked only where some function's options have changed."""
        if changes.count != self._options_seen:
            count = changes.count
            if not self.same_options():
                return False
            self._options_seen = count
        return True

    def holds(self) -> bool:
        """Both: whether what it says of values still holds."""
        return self.told() and self.unchanged()


_MISSING = repeat(MISSING)


def _grouped(names: Iterable[Names]) -> list[tuple[_Get, tuple[str, ...], tuple[object, ...]]]:
    """Names by the namespace they are asked of."""
    found: dict[int, tuple[_Get, list[str], list[object]]] = {}
    for get, name, value in names:
        group = found.setdefault(id(getattr(get, "__self__", get)), (get, [], []))
        group[1].append(name)
        group[2].append(value)
    return [(get, tuple(asked), tuple(values)) for get, asked, values in found.values()]


class WalkAgain(Protocol):
    """Walks from a function and more values; from those alone where a walk of the function is known."""

    def __call__(self, values: Mapping[str, object], known: Walked | None) -> Walked: ...


class FunctionKey:
    """The part of a cache key that a function contributes, and the check whether it still holds."""

    __slots__ = ("_unrepeatable", "_walk", "digest", "generation", "now", "outside", "seen")

    def __init__(self, walk: WalkAgain):
        self._walk = walk
        self.now = walk({}, None)
        self.outside: dict[tuple[str, str], str] = {}
        """What traces of the function have read from outside the program."""
        self.digest = self.now.digest
        """64 hex digits over all components."""
        self.generation = 0
        """Raised when what a warm call compares is not the same objects any more."""
        self.seen = changes.count
        self._unrepeatable: tuple[Problem, ...] = ()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What its code reads and no key can hold: such code is traced at every call."""
        return self.now.problems + self._unrepeatable

    @property
    def components(self) -> tuple[Component, ...]:
        return self.now.components

    @property
    def source_missing(self) -> bool:
        """Whether the source text was not to be found, so that compiled code stands for it."""
        return self.now.source_missing

    def __repr__(self) -> str:
        return f"<FunctionKey {self.digest[:12]}: {len(self.components)} components>"

    # -- does it hold ------------------------------------------------------------------------------------

    def unchanged(self) -> bool:
        """Whether everything is the same object with the same content: comparisons, no walk."""
        return self.now.unchanged() and self.told()

    def told(self, *, filled: bool = False) -> bool:
        """Whether options and what was read from outside are as they were: all that is no object in memory.

        With `filled` a memo that was empty may have a result now.
        """
        if changes.count != self.seen:
            count = changes.count
            if not self.now.same_options():
                return False
            self.seen = count
        known = self.outside
        if filled:
            known = {read: held for read, held in known.items() if held or read[0] != MEMO}
        return not known or read_again(known) == known

    def check(self, *, environment: bool = True) -> bool:
        """Whether the key still holds; False: compute it again.

        A changed value of a global variable or closure cell raises `RuntimeError`, unless
        FLYDSL_COMPILE_GLOBALS=recompile. A changed helper, class or module never does. `environment=False` is for a
        caller that compares `config.environment_snapshot()` itself: the switch for debug info is not looked at.
        """
        if not self.unchanged():
            again = self._walk({}, None)
            if again.digest != self.now.digest:
                self._complain(again)
                return False
            self.now = again
            self.seen = changes.count
            self.note_outside({})
            self.generation += 1
        return not environment or config.keeps_places() == self.now.positions

    def after(self) -> str | None:
        """The digest of what was walked as it is now; None if options or the outside are others."""
        if not self.told(filled=True):
            return None
        return self.now.digest if self.now.unchanged() else self._walk({}, None).digest

    def renewed(self) -> FunctionKey:
        """The same key computed again, with what is known of the outside."""
        made = FunctionKey(self._walk)
        made.note_outside(self.outside)
        made._unrepeatable = self._unrepeatable
        return made

    def _complain(self, again: Walked) -> None:
        """Say which value changed, where that is what changed and nobody asked to go on."""
        if config.compile.globals == "recompile":
            return
        before = {c.name: c for c in self.now.components if c.kind == "value"}
        for component in again.components:
            old = before.get(component.name)
            if old is None or old == component or component.kind not in ("value", "missing"):
                continue
            image, text = self.now.values.get(component.name, (None, ""))
            new_image, new_text = again.values.get(component.name, (None, "nothing"))
            if component.kind == "value" and _blank(image) == _blank(new_image):
                continue  # only functions or classes inside it are others
            place, _, name = component.name.rpartition(".")
            raise DSLRuntimeError(
                f"{name!r} of {place} has changed since a kernel that uses it was compiled: it was {text}, now it is "
                f"{new_text}. Pass it as an argument (Constexpr), or set FLYDSL_COMPILE_GLOBALS=recompile to compile "
                "again for each value"
            )

    def identities(self) -> tuple[list[Names], list[tuple[CellType, object]], bool]:
        """What a warm call compares itself: names and closure cells; and whether `unchanged` must be asked."""
        return self.now.names, self.now.cells, bool(self.now.probes or self.outside)

    # -- what else counts --------------------------------------------------------------------------------

    def note_outside(self, reads: Reads, unrepeatable: str = "", *, traced: bool = False) -> bool:
        """Let more reads from outside count, with what is there now; whether there are more.

        Those of a trace that is just done (`traced`) count with what they gave it: that is what its code is made of.
        """
        more = not self.outside.keys() >= reads.keys()
        if reads or self.outside:
            # A memo that the trace has filled was empty for it.
            memos = {read: held for read, held in self.outside.items() if read[0] == MEMO}
            self.outside = {**read_again({*self.outside, *reads}), **({**memos, **reads} if traced else {})}
            self.digest = digest((self.now.digest, sorted(self.outside.items())))
            self.generation += 1
        if unrepeatable and not self._unrepeatable:
            self._unrepeatable = (Problem(unrepeatable, None, "may answer differently each time"),)
        return more

    def with_values(self, values: Mapping[str, object]) -> Walked:
        """What code may read from values that come with a call."""
        part = self._walk(values, self.now)
        if not part.read <= self.now.read or part.computed != self.now.computed:
            # Methods of the values name attributes that the function's own code does not.
            part = self._walk(values, None)
        return part


def _blank(image: object) -> object:
    """An image without its references."""
    if isinstance(image, tuple):
        parts = cast("tuple[object, ...]", image)
        return ("#",) if len(parts) == 2 and parts[0] == "#" else tuple(_blank(part) for part in parts)
    return (type(image).__name__, image)


_warned: set[str] = set()
_guard = Guard()


def warn_untracked(problems: Iterable[Problem], function: str) -> None:
    """Say once what keeps the code of a function from being kept."""
    for label, kind, why in problems:
        with _guard:
            if label in _warned:
                continue
            _warned.add(label)
        reason = f" ({why})" if why else ""
        if kind is None:
            config.warn(
                f"{label} is called while {function} is traced and {why}: the function is traced at every call and not "
                "kept on disk. Call it before, and pass what it gives as an argument",
                UntrackedGlobalWarning,
                stacklevel=3,
            )
            continue
        config.warn(
            f"{label} is a {qualified_name(kind)}, whose content a cache key cannot hold{reason}: {function}, which "
            f"uses it, is traced at every call and not kept on disk. Pass a value made from it as an argument, or give "
            f"{kind.__name__} a method __fly_cache_key__()",
            UntrackedGlobalWarning,
            stacklevel=3,
        )


def changed_components(ours: Iterable[Sequence[str]], theirs: Iterable[Sequence[str]]) -> list[tuple[str, str]]:
    """Name and kind of the components in which two keys differ, those of `ours` first.

    Components are (name, kind, digest), as in `FunctionKey.components` or read back from an artifact's header.
    """
    left = [tuple(component) for component in ours]
    right = [tuple(component) for component in theirs]
    differ = [c for c in left if c not in right] + [c for c in right if c not in left]
    return list(dict.fromkeys((c[0], c[1]) for c in differ))
