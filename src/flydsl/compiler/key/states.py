"""States of the interpreter and of libraries, which no object shows: asked where code names who tells of them.

The precision of decimal numbers, the locale, how numpy prints and what it does on overflow: code that calls a function
that answers with such a state, or that works by it, is other code in another state.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from flydsl.compiler.key.walk import Walk

Ask: TypeAlias = Callable[[], object]


def _module(name: str) -> Any:
    return sys.modules[name]  # which is there: something of it was met


def _decimal() -> object:
    context = _module("decimal").getcontext()
    traps = tuple(sorted(signal.__name__ for signal, on in context.traps.items() if on))
    return (context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp, traps)


def _locale() -> object:
    locale = _module("locale")
    return locale.setlocale(locale.LC_ALL)


def _levels() -> object:
    root = _module("logging").getLogger()
    known = sorted(root.manager.loggerDict.items())
    return (root.level, root.manager.disable, *((name, getattr(each, "level", None)) for name, each in known))


def _printing() -> object:
    return {name: str(value) for name, value in _module("numpy").get_printoptions().items()}


def _torch(name: str) -> Ask:
    return lambda: str(getattr(_module("torch"), name)())


_TORCH = (
    "get_default_dtype", "get_default_device", "get_float32_matmul_precision", "get_num_threads", "is_grad_enabled",
    "is_inference_mode_enabled", "is_autocast_enabled", "are_deterministic_algorithms_enabled",
)  # fmt: skip
_STATES: dict[str, Ask] = {
    **{f"torch:{name}": _torch(name) for name in _TORCH},
    "torch.random:initial_seed": _torch("initial_seed"),
    "tempfile:gettempdir": lambda: _module("tempfile").gettempdir(),
    **dict.fromkeys(("decimal:Decimal", "decimal:getcontext", "decimal:localcontext"), _decimal),
    **dict.fromkeys(("numpy:geterr", "numpy:errstate"), lambda: dict(_module("numpy").geterr())),
    **dict.fromkeys((f"numpy:{n}" for n in ("get_printoptions", "array2string", "array_str", "array_repr")), _printing),
    "logging:getLogger": _levels,
    "sys:getrecursionlimit": sys.getrecursionlimit,
    "sys:getswitchinterval": sys.getswitchinterval,
    "sys:get_int_max_str_digits": lambda: sys.get_int_max_str_digits(),
}
"""What to ask where something of a library is met, by its module and name."""


def note_state(walk: Walk, module: str, name: str) -> None:
    """Let the state count that something of a library tells or works by."""
    module = module.removeprefix("_")  # versions of Python differ in which module functions in C are of
    ask = _STATES.get(f"{module}:{name}") or (_locale if module == "locale" else None)
    if ask is not None and ask not in walk.asked:
        walk.asked.add(ask)
        if ask is _locale:
            __import__("locale")
        before = ask()
        walk.probes.append(lambda: ask() == before)
        walk.simple(f"state of {module}", "state", before)


def note_logger(walk: Walk, logger: Any) -> object:
    """A logger by its name and by what it lets through."""

    def now() -> tuple[object, ...]:
        return (logger.name, logger.getEffectiveLevel(), logger.disabled, logger.manager.disable)

    before = now()
    walk.probes.append(lambda: now() == before)
    return ("logger", *before)
