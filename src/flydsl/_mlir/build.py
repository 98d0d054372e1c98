"""Op classes and builder functions, made when they are asked for, from a signature and the definition of the op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation, PropertyDef, VariadicDef
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from ..dialects.fly.forms import LISTS
from ..dialects.upstream.table_ops import ROWS
from ..errors import DSLTypeError, DSLValueError, MLIRError
from ..expr.assembly import note_raw_text
from ..expr.emit.trace import maybe_current
from .attributes import convert
from .inference import infer
from .insertion import emit
from .intrinsics import Values, call_intrinsic, flat, operand, type_of
from .operations import OperationBase, OpView
from .signature import Parameter, Signature, definition, snake


def _spellings(p: Parameter) -> tuple[str, ...]:
    return (p.name, snake(p.name), p.name.rstrip("_"))


def bind(signature: Signature, args: Sequence[object], given: dict[str, object]) -> dict[str, object]:
    """Arguments by the names of the parameters."""
    positional = [p for p in signature.parameters if not p.by_keyword]
    if len(args) > len(positional):
        raise DSLTypeError(f"'{signature.op}' takes {len(positional)} positional arguments, {len(args)} were given")
    bound: dict[str, object] = {p.name: value for p, value in zip(positional, args, strict=False)}
    for p in signature.parameters:
        for spelled in _spellings(p):
            if spelled in given:
                if p.name in bound:
                    raise DSLTypeError(f"'{signature.op}' got {p.name} twice")
                bound[p.name] = given.pop(spelled)
    if given:
        known = ", ".join(p.name for p in signature.parameters)
        raise DSLTypeError(f"'{signature.op}' takes no {', '.join(map(repr, given))}; its arguments are {known}")
    missing = [p.name for p in signature.parameters if p.name not in bound and not p.optional and not p.by_keyword]
    if missing:
        raise DSLTypeError(f"'{signature.op}' misses {', '.join(missing)}")
    return bound


def _arranged(cls: type[IRDLOperation], signature: Signature, given: Mapping[str, Values]) -> list[Values]:
    """Operands in the groups of the definition."""
    parts = cls.get_irdl_definition().operands
    params = signature.named("operand")
    if len(parts) == len(params):
        names = [name for name, _ in parts]
        if set(names) == {p.name for p in params}:
            return [given.get(name) for name in names]
        return [given.get(p.name) for p in params]
    values = flat([given.get(p.name) for p in params])
    if len(parts) == 1 and isinstance(parts[0][1], VariadicDef):
        return [values]
    if len(values) <= len(parts):
        return [*values, *[None] * (len(parts) - len(values))]
    raise DSLTypeError(f"'{signature.op}' takes {len(parts)} operands, {len(values)} were given")


def _properties(
    cls: type[IRDLOperation], signature: Signature, bound: Mapping[str, object]
) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    """What the definition has as properties, and the rest of the attributes."""
    known = cls.get_irdl_definition()
    spelled = {snake(name): name for name in known.properties}
    props: dict[str, Attribute] = {}
    attrs: dict[str, Attribute] = {}
    for p in signature.named("attribute"):
        value = bound.get(p.name)
        if value is None:
            continue
        name = p.name if p.name in known.properties else spelled.get(snake(p.name).rstrip("_"), p.name)
        made = convert(cls, name, known.properties.get(name), value)
        if made is None:
            continue
        if name in known.properties:
            props[name] = made
        elif isinstance(made, DenseArrayBase) and not made.data.data:
            continue
        elif name in known.attributes or name in _HINTS:
            attrs[name] = made
        else:
            raise DSLValueError(f"'{signature.op}' has no attribute {p.name} here; leave it out")
    for name, part in known.properties.items():
        if name not in props and type(part) is PropertyDef and cls.name in ROWS:
            props[name] = cast(Attribute, convert(cls, name, part, 0))  # what an instruction's literal is by default
    return props, attrs


_HINTS = {
    "isExact", "nonNeg", "alignment", "overflowFlags", "invariant", "no_inline", "branch_weights", "loop_annotation",
    "access_groups", "alias_scopes", "noalias_scopes", "tbaa",
}  # fmt: skip
"""What an optimiser may make use of, and need not: kept with the op."""


def make(signature: Signature, bound: dict[str, object], results: object, loc: object, ip: object) -> Operation:
    """The op, in its place."""
    cls = definition(signature.op)
    if cls is None:
        return call_intrinsic(signature, bound, results, loc, ip)
    given = {p.name: operand(signature, p, bound.get(p.name)) for p in signature.named("operand")}
    groups = _arranged(cls, signature, given)
    props, attrs = _properties(cls, signature, bound)
    if cls.name in LISTS and cls.dialect_name() == "fly":
        sizes = [len(g) if isinstance(g, list) else int(g is not None) for g in given.values()]
        props["operandSegmentSizes"] = DenseArrayBase.from_list(i32, sizes)
    values = flat(groups)
    types: list[Attribute] = []
    for p in signature.named("result"):
        value = bound.get(p.name)
        items = cast("Sequence[object]", value) if isinstance(value, Sequence) else () if value is None else (value,)
        types += [type_of(signature, t) for t in items]
    if results is not None:
        types = [type_of(signature, t) for t in cast("Sequence[object]", results)]
    elif signature.inferred:
        types = infer(cls, values, props)
    made = _build(cls, groups, types, props, attrs, bound, signature)
    if not made.regions:
        _verify(cls, made)
    if cls.name in _UNCHECKED and maybe_current() is not None:
        note_raw_text()
    emit(made, loc, ip)
    return made


_UNCHECKED = ("llvm.call_intrinsic", "llvm.inline_asm")
"""Ops with text that nobody but LLVM checks."""


def _verify(cls: type[IRDLOperation], made: Operation) -> None:
    """What the definition asks of the op itself; where it stands is looked at later."""
    try:
        cls.get_irdl_definition().verify(made)
        if not made.has_trait(IsTerminator):  # these look at what they are in
            made.verify_()
    except VerifyException as error:
        made.drop_all_references()
        raise MLIRError(f"'{cls.name}': {error}") from error


def _build(
    cls: type[IRDLOperation],
    groups: Sequence[Values],
    types: Sequence[Attribute],
    props: dict[str, Attribute],
    attrs: dict[str, Attribute],
    bound: Mapping[str, object],
    signature: Signature,
) -> Operation:
    known = cls.get_irdl_definition()
    variadic = [isinstance(part, VariadicDef) for _, part in known.operands]
    operands = [
        (g if isinstance(g, list) else [] if g is None else [g]) if many else g
        for g, many in zip(groups, variadic, strict=True)
    ]
    many = [isinstance(part, VariadicDef) for _, part in known.results]
    left, shaped = list(types), list[Attribute | list[Attribute]]()
    for i, variable in enumerate(many):
        later = len(many) - i - 1
        taken = left[: len(left) - later] if variable else left[:1]
        left = left[len(taken) :]
        shaped.append(taken if variable else taken[0] if taken else [])
    blocks: list[Block | list[Block]] = []
    for p in signature.named("successor"):
        value = bound.get(p.name)
        found = cast("Sequence[object]", value) if isinstance(value, Sequence) else [value]
        raws = [cast(Block, getattr(b, "raw", b)) for b in found]
        blocks.append(raws if p.many else raws[0])
    return cls.build(
        operands=cast("Sequence[SSAValue]", operands),
        result_types=shaped,
        properties=props,
        attributes=attrs,
        successors=blocks,
        regions=[[] if isinstance(part, VariadicDef) else Region() for _, part in known.regions],
    )


@cache
def class_of(signature: Signature) -> type[OpView]:
    def __init__(
        self: OpView, *args: object, results: object = None, loc: object = None, ip: object = None, **given: object
    ) -> None:
        self.raw = make(signature, bind(signature, args, given), results, loc, ip)

    body: dict[str, object] = {
        "OPERATION_NAME": signature.op,
        "SIGNATURE": signature,
        "__init__": __init__,
        "__module__": f"{__package__}.dialects.{signature.op.partition('.')[0]}",
        "__doc__": f"`{signature.op}`.",
    }
    if any(p.name == "results" for p in signature.parameters):
        raise AssertionError(f"'{signature.op}' has a parameter called results")
    return cast("type[OpView]", type(signature.cls, (OpView,), body))


def results_of(op: OperationBase) -> object:
    """What a builder function gives: the result, all of them, or the op where there is none."""
    found = op.results
    return found[0] if len(found) == 1 else found if found else op


@cache
def function_of(signature: Signature, cls: type[OpView]) -> Callable[..., object]:
    """The builder function of an op."""

    def build(*args: object, loc: object = None, ip: object = None, **given: object) -> object:
        return results_of(cast("Callable[..., OpView]", cls)(*args, loc=loc, ip=ip, **given))

    build.__name__ = build.__qualname__ = signature.function
    build.__doc__ = f"`{signature.op}`: {' '.join(p.name for p in signature.parameters)}."
    return build


__all__ = ["bind", "class_of", "function_of", "make", "results_of"]
