"""Ops that the dialects lack and that are one intrinsic of LLVM's: a call of it.

Literals of such an op are arguments of the intrinsic. LLVM itself appends the names of types to the intrinsic's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, StringAttr, UnitAttr, i32
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects.upstream import llvm
from ..errors import DSLTypeError, DSLValueError
from ..expr.assembly import note_raw_text
from ..expr.emit.trace import current
from ..expr.tensor import Tensor
from ..ir.readable import readable
from .insertion import emit
from .memrefs import as_memref
from .signature import Parameter, Signature
from .values import unwrap

Values: TypeAlias = "SSAValue | list[SSAValue] | None"

_NO_ARGUMENTS = {"alias_scopes", "noalias_scopes", "tbaa", "access_groups", "arg_attrs", "res_attrs", "fastmathFlags"}
"""Facts about a call."""
_WIDTHS = {
    "count": 16, "priority": 16, "modC": 16, "signA": 1, "signB": 1, "clamp": 1, "opsel": 1, "reuseA": 1, "reuseB": 1,
    "fi": 1, "boundControl": 1, "bound_control": 1, "wordSel": 1, "srcLoHiSel": 1, "dstLoHiSel": 1,
}  # fmt: skip
"""Bits of literals that do not have 32."""
_ELSEWHERE = ("llvm.intr.dbg", "llvm.intr.coro", "llvm.intr.experimental.constrained", "llvm.intr.experimental.noalias",
              "llvm.intr.assume", "llvm.intr.annotation", "llvm.intr.var.annotation", "llvm.intr.ptr.annotation",
              "llvm.intr.eh", "llvm.intr.va")  # fmt: skip
"""Ops whose intrinsic has arguments that the op has not: metadata, tokens, texts."""


_PREFIXES = {"rocdl": "llvm.amdgcn."}
"""Of the intrinsics that the ops of a dialect are named after."""


def intrinsic_of(op: str) -> str | None:
    """The intrinsic an op stands for, by the names."""
    dialect, _, rest = op.partition(".")
    if dialect in _PREFIXES:
        return _PREFIXES[dialect] + rest.replace("_", ".")
    return (
        f"llvm.{rest.removeprefix('intr.')}" if op.startswith("llvm.intr.") and not op.startswith(_ELSEWHERE) else None
    )


def operand(signature: Signature, p: Parameter, value: object) -> Values:
    """What was given for an operand."""
    what = f"'{signature.op}': {p.name}"
    if value is None:
        return None
    if p.many:
        items = [value] if not isinstance(value, Sequence) else cast("Sequence[object]", value)
        return [unwrap(v, what) for v in items]
    if isinstance(value, Tensor) and signature.op.startswith(_MEMORY):
        return as_memref(value, what)
    return unwrap(value, what)


_MEMORY = ("memref.", "vector.")
"""Dialects whose ops access memrefs."""


def flat(groups: Sequence[Values]) -> list[SSAValue]:
    """Operands one behind the other."""
    found: list[SSAValue] = []
    for group in groups:
        found += group if isinstance(group, list) else [] if group is None else [group]
    return found


def type_of(signature: Signature, value: object) -> Attribute:
    """A type that was given, also as a scalar class."""
    found = getattr(value, "ir_type", value) if isinstance(value, type) else value
    if not isinstance(found, Attribute):
        raise DSLTypeError(f"'{signature.op}': expected a type, got {value!r}")
    return readable(found)


def _order(signature: Signature) -> list[str]:
    """Names of the arguments of the intrinsic in order; `0:1` is a literal the op has no name for."""
    names = [p.name for p in signature.parameters if p.kind in ("operand", "attribute") and p.name not in _NO_ARGUMENTS]
    tail = [n for n in ("reuseA", "reuseB", "clamp") if n in names]
    if "scaleA" in names:
        return ["a", "b", "modC", "c", "scaleAType", "fmtScaleA", "scaleA", "scaleBType", "fmtScaleB", "scaleB", *tail]
    if "signA" in names:
        return ["signA", "a", "signB", "b", "c", *(n for n in ("index",) if n in names), *tail]
    if "modC" in names:
        small = "fp8" in signature.op or "bf8" in signature.op
        return ["a", "b", "modC", "c", *tail] if small else ["0:1", "a", "0:1", "b", "modC", "c", *tail]
    return names


def call_intrinsic(
    signature: Signature, bound: Mapping[str, object], results: object, loc: object, ip: object
) -> Operation:
    name = intrinsic_of(signature.op)
    if name is None:
        raise DSLValueError(
            f"the op '{signature.op}' is not supported: no pass of this package lowers it (docs/coming-from-flydsl.md "
            "lists such ops)"
        )
    known = {p.name: p for p in signature.parameters}
    args: list[SSAValue] = []
    for key in _order(signature):
        p = known.get(key)
        if p is None:
            value, _, width = key.partition(":")
            args.append(current().const(int(value), IntegerType(int(width))))
        elif p.kind == "operand":
            args += flat([operand(signature, p, bound.get(key))])
        else:
            args.append(_immediate(signature, p, bound.get(key)))
    types = [type_of(signature, bound[p.name]) for p in signature.named("result") if bound.get(p.name) is not None]
    if results is not None:
        types = [type_of(signature, t) for t in cast("Sequence[object]", results)]
    elif signature.inferred:
        types = [args[0].type]
    made = llvm.CallIntrinsicOp.build(
        operands=[args, []],
        result_types=[types],
        properties={"intrin": StringAttr(name), "op_bundle_sizes": DenseArrayBase.from_list(i32, [])},
    )
    note_raw_text()
    emit(made, loc, ip)
    return made


def _immediate(signature: Signature, p: Parameter, value: object) -> SSAValue:
    """A literal argument; what was left out is 0."""
    if isinstance(value, IntegerAttr):
        held = cast("IntegerAttr[IntegerType]", value)
        return current().const(held.value.data, held.type)
    if isinstance(value, UnitAttr) or value is None:
        value = int(value is not None)
    if isinstance(value, bool) and p.name not in _WIDTHS:
        return current().const(int(value), IntegerType(1))
    if isinstance(value, int):
        return current().const(int(value), IntegerType(_WIDTHS.get(p.name, 32)))
    raise DSLTypeError(f"'{signature.op}': {p.name} must be a number known at compile time, got {value!r}")


__all__ = ["Values", "call_intrinsic", "flat", "intrinsic_of", "operand", "type_of"]
