"""Printing as text: format strings as constants, and calls of the C library's printf."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from .translate import FunctionText, ModuleText, type_text


def string_constant(module: ModuleText, text: str, space: int = 0) -> str:
    """Address of a zero-terminated constant, made once per text."""
    data = text.encode() + b"\0"
    escaped = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in data)
    where = f" addrspace({space})" if space else ""
    tail = f'unnamed_addr{where} constant [{len(data)} x i8] c"{escaped}", align 1'
    for line in module.globals:
        if line.endswith(tail):
            return line.split(" = ")[0]
    name = f"@text.{len(module.globals)}"
    module.globals.append(f"{name} = private {tail}")
    return name


def promoted(f: FunctionText, values: Sequence[SSAValue]) -> list[tuple[str, str]]:
    """Type and name of values as C passes them to a function of any arguments."""
    found: list[tuple[str, str]] = []
    for value in values:
        t, name = type_text(value.type), f.names[value]
        if t in ("half", "bfloat", "float"):
            t, name = "double", f.assign(f"fpext {t} {name} to double")
        elif isinstance(value.type, IntegerType) and int(t[1:]) < 32:
            word = "zext" if t == "i1" else "sext"
            t, name = "i32", f.assign(f"{word} {t} {name} to i32")
        found.append((t, name))
    return found


def call_printf(f: FunctionText, text: str, values: Sequence[SSAValue]) -> None:
    """Print through the C library and flush, so that the output is there when the kernel fails later."""
    address = string_constant(f.module, text)
    f.module.declare("printf", "i32", ["ptr", "..."])
    f.module.declare("fflush", "i32", ["ptr"])
    args = "".join(f", {t} {name}" for t, name in promoted(f, values))
    f.assign(f"call i32 (ptr, ...) @printf(ptr {address}{args})")
    f.assign("call i32 @fflush(ptr null)")


def call_vprintf(f: FunctionText, text: str, values: Sequence[SSAValue]) -> None:
    """Print through the CUDA driver: the arguments lie in a struct on the stack."""
    address = string_constant(f.module, text, 1)
    generic = f.assign(f"addrspacecast ptr addrspace(1) {address} to ptr")
    args = promoted(f, values)
    room = "null"
    if args:
        struct = f"{{ {', '.join(t for t, _ in args)} }}"
        room = f"%print{len(f.lines)}"
        f.lines.insert(1, f"  {room} = alloca {struct}, align 8")
        for i, (t, name) in enumerate(args):
            at = f.assign(f"getelementptr inbounds {struct}, ptr {room}, i32 0, i32 {i}")
            f.line(f"store {t} {name}, ptr {at}")
    f.module.declare("vprintf", "i32", ["ptr", "ptr"])
    f.assign(f"call i32 @vprintf(ptr {generic}, ptr {room})")
