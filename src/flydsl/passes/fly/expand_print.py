"""`fly.print`: in a kernel one `gpu.printf` with a format of C, on the host a row of `vector.print`.

Scalars print as `%d`, `%ld`, `%.2f`, `%.2lf` or by the specification of their place, vectors as `[a, b]`, tuples as
`(a,b)`, layouts as `shape:stride`; what is static is part of the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import IndexType, IntegerType, StringAttr, VectorType, f32, f64
from xdsl.ir import Attribute, Operation, SSAValue

from ... import layout as L
from ...dialects.fly.infer import python_value
from ...dialects.fly.ops import FlyOp
from ...dialects.fly.semantics import View
from ...dialects.fly.types import (
    ComposedLayoutType,
    CoordSwizzleType,
    CoordTensorType,
    IntTupleType,
    LayoutType,
    SwizzleType,
    TileType,
    static_data,
)
from ...dialects.upstream import gpu, vector
from ...errors import DSLCompileError
from ...ir import print_format
from ...ir.builder import i1, i32, i64, operands_of
from ...ir.types import bit_width
from ...layout import Basis, ComposedLayout, Dyn, Layout

if TYPE_CHECKING:
    from .fly_layout_lowering import LayoutLowering

Piece = str | SSAValue | tuple[SSAValue, str]
"""Text, a scalar, or a scalar with the specification of its format."""

_ALGEBRA = (IntTupleType, LayoutType, ComposedLayoutType, CoordTensorType, SwizzleType, CoordSwizzleType, TileType)


def expand_print(r: LayoutLowering, op: FlyOp) -> None:
    """Handler of `fly.print`."""
    values = operands_of(op)
    pieces: list[Piece] = []
    texts, specs = _split(python_value(op.properties["format"]), len(values))
    for text, value, spec in zip(texts, values, specs, strict=False):
        parts = _pieces(r, value)
        pieces += [text, *((p, spec) if spec and isinstance(p, SSAValue) else p for p in parts)]
    pieces.append(texts[-1])
    if _in_kernel(op):
        _device(r, pieces)
    else:
        _host(r, pieces)


def _split(text: str, count: int) -> tuple[list[str], list[str]]:
    """The text around `count` placeholders, and their formats; an empty text puts one space between the values."""
    if not text:
        return (["", *[" "] * (count - 1), ""][: count + 1] if count else [""]), [""] * count
    try:
        found, specs = print_format.split(text)
    except ValueError as error:
        raise DSLCompileError(f"fly.print: {error}") from None
    if len(specs) != count:
        raise DSLCompileError(f"fly.print: the format {text!r} has {len(specs)} placeholders for {count} values")
    return found, specs


def _in_kernel(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, gpu.FuncOp):
        parent = parent.parent_op()
    return parent is not None


def _pieces(r: LayoutLowering, value: SSAValue) -> list[Piece]:
    """A value as texts and scalars."""
    type_ = value.type
    if isinstance(type_, _ALGEBRA):
        return _algebra(r, r.obj(value))
    new = r.val(value)
    if isinstance(type_, VectorType):
        found: list[Piece] = ["["]
        for i in range(cast(VectorType, type_).get_shape()[0]):
            found += [", "] if i else []
            found.append(_widened(r, r.b.extract(new, i)))
        return [*found, "]"]
    return [_widened(r, new)]


def _algebra(r: LayoutLowering, obj: object) -> list[Piece]:
    if type(obj) is View:
        return [*_algebra(r, obj.iter), ", ", *_algebra(r, obj.layout)]
    if static_data(obj):
        return [L.format_any(obj)]
    if type(obj) is Layout:
        return [*_algebra(r, obj.shape), ":", *_algebra(r, obj.stride)]
    if type(obj) is ComposedLayout:
        return [*_algebra(r, obj.inner), " o ", *_algebra(r, obj.offset), " o ", *_algebra(r, obj.outer)]
    if type(obj) is tuple:
        found: list[Piece] = ["("]
        for i, part in enumerate(cast(tuple[object, ...], obj)):
            found += [","] if i else []
            found += _algebra(r, part)
        return [*found, ")"]
    if isinstance(obj, Basis):
        return [*_algebra(r, obj.value), "".join(f"E{m}" for m in obj.modes)]
    assert isinstance(obj, Dyn)
    return [r.b.leaf_value(obj, obj.width)]


def _widened(r: LayoutLowering, value: SSAValue) -> SSAValue:
    """A scalar as one of the types printing knows: i32, i64, f32, f64."""
    b, type_ = r.b, value.type
    if isinstance(type_, IndexType):
        return b.cast("index_cast", value, i64)
    if isinstance(type_, IntegerType):
        if bit_width(value.type) < 32:
            return b.cast("extui" if type_ == i1 else "extsi", value, i32)
        return value
    if type_ in (f32, f64):
        return value
    if getattr(type_, "bitwidth", 0):
        return b.cast("extf", value, f32)
    raise DSLCompileError(f"fly.print: cannot print a value of type {type_}")


def _conversion(type_: Attribute, spec: str) -> str:
    """How C prints a scalar."""
    if spec:
        try:
            return print_format.conversion(spec, not isinstance(type_, IntegerType), bit_width(type_))
        except ValueError as error:
            raise DSLCompileError(f"fly.print: {error}") from None
    if isinstance(type_, IntegerType):
        return "%d" if type_ == i32 else "%ld"
    return "%.2f" if type_ == f32 else "%.2lf"


def _device(r: LayoutLowering, pieces: list[Piece]) -> None:
    text, args = "", cast("list[SSAValue]", [])
    for piece in pieces:
        if isinstance(piece, str):
            text += piece.replace("%", "%%")
        else:
            value, spec = piece if isinstance(piece, tuple) else (piece, "")
            text += _conversion(value.type, spec)
            args.append(value)
    r.b.opn(gpu.PrintfOp, args, (), {"format": StringAttr(text + "\n")})


def _host(r: LayoutLowering, pieces: list[Piece]) -> None:
    joined: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        elif piece != "":
            joined.append(piece)
    for i, piece in enumerate(joined):
        last = i == len(joined) - 1
        if isinstance(piece, str):
            r.b.opn(vector.PrintOp, (), (), {"stringLiteral": StringAttr(piece + "\n" * last), **_SILENT})
        elif isinstance(piece, tuple):
            made = r.b.opn(vector.PrintOp, (piece[0],), (), {} if last else dict(_SILENT))
            made.attributes["fly.format"] = StringAttr(_conversion(piece[0].type, piece[1]))
        else:
            r.b.opn(vector.PrintOp, (piece,), (), {} if last else dict(_SILENT))
    if not joined:
        r.b.opn(vector.PrintOp, (), (), {})


_SILENT: dict[str, Attribute] = {"punctuation": vector.PrintPunctuationAttr("no_punctuation")}
