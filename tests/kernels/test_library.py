"""What holds for every kernel of the library, for each of the small calls in `library/`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
from flydsl.errors import DSLValueError
from flydsl.llvm import tools
from flydsl.llvm.objects import ptx
from flydsl.llvm.objects.code_object import read_code_object

from .library import CASES, Case, public_kernels
from .library.case import static

EVERY = [pytest.param(case, id=case.name, marks=[pytest.mark.slow] * case.again) for case in CASES]
BUILDS = [
    pytest.param((case, target.partition(":")[0]), target, id=f"{case.name}-{target}")
    for case in CASES
    for target in case.targets
]
"""A case on one of the stacks, for each of its architectures."""


def test_every_public_kernel_has_a_case():
    kernels = public_kernels()
    assert len(kernels) >= 11
    missing = [name for name, kernel in kernels.items() if all(case.kernel is not kernel for case in CASES)]
    assert not missing, f"tests/kernels/library has no case for {', '.join(missing)}"


@pytest.mark.parametrize("case", EVERY)
def test_numbers_and_nothing_to_report_in_checked_mode(
    case: Case, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch
):
    emulate(case.emulated)
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    # The same kernels are verified where they are built for GPUs.
    monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_VERIFIER", "0")
    case.check(rng)


@pytest.mark.cuda
@pytest.mark.parametrize("case", [case for case in CASES if any(t.startswith("cuda:") for t in case.targets)])
def test_numbers_on_a_gpu(case: Case, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    case.check(rng, "cuda")


@pytest.mark.covering("built", "target")
@pytest.mark.parametrize(("built", "target"), BUILDS)
def test_builds_without_spills(
    built: tuple[Case, str], target: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
):
    """A valid binary for every target the kernel is for, in which all values have a register."""
    case, _ = built
    if request.node.get_closest_marker("slow"):
        monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_VERIFIER", "0")  # the same IR as for the one of the stack that is not
    artifact = case.compile(target)
    arch = target.partition(":")[2]
    if target.startswith("rocm:"):
        for name, used in artifact.resources.items():
            assert used["spills"] == 0 and used["scratch"] == 0, name
            assert used["occupancy"] >= 1
        found = read_code_object(artifact.binary("hsaco"))
        assert found.target_id == f"amdgcn-amd-amdhsa--{arch}" and found.linked
        return
    text = artifact.binary("ptx").decode()
    assert ptx.ptx_kernels(text) and f".target {arch}" in text
    if tools.try_find_tool("ptxas") is not None:
        cubin, log = ptx.assemble(text)
        assert cubin[:4] == b"\x7fELF"
        assert all(used.spill_stores == 0 for used in ptx.parse_log(log).values())


ONCE = {case.kernel.__name__: case for case in reversed(CASES)}


@pytest.mark.parametrize("name", ONCE)
def test_extents_that_do_not_fit_are_refused(name: str):
    """Each array in turn has 16 more of what another one has, too."""
    case, tried = ONCE[name], 0
    for array, letters in case.arrays.items():
        for at, letter in enumerate(letters):
            if sum(letter in other for other in case.arrays.values()) < 2:
                continue
            shapes = {other: list(case.shape(other)) for other in case.arrays}
            shapes[array][at] += 16
            made = {n: torch.zeros(shape).to(case.dtypes.get(n, case.dtype)) for n, shape in shapes.items()}
            with pytest.raises(DSLValueError, match=f"{name}: {letter} is [0-9]+ in "):
                flyc.compile(case.kernel, *case.arguments(made, static), target=case.targets[0])
            tried += 1
    assert tried >= 2
