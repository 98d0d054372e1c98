"""Which code runs where: LLVM's rules for the target ids of AMD GPUs, and those of NVIDIA's architectures.

A target id of AMD names settings a GPU was started with (`sramecc`, `xnack`). Code that names one runs where it is set
so; code that leaves it open runs everywhere. NVIDIA's PTX runs on its architecture and later ones, unless a suffix
binds it to one (`a`) or to its family (`f`), or it was assembled already (cubin).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from . import CUDA_ARCHES, GPUTarget

SETTINGS = frozenset({"sramecc", "xnack"})
"""Features that are part of a target id of AMD; the others are ways to generate code, which say nothing of the GPU."""

_CUDA = re.compile(r"sm_(\d+)([af]?)")


def runs_on(code: GPUTarget, device: GPUTarget, *, assembled: bool = False) -> bool:
    """Whether code for one target runs on a device of another; `assembled` says that it is no longer PTX.

    >>> card = GPUTarget.parse("gfx942:sramecc+:xnack-")
    >>> [runs_on(GPUTarget.parse(code), card) for code in ("gfx942", "gfx942:xnack-", "gfx942:xnack+", "gfx950")]
    [True, True, False, False]
    >>> [runs_on(GPUTarget.parse(code), GPUTarget.parse("sm_90")) for code in ("sm_90a", "sm_80", "sm_100a", "sm_100")]
    [True, True, False, False]
    """
    if code == device:
        return True
    if code.backend != device.backend or code.warp_size != device.warp_size or code.on_host:
        return False
    if device.has("nvidia"):
        return _cuda_runs(code.arch, device.arch, assembled)
    if not device.has("amd"):
        return False
    return code.arch == device.arch and settings(code) <= settings(device)


def settings(target: GPUTarget) -> frozenset[str]:
    """The settings that a target names, with their signs."""
    return frozenset(feature for feature in target.features if feature[1:] in SETTINGS)


def _cuda_runs(code: str, device: str, assembled: bool) -> bool:
    theirs, ours = _CUDA.fullmatch(code), _CUDA.fullmatch(device)
    if theirs is None or ours is None or int(ours[1]) < int(theirs[1]):
        return False
    if theirs[2] == "a":
        return ours[1] == theirs[1]
    if theirs[2] == "f" or assembled:
        return int(ours[1]) // 10 == int(theirs[1]) // 10
    return True


def chip_of(arch: str) -> str:
    """The GPU that an architecture's code is for, as its driver names it: without the suffix of NVIDIA's.

    >>> [chip_of(arch) for arch in ("sm_90a", "sm_90", "sm_100f", "gfx90a")]
    ['sm_90', 'sm_90', 'sm_100', 'gfx90a']
    """
    found = _CUDA.fullmatch(arch)
    return arch if found is None else f"sm_{found[1]}"


def rank(code: GPUTarget) -> tuple[int, int]:
    """The larger, the closer code is to the device it runs on: a later architecture, more settings named."""
    match = _CUDA.fullmatch(code.arch)
    return (int(match[1]) * 2 + bool(match[2]) if match else 0, len(settings(code)))


def others_that_fit(device: GPUTarget) -> Iterator[GPUTarget]:
    """Other targets whose code runs on a device, the closest first.

    >>> [t.key() for t in others_that_fit(GPUTarget.parse("gfx942:sramecc+:xnack-"))]
    ['rocm:gfx942:w64:+sramecc', 'rocm:gfx942:w64:-xnack', 'rocm:gfx942:w64']
    """
    if device.on_host:
        return
    named = sorted(settings(device))
    rest = tuple(f for f in device.features if f not in named)
    for count in range(len(named) - 1, -1, -1):
        for kept in combinations(named, count):
            yield replace(device, features=(*rest, *kept))
    if device.has("nvidia"):
        found = [replace(device, arch=arch) for arch in CUDA_ARCHES if arch != device.arch]
        yield from sorted((t for t in found if runs_on(t, device)), key=rank, reverse=True)
