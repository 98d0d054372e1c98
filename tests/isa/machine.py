"""A launch: blocks and their waves, the registers they start with, and turns taken at random."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from flydsl.llvm.objects.code_object import KernelInfo

from . import instructions as instructions
from .audit import check_kernel
from .caches import Cache
from .decode import Context, Line, family_of, program
from .errors import IsaError
from .image import Descriptor, Image
from .memory import Memory
from .wave import TTMP, Block, Cluster, Wave

RESIDENT = 6
"""Blocks that run at the same time."""
TURN = 40
"""The most instructions a wave executes before another may come."""
LIMIT = 20_000_000
"""Instructions of a launch, after which it counts as hanging."""

Dim = tuple[int, int, int]


@dataclass(slots=True)
class Kernel:
    """A kernel that is ready to run."""

    image: Image
    info: KernelInfo
    descriptor: Descriptor
    lines: list[Line]
    entry: int
    context: Context

    @staticmethod
    def load(image: Image, name: str) -> Kernel:
        info = image.kernel(name)
        at, descriptor = image.descriptor(info)
        family = family_of(image.arch)
        size = 32 if descriptor.wave32 else 64
        context = Context(image.arch, family, size, descriptor.accumulators if family == "gfx9" else 1 << 20)
        lines, places = program(image.instructions, context)
        start = at + descriptor.entry
        if descriptor.preload & 0x7F:
            start += 256  # behind the code that loads the arguments where the hardware does not
        if start not in places:
            raise IsaError(f"the descriptor's entry {start:#x} is no instruction")
        first, last = at + descriptor.entry, at + descriptor.entry + info.code_size
        named = [register for line in lines if first <= line.inst.address < last for register in line.registers]
        check_kernel(info, descriptor, "gfx1250" if image.arch == "gfx1250" else family, named)
        return Kernel(image, info, descriptor, lines, places[start], context)


def kernarg(info: KernelInfo, params: Sequence[bytes], grid: Dim, block: Dim, dynamic: int) -> bytes:
    """The argument block as the driver makes it: what the caller gives, then what the metadata asks for."""
    size = max([info.kernarg_size, *(arg.offset + arg.size for arg in info.args)])
    out = bytearray(b"\xa5" * size)
    explicit = [arg for arg in info.args if not arg.hidden]
    if len(explicit) != len(params):
        raise IsaError(f"{info.name} takes {len(explicit)} arguments, the launch brings {len(params)}")
    for arg, data in zip(explicit, params, strict=True):
        out[arg.offset : arg.offset + arg.size] = data[: arg.size]
    known: dict[str, int] = {"hidden_grid_dims": 3 if grid[2] * block[2] > 1 else 2 if grid[1] * block[1] > 1 else 1}
    for at, letter in enumerate("xyz"):
        known[f"hidden_block_count_{letter}"] = grid[at]
        known[f"hidden_group_size_{letter}"] = block[at]
        known[f"hidden_remainder_{letter}"] = 0
        known[f"hidden_global_offset_{letter}"] = 0
    known["hidden_dynamic_lds_size"] = dynamic
    for arg in info.args:
        if arg.hidden and arg.value_kind in known:
            out[arg.offset : arg.offset + arg.size] = known[arg.value_kind].to_bytes(arg.size, "little")
    return bytes(out)


def _user_registers(kernel: Kernel, w: Wave, arguments: int, raw: bytes) -> None:
    """The scalar registers that a dispatch sets, in the order of the descriptor's bits."""
    wanted = kernel.descriptor.properties
    values: list[int] = []
    for bit, count in enumerate((4, 2, 2, 2, 2, 2, 1)):
        if not wanted >> bit & 1:
            continue
        if bit == 3:
            values += [arguments & 0xFFFFFFFF, arguments >> 32]
        elif bit == 6:
            values.append(kernel.descriptor.scratch)
        elif bit in (0, 5):
            values += [0xBAD0BAD0] * count  # where private memory is, which no code here may use
        else:
            raise IsaError(f"the kernel wants a dispatch or queue pointer (bit {bit})")
    length, start = kernel.descriptor.preload & 0x7F, kernel.descriptor.preload >> 7
    padded = raw + b"\xa5" * 256
    values += struct.unpack_from(f"<{length}I", padded, 4 * start)
    if len(values) > kernel.descriptor.user_sgprs:
        raise IsaError(f"{len(values)} user registers are set, the descriptor counts {kernel.descriptor.user_sgprs}")
    w.s[: len(values)] = values


def _start(kernel: Kernel, w: Wave, block: Dim, arguments: int, raw: bytes, cluster: Dim) -> None:
    descriptor, index = kernel.descriptor, w.block.index
    w.pc, w.base = kernel.entry, kernel.image.base
    w.mode = descriptor.rsrc1 >> 12 & 0xFF
    _user_registers(kernel, w, arguments, raw)
    if kernel.context.family == "gfx12":
        # In clusters of more than one block the ids are those of clusters, and the block's place is beside them.
        outer = [i // c for i, c in zip(index, cluster, strict=True)]
        w.s[TTMP + 9] = outer[0]
        w.s[TTMP + 7] = outer[1] & 0xFFFF | outer[2] << 16
        inner = [i % c for i, c in zip(index, cluster, strict=True)]
        w.s[TTMP + 6] = sum((i | c - 1 << 12) << 4 * at for at, (i, c) in enumerate(zip(inner, cluster, strict=True)))
        flat = inner[0] + cluster[0] * (inner[1] + cluster[1] * inner[2])
        w.place_in_cluster = flat << 21 | (cluster != (1, 1, 1)) << 6
    else:
        at = descriptor.user_sgprs
        for bit in range(3):
            if descriptor.rsrc2 >> 7 + bit & 1:
                w.s[at] = index[bit]
                at += 1
    if kernel.context.family == "gfx12":
        w.s[TTMP + 8] = w.number << 25  # the number of the wave, where it is asked for
    linear = np.arange(w.lanes) + w.number * w.lanes
    x, y, z = linear % block[0], linear // block[0] % block[1], linear // (block[0] * block[1])
    w.v[0] = x | y << 10 | z << 20
    count = block[0] * block[1] * block[2]
    w.set_exec((1 << min(w.lanes, count - w.number * w.lanes)) - 1)
    needed = descriptor.scratch
    w.scratch = np.full((w.lanes, needed), 0xA5, np.uint8)


def _make_block(
    kernel: Kernel,
    index: Dim,
    block: Dim,
    dynamic: int,
    arguments: int,
    raw: bytes,
    rng: random.Random,
    everyone: list[Cache],
    cluster: Dim,
) -> Block:
    size = kernel.descriptor.lds + dynamic
    shared = np.random.default_rng(rng.getrandbits(32)).integers(0, 256, size, np.uint8)
    shared[3::4] = 0x7F  # most words are NaN as numbers
    shared[2::4] |= 0x80
    ctx = kernel.context
    # From gfx11 on the waves of a block run on two units.
    made = Block(index, shared, caches=[Cache() for _ in range(1 if ctx.family == "gfx9" else 2)], everyone=everyone)
    everyone += [*made.caches, made.scalars]
    count = -(-block[0] * block[1] * block[2] // ctx.lanes)
    family = "gfx1250" if ctx.arch == "gfx1250" else ctx.family
    for number in range(count):
        w = Wave(ctx.family, ctx.lanes, kernel.descriptor.vgprs(family), made, kernel.image.memory, rng)
        w.number = number
        _start(kernel, w, block, arguments, raw, cluster)
        made.waves.append(w)
    return made


def _turn(kernel: Kernel, w: Wave, most: int) -> int:
    """Execute some instructions of a wave."""
    lines = kernel.lines
    done = 0
    while done < most and w.state == "ready":
        line = lines[w.pc]
        w.pc += 1
        done += 1
        try:
            if w.pending:
                w.check(line.registers, line.inst.text)
            line.step(w)
        except Exception as error:
            place = f"block {w.block.index}, wave {w.number}, {line.inst.address:#x}: {line.inst.text}"
            raise IsaError(f"{error}\n  in {kernel.info.name}, {place}") from error
    w.executed += done
    return done


def _can_go_on(w: Wave) -> bool:
    if w.state == "cluster" and w.block.cluster.meetings >= w.met:
        w.state = "ready"
    return w.state == "ready"


def _release(block: Block) -> bool:
    """Let waves past a barrier that all that are left have reached."""
    alive = [w for w in block.waves if w.state != "ended"]
    if not alive or any(w.state != "barrier" for w in alive):
        return False
    for w in alive:
        w.state, w.signalled = "ready", False
    return True


def run(
    kernel: Kernel,
    memory: Memory,
    params: Sequence[bytes],
    grid: Dim,
    block: Dim,
    dynamic: int,
    seed: int,
    cluster: Dim = (1, 1, 1),
) -> int:
    """Execute a launch; gives the number of instructions."""
    if any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise IsaError(f"clusters of {cluster} in a grid of {grid}")
    rng = random.Random(seed)
    info = kernel.info
    threads = block[0] * block[1] * block[2]
    if threads > info.max_flat_workgroup_size:
        raise IsaError(f"{threads} threads, the code is for {info.max_flat_workgroup_size} at most")
    raw = kernarg(info, params, grid, block, dynamic)
    # Scalar loads of three words are of four: the block is aligned to that, so what is behind its end can be read.
    raw += b"\xa5" * (-len(raw) % 16)
    room = np.frombuffer(raw + bytes(64), np.uint8).copy()
    arguments = (room.ctypes.data + 63) // 64 * 64
    shift = arguments - room.ctypes.data
    room[shift : shift + len(raw)] = np.frombuffer(raw, np.uint8)
    memory.add(arguments, len(raw), "the kernel's arguments", writable=False, owner=room)
    clusters = list(product(*(range(g // c) for g, c in zip(grid, cluster, strict=True))))
    rng.shuffle(clusters)
    blocks: list[Block] = []
    everyone: list[Cache] = []
    total = 0
    try:
        with np.errstate(all="ignore"):
            while clusters or blocks:
                while clusters and len(blocks) < RESIDENT:
                    first, together = clusters.pop(), Cluster(cluster[0] * cluster[1] * cluster[2])
                    for inner in product(*(range(c) for c in reversed(cluster))):
                        x, y, z = (f * c + i for f, c, i in zip(first, cluster, reversed(inner), strict=True))
                        made = _make_block(kernel, (x, y, z), block, dynamic, arguments, raw, rng, everyone, cluster)
                        made.cluster = together
                        together.blocks.append(made)
                        blocks.append(made)
                current = rng.choice(blocks)
                ready = [w for w in current.waves if _can_go_on(w)]
                if ready:
                    total += _turn(kernel, rng.choice(ready), rng.randint(1, TURN))
                elif not _release(current):
                    if all(w.state == "ended" for w in current.waves):
                        blocks.remove(current)
                        everyone[:] = [c for b in blocks for c in (*b.caches, b.scalars)]
                    elif not any(
                        _can_go_on(w) or w.state == "barrier" for b in blocks for w in b.waves if b != current
                    ):
                        raise IsaError(f"{info.name}: waves of block {current.index} wait for each other")
                if total > LIMIT:
                    raise IsaError(f"{info.name} has executed {total} instructions and goes on")
    finally:
        memory.remove(arguments)
    return total
