"""Heads of functions, declarations and globals as LLVM IR text, from the attributes of ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute

from ...dialects.upstream import llvm
from ...errors import DSLCompileError
from ...ir.builder import elem_of
from .module_text import text_line
from .shared_memory import SHARED_SPACES, allocation_of
from .spelling import literal, quoted, symbol, type_text

_FLAG_ATTRIBUTES = {
    "llvm.noundef": "noundef", "llvm.noalias": "noalias", "llvm.readonly": "readonly", "llvm.nonnull": "nonnull",
    "llvm.writeonly": "writeonly", "llvm.nofree": "nofree", "llvm.inreg": "inreg", "llvm.signext": "signext",
    "llvm.zeroext": "zeroext", "llvm.returned": "returned", "llvm.readnone": "readnone",
}  # fmt: skip
_FUNCTION_FLAGS = {
    "no_inline": "noinline", "always_inline": "alwaysinline", "no_unwind": "nounwind", "convergent": "convergent",
    "will_return": "willreturn", "optimize_none": "optnone",
}  # fmt: skip
_VISIBILITY = {0: "", 1: "hidden ", 2: "protected "}


def parameter_attributes(attrs: Mapping[str, Attribute]) -> str:
    """Attributes of an argument or result, each with a space in front; those of other dialects are for other tools."""
    words: list[str] = []
    for name, attr in attrs.items():
        value: Any = attr
        if name in _FLAG_ATTRIBUTES:
            words.append(_FLAG_ATTRIBUTES[name])
        elif name == "llvm.align":
            words.append(f"align {value.value.data}")
        elif name == "llvm.alignstack":
            words.append(f"alignstack({value.value.data})")
        elif name == "llvm.dereferenceable":
            words.append(f"dereferenceable({value.value.data})")
        elif name in ("llvm.byval", "llvm.byref", "llvm.sret"):
            words.append(f"{name.removeprefix('llvm.')}({type_text(attr)})")
        elif name == "llvm.range":
            width, low, high = value.data
            words.append(f"range(i{width} {low}, {high})")
        elif name == "nvvm.grid_constant":
            words.append('"nvvm.grid_constant"')
        elif name.startswith("llvm."):
            raise DSLCompileError(f"no translation of the argument attribute '{name}' to LLVM IR")
    return "".join(f" {w}" for w in words)


def passed_through(properties: Mapping[str, Attribute]) -> list[str]:
    """Attributes of a function given by name: `passthrough = ["noinline", ["key", "value"]]`, and flags."""
    words = [word for name, word in _FUNCTION_FLAGS.items() if name in properties]
    given = properties.get("passthrough")
    for item in cast(Any, given).data if isinstance(given, ArrayAttr) else ():
        if isinstance(item, StringAttr):
            words.append(item.data if item.data.isidentifier() else f'"{item.data}"')
        else:
            key, value = (a.data for a in item.data)
            words.append(f'"{key}"="{value}"')
    return words


def signature(
    name: str,
    inputs: Sequence[Attribute],
    output: Attribute | None,
    given: Sequence[Mapping[str, Attribute]],
    names: Sequence[str] | None = None,
    result_attrs: Mapping[str, Attribute] | None = None,
    variadic: bool = False,
) -> str:
    """`result @name(params)`; names of the arguments for a definition."""
    params = [
        type_text(t) + parameter_attributes(a) + (f" {names[i]}" if names else "")
        for i, (t, a) in enumerate(zip(inputs, given, strict=True))
    ]
    if variadic:
        params.append("...")
    result = "void" if output is None else type_text(output)
    if result_attrs:
        result = f"{parameter_attributes(result_attrs).strip()} {result}".strip()
    return f"{result} @{symbol(name)}({', '.join(params)})"


def argument_attrs(op: Any, count: int) -> list[dict[str, Attribute]]:
    """Attributes of the arguments of a function."""
    if op.arg_attrs is None:
        return [{} for _ in range(count)]
    return [dict(a.data) for a in op.arg_attrs.data]


def llvm_signature(op: Any, names: Sequence[str] | None) -> str:
    """The signature of an `llvm.func`."""
    output, inputs, variadic = op.function_type.data
    results = dict(op.res_attrs.data[0].data) if op.res_attrs is not None else None
    return signature(op.sym_name.data, inputs, output, argument_attrs(op, len(inputs)), names, results, variadic)


def head_words(op: Any) -> str:
    """Linkage and visibility of an `llvm.func`, each with a space behind."""
    linkage = op.linkage.linkage.data
    return ("" if linkage == "external" else f"{linkage} ") + _VISIBILITY[op.visibility_.value.data]


def declaration(op: Any) -> str:
    """A function of elsewhere, of `func` or `llvm`."""
    if isinstance(op, func.FuncOp):
        inputs, outputs = op.function_type.inputs.data, op.function_type.outputs.data
        output = outputs[0] if outputs else None
        return f"declare {signature(op.sym_name.data, inputs, output, argument_attrs(op, len(inputs)))}"
    words = "".join(f" {w}" for w in passed_through(op.properties))
    return f"declare {llvm_signature(op, None)}{words}"


def global_line(op: llvm.GlobalOp) -> str:
    """A global variable or constant; without a value and in shared memory it is memory of a block."""
    if op.regions[0].blocks:
        raise DSLCompileError(f"global @{op.sym_name.data}: initializer regions are not translated to LLVM IR")
    type_ = type_text(op.global_type)
    linkage = op.linkage.linkage.data
    space = op.addr_space.value.data
    where = f"addrspace({space}) " if space else ""
    words = where + ("constant" if op.constant is not None else "global")
    align = f", align {op.alignment.value.data}" if op.alignment is not None else ""
    name = symbol(op.sym_name.data)
    if op.value is None:
        if space in SHARED_SPACES:
            nbytes, align_bytes = allocation_of(op)
            kind, value = ("internal", " poison") if nbytes else ("external", "")
            return f"@{name} = {kind} addrspace({space}) global [{nbytes} x i8]{value}, align {align_bytes}"
        return f"@{name} = {linkage} {words} {type_}{align}"
    value: Any = op.value
    if isinstance(op.value, StringAttr):
        if linkage == "internal" and op.constant is not None and not align:
            return text_line(name, op.value.data.encode(), space)
        text = f"c{quoted(op.value.data.encode())}"
    elif isinstance(op.value, IntegerAttr | FloatAttr):
        text = literal(value.value.data, op.global_type)
    else:
        elem = elem_of(op.global_type)
        text = "<" + ", ".join(f"{type_text(elem)} {literal(v, elem)}" for v in value.get_values()) + ">"
    kind = "" if linkage == "external" else f"{linkage} "
    return f"@{name} = {kind}{words} {type_} {text}{align}"
