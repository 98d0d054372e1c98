"""Op classes and builder functions, made when they are asked for, from a signature and the definition of the op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, StringAttr, UnitAttr, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import IRDLOperation, PropertyDef, VariadicDef
from xdsl.utils.exceptions import VerifyException

from ..dialects.fly.forms import LISTS
from ..dialects.upstream import llvm
from ..dialects.upstream.table_ops import ROWS
from ..errors import DSLTypeError, DSLValueError
from ..expr.emit.trace import current
from .attributes import convert
from .inference import infer
from .insertion import emit
from .operations import OperationBase, OpView
from .signature import Parameter, Signature, definition, snake
from .values import unwrap

Values = SSAValue | list[SSAValue] | None


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


def _operand(signature: Signature, p: Parameter, value: object) -> Values:
    what = f"'{signature.op}': {p.name}"
    if value is None:
        return None
    if p.many:
        items = [value] if not isinstance(value, Sequence) else cast("Sequence[object]", value)
        return [unwrap(v, what) for v in items]
    return unwrap(value, what)


def _flat(groups: Sequence[Values]) -> list[SSAValue]:
    found: list[SSAValue] = []
    for group in groups:
        found += group if isinstance(group, list) else [] if group is None else [group]
    return found


def _arranged(cls: type[IRDLOperation], signature: Signature, given: Mapping[str, Values]) -> list[Values]:
    """Operands in the groups of the definition."""
    parts = cls.get_irdl_definition().operands
    params = signature.named("operand")
    if len(parts) == len(params):
        names = [name for name, _ in parts]
        if set(names) == {p.name for p in params}:
            return [given.get(name) for name in names]
        return [given.get(p.name) for p in params]
    flat = _flat([given.get(p.name) for p in params])
    if len(parts) == 1 and isinstance(parts[0][1], VariadicDef):
        return [flat]
    if len(flat) <= len(parts):
        return [*flat, *[None] * (len(parts) - len(flat))]
    raise DSLTypeError(f"'{signature.op}' takes {len(parts)} operands, {len(flat)} were given")


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
        elif isinstance(made, DenseArrayBase) and not len(made):
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
        return _by_intrinsic(signature, bound, results, loc, ip)
    given = {p.name: _operand(signature, p, bound.get(p.name)) for p in signature.named("operand")}
    groups = _arranged(cls, signature, given)
    props, attrs = _properties(cls, signature, bound)
    if cls.name in LISTS and cls.dialect_name() == "fly":
        sizes = [len(g) if isinstance(g, list) else int(g is not None) for g in given.values()]
        props["operandSegmentSizes"] = DenseArrayBase.from_list(i32, sizes)
    flat = _flat(groups)
    types: list[Attribute] = []
    for p in signature.named("result"):
        value = bound.get(p.name)
        items = cast("Sequence[object]", value) if isinstance(value, Sequence) else () if value is None else (value,)
        types += [_type(signature, t) for t in items]
    if results is not None:
        types = [_type(signature, t) for t in cast("Sequence[object]", results)]
    elif signature.inferred:
        types = infer(cls, flat, props)
    made = _build(cls, groups, types, props, attrs, bound, signature)
    if not made.regions:
        _verify(cls, made)
    emit(made, loc, ip)
    return made


def _verify(cls: type[IRDLOperation], made: Operation) -> None:
    """What the definition asks of the op itself; where it stands is looked at later."""
    try:
        cls.get_irdl_definition().verify(made)
        made.verify_()
    except VerifyException as error:
        made.drop_all_references()
        raise DSLTypeError(f"'{cls.name}': {error}") from error


def _type(signature: Signature, value: object) -> Attribute:
    found = getattr(value, "ir_type", value) if isinstance(value, type) else value
    if not isinstance(found, Attribute):
        raise DSLTypeError(f"'{signature.op}': expected a type, got {value!r}")
    return found


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
        found = value if isinstance(value, Sequence) else [value]
        raws = [cast(Block, getattr(b, "raw", b)) for b in cast("Sequence[object]", found)]
        blocks.append(raws if p.many else raws[0])
    return cls.build(
        operands=cast("Sequence[SSAValue]", operands),
        result_types=shaped,
        properties=props,
        attributes=attrs,
        successors=blocks,
        regions=[[] for _ in known.regions],
    )


_INTRINSICS = {"rocdl": "llvm.amdgcn.", "llvm": "llvm."}


def intrinsic_of(op: str) -> str | None:
    """The intrinsic of LLVM that an op stands for, by the ops' naming."""
    dialect, _, rest = op.partition(".")
    if dialect == "rocdl":
        return _INTRINSICS["rocdl"] + rest
    return _INTRINSICS["llvm"] + rest.removeprefix("intr.") if op.startswith("llvm.intr.") else None


def _by_intrinsic(
    signature: Signature, bound: Mapping[str, object], results: object, loc: object, ip: object
) -> Operation:
    """An op that the dialects lack and that is one intrinsic of LLVM's: a call of it. LLVM appends the types' names."""
    name = intrinsic_of(signature.op)
    if name is None or _unlike_its_intrinsic(signature):
        raise DSLValueError(
            f"the op '{signature.op}' is not supported: no pass of this package lowers it (docs/coming-from-flydsl.md "
            "lists such ops)"
        )
    args: list[SSAValue] = []
    for p in signature.parameters:
        value = bound.get(p.name)
        if p.kind == "operand":
            args += _flat([_operand(signature, p, value)])
        elif p.kind == "attribute" and not p.optional:
            args.append(_immediate(signature, p, value))
        elif p.kind == "attribute" and value is not None and p.name not in ("arg_attrs", "res_attrs"):
            raise DSLValueError(f"'{signature.op}' is a call of its intrinsic here and takes no {p.name}; leave it out")
    types = [_type(signature, bound[p.name]) for p in signature.named("result") if bound.get(p.name) is not None]
    if results is not None:
        types = [_type(signature, t) for t in cast("Sequence[object]", results)]
    elif signature.inferred:
        types = [cast(Attribute, args[0].type)]
    made = llvm.CallIntrinsicOp.build(
        operands=[args, []],
        result_types=[types],
        properties={"intrin": StringAttr(name), "op_bundle_sizes": DenseArrayBase.from_list(i32, [])},
    )
    emit(made, loc, ip)
    return made


_ELSEWHERE = ("llvm.intr.dbg", "llvm.intr.coro", "llvm.intr.experimental.constrained", "llvm.intr.experimental.noalias")


def _unlike_its_intrinsic(signature: Signature) -> bool:
    """Whether arguments of the intrinsic are not those of the op: metadata, tokens."""
    return signature.op.startswith(_ELSEWHERE)


_NARROW = {"count": 16, "priority": 16, "id": 32, "reuseA": 1, "reuseB": 1, "signA": 1, "signB": 1, "clamp": 1}


def _immediate(signature: Signature, p: Parameter, value: object) -> SSAValue:
    """A literal argument of an intrinsic."""
    if isinstance(value, IntegerAttr):
        return current().const(value.value.data, cast(Attribute, value.type))
    if isinstance(value, UnitAttr):
        value = True
    if isinstance(value, bool):
        return current().const(int(value), IntegerType(1))
    if isinstance(value, int):
        return current().const(int(value), IntegerType(_NARROW.get(p.name, 32)))
    raise DSLTypeError(f"'{signature.op}': {p.name} must be a number known at compile time, got {value!r}")


@cache
def class_of(signature: Signature) -> type[OpView]:
    """The class of an op."""

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


__all__ = ["bind", "class_of", "function_of", "intrinsic_of", "make", "results_of"]
