"""The layers of `src/flydsl`: each imports only those before it, and no modules import each other in a circle.

Every import counts, also those inside functions; only `if TYPE_CHECKING:` blocks do not run, so they are free.
Names resolved lazily from strings are not imports: that is how `flydsl.expr` offers `fx.coop` without depending on it.

The order is the one in which a kernel goes through the folders, with three exceptions. `llvm` and `runtime` stand
before `passes`, as `gpu-module-to-binary` is a pass and compiles. `cpu` stands after `runtime`, whose interface it
implements, and before `passes`, whose conversions for the cpu mix in its emulation. `testing` needs nothing but
`errors`, so that every layer's tests may use it.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"

ORDER = (
    "errors",
    "markup",
    "testing",
    "dict_version",
    "config",
    "trusted_files",
    "target",
    "layout",
    "ir",
    "dialects",
    "lowering",
    "llvm",
    "runtime",
    "cpu",
    "dist",
    "passes",
    "expr",
    "extension",
    "_mlir",
    "compiler.backends",
    "compiler",
    "debug",
    "autotune",
    "kernels",
    "torch",
    "jax",
    "tools",
    "__main__",
)
"""Lowest first. A layer may import those before it."""

ONLY = {
    "runtime": {"errors", "config", "target", "llvm"},
    "compiler.backends": {"errors", "config", "trusted_files", "target", "llvm", "runtime", "cpu"},
}
"""Layers that stand beside the order: they may import these and nothing else."""

ALIASES = {"utils": "config"}
"""Public names for a layer: `flydsl.utils.env` is `flydsl.config`."""

FACADE = "flydsl"
"""The package itself: it may name any layer, and offers `__version__` to all of them."""


@dataclass(frozen=True)
class Import:
    importer: str
    target: str
    names: tuple[str, ...]
    where: str
    deferred: bool
    """Inside a function: runs at call time, so it makes no cycle, but it is a dependency all the same."""


def layer_of(module: str) -> str:
    """The layer of a module; its own first name when the table does not know it."""
    path = module.removeprefix("flydsl").removeprefix(".")
    if not path:
        return FACADE
    for layer in sorted(ORDER, key=len, reverse=True):
        if path == layer or path.startswith(layer + "."):
            return layer
    first = path.split(".")[0]
    return ALIASES.get(first, first)


def allowed(layer: str) -> set[str]:
    if layer == FACADE:
        return set(ORDER)
    return {layer} | ONLY.get(layer, set(ORDER[: ORDER.index(layer)]))


def modules(src: Path) -> dict[str, Path]:
    """Dotted name -> file, for every module of the package."""
    found: dict[str, Path] = {}
    for file in sorted((src / "flydsl").rglob("*.py")):
        parts = file.relative_to(src).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")
"""Where a node has statements; expressions, most of a tree, hold none."""


def is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"


def statements(node: ast.AST, deferred: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Every import statement below `node` that can run, and whether it is inside a function."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node, deferred
    elif isinstance(node, ast.If) and is_type_checking(node.test):
        for child in node.orelse:
            yield from statements(child, deferred)
    else:
        inside = deferred or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for block in BLOCKS:
            for child in getattr(node, block, ()):
                yield from statements(child, inside)


def imports_of(module: str, file: Path, known: dict[str, Path]) -> Iterator[Import]:
    """Imports of this package's modules, resolved to the module that each statement loads."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node, deferred in statements(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        where = f"{file.relative_to(SRC.parent) if file.is_relative_to(SRC.parent) else file}:{node.lineno}"
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, (), where, deferred)
            continue
        base = node.module or ""
        if node.level:
            parents = package.split(".")
            base = ".".join([*parents[: len(parents) - node.level + 1], *([base] if base else [])])
        plain: list[str] = []
        for alias in node.names:
            submodule = f"{base}.{alias.name}"
            if submodule in known:
                yield Import(module, submodule, (), where, deferred)
            else:
                plain.append(alias.name)
        if plain:
            yield Import(module, base, tuple(plain), where, deferred)


@cache
def all_imports(src: Path) -> list[Import]:
    known = modules(src)
    return [
        found
        for module, file in known.items()
        for found in imports_of(module, file, known)
        if found.target.split(".")[0] == "flydsl" and found.target != module
    ]


def layer_violations(src: Path) -> list[str]:
    problems = [
        f"src/flydsl/{module.partition('.')[2].replace('.', '/')}: no layer is called '{layer_of(module)}'; "
        f"the layers are {', '.join(ORDER)}"
        for module in modules(src)
        if layer_of(module) not in (*ORDER, FACADE)
    ]
    for found in all_imports(src):
        importer, target = layer_of(found.importer), layer_of(found.target)
        if importer not in (*ORDER, FACADE):
            continue
        if target == FACADE:
            if found.names != ("__version__",):
                problems.append(
                    f"{found.where}: {found.importer} imports from the package `flydsl` itself; "
                    "import from the module that defines the name"
                )
        elif target not in allowed(importer):
            may = ", ".join(name for name in ORDER if name in allowed(importer) and name != importer)
            problems.append(
                f"{found.where}: {found.importer} (layer {importer}) imports {found.target} (layer {target}); "
                f"{importer} may import only: {may or 'nothing of flydsl'}"
            )
    return problems


def cycles(src: Path) -> list[list[str]]:
    """Import cycles through imports that run when the module is loaded, each as the list of its modules."""
    known = modules(src)
    graph: dict[str, set[str]] = {module: set() for module in known}
    for found in all_imports(src):
        if not found.deferred and found.target in known:
            graph[found.importer].add(found.target)

    done: set[str] = set()
    path: list[str] = []
    found_cycles: list[list[str]] = []

    def visit(module: str) -> None:
        if module in path:
            found_cycles.append([*path[path.index(module) :], module])
            return
        if module in done:
            return
        path.append(module)
        for target in sorted(graph[module]):
            visit(target)
        path.pop()
        done.add(module)

    for module in sorted(graph):
        visit(module)
    return found_cycles


def test_each_layer_imports_only_those_before_it():
    problems = layer_violations(SRC)
    assert not problems, "imports against the order of the layers:\n  " + "\n  ".join(problems)


def test_no_import_cycles():
    found = cycles(SRC)
    assert not found, "import cycles:\n  " + "\n  ".join(" -> ".join(cycle) for cycle in found)


# The check itself, on small trees.


def make_tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = root / "flydsl" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("layout/core.py", "from flydsl.dialects import fly", "layer layout.*flydsl.dialects.*layer dialects"),
        ("layout/core.py", "def f():\n    from ..expr import Tensor", "core.py:2: .*layer expr"),
        ("expr/typing.py", "from flydsl.extension import coop", "layer extension"),
        (
            "runtime/cuda.py",
            "from flydsl.dialects import fly",
            "may import only: errors, config, target, llvm$",
        ),
        ("compiler/backends/cpu.py", "from flydsl.compiler.cache import Cache", "layer compiler.backends"),
        ("compiler/backends/cpu.py", "from .. import cache", "layer compiler\\)"),
        ("errors.py", "import flydsl.config", "may import only: nothing of flydsl"),
        ("expr/typing.py", "from flydsl import Config", "import from the module that defines the name"),
        ("helpers/text.py", "", "no layer is called 'helpers'"),
    ],
)
def test_layer_check_finds(tmp_path: Path, file: str, text: str, complaint: str):
    known = {
        "compiler/__init__.py": "",
        "compiler/cache/__init__.py": "",
        "extension/__init__.py": "",
        "dialects/fly.py": "",
    }
    problems = layer_violations(make_tree(tmp_path, {**known, file: text}))
    assert len(problems) == 1
    with pytest.raises(AssertionError, match=complaint):
        raise AssertionError(problems[0])


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("layout/core.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from flydsl.expr import Tensor"),
        ("runtime/cuda.py", "from flydsl.llvm import binding\nfrom ..config import env"),
        ("compiler/jit.py", "from .backends import get_backend\nfrom flydsl.expr import Tensor"),
        ("compiler/cache/__init__.py", "from flydsl import __version__"),
        ("expr/__init__.py", "LAZY = {'coop': 'flydsl.extension.coop'}"),
        ("passes/convert.py", "from flydsl.utils import env\nimport xdsl.ir"),
        ("utils/env.py", "from flydsl.config import *"),
    ],
)
def test_layer_check_accepts(tmp_path: Path, file: str, text: str):
    assert layer_violations(make_tree(tmp_path, {file: text})) == []


def test_cycle_check(tmp_path: Path):
    files = {
        "layout/__init__.py": "from .tuples import a",
        "layout/tuples.py": "from .tiling import b",
        "layout/tiling.py": "from . import tuples",
        "layout/later.py": "def f():\n    from . import sooner",
        "layout/sooner.py": "from . import later",
    }
    assert cycles(make_tree(tmp_path, files)) == [
        ["flydsl.layout.tuples", "flydsl.layout.tiling", "flydsl.layout.tuples"]
    ]


MOST_FILES = 25
"""More beside each other are a folder that does not say what it holds."""


def crowded(src: Path) -> list[str]:
    """Folders of the package with more files than that; those of data count, too, stubs do not."""
    return [
        f"{folder.relative_to(src)}: {len(files)} files"
        for folder in [src / "flydsl", *sorted((src / "flydsl").rglob("*/"))]
        if folder.name != "__pycache__"
        and len(files := [f for f in folder.iterdir() if f.is_file() and f.suffix not in (".pyc", ".pyi")]) > MOST_FILES
    ]


def test_no_folder_is_crowded():
    found = crowded(SRC)
    assert not found, f"more than {MOST_FILES} files beside each other:\n  " + "\n  ".join(found)


def test_crowd_check(tmp_path: Path):
    make_tree(tmp_path, {f"passes/p{i}.py": "" for i in range(25)})
    assert crowded(tmp_path) == []
    make_tree(tmp_path, {"passes/one_more.json": "", "layout/core.py": ""})
    assert crowded(tmp_path) == ["flydsl/passes: 26 files"]
