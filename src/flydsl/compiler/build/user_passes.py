"""Passes written in Python: `@flyc.ir_pass`, their registry, activation and parameters.

A pass is a function of one input (an xDSL module, LLVM IR, MIR or assembly, by its stage), perhaps a `PassContext`, and
keyword-only parameters, which an activation sets: `"unroll{factor=4}"`.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from flydsl import config
from flydsl.errors import DSLTypeError, DSLValueError

POINTS = ("after-isel", "pre-ra", "pre-ra-sched", "post-ra", "pre-sched2", "pre-emit", "pre-emit2")
_FIXED = ("fly:start", "fly:end", "llvm-dialect", "llvm-pre-opt", "llvm-post-opt", "asm")
_STAGE = re.compile(r"fly:(?:before|after):[A-Za-z0-9_.-]+(?:#\d+)?|mir:(?:" + "|".join(POINTS) + r")")

Parameter = bool | int | float | str


@dataclass(frozen=True, slots=True)
class PassContext:
    """What a pass may depend on beside its input: target, hints and its own parameters."""

    target: Any
    """The `GPUTarget` compiled for."""
    backend: str
    stage: str
    hints: Mapping[str, Any] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True, eq=False)
class IRPass:
    """A registered pass; calling it calls the function.

    >>> @flyc.ir_pass(stage="llvm-post-opt")
    ... def do_nothing(module):
    ...     return module
    >>> isinstance(do_nothing, flyc.IRPass), do_nothing.name
    (True, 'do-nothing')
    """

    name: str
    stage: str
    function: Callable[..., Any]
    version: int | str
    backends: tuple[str, ...] | None
    order: int
    parameters: Mapping[str, inspect.Parameter]
    takes_context: bool

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def with_parameters(self, **values: Parameter) -> Activation:
        """An activation with other values of its parameters, for `ir_passes=[...]`."""
        return Activation(self, _checked(self, values))


@dataclass(frozen=True, slots=True)
class Activation:
    """A pass asked for, with its parameters by name, sorted."""

    what: IRPass
    values: tuple[tuple[str, Parameter], ...] = ()

    def __str__(self) -> str:
        if not self.values:
            return self.what.name
        return f"{self.what.name}{{{','.join(f'{key}={value}' for key, value in self.values)}}}"

    def applies(self, stage: str, backend: str) -> bool:
        return self.what.stage == stage and (self.what.backends is None or backend in self.what.backends)

    def run(self, value: object, context: PassContext) -> object:
        """Call the user's function."""
        args = (value, context) if self.what.takes_context else (value,)
        return self.what.function(*args, **dict(self.values))


_lock = threading.Lock()
_registry: dict[str, IRPass] = {}
_enabled: dict[str, Activation] = {}


def check_stage(stage: str) -> None:
    if stage not in _FIXED and not _STAGE.fullmatch(stage):
        known = (*_FIXED, "fly:before:<pass>", "fly:after:<pass>", *(f"mir:{point}" for point in POINTS))
        raise DSLValueError(f"unknown stage {stage!r}; there are: {', '.join(known)}")


def ir_pass(
    function: Callable[..., object] | None = None,
    /,
    *,
    stage: str = "",
    name: str | None = None,
    version: int | str = 0,
    backends: Iterable[str] | None = None,
    order: int = 0,
) -> Callable[[Callable[..., object]], IRPass]:
    """Register a function as a pass. It runs where it is activated: `ir_passes=[...]`, a hint, or `enable_pass`.

    `backends` limits it to some stacks; at one stage passes run by `order`, then in the order of activation.

    >>> @flyc.ir_pass(stage="llvm-post-opt")
    ... def look_again(module):
    ...     return module
    >>> look_again.name, look_again.stage
    ('look-again', 'llvm-post-opt')
    """
    if function is not None:
        raise DSLTypeError("@flyc.ir_pass needs a stage: @flyc.ir_pass(stage='llvm-post-opt')")
    check_stage(stage)
    wanted = None if backends is None else tuple(backends)

    def register(fn: Callable[..., object]) -> IRPass:
        if not inspect.isfunction(fn):
            raise DSLTypeError(f"@flyc.ir_pass decorates a Python function, got {fn!r}")
        parameters = inspect.signature(fn).parameters.values()
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        keywords = {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}
        if not 1 <= len(positional) <= 2:
            raise DSLTypeError(
                f"pass '{fn.__name__}' must take its input and perhaps a context, then keyword-only parameters; "
                f"it takes {len(positional)} positional ones"
            )
        made = IRPass(
            name or fn.__name__.replace("_", "-"), stage, fn, version, wanted, order, keywords, len(positional) == 2
        )
        with _lock:
            known = _registry.get(made.name)
            same = known is not None and known.function.__qualname__ == fn.__qualname__
            if known is not None and not (same and known.function.__module__ == fn.__module__):
                raise DSLValueError(
                    f"a pass '{made.name}' is registered already, by {known.function.__module__}."
                    f"{known.function.__qualname__}; give this one another name"
                )
            _registry[made.name] = made
        return made

    return register


def registered() -> dict[str, IRPass]:
    """Every registered pass by name."""
    return dict(_registry)


def enable_pass(what: str | IRPass | Activation) -> None:
    """Activate a pass for every compilation of this process.

    >>> @flyc.ir_pass(stage="llvm-post-opt")
    ... def on_and_off(module):
    ...     return module
    >>> flyc.enable_pass("on-and-off")
    >>> flyc.disable_pass("on-and-off")
    """
    activation = activate(what)
    with _lock:
        _enabled[activation.what.name] = activation
    config.settings_changed()


def disable_pass(name: str) -> None:
    """Undo `enable_pass`.

    >>> @flyc.ir_pass(stage="llvm-post-opt")
    ... def off_again(module):
    ...     return module
    >>> flyc.enable_pass(off_again)
    >>> flyc.disable_pass("off-again")
    """
    with _lock:
        _enabled.pop(name, None)
    config.settings_changed()


def enabled() -> tuple[Activation, ...]:
    return tuple(_enabled.values())


_ACTIVATION = re.compile(r"\s*([A-Za-z0-9_.-]+)\s*(?:\{(.*)\})?\s*", re.DOTALL)


def activate(what: object) -> Activation:
    """A pass object, or `name{key=value,...}`."""
    if isinstance(what, Activation):
        return what
    if isinstance(what, IRPass):
        return Activation(what, _checked(what, {}))
    if not isinstance(what, str):
        raise DSLTypeError(f"ir_passes takes passes or their names, got {what!r}")
    match = _ACTIVATION.fullmatch(what)
    if match is None:
        raise DSLValueError(f"cannot read {what!r}: a pass is activated as name or name{{key=value,key=value}}")
    found = _registry.get(match[1])
    if found is None:
        import difflib

        close = difflib.get_close_matches(match[1], _registry, 1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        raise DSLValueError(
            f"no Python pass '{match[1]}' is registered{hint} Registered: {', '.join(_registry) or '-'}"
        )
    texts: dict[str, object] = {}
    for part in filter(None, (part.strip() for part in re.split(r"[,\s]+", match[2] or ""))):
        key, equals, value = part.partition("=")
        if not equals:
            raise DSLValueError(f"parameter {part!r} of pass '{found.name}' must be key=value")
        texts[key] = _convert(found, key, value)
    return Activation(found, _checked(found, texts))


def split_activations(text: str) -> list[str]:
    """`a,b{x=1,y=2}` as two activations."""
    parts = re.split(r",(?![^{]*\})", text)
    return [part.strip() for part in parts if part.strip()]


def _checked(what: IRPass, values: Mapping[str, Any]) -> tuple[tuple[str, Parameter], ...]:
    for key in values:
        if key not in what.parameters:
            known = ", ".join(what.parameters) or "none"
            raise DSLValueError(f"pass '{what.name}' has no parameter '{key}'; it has: {known}")
    missing = [k for k, p in what.parameters.items() if p.default is p.empty and k not in values]
    if missing:
        raise DSLValueError(f"pass '{what.name}' needs its parameter{'s' * (len(missing) > 1)} {', '.join(missing)}")
    return tuple(sorted(values.items()))


def _convert(what: IRPass, key: str, text: str) -> Parameter:
    """A parameter's text as its default's type, or its annotation's; else what it looks like."""
    parameter = what.parameters.get(key)
    kind: object = None
    if parameter is not None:
        default = parameter.default
        kind = cast("type[object]", type(default)) if default not in (parameter.empty, None) else parameter.annotation
    text = text.strip("\"'")
    name = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
    try:
        if name == "bool" or (name not in ("int", "float", "str") and text.lower() in ("true", "false")):
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        if name == "int":
            return int(text, 0)
        if name == "float":
            return float(text)
        if name != "str" and re.fullmatch(r"-?\d+", text):
            return int(text)
    except (ValueError, KeyError):
        raise DSLValueError(f"parameter '{key}' of pass '{what.name}' must be {name}, got {text!r}") from None
    return text
