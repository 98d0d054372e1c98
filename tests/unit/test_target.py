"""Targets: spellings, canonical text, limits, refusals."""

from __future__ import annotations

import pytest

from flydsl.errors import TargetError
from flydsl.target import (
    CUDA_ARCHES,
    ROCM_ARCHES,
    GPUTarget,
    caps_of,
    gpu_backend_of_arch,
    is_rdna_arch,
    make_builtin_target,
    warp_size_of,
)

KIB = 1024


def test_b1_frozen_hashable_positional():
    target = GPUTarget("rocm", "gfx942", 64)
    assert (target.backend, target.arch, target.warp_size, target.features) == ("rocm", "gfx942", 64, ())
    assert len({target, GPUTarget("rocm", "gfx942", 64)}) == 1
    with pytest.raises(AttributeError):
        target.arch = "gfx950"  # type: ignore[misc]


def test_b2_features_are_split_sorted_and_checked():
    target = GPUTarget("rocm", "gfx942:xnack-:sramecc+", 64)
    assert target == GPUTarget("rocm", "gfx942", 64, ("-xnack", "+sramecc"))
    assert target.features == ("+sramecc", "-xnack")
    with pytest.raises(TargetError, match="expected \\+name"):
        GPUTarget("rocm", "gfx942", 64, ("xnack",))
    with pytest.raises(TargetError, match="both on and off"):
        GPUTarget("rocm", "gfx942:xnack+", 64, ("-xnack",))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("gfx942", "rocm:gfx942:w64"),
        ("GFX942:sramecc+:xnack-", "rocm:gfx942:w64:+sramecc,-xnack"),
        ("rocm:9.4.2", "rocm:gfx942:w64"),
        ("rocm:9.0.10", "rocm:gfx90a:w64"),
        ("rocm:gfx1100", "rocm:gfx1100:w32"),
        ("sm_90a", "cuda:sm_90a:w32"),
        ("sm90", "cuda:sm_90:w32"),
        ("cuda:90", "cuda:sm_90:w32"),
        ("cuda:9.0", "cuda:sm_90:w32"),
        ("cuda:10.3a", "cuda:sm_103a:w32"),
        ("cpu:gfx942", "cpu:gfx942:w64"),
        ("cpu:sm_90", "cpu:sm_90:w32"),
        ("cpu:native:w64", "cpu:native:w64"),
        ("native", "cpu:native:w32"),
        ("other:x1:w8:+a,-b", "other:x1:w8:+a,-b"),
    ],
)
def test_b3_parse_and_key_are_inverse(text: str, key: str):
    target = GPUTarget.parse(text)
    assert target.key() == key
    assert GPUTarget.parse(key) == target
    assert hash(GPUTarget.parse(key)) == hash(target)


@pytest.mark.parametrize("arch", [*ROCM_ARCHES, *CUDA_ARCHES])
def test_every_known_arch_parses_bare(arch: str):
    assert GPUTarget.parse(arch).arch == arch


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("gfx943", "Unknown rocm architecture 'gfx943'. Did you mean 'gfx942'"),
        ("cuda:sm_91", "Did you mean 'sm_90"),
        ("cpu:nativ", "Did you mean 'native'"),
        ("rocm", "names no architecture"),
        ("nvidia", "expected backend:arch, such as cpu:native or .*cuda:sm_"),
        ("", "cannot read target"),
        ("other:x", "needs the warp width"),
        ("rocm:gfx942:w32", "has warps of 64 lanes, not 32"),
        ("gfx942:bad", "expected \\+name"),
    ],
)
def test_b5_bad_targets_raise_and_help(text: str, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        GPUTarget.parse(text)


@pytest.mark.parametrize("bad", [("", "gfx942", 64), ("rocm", "", 64), ("rocm", "gfx942", "64"), ("rocm", "x", True)])
def test_fields_are_type_checked(bad: tuple[object, ...]):
    with pytest.raises(TypeError):
        GPUTarget(*bad)  # type: ignore[arg-type]


def test_warp_size_must_be_a_power_of_two():
    with pytest.raises(ValueError, match="power of two"):
        GPUTarget("cpu", "native", 48)


def test_warp_sizes(monkeypatch: pytest.MonkeyPatch):
    assert [warp_size_of(a) for a in ("gfx90a", "gfx1030", "gfx1250", "sm_80")] == [64, 32, 32, 32]
    monkeypatch.setenv("FLYDSL_CPU_WARP_SIZE", "16")
    assert make_builtin_target("cpu", "native").warp_size == 16


def test_rdna():
    assert [is_rdna_arch(a) for a in ("gfx1030", "gfx1100", "gfx1201", "gfx1250", "gfx942")] == [True] * 3 + [False] * 2


@pytest.mark.parametrize(
    ("arch", "plain", "optin"),
    [
        ("gfx942", 64, 64),
        ("gfx950", 160, 160),
        ("gfx1250", 320, 320),
        ("sm_80", 48, 163),
        ("sm_86", 48, 99),
        ("sm_90a", 48, 227),
        ("sm_100f", 48, 227),
        ("sm_121", 48, 99),
    ],
)
def test_static_limits(arch: str, plain: int, optin: int):
    caps = caps_of(arch)
    assert (caps.shared_mem_per_block, caps.shared_mem_per_block_optin) == (plain * KIB, optin * KIB)


def test_unknown_limits_are_none():
    assert caps_of("sm_88").shared_mem_per_block_optin is None
    assert caps_of("native").shared_mem_per_block is None


def test_arch_decides_backend():
    assert [gpu_backend_of_arch(a) for a in ("gfx942", "sm_90", "SM90", "native", "x86_64", "smile")] == [
        "rocm",
        "cuda",
        "cuda",
        None,
        None,
        None,
    ]


def test_llvm_knows_every_arch(capfd: pytest.CaptureFixture[str]):
    from flydsl.llvm import binding

    for arch in ROCM_ARCHES:
        binding.target_machine("amdgcn-amd-amdhsa", arch)
    for arch in CUDA_ARCHES:
        binding.target_machine("nvptx64-nvidia-cuda", arch)
    assert "not a recognized processor" not in capfd.readouterr().err
