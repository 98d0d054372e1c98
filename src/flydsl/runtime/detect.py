"""Which architecture to compile for when nobody says: the sources in order, each with its reason for silence."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from functools import partial

from flydsl import config
from flydsl.errors import FlyDSLError, TargetDetectionError, TargetError
from flydsl.runtime import probe
from flydsl.runtime.device_runtime import get_device_runtime
from flydsl.target import GPUTarget, make_builtin_target


def _from_override(kind: str, name: str, text: str, tried: list[str], *, lenient: bool = False) -> GPUTarget | None:
    if not text:
        tried.append(f"{name} is not set")
        return None
    try:
        return make_builtin_target(kind, text)
    except TargetError:
        if not lenient:
            raise
        tried.append(f"{name}={text} is no {kind} architecture")
        return None


def overridden_target(kind: str, tried: list[str]) -> GPUTarget | None:
    """The target of a built-in stack that the environment names, or None; what was silent goes to `tried`."""
    env = config.compile
    return (
        _from_override(kind, "FLYDSL_COMPILE_ARCH", env.arch, tried)
        or _from_override(kind, "ARCH", env.arch_alias, tried, lenient=True)
        or _from_override(kind, "FLYDSL_GPU_ARCH", env.gpu_arch, tried)
    )


Source = Callable[[list[str]], GPUTarget | None]
"""Asks one place for the target; if it is silent, the reason is added to the list."""


def detect_target(kind: str, before: tuple[Source, ...] = (), after: tuple[Source, ...] = ()) -> GPUTarget:
    """The target of a GPU stack: environment, sources `before` the device, the current device, sources `after` it.

    Raises `TargetDetectionError` with every reason if all are silent.
    """
    tried: list[str] = []
    target = overridden_target(kind, tried)
    sources: tuple[Source, ...] = (*before, partial(device_target, kind), *after)
    for source in sources:
        if target is None:
            target = source(tried)
    if target is None:
        listing = "\n  ".join(tried)
        raise TargetDetectionError(
            f"cannot tell which {kind} architecture to compile for. Set FLYDSL_COMPILE_ARCH, or pass arch=. Tried:\n"
            f"  {listing}"
        )
    return target


def cpu_target() -> GPUTarget:
    """The cpu stack's target: what the environment names, else `native`."""
    return overridden_target("cpu", []) or make_builtin_target("cpu", "native")


def hsa_override(tried: list[str]) -> GPUTarget | None:
    """rocm: HSA_OVERRIDE_GFX_VERSION."""
    return _from_override("rocm", "HSA_OVERRIDE_GFX_VERSION", config.compile.hsa_override_gfx_version, tried)


def device_target(kind: str, tried: list[str]) -> GPUTarget | None:
    """The target of the current device of a stack, if that stack is present."""
    if not probe.stack_present(kind):
        tried.append(f"current device: no {kind} driver on this machine")
        return None
    try:
        runtime = get_device_runtime()
        if runtime.kind != kind:
            tried.append(f"current device: this process uses the {runtime.kind} runtime")
            return None
        return runtime.device(runtime.current_device_id()).target()
    except FlyDSLError as error:
        tried.append(f"current device: {error}")
        return None


_agents: dict[str, str | None] = {}


def agent_enumerator(tried: list[str]) -> GPUTarget | None:
    """rocm: the first GPU `rocm_agent_enumerator` lists; asked once per process."""
    tool = shutil.which("rocm_agent_enumerator")
    if tool is None:
        tried.append("rocm_agent_enumerator: not on the search path")
        return None
    if tool not in _agents:
        try:
            done = subprocess.run(
                [tool, "-name"], capture_output=True, text=True, timeout=config.compile.rocm_agent_timeout, check=False
            )
            names = (line.strip() for line in done.stdout.splitlines())
            # The CPU is listed too, as number zero.
            _agents[tool] = next((n for n in names if n.startswith("gfx") and n.removeprefix("gfx").strip("0")), None)
        except (OSError, subprocess.TimeoutExpired) as error:
            tried.append(f"rocm_agent_enumerator: {error}")
            return None
    found = _agents[tool]
    if found is None:
        tried.append("rocm_agent_enumerator: lists no GPU")
        return None
    return make_builtin_target("rocm", found)
