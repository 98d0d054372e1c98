"""MFMA: every shape and type on every architecture that has it, and refused elsewhere."""

from __future__ import annotations

import re

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.dialects.fly_rocdl.cdna3 import FORMS

from .rocm_tiles import arguments, close, make_tile, tile

ARCHES = ("gfx90a", "gfx942", "gfx950")
CLASSES = {"f32": "Float32", "f16": "Float16", "bf16": "BFloat16", "f64": "Float64", "i8": "Int8"}
FP8 = {
    "fp8": {"gfx942": "Float8E4M3FNUZ", "gfx950": "Float8E4M3FN"},
    "bf8": {"gfx942": "Float8E5M2FNUZ", "gfx950": "Float8E5M2"},
}


def classes_of(kind: str, arch: str) -> tuple[str, str, str] | None:
    """Names of A, B and accumulator classes; None where the language has no class for them."""
    if "8" in kind and kind != "i8":
        pair = [FP8[word].get(arch) for word in kind.split(".")]
        return None if None in pair else (pair[0], pair[1], "Float32")
    acc = {"i8": "Int32", "f64": "Float64"}.get(kind, "Float32")
    return CLASSES[kind], CLASSES[kind], acc


CASES = [
    (kind, m, k, arch)
    for (kind, m, k), form in FORMS.items()
    for arch in form.families
    if classes_of(kind, arch) is not None
]


def compiled(kind: str, m: int, k: int, arch: str, atoms=(1, 1, 1)):
    a, b, acc = classes_of(kind, arch)
    rng = np.random.default_rng(1)
    x, y, z, _ = make_tile(m * atoms[0], m * atoms[1], k * atoms[2], a, b, acc, rng)
    spec = (m, m, k, (getattr(fx, a), getattr(fx, b)), getattr(fx, acc))
    return flyc.compile(tile, *arguments(x, y, z), "MFMA", spec, atoms, target=f"rocm:{arch}").artifact


def mnemonic(kind: str, m: int, k: int, arch: str) -> str:
    acc = {"i8": "i32", "f64": "f64"}.get(kind, "f32")
    name = FORMS[kind, m, k].intrinsic
    tail = "xf32" if "xf32" in name else kind.replace(".", "_")
    if arch == "gfx90a":
        shape = re.search(r"\d+x\d+x\d+", name).group()
        return f"v_mfma_{acc}_{shape}{tail}" + ("_1k" if "1k" in name else "")
    return f"v_mfma_{acc}_{m}x{m}x{k}_{tail}"


@pytest.mark.parametrize(("kind", "m", "k", "arch"), CASES)
def test_compiles_to_the_instruction(kind: str, m: int, k: int, arch: str):
    artifact = compiled(kind, m, k, arch)
    found = re.findall(r"^\s+(v_mfma_\w+)", artifact.asm, re.M)
    assert found == [mnemonic(kind, m, k, arch)]
    assert artifact.kernels[0]["spills"] == 0 and artifact.kernels[0]["scratch"] == 0


def xf32(x: np.ndarray) -> np.ndarray:
    """Rounded to 10 bits of mantissa, ties to even."""
    bits = x.view(np.uint32)
    return ((bits + 0xFFF + (bits >> 13 & 1)) & ~np.uint32(0x1FFF)).view(np.float32)


@pytest.mark.covering("arch")
@pytest.mark.parametrize("atoms", [(1, 1, 1), (2, 1, 1)])
@pytest.mark.parametrize(("kind", "m", "k", "arch"), CASES)
def test_matches_numpy(kind: str, m: int, k: int, arch: str, atoms, monkeypatch: pytest.MonkeyPatch):
    """On the cpu stack emulating the architecture, over a tile of several atoms in every direction."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
    a, b, acc = classes_of(kind, arch)
    x, y, z, expected = make_tile(m * atoms[0], m * atoms[1] * 2, k * 2, a, b, acc, np.random.default_rng())
    if mnemonic(kind, m, k, arch).endswith("xf32"):  # the instruction rounds its operands to 10 bits
        start = expected - x.astype(np.float64) @ y.astype(np.float64).T
        expected = xf32(x).astype(np.float64) @ xf32(y).astype(np.float64).T + start
    spec = (m, m, k, (getattr(fx, a), getattr(fx, b)), getattr(fx, acc))
    tile(*arguments(x, y, z), "MFMA", spec, atoms)
    close(z, expected)


@pytest.mark.parametrize(("kind", "m", "k"), [("f16", 16, 16), ("bf16", 32, 8), ("i8", 16, 32)])
def test_tiles_of_atoms(kind: str, m: int, k: int):
    """Two by two waves: each computes its part once per k."""
    artifact = compiled(kind, m, k, "gfx942", (2, 2, 1))
    assert len(re.findall(r"v_mfma_", artifact.asm)) == 1


@pytest.mark.parametrize(
    ("kind", "m", "k", "arch", "says"),
    [
        ("f16", 16, 32, "gfx942", "gfx942 has: MFMA 32x32x8"),
        ("f16", 16, 16, "gfx1100", "does not exist on gfx1100"),
        ("i8", 16, 32, "gfx90a", "gfx90a has: .*MFMA 16x16x16"),
        ("f32", 16, 8, "gfx950", "gfx950 has: .*16x16x4"),
        ("f32", 4, 1, "gfx942", "gfx942 has: .*MFMA 32x32x2"),
    ],
)
def test_refused_with_the_line_and_what_exists(kind: str, m: int, k: int, arch: str, says: str):
    a, b, acc = classes_of(kind, "gfx942")
    x, y, z, _ = make_tile(m, m, k, a, b, acc, np.random.default_rng(1))
    spec = (m, m, k, getattr(fx, a), getattr(fx, acc))
    with pytest.raises(ValueError, match=says) as caught:
        flyc.compile(tile, *arguments(x, y, z), "MFMA", spec, (1, 1, 1), target=f"rocm:{arch}")
    text = "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert "getattr(fx.rocdl, make)" in text or "rocm_tiles.py" in text


def test_fp8_flavour_is_checked():
    """gfx942 reads FNUZ bytes: OCP types there would silently be half the value."""
    x, y, z, _ = make_tile(16, 16, 32, "Float8E4M3FN", "Float8E4M3FN", "Float32", np.random.default_rng(1))
    spec = (16, 16, 32, fx.Float8E4M3FN, fx.Float32)
    with pytest.raises(ValueError, match="gfx942 has: f8E4M3FNUZ"):
        flyc.compile(tile, *arguments(x, y, z), "MFMA", spec, (1, 1, 1), target="rocm:gfx942")


def test_nvidia_is_refused():
    x, y, z, _ = make_tile(16, 16, 16, "Float16", "Float16", "Float32", np.random.default_rng(1))
    spec = (16, 16, 16, fx.Float16, fx.Float32)
    with pytest.raises(ValueError, match="belongs to AMD GPUs"):
        flyc.compile(tile, *arguments(x, y, z), "MFMA", spec, (1, 1, 1), target="cuda:sm_90a")
