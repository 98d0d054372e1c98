"""Every kernel of the library has a register for each value, as compiled for the GPU of its call; and one that starts
while another may still write waits for that one before it looks at memory."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import flydsl.compiler as flyc
from flydsl.compiler.listeners import watching_calls
from flydsl.llvm import tools
from flydsl.llvm.objects import ptx
from flydsl.runtime.device_runtime import reset_device_runtime
from flydsl.target import gpu_backend_of_arch

from .early_starts import WAIT, start_early, touched_early
from .library.calls import every_call, kernels_of, one_of_each
from .library.calls.running import not_run

CALLS = every_call()

SPILLS: dict[tuple[str, str], tuple[int, str]] = {
    ("attention with dropout", "attention_kernel"): (
        16,
        "384 threads leave 168 registers: two words, in a form for few keys",
    ),
    ("attention_backward", "backward_kernel"): (8, "the same: two words; docs/attention.md has more"),
    ("attention_backward of long rows", "plain_kernel"): (24, "nothing limits registers: ptxas itself takes 72"),
}
"""Call and kernel -> bytes that `ptxas` may spill, and why."""


@functools.cache
def usage(text: str) -> dict[str, ptx.KernelUsage]:
    _, log = ptx.assemble(text)
    return ptx.parse_log(log)


def spilled(artifact: Any) -> dict[str, int]:
    """Kernel -> bytes, or registers of AMD's GPUs; of NVIDIA's only what the PTX tells where there is no `ptxas`."""
    if artifact.target.backend == "rocm":
        assert artifact.resources
        return {name: used["spills"] + used["scratch"] for name, used in artifact.resources.items()}
    text = artifact.binary("ptx").decode()
    assert ".local" not in text, "registers that are looked up by a number"
    if tools.try_find_tool("ptxas") is None:
        return dict.fromkeys(ptx.ptx_kernels(text), 0)
    found = usage(text)
    assert found
    return {name: max(used.spill_stores, used.spill_loads, used.stack) for name, used in found.items()}


@pytest.mark.parametrize("name", one_of_each())
def test_nothing_spills(name: str, monkeypatch: pytest.MonkeyPatch):
    call = CALLS[name]
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", gpu_backend_of_arch(call.arch))
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", call.arch)
    monkeypatch.setenv("FLYDSL_COMPILE_ONLY", "1")
    flyc.invalidate_all()
    reset_device_runtime()
    made: list[Any] = []
    try:
        with watching_calls(lambda artifact, _: made.append(artifact)):
            function, *arguments = call.make()
            before = len(made)
            function(*arguments)
    finally:
        reset_device_runtime()
    assert not not_run(call, {kernel for artifact in made[before:] for kernel in kernels_of(artifact)})
    for artifact in {artifact.key: artifact for artifact in made}.values():
        for kernel, count in spilled(artifact).items():
            most, _ = SPILLS.get((name, kernel.rpartition("_")[0]), (0, ""))
            assert count <= most, f"{kernel} spills {count}"
        if artifact.target.backend == "cuda":
            text = artifact.binary("ptx").decode()
            touched, careless = touched_early(text), touched_early(text.replace(WAIT, "//"))
            for kernel in start_early(artifact.source_ir):
                assert careless[kernel] and not touched[kernel], f"{kernel} does not wait for the kernel in front of it"
