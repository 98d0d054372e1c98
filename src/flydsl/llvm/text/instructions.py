"""Ops of `rocdl` and `nvvm` as calls of LLVM's intrinsics; their tables say which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Attribute, Operation

from ...dialects.upstream import llvm, nvvm, rocdl
from ...dialects.upstream.keyword_attr import KeywordAttr
from ...dialects.upstream.table_ops import TableOp
from ...ir.builder import i64
from ...ir.dead_code import is_pure
from ...lowering.rules.rocdl_rules import launch_size
from .function_text import FunctionText, Handler
from .memory_ops import scope_of_read
from .spelling import mangle, type_text


def intrinsic_name(op: TableOp) -> str:
    """The intrinsic of an op with the types LLVM appends."""
    words = {k: v.data for k, v in op.properties.items() if isinstance(v, KeywordAttr)}
    if "{" not in op.row.intrinsic:
        return op.row.intrinsic
    return op.row.intrinsic.format(
        *(mangle(a.type) if _simple(a.type) else "" for a in op.args),
        r=mangle(op.res[0].type) if op.res and _simple(op.res[0].type) else "",
        **words,
    )


def _simple(type_: Attribute) -> bool:
    return not isinstance(type_, llvm.StructType)


def _arguments(f: FunctionText, op: TableOp) -> list[tuple[str, str]]:
    """Types and values in the order of the intrinsic, which mostly is that of the op's text."""
    if op.row.call:
        return [_argument(f, op, word) for word in op.row.call]
    values = iter(op.args)
    found: list[tuple[str, str]] = []
    for item in op.row.items:
        if item.kind == "operand":
            value = next(values)
            found.append((type_text(value.type), f.names[value]))
        elif item.kind == "number":
            found.append(_number(op, item.name))
    return found


def _argument(f: FunctionText, op: TableOp, word: str) -> tuple[str, str]:
    """An argument by its word in `Row.call`."""
    if word.isdigit():
        value = op.args[int(word)]
        return type_text(value.type), f.names[value]
    return ("i1", "true" if int(word[1:]) else "false") if word.startswith("=") else _number(op, word)


def _number(op: Operation, name: str, default: int = 0) -> tuple[str, str]:
    attr: Any = op.properties.get(name)
    if attr is None:
        return "i1", "true" if default else "false"
    kind = type_text(attr.type)
    return kind, ("true" if attr.value.data else "false") if kind == "i1" else str(attr.value.data)


def _facts(op: TableOp) -> str:
    """What is known of the result, for a call."""
    found = op.properties.get("range")
    words: list[str] = []
    ranges: list[Any] = [found] if found is not None else []
    attrs: Any = op.properties.get("res_attrs")
    if attrs is not None:
        facts = attrs.data[0].data
        words += ["noundef"] if "llvm.noundef" in facts else []
        ranges += [facts["llvm.range"]] if "llvm.range" in facts else []
    words += [f"range(i{r.data[0]} {r.data[1]}, {r.data[2]})" for r in ranges]
    return "".join(f"{w} " for w in words)


def emit(f: FunctionText, op: TableOp, name: str, arguments: list[tuple[str, str]]) -> None:
    """A call of an intrinsic with the op's result."""
    params, values = [t for t, _ in arguments], [v for _, v in arguments]
    if not op.res:
        f.call_void(name, params, values)
        return
    text = f.call_text(name, type_text(op.res[0].type), params, values, _facts(op))
    f.names[op.res[0]] = f.pure(text) if is_pure(type(op)) else f.assign(text + scope_of_read(f, op))


def _plain(f: FunctionText, op: TableOp) -> None:
    emit(f, op, intrinsic_name(op), _arguments(f, op))


def _dimension(f: FunctionText, op: TableOp) -> None:
    """Sizes of blocks and grids are read from the kernel's implicit arguments."""
    what, _, dim = op.name.removeprefix("rocdl.").partition(".dim.")
    size = launch_size(f, what, dim)
    f.names[op.res[0]] = f.cast("trunc", size, i64, op.res[0].type)


def _load_lds(f: FunctionText, op: TableOp) -> None:
    """The instruction adds its immediate to both addresses; one that is no literal is added here."""
    arguments = _arguments(f, op)
    rsrc, at, size, offset, soffset, immediate, aux = arguments
    if immediate[1].startswith("%"):
        moved = f.assign(f"getelementptr i8, {at[0]} {at[1]}, {immediate[0]} {immediate[1]}")
        further = f.assign(f"add i32 {offset[1]}, {immediate[1]}")
        arguments = [rsrc, (at[0], moved), size, ("i32", further), soffset, ("i32", "0"), aux]
    emit(f, op, intrinsic_name(op), arguments)


def _barrier0(f: FunctionText, op: TableOp) -> None:
    f.call_void("llvm.nvvm.barrier.cta.sync.aligned.all", ["i32"], ["0"])


def _elect(f: FunctionText, op: TableOp) -> None:
    pair = f.intrinsic("llvm.nvvm.elect.sync", "{ i32, i1 }", ["i32"], ["-1"])
    f.names[op.res[0]] = f.assign(f"extractvalue {{ i32, i1 }} {pair}, 1")


_SPECIAL: dict[str, Callable[[FunctionText, Any], None]] = {
    **{f"rocdl.{what}.dim.{d}": _dimension for what in ("workgroup", "grid") for d in "xyz"},
    **{f"rocdl.raw.ptr.buffer.load.{kind}": _load_lds for kind in ("lds", "async.lds")},
    "nvvm.barrier0": _barrier0,
    "nvvm.elect.sync": _elect,
}

INSTRUCTIONS: dict[type[Operation], Handler] = {op: _SPECIAL.get(op.name, _plain) for op in (*rocdl.OPS, *nvvm.OPS)}
"""Op class to the function that writes it."""
