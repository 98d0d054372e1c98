"""Who decides what an atom becomes: the conversion that calls it, and the features of the architecture."""

from __future__ import annotations

import subprocess
import sys

import pytest
from xdsl.dialects.builtin import f16, f32

from flydsl.dialects.fly_nvgpu import registers
from flydsl.dialects.fly_nvgpu.ops import ElectOp
from flydsl.dialects.fly_rocdl.cdna3 import MfmaType
from flydsl.dialects.fly_rocdl.common import check_emulated, check_lowering
from flydsl.errors import DSLCompileError
from flydsl.passes.fly import convert_fly_to_cpu, convert_fly_to_nvvm, convert_fly_to_rocdl

CONVERSIONS = {
    "rocdl": convert_fly_to_rocdl.Conversion,
    "nvvm": convert_fly_to_nvvm.Conversion,
    "cpu": convert_fly_to_cpu.Conversion,
}
MFMA = MfmaType.make(16, 16, 16, f16, f16, f32)


def conversion(name: str, arch: str | None = None):
    made = CONVERSIONS[name]()
    made.arch = arch
    return made


@pytest.mark.parametrize("name", CONVERSIONS)
def test_the_caller_chooses(name: str):
    called: list[str] = []

    class Atom:
        def lower(self, low: object, *operands: object) -> None:
            called.append("lower")

        def emulate(self, low: object, *operands: object) -> None:
            called.append("emulate")

    low = conversion(name)
    low.call_copy(Atom(), None, None)
    low.call_mma(Atom(), None, None, None, None)
    assert called == ["emulate" if name == "cpu" else "lower"] * 2
    op = ElectOp.create()
    assert low.own_rule(op) == (op.emulate if name == "cpu" else op.lower)


def test_without_an_architecture_a_conversion_has_what_any_of_its_own_has():
    assert [conversion(name).has("mfma") for name in CONVERSIONS] == [True, False, True]
    assert [conversion(name).has("wgmma") for name in CONVERSIONS] == [False, True, True]
    assert not conversion("rocdl", "gfx1100").has("mfma")
    assert not conversion("nvvm", "sm_80").has("wgmma")
    assert not conversion("cpu", "gfx1100").has("mfma")


def test_atoms_of_amd_on_other_gpus():
    check_lowering(MFMA, conversion("rocdl"))
    check_lowering(MFMA, conversion("rocdl", "gfx942"))
    with pytest.raises(ValueError, match="does not exist on gfx1100; it exists on gfx90a, gfx942, gfx950"):
        check_lowering(MFMA, conversion("rocdl", "gfx1100"))
    for arch in (None, "sm_90a"):
        with pytest.raises(DSLCompileError, match="is an AMD instruction"):
            check_lowering(MFMA, conversion("nvvm", arch))
    check_emulated(MFMA, conversion("cpu"))
    with pytest.raises(ValueError, match="does not exist on gfx1201"):
        check_emulated(MFMA, conversion("cpu", "gfx1201"))


def test_instructions_of_nvidia_on_other_gpus():
    registers.require(conversion("nvvm"), "wgmma", "wgmma")
    with pytest.raises(DSLCompileError, match="wgmma does not exist on sm_100a; it needs sm_90 alone"):
        registers.require(conversion("nvvm", "sm_100a"), "wgmma", "wgmma")
    with pytest.raises(DSLCompileError, match="a bulk copy does not exist on sm_89; it needs sm_90$"):
        registers.require(conversion("nvvm", "sm_89"), "a bulk copy", "bulk_copy")
    # Clusters are a feature of both makes; these are NVIDIA's.
    with pytest.raises(DSLCompileError, match="gfx1250: it is an instruction of NVIDIA GPUs"):
        registers.require(conversion("rocdl", "gfx1250"), "cluster.arrive", "clusters")


@pytest.mark.parametrize("name", ["rocdl", "nvvm"])
def test_conversions_for_gpus_load_no_emulation(name: str):
    code = f"import flydsl.passes.fly.convert_fly_to_{name}, sys; print([m for m in sys.modules if '.cpu.emul' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
