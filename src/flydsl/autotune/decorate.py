"""`@autotune`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .candidate import Hook
from .runner import Bench, Validate
from .search import Select
from .tuner import Autotuner, Default, Strategy

if TYPE_CHECKING:
    from .bench import Method


def autotune(
    configs: object,
    key: Sequence[str] | None = None,
    warmup: int = 5,
    rep: int = 25,
    prune_configs_by: object = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Hook | None = None,
    post_hook: Hook | None = None,
    do_bench: Bench | None = None,
    default: Default | None = None,
    artifact_name: str | None = None,
    validate_hook: Validate | None = None,
    select_config: Select | None = None,
    *,
    check: bool = True,
    method: Method = "auto",
    budget: object = None,
    timeout: float | None = None,
    strategy: Strategy = "auto",
    seed: int = 0,
    shipped: str | None = None,
) -> Callable[[Callable[..., object]], Autotuner]:
    """Decorate a jit function so that its configuration is found by measuring.

    `configs` is a sequence of `Config`, a `Space`, or a function of the call's arguments that gives one. A winner is
    kept for each value of the arguments named in `key` (an array counts by its shape), on disk and for other processes.
    Without one: the artifact of `artifact_name`, else `default(*args)`, else a search; `FLYDSL_AUTOTUNE=1` always
    searches.

    Arrays hold after a search what they held before it. `restore_value` names those put back before each timed run,
    `reset_to_zero` those set to zero before each run and before the call. `pre_hook` and `post_hook` are called around
    each run of a candidate with the arguments by name. What one computes is compared with the default's results, or the
    first candidate's (`check=False` does not); `validate_hook(named)` is a context manager around one untimed
    run. `prune_configs_by`, `select_config` and `do_bench` replace parts of the search.

    `budget` is seconds (`"30s"`) or candidates (`50`); `timeout` is the seconds a candidate may take in a process of
    its own, so that a hang or a crash costs that candidate. `strategy` is `exhaustive`, `sample` or `optuna` for a
    `Space`.

    >>> from flydsl.autotune import Config, autotune
    >>> @flyc.kernel
    ... def scale_kernel(x: fx.Tensor, n: fx.Int32, BLOCK: fx.Constexpr[int]):
    ...     i = fx.block_idx.x * BLOCK + fx.thread_idx.x
    ...     if i < n:
    ...         x[i] = x[i] * 2.0
    >>> @autotune([Config(BLOCK=64), Config(BLOCK=128)], key=["n"], restore_value=["x"], rep=3)
    ... @flyc.jit
    ... def scale(x: fx.Tensor, n: fx.Int32, BLOCK: fx.Constexpr[int]):
    ...     scale_kernel(x, n, BLOCK).launch(grid=fx.ceildiv(n, BLOCK), block=BLOCK)
    >>> x = np.arange(5, dtype="f4")
    >>> scale(x, 5)
    >>> x, len(scale.report().timed)
    (array([0., 2., 4., 6., 8.], dtype=float32), 2)
    """

    def decorate(fn: Callable[..., object]) -> Autotuner:
        return Autotuner(
            fn, configs, key, warmup, rep, prune_configs_by, reset_to_zero, restore_value, pre_hook, post_hook,
            do_bench, default, artifact_name, validate_hook, select_config,
            check=check, method=method, budget=budget, timeout=timeout, strategy=strategy, seed=seed, shipped=shipped,
        )  # fmt: skip

    return decorate
