"""One small job for each external tool: that a program is there and tells its version does not say that it works."""

from __future__ import annotations

import tempfile
from pathlib import Path

from flydsl.errors import ExternalLLVMError
from flydsl.llvm.tools import Tool, run_tool, try_find_tool
from flydsl.target import USUAL

_GFX, _SM = USUAL["rocm"], USUAL["cuda"]
_IR = 'target triple = "amdgcn-amd-amdhsa"\n\ndefine amdgpu_kernel void @k() {\n  ret void\n}\n'
_PTX = f".version 8.0\n.target {_SM}\n.address_size 64\n\n.visible .entry k()\n{{\n\tret;\n}}\n"
_AMD = ("-mtriple=amdgcn-amd-amdhsa", f"-mcpu={_GFX}")
_ASSEMBLE = ("-triple=amdgcn-amd-amdhsa", f"-mcpu={_GFX}", "-filetype=obj", "in.s", "-o")
_JOBS: dict[str, tuple[str, ...]] = {
    "opt": ("-S", "-passes=instsimplify", "in.ll", "-o", "out"),
    "llc": (*_AMD, "-filetype=obj", "in.ll", "-o", "out"),
    "fly-llc": (*_AMD, "--emit=obj", "in.ll", "-o", "out"),
    "llvm-mc": (*_ASSEMBLE, "out"),
    "ptxas": (f"-arch={_SM}", "in.ptx", "-o", "out"),
    "ld.lld": ("-shared", "in.o", "-o", "out"),
    "llvm-objdump": ("-d", f"--mcpu={_GFX}", "in.o"),
}


def trial(tool: Tool) -> str:
    """Use a tool; `works`, or what went wrong, in one line."""
    with tempfile.TemporaryDirectory(prefix="fly-doctor-") as name:
        folder = Path(name)
        (folder / "in.ll").write_text(_IR)
        (folder / "in.s").write_text("s_endpgm\n")
        (folder / "in.ptx").write_text(_PTX)
        job = _JOBS[tool.name]
        try:
            if "in.o" in job and not _object(folder):
                return "not tried: it needs an object file, which llvm-mc makes"
            done = run_tool(tool, job, cwd=folder)
        except ExternalLLVMError as error:
            said = [line for line in (error.stderr or str(error)).splitlines() if line.strip()]
            return f"does not work: {said[0] if said else error}"
        made = folder / "out"
        if "out" in job and not (made.exists() and made.stat().st_size):
            return "does not work: it wrote nothing"
        if tool.name == "llvm-objdump" and "s_endpgm" not in done.stdout:
            return "does not work: it does not know the instructions of AMD's GPUs"
        return "works"


def _object(folder: Path) -> bool:
    """An object file for those that read one."""
    assembler = try_find_tool("llvm-mc")
    if assembler is None:
        return False
    run_tool(assembler, [*_ASSEMBLE, "in.o"], cwd=folder)
    return True
