"""Nobody but the table knows architectures, and nobody but a stack's own modules knows its name.

Both tests read the syntax trees. Docstrings are not looked at (they may show examples), comments are not in the tree;
every other string counts, also the pieces of f-strings. A string names an architecture if `gfx` or `sm` and a digit
stand in it, unless they end a longer name (`gemm_sm80`). The `name` of an op, a type or an attribute is exempt:
`fly_rocdl.gfx1250.tdm` is what the language calls it. A comparison is `==`, `!=`, `in`, `not in` or a `match` with the
id of a built-in stack, or of the dialect it compiles to, on either side.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src" / "flydsl"

ARCHITECTURE = re.compile(r"(?<![A-Za-z_])(gfx\d|sm_?\d)")
STACKS = {"rocm", "cuda", "cpu", "rocdl", "nvvm"}
PREFIXES = {"gfx", "sm_", "amdgcn", "amdgpu", "nvptx", "nvptx64"}
"""What names of architectures, or LLVM's triples of them, start with."""

MAY_NAME_ARCHITECTURES = {
    "target/architectures.py": "the table",
    "target/machines.py": "the table of GPUs by their rates",
    "config.py": "what `fly env` and docs/environment.md say of FLYDSL_COMPILE_ARCH",
}
MAY_COMPARE_NAMES = {
    "target/": "which spelling belongs to which stack",
    "compiler/backends/": "each backend knows its own name",
    "runtime/": "the registry of runtimes, and the runtimes",
}


def docstrings(tree: ast.AST) -> set[int]:
    """Ids of the string constants that are statements of their own: docstrings, also those below a field."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def ir_names(tree: ast.AST) -> set[int]:
    """Ids of what is assigned to `name` in a class."""
    return {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.Assign)
        and [t.id for t in statement.targets if isinstance(t, ast.Name)] == ["name"]
    }


def named_architectures(tree: ast.AST) -> Iterator[tuple[int, str]]:
    exempt = docstrings(tree) | ir_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in exempt:
            if ARCHITECTURE.search(node.value):
                yield node.lineno, node.value


def _texts(node: ast.AST) -> Iterator[str]:
    """The strings an operand of a comparison is, or is a collection of."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        for item in node.elts:
            yield from _texts(item)


MAY_ASK_FOR_PREFIXES = {
    "target/": "which spelling belongs to which stack",
    "compiler/backends/": "each backend knows its own names",
    "runtime/detect.py": "names that a vendor's tool prints",
    "llvm/codegen.py": "LLVM's target machine: what it can emit",
    "llvm/bitcode.py": "libraries as LLVM's linker takes them",
}


def asked_prefixes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """`x.startswith("gfx")`, which is a comparison with names as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            for text in (text for argument in node.args for text in _texts(argument)):
                if text in PREFIXES:
                    yield node.lineno, text


def compared_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        parts: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        for part in parts:
            for text in _texts(part):
                if text in STACKS:
                    yield node.lineno, text


STACK = re.compile("|".join(f"[\"']{name}[\"']" for name in sorted(STACKS)))


def files(exempt: dict[str, str], wanted: re.Pattern[str]) -> Iterator[tuple[str, ast.Module]]:
    """Those whose text has what is looked for at all."""
    for file in sorted(SRC.rglob("*.py")):
        path, text = file.relative_to(SRC).as_posix(), file.read_text(encoding="utf-8")
        if not path.startswith(tuple(exempt)) and wanted.search(text):
            yield path, ast.parse(text)


def test_only_the_table_knows_architectures():
    found = [
        f"src/flydsl/{path}:{line}: {text[:60]!r}"
        for path, tree in files(MAY_NAME_ARCHITECTURES, ARCHITECTURE)
        for line, text in named_architectures(tree)
    ]
    assert not found, "ask flydsl.target for a feature instead of an architecture:\n  " + "\n  ".join(found)


def test_only_a_stack_compares_its_name():
    found = [
        f"src/flydsl/{path}:{line}: {text!r}"
        for path, tree in files(MAY_COMPARE_NAMES, STACK)
        for line, text in compared_names(tree)
    ]
    assert not found, "ask target.on_host or target.has(...) instead of a name:\n  " + "\n  ".join(found)


def test_nobody_asks_how_a_name_starts():
    found = [
        f"src/flydsl/{path}:{line}: {text!r}"
        for path, tree in files(MAY_ASK_FOR_PREFIXES, re.compile("startswith"))
        for line, text in asked_prefixes(tree)
    ]
    assert not found, "ask target.has(...) or the function's Abi instead of a name:\n  " + "\n  ".join(found)


@pytest.mark.parametrize("where", [*MAY_NAME_ARCHITECTURES, *MAY_COMPARE_NAMES, *MAY_ASK_FOR_PREFIXES])
def test_exceptions_exist(where: str):
    assert (SRC / where).exists()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = 'gfx942'", ["gfx942"]),
        ("x = f'{y} needs sm_90'", [" needs sm_90"]),
        ("f('sm90')", ["sm90"]),
        ("def f():\n    'On gfx942.'", []),
        ("class A:\n    x: int\n    'Of sm_90.'", []),
        ("class A:\n    name = 'fly_rocdl.gfx11.wmma'\n    other = 'gfx11'", ["gfx11"]),
        ("x = 'asm_1 and prism_2'", []),
        ("# gfx942\nx = 'gfx'", []),
    ],
)
def test_the_search_for_architectures(text: str, found: list[str]):
    assert [what for _, what in named_architectures(ast.parse(text))] == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x == 'cpu'", ["cpu"]),
        ("'rocm' != x", ["rocm"]),
        ("x in ('cuda', y)", ["cuda"]),
        ("x not in ['nvvm']", ["nvvm"]),
        ("match x:\n    case 'cpu': pass", ["cpu"]),
        ("f('cpu')", []),
        ("{'cpu': 1}[x]", []),
        ("x == 'cpus'", []),
    ],
)
def test_the_search_for_comparisons(text: str, found: list[str]):
    assert [what for _, what in compared_names(ast.parse(text))] == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x.startswith('gfx')", ["gfx"]),
        ("x.y.startswith(('a', 'nvptx'))", ["nvptx"]),
        ("x.startswith('nvvm.')", []),
        ("x.endswith('gfx')", []),
    ],
)
def test_the_search_for_prefixes(text: str, found: list[str]):
    assert [what for _, what in asked_prefixes(ast.parse(text))] == found
