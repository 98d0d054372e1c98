"""Instructions by name on the cpu stack: `rocdl` ops, calls of `llvm.amdgcn.*` and `llvm.nvvm.*`, inline assembly.

One table says what each means (`instruction_rules.py`); whatever is not in it is refused here by its name, before any
code is made. Descriptors of buffers are those of `buffers.py`, also where they are carried as `!llvm.ptr<8>`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import vector as xvector
from xdsl.dialects.builtin import IntegerAttr, IntegerType, VectorType
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...dialects.upstream import llvm
from ...dialects.upstream.vector import FromElementsOp
from ...errors import DSLCompileError
from ...ir.builder import i32, i64, int_attr
from ...ir.types import bit_width, vector_type
from ...lowering.expand.small_floats import stored_type
from ...target import has
from .buffers import EmulatedBuffers

if TYPE_CHECKING:
    from .instruction_rules import Arg, Rule

Own = Callable[[Any, Sequence[SSAValue]], Sequence[SSAValue]]

_FOREIGN = ("llvm.amdgcn.", "llvm.nvvm.", "llvm.r600.")
_DIALECTS = ("rocdl.", "nvvm.")
_HOLDERS = frozenset((llvm.UndefOp, llvm.InsertValueOp, llvm.ExtractValueOp))
"""Ops whose results may hold descriptors."""


def _refused(name: str, where: str) -> DSLCompileError:
    return DSLCompileError(
        f"the cpu stack does not emulate {name}, which {where}; compile for the GPU the kernel is written for, or use "
        "an operation of fx in its place"
    )


class EmulatedInstructions(EmulatedBuffers):
    """In front of a conversion for the cpu stack."""

    if TYPE_CHECKING:  # What a conversion has of its own.

        def buffer_store(
            self, value: SSAValue, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, cache: int
        ) -> None: ...

    def convert(self, type_: Attribute) -> Attribute:
        """Descriptors of buffers are structs here."""
        if isinstance(type_, LLVMPointerType):
            return self.descriptor_type() if llvm.address_space(type_) == 8 else type_
        if isinstance(type_, llvm.StructType):
            packed, fields = type_.data
            made = tuple(self.convert(f) for f in fields)
            # Types that stay are the same objects: what is remembered of them would be kept once for each compilation.
            return type_ if all(a is b for a, b in zip(made, fields, strict=True)) else llvm.StructType((packed, made))
        return cast(Attribute, super().convert(type_))  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

    def own_rule(self, op: Operation) -> Own | None:
        kind = type(op)
        if kind is llvm.CallIntrinsicOp:
            name = cast(llvm.CallIntrinsicOp, op).intrin.data
            return self._intrinsic(op, name) if name.startswith(_FOREIGN) else None
        if op.name.startswith(_DIALECTS):
            return self._table_op(op)
        if kind is llvm.InlineAsmOp:
            return self._assembly(cast(llvm.InlineAsmOp, op))
        if kind in _HOLDERS:
            type_ = op.results[0].type
            wanted = self.convert(type_)
            if wanted != type_:
                return lambda r, args: [r.b.opn(kind, args, (wanted,), dict(op.properties)).results[0]]
        return super().own_rule(op)

    def _intrinsic(self, op: Operation, name: str) -> Own:
        from .instruction_rules import rule_of

        rule = rule_of(name) if name.startswith("llvm.amdgcn.") else None
        if rule is None:
            raise _refused(name, "no rule describes")
        return self._applied(op, rule, name, lambda args: list(args))

    def _table_op(self, op: Operation) -> Own:
        # Programs without such ops need neither their tables nor their rules.
        from ...dialects.upstream.table_ops import ROWS
        from ...lowering.rocdl_instructions import argument_order
        from .instruction_rules import RULES, rule_of

        row = ROWS[op.name]
        name = op.name.removeprefix("rocdl.")
        stem = row.intrinsic.split("{")[0].rstrip(".")
        rule = RULES.get(name) or (rule_of(stem) if stem.startswith("llvm.amdgcn.") else None)
        if rule is None:
            raise _refused(f"'{op.name}'", "no rule describes")
        order = argument_order(name, row)

        def arguments(args: Sequence[SSAValue]) -> list[Arg]:
            found: list[Arg] = []
            for slot in order:
                if slot.operand >= 0:
                    found.append(args[slot.operand])
                    continue
                key = slot.item.name if slot.item is not None else slot.extra
                held = op.properties.get(key)
                found.append(held.value.data if isinstance(held, IntegerAttr) else slot.fixed or 0)
            return found

        return self._applied(op, rule, f"'{op.name}'", arguments)

    def _applied(
        self, op: Operation, rule: Rule, name: str, arguments: Callable[[Sequence[SSAValue]], list[Arg]]
    ) -> Own:
        type_ = op.results[0].type if op.results else None

        def apply(r: EmulatedInstructions, args: Sequence[SSAValue]) -> Sequence[SSAValue]:
            made = rule(r, arguments(args), None if type_ is None else r.convert(type_))
            if op.results and made is None:
                raise _refused(name, "is not known to give a value of this type")
            return [cast(SSAValue, made)] if op.results else []

        return apply

    def _assembly(self, op: llvm.InlineAsmOp) -> Own | None:
        """A line of assembly of the GPU that is emulated; a cpu that emulates none runs its own."""
        emulates = has(self.arch, "amd") or has(self.arch, "nvidia")
        if not emulates or not op.asm_string.data.strip():
            return None
        from .instruction_rules import ASSEMBLY, IGNORED

        lines = [line.strip() for line in re.split(r"[\n;]", op.asm_string.data) if line.strip()]
        words = [line.split()[0] for line in lines]
        if all(word in IGNORED for word in words) and not op.results:
            return lambda r, args: []
        rule = ASSEMBLY.get(words[0]) if len(lines) == 1 else None
        if rule is None:
            unknown = next((w for w in words if w not in ASSEMBLY and w not in IGNORED), words[0])
            raise _refused(f"the assembly {unknown!r}", f"is in {op.asm_string.data!r}")
        places = [p.strip(" ,") for p in lines[0].split(None, 1)[1].split(",")] if " " in lines[0] else []

        def apply(r: EmulatedInstructions, args: Sequence[SSAValue]) -> Sequence[SSAValue]:
            shift = len(op.results)
            found: list[Arg] = []
            for place in places[shift:]:
                at = re.fullmatch(r"\$(\d+)", place)
                if at is not None:
                    found.append(args[int(at[1]) - shift])
                elif re.fullmatch(r"-?(0x)?[0-9a-fA-F]+", place):
                    found.append(int(place, 0))
                else:
                    raise _refused(f"the operand {place!r}", f"is in {op.asm_string.data!r}")
            made = rule(r, found, op.results[0].type if op.results else None)
            return [] if made is None else [made]

        return apply

    # --- what the rules may use -----------------------------------------------------------------------------------

    def number(self, x: Arg) -> int:
        """An argument that must be known when the kernel is compiled."""
        if isinstance(x, int):
            return x
        known: object = self.b.const_of.get(x)
        if known is None:
            attr = x.owner.properties.get("value") if isinstance(x.owner, Operation) else None
            known = attr.value.data if isinstance(attr, IntegerAttr) else None
        if not isinstance(known, int):
            raise DSLCompileError("an argument of this instruction must be a constant")
        return known

    def word(self, x: Arg, type_: Attribute = i32) -> SSAValue:
        """An argument as a value."""
        return self.b.const(x, type_) if isinstance(x, int) else x

    def bits_as(self, value: SSAValue, elem: Attribute, count: int) -> SSAValue:
        """The bits of a scalar or vector as a vector of other elements."""
        type_ = vector_type(stored_type(elem), count)
        held: Attribute = value.type
        if not isinstance(held, VectorType):
            value = self.b.broadcast(value, 1)
        return value if held == type_ else self.b.pure(xvector.BitcastOp, (value,), type_, {})

    def buffer_exchange(
        self, kind: str, value: SSAValue, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue
    ) -> SSAValue:
        """Read-modify-write through a descriptor: what was there; out of range nothing is, and 0 is given."""
        b = self.b
        held: Attribute = value.type
        count = held.get_shape()[0] if isinstance(held, VectorType) else 0
        scalars = [b.extract(value, i) for i in range(count)] or [value]
        nbytes = bit_width(scalars[0].type) // 8
        before: list[SSAValue] = []
        for i, scalar in enumerate(scalars):
            place = b.addi(offset, b.i32(i * nbytes)) if i else offset
            at, inside = self._checked(rsrc, place, soffset, nbytes)
            props: dict[str, Attribute] = {
                "bin_op": int_attr(llvm.ATOMIC_BINARY.index(kind), i64),
                "ordering": int_attr(llvm.ORDERINGS["monotonic"], i64),
            }
            old = b.op1(llvm.AtomicRMWOp, (at, scalar), scalar.type, props)
            before.append(b.select(inside, old, b.const(0, scalar.type)))
        return b.pure(FromElementsOp, before, cast(Attribute, held), {}) if count else before[0]

    def raw_to_shared(
        self, lds: SSAValue, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, nbytes: int, immediate: int
    ) -> None:
        """Copy from a buffer into shared memory at an address, lane after lane."""
        place = self.b.addi(offset, self.b.i32(immediate)) if immediate else offset
        value = self._load_piece(rsrc, place, soffset, 8 * nbytes, 0)
        self._deliver(value, self._lane_slot(lds, nbytes, immediate), nbytes)

    def raw_global_to_shared(self, source: SSAValue, lds: SSAValue, nbytes: int, immediate: int) -> None:
        """Copy from an address in global memory into shared memory, lane after lane."""
        bits = 8 * nbytes
        type_ = IntegerType(bits) if bits <= 32 else vector_type(i32, bits // 32)
        at = self.at(source, immediate)
        value = self.b.op1(llvm.LoadOp, (at,), type_, {"alignment": int_attr(1, i64)})
        self._deliver(value, self._lane_slot(lds, nbytes, immediate), nbytes)

    def expanded(
        self,
        cls: type[Operation],
        values: Sequence[SSAValue],
        types: Sequence[Attribute],
        result: Attribute,
        props: dict[str, Attribute] | None = None,
    ) -> SSAValue:
        """An op of the upper dialects on new values, as if it had been in the program with operands of these types."""
        block = Block(arg_types=types)
        for old, new in zip(block.args, values, strict=True):
            self.vm[old] = new
        op = cls.create(operands=block.args, result_types=[result], properties=dict(props or {}))
        handler = self.table().get(cls)
        if handler is None:
            self.copy(op)
        else:
            handler(self, op)
        return self.val(op.results[0])


__all__ = ["EmulatedInstructions"]
