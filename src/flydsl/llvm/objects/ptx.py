"""PTX text: its kernels and header, and assembling it to a cubin with `ptxas` where there is one."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flydsl.errors import ExternalLLVMError
from flydsl.llvm import tools


class PtxasError(ExternalLLVMError):
    """`ptxas` refused the PTX; the message holds its log."""


@dataclass(frozen=True, slots=True)
class PtxHeader:
    version: str
    target: str
    address_size: int


@dataclass(frozen=True, slots=True)
class KernelUsage:
    """Resources of one kernel as `ptxas -v` reports them; sizes in bytes."""

    registers: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    shared: int = 0
    barriers: int = 0


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([A-Za-z_$%][\w$]*)")


def ptx_kernels(ptx: str) -> list[str]:
    """Names of the `.entry` functions in order."""
    return _ENTRY.findall(_COMMENT.sub("", ptx))


def ptx_header(ptx: str) -> PtxHeader:
    """The `.version`, `.target` and `.address_size` directives."""
    text = _COMMENT.sub("", ptx)
    found = {
        name: match[1].strip()
        for name in ("version", "target", "address_size")
        if (match := re.search(rf"^\s*\.{name}\s+([^\n]+)$", text, re.MULTILINE))
    }
    if "version" not in found or "target" not in found:
        raise PtxasError("this is not PTX: the .version or .target directive is missing")
    return PtxHeader(found["version"], found["target"].split(",")[0].strip(), int(found.get("address_size", "64")))


def assemble(
    ptx: str, arch: str | None = None, *, opt_level: int = 3, options: Sequence[str] = ()
) -> tuple[bytes, str]:
    """Assemble PTX for `arch` (default: its own `.target`); the cubin and the log of `ptxas -v`."""
    tool = tools.find_tool("ptxas")
    arch = arch or ptx_header(ptx).target
    with tempfile.TemporaryDirectory(prefix="flydsl-ptxas-") as folder:
        source, out = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        args = ["-v", f"-arch={arch}", f"-O{opt_level}", *options, source.name, "-o", out.name]
        done = tools.run_tool(tool, args, cwd=folder, error=PtxasError, hint=f" for {arch}")
        return out.read_bytes(), done.stdout + done.stderr


_COMPILING = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
_NUMBERS = {
    "registers": re.compile(r"Used (\d+) registers"),
    "stack": re.compile(r"(\d+) bytes stack frame"),
    "spill_stores": re.compile(r"(\d+) bytes spill stores"),
    "spill_loads": re.compile(r"(\d+) bytes spill loads"),
    "shared": re.compile(r"(\d+) bytes smem"),
    "barriers": re.compile(r"used (\d+) barriers"),
}


def parse_log(log: str) -> dict[str, KernelUsage]:
    """Resources per kernel from the log of `assemble`."""
    heads = list(_COMPILING.finditer(log))
    usage: dict[str, KernelUsage] = {}
    for head, end in zip(heads, [*(h.start() for h in heads[1:]), len(log)], strict=False):
        part = log[head.end() : end]
        numbers = {name: int(match[1]) for name, pattern in _NUMBERS.items() if (match := pattern.search(part))}
        usage[head[1]] = KernelUsage(**numbers)
    return usage
