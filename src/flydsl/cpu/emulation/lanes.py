"""Instructions of many lanes on the CPU: every thread leaves its operands where its group can read them.

Atoms reach this through `AtomEmulation` (`dialects/fly/atom_lowering.py`). A group is the threads of one instruction;
its exchange region (`dialects/fly_cpu.py`) holds either one slot per lane, or a tile that all lanes fill.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import BoolAttr, IntegerType, StringAttr, SymbolRefAttr, UnitAttr, VectorType, i1, i8
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ... import layout as L
from ...dialects import fly_cpu
from ...dialects.fly.atom_lowering import AtomEmulation, MmaScales, MmaSums, Operand, TileCopy
from ...dialects.fly.atoms import CopyOpType, MmaOpType
from ...dialects.upstream import llvm, scf
from ...dialects.upstream.vector import FromElementsOp
from ...ir.builder import elem_of, i32, i32_list, i64, int_attr
from ...ir.emitter import UNKNOWN
from ...ir.enums import AddressSpace
from ...ir.types import bit_width, vector_type
from ...layout import Layout
from ...lowering.expand.small_floats import packed_elements, packed_vector, stored_type
from ...lowering.rebuild import Rebuilder
from .mma import emulate_mma
from .nv import emulate_call
from .tdm import emulate_tile_copy

_MOST_THREADS = 1024


class Emulation(Rebuilder):
    """What a conversion becomes with it: atoms and ops are called to `emulate` themselves, not to `lower`."""

    arch: str | None
    checked: bool
    functions: dict[tuple[object, ...], str]

    if TYPE_CHECKING:  # What a conversion has of its own.

        def stack(self, elem: Attribute, count: int, align: int) -> SSAValue: ...
        def add_function(self, made: func.FuncOp) -> None: ...
        def load(self, at: Operand, type_: Attribute, align: int | None = None) -> SSAValue: ...
        def store(self, value: SSAValue, at: Operand, align: int | None = None) -> None: ...
        def moved(self, at: Operand, by: L.Leaf) -> Operand: ...
        def raw_pointer(self, at: Operand) -> SSAValue: ...
        def warp_size(self) -> int: ...

    def call_copy(self, op: CopyOpType, src: Operand, dst: Operand) -> None:
        """A copy atom on lowered operands."""
        op.emulate(cast(AtomEmulation, self), src, dst)

    def call_mma(self, op: MmaOpType, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """An MMA atom on lowered operands."""
        op.emulate(cast(AtomEmulation, self), d, a, b, c)

    def own_rule(self, op: Operation) -> Callable[[Any, Sequence[SSAValue]], Sequence[SSAValue]] | None:
        """How an op of a target's dialect emulates itself."""
        return getattr(op, "emulate", None)

    # --- what atoms may use ---------------------------------------------------------------------------------------

    def group_lane(self, group: int = 0) -> SSAValue:
        """Index of the thread in its group of so many threads, i64; 0 is the warp."""
        return self.b.pure(fly_cpu.LaneOp, (), i64, {"group": int_attr(group, i32)})

    def exchange(self, value: SSAValue, group: int = 0) -> Callable[[SSAValue], SSAValue]:
        """Meet the group and give a function from a lane (i64) to the value that lane came with.

        The function is good until the threads meet again. A lane that did not come has no defined value.
        """
        nbytes = _bytes(value.type)
        at, stride = self.deposit(nbytes, group, whole=False)
        self.put(value, self.at(at, self.b.muli(self.group_lane(group), stride)))
        shown = self.rendezvous(group)
        return lambda lane: self.take(self.at(shown, self.b.muli(lane, stride)), value.type)

    def deposit(self, nbytes: int, group: int, *, whole: bool) -> tuple[SSAValue, SSAValue]:
        """Where the group writes, and the bytes from lane to lane; `nbytes` per lane, or of the `whole` group."""
        op = self.b.opn(
            fly_cpu.DepositOp,
            (),
            (llvm.ptr(), i64),
            {"group": int_attr(group, i32), "bytes": int_attr(nbytes, i32), "shared": BoolAttr.from_bool(whole)},
        )
        return op.results[0], op.results[1]

    def rendezvous(self, group: int = 0) -> SSAValue:
        """Wait for the group; where it can read what it wrote."""
        return self.b.op1(fly_cpu.RendezvousOp, (), llvm.ptr(), {"group": int_attr(group, i32)})

    def yield_thread(self) -> None:
        """Let other threads run: for a thread that looks at memory now and then."""
        self.b.opn(fly_cpu.YieldOp, (), ())

    def routine(self, name: str, args: Sequence[SSAValue] = (), result: Attribute | None = None) -> SSAValue:
        """Call a function of `cpu/code/routines.py`; without a result type the value is not to be used."""
        props: dict[str, Attribute] = {"callee": StringAttr(name)}
        op = self.b.opn(fly_cpu.CallOp, args, () if result is None else (result,), props)
        return cast(SSAValue, op.results[0] if op.results else None)

    def outlined(
        self,
        key: tuple[object, ...],
        args: Sequence[SSAValue],
        result: Attribute | None,
        body: Callable[[Sequence[SSAValue]], SSAValue | None],
    ) -> SSAValue | None:
        """Call a function of the device module, which `body` writes where `key` is asked for the first time.

        A kernel has hundreds of equal instructions, whose work would be compiled each time. The body sees its arguments
        and constants alone. Elements of a result that is a vector follow from those of the last argument: see
        `cpu/code/registers.py`.
        """
        name = self.functions.get(key)
        if name is None:
            name = self.functions[key] = f"fly_emulated_{key[0]}_{len(self.functions)}"
            entry = Block(arg_types=[a.type for a in args])
            with self.b.open_function(entry):
                self.b.loc = UNKNOWN
                made = body(entry.args)
                self.b.opn(func.ReturnOp, () if made is None else (made,), ())
            types = list(entry.arg_types), [] if result is None else [result]
            self.add_function(func.FuncOp(name, types, Region(entry), visibility="private"))
        op = self.b.opn(func.CallOp, args, () if result is None else (result,), {"callee": SymbolRefAttr(name)})
        op.attributes[fly_cpu.EMULATED] = UnitAttr()
        return op.results[0] if op.results else None

    def note_copy(self, kind: str, at: SSAValue, nbytes: int) -> None:
        """Tell checked mode of an asynchronous copy to an address in shared memory, which was done at once."""
        if self.checked:
            self.routine(f"fly_check_{kind}", (at, self.b.const(nbytes, i64)))

    @contextmanager
    def issued(self) -> Generator[None]:
        """What is loaded here is the source of a copy: in checked mode it is read until the wait for that."""
        block, before = self.b.block, self.b.block.last_op
        yield
        for op in self._accesses(block, before):
            if isinstance(op, llvm.LoadOp):
                op.attributes[fly_cpu.ISSUED] = UnitAttr()

    @contextmanager
    def instructions(self, count: int) -> Generator[None]:
        """The accesses here are those of so many vector memory instructions, however many it takes to emulate them."""
        block, before = self.b.block, self.b.block.last_op
        yield
        for op in self._accesses(block, before)[count:]:
            op.attributes[fly_cpu.UNCOUNTED] = UnitAttr()

    def _accesses(self, block: Block, before: Operation | None) -> list[Operation]:
        """In checked mode: the accesses of a block behind an op."""
        found: list[Operation] = []
        op = None if not self.checked else block.first_op if before is None else before.next_op
        while op is not None:
            found += [x for x in op.walk() if isinstance(x, llvm.LoadOp | llvm.StoreOp | llvm.AtomicRMWOp)]
            op = op.next_op
        return found

    def note_piece(self, kind: str, at: SSAValue, nbytes: int, *, tests: bool) -> None:
        """Tell checked mode of a piece of a copy of gfx1250: where it is in shared memory (`cpu/code/counters.py`).

        `kind` is `lane_load`, `lane_store`, `tensor_load` or `tensor_store`; it `tests` the access where nothing else
        can follow how its address was computed.
        """
        if self.checked:
            self.routine(f"fly_check_{kind}", (at, self.b.const(nbytes, i64), self.b.const(int(tests), i1)))

    def note_issued(self, counter: str) -> None:
        """Tell checked mode that a copy was issued which a counter of gfx1250 counts, behind its pieces."""
        if self.checked:
            self.routine(f"fly_check_{counter}_issued")

    def note_product(self, at: Operand, group: int) -> None:
        """Tell checked mode of an operand in shared memory that a product of `group` threads reads until its wait.

        One thread does it for all.
        """
        if not self.checked or not self.in_shared(at):
            return
        b, block = self.b, Block()
        layout: Any = at.data.layout
        nbytes = -(-cast(int, L.cosize(layout)) * bit_width(at.data.elem) // 8)
        with b.region(block):
            self.routine("fly_check_wgmma", (self.raw_pointer(at), b.const(nbytes, i64)))
            b.opn(scf.YieldOp, (), ())
        first = b.cmpi("eq", self.group_lane(group), b.const(0, i64))
        b.with_regions(scf.IfOp, (first,), (), [Region(block), Region()])

    def wait_until(self, what: str, done: Callable[[], SSAValue]) -> None:
        """Let other threads run until a condition (i1) on memory holds; `what` says in words what is waited for."""
        b, before, after = self.b, Block(), Block()
        with b.region(before):
            again = b.int_binary("xori", done(), b.const(1, i1))
            b.opn(scf.ConditionOp, (again,), ())
        with b.region(after):
            b.opn(fly_cpu.WaitOp, (), (), {"what": StringAttr(what)})
            b.opn(scf.YieldOp, (), ())
        b.with_regions(scf.WhileOp, (), (), [Region(before), Region(after)])
        self.routine("fly_progress")

    # --- memory of the exchange -----------------------------------------------------------------------------------

    def at(self, base: SSAValue, nbytes: SSAValue | int) -> SSAValue:
        """An address some bytes further on."""
        static = isinstance(nbytes, int)
        if static and not nbytes:
            return base
        props: dict[str, Attribute] = {
            "rawConstantIndices": i32_list((nbytes if static else llvm.GEP_DYNAMIC,)),
            "elem_type": i8,
            "noWrapFlags": int_attr(0, i32),
        }
        return self.b.pure(llvm.GEPOp, (base,) if static else (base, nbytes), base.type, props)

    def put(self, value: SSAValue, at: SSAValue, *, issued: bool = False) -> None:
        """Store at an address of any alignment; one that a copy has `issued` lasts until a wait."""
        made = self.b.opn(llvm.StoreOp, (value, at), (), {"alignment": int_attr(1, i64)})
        if issued:
            made.attributes[fly_cpu.ISSUED] = UnitAttr()

    def take(self, at: SSAValue, type_: Attribute, *, issued: bool = False) -> SSAValue:
        """Load from an address of any alignment, in the same way."""
        made = self.b.opn(llvm.LoadOp, (at,), (type_,), {"alignment": int_attr(1, i64)})
        if issued:
            made.attributes[fly_cpu.ISSUED] = UnitAttr()
        return made.results[0]

    def place(self, lane: SSAValue, layout: Layout) -> SSAValue:
        """Position of a lane (i64) in a layout over lanes, i64."""
        found: Any = L.crd2idx(self.b.leaf(lane, 64), layout)
        return self.b.leaf_value(found, 64)

    # --- atoms ----------------------------------------------------------------------------------------------------

    def emulate_mma(
        self, op: MmaOpType, d: Operand, a: Operand, b: Operand, c: Operand, *,
        signed: tuple[bool, bool] = (True, True), clamp: bool = False, scales: MmaScales | None = None,
        sums: MmaSums | None = None,
    ) -> None:  # fmt: skip
        """`D = A * B^T + C` by the reference model: products and sums exact or in f64, rounded once at the end.

        `signed` says how integer operands are read, `clamp` saturates an integer result, `scales` multiply blocks of
        A and B along k; `sums` is how the hardware adds, where that is known.
        """
        emulate_mma(self, op, d, a, b, c, signed=signed, clamp=clamp, scales=scales, sums=sums)

    def emulate_copy(self, op: CopyOpType, src: Operand, dst: Operand) -> None:
        """A copy in which lanes read what other lanes address: by the source and destination layouts of the atom."""
        elem = src.data.elem
        bits = bit_width(elem)
        group = cast(int, L.size(op.thr_layout))
        source, target = (L.recast_layout(x, 1, bits) for x in (op.src_bits, op.dst_bits))
        cell = IntegerType(max(bits, 8))
        width = max(bits, 8) // 8
        tile = max(cast(int, L.cosize(source)), cast(int, L.cosize(target)))
        at, _ = self.deposit(tile * width, group, whole=True)
        lane = self.group_lane(group)
        count = cast(int, L.size(source[1]))
        stored = stored_type(elem)
        if bits < 8:
            # Such elements have no addresses of their own: those of a lane come and go as one.
            values = packed_elements(self.b, self.load(src, vector_type(elem, count)))
        else:
            values = self.fragment(src, elem, count)
        start = self.at(at, self.b.muli(self.place(lane, source[0]), self.b.const(width, i64)))
        for v, value in enumerate(values):
            offset = cast(int, L.crd2idx(v, source[1])) * width
            put = self.b.cast("trunci", value, cell) if bits < 8 else self.as_cell(value, cell)
            self.put(put, self.at(start, offset))
        shown = self.rendezvous(group)
        start = self.at(shown, self.b.muli(self.place(lane, target[0]), self.b.const(width, i64)))
        taken: list[SSAValue] = []
        for v in range(cast(int, L.size(target[1]))):
            raw = self.take(self.at(start, cast(int, L.crd2idx(v, target[1])) * width), cell)
            taken.append(self.b.cast("extui", raw, i32) if bits < 8 else self.from_cell(raw, stored))
        if bits < 8:
            self.store(packed_vector(self.b, taken, vector_type(stored, len(taken))), dst)
        else:
            self.write_fragment(taken, dst)

    def emulate_call(self, name: str, operands: Sequence[SSAValue], **properties: Any) -> Sequence[SSAValue]:
        """An operation of `fly_nvgpu` by its name in `fly_nvgpu.ops.KINDS`."""
        return emulate_call(self, name, operands, **properties)

    def emulate_tile_copy(self, copy: TileCopy) -> None:
        """A wave's part of a copy by the tensor data mover."""
        emulate_tile_copy(self, copy)

    def wave_number(self) -> SSAValue:
        """Number of the warp in its block, i32."""
        thread = self.group_lane(_MOST_THREADS)
        warp = self.b.int_binary("divui", thread, self.b.const(self.warp_size(), i64))
        return self.b.cast("trunci", warp, i32)

    def as_cell(self, value: SSAValue, cell: IntegerType) -> SSAValue:
        """A value as an integer of at least a byte."""
        integer = self.b.cast("bitcast", value, IntegerType(bit_width(value.type)))
        return self.b.cast("extui", integer, cell)

    def from_cell(self, raw: SSAValue, type_: Attribute) -> SSAValue:
        """The value `as_cell` was given."""
        narrow = self.b.cast("trunci", raw, IntegerType(bit_width(type_)))
        return self.b.cast("bitcast", narrow, type_)

    # --- fragments ------------------------------------------------------------------------------------------------

    def fragment(self, at: Operand, elem: Attribute, count: int) -> list[SSAValue]:
        """The values of a fragment, in order."""
        offsets = fragment_offsets(at, count)
        if offsets == list(range(count)):
            if count == 1:
                return [self.load(at, elem)]
            whole = self.load(at, vector_type(elem, count))
            return [self.b.extract(whole, i) for i in range(count)]
        return [self.load(self.moved(at, o), elem) for o in offsets]

    def fragment_vector(self, at: Operand, elem: Attribute, count: int) -> SSAValue:
        """The values of a fragment as one."""
        if count == 1 or fragment_offsets(at, count) == list(range(count)):
            return self.load(at, vector_type(elem, count) if count > 1 else elem)
        return self.b.pure(FromElementsOp, self.fragment(at, elem, count), vector_type(elem, count), {})

    def write_fragment_vector(self, value: SSAValue, count: int, at: Operand) -> None:
        """Store the values of a fragment that are one."""
        if count == 1 or fragment_offsets(at, count) == list(range(count)):
            self.store(value, at)
            return
        self.write_fragment([self.b.extract(value, i) for i in range(count)], at)

    def write_fragment(self, values: Sequence[SSAValue], at: Operand) -> None:
        """Store the values of a fragment."""
        offsets = fragment_offsets(at, len(values))
        if len(values) > 1 and offsets == list(range(len(values))):
            type_ = vector_type(values[0].type, len(values))
            self.store(self.b.pure(FromElementsOp, list(values), type_, {}), at)
            return
        for value, offset in zip(values, offsets, strict=True):
            self.store(value, self.moved(at, offset))

    def in_shared(self, at: Operand) -> bool:
        """Whether an operand lies in shared memory."""
        return at.data.space is AddressSpace.Shared


def fragment_offsets(at: Operand, count: int) -> list[int]:
    """Element offsets of the values of a fragment."""
    layout: Any = at.data.layout
    if layout is None or L.size(layout) != count:
        return list(range(count))
    return [cast(int, L.crd2idx(i, layout)) for i in range(count)]


def _bytes(type_: Attribute) -> int:
    count = cast(VectorType, type_).get_shape()[0] if isinstance(type_, VectorType) else 1
    return -(-bit_width(elem_of(cast(Attribute, type_))) * count // 8)
