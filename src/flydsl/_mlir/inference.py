"""Types of results where MLIR infers them: from the constraints of the definition, or by the rule of the op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerType, MemRefType, VectorType, i1
from xdsl.dialects.llvm import LLVMArrayType
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects.upstream import llvm
from ..dialects.upstream.llvm.atomics import cmpxchg_type
from ..errors import DSLTypeError
from ..ir.builder import elem_of
from ..ir.readable import readable
from ..ir.types import dense_ints

Rule = Callable[[Sequence[Attribute], Mapping[str, Attribute]], "list[Attribute]"]


def _like(type_: Attribute, elem: Attribute) -> Attribute:
    """A type, or a vector of it where another type is one."""
    return VectorType(elem, type_.get_shape()) if isinstance(type_, VectorType) else elem


def _first(types: Sequence[Attribute], props: Mapping[str, Attribute]) -> list[Attribute]:
    return [types[0]]


def _second(types: Sequence[Attribute], props: Mapping[str, Attribute]) -> list[Attribute]:
    return [types[1]]


def _flag(types: Sequence[Attribute], props: Mapping[str, Attribute]) -> list[Attribute]:
    return [_like(types[0], i1)]


def _twice(types: Sequence[Attribute], props: Mapping[str, Attribute]) -> list[Attribute]:
    return [types[0], types[0]]


def _index(types: Sequence[Attribute], props: Mapping[str, Attribute]) -> list[Attribute]:
    return [IndexType()]


def _element(types: Sequence[Attribute], props: Mapping[str, Attribute]) -> list[Attribute]:
    return [elem_of(types[0])]


def _extracted(types: Sequence[Attribute], props: Mapping[str, Attribute]) -> list[Attribute]:
    """What is left of a vector's shape behind the positions given."""
    source = cast(VectorType, types[0])
    taken = len(dense_ints(cast("DenseArrayBase[IntegerType]", props["static_position"])))
    rest = source.get_shape()[taken:]
    return [VectorType(source.element_type, rest) if rest else source.element_type]


def _shuffled(types: Sequence[Attribute], props: Mapping[str, Attribute]) -> list[Attribute]:
    count = len(dense_ints(cast("DenseArrayBase[IntegerType]", props["mask"])))
    source = cast(VectorType, types[0])
    return [VectorType(source.element_type, [count, *source.get_shape()[1:]])]


def _elements(types: Sequence[Attribute], props: Mapping[str, Attribute]) -> list[Attribute]:
    source = cast(VectorType, types[0])
    count = 1
    for n in source.get_shape():
        count *= n
    return [source.element_type] * count


def _stored(types: Sequence[Attribute], props: Mapping[str, Attribute]) -> list[Attribute]:
    return [cast("MemRefType[Attribute]", types[0]).element_type]


def _field(types: Sequence[Attribute], props: Mapping[str, Attribute]) -> list[Attribute]:
    found = types[0]
    for i in dense_ints(cast("DenseArrayBase[IntegerType]", props["position"])):
        found = found.type if isinstance(found, LLVMArrayType) else cast(llvm.StructType, found).data[1][i]
    return [found]


RULES: dict[str, Rule] = {
    **dict.fromkeys(("arith.cmpi", "arith.cmpf", "llvm.icmp", "llvm.fcmp", "math.isnan", "math.isinf", "math.isfinite",
                     "math.isnormal", "llvm.intr.is.fpclass"), _flag),
    **dict.fromkeys(("arith.select", "llvm.select", "llvm.atomicrmw", "memref.atomic_rmw"), _second),
    **dict.fromkeys(("arith.mulsi_extended", "arith.mului_extended", "math.sincos"), _twice),
    "llvm.cmpxchg": lambda types, props: [cmpxchg_type(types[1])],
    "llvm.extractelement": _element,
    "llvm.extractvalue": _field,
    "vector.extract": _extracted,
    "vector.insert": _second,
    "vector.shuffle": _shuffled,
    "llvm.shufflevector": _shuffled,
    "vector.reduction": _element,
    "vector.to_elements": _elements,
    "vector.insert_strided_slice": _second,
    "memref.load": _stored,
    "memref.dim": _index,
    "memref.extract_aligned_pointer_as_index": _index,
    "gpu.shuffle": lambda types, props: [types[0], i1],
}  # fmt: skip
"""Rules of ops whose results are not simply of the type of the first operand."""


def infer(cls: type[Operation], operands: Sequence[SSAValue], props: Mapping[str, Attribute]) -> list[Attribute]:
    """The types of the results."""
    return [readable(type_) for type_ in _inferred(cls, [v.type for v in operands], props)]


def _inferred(cls: type[Operation], types: Sequence[Attribute], props: Mapping[str, Attribute]) -> list[Attribute]:
    rule = RULES.get(cls.name)
    if rule is not None:
        return rule(types, props)
    own = cast("Callable[[Sequence[Attribute], dict[str, Attribute]], tuple[Attribute, ...]] | None",
               getattr(cls, "INFER", None))  # fmt: skip
    if own is not None:
        return list(own(types, dict(props)))
    if not types:
        if cls.dialect_name() == "gpu":
            return [IndexType()]
        raise DSLTypeError(f"'{cls.name}': the types of the results must be given with results=[...]")
    return _first(types, props)


__all__ = ["RULES", "infer"]
