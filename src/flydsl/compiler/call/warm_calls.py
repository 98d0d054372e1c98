"""The warm calls of one function: the one that served last, and those for arguments of other kinds.

What is called once is seldom called again, so a warm call is made when arguments come for the second time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, cast

from ... import config
from ...expr.gpu import Stream
from ...expr.numeric import Numeric
from .arguments import StreamArgument
from .call_plan import CallPlan, plan_of
from .tensor_argument import TensorArgument
from .warm import Served, is_served_warm, make_warm

if TYPE_CHECKING:
    from ..frontend.signature import Parameter, Signature
    from ..key.function_key import FunctionKey
    from .bind import BoundCall
    from .dispatch import LoadedFunction


class Repeated(Protocol):
    """What was made of a warm call and is used without it."""

    def forget(self) -> None: ...


_MOST = 8
"""Warm calls that are tried for arguments of one kind."""


class Warm:
    """One plan in two renderings. The native one is quicker and more particular: it knows dtypes by identity."""

    def __init__(
        self,
        plan: CallPlan,
        loaded: LoadedFunction,
        signature: Signature,
        function: FunctionKey | None,
        counts: list[int] | None,
    ):
        self.loaded, self.function, self.counts = loaded, function, counts
        self._generation = 0 if function is None else function.generation
        self.environment = config.environment_version()
        self.plan, self._signature = plan, signature
        self.quick = make_warm(plan, loaded, signature, function, native=True, counts=counts)
        self.plain: Served | None = None

    def is_current(self, function: FunctionKey | None) -> bool:
        """Whether what it depends on is as it was."""
        same = self.function is function and (function is None or function.generation == self._generation)
        same = same and (self.plan.told is None or self.plan.told.holds())
        return same and self.environment == config.environment_version()

    def takes(self, call: BoundCall) -> bool:
        """Whether it is for such arguments: constants that are known by identity may have equals."""
        return self.plan.refusal(call) is None

    def widen(self) -> None:
        """The native reader has refused arguments of its signature."""
        if self.plain is None:
            self.plain = make_warm(
                self.plan, self.loaded, self._signature, self.function, native=False, counts=self.counts
            )


class WarmCalls:
    """Found by the kinds of the arguments, which costs less than looking at them."""

    def __init__(self, signature: Signature, counts: list[int] | None = None):
        self._signature, self._counts = signature, counts
        self._by_kind: dict[Hashable, tuple[Warm, ...]] = {}
        """The one that served last first. Replaced, never changed: threads call at any time."""
        self._by_key: dict[Hashable, Warm] = {}
        self._met: set[Hashable] = set()
        self._repeated: weakref.WeakSet[Repeated] = weakref.WeakSet()

    @cached_property
    def _kind(self) -> Callable[..., Hashable]:
        return _kind_function(self._signature)

    def serve(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Served | None:
        """Launch by the warm call that takes these arguments, which is told; None if there is none."""
        try:
            kind = self._kind(*args, **kwargs)
            found = self._by_kind.get(kind, ())
        except (TypeError, ValueError):
            return None  # arguments that do not fit the parameters, or a constant that has no hash
        for warm in found:
            if warm.quick(*args, **kwargs) or (warm.plain is not None and warm.plain(*args, **kwargs)):
                self._put_first(kind, warm)
                return warm.quick
        return None

    def _put_first(self, kind: Hashable, warm: Warm, instead: Warm | None = None) -> None:
        found = self._by_kind.get(kind, ())
        if not found or found[0] is not warm:
            rest = [each for each in found if each is not warm and each is not instead]
            self._by_kind[kind] = (warm, *rest[: _MOST - 1])

    def learn(
        self,
        key: Hashable,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        call: BoundCall,
        loaded: LoadedFunction,
        function: FunctionKey | None,
    ) -> Served | None:
        """Take note of a call that was served cold; `key` is that of its code."""
        try:
            kind = self._kind(*args, **kwargs)
            whole = (key, kind, _forms(call), id(loaded))
            if whole not in self._met:
                self._met.add(whole)
                return None
        except (TypeError, ValueError):
            return None
        known = self._by_key.get(whole)
        if known is not None and known.is_current(function) and known.takes(call):
            known.widen()
            self._put_first(kind, known)
            return known.quick
        plan = plan_of(call, self._signature.parameters) if is_served_warm(call, loaded) else None
        if plan is None:
            return None
        made = self._by_key[whole] = Warm(plan, loaded, self._signature, function, self._counts)
        self._put_first(kind, made, instead=known)
        return made.quick

    def serving(self, args: tuple[object, ...], call: BoundCall, function: FunctionKey) -> Warm | None:
        """The warm call that takes these arguments, which `call` is of; None if there is none yet."""
        for warm in self._by_kind.get(self._kind(*args), ()):
            if warm.is_current(function) and warm.takes(call):
                return warm
        return None

    def note(self, repeated: Repeated) -> None:
        """Somebody holds a launch that was made of a warm call, and is told when that is dropped."""
        self._repeated.add(repeated)

    def forget(self, loaded: LoadedFunction | None = None) -> None:
        """Drop those of one loaded function, or all."""
        for repeated in list(self._repeated):
            repeated.forget()
        for whole, warm in list(self._by_key.items()):
            if loaded is None or warm.loaded is loaded:
                self._by_key.pop(whole, None)
        for kind, found in list(self._by_kind.items()):
            self._by_kind[kind] = tuple(warm for warm in found if loaded is not None and warm.loaded is not loaded)
        self._met.clear()


def _forms(call: BoundCall) -> Hashable:
    """Of arguments without a part in the kind: classes that are written in a way of their own, and named streams."""
    found: list[type | None] = []
    for name, value in call.given.items():
        argument = call.adapted.get(name)
        named = isinstance(argument, StreamArgument) and argument.stream.raw is not None
        found.append(type(value) if named or type(value).__module__ == "numpy" else None)
    return tuple(found)


def _kind_of(value: object) -> Hashable:
    if isinstance(value, TensorArgument):
        return value.signature(), value.info.owner.__class__
    return type(value)


def _kind_function(signature: Signature) -> Callable[..., Hashable]:
    """A function with the parameters of the jit function that gives what its arguments are like at first sight."""
    scope: dict[str, object] = {"__fly_kind_of": _kind_of}
    parts = [part for parameter in signature.parameters.values() for part in _parts(parameter)]
    exec(f"def __fly_kind({signature.text(scope)}): return ({''.join(p + ', ' for p in parts)})\n", scope)
    return cast("Callable[..., Hashable]", scope["__fly_kind"])


def _parts(parameter: Parameter) -> list[str]:
    name, annotation = parameter.name, parameter.annotation
    if parameter.kind != "value":
        return [f"{name}.__class__", name]
    if annotation is Stream or (isinstance(annotation, type) and issubclass(annotation, Numeric)):
        return []
    return [f"__fly_kind_of({name})"]
