"""A wave of a GPU that runs what rules of lowering emit: a sink whose values are numbers, one for each lane.

Instructions do what the manuals of their makers say; nothing here looks at how the rules work. Floats are their bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import IndexType, IntegerAttr, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from flydsl.ir.builder import i64
from flydsl.ir.types import bit_width
from flydsl.lowering.rules.sink import Rule, Sink, Sizes

Lane = Any
"""An unsigned number, or a tuple of them for a vector."""
Value = list[Lane]


def bits_of(type_: Attribute) -> int:
    return 64 if isinstance(type_, IndexType) else bit_width(type_)


def elements(type_: Attribute) -> int:
    return type_.get_shape()[0] if isinstance(type_, VectorType) else 0


def packed(x: Lane, type_: Attribute) -> int:
    """A value of one lane as a number."""
    if not isinstance(x, tuple):
        return int(x)
    width = bits_of(type_) // len(x)
    return sum(part << width * i for i, part in enumerate(x))


def unpacked(x: int, type_: Attribute) -> Lane:
    if not (count := elements(type_)):
        return x
    width = bits_of(type_) // count
    return tuple(x >> width * i & ((1 << width) - 1) for i in range(count))


class Machine(Sink[Value]):
    """One wave of a block; `wave` tells which."""

    def __init__(
        self, lanes: int, block: Sizes = (64, 1, 1), grid: Sizes = (1, 1, 1), wave: int = 0, known: bool = False
    ):
        self.lanes = lanes
        self.sizes = {"block": block, "grid": grid}
        self.block_id = tuple(extent - 1 for extent in grid)
        self.first = wave * lanes
        self.block_size, self.grid_size = (block, grid) if known else (None, None)
        self.env: dict[SSAValue, Value] = {}
        self.unread: set[SSAValue] = set()
        """Results that nobody reads."""
        self.events: list[tuple[str, ...]] = []
        """Fences and barriers, in order."""

    def run(self, body: Block, rules: Mapping[type[Operation], Rule], arguments: Sequence[Value]) -> list[Value]:
        """The values a function of one block returns."""
        self.env.update(zip(body.args, arguments, strict=True))
        for op in body.ops:
            if op.name == "gpu.return":
                return [self.env[x] for x in op.operands]
            self.unread.update(x for x in op.results if not x.uses)
            rules[type(op)](self, op)
        raise AssertionError("no return")

    def each(self, function: Callable[..., Lane], *values: Value) -> Value:
        return [function(*(value[i] for value in values)) for i in range(self.lanes)]

    def same(self, x: Lane) -> Value:
        return [x] * self.lanes

    def thread(self, lane: int) -> tuple[int, int, int]:
        x, y, _ = self.sizes["block"]
        linear = self.first + lane
        return linear % x, linear // x % y, linear // (x * y)

    # --- values ------

    def value(self, old: SSAValue, /) -> Value:
        return self.env[old]

    def give(self, old: SSAValue, new: Value, /) -> None:
        self.env[old] = new

    def used(self, result: SSAValue) -> bool:
        return result not in self.unread

    def constant(self, attr: Attribute, type_: Attribute) -> Value:
        assert isinstance(attr, IntegerAttr)
        return self.number(attr.value.data, type_)

    def number(self, value: int | float, type_: Attribute) -> Value:
        return self.same(int(value) & ((1 << bits_of(type_)) - 1))

    def poison(self, type_: Attribute) -> Value:
        return self.same(unpacked(0xDEAD_BEEF_DEAD_BEEF & ((1 << bits_of(type_)) - 1), type_))

    # --- arithmetic ------

    def binary(self, word: str, type_: Attribute, a: Value, b: Value, flags: Attribute | None = None) -> Value:
        mask = (1 << bits_of(type_)) - 1
        compute: dict[str, Callable[[int, int], int]] = {
            "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
            "and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y,
            "shl": lambda x, y: x << y, "udiv": lambda x, y: x // y,
        }  # fmt: skip
        return self.each(lambda x, y: compute[word](x, y) & mask, a, b)

    def cast(self, word: str, a: Value, source: Attribute, target: Attribute) -> Value:
        assert word in ("zext", "trunc", "bitcast"), word
        have, want = bits_of(source), bits_of(target)
        assert {"zext": have < want, "trunc": have > want, "bitcast": have == want}[word], (word, have, want)
        assert all(packed(x, source) < 1 << have for x in a)
        mask = (1 << want) - 1
        return self.each(lambda x: unpacked(packed(x, source) & mask, target), a)

    def icmp(self, predicate: str, type_: Attribute, a: Value, b: Value) -> Value:
        compare: dict[str, Callable[[int, int], bool]] = {
            "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "ult": lambda x, y: x < y,
            "ule": lambda x, y: x <= y, "ugt": lambda x, y: x > y, "uge": lambda x, y: x >= y,
        }  # fmt: skip
        return self.each(lambda x, y: int(compare[predicate](x, y)), a, b)

    def select(
        self, cond_type: Attribute, type_: Attribute, cond: Value, a: Value, b: Value, flags: Attribute | None = None
    ) -> Value:
        return self.each(lambda c, x, y: x if c else y, cond, a, b)

    def intr(
        self,
        key: str,
        result: Attribute,
        args: Sequence[Value],
        types: Sequence[Attribute],
        flags: Attribute | None = None,
        immediate: int | None = None,
    ) -> Value:
        assert key == "cttz", key
        return self.each(lambda x: (x & -x).bit_length() - 1, args[0])

    def element(self, type_: Attribute, v: Value, at: int | Value, index: Attribute = i64) -> Value:
        assert isinstance(at, int)
        return self.each(lambda x: x[at], v)

    def with_element(self, type_: Attribute, v: Value, x: Value, at: int | Value, index: Attribute = i64) -> Value:
        assert isinstance(at, int)
        return self.each(lambda all_, one: (*all_[:at], one, *all_[at + 1 :]), v, x)

    # --- memory: implicit arguments of AMD's kernels ------

    def address(
        self, elem: Attribute, base: Value, pointer: Attribute, indices: Sequence[int], flags: int = 0
    ) -> Value:
        (index,) = indices
        return self.each(lambda x: x + index * bits_of(elem) // 8, base)

    def load(self, type_: Attribute, at: Value, pointer: Attribute, align: int, *, invariant: bool = False) -> Value:
        assert all(x % align == 0 for x in at)
        fields = {4 * i: (4, n) for i, n in enumerate(self.sizes["grid"])}
        fields |= {12 + 2 * i: (2, n) for i, n in enumerate(self.sizes["block"])}
        size, number = fields[at[0]]
        assert size * 8 == bits_of(type_)
        return self.same(number)

    # --- instructions ------

    def fence(self, ordering: str, scope: str) -> None:
        self.events.append(("fence", ordering, scope))

    def instruction(
        self,
        name: str,
        intrinsic: str,
        result: Attribute | None,
        args: Sequence[Value] = (),
        types: Sequence[Attribute] = (),
        *,
        pure: bool = False,
        bound: int | None = None,
        defined: bool = False,
        keywords: Mapping[str, str] = {},
        immediates: Sequence[tuple[Attribute, int]] = (),
        expand: Callable[[Sink[Any]], object] | None = None,
    ) -> Value:
        if expand is not None:
            made: Any = expand(self)
            return made
        if "barrier" in intrinsic or ".bar." in intrinsic:
            self.events.append((intrinsic, *(str(n) for _, n in immediates), *(str(x[0]) for x in args)))
            return []
        made = self.played(intrinsic.removeprefix("llvm."), args)
        assert bound is None or all(x < bound for x in made), (intrinsic, bound)
        return made

    def played(self, word: str, args: Sequence[Value]) -> Value:
        maker, _, word = word.partition(".")
        return {"amdgcn": self.amd, "nvvm": self.nvidia}[maker](word, args)

    def amd(self, word: str, args: Sequence[Value]) -> Value:
        if word.startswith(("workitem.id.", "workgroup.id.")):
            axis = "xyz".index(word[-1])
            return [self.thread(i)[axis] if "item" in word else self.block_id[axis] for i in range(self.lanes)]
        match word:
            case "wavefrontsize":
                return self.same(self.lanes)
            case "implicitarg.ptr":
                return self.same(0)
            case "mbcnt.lo" | "mbcnt.hi":
                # Set bits of the mask for the lanes below, in the lower or the upper half of a wave.
                start = 0 if word.endswith("lo") else 32
                below = [max(0, min(i - start, 32)) for i in range(self.lanes)]
                return self.each(lambda mask, base, n: base + (mask & ((1 << n) - 1)).bit_count(), *args, below)
            case "ds.bpermute":
                at, word_ = args
                return [word_[at[i] // 4 % self.lanes] for i in range(self.lanes)]
            case "ds.swizzle":
                values, pattern = args
                assert pattern[0] >> 15 == 0, "the mode of masks"
                keep, put, flip = (pattern[0] >> n & 31 for n in (0, 5, 10))
                return [values[i & 32 | (((i & 31) & keep | put) ^ flip)] for i in range(self.lanes)]
            case "ballot.i64":
                return self.same(sum(bit << i for i, bit in enumerate(args[0])))
            case "readfirstlane.i32":
                return self.same(args[0][0])
            case "readlane.i32":
                return self.same(args[0][args[1][0] % self.lanes])
            case _:
                raise AssertionError(word)

    def nvidia(self, word: str, args: Sequence[Value]) -> Value:
        if word.startswith("read.ptx.sreg."):
            return self.register(word.removeprefix("read.ptx.sreg."))
        if word.startswith("shfl.sync."):
            mask, values, by, clamp = args
            assert mask[0] == 0xFFFF_FFFF
            return [values[pulled(word.split(".")[2], i, by[i], clamp[i])] for i in range(self.lanes)]
        if word.startswith("vote."):
            assert args[0][0] == 0xFFFF_FFFF
            kind, votes = word.split(".")[1], args[1]
            found = {"any": int(any(votes)), "all": int(all(votes))}
            return self.same(found[kind] if kind in found else sum(bit << i for i, bit in enumerate(votes)))
        assert word == "activemask", word
        return self.same(0xFFFF_FFFF)

    def register(self, name: str) -> Value:
        if name == "laneid":
            return list(range(self.lanes))
        kind, axis = name.split(".")[0], "xyz".index(name[-1])
        fixed = {"ntid": self.sizes["block"], "nctaid": self.sizes["grid"], "ctaid": self.block_id}
        return [fixed[kind][axis] if kind in fixed else self.thread(i)[axis] for i in range(self.lanes)]

    # --- what these rules do not use ------

    def unexpected(self, *args: Any, **keywords: Any) -> Any:
        raise AssertionError("no rule of warps uses this")

    null = divisor = fneg = fcmp = shuffle = store = room = call = text = unexpected


def pulled(kind: str, lane: int, by: int, clamp: int) -> int:
    """The lane that `shfl.sync` reads: PTX's own words for it, with a segment mask from bit 8 of the clamp on."""
    by &= 31
    low, segment = clamp & 31, clamp >> 8 & 31
    first, last = lane & segment, (lane & segment) | (low & ~segment)
    match kind:
        case "up":
            source, inside = lane - by, lane - by >= last
        case "down":
            source, inside = lane + by, lane + by <= last
        case "bfly":
            source, inside = lane ^ by, (lane ^ by) <= last
        case _:
            source, inside = first | (by & ~segment), (first | (by & ~segment)) <= last
    return source if inside else lane
