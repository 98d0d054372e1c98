"""Write down the public names of an installed FlyDSL: run it with the Python of an environment that has FlyDSL.

    python scripts/flydsl_names.py tests/unit/surface/flydsl_names.json

Facts only: modules, names, parameters, members. A name is public where its module lists it in `__all__`, defines it, or
is one of the packages that authors reach everything through. What the MLIR bindings or the standard library define is
left out, and so are the modules in which FlyDSL's own compiler is written. The raw instructions that `fx.rocdl` and
`fx.arith` pass on from the bindings are kept apart, under "raw".
"""

from __future__ import annotations

import enum
import inspect
import json
import pkgutil
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

FLAT = ("flydsl.expr", "flydsl.expr.arith", "flydsl.expr.gpu", "flydsl.expr.rocdl")
"""Packages whose names are those of their parts, without an `__all__` that says all of them."""

INTERNAL = (
    "flydsl.compiler.ast_rewriter",
    "flydsl.compiler.external_llvm",
    "flydsl.compiler.jit_executor",
    "flydsl.compiler.link_utils",
    "flydsl.compiler.llvm_options",
    "flydsl.compiler.mlir_utils",
    "flydsl.compiler.backends.ktrace",
    "flydsl.expr.ktrace_common",
    "flydsl.expr.rocdl.ktrace_emit",
    "flydsl.expr.rocdl.ktrace_format",
    "flydsl.runtime.device_runtime.rocm_ktrace_buffer",
)
MARK = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def modules(name: str) -> dict[str, ModuleType]:
    """A package and all under it whose names have no underscore in front."""
    found = {name: import_module(name)}
    for part in pkgutil.iter_modules(getattr(found[name], "__path__", ())):
        if not part.name.startswith("_"):
            found |= modules(f"{name}.{part.name}")
    return found


def parameters(function: object, skip: int = 0) -> str | None:
    """`(a, b=, *, c)`: names, defaults marked, as they are called."""
    try:
        given = list(inspect.signature(function).parameters.values())[skip:]  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        return None
    words: list[str] = []
    keyword_only = False
    for p in given:
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            if not any(w.startswith("*") for w in words):
                words.append("*")
            keyword_only = True
        if p.kind is p.VAR_POSITIONAL:
            keyword_only = True
        words.append(MARK.get(p.kind, "") + p.name + ("" if p.default is p.empty else "="))
        if p.kind is p.POSITIONAL_ONLY:
            words.append("/")
    words = [w for i, w in enumerate(words) if w != "/" or "/" not in words[i + 1 :]]
    return f"({', '.join(words)})"


def is_bound(home: str) -> bool:
    return home.startswith("flydsl") and not home.startswith("flydsl._mlir")


def members(cls: type) -> dict[str, str | None]:
    """What a class adds to its public bases."""
    found: dict[str, str | None] = {}
    for name in dir(cls):
        if name.startswith("_"):
            continue
        owner = next((c for c in cls.__mro__ if name in vars(c)), None)
        if owner is None or not is_bound(owner.__module__):
            continue
        here = getattr(sys.modules.get(owner.__module__), owner.__name__, None) is owner
        if owner is not cls and here and not owner.__name__.startswith("_"):
            continue
        raw = inspect.getattr_static(cls, name)
        if isinstance(raw, staticmethod):
            found[name] = parameters(raw.__func__)
        elif isinstance(raw, classmethod):
            found[name] = parameters(raw.__func__, 1)
        elif inspect.isfunction(raw):
            found[name] = parameters(raw, 1)
        else:
            found[name] = None
    return found


def fact(value: object) -> object:
    """What is known of one name."""
    if isinstance(value, ModuleType):
        return {"kind": "module"}
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return {"kind": "enum", "members": sorted(m.name for m in value)}
    if isinstance(value, type):
        return {"kind": "class", "call": parameters(value), "members": members(value)}
    if callable(value):
        return {"kind": "function", "call": parameters(value)}
    return {"kind": "value"}


def names(module: ModuleType) -> tuple[dict[str, object], dict[str, object]]:
    """Public names of a module, and the raw instructions it passes on."""
    listed = getattr(module, "__all__", None)
    own: dict[str, object] = {}
    raw: dict[str, object] = {}
    flat = module.__name__ in FLAT
    for name in sorted(set(dir(module)) | set(listed or ())):
        if name.startswith("_") or name == "TYPE_CHECKING":
            continue
        value = getattr(module, name)
        home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
        if home.startswith("flydsl._mlir"):
            if inspect.isfunction(value) and module.__name__ in ("flydsl.expr.rocdl", "flydsl.expr.arith"):
                raw[name] = fact(value)
            if not (listed and name in listed):
                continue
        elif home and not is_bound(str(home)):
            continue
        if isinstance(value, ModuleType) and (value.__name__ in INTERNAL or not (flat or listed and name in listed)):
            continue
        if flat or (name in listed if listed is not None else home in (module.__name__, "")):
            own[name] = fact(value)
    return own, raw


def main() -> None:
    """Write the file."""
    facts: dict[str, object] = {}
    raw: dict[str, object] = {}
    for name, module in modules("flydsl").items():
        if name in INTERNAL:
            continue
        own, instructions = names(module)
        if own:
            facts[name] = own
        if instructions:
            raw[name] = instructions
    version = import_module("flydsl").__version__
    lines = ["{", f'"version": {json.dumps(version)},']
    for title, table in (("names", facts), ("raw", raw)):
        lines.append(f'"{title}": {{')
        for i, (module, found) in enumerate(table.items()):
            assert isinstance(found, dict)
            lines.append(f"{json.dumps(module)}: {{")
            body = [f"{json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in found.items()]
            lines.append(",\n".join(body))
            lines.append("}" + ("," if i + 1 < len(table) else ""))
        lines.append("}" + ("," if title == "names" else ""))
    lines.append("}")
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
