"""Instructions that touch memory: buffers, copies into shared memory, transposing reads; and those that order it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import IntegerType, UnitAttr
from xdsl.ir import Attribute, SSAValue

from ...dialects import fly_cpu
from ...dialects.upstream import gpu, llvm
from ...ir.builder import i32, i64, int_attr
from ...target import has
from ...target.waitcnt import MOST_LOADS, vmcnt_of
from .lane_rules import meet, place
from .rule_tools import Arg, NotEmulated, Rule, bits_of
from .tdm import emulate_descriptor, to_blocks

if TYPE_CHECKING:
    from .instructions import EmulatedInstructions


def _nothing(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    """Waits, priorities and hints to a scheduler: every access is done when it is made."""


def barrier(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    """All threads of the block meet; the instruction waits for no copies."""
    r.b.opn(gpu.BarrierOp, (), ()).attributes[fly_cpu.BARE] = UnitAttr()


_WORKGROUP, _CLUSTER = -1, -3
"""Numbers of barriers."""


def _which(r: EmulatedInstructions, number: Arg) -> int:
    found = r.number(number)
    found = found - (1 << 16) if found >= 1 << 15 else found
    if found not in (_WORKGROUP, _CLUSTER):
        raise NotEmulated(f"barrier {found} is not that of the workgroup (-1) or of the cluster (-3)")
    return found


def _signal(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    if _which(r, args[0]) == _CLUSTER:
        r.emulate_call("cluster.arrive", ())


def _wait(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    if _which(r, args[0]) == _CLUSTER:
        r.emulate_call("cluster.wait", ())
    else:
        barrier(r, (), None)


def _signal_first(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """One wave is the first; here that is the wave 0."""
    _signal(r, args, None)
    return r.b.cmpi("eq", r.wave_number(), r.b.i32(0))


def _cluster_barrier(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    r.emulate_call("cluster.arrive", ())
    r.emulate_call("cluster.wait", ())


# --- clusters -----------------------------------------------------------------------------------------------------


def _extent(r: EmulatedInstructions, dim: int) -> SSAValue:
    return r.routine("fly_cluster_extent", (r.b.i32(dim),), i32)


def in_cluster(what: str, dim: int) -> Rule:
    """The number of the cluster, of the block in it, of the last block; or how many blocks or clusters there are."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        extent = _extent(r, dim)
        if what == "extent":
            return extent
        if what == "clusters":
            blocks = cast(SSAValue, place(gpu.GridDimOp, "xyz"[dim])(r, (), i32))
            return r.b.int_binary("divui", blocks, extent)
        if what == "last":
            return r.b.int_binary("subi", extent, r.b.i32(1))
        block = cast(SSAValue, place(gpu.BlockIdOp, "xyz"[dim])(r, (), i32))
        return r.b.int_binary("divui" if what == "cluster" else "remui", block, extent)

    return rule


def _cluster_last(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    return r.b.int_binary("subi", r.routine("fly_cluster_size", (), i32), r.b.i32(1))


# --- buffers ------------------------------------------------------------------------------------------------------


def _make_rsrc(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    base = r.word(args[0])
    if base.type != llvm.ptr(0):
        base = r.b.pure(llvm.IntToPtrOp, (r.b.pure(llvm.PtrToIntOp, (base,), i64, {}),), llvm.ptr(0), {})
    size = r.word(args[2], i64)
    if size.type != i64:
        size = r.b.cast("extui", size, i64)
    return r.descriptor(base, r.word(args[1]), size, r.word(args[3]))


def _buffer_load(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    offset, soffset = (r.word(a) for a in args[1:3])
    return r.buffer_load(r.resource(args[0]), offset, soffset, cast(Attribute, type_), 0)


def _scalar_load(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    return r.scalar_buffer_load(r.resource(args[0]), r.word(args[1]), r.b.i32(0), cast(Attribute, type_), 0)


def _buffer_store(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    offset, soffset = (r.word(a) for a in args[2:4])
    r.buffer_store(r.word(args[0]), r.resource(args[1]), offset, soffset, 0)


BINARY = {
    "fadd": "fadd", "fmax": "fmax", "fmin": "fmin", "smax": "max", "smin": "min", "umax": "umax", "umin": "umin",
    "add": "add", "sub": "sub", "and": "_and", "or": "_or", "xor": "_xor", "swap": "xchg", "inc": "uinc_wrap",
    "dec": "udec_wrap",
}  # fmt: skip
"""Operation of `atomicrmw` by the name of the buffer's."""


def _buffer_atomic(kind: str) -> Rule:
    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        offset, soffset = (r.word(a) for a in args[2:4])
        return r.buffer_exchange(BINARY[kind], r.word(args[0]), r.resource(args[1]), offset, soffset)

    return rule


def _buffer_compare(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    new, expected, offset, soffset = (r.word(args[i]) for i in (0, 1, 3, 4))
    return r.buffer_compare(new, expected, r.resource(args[2]), offset, soffset)


def read_modify_write(r: EmulatedInstructions, kind: str, at: SSAValue, value: SSAValue) -> SSAValue:
    """What was at an address, where an operation of `atomicrmw` leaves its result."""
    props: dict[str, Attribute] = {
        "bin_op": int_attr(llvm.ATOMIC_BINARY.index(kind), i64),
        "ordering": int_attr(llvm.ORDERINGS["monotonic"], i64),
    }
    return r.b.op1(llvm.AtomicRMWOp, (at, value), value.type, props)


def _global_atomic(kind: str) -> Rule:
    """A read-modify-write at an address."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        return read_modify_write(r, kind, r.word(args[0]), r.word(args[1]))

    return rule


# --- into and out of shared memory --------------------------------------------------------------------------------


def _load_lds(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    rsrc, lds, size, offset, soffset, immediate = args[:6]
    r.raw_to_shared(r.word(lds), r.resource(rsrc), r.word(offset), r.word(soffset), r.number(size), r.number(immediate))


def _global_load_lds(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    source, lds, size, immediate = args[:4]
    r.raw_global_to_shared(r.word(source), r.word(lds), r.number(size), r.number(immediate))


def _lane_to_shared(nbytes: int, cluster: bool) -> Rule:
    """Each lane copies from an address of its own to one of its own: (global, shared, offset, cache policy, mask)."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
        by = r.number(args[2])
        source, target = r.at(r.word(args[0]), by), r.at(r.word(args[1]), by)
        value = r.take(source, IntegerType(8 * nbytes), issued=True)
        if cluster:
            to_blocks(r, value, r.flat(target), r.word(args[4]), "lane_load", tests=True)
        else:
            r.put(value, target)
            r.note_piece("lane_load", target, nbytes, tests=True)
        r.note_issued("lane")

    return rule


def _lane_from_shared(nbytes: int) -> Rule:
    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
        by = r.number(args[2])
        source = r.at(r.word(args[1]), by)
        r.put(r.take(source, IntegerType(8 * nbytes)), r.at(r.word(args[0]), by), issued=True)
        r.note_piece("lane_store", source, nbytes, tests=True)
        r.note_issued("lane")

    return rule


def _await(r: EmulatedInstructions, wait: str, pending: int) -> None:
    """Wait until at most so many copies are under way; then each lane may use what others of its wave have copied."""
    if r.checked:
        meet(r, (), None)
        r.routine(f"fly_check_{wait}", (r.b.i32(pending),))
    meet(r, (), None)


def counter_wait(counter: str) -> Rule:
    """A wait by a counter of copies, or for marked groups of them."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
        _await(r, f"{counter}_wait", r.number(args[0]))

    return rule


def await_loads(r: EmulatedInstructions, pending: int) -> None:
    """A wait until at most so many vector memory instructions are under way, where they copy into shared memory."""
    if pending < MOST_LOADS and has(r.arch, "copy_to_lds_b32"):
        _await(r, "to_shared_wait_count", pending)


def _waitcnt(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    if r.arch is not None and not has(r.arch, "split_counters"):
        await_loads(r, vmcnt_of(r.arch, r.number(args[0])))


def _asyncmark(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    if r.checked:
        r.routine("fly_check_to_shared_commit")


def _tensor(load: bool) -> Rule:
    """The tensor data mover: the groups of its descriptor, and a cache policy."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
        emulate_descriptor(r, [a for a in args if isinstance(a, SSAValue) and a.type != i32], load=load)

    return rule


def _transposed(width: int, bits: int) -> Rule:
    """16 lanes read 16 runs and get the columns of the matrix they form: see `LdsReadTransType`."""
    count = bits // width

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b, wide = r.b, IntegerType(bits)
        shown = r.exchange(r.take(r.word(args[0]), wide), 16)
        own = r.group_lane(16)
        inside = b.muli(b.int_binary("remui", own, b.const(count, i64)), b.const(width, i64))
        shift = b.cast("extui" if bits > 64 else "trunci", inside, wide) if bits != 64 else inside
        made: SSAValue = b.const(0, wide)
        for j in range(count):
            flat = b.addi(own, b.const(16 * j, i64))
            run = shown(b.int_binary("divui", flat, b.const(count, i64)))
            part = b.int_binary("andi", b.int_binary("shrui", run, shift), b.const((1 << width) - 1, wide))
            made = b.int_binary("ori", made, b.int_binary("shli", part, b.const(width * j, wide)) if j else part)
        return bits_of(r, made, cast(Attribute, type_))

    return rule


_SIZES = {"b8": 1, "b32": 4, "b64": 8, "b128": 16}

_NO_EFFECT = (
    "s.nop s.sleep s.sleep.var s.setprio s.setprio.inc.wg sched.barrier sched.group.barrier iglp.opt global.prefetch "
    "flat.prefetch s.wait.loadcnt s.wait.storecnt s.wait.dscnt s.wait.kmcnt s.wait.expcnt s.wait.samplecnt "
    "s.wait.bvhcnt s.wait.loadcnt.dscnt s.wait.storecnt.dscnt s.dcache.inv s.dcache.wb buffer.wbinvl1 "
    "buffer.wbinvl1.vol s.prefetch.data s.buffer.prefetch.data s.incperflevel s.decperflevel s.monitor.sleep "
    "s.ttracedata s.ttracedata.imm"
).split()
"""What changes no value here."""

RULES: dict[str, Rule] = {
    **dict.fromkeys(_NO_EFFECT, _nothing),
    "s.waitcnt": _waitcnt,
    "asyncmark": _asyncmark,
    "wait.asyncmark": counter_wait("to_shared"),
    "s.wait.asynccnt": counter_wait("lane"),
    "s.wait.tensorcnt": counter_wait("tensor"),
    # A wave goes in step; here its lanes run one by one, and meet.
    "wave.barrier": meet,
    "s.barrier": barrier,
    "barrier": barrier,
    "s.barrier.signal": _signal,
    "s.barrier.signal.isfirst": _signal_first,
    "s.barrier.wait": _wait,
    "s.cluster.barrier": _cluster_barrier,
    **{f"cluster.id.{d}": in_cluster("cluster", i) for i, d in enumerate("xyz")},
    **{f"cluster.workgroup.id.{d}": in_cluster("block", i) for i, d in enumerate("xyz")},
    **{f"cluster.workgroup.max.id.{d}": in_cluster("last", i) for i, d in enumerate("xyz")},
    "cluster.workgroup.flat.id": lambda r, args, type_: r.routine("fly_cluster_rank", (), i32),
    "cluster.workgroup.max.flat.id": _cluster_last,
    "make.buffer.rsrc": _make_rsrc,
    **{
        f"raw.{ptr}buffer.{name}": rule
        for ptr in ("", "ptr.")
        for name, rule in {
            "load": _buffer_load,
            "store": _buffer_store,
            "atomic.cmpswap": _buffer_compare,
            "load.lds": _load_lds,
            "load.async.lds": _load_lds,
            **{f"atomic.{kind}": _buffer_atomic(kind) for kind in BINARY},
        }.items()
    },
    "s.buffer.load": _scalar_load,
    "ptr.s.buffer.load": _scalar_load,
    **{f"{space}.atomic.{kind}.num": _global_atomic(kind) for space in ("global", "flat") for kind in ("fmax", "fmin")},
    **{f"{name}.lds": _global_load_lds for name in ("global.load", "global.load.async", "load.to", "load.async.to")},
    **{f"global.load.async.to.lds.{w}": _lane_to_shared(n, False) for w, n in _SIZES.items()},
    **{f"cluster.load.async.to.lds.{w}": _lane_to_shared(n, True) for w, n in _SIZES.items()},
    **{f"global.store.async.from.lds.{w}": _lane_from_shared(n) for w, n in _SIZES.items()},
    **{f"tensor.load.to.lds{form}": _tensor(True) for form in ("", ".d2")},
    **{f"tensor.store.from.lds{form}": _tensor(False) for form in ("", ".d2")},
    **{f"ds.read.tr{w}.b{bits}": _transposed(w, bits) for w, bits in ((4, 64), (8, 64), (6, 96), (16, 64))},
}
"""The meaning of each intrinsic."""
