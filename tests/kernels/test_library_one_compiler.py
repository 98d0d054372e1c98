"""Every kernel of the library: one walk leaves the code that its passes leave one by one, for GPUs and emulated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import flydsl.compiler as flyc
from flydsl.compiler.backends import backend_for_target, parse_target
from flydsl.compiler.build import driver
from flydsl.passes.fuse import one_by_one
from flydsl.passes.pipeline import PassSpec
from flydsl.runtime.device_runtime import reset_device_runtime
from flydsl.target import gpu_backend_of_arch

from .library.calls import CALLS

ALWAYS = {
    ("matmul of blocks with scales", "gpu"),
    ("matmul by tensor copies", "gpu"),
    ("gemm_wmma", "cpu"),
    ("attention_backward of long rows", "cpu"),
    ("moe", "gpu"),
}
"""Tested in every run."""


def cases() -> Iterator[object]:
    for name in CALLS:
        for where in ("cpu", "gpu"):
            marks = () if (name, where) in ALWAYS else (pytest.mark.slow,)
            yield pytest.param(name, where, marks=marks, id=f"{name}-{where}")


@pytest.mark.parametrize(("name", "where"), list(cases()))
def test_one_walk_and_its_passes(name: str, where: str, monkeypatch: pytest.MonkeyPatch):
    call = CALLS[name]
    stack = "cpu" if where == "cpu" else gpu_backend_of_arch(call.arch)
    target = f"{stack}:{call.arch}"
    for variable, value in {
        "COMPILE_BACKEND": stack,
        "COMPILE_ARCH": call.arch,
        "COMPILE_ONLY": "1" if where == "gpu" else "0",
        "COMPILE_OPT_LEVEL": "0",
        "RUNTIME_ENABLE_CACHE": "0",
    }.items():
        monkeypatch.setenv(f"FLYDSL_{variable}", value)
    flyc.invalidate_all()
    reset_device_runtime()
    backend = backend_for_target(parse_target(target))
    run, compared = driver.run_passes, []

    def both(module, steps, times, dumper, hooks, kept):
        if not steps or steps[0].spec.name != "fly-to-llvm":
            return run(module, steps, times, dumper, hooks, kept)
        passes = [PassSpec(each) for each in steps[0].spec.options["passes"].split("+")]
        listed = run(module.clone(), one_by_one([*passes, *(step.spec for step in steps[1:])]), {}, dumper, hooks)
        made = run(module, steps, times, dumper, hooks, kept)
        texts = [backend.device_ir(driver.split(each)[0]) for each in (made, listed)]
        compared.append(texts[0] == texts[1])
        return made

    monkeypatch.setattr(driver, "run_passes", both)
    function, *args = call.make()
    try:
        function(*args)
    finally:
        reset_device_runtime()
    assert compared and all(compared)
