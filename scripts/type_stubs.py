"""Write the stubs of the packages that resolve their names on first use, from the tables they resolve them by.

    python scripts/type_stubs.py            write them
    python scripts/type_stubs.py --check    say which are out of date; exit status 1 if one is

A type checker reads `__init__.pyi` instead of `__init__.py`, so it knows every name, and that others do not exist.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"

HEADER = '''"""{title}

Written by scripts/type_stubs.py; change the tables of the package and run it again.
"""
'''
WIDTH = 120
GIVEN = ("Tensor", "Pointer", "Stream")
"""Classes of parameters that a host value may stand for in a call, beside the scalars."""


def imported(where: str, names: list[str]) -> Iterator[str]:
    """Names that the package has from a module of its own."""
    given = [f"{name} as {name}" for name in sorted(names)]
    line = f"from {where} import {', '.join(given)}"
    if len(line) <= WIDTH:
        yield line
        return
    yield f"from {where} import ("
    line = "   "
    for each in given:
        if len(line) + len(each) + 2 > WIDTH:
            yield line
            line = "   "
        line += f" {each},"
    yield line
    yield ")"


def expr_stub() -> str:
    """`flydsl.expr`: what it offers, with the classes of parameters as a caller and as a kernel see them."""
    import flydsl.expr as fx
    from flydsl.expr.numeric import Numeric
    from flydsl.expr.vector import ALIASES

    lines = [HEADER.format(title="The language, `import flydsl.expr as fx`, for type checkers.")]
    submodules = sorted(fx._SUBMODULES)  # pyright: ignore[reportPrivateUsage]
    for name in submodules:
        lines.append(f"from . import {name} as {name}")
    for name, path in fx._ELSEWHERE.items():  # pyright: ignore[reportPrivateUsage]
        package, _, module = path.rpartition(".")
        lines.append(f"from {package} import {module} as {name}")
    given: list[tuple[str, str]] = []
    for module, text in fx._MODULES.items():  # pyright: ignore[reportPrivateUsage]
        names: list[str] = []
        for name in text.split():
            found = getattr(fx, name)
            concrete = isinstance(found, type) and issubclass(found, Numeric) and found.width
            (given.append((module, name)) if concrete or name in GIVEN else names.append(name))
        if names:
            lines += imported(f".{module}", names)
    lines += imported("flydsl.ir.enums", fx._ENUMS.split())  # pyright: ignore[reportPrivateUsage]
    lines.append("from typing import Any as _Any")
    lines.append("from .annotations import Given as _Given")
    for module, name in given:
        lines.append(f"from .{module} import {name} as _{name}")
    lines.append("")
    lines += [f"{name} = _Given[_{name}, _Any]" for _, name in given]
    lines.append("")
    lines += [f"class {name}(Vector): ..." for name in ALIASES]
    return "\n".join(lines) + "\n"


def table_stub(package: str, title: str) -> str:
    """A package whose `_WHERE` says in which module each name is."""
    loaded = import_module(package)
    modules: dict[str, list[str]] = {}
    for name, where in vars(loaded)["_WHERE"].items():
        modules.setdefault(where if where.startswith(".") else f".{where}", []).append(name)
    lines = [HEADER.format(title=title)]
    lines += [f"from . import {name} as {name}" for name in sorted(vars(loaded).get("_SUBMODULES", ()))]
    for where, names in sorted(modules.items()):
        lines += imported(where, names)
    return "\n".join(lines) + "\n"


def rocdl_stub() -> str:
    """`fx.rocdl`, which also makes matrix instructions by their names: `mfma_f32_16x16x16f16` and its like."""
    made = table_stub("flydsl.expr.rocdl", "`fx.rocdl`, for type checkers.")
    uses = """
from collections.abc import Callable, Sequence
from typing import Any

from ..annotations import ElementLike as _ElementLike
from ..annotations import ValueLike as _ValueLike

_ByName = Callable[[_ElementLike | None, Sequence[_ValueLike]], Any]

def __getattr__(name: str) -> _ByName: ...  # pyright: ignore[reportIncompleteStub]
"""
    return made + uses


def again_stub(title: str) -> str:
    """Another path to the names of `flydsl.expr`."""
    return HEADER.format(title=title) + "\nfrom flydsl.expr import *\n"


def stubs() -> dict[Path, str]:
    """Every stub by its file."""
    found = {
        "expr/__init__.pyi": expr_stub(),
        "expr/nvgpu/__init__.pyi": table_stub("flydsl.expr.nvgpu", "`fx.nvgpu`, for type checkers."),
        "expr/rocdl/__init__.pyi": rocdl_stub(),
        "compiler/__init__.pyi": table_stub(
            "flydsl.compiler", "The compiler, `import flydsl.compiler as flyc`, for type checkers."
        ),
    }
    for name in ("typing", "enum", "primitive", "derived"):
        found[f"expr/{name}.pyi"] = again_stub(f"`flydsl.expr.{name}`, for type checkers.")
    return {SOURCE / "flydsl" / name: text for name, text in found.items()}


def main(arguments: list[str]) -> int:
    """Write the stubs, or with `--check` compare them."""
    old = [file for file, text in stubs().items() if not file.exists() or file.read_text(encoding="utf-8") != text]
    for file in old:
        print(f"{'out of date' if '--check' in arguments else 'wrote'}: {file.relative_to(SOURCE.parent)}")
        if "--check" not in arguments:
            file.write_text(stubs()[file], encoding="utf-8")
    return int("--check" in arguments and bool(old))


if __name__ == "__main__":
    sys.path.insert(0, str(SOURCE))
    sys.exit(main(sys.argv[1:]))
