"""Candidates in the order the model gives them, for GPUs; where it knows nothing, in the order they came."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from ..compiler.active_backend import resolve_backend
from ..compiler.jit_function import JitFunction
from ..errors import FlyDSLError
from .candidate import Config
from .limits import excess, uses_of
from .report import Trial
from .runner import Launcher

HOPELESS = 3.0
"""Candidates that the model gives so many times the best one's time are not run, where there are many."""
MANY = 16
MOST = 64
"""Candidates that are compiled to choose among them without a device."""
_logger = logging.getLogger("flydsl.autotune")


def predicted_ms(
    launcher: Launcher, config: Config, args: Sequence[object], kwargs: Mapping[str, object]
) -> float | None:
    """Milliseconds by the model; None where it has nothing to say: on the cpu stack, of GPUs it does not know."""
    backend = resolve_backend(None)
    function, hints = launcher.function_of(config)
    if backend.target.on_host or not isinstance(function, JitFunction):
        return None
    from .model.predict import predict, total_ms

    try:
        call = function.bind_given(args, {**kwargs, **launcher.kwargs_of(config)})
        artifact = function.artifact(call, backend, hints)
        return total_ms(predict(artifact, list(call.adapted.values())))
    except (FlyDSLError, KeyError, IndexError, ValueError, RecursionError) as error:
        _logger.debug("the model says nothing of %s: %r", config, error)
        return None


def order_by_model(trials: list[Trial]) -> None:
    """Put candidates in the order of their predicted times; cut the hopeless ones where there are many."""
    alive = [t for t in trials if t.status == "left out" and t.predicted is not None]
    if not alive:
        return
    best = min(t.predicted for t in alive if t.predicted is not None)
    if len(alive) > MANY:
        for trial in alive:
            assert trial.predicted is not None
            if trial.predicted > HOPELESS * best:
                trial.status = "cut"
                trial.reason = f"the model gives it {trial.predicted:.4g} ms, and the best one {best:.4g} ms"
    trials.sort(key=lambda t: float("inf") if t.predicted is None else t.predicted)


def best_by_model(
    launcher: Launcher, configs: Sequence[Config], args: Sequence[object], kwargs: Mapping[str, object]
) -> Config:
    """A choice where nothing can be run: the model's, or the first that could be launched."""
    if len(configs) == 1 or not isinstance(launcher.fn, JitFunction):
        return configs[0]
    ranked: list[tuple[float, int]] = []
    for i, config in enumerate(configs[:MOST]):
        try:
            artifact = launcher.artifact(config, args, kwargs)
        except FlyDSLError as error:
            _logger.debug("%s does not compile: %s", config, error)
            continue
        if artifact is not None and not excess(uses_of(artifact)):
            ms = predicted_ms(launcher, config, args, kwargs)
            ranked.append((float("inf") if ms is None else ms, i))
    return configs[min(ranked)[1]] if ranked else configs[0]
