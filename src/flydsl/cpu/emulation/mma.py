"""A matrix instruction on the CPU, from its shape, types and thread-value layouts.

The lanes of the instruction write A and B, decoded, into one tile each. Then every lane computes its own values of D
from them, in a loop over k: runs of values that are neighbours in m or n are vectors. Floats are summed in f64, where
products of up to 24 bits are exact, and rounded once; products of f64 are a chain of fused multiply-adds from C on, by
rising k; integers wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import IntegerType, bf16, f32, f64
from xdsl.dialects.math import FmaOp
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Block, Region, SSAValue

from ... import layout as L
from ...dialects.fly.atom_lowering import MmaScales, MmaSums, Operand, ScaleSide
from ...dialects.fly.atoms import MmaOpType
from ...dialects.upstream import scf
from ...dialects.upstream.llvm.attrs import LOOP_ATTRIBUTE, unroll_annotation
from ...dialects.upstream.vector import FromElementsOp
from ...errors import DSLCompileError
from ...ir.builder import Builder, i32, i64, index
from ...ir.types import bit_width, vector_type
from ...lowering.expand.small_floats import decode, like
from .result_runs import MOST_RUNS, Run, repeats, result_runs

if TYPE_CHECKING:
    from .lanes import Emulation

_XF32_DROPPED = 13
"""Bits of an f32 that xf32 does not have."""
_CONTRACT = FastMathFlagsAttr([FastMathFlag.ALLOW_CONTRACT])


_Seen = Callable[[SSAValue], SSAValue]


def _as_xf32(b: Builder, x: SSAValue) -> SSAValue:
    """f32 with ten bits of fraction, to the nearest, ties to even; what is no number stays that."""
    bits = like(x.type, i32)
    word = b.cast("bitcast", x, bits)
    last = b.int_binary("andi", b.int_binary("shrui", word, b.const(_XF32_DROPPED, bits)), b.const(1, bits))
    half = b.int_binary("addi", last, b.const((1 << (_XF32_DROPPED - 1)) - 1, bits))
    kept = b.int_binary("andi", b.int_binary("addi", word, half), b.const(-(1 << _XF32_DROPPED), bits))
    return b.select(b.cmpf("uno", x, x), x, b.cast("bitcast", kept, x.type))


class Product:
    """One emulated instruction."""

    unrolls = True
    """Whether LLVM may write out the loops over K."""

    def __init__(self, low: Emulation, op: MmaOpType, signed: tuple[bool, bool], clamp: bool):
        self.low, self.op, self.b = low, op, low.b
        self.signed, self.clamp = signed, clamp
        self.m, self.n, self.k = op.shape_mnk
        self.acc = op.elem_types[2]
        self.integer = isinstance(self.acc, IntegerType)
        inputs = op.elem_types[:2]
        self.sum_type: Attribute = (i64 if clamp else i32) if self.integer else f64
        """What is added up."""
        wide = not self.integer and any(t == f64 for t in inputs)
        self.cell: Attribute = i32 if self.integer else f64 if wide else f32
        """What the tiles hold."""
        self.fused = wide
        """Whether each product is added with one rounding."""
        self.cell_bytes = bit_width(self.cell) // 8
        self.group = cast(int, L.size(op.thr_layout))
        self.lane = low.group_lane(self.group)
        self.runs = result_runs(op)
        """Those under way."""

    def key(self) -> tuple[object, ...]:
        """What the work depends on."""
        return (type(self), self.op, self.signed, self.clamp)

    # --- filling the tiles ----------------------------------------------------------------------------------------

    def decoded(self, value: SSAValue, operand: int) -> SSAValue:
        """A stored value, or a vector of them, as the tile holds it."""
        elem = self.op.elem_types[operand]
        if self.integer:
            return self.b.cast("extsi" if self.signed[operand] else "extui", value, like(value.type, self.cell))
        if self.cell == f64:
            return value
        done = decode(self.b, value, elem)
        return _as_xf32(self.b, done) if self.op.rounds_to_xf32 else done

    def fill(self, at: Operand, operand: int, tile: SSAValue) -> None:
        """Write what this lane has of A or B into the tile."""
        rows = (self.m, self.n)[operand]
        if self.low.in_shared(at):
            self._fill_from_memory(at, operand, tile, rows * self.k)
            return
        layout = self.op.tv_layout(operand)
        count = cast(int, L.size(layout[1]))
        elem = self.op.elem_types[operand]
        if bit_width(elem) == 6:
            # As words from the start: see `codes_of`.
            whole = cast(Any, self.low).load(at, vector_type(elem, count))
            self._fill_values(decode(self.b, whole, elem), operand, tile, self.lane)
            return
        held = self.low.fragment_vector(at, elem, count)

        def body(args: Sequence[SSAValue]) -> None:
            tile, lane, held = args
            self._fill_values(self.decoded(held, operand), operand, tile, lane)

        self.low.outlined(("fill", operand, *self.key()), (tile, self.lane, held), None, body)

    def _fill_values(self, done: SSAValue, operand: int, tile: SSAValue, lane: SSAValue) -> None:
        layout = self.op.tv_layout(operand)
        count = cast(int, L.size(layout[1]))
        start = self.cell_at(tile, self.low.place(lane, layout[0]))
        for v in range(count):
            part = done if count == 1 else self.b.extract(done, v)
            self.low.put(part, self.low.at(start, cast(int, L.crd2idx(v, layout[1])) * self.cell_bytes))

    def _fill_from_memory(self, at: Operand, operand: int, tile: SSAValue, count: int) -> None:
        """An operand all lanes see: each decodes its share of it."""
        b, low = self.b, self.low
        layout: Any = at.data.layout
        if L.size(layout) != count:
            raise DSLCompileError(f"{self.op}: operand of {count} values expected, its layout is {layout}")

        def body(step: SSAValue) -> None:
            v = b.addi(b.muli(step, b.const(self.group, i64)), self.lane)

            def copy() -> None:
                offset: Any = L.crd2idx(b.leaf(v, 64), layout)
                # The instruction reads whole rows; single elements need no alignment.
                value = cast(Any, low).load(low.moved(at, offset), self.op.elem_types[operand], 1)
                low.put(self.decoded(value, operand), self.cell_at(tile, v))

            if count % self.group:
                self._when(b.cmpi("slt", v, b.const(count, i64)), copy)
            else:
                copy()

        self.loop(-(-count // self.group), (), lambda step, _: (body(step), ())[1])

    def _vector(self, values: Sequence[SSAValue]) -> SSAValue:
        if len(values) == 1:
            return values[0]
        return self.b.pure(FromElementsOp, list(values), vector_type(values[0].type, len(values)), {})

    def cell_at(self, tile: SSAValue, position: SSAValue) -> SSAValue:
        return self.low.at(tile, self.b.muli(position, self.b.const(self.cell_bytes, i64)))

    # --- the product ----------------------------------------------------------------------------------------------

    def product(self, tiles: Sequence[SSAValue], held: SSAValue, block: int | None) -> SSAValue:
        """This lane's values of D from the tiles of A and B, and of scales of `block` k each, and from those of C."""

        def body(args: Sequence[SSAValue]) -> SSAValue:
            *tiles, self.lane, held = args
            if block is None and len(self.runs) > MOST_RUNS:
                return self._in_parts(tiles[0], tiles[1], held)
            scales = None if block is None else (block, tiles[2], tiles[3])
            return self._vector(self.compute(tiles[0], tiles[1], self._elements(held), scales))

        lane = self.lane
        made = self.low.outlined(("product", block, *self.key()), (*tiles, lane, held), held.type, body)
        self.lane = lane
        assert made is not None
        return made

    def _in_parts(self, a: SSAValue, b: SSAValue, held: SSAValue) -> SSAValue:
        """The same in a loop over equal parts of D: less code, whose values fit registers."""
        runs, low, build = self.runs, self.low, self.b
        count, step = repeats(runs)
        self.runs = runs[:count]
        length = sum(run.length for run in self.runs)
        nbytes = length * bit_width(self.acc) // 8
        memory = low.stack(self.acc, sum(run.length for run in runs), 16)
        low.put(held, memory)

        def part(i: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            at = low.at(memory, build.muli(i, build.const(nbytes, i64)))
            columns = self.cell_at(b, build.muli(i, build.const(step, i64)))
            values = self._elements(low.take(at, vector_type(self.acc, length)))
            low.put(self._vector(self.compute(a, columns, values, None)), at)
            return ()

        self.loop(len(runs) // count, (), part, unroll=False)
        self.runs = runs
        return low.take(memory, held.type)

    def _elements(self, held: SSAValue) -> list[SSAValue]:
        count = sum(run.length for run in self.runs)
        return [held] if count == 1 else [self.b.extract(held, i) for i in range(count)]

    def compute(
        self, a: SSAValue, b: SSAValue, c: Sequence[SSAValue], scales: tuple[int, SSAValue, SSAValue] | None
    ) -> list[SSAValue]:
        """This lane's values of D from the tiles."""
        runs, sums, row, column = self.start(c)
        build = self.b
        at_a, at_b = self.cell_at(a, row), self.cell_at(b, column)

        def step(k: SSAValue, held: Sequence[SSAValue]) -> list[SSAValue]:
            made: list[SSAValue] = []
            for total, (x, y) in zip(held, self.factors(k, at_a, at_b, (self.widened, self.widened)), strict=True):
                if self.fused:
                    made.append(build.pure(FmaOp, (x, y, total), total.type, {}))
                else:
                    made.append(self._add(total, self._multiply(x, y)))
            return made

        if scales is None:
            return self.values(runs, self.loop(self.k, sums, step))
        block, scale_a, scale_b = scales
        for kb in range(self.k // block):
            first = build.const(kb * block, i64)
            zeros = [build.const(0.0, s.type) for s in sums]
            part = self.loop(block, zeros, lambda k, held, first=first: step(build.addi(k, first), held))
            line_a = self.low.at(self.cell_at(scale_a, row), kb * self.m * self.cell_bytes)
            line_b = self.low.at(self.cell_at(scale_b, column), kb * self.n * self.cell_bytes)
            for i, run in enumerate(runs):
                factors: list[SSAValue] = []
                for line, at, wide in ((line_a, run.m, run.along_m), (line_b, run.n, not run.along_m)):
                    n = run.length if wide else 1
                    type_ = self.cell if n == 1 else vector_type(self.cell, n)
                    factor = self.widened(self.low.take(self.low.at(line, at * self.cell_bytes), type_))
                    factors.append(factor if n == run.length else build.broadcast(factor, run.length))
                scaled = self._multiply(self._multiply(part[i], factors[0]), factors[1])
                sums[i] = self._add(sums[i], scaled)
        return self.values(runs, sums)

    def start(self, c: Sequence[SSAValue]) -> tuple[list[Run], list[SSAValue], SSAValue, SSAValue]:
        """The runs of this lane's values, the sums they start from, and the row and column of its first."""
        runs, build = self.runs, self.b
        at = self.low.place(self.lane, self.op.tv_layout(2)[0])
        extent = build.const(self.m, i64)
        sums = [self.widened(self._vector(c[r.first : r.first + r.length])) for r in runs]
        return runs, sums, build.int_binary("remui", at, extent), build.int_binary("divui", at, extent)

    def factors(
        self, k: SSAValue, at_a: SSAValue, at_b: SSAValue, of: tuple[_Seen, _Seen]
    ) -> Iterator[tuple[SSAValue, SSAValue]]:
        """For every run what `of` makes of the values of A and of B at a `k`, as vectors of its length."""
        build = self.b
        line_a = self.cell_at(at_a, build.muli(k, build.const(self.m, i64)))
        line_b = self.cell_at(at_b, build.muli(k, build.const(self.n, i64)))
        known: dict[tuple[int, int, int], SSAValue] = {}

        def side(i: int, line: SSAValue, at: int, count: int) -> SSAValue:
            if (i, at, count) not in known:
                type_ = self.cell if count == 1 else vector_type(self.cell, count)
                known[i, at, count] = of[i](self.low.take(self.low.at(line, at * self.cell_bytes), type_))
            return known[i, at, count]

        for run in self.runs:
            x = side(0, line_a, run.m, run.length if run.along_m else 1)
            y = side(1, line_b, run.n, 1 if run.along_m else run.length)
            if run.length > 1:
                x, y = (x, build.broadcast(y, run.length)) if run.along_m else (build.broadcast(x, run.length), y)
            yield x, y

    def values(self, runs: Sequence[Run], sums: Sequence[SSAValue]) -> list[SSAValue]:
        values: list[SSAValue] = []
        for run, total in zip(runs, sums, strict=True):
            done = self.narrowed(total)
            values += [done] if run.length == 1 else [self.b.extract(done, i) for i in range(run.length)]
        return values

    def widened(self, x: SSAValue) -> SSAValue:
        type_ = like(x.type, self.sum_type)
        return self.b.cast("extsi" if self.integer else "extf", x, type_)

    def narrowed(self, x: SSAValue) -> SSAValue:
        type_ = like(x.type, self.acc)
        if not self.integer:
            if self.acc == bf16:
                # Hosts have no conversion from f64.
                x = self.b.cast("truncf", x, like(x.type, f32))
            return self.b.cast("truncf", x, type_)
        if self.clamp:
            limits = [self.b.const(v, x.type) for v in (2**31 - 1, -(2**31))]
            x = self.b.int_binary("maxsi", self.b.int_binary("minsi", x, limits[0]), limits[1])
        return self.b.cast("trunci", x, type_)

    def _multiply(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.muli(x, y) if self.integer else self.b.float_binary("mulf", x, y, _CONTRACT)

    def _add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.addi(x, y) if self.integer else self.b.float_binary("addf", x, y, _CONTRACT)

    # --- structure ------------------------------------------------------------------------------------------------

    def loop(
        self,
        count: int,
        init: Sequence[SSAValue],
        body: Callable[[SSAValue, Sequence[SSAValue]], Sequence[SSAValue]],
        *,
        unroll: bool = True,
    ) -> list[SSAValue]:
        """`for i in range(count)` with carried values; `i` is i64."""
        b = self.b
        if count == 1:
            return list(body(b.const(0, i64), list(init)))
        block = Block(arg_types=[index, *(v.type for v in init)])
        bounds = [b.const(v, index) for v in (0, count, 1)]
        with b.region(block):
            at, *held = block.args
            results = body(b.cast("index_cast", at, i64), held)
            b.opn(scf.YieldOp, list(results), ())
        attrs: dict[str, Attribute] = {} if unroll and self.unrolls else {LOOP_ATTRIBUTE: unroll_annotation(1)}
        op = b.with_regions(scf.ForOp, [*bounds, *init], [v.type for v in init], [Region(block)], attrs=attrs)
        return list(op.results)

    def _when(self, flag: SSAValue, then: Callable[[], None]) -> None:
        block = Block()
        with self.b.region(block):
            then()
            self.b.opn(scf.YieldOp, (), ())
        self.b.with_regions(scf.IfOp, (flag,), (), [Region(block), Region()])

    # --- scales ---------------------------------------------------------------------------------------------------

    def fill_scales(self, scales: ScaleSide, tile: SSAValue) -> None:
        """Write the scales this lane has."""
        start = self.cell_at(tile, self.low.place(self.lane, scales.layout[0]))
        for v, value in enumerate(scales.values):
            wide = value if value.type == self.cell else self.b.cast("extf", value, self.cell)
            self.low.put(wide, self.low.at(start, cast(int, L.crd2idx(v, scales.layout[1])) * self.cell_bytes))


def emulate_mma(
    low: Emulation, op: MmaOpType, d: Operand, a: Operand, b: Operand, c: Operand, *, signed: tuple[bool, bool],
    clamp: bool, scales: MmaScales | None, sums: MmaSums | None,
) -> None:  # fmt: skip
    """Emit one product; see `Emulation.emulate_mma`."""
    from .aligned_sums import AlignedProduct

    product = Product(low, op, signed, clamp) if sums is None else AlignedProduct(low, op, sums)
    m, n, k = op.shape_mnk
    size = product.cell_bytes
    parts = [m * k * size, n * k * size]
    if scales is not None:
        parts += [m * (k // scales.block) * size, n * (k // scales.block) * size]
    starts = [sum(parts[:i]) for i in range(len(parts))]
    at, _ = low.deposit(sum(parts), product.group, whole=True)
    product.fill(a, 0, at)
    product.fill(b, 1, low.at(at, starts[1]))
    if scales is not None:
        product.fill_scales(scales.a, low.at(at, starts[2]))
        product.fill_scales(scales.b, low.at(at, starts[3]))
    count = cast(int, L.size(op.tv_layout(2)[1]))
    held = low.fragment_vector(c, op.elem_types[2], count)
    shown = low.rendezvous(product.group)
    tiles = [low.at(shown, start) for start in starts]
    low.write_fragment_vector(product.product(tiles, held, None if scales is None else scales.block), count, d)
