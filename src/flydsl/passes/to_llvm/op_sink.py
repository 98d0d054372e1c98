"""The sink of rules that makes ops of `llvm`, `rocdl` and `nvvm`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.arith import IntegerOverflowAttr
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    i1,
)
from xdsl.dialects.llvm import FastMathAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...dialects.upstream import llvm
from ...dialects.upstream.llvm.atomics import FenceOp
from ...dialects.upstream.llvm.attrs import ConstantRangeAttr
from ...dialects.upstream.llvm.choices import FCmpOp, SelectOp
from ...dialects.upstream.llvm.function import CallOp
from ...dialects.upstream.llvm.intrinsics import IMMEDIATE, INTRINSIC_OPS
from ...dialects.upstream.llvm.memory import ORDERINGS
from ...dialects.upstream.llvm.values import ExtractElementOp, PoisonOp
from ...dialects.upstream.table_ops import ROWS, TableOp
from ...errors import DSLCompileError
from ...ir.builder import CMPF, CMPI, elem_of, i32, i32_list, i64, int_attr
from ...ir.dead_code import is_used
from ...ir.types import vector_type
from ...llvm.text.llvm_ops import CAST_OPS, FLOAT_OPS, INT_OPS
from ...llvm.text.memory_ops import MEMORY
from ...lowering.llvm_types import llvm_type
from ...lowering.rules.arith_rules import flag_type
from ...lowering.rules.sink import Sink
from .llvm_declare import address_props, declare, text_global

if TYPE_CHECKING:
    from xdsl.dialects.arith import FastMathFlagsAttr
    from xdsl.dialects.builtin import VectorType

    from .llvm_conversion import LlvmBuilder

_BINARY = {word: cls for cls, word in {**INT_OPS, **FLOAT_OPS}.items()}
_CASTS = {word: cls for cls, word in CAST_OPS.items()}
_OVERFLOW = {"none": 0, "nsw": 1, "nuw": 2}
_PREDICATES = {i: int_attr(i, i64) for i in range(16)}
_flags: dict[Attribute, dict[str, Attribute]] = {}


def _flag_props(flags: Attribute | None) -> dict[str, Attribute]:
    """The property of an op of `llvm` that says what the flags of an op of `arith` or `math` say."""
    if flags is None or not cast("FastMathFlagsAttr | IntegerOverflowAttr", flags).data:
        return {}
    found = _flags.get(flags)
    if found is None:
        found = dict[str, Attribute]()
        if isinstance(flags, IntegerOverflowAttr):
            number = sum(_OVERFLOW[str(getattr(f, "value", f))] for f in flags.data)
            if number:
                found["overflowFlags"] = int_attr(number, i32)
        else:
            found["fastmathFlags"] = FastMathAttr(tuple(cast("FastMathFlagsAttr", flags).data))
        _flags[flags] = found
    return found


class OpSink(Sink[SSAValue]):
    """Appends to the block of a builder; values are those of the new IR, with types of `llvm`."""

    b: LlvmBuilder
    vm: dict[SSAValue, SSAValue]
    module_block: Block
    dead: set[int]
    instructions: ClassVar[Mapping[str, type[TableOp]]] = {}
    """Ops of the target's dialect by name."""

    @abstractmethod
    def ll(self, old: SSAValue) -> SSAValue:
        """An operand with its converted type."""

    def make(
        self, cls: type[Operation], operands: Sequence[SSAValue], type_: Attribute, props: Mapping[str, Attribute] = {}
    ) -> SSAValue:
        """A pure op, once."""
        return self.b.pure(cls, operands, llvm_type(type_), dict(props))

    # --- values ---------------------------------------------------------------------------------------------------

    def value(self, old: SSAValue, /) -> SSAValue:
        return self.ll(old)

    def give(self, old: SSAValue, new: SSAValue, /) -> None:
        self.vm[old] = new

    def used(self, result: SSAValue) -> bool:
        return is_used(result, self.dead)

    def constant(self, attr: Attribute, type_: Attribute) -> SSAValue:
        converted = llvm_type(type_)
        value: Any = attr
        if not isinstance(attr, IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr):
            raise DSLCompileError(f"failed to legalize operation 'arith.constant' with value {attr}")
        if converted != type_:
            elem = elem_of(converted)
            if isinstance(attr, IntegerAttr):
                value = int_attr(value.value.data, cast(Any, converted))
            elif isinstance(attr, DenseIntOrFPElementsAttr) and elem_of(type_) == elem:
                value = DenseIntOrFPElementsAttr(cast("VectorType[IntegerType]", converted), attr.data)
            elif isinstance(attr, DenseIntOrFPElementsAttr) and isinstance(elem, IntegerType):
                value = DenseIntOrFPElementsAttr.from_list(cast(Any, converted), list(value.get_values()))
            else:
                raise DSLCompileError(f"failed to legalize operation 'arith.constant' of type {type_}")
        return self.b.constant(value, converted)

    def number(self, value: int | float, type_: Attribute) -> SSAValue:
        converted = llvm_type(type_)
        elem = elem_of(converted)
        attr: Attribute = (
            FloatAttr(float(value), cast(Any, elem)) if isinstance(value, float) else int_attr(value, cast(Any, elem))
        )
        if elem is not converted:
            attr = DenseIntOrFPElementsAttr.from_list(cast(Any, converted), [value])
        return self.b.constant(attr, converted)

    def poison(self, type_: Attribute) -> SSAValue:
        return self.make(PoisonOp, (), type_)

    def null(self, type_: Attribute) -> SSAValue:
        return self.make(xllvm.ZeroOp, (), type_)

    # --- arithmetic -----------------------------------------------------------------------------------------------

    def binary(self, word: str, type_: Attribute, a: SSAValue, b: SSAValue, flags: Attribute | None = None) -> SSAValue:
        return self.make(_BINARY[word], (a, b), type_, _flag_props(flags))

    def divisor(self, op: Operation, signed: bool) -> SSAValue:
        return self.value(op.operands[1])

    def fneg(self, type_: Attribute, a: SSAValue, flags: Attribute | None = None) -> SSAValue:
        return self.make(xllvm.FNegOp, (a,), type_, _flag_props(flags))

    def cast(self, word: str, a: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
        return a if a.type == llvm_type(target) else self.make(_CASTS[word], (a,), target)

    def icmp(self, predicate: str, type_: Attribute, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.make(xllvm.ICmpOp, (a, b), flag_type(type_), {"predicate": _PREDICATES[CMPI[predicate]]})

    def fcmp(
        self, predicate: str, type_: Attribute, a: SSAValue, b: SSAValue, flags: Attribute | None = None
    ) -> SSAValue:
        props = {"predicate": _PREDICATES[CMPF[predicate]], **_flag_props(flags)}
        return self.make(FCmpOp, (a, b), flag_type(type_), props)

    def select(
        self,
        cond_type: Attribute,
        type_: Attribute,
        cond: SSAValue,
        a: SSAValue,
        b: SSAValue,
        flags: Attribute | None = None,
    ) -> SSAValue:
        return self.make(SelectOp, (cond, a, b), type_, _flag_props(flags))

    def intr(
        self,
        key: str,
        result: Attribute,
        args: Sequence[SSAValue],
        types: Sequence[Attribute],
        flags: Attribute | None = None,
        immediate: int | None = None,
    ) -> SSAValue:
        props = _flag_props(flags)
        if immediate is not None:
            props = {IMMEDIATE[key]: int_attr(immediate, i32 if key == "is.fpclass" else i1)}
        return self.make(INTRINSIC_OPS[key], args, result, props)

    # --- vectors --------------------------------------------------------------------------------------------------

    def _index(self, at: int | SSAValue) -> SSAValue:
        return self.number(at, i64) if isinstance(at, int) else at

    def element(self, type_: Attribute, v: SSAValue, at: int | SSAValue, index: Attribute = i64) -> SSAValue:
        return self.make(ExtractElementOp, (v, self._index(at)), elem_of(type_))

    def with_element(
        self, type_: Attribute, v: SSAValue, x: SSAValue, at: int | SSAValue, index: Attribute = i64
    ) -> SSAValue:
        return self.make(xllvm.InsertElementOp, (v, x, self._index(at)), type_)

    def shuffle(self, type_: Attribute, a: SSAValue, b: SSAValue | None, mask: Sequence[int]) -> SSAValue:
        elem = elem_of(llvm_type(type_))
        if b is None:
            if a.type == vector_type(elem, len(mask)) and all(i == m for i, m in enumerate(mask)):
                return a
            b = self.poison(type_)
        return self.make(xllvm.ShuffleVectorOp, (a, b), vector_type(elem, len(mask)), {"mask": i32_list(mask)})

    # --- memory and calls -----------------------------------------------------------------------------------------

    def load(
        self, type_: Attribute, at: SSAValue, pointer: Attribute, align: int, *, invariant: bool = False
    ) -> SSAValue:
        props = _align(align) | ({"invariant": UnitAttr()} if invariant else {})
        return self.b.op1(llvm.LoadOp, (at,), llvm_type(type_), props)

    def store(self, type_: Attribute, x: SSAValue, at: SSAValue, pointer: Attribute, align: int) -> None:
        self.b.opn(llvm.StoreOp, (x, at), (), _align(align))

    def address(
        self, elem: Attribute, base: SSAValue, pointer: Attribute, indices: Sequence[int], flags: int = 0
    ) -> SSAValue:
        props = {"rawConstantIndices": i32_list(indices), "elem_type": elem, "noWrapFlags": int_attr(flags, i32)}
        return self.make(llvm.GEPOp, (base,), pointer, cast(dict[str, Attribute], props))

    def room(self, elem: Attribute, align: int) -> SSAValue:
        return self.b.room(elem, self.number(1, i32), align)

    def fence(self, ordering: str, scope: str) -> None:
        self.b.opn(FenceOp, (), (), {"ordering": int_attr(ORDERINGS[ordering], i64), "syncscope": StringAttr(scope)})

    def instruction(
        self, name: str, intrinsic: str, result: Attribute | None, args: Sequence[SSAValue] = (),
        types: Sequence[Attribute] = (), *, pure: bool = False, bound: int | None = None, defined: bool = False,
        keywords: Mapping[str, str] = {}, immediates: Sequence[tuple[Attribute, int]] = (),
        expand: Callable[[Sink[Any]], object] | None = None,
    ) -> SSAValue:  # fmt: skip
        found = () if result is None else (result,)
        if not name:
            props: dict[str, Attribute] = {"intrin": StringAttr(intrinsic)}
            props["operandSegmentSizes"] = i32_list((len(args), 0))
            return self._result(self.b.opn(llvm.CallIntrinsicOp, args, found, props))
        cls = self.instructions[name]
        row = ROWS[cls.name]
        classes = {item.name: item.attr for item in row.items if item.attr is not None}
        props = {word: classes[word](value) for word, value in keywords.items()}
        if bound is not None:
            range_ = ConstantRangeAttr((32, 0, bound))
            if any(item.kind == "range" for item in row.items):
                props["range"] = range_
            else:
                facts: dict[str, Attribute] = {"llvm.noundef": UnitAttr()} if defined else {}
                props["res_attrs"] = ArrayAttr([DictionaryAttr({**facts, "llvm.range": range_})])
        if pure and result is not None:
            return self.make(cls, args, result, props)
        return self._result(self.b.opn(cls, args, found, props))

    def _result(self, op: Operation) -> SSAValue:
        return cast(SSAValue, op.results[0] if op.results else None)

    def call(
        self, name: str, result: Attribute | None, args: Sequence[SSAValue], types: Sequence[Attribute], *,
        fixed: int | None = None, memory: str | None = None,
    ) -> SSAValue:  # fmt: skip
        output = None if result is None else llvm_type(result)
        inputs = [llvm_type(t) for t in types]
        type_ = declare(self.module_block, name, inputs[:fixed], output, variadic=fixed is not None)
        props = CallOp.properties_for(name, len(args), type_ if fixed is not None else None)
        made = self.b.opn(CallOp, args, () if output is None else (output,), props)
        if memory is not None:
            made.attributes = {MEMORY: StringAttr(memory)}
        return self._result(made)

    def text(self, text: str, prefix: str, space: int) -> SSAValue:
        name = text_global(self.module_block, text, space, prefix)
        return self.make(llvm.AddressOfOp, (), llvm.ptr(space), address_props(name))

    def asm(
        self,
        text: str,
        constraints: str,
        result: Attribute | None,
        args: Sequence[SSAValue],
        types: Sequence[Attribute],
        memory: str | None,
    ) -> SSAValue:
        props: dict[str, Attribute] = {
            "asm_string": StringAttr(text),
            "constraints": StringAttr(constraints),
            "tail_call_kind": xllvm.TailCallKindAttr(xllvm.TailCallKind.NONE),
        }
        if memory != "none":
            # Other tools do not know what `MEMORY` says, and must not drop what reads or writes.
            props["has_side_effects"] = UnitAttr()
        made = self.b.opn(xllvm.InlineAsmOp, args, () if result is None else (llvm_type(result),), props)
        if memory is not None:
            made.attributes = {MEMORY: StringAttr(memory)}
        return self._result(made)


def _align(align: int) -> dict[str, Attribute]:
    return {"alignment": int_attr(align, i64)} if align else {}
