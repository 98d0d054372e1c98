"""Constant texts of the cpu stack: what its reports say."""

from __future__ import annotations

from .module_text import ModuleText
from .spelling import quoted


def string_constant(module: ModuleText, text: str) -> str:
    """Address of a zero-terminated constant, made once per text."""
    data = text.encode() + b"\0"
    tail = f"unnamed_addr constant [{len(data)} x i8] c{quoted(data)}, align 1"
    for line in module.globals:
        if line.endswith(tail):
            return line.split(" = ")[0]
    name = f"@text.{len(module.globals)}"
    module.globals.append(f"{name} = private {tail}")
    return name
