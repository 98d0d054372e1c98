"""Steps of code generation the built-in backends share: attributes on kernels in IR text, refusals, host tools."""

from __future__ import annotations

import re

from flydsl.compiler.backends._fingerprint import file_digest
from flydsl.compiler.backends._hints import Options
from flydsl.compiler.backends.base import Tool
from flydsl.errors import NotSupportedError


def refuse_llvm_options(kind: str, options: Options) -> None:
    """LLVM's command-line options are global to the process and cannot be undone in llvmlite, so none is set."""
    if options.llvm_options:
        names = ", ".join(name for name, _ in options.llvm_options)
        raise NotSupportedError(
            kind, f"the hint llvm_options ({names})", "it needs an external code generator (custom_passes.run_flow)"
        )


def add_kernel_attributes(llvm_ir: str, convention: str, attributes: dict[str, str]) -> str:
    """Put string attributes on every kernel definition; one the text already mentions is left alone."""
    wanted = {name: value for name, value in attributes.items() if f'"{name}"' not in llvm_ir}
    if not wanted:
        return llvm_ir
    text = " ".join(f'"{name}"="{value}"' for name, value in wanted.items())
    pieces: list[str] = []
    position = 0
    kernel = re.compile(rf"^define\b[^@\n]*\b{convention}\b[^@\n]*@(?:\"[^\"]*\"|[\w.$-]+)\(", re.MULTILINE)
    for match in kernel.finditer(llvm_ir):
        end = _closing_parenthesis(llvm_ir, match.end())
        pieces += (llvm_ir[position:end], f" {text}")
        position = end
    return "".join((*pieces, llvm_ir[position:]))


def mark_noalias(llvm_ir: str, convention: str) -> str:
    """Tell LLVM that the pointers a kernel is given lead to different memory."""
    return re.sub(
        rf"^define\b[^@\n]*\b{convention}\b.*$",
        lambda match: re.sub(r"\bptr addrspace\(1\)(?! noalias)", "ptr addrspace(1) noalias", match[0]),
        llvm_ir,
        flags=re.MULTILINE,
    )


def _closing_parenthesis(text: str, start: int) -> int:
    """The position after the parenthesis that closes the one before `start`; quoted text does not count."""
    depth, quoted = 1, False
    for index in range(start, len(text)):
        char = text[index]
        if char == '"':
            quoted = not quoted
        elif not quoted and char in "()":
            depth += 1 if char == "(" else -1
            if not depth:
                return index + 1
    raise ValueError("unbalanced parentheses in LLVM IR text")


def tool_identity(name: str) -> Tool | None:
    """Name, version and content hash of an external tool, or None where there is none."""
    from flydsl.llvm import tools

    found = tools.try_find_tool(name)
    if found is None:
        return None
    return Tool(name, ".".join(map(str, found.version)), file_digest(found.path))
