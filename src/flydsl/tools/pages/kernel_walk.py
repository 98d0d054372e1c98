"""The way of one kernel in docs/architecture.md, as the compiler goes it.

python -m flydsl.tools.pages.kernel_walk examples/vector_add.py rocm:gfx942 docs/architecture.md
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from flydsl.tools.script_runs import compiled_by

BEGIN, END = "<!-- walk: begin -->", "<!-- walk: end -->"
_CONVERSION = "convert-fly-to-"
_SHOWN = ("origin", "fly-layout-lowering")
_INSTRUCTION = re.compile(r"\t[a-z]")


def _function(text: str, head: str, end: str) -> str:
    """The first function in a text: from the line that starts with `head` to the one that is `end`, unindented."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.lstrip().startswith(head))
    indent = len(lines[first]) - len(lines[first].lstrip())
    last = next(i for i in range(first, len(lines)) if lines[i] == " " * indent + end)
    return "\n".join(line[indent:] for line in lines[first : last + 1])


def _instructions(assembly: str) -> str:
    """The instructions of the first kernel."""
    found: list[str] = []
    for line in assembly.splitlines():
        if _INSTRUCTION.match(line):
            found.append(" ".join(line.partition(";")[0].split()))
        elif found and line.strip().startswith(".section"):
            break
    return "\n".join(found)


def _block(title: str, language: str, text: str) -> str:
    return f"{title}\n\n```{language}\n{text}\n```\n"


def walk(script: Path, target: str) -> str:
    """What becomes of the first kernel of a script."""
    (made, *_) = compiled_by(script, target, watch=_kernel)
    parts: list[str] = []
    for name, text in made.stages:
        if name in _SHOWN or name.startswith(_CONVERSION):
            title = "As it was traced:" if name == "origin" else f"After `{name}`:"
            parts.append(_block(title, "mlir", text))
        if name.startswith(_CONVERSION):
            break
    tail = r" #\d+( !reqd_work_group_size !\d+)? \{$"
    llvm_ir = re.sub(tail, " {", _function(made.artifact.llvm_ir, "define", "}"), flags=re.MULTILINE)
    parts.append(_block("The LLVM IR it is handed over as:", "llvm", llvm_ir))
    parts.append(_block("And the instructions:", "text", _instructions(made.artifact.asm)))
    return "\n".join(parts)


def _kernel(name: str, module: ModuleOp) -> str:
    """The first kernel of a module, as text; empty where it has none any more."""
    text = str(module)
    return _function(text, "gpu.func", "}") if "gpu.func" in text else ""


def with_walk(text: str, script: Path, target: str) -> str:
    """A page with the walk between its two marks."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{walk(script, target)}{END}{after}"


def main() -> None:
    """Bring the walk of a page up to date."""
    script, target, page = sys.argv[1:]
    path = Path(page)
    path.write_text(with_walk(path.read_text(), Path(script), target))


if __name__ == "__main__":
    main()
