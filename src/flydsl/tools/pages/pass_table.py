"""The table of passes in docs/pipeline.md, made from the registry.

python -m flydsl.tools.pages.pass_table docs/pipeline.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from ...compiler.backends import get_backend
from ...passes import PASSES, pass_class
from ...passes.base import Pass
from ...passes.pipeline import pass_names
from ...target import CPU_NATIVE, USUAL

STACKS = {**USUAL, "cpu": CPU_NATIVE}
BEGIN, END = "<!-- passes: begin -->", "<!-- passes: end -->"


def pipeline_of(stack: str) -> list[str]:
    """Names of the passes of a stack in order; code generation is left out."""
    fragments, _ = get_backend(stack, arch=STACKS[stack]).external_binary_pipeline_fragments(compile_hints={})
    return [name for fragment in fragments for name in pass_names(fragment)]


def _places(name: str, order: list[str]) -> str:
    """Where a pass stands in a pipeline."""
    return ", ".join(str(i) for i, other in enumerate(order, 1) if other == name) or "–"


def _summary(cls: type[Pass]) -> str:
    return (cls.__doc__ or "").splitlines()[0]


def pass_table() -> str:
    """Every pass: what it does, what it needs, and its place in the pipeline of each stack."""
    orders = {stack: pipeline_of(stack) for stack in STACKS}
    lines = [f"| pass | what it does | needs | {' | '.join(STACKS)} |", "|---|---|---|" + "---|" * len(STACKS)]
    for name in PASSES:
        cls = pass_class(name)
        places = " | ".join(_places(name, order) for order in orders.values())
        lines.append(f"| `{name}` | {_summary(cls)} | {cls.needs or '–'} | {places} |")
    return "\n".join(lines)


def with_table(text: str) -> str:
    """A page with the table between its two marks."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{pass_table()}\n{END}{after}"


def main() -> None:
    """Bring the table of a page up to date."""
    path = Path(sys.argv[1])
    path.write_text(with_table(path.read_text()))


if __name__ == "__main__":
    main()
