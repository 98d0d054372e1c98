"""Instructions by name on the cpu stack: `rocdl` ops, calls of `llvm.amdgcn.*` and `llvm.nvvm.*`, inline assembly.

One table says what each means (`instruction_rules.py`); whatever is not in it is refused here by its name, before any
code is made. Descriptors of buffers are those of `buffers.py`, also where they are carried as `!llvm.ptr<8>`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import vector as xvector
from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, VectorType, i1
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...dialects import fly_cpu
from ...dialects.fly.atom_lowering import Operand
from ...dialects.fly.atoms import MmaOpType
from ...dialects.upstream import llvm
from ...dialects.upstream.keyword_attr import KeywordAttr
from ...dialects.upstream.llvm.atomics import CmpXchgOp, cmpxchg_type
from ...dialects.upstream.llvm.values import AddrSpaceCastOp
from ...dialects.upstream.vector import FromElementsOp
from ...errors import DSLCompileError, DSLValueError
from ...ir.builder import i32, i64, i64_list, int_attr
from ...ir.types import bit_width, vector_type
from ...lowering.expand.small_floats import stored_type
from ...target import has
from .buffers import EmulatedBuffers

if TYPE_CHECKING:
    from ...dialects.upstream.table_ops import Row
    from .rule_tools import Arg, Rule

Own = Callable[[Any, Sequence[SSAValue]], Sequence[SSAValue]]

_FOREIGN = ("llvm.amdgcn.", "llvm.nvvm.", "llvm.r600.")
_DIALECTS = ("rocdl.", "nvvm.")
_PREFIXES = {"rocdl": "llvm.amdgcn.", "nvvm": "llvm.nvvm."}
_POINTERS = frozenset((LLVMPointerType, llvm.StructType))
"""Types that are others here."""


def _full_name(op: Operation, row: Row) -> str:
    """The intrinsic that an op of a table stands for, without the types at its end."""
    words = {k: v.data for k, v in op.properties.items() if isinstance(v, KeywordAttr)}
    text = re.sub(r"\{(\w+)\}", lambda m: words.get(m[1], ""), row.intrinsic)
    return text.rstrip(".")


def _literal(attr: IntegerAttr[IntegerType]) -> int:
    """A literal of an op; flags are 0 and 1."""
    return attr.value.data & 1 if attr.type == i1 else attr.value.data


def refused(name: str, where: str) -> DSLCompileError:
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
        def set_state(self, values: dict[str, SSAValue]) -> None: ...

    def convert(self, type_: Attribute) -> Attribute:
        """Descriptors of buffers are structs here, and all memory is one address space."""
        if isinstance(type_, LLVMPointerType):
            space = llvm.address_space(type_)
            return type_ if not space else self.descriptor_type() if space == 8 else llvm.ptr()
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
            return self._intrinsic(op, name) if name.startswith(_FOREIGN) else self._common(op, name)
        if op.name.startswith(_DIALECTS):
            return self._table_op(op)
        if kind is llvm.InlineAsmOp:
            from .assembly import assembly_rule

            return assembly_rule(self, cast(llvm.InlineAsmOp, op))
        if kind is llvm.PtrToIntOp or kind is llvm.IntToPtrOp:
            return self._pointers(op)
        if any(type(x.type) in _POINTERS for x in op.results) and not op.regions:
            return self._retyped(op)
        return super().own_rule(op)

    def _retyped(self, op: Operation) -> Own | None:
        """An op that gives a pointer, or a struct with one."""
        types: list[Attribute] = [x.type for x in op.results]
        wanted = [self.convert(t) for t in types]
        if wanted == types:
            return super().own_rule(op)
        if isinstance(op, AddrSpaceCastOp):
            return lambda r, args: [r.flat(args[0])]
        kind, props = type(op), dict(op.properties)
        if isinstance(op, llvm.AddressOfOp):
            # Globals stay where they are, but for those in shared memory, which have a place of their own.
            own = wanted[0] if llvm.address_space(cast(LLVMPointerType, types[0])) == 3 else types[0]
            return lambda r, args: [r.flat(r.b.pure(kind, (), own, props))]
        return lambda r, args: list(r.b.opn(kind, args, wanted, props).results)

    def _common(self, op: Operation, name: str) -> Own | None:
        """An intrinsic of all targets; its name tells the address spaces of pointers."""
        spelled = re.sub(r"\.p\d+\b", ".p0", name)
        if spelled == name:
            return None
        props = {**op.properties, "intrin": StringAttr(spelled)}
        types = [self.convert(x.type) for x in op.results]
        return lambda r, args: list(r.b.opn(llvm.CallIntrinsicOp, args, types, props).results)

    def _intrinsic(self, op: Operation, name: str) -> Own:
        from .instruction_rules import rule_of

        rule = rule_of(name)
        if rule is None:
            raise refused(name, "no rule describes")
        return self._applied(op, rule, name, lambda args: list(args))

    def _table_op(self, op: Operation) -> Own:
        # Programs without such ops need neither their tables nor their rules.
        from ...dialects.upstream.table_ops import ROWS
        from ...lowering.rocdl_instructions import argument_order
        from .instruction_rules import rule_of

        row = ROWS[op.name]
        dialect, _, name = op.name.partition(".")
        rule = rule_of(_full_name(op, row) or f"{_PREFIXES[dialect]}{name}")
        if rule is None:
            raise refused(f"'{op.name}'", "no rule describes")
        order = argument_order(name, row)

        def arguments(args: Sequence[SSAValue]) -> list[Arg]:
            found: list[Arg] = []
            for slot in order:
                if slot.operand >= 0:
                    found.append(args[slot.operand])
                    continue
                key = slot.item.name if slot.item is not None else slot.extra
                held = op.properties.get(key)
                literal = cast("IntegerAttr[IntegerType]", held) if isinstance(held, IntegerAttr) else None
                found.append(_literal(literal) if literal is not None else slot.fixed or 0)
            return found

        return self._applied(op, rule, f"'{op.name}'", arguments)

    def _applied(
        self, op: Operation, rule: Rule, name: str, arguments: Callable[[Sequence[SSAValue]], list[Arg]]
    ) -> Own:
        type_ = op.results[0].type if op.results else None

        def apply(r: EmulatedInstructions, args: Sequence[SSAValue]) -> Sequence[SSAValue]:
            from .rule_tools import NotEmulated

            wanted = None if type_ is None else r.convert(type_)
            try:
                made = rule(r, arguments(args), wanted)
            except (NotEmulated, DSLValueError, ValueError, IndexError, KeyError) as error:
                raise refused(name, f"is used here in a way that is not known: {error}") from error
            if wanted is None:
                return []
            if made is None or made.type != wanted:
                raise refused(name, f"is not known to give a value of {type_}")
            return [made]

        return apply

    def _pointers(self, op: Operation) -> Own | None:
        """Addresses as integers: of descriptors, which are structs here, and of shared memory, where they count from
        its beginning."""
        source, target = op.operands[0].type, op.results[0].type
        pointer = source if isinstance(op, llvm.PtrToIntOp) else target
        space = llvm.address_space(pointer) if isinstance(pointer, LLVMPointerType) else 0
        if space == 8:
            if isinstance(op, llvm.PtrToIntOp):
                return lambda r, args: [r.descriptor_bits(args[0], target)]
            return lambda r, args: [r.descriptor_from(args[0])]
        if isinstance(op, llvm.PtrToIntOp):
            return lambda r, args: [r.address_number(args[0], target, shared=space == 3)]
        return lambda r, args: [r.pointer_at(args[0], r.convert(target), shared=space == 3)]

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
            raise DSLValueError("an argument that must be a constant is not")
        return known & 1 if x.type == i1 else known

    def word(self, x: Arg, type_: Attribute = i32) -> SSAValue:
        """An argument as a value."""
        return self.b.const(x, type_) if isinstance(x, int) else x

    def first_lane(self) -> SSAValue:
        """Number of the first lane of the wave that takes part, i64."""
        from .lane_rules import first_of, present

        return self.b.cast("extui", first_of(self, present(self)), i64)

    def call_with_state(self, atom: MmaOpType, state: dict[str, SSAValue], *operands: Operand) -> None:
        """A matrix atom with these fields of its state set."""
        self.set_state(state)
        self.call_mma(atom, *operands)

    def address_number(self, pointer: SSAValue, type_: Attribute, *, shared: bool) -> SSAValue:
        """An address as an integer; in shared memory it counts from the beginning of that."""
        b = self.b
        if not shared:
            return b.pure(llvm.PtrToIntOp, (pointer,), type_, {})
        numbers = [b.pure(llvm.PtrToIntOp, (p,), i64, {}) for p in (pointer, self._shared_base())]
        offset = b.int_binary("subi", *numbers)
        width = bit_width(type_)
        return offset if width == 64 else b.cast("trunci" if width < 64 else "extui", offset, type_)

    def pointer_at(self, number: SSAValue, type_: Attribute, *, shared: bool) -> SSAValue:
        """The pointer of an address that is an integer."""
        b = self.b
        if not shared:
            return b.pure(llvm.IntToPtrOp, (number,), type_, {})
        width = bit_width(number.type)
        low = b.cast("trunci", number, i32) if width > 32 else number
        offset = b.cast("extui", low, i64)
        base = b.pure(llvm.PtrToIntOp, (self._shared_base(),), i64, {})
        return b.pure(llvm.IntToPtrOp, (b.addi(base, offset),), type_, {})

    def _shared_base(self) -> SSAValue:
        return self.b.pure(fly_cpu.SharedBaseOp, (), llvm.ptr(), {})

    def flat(self, pointer: SSAValue) -> SSAValue:
        """A pointer of any address space as one of none."""
        if pointer.type == llvm.ptr():
            return pointer
        number = self.b.pure(llvm.PtrToIntOp, (pointer,), i64, {})
        return self.b.pure(llvm.IntToPtrOp, (number,), llvm.ptr(), {})

    # --- descriptors as the hardware has them ---------------------------------------------------------------------

    def resource(self, x: Arg) -> SSAValue:
        """A descriptor: the struct that stands for it here, or four words as the hardware reads them."""
        value = self.word(x)
        return self.descriptor_from(value) if isinstance(value.type, VectorType) else value

    def _base_bits(self) -> int:
        return 57 if self.arch is not None and has(self.arch, "buffer_wide_descriptor") else 48

    def descriptor_from(self, words: SSAValue) -> SSAValue:
        """The struct of a descriptor of 128 bits: base, and bytes in the words behind it."""
        b, wide = self.b, IntegerType(128)
        whole = words if words.type == wide else b.pure(llvm.BitcastOp, (words,), wide, {})
        bits = self._base_bits()
        low = b.int_binary("andi", b.cast("trunci", whole, i64), b.const((1 << bits) - 1, i64))
        at, count = (57, 45) if bits == 57 else (64, 32)
        size = b.cast("trunci", b.int_binary("shrui", whole, b.const(at, wide)), i64)
        size = b.int_binary("andi", size, b.const((1 << count) - 1, i64))
        base = b.pure(llvm.IntToPtrOp, (low,), llvm.ptr(0), {})
        return self._struct(self.descriptor_type(), base, size)

    def descriptor_bits(self, rsrc: SSAValue, type_: Attribute) -> SSAValue:
        """A descriptor as the integer that it is to the hardware."""
        b, wide = self.b, IntegerType(128)
        base = b.pure(llvm.PtrToIntOp, (self._field(rsrc, 0, llvm.ptr(0)),), i64, {})
        at = 57 if self._base_bits() == 57 else 64
        size = b.int_binary("shli", b.cast("extui", self._field(rsrc, 1, i64), wide), b.const(at, wide))
        whole = b.int_binary("ori", b.cast("extui", base, wide), size)
        return whole if bit_width(type_) == 128 else b.cast("trunci", whole, type_)

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
        props: dict[str, Attribute] = {
            "bin_op": int_attr(llvm.ATOMIC_BINARY.index(kind), i64),
            "ordering": int_attr(llvm.ORDERINGS["monotonic"], i64),
        }
        with self.instructions(1):
            for i, scalar in enumerate(scalars):
                place = b.addi(offset, b.i32(i * nbytes)) if i else offset
                at, inside = self._checked(rsrc, place, soffset, nbytes)
                old = b.op1(llvm.AtomicRMWOp, (at, scalar), scalar.type, dict(props))
                before.append(b.select(inside, old, b.const(0, scalar.type)))
        return b.pure(FromElementsOp, before, cast(Attribute, held), {}) if count else before[0]

    def buffer_compare(
        self, new: SSAValue, expected: SSAValue, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue
    ) -> SSAValue:
        """Compare and exchange through a descriptor: what was there, 0 out of range."""
        b = self.b
        at, inside = self._checked(rsrc, offset, soffset, bit_width(new.type) // 8)
        order = int_attr(llvm.ORDERINGS["monotonic"], i64)
        props: dict[str, Attribute] = {"success_ordering": order, "failure_ordering": order}
        pair = b.op1(CmpXchgOp, (at, expected, new), cmpxchg_type(new.type), props)
        old = b.pure(llvm.ExtractValueOp, (pair,), new.type, {"position": i64_list((0,))})
        return b.select(inside, old, b.const(0, new.type))

    def raw_to_shared(
        self, lds: SSAValue, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, nbytes: int, immediate: int
    ) -> None:
        """Copy from a buffer into shared memory at an address, lane after lane."""
        place = self.b.addi(offset, self.b.i32(immediate)) if immediate else offset
        with self.issued():
            value = self._load_piece(rsrc, place, soffset, 8 * nbytes, 0)
        self._deliver(value, self._lane_slot(lds, nbytes, immediate), nbytes)

    def raw_global_to_shared(self, source: SSAValue, lds: SSAValue, nbytes: int, immediate: int) -> None:
        """Copy from an address in global memory into shared memory, lane after lane."""
        bits = 8 * nbytes
        type_ = IntegerType(bits) if bits <= 32 else vector_type(i32, bits // 32)
        value = self.take(self.at(source, immediate), type_, issued=True)
        self._deliver(value, self._lane_slot(lds, nbytes, immediate), nbytes)

    def expanded(
        self, cls: type[Operation], values: Sequence[SSAValue], types: Sequence[Attribute], result: Attribute
    ) -> SSAValue:
        """An op of the upper dialects on new values, as if it had been in the program with operands of these types."""
        block = Block(arg_types=types)
        for old, new in zip(block.args, values, strict=True):
            self.vm[old] = new
        op = cls.create(operands=block.args, result_types=[result])
        handler = self.table().get(cls)
        if handler is None:
            self.copy(op)
        else:
            handler(self, op)
        return self.val(op.results[0])
