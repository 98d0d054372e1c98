"""`fx.printf`: text from inside a kernel. What is known while tracing is part of the text already."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from .. import layout as L
from ..errors import DSLValueError
from ..ir import print_format
from ..layout import Basis, ComposedLayout, Dyn
from .control.texts import Text, Value, refuse_unknown
from .emit.trace import current
from .gpu import current_target
from .numeric import Boolean, Float32, Float64, Int32, Int64, Numeric, scalar_or_none
from .protocol import extract_to_ir_values
from .structs import StructValue
from .tensor import Pointer, Tensor
from .tensors.algebra_values import AlgebraValue, current_ir
from .vector import Vector

if TYPE_CHECKING:
    from .annotations import SSAValue
    from .numeric import Integer
    from .tensors import algebra_values as values_of
    from .tensors.algebra_values import IntTuple


def printf(*args: object, format_str: str | None = None) -> None:
    """Print a line from every thread that comes by: `fx.printf("row {}: {}", r, x)`.

    `{}` stands for the next argument, `{:.3e}`, `{:08x}`, `{:>6}` for one in that format, `{{` and `}}` for braces.
    Integers print in decimal, floats with two decimals, vectors and fragments as `[a, b]`, tuples and layouts by their
    structure, tensors by their elements if there are few, else by their layout. Without a format the values stand
    beside each other; it may be given as `format_str`.

    >>> def tell(n):
    ...     fx.printf("n is {}, twice that {:#06x}", n, n * 2)
    >>> flyc.evaluate(tell, 4)  # the kernel prints: n is 4, twice that 0x0008
    """
    fmt = format_str
    if fmt is None and args and isinstance(args[0], str):
        fmt, args = args[0], args[1:]
    if fmt is None:
        fmt = " ".join(["{}"] * len(args))
    if isinstance(fmt, Text):
        fmt, args = _with_values(fmt, args)
    else:
        refuse_unknown(fmt)
    pieces, specs = split_format(fmt, len(args))
    text, values = escape(pieces[0]), cast("list[Numeric]", [])
    for piece, spec, arg in zip(pieces[1:], specs, args, strict=True):
        text += render(arg, values, spec) + escape(piece)
    if prints_into_memory():
        current().functions[-1].side_buffers.declare("print")
    current_ir().emit_print(text, [v.ir_value() for v in values])


def _with_values(text: Text, args: tuple[object, ...]) -> tuple[str, tuple[object, ...]]:
    """The format of an f-string, and its values among the other arguments, in the order of their places."""
    fmt, given, left = "", list[object](), list(args)
    for piece in text.pieces:
        if isinstance(piece, Value):
            fmt += f"{{:{piece.spec}}}" if piece.spec else "{}"
            given.append(piece.value)
            continue
        try:
            places = len(print_format.split(piece)[1])
        except ValueError as error:
            raise DSLValueError(f"printf({str(text)!r}): {error}") from None
        fmt += piece
        given += left[:places]
        del left[:places]
    return fmt, (*given, *left)


def prints_into_memory() -> bool:
    """Whether what a kernel prints goes through memory that its launch adds: where no driver has a `printf`."""
    frame: object = current().functions[-1] if current().functions else None
    target = current_target()
    return bool(getattr(frame, "is_kernel", False)) and not target.on_host and target.has("amd")


def escape(text: str) -> str:
    """Plain text as part of the format of `fly.print`, where `{}` is a value."""
    return text.replace("{", "{{").replace("}", "}}")


def split_format(fmt: str, count: int) -> tuple[list[str], list[str]]:
    """The text around `count` placeholders, and the format of each.

    >>> split_format("a {} b {{}} {:04d}", 2)
    (['a ', ' b {} ', ''], ['', '04d'])
    """
    try:
        pieces, specs = print_format.split(fmt)
    except ValueError as error:
        raise DSLValueError(f"printf({fmt!r}): {error}") from None
    if len(specs) != count:
        hint = "; a placeholder is written {} or {:.3f}, not %d" if not specs and "%" in fmt else ""
        raise DSLValueError(f"the format {fmt!r} has {len(specs)} placeholders for {count} values{hint}")
    return pieces, specs


def render(x: object, values: list[Numeric], spec: str = "") -> str:
    """Format text of one argument; scalars that exist at run time are appended to `values`."""
    if isinstance(x, Text) and not spec:
        return "".join(render(p.value, values, p.spec) if isinstance(p, Value) else escape(p) for p in x.pieces)
    if isinstance(x, (str, type)):
        return escape(format(x if isinstance(x, str) else x.__name__, spec))
    if isinstance(x, Vector):
        return "[" + ", ".join(render(x[i], values, spec) for i in range(x.numel)) + "]"
    if isinstance(x, Tensor):
        return _tensor(x, values, spec)
    if isinstance(x, AlgebraValue) and not (spec and scalar_or_none(x) is not None):
        return _algebra(x, values)
    number = scalar_or_none(x)
    if number is not None:
        if number.is_static():
            return _formatted(number, spec) if spec else _literal(x, number)
        return _placeholder(number, values, spec)
    if isinstance(x, Pointer):
        from .tensors.memory import ptrtoint

        return render(ptrtoint(x), values, spec)
    if isinstance(x, StructValue):
        held = [value for _, value in x.__values__()]
        if len(held) == 1:
            return render(held[0], values, spec)
    if hasattr(x, "name") and hasattr(x, "verify") and not extract_or_none(x):
        return escape(str(x))
    raise DSLValueError(
        f"cannot print {x!r} of type {type(x).__name__}: it is not one IR value; print its parts one by one"
    )


ELEMENTS = 64
"""Elements of a tensor that are printed; of a larger one the layout is."""


def _tensor(x: Tensor, values: list[Numeric], spec: str) -> str:
    """The elements of a small tensor in brackets, a pair for each mode; the layout of any other."""
    shape = x.shape
    extents = [cast(int, L.size(shape[i].data)) for i in range(x.rank)] if shape.is_static else []
    if not extents or math.prod(extents) > ELEMENTS or isinstance(x.iter, AlgebraValue):
        return f"Tensor<{_algebra(x.layout, values)}>"

    def nested(at: list[int]) -> str:
        if len(at) == len(extents):
            return render(x[tuple(at) if len(at) > 1 else at[0]], values, spec)
        return "[" + ", ".join(nested([*at, i]) for i in range(extents[len(at)])) + "]"

    return nested([])


def _placeholder(number: Numeric, values: list[Numeric], spec: str) -> str:
    """A value of run time; one in a format of floats is converted, as Python does."""
    known = printable(number)
    if spec and not known.is_float and print_format.letter(spec) in tuple("eEfFgG"):
        known = Float64(known)
    if spec:
        try:
            print_format.conversion(spec, known.is_float, type(known).width)
        except ValueError as error:
            raise DSLValueError(str(error)) from None
    values.append(known)
    return f"{{:{spec}}}" if spec else "{}"


def _formatted(number: Numeric, spec: str) -> str:
    try:
        return escape(format(number.value, spec))
    except ValueError as error:
        raise DSLValueError(f"{number!r} in the format {spec!r}: {error}") from None


def extract_or_none(x: object) -> Sequence[SSAValue] | None:
    """IR values of a DSL value; None for anything else."""
    try:
        return extract_to_ir_values(x)
    except TypeError:
        return None


def _literal(x: object, number: Numeric) -> str:
    """A number known now: as Python writes it, unless it is of a DSL class."""
    value = number.value
    if isinstance(x, Numeric) and isinstance(value, float):
        return f"{value:.2f}"
    return str(int(value)) if isinstance(x, Boolean) else str(value)


def printable(x: Numeric) -> Numeric:
    """A run-time scalar as one of the classes printing knows: Int32, Int64, Float32, Float64."""
    cls = type(x)
    if cls.is_float:
        return x if cls.width >= 32 else Float32(x)
    if cls.width < 32 or (cls.width == 32 and cls.signed):
        return Int32(x)  # a Boolean is extended with zeros: true is 1
    return Int64(x)


def _algebra(x: AlgebraValue, values: list[Numeric]) -> str:
    """A tuple or layout as text, its run-time leaves as values."""
    if x.is_static:
        return escape(L.format_any(x.data))
    data = x.data
    if isinstance(data, ComposedLayout):
        composed = cast("values_of.ComposedLayout", x)
        return " o ".join(_algebra(part, values) for part in (composed.inner, composed.offset, composed.outer))
    if isinstance(data, L.Layout):
        layout = cast("values_of.Layout", x)
        return f"{_algebra(layout.shape, values)}:{_algebra(layout.stride, values)}"
    return _tree(data, current_ir().dynamic_leaves(cast("IntTuple", x)), values)


def _tree(data: object, leaves: list[Integer], values: list[Numeric]) -> str:
    if isinstance(data, tuple):
        return "(" + ",".join(_tree(d, leaves, values) for d in cast("tuple[object, ...]", data)) + ")"
    if isinstance(data, Basis):
        return _tree(data.value, leaves, values) + "".join(f"E{m}" for m in data.modes)
    if isinstance(data, Dyn):
        values.append(leaves.pop(0))
        return "{}"
    return "*" if data is None else str(data)


__all__ = ["printf"]
