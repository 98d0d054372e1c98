"""Which pass can follow which, and what a whole pipeline has: checked before any of its passes runs.

A module goes down in four stages: `fly` ops (the FLY passes), the conversion of them (CONVERSIONS), the upper dialects
of MLIR with kernels as functions of `gpu`, and the way to `llvm` (LOWERINGS). A pass finds nothing to work on, or the
wrong thing, in a module that is further down than its stage. Clean-up passes belong to none.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from ..errors import DSLValueError
from .pipeline import PassSpec

FLY = (
    "fly-rewrite-func-signature",
    "fly-canonicalize",
    "fly-layout-lowering",
    "fly-int-swizzle-simplify",
    "canonicalize",
    "fly-convert-atom-call-to-ssa-form",
    "fly-promote-regmem-to-vectorssa",
)
"""The usual passes up to the conversion, in their order."""
CONVERSIONS = ("convert-fly-to-rocdl", "convert-fly-to-nvvm", "convert-fly-to-cpu")
UPPER = ("fly-split-carried-vectors", "fly-merge-guards", "fly-nvgpu-insert-fences", "convert-rocdl-fastmath-ops")
DEVICE = ("convert-gpu-to-rocdl", "convert-gpu-to-nvvm")
RECONCILE = "reconcile-unrealized-casts"
CONVERTS = {
    "convert-scf-to-cf": "scf",
    **dict.fromkeys(DEVICE, "kernels"),
    "fly-rocdl-cluster-attr": "clusters",
    "convert-cf-to-llvm": "cf",
    "gpu-to-llvm": "launches",
    "convert-vector-to-llvm": "vector",
    "convert-arith-to-llvm": "arith",
    "convert-math-to-llvm": "math",
    "convert-func-to-llvm": "func",
    RECONCILE: "casts",
}
"""What is gone behind a pass on the way to `llvm`; said here, since most compilations load none of these passes."""
LOWERINGS = frozenset(CONVERTS) - {RECONCILE}
"""Passes behind which the module is, in part, of the `llvm` dialect."""
BINARY = "gpu-module-to-binary"

_STAGES = {
    **dict.fromkeys((*FLY[:4], *FLY[5:], "fly-expand-prints", "fly-rocdl-expand-ops", "fly-to-llvm"), 0),
    **dict.fromkeys(CONVERSIONS, 1),
    **dict.fromkeys(UPPER, 2),
    **dict.fromkeys(LOWERINGS, 3),
    BINARY: 4,
}
_AFTER = {
    "fly-canonicalize": ("fly-rewrite-func-signature",),
    "fly-layout-lowering": ("fly-rewrite-func-signature",),
    "fly-int-swizzle-simplify": ("fly-layout-lowering",),
    "fly-convert-atom-call-to-ssa-form": ("fly-layout-lowering",),
    "fly-promote-regmem-to-vectorssa": ("fly-convert-atom-call-to-ssa-form",),
    **dict.fromkeys(CONVERSIONS, ("fly-layout-lowering",)),
    **dict.fromkeys(UPPER, CONVERSIONS),
    "convert-scf-to-cf": CONVERSIONS,
    "convert-gpu-to-rocdl": ("convert-fly-to-rocdl",),
    "convert-gpu-to-nvvm": ("convert-fly-to-nvvm",),
    "fly-rocdl-cluster-attr": ("convert-gpu-to-rocdl",),
    "gpu-to-llvm": DEVICE,
    "convert-vector-to-llvm": DEVICE,
    "convert-arith-to-llvm": DEVICE,
    "convert-math-to-llvm": DEVICE,
    "convert-func-to-llvm": ("convert-cf-to-llvm",),
    BINARY: DEVICE,
}
"""Passes that cannot do without one of others before them when they start from a traced module."""
_ON_FLY = dict.fromkeys((*FLY[:4], *FLY[5:], *CONVERSIONS), CONVERSIONS)
_GONE = {
    **_ON_FLY,
    # What it makes of prints is of the dialect that this one lowers.
    "fly-expand-prints": ("fly-layout-lowering", *CONVERSIONS),
    **dict.fromkeys(DEVICE, ("convert-cf-to-llvm", "gpu-to-llvm")),
}
"""Passes that find nothing to do any more, or the wrong thing, once one of others has run on whatever module."""


def check_order(specs: Sequence[PassSpec], *, traced: bool = True) -> None:
    """Refuse a pipeline in which a pass cannot follow the one before it; before any of them runs.

    A module that is not `traced` may have been through any passes already.
    """
    ran: list[str] = []
    on_host: set[str] = set()
    for spec in specs:
        name, before = spec.name, f"'{ran[-1]}'" if ran else "the traced module"
        missing = _missing(name, ran, on_host) if traced else ()
        if missing:
            raise DSLValueError(f"pass '{name}' cannot follow {before}: {_one_of(missing)} must run before it")
        over = next((other for other in ran if _over(name, other, traced)), None)
        if over is not None:
            raise DSLValueError(f"pass '{name}' cannot follow {before}: '{over}' has left nothing for it to work on")
        ran.append(name)
        if not spec.path:
            on_host.add(name)
        if name == "fly-to-llvm":
            # It stands for these.
            ran += spec.options["passes"].split("+") if "passes" in spec.options else [*FLY, CONVERSIONS[0]]


def check_whole(specs: Sequence[PassSpec]) -> None:
    """Refuse a pipeline that leaves a traced module where LLVM IR can be written from neither end."""
    names = [spec.name for spec in specs]
    end = f"'{names[-1]}'" if names else "the traced module"
    if BINARY in names:
        before = f"'{names[names.index(BINARY) - 1]}'" if names.index(BINARY) else "the traced module"
        raise DSLValueError(
            f"pass '{BINARY}' cannot follow {before}: a backend's pipeline has it at the end only, where the compiler "
            "makes the code"
        )
    if not {*CONVERSIONS, "fly-to-llvm"} & set(names):
        raise DSLValueError(f"the pipeline cannot end with {end}: {_one_of(CONVERSIONS)} must run before that")
    begun = next((name for name in names if name in LOWERINGS), None)
    for needed in (DEVICE, ("gpu-to-llvm",), ("convert-func-to-llvm",)) if begun is not None else ():
        if not set(needed) & set(names):
            raise DSLValueError(
                f"the pipeline cannot end with {end}: behind '{begun}', {_one_of(needed)} must run before that"
            )


def _missing(name: str, ran: Sequence[str], on_host: Container[str]) -> tuple[str, ...]:
    """Passes of which one should have run before this one."""
    needed = _AFTER.get(name, ())
    if needed and not any(other in ran for other in needed):
        return needed
    # A pass nested in `gpu.module` has left the host's loops and conditionals as they were.
    flat = "convert-scf-to-cf"
    missing = (name in DEVICE and flat not in ran) or (
        name in ("convert-cf-to-llvm", "gpu-to-llvm") and flat not in on_host
    )
    return (flat,) if missing else ()


def _over(name: str, other: str, traced: bool) -> bool:
    """Whether a pass comes too late behind another one."""
    if other in _GONE.get(name, ()):
        return True
    return traced and _STAGES.get(name, 4) < _STAGES.get(other, 0)


def _one_of(names: Sequence[str]) -> str:
    *most, last = (f"'{name}'" for name in names)
    return f"{', '.join(most)} or {last}" if most else last
