"""A small call for every kernel of the library, public or not, by which tests find all of them.

A new kernel brings its call in a file of this folder, under the name `CALLS`, and is listed nowhere else. What holds
for every kernel goes through `every_call`: schedules, checked mode, extents, spills, and on a GPU `compute-sanitizer`.
A kernel that no call claims has one there that fails; a claim that its call does not keep fails as well. Sizes are the
smallest that go through all that the kernel does.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

import flydsl.kernels
from flydsl.compiler.kernel_function import KernelFunction

from .call import Call


@functools.cache
def library_kernels() -> dict[str, KernelFunction]:
    """`module.kernel` -> kernel, of the whole library."""
    found: dict[str, KernelFunction] = {}
    for module in pkgutil.walk_packages(flydsl.kernels.__path__, "flydsl.kernels."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, KernelFunction):
                found[f"{value.__module__}.{value.__name__}".removeprefix("flydsl.kernels.")] = value
    return found


def claimed_kernels() -> set[str]:
    return {kernel for call in CALLS.values() for kernel in call.kernels.split()}


def _no_call(kernel: str) -> NoReturn:
    raise AssertionError(f"tests/kernels/library/calls has no call of {kernel}")


def every_call() -> dict[str, Call]:
    """All calls; a kernel without one has a call that fails."""
    missing = sorted(library_kernels().keys() - claimed_kernels())
    return {**CALLS, **{kernel: Call("sm_80", partial(_no_call, kernel), kernel) for kernel in missing}}


def one_of_each() -> list[object]:
    """All calls as cases of a test. Those whose kernels have other calls for the same GPU are slow."""
    calls, seen, kept = every_call(), set[tuple[str, str]](), set[str]()
    for name in sorted(calls, key=lambda name: len(calls[name].kernels.split())):
        there = {(kernel, calls[name].arch) for kernel in calls[name].kernels.split()}
        if not there <= seen:
            seen |= there
            kept.add(name)
    return [pytest.param(name, id=name, marks=[pytest.mark.slow] * (name not in kept)) for name in calls]


def kernels_of(artifact: Any) -> set[str]:
    """The library's kernels in compiled code. Of those with one name it is that of the file with the launch, if any."""
    found: set[str] = set()
    for made in artifact.kernels:
        name, launched = made["name"].rpartition("_")[0], Path((made.get("source") or ("",))[0])
        named = {k: v for k, v in library_kernels().items() if v.__name__ == name}
        here = {k for k, v in named.items() if launched == Path(inspect.getfile(v.__wrapped__))}
        found |= here if len(named) > 1 and here else named.keys()
    return found


CALLS: dict[str, Call] = {
    name: call
    for module in pkgutil.iter_modules(__path__)
    for name, call in getattr(importlib.import_module(f"{__name__}.{module.name}"), "CALLS", {}).items()
}

__all__ = ["CALLS", "Call", "claimed_kernels", "every_call", "kernels_of", "library_kernels", "one_of_each"]
