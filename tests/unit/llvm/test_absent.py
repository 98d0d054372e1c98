"""Instructions that LLVM writes for chips without them are refused; of what it writes otherwise, chips have all."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.instructions.signatures import NOT_IN_LLVM, ROWS, parts
from tests.instructions.test_every_name import llvm_type

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl._mlir.dialects import rocdl
from flydsl.errors import DSLCompileError
from flydsl.llvm import tools
from flydsl.llvm.absent import refuse_absent
from flydsl.target import GPUTarget
from flydsl.target.architectures import ARCHITECTURES

AMD = sorted(name for name, entry in ARCHITECTURES.items() if entry.backend == "rocm")


def by_name(x: Any) -> Any:
    return fx.llvm_intrinsic(fx.Float32, "llvm.amdgcn.cvt.scalef32.f32.fp8", [x, fx.Float32(2.0), fx.Int32(1)])


def by_op(x: Any) -> Any:
    return fx.Float32(rocdl.cvt_scalef32_f32_fp8(fx.T.f32, x, fx.Float32(2.0), 1))


def compiled(body: Callable[[Any], Any], arch: str) -> str:
    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        i = fx.thread_idx.x
        y[i] = body(x[i])

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=1, block=32)

    return flyc.compile(run, np.zeros(32, "i4"), np.zeros(32, "f4"), target=f"rocm:{arch}").artifact.asm


@pytest.mark.parametrize("body", [by_name, by_op])
def test_a_conversion_that_the_chip_does_not_have(body: Callable[[Any], Any]):
    assert "v_cvt_scalef32_f32_fp8" in compiled(body, "gfx950")
    for arch in ("gfx90a", "gfx942", "gfx1201", "gfx1250"):
        with pytest.raises(
            DSLCompileError, match=rf"{arch} has no llvm\.amdgcn\.cvt\.scalef32\.f32\.fp8: .*v_cvt_scalef32"
        ) as caught:
            compiled(body, arch)
        assert body.__code__.co_firstlineno + 1 == caught.value.diagnostics[0].chain[-1].line


def module_of(name: str, row: str) -> str:
    """IR of a kernel that calls an intrinsic."""
    result, arguments = parts(row)
    types = [llvm_type(t) for t, _ in arguments]
    given = [
        f"{t} %a{i}" if number is None else f"{t} {('false', 'true')[number] if t == 'i1' else number}"
        for i, (t, (_, number)) in enumerate(zip(types, arguments, strict=True))
    ]
    free = "".join(f", {word}" for word in given if "%" in word)
    type_ = llvm_type(result) if result else "void"
    made, kept = ("%r = ", f"  store {type_} %r, ptr addrspace(1) %out\n") if result else ("", "")
    return (
        f'target triple = "amdgcn-amd-amdhsa"\ndeclare {type_} @llvm.amdgcn.{name}({", ".join(types)})\n'
        f"define amdgpu_kernel void @k(ptr addrspace(1) %out{free}) {{\n"
        f"  {made}call {type_} @llvm.amdgcn.{name}({', '.join(given)})\n{kept}  ret void\n}}\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("arch", AMD)
def test_no_other_code_is_of_no_chip(arch: str, tmp_path: Path):
    """What LLVM makes of each intrinsic that is let through here its disassembler knows."""
    llc, objdump = tools.try_find_tool("llc"), tools.try_find_tool("llvm-objdump")
    if llc is None or objdump is None:
        pytest.skip("needs llc and llvm-objdump")
    source, made, target = tmp_path / "a.ll", tmp_path / "a.o", GPUTarget.parse(f"rocm:{arch}")
    known = 0
    for name, row in ROWS.items():
        if NOT_IN_LLVM.fullmatch(name) or row.startswith("{"):
            continue
        text = module_of(name, row)
        try:
            refuse_absent(text, target)
        except DSLCompileError:
            continue
        source.write_text(text)
        command = [str(llc.path), f"-mcpu={arch}", "-filetype=obj", "-o", str(made), str(source)]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            command = [str(objdump.path), "-d", f"--mcpu={arch}", str(made)]
            assert ".long" not in subprocess.run(command, capture_output=True, text=True, check=True).stdout, name
            known += 1
    assert known > 30
