"""A compiled artifact as a notebook shows it: what its kernels use, and its texts, the assembly under its lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import DSLValueError
from ...llvm.text.source_lines import annotate_assembly
from ...markup import code, folded, heading, table

if TYPE_CHECKING:
    from .artifact import CompiledArtifact

_TEXTS = {"llvm_opt": "LLVM IR, optimised", "llvm": "LLVM IR, as written", "fly": "traced IR"}


def artifact_html(artifact: CompiledArtifact) -> str:
    fields = artifact.metadata.get("target")
    where = f"for {artifact.target.key()}" if fields else ""
    sizes = ", ".join(f"{ext} {len(data)} B" for ext, data in artifact.binaries.items())
    parts = [heading(artifact.name, f"{where} · {sizes}"), _resources(artifact)]
    asm = _text(artifact, "asm")
    if asm:
        annotated = annotate_assembly(asm)
        title = "assembly" if annotated is None else "assembly, under the lines it comes from"
        parts.append(folded(f"{title} ({asm.count(chr(10))} lines)", code(annotated or asm)))
    for name, title in _TEXTS.items():
        text = _text(artifact, name)
        if text:
            parts.append(folded(f"{title} ({text.count(chr(10))} lines)", code(text)))
    return "".join(parts)


def _text(artifact: CompiledArtifact, name: str) -> str:
    """A text of it; empty where it was stored without."""
    try:
        return artifact.text(name)
    except DSLValueError:
        return ""


def _resources(artifact: CompiledArtifact) -> str:
    found = artifact.resources
    names = dict.fromkeys(
        name for uses in found.values() for name, value in uses.items() if isinstance(value, (int, str))
    )
    rows = [[kernel, *(uses.get(name, "–") for name in names)] for kernel, uses in found.items()]
    return table(["kernel", *(name.replace("_", " ") for name in names)], rows) if rows else ""
