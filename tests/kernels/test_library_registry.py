"""Every kernel of the library has a call."""

from __future__ import annotations

import ast
from pathlib import Path

from .library.calls import claimed_kernels, library_kernels

ROOT = Path(__file__).parents[2]


def test_every_kernel_of_the_library_has_a_call():
    kernels, claimed = set(library_kernels()), claimed_kernels()
    assert len(claimed) >= 80
    assert not kernels - claimed, "tests/kernels/library/calls has no call of these"
    assert not claimed - kernels, "kernels that there are none of"


def test_kernels_are_found_wherever_they_are_defined():
    """None is inside of a function, where nobody sees it."""
    folder = ROOT / "src" / "flydsl" / "kernels"
    written = {
        ".".join((*file.relative_to(folder).with_suffix("").parts, node.name))
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(x).partition("(")[0] in ("flyc.kernel", "kernel") for x in node.decorator_list)
    }
    assert written == set(library_kernels())
