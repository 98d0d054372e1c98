#!/usr/bin/env python3
"""Writes the pages of `docs/api`: for each package the public names, by the module that defines them.

mkdocstrings puts the docstrings there when the site is built. `python scripts/api_pages.py --check` says whether the
pages are current: a name that was added to a package has to be on one.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "api"

PACKAGES = {
    "expr": ("flydsl.expr", "What kernels are written in: `import flydsl.expr as fx`."),
    "nvgpu": ("flydsl.expr.nvgpu", "What only NVIDIA GPUs have, `fx.nvgpu`; [in context](../cuda.md)."),
    "rocdl": ("flydsl.expr.rocdl", "What only AMD GPUs have, `fx.rocdl`; [in context](../rocm.md)."),
    "compiler": ("flydsl.compiler", "Decorators, compiling, arguments: `import flydsl.compiler as flyc`."),
    "layout": ("flydsl.layout", "The layout algebra on plain numbers; [in context](../reference/layouts.md)."),
    "runtime": ("flydsl.runtime", "Devices, streams, events, buffers; [in context](../runtimes.md)."),
    "kernels": ("flydsl.kernels", "Kernels to call on numpy and torch arrays."),
    "torch": ("flydsl.torch", "Operators and modules of torch; [in context](../torch.md)."),
    "autotune": ("flydsl.autotune", "The best configuration of a kernel; [in context](../tuning.md)."),
    "testing": ("flydsl.testing", "Comparing and timing kernels; [in context](../tuning.md)."),
    "errors": ("flydsl.errors", "Everything that is raised on purpose."),
}
EXTRA = {"expr": ["flydsl.extension.coop", "flydsl.extension.random"]}
"""Modules that are reached through a package and documented with it."""


def public(package: ModuleType) -> list[str]:
    """Names a package offers."""
    listed: list[str] | None = getattr(package, "__all__", None)
    return sorted(listed or [name for name in dir(package) if not name.startswith("_")])


def by_module(package: str) -> dict[str, list[str]]:
    """Classes and functions of a package, by the module that defines them."""
    found: dict[str, list[str]] = {}
    module = import_module(package)
    for name in public(module):
        value = getattr(module, name)
        home = getattr(value, "__module__", None)
        own = inspect.isclass(value) or inspect.isroutine(value) or type(value).__module__.startswith("flydsl")
        if isinstance(home, str) and home.startswith("flydsl") and own and not isinstance(value, ModuleType):
            if vars(import_module(home)).get(name) is value:
                found.setdefault(home, []).append(name)
    return dict(sorted(found.items()))


def page(name: str) -> str:
    """The text of a page."""
    package, words = PACKAGES[name]
    parts = [f"# {package}\n\n{words} Made from the docstrings; `help()` of a name shows the same.\n"]
    homes = by_module(package)
    for extra in EXTRA.get(name, []):
        for home, names in by_module(extra).items():
            homes.setdefault(home, []).extend(n for n in names if n not in homes.get(home, []))
    if name != "errors":
        homes.pop("flydsl.errors", None)  # they have a page of their own
    for home, names in homes.items():
        members = ", ".join(names)
        parts.append(
            f"## {home}\n\n::: {home}\n    options:\n      heading_level: 2\n      show_root_heading: false\n"
            f"      show_root_toc_entry: false\n      members: [{members}]\n"
        )
    return "\n".join(parts)


def main() -> int:
    pages = {FOLDER / f"{name}.md": page(name) for name in PACKAGES}
    if "--check" in sys.argv:
        stale = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not current: run python scripts/api_pages.py")
        return bool(stale)
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
