"""Vector instructions on global memory: addresses from registers, or a descriptor with limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..caches import Cache
from ..decode import MAKERS, Context, Step, instruction
from ..errors import IsaError
from ..memory import Bytes
from ..operands import PRIVATE_APERTURE, SHARED_APERTURE, Operand, read_scalar, reader
from ..text import Instruction
from ..wave import M0, Event, Wave
from .access import FORMS, Atomic, Form, Lanes, atomic, lds_read, lds_write, put, take

U64 = NDArray[np.uint64]
Place = Callable[[Wave, Lanes], tuple[U64, NDArray[np.bool_] | None]]
"""Addresses of lanes, and which of them are inside their buffer; None: there is no limit."""


# --- addresses --------------------------------------------------------------------------------------------------------


def _global_place(inst: Instruction, vaddr: Operand, saddr: str, size: int, ctx: Context) -> Place:
    offset = np.int64(inst.number("offset"))
    scale = np.int64(size if "scale_offset" in inst.modifiers else 1)
    if saddr == "off":
        if scale != 1:
            raise IsaError("an address that is scaled")
        wide = reader(vaddr, "u64")
        return lambda w, lanes: ((wide(w)[lanes].view(np.int64) + offset).view(np.uint64), None)
    base = read_scalar(ctx.operand(saddr), 64)
    narrow = reader(vaddr, "u32")

    def place(w: Wave, lanes: Lanes) -> tuple[U64, None]:
        start = np.int64(base(w) - (1 << 64) if base(w) >> 63 else base(w))
        return (narrow(w)[lanes].astype(np.int64) * scale + offset + start).view(np.uint64), None

    return place


class Buffer(NamedTuple):
    """What a descriptor says."""

    base: int
    stride: int
    records: int
    """Bytes, or rows of `stride`."""


def _buffer(w: Wave, rsrc: Operand, ctx: Context, text: str) -> Buffer:
    w0, w1, w2, w3 = (int(w.s[rsrc.index + at]) for at in range(4))
    if ctx.arch == "gfx1250":
        whole = w0 | w1 << 32 | w2 << 64 | w3 << 96
        found = Buffer(whole & (1 << 57) - 1, whole >> 108 & 0x3FFF, whole >> 57 & (1 << 45) - 1)
        if whole >> 124:
            raise IsaError(f"{text}: the descriptor {w3:#010x} asks for swizzled addresses, another check or type")
        if whole >> 102 & 63:
            raise IsaError(f"{text}: reserved bits of the descriptor are not zero")
    else:
        found = Buffer(w0 | (w1 & 0xFFFF) << 32, w1 >> 16 & 0x3FFF, w2)
        if w1 >> 30:
            raise IsaError(f"{text}: the descriptor {w1:#010x} asks for swizzled addresses")
        if ctx.family == "gfx9" and w3 >> 23 & 1:
            raise IsaError(f"{text}: the descriptor adds the number of the lane")
    if found.base >> 47:
        raise IsaError(f"{text}: the descriptor's base {found.base:#x} is no address of user memory")
    return found


def _buffer_place(inst: Instruction, vaddr: Operand, rsrc: Operand, soffset: Operand, size: int, ctx: Context) -> Place:
    offset = inst.number("offset")
    offen, idxen = "offen" in inst.modifiers, "idxen" in inst.modifiers
    extra = read_scalar(soffset)
    rows = vaddr.index

    def place(w: Wave, lanes: Lanes) -> tuple[U64, NDArray[np.bool_]]:
        base, stride, records = _buffer(w, rsrc, ctx, inst.text)
        index = w.v[rows][lanes].astype(np.int64) if idxen else np.zeros(len(lanes), np.int64)
        at = rows + int(idxen)
        within = (w.v[at][lanes].astype(np.int64) if offen else np.zeros(len(lanes), np.int64)) + offset
        sgpr = extra(w)
        total = within + sgpr + index * stride
        if idxen and stride:
            inside = (index < records) & (within < stride)
        else:
            inside = total + np.int64(min(size, 4)) <= records
        return (total + base).view(np.uint64), inside

    return place


_WIDE_SCOPES = ("SCOPE_SE", "SCOPE_DEV", "SCOPE_SYS")


def _past_the_cache(inst: Instruction) -> bool:
    """Whether a load is of a scope beyond the unit that it runs on."""
    return "sc1" in inst.modifiers or "glc" in inst.modifiers or inst.modifiers.get("scope") in _WIDE_SCOPES


# --- loads and stores -------------------------------------------------------------------------------------------------


def _limit(buffer: Buffer, total: U64, size: int) -> NDArray[np.bool_]:
    """Which words of each lane are inside a raw buffer."""
    end = np.uint64(buffer.base + buffer.records)
    words = np.arange(0, size, min(size, 4), dtype=np.uint64)
    return total[:, None] + words + np.uint64(min(size, 4)) <= end


def _read_words(
    w: Wave, addresses: U64, inside: NDArray[np.bool_] | None, size: int, what: str, cache: Cache | None
) -> Bytes:
    if inside is None:
        return w.read(addresses, size, what, cache)
    unit = min(size, 4)
    out = np.zeros((len(addresses), size), np.uint8)
    for at in range(inside.shape[1]):
        here = inside[:, at]
        if here.any():
            out[here, at * unit : at * unit + unit] = w.read(addresses[here] + np.uint64(at * unit), unit, what, cache)
    return out


def _write_words(w: Wave, addresses: U64, inside: NDArray[np.bool_] | None, data: Bytes, what: str) -> None:
    if inside is None:
        w.write(addresses, data, what)
        return
    unit = min(data.shape[1], 4)
    for at in range(inside.shape[1]):
        here = inside[:, at]
        if here.any():
            w.write(addresses[here] + np.uint64(at * unit), data[here, at * unit : at * unit + unit], what)


def _words_inside(
    w: Wave,
    inst: Instruction,
    ctx: Context,
    rsrc: Operand | None,
    addresses: U64,
    inside: NDArray[np.bool_] | None,
    size: int,
) -> NDArray[np.bool_] | None:
    """Words of lanes that may be touched; a load of four words checks each of them."""
    if inside is None or rsrc is None:
        return None
    buffer = _buffer(w, rsrc, ctx, inst.text)
    words = _limit(buffer, addresses, size)
    if "idxen" in inst.modifiers and buffer.stride:
        return np.broadcast_to(inside[:, None], words.shape)
    return words


def _span(addresses: U64, size: int) -> tuple[int, int]:
    return (int(addresses.min()), int(addresses.max()) + size) if len(addresses) else (0, 0)


def load(inst: Instruction, ctx: Context, target: Operand, form: Form, place: Place, rsrc: Operand | None) -> Step:
    count = max(1, form.size // 4)
    registers = tuple(range(target.index, target.index + count))
    past = _past_the_cache(inst)

    def step(w: Wave) -> None:
        lanes: Lanes = np.flatnonzero(w.mask)
        addresses, inside = place(w, lanes)
        words = _words_inside(w, inst, ctx, rsrc, addresses, inside, form.size)
        low, high = _span(addresses, form.size)
        w.issue(
            Event(
                "load",
                inst.text,
                lambda: _read_words(w, addresses, words, form.size, inst.text, None if past else w.cache),
                lambda data: put(w, target, form, data, lanes),
                registers,
                low,
                high,
            )
        )

    return step


def store(inst: Instruction, ctx: Context, source: Operand, form: Form, place: Place, rsrc: Operand | None) -> Step:
    def step(w: Wave) -> None:
        lanes: Lanes = np.flatnonzero(w.mask)
        addresses, inside = place(w, lanes)
        words = _words_inside(w, inst, ctx, rsrc, addresses, inside, form.size)
        data = take(w, source, form, lanes)
        low, high = _span(addresses, form.size)
        act = lambda: _write_words(w, addresses, words, data, inst.text)  # noqa: E731
        w.issue(Event("store", inst.text, act, None, (), low, high))

    return step


def change(inst: Instruction, what: Atomic, target: Operand | None, source: Operand, place: Place) -> Step:
    count = what.size // 4
    form, given = Form(what.size), Form(what.size * (2 if what.compares else 1))
    registers = () if target is None else tuple(range(target.index, target.index + count))

    def step(w: Wave) -> None:
        lanes: Lanes = np.flatnonzero(w.mask)
        addresses, inside = place(w, lanes)
        data = take(w, source, given, lanes)

        def act() -> Bytes:
            before = np.zeros((len(lanes), what.size), np.uint8)
            for at in range(len(lanes)):
                if inside is not None and not inside[at]:
                    continue
                where = addresses[at : at + 1]
                before[at] = w.memory.read(where, what.size, inst.text)[0]
                w.write(where, what.apply(before[at], data[at])[None], inst.text, atomic=True)
            return before

        low, high = _span(addresses, what.size)
        land = None if target is None else (lambda found, to=target: put(w, to, form, found, lanes))
        w.issue(Event("store" if target is None else "load", inst.text, act, land, registers, low, high))

    return step


# --- straight to shared memory ----------------------------------------------------------------------------------------


def to_lds(inst: Instruction, ctx: Context, size: int, place: Place, rsrc: Operand | None) -> Step:
    """Lane by lane behind each other, from where M0 says."""
    offset = inst.number("offset")
    past = _past_the_cache(inst)

    def step(w: Wave) -> None:
        lanes: Lanes = np.flatnonzero(w.mask)
        addresses, inside = place(w, lanes)
        words = _words_inside(w, inst, ctx, rsrc, addresses, inside, size)
        start = (int(w.s[M0]) & (0x3FFFF if ctx.arch == "gfx950" else 0xFFFF)) + offset
        targets: Lanes = lanes * size + start
        low, high = _span(addresses, size)

        def act() -> None:
            found = _read_words(w, addresses, words, size, inst.text, None if past else w.cache)
            lds_write(w, targets, found, inst.text)

        w.issue(Event("load", inst.text, act, None, (), low, high))

    return step


def async_to_lds(inst: Instruction, ctx: Context, where: Operand, size: int, place: Place) -> Step:
    """To the places that the lanes name; `cluster_`: for the blocks of a cluster in M0, of which there is one here."""
    offset = inst.number("offset")

    def step(w: Wave) -> None:
        if inst.mnemonic.startswith("cluster_") and int(w.s[M0]) & 0xFFFF not in (0, 1):
            raise IsaError(f"{inst.text}: copies for other blocks")
        lanes: Lanes = np.flatnonzero(w.mask)
        addresses, _ = place(w, lanes)
        targets: Lanes = w.v[where.index][lanes].astype(np.int64) + offset
        low, high = _span(addresses, size)

        def act() -> None:
            lds_write(w, targets, w.read(addresses, size, inst.text, None), inst.text)

        w.issue(Event("async", inst.text, act, None, (), low, high), "asynccnt")

    return step


# --- instructions by name ---------------------------------------------------------------------------------------------


def _global(inst: Instruction, ctx: Context) -> Step:
    what = inst.mnemonic.partition("_")[2]
    words = list(inst.operands)
    if what.startswith("load_lds_"):
        size = FORMS[what.removeprefix("load_lds_")].size
        return to_lds(inst, ctx, size, _global_place(inst, ctx.operand(words[0]), words[1], size, ctx), None)
    if what.startswith("load_async_to_lds_"):
        size = FORMS[what.removeprefix("load_async_to_lds_")].size
        place = _global_place(inst, ctx.operand(words[1]), words[2], size, ctx)
        return async_to_lds(inst, ctx, ctx.operand(words[0]), size, place)
    if what.startswith("load_"):
        form = FORMS[what.removeprefix("load_")]
        place = _global_place(inst, ctx.operand(words[1]), words[2], form.size, ctx)
        return load(inst, ctx, ctx.operand(words[0]), form, place, None)
    if what.startswith("store_"):
        form = FORMS[what.removeprefix("store_")]
        place = _global_place(inst, ctx.operand(words[0]), words[2], form.size, ctx)
        return store(inst, ctx, ctx.operand(words[1]), form, place, None)
    if what.startswith("atomic_"):
        returns = _returns(inst)
        if returns != (len(words) == 4):
            raise IsaError("an atomic that returns without saying so")
        target = ctx.operand(words.pop(0)) if returns else None
        name = atomic(what.removeprefix("atomic_"))
        place = _global_place(inst, ctx.operand(words[0]), words[2], name.size, ctx)
        return change(inst, name, target, ctx.operand(words[1]), place)
    raise IsaError("an access that is not known")


def _returns(inst: Instruction) -> bool:
    return any(word in inst.modifiers for word in ("sc0", "glc")) or "ATOMIC_RETURN" in inst.modifiers.get("th", "")


def _buffer_access(inst: Instruction, ctx: Context) -> Step:
    what = inst.mnemonic.partition("_")[2]
    words = list(inst.operands)
    if "lds" in inst.modifiers or what.startswith("load_lds_"):
        vaddr, rsrc, soffset = words[-3:]
        size = FORMS[what.removeprefix("load_").removeprefix("lds_")].size
        there = ctx.operand(rsrc)
        place = _buffer_place(inst, ctx.operand(vaddr), there, ctx.operand(soffset), size, ctx)
        return to_lds(inst, ctx, size, place, there)
    data, vaddr, rsrc, soffset = words
    there = ctx.operand(rsrc)
    name = what.partition("_")[2]
    size = atomic(name).size if what.startswith("atomic_") else FORMS[name].size
    place = _buffer_place(inst, ctx.operand(vaddr), there, ctx.operand(soffset), size, ctx)
    register = ctx.operand(data)
    if what.startswith("load_"):
        return load(inst, ctx, register, FORMS[name], place, there)
    if what.startswith("store_"):
        return store(inst, ctx, register, FORMS[name], place, there)
    return change(inst, atomic(name), register if _returns(inst) else None, register, place)


_ATOMICS = (
    *("add", "sub", "smin", "smax", "umin", "umax", "and", "or", "xor", "swap", "cmpswap", "inc", "dec"),
    *("add_f32", "add_f64", "min_f64", "max_f64", "pk_add_f16", "pk_add_bf16"),
    *(f"{name}_x2" for name in ("add", "sub", "smin", "smax", "umin", "umax", "and", "or", "xor", "swap", "cmpswap")),
    *(f"{name}_{kind}{n}" for name in ("min", "max") for kind in "iu" for n in (32, 64)),
    *(f"{name}_u{n}" for name in ("add", "sub", "inc", "dec") for n in (32, 64)),
    *(f"{name}_b{n}" for name in ("and", "or", "xor", "swap", "cmpswap") for n in (32, 64)),
    *("min_f32", "max_f32", "min_num_f32", "max_num_f32", "min_num_f64", "max_num_f64"),
)
_NAMES = (
    *(f"{what}_{form}" for what in ("load", "store") for form in FORMS),
    *(f"load_lds_{form}" for form in FORMS),
    *(f"atomic_{name}" for name in dict.fromkeys(_ATOMICS)),
)
for _name in _NAMES:
    MAKERS[f"global_{_name}"] = _global
    MAKERS[f"buffer_{_name}"] = _buffer_access
for _name in (f"load_async_to_lds_{form}" for form in ("b8", "b32", "b64", "b128")):
    MAKERS[f"global_{_name}"] = MAKERS[f"cluster_{_name}"] = _global


@instruction(
    *("buffer_wbl2", "buffer_inv", "buffer_wbinvl1", "buffer_wbinvl1_vol", "buffer_gl0_inv", "buffer_gl1_inv"),
    *("global_inv", "global_wb", "global_wbinv", "global_prefetch_b8", "s_dcache_wb", "s_dcache_inv"),
    *("s_gl1_inv", "buffer_invl2"),
)
def caches(inst: Instruction, ctx: Context) -> Step:
    """The cache of the unit is dropped; write-backs, which have nothing to do here, are waited for as stores are."""
    name = inst.mnemonic
    if name in ("s_dcache_inv", "s_dcache_wb"):
        return lambda w: w.block.scalars.drop()
    if "prefetch" in name or name in ("buffer_gl1_inv", "s_gl1_inv"):
        return lambda w: None
    if name in ("buffer_wbl2", "global_wb"):
        return lambda w: w.issue(Event("store", inst.text, lambda: None))
    if name in ("buffer_inv", "global_inv", "global_wbinv") and not _past_the_cache(inst):
        return lambda w: None
    return lambda w: w.cache.drop()


# --- generic addresses and private memory -----------------------------------------------------------------------------


def _scratch_offsets(
    inst: Instruction, vaddr: str, saddr: str, size: int, ctx: Context
) -> Callable[[Wave, Lanes], Lanes]:
    offset, scale = inst.number("offset"), size if "scale_offset" in inst.modifiers else 1
    vector = None if vaddr == "off" else reader(ctx.operand(vaddr), "u32")
    scalar = None if saddr == "off" else read_scalar(ctx.operand(saddr))

    def offsets(w: Wave, lanes: Lanes) -> Lanes:
        base = np.full(len(lanes), offset + (0 if scalar is None else scalar(w)), np.int64)
        return base if vector is None else base + vector(w)[lanes].astype(np.int64) * scale

    return offsets


def _scratch(inst: Instruction, ctx: Context) -> Step:
    what = inst.mnemonic.partition("_")[2]
    reads = what.startswith("load_")
    form = FORMS[what.partition("_")[2]]
    if reads:
        register, vaddr, saddr = inst.operands
    else:
        vaddr, register, saddr = inst.operands
    operand = ctx.operand(register)
    offsets = _scratch_offsets(inst, vaddr, saddr, form.size, ctx)
    registers = tuple(range(operand.index, operand.index + max(1, form.size // 4)))

    def step(w: Wave) -> None:
        lanes: Lanes = np.flatnonzero(w.mask)
        at = offsets(w, lanes)
        if len(at) and (at.min() < 0 or at.max() + form.size > w.scratch.shape[1]):
            raise IsaError(f"{inst.text}: {int(at.max())} is past {w.scratch.shape[1]} bytes of private memory")
        span = at[:, None] + np.arange(form.size)
        if reads:
            act: Callable[[], Bytes | None] = lambda: w.scratch[lanes[:, None], span]  # noqa: E731
            w.issue(Event("load", inst.text, act, lambda d: put(w, operand, form, d, lanes), registers, 1, 2))
            return
        data = take(w, operand, form, lanes)

        def act_store() -> None:
            w.scratch[lanes[:, None], span] = data

        w.issue(Event("store", inst.text, act_store, None, (), 1, 2))

    return step


def _flat(inst: Instruction, ctx: Context) -> Step:
    """A generic address is in shared, private or global memory, lane by lane."""
    what = inst.mnemonic.partition("_")[2]
    reads = what.startswith("load_")
    if not reads and not what.startswith("store_"):
        raise IsaError("an atomic on a generic address")
    if "scale_offset" in inst.modifiers:
        raise IsaError("an address that is scaled")
    form = FORMS[what.partition("_")[2]]
    address, register = (inst.operands[1], inst.operands[0]) if reads else (inst.operands[0], inst.operands[1])
    operand = ctx.operand(register)
    wide, offset = reader(ctx.operand(address), "u64"), np.uint64(inst.number("offset"))
    past = _past_the_cache(inst)
    registers = tuple(range(operand.index, operand.index + max(1, form.size // 4)))

    def step(w: Wave) -> None:
        lanes: Lanes = np.flatnonzero(w.mask)
        addresses = wide(w)[lanes] + offset
        upper = (addresses >> np.uint64(32)).astype(np.int64)
        lower = (addresses & np.uint64(0xFFFFFFFF)).astype(np.int64)
        shared, private = upper == SHARED_APERTURE, upper == PRIVATE_APERTURE
        rest = ~(shared | private)
        span = lower[private][:, None] + np.arange(form.size)

        def read() -> Bytes:
            out = np.zeros((len(lanes), form.size), np.uint8)
            out[shared] = lds_read(w, lower[shared], form.size, inst.text)
            out[private] = w.scratch[lanes[private][:, None], span]
            out[rest] = w.read(addresses[rest], form.size, inst.text, None if past else w.cache)
            return out

        data = None if reads else take(w, operand, form, lanes)

        def write() -> None:
            assert data is not None
            lds_write(w, lower[shared], data[shared], inst.text)
            w.scratch[lanes[private][:, None], span] = data[private]
            w.write(addresses[rest], data[rest], inst.text)

        low, high = _span(addresses, form.size)
        kind = "load" if reads else "store"
        land = (lambda d: put(w, operand, form, d, lanes)) if reads else None
        event = Event("flat", inst.text, read if reads else write, land, registers if reads else (), low, high)
        w.issue(event, w.counter(kind), w.counter("ds"))

    return step


for _name in _NAMES:
    if _name.startswith(("load_lds", "atomic")):
        continue
    MAKERS[f"scratch_{_name}"] = _scratch
    MAKERS[f"flat_{_name}"] = _flat
