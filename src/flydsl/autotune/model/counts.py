"""How much of everything a block of a launch does: instructions by class, bytes by level, each with its source line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...target.machines import Machine
from .evaluate import Evaluator, Place, size_of, trips
from .ir import Instruction, KernelIR, order
from .launches import Launch

Line = tuple[str, int]

_LOAD = re.compile(r"load (?:volatile |atomic )*(.+?), ptr(?: addrspace\((\d+)\))? (%[\w.$-]+|@[\w.$-]+)")
_STORE = re.compile(r"store (?:volatile |atomic )*(.+) (\S+), ptr(?: addrspace\((\d+)\))? (%[\w.$-]+|@[\w.$-]+)")
_ATOMIC = re.compile(r"(?:atomicrmw|cmpxchg).*? ptr(?: addrspace\((\d+)\))? (%[\w.$-]+|@[\w.$-]+)")
_BUFFER = re.compile(r"@llvm\.amdgcn\.raw\.(?:ptr\.)?buffer\.(load|store|atomic)[\w.]*?\.(v\d+)?([if]\d+|bf16)\(")
_CALLED = re.compile(r"@(llvm[\w.]+)\(")
_ASM = re.compile(r'asm (?:sideeffect )?(?:convergent )?"((?:[^"\\]|\\.)*)"')
_WGMMA = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.\w+\.(\w+)")
_MMA = re.compile(r"mma\.(?:sync\.aligned\.)?m(\d+)n(\d+)k(\d+)")
_AMD_MATRIX = re.compile(r"(?:mfma|wmma)[\w.]*?\.(\d+)x(\d+)x(\d+)(?:\.(?:\d+b\.)?)?(\w*)")
_CP_ASYNC = re.compile(r"cp\.async\.c[ag]\.shared\.global(?:\.L2::\w+)?[^;]*?, (\d+)")
_MATRIX_MOVE = re.compile(r"(?:ld|st)matrix\.sync\.aligned\.m8n8\.x(\d)")
_I32 = re.compile(r"i32 (%[\w.$-]+|-?\d+)")
_POINTER = re.compile(r"ptr(?: addrspace\(\d+\))? (%[\w.$-]+|@[\w.$-]+)")
_VECTOR = re.compile(r"<(\d+) x (\w+)>")
_FREE = {"phi", "extractvalue", "insertvalue", "extractelement", "insertelement", "bitcast", "freeze", "ret",
         "addrspacecast", "unreachable", "shufflevector", "inttoptr", "ptrtoint"}  # fmt: skip
_FLOAT = {"fadd", "fsub", "fmul", "fneg", "fcmp"}
_SPECIAL = ("sqrt", "exp", "log", "sin", "cos", "rcp", "rsq", "ex2", "lg2", "tanh")
_KINDS = (("e4m3", "fp8"), ("e5m2", "fp8"), ("fp8", "fp8"), ("bf8", "fp8"), ("f8f6f4", "fp8"), ("bf16", "bf16"),
          ("tf32", "tf32"), ("xf32", "xf32"), ("f16", "f16"), ("s8", "i8"), ("i8", "i8"), ("u8", "i8"),
          ("f64", "f64"), ("f32", "f32"))  # fmt: skip


@dataclass
class Amounts:
    """What warps do, summed up. Instructions count per warp."""

    issued: float = 0.0
    floats: float = 0.0
    """Lanes' operations on f32."""
    special: float = 0.0
    """Lanes' operations of the unit for roots and exponentials."""
    matrix: dict[str, float] = field(default_factory=dict[str, float])
    """Operations by element type."""
    shared: float = 0.0
    """Clocks of shared memory, conflicts included."""
    shared_ideal: float = 0.0
    asked: float = 0.0
    """Bytes of device memory that lanes ask for."""
    moved: float = 0.0
    """Bytes that move for it: whole sectors."""
    written: float = 0.0
    """Part of `moved`."""
    rounds: float = 0.0
    """Times a warp waits for memory."""
    rounds_async: float = 0.0
    """Times copies are started that it need not wait for at once."""
    barriers: float = 0.0
    local: float = 0.0
    """Bytes of spilled registers and local arrays."""
    guessed: float = 0.0
    """Accesses whose addresses cannot be followed; they count as if they were ideal."""

    def add(self, other: Amounts, weight: float = 1.0) -> None:
        for name in ("issued", "floats", "special", "shared", "shared_ideal", "asked", "moved", "written", "rounds",
                     "rounds_async", "barriers", "local", "guessed"):  # fmt: skip
            setattr(self, name, getattr(self, name) + weight * getattr(other, name))
        for kind, count in other.matrix.items():
            self.matrix[kind] = self.matrix.get(kind, 0.0) + weight * count


@dataclass
class Access:
    """One instruction that loads from or stores to memory that lanes share."""

    line: Line | None
    what: str
    """`load`, `store`, `atomic` or `copy`."""
    each: Amounts
    """What one warp does for it once."""
    times: float
    """How often warps of a block do it."""


@dataclass
class BlockWork:
    """A block's amounts, all together and by source line."""

    total: Amounts
    lines: dict[Line, Amounts]
    unknown_loops: int = 0
    """Loops whose number of rounds could not be followed; they count once."""
    cluster: int = 1
    span: Amounts = field(default_factory=Amounts)
    """Of the warp that does most: what follows one another."""
    accesses: list[Access] = field(default_factory=list[Access])
    """Each load and store, in the order of the code."""


class Counter:
    """Counts one launch."""

    def __init__(self, kernel: KernelIR, launch: Launch, machine: Machine):
        self.kernel = kernel
        self.launch = launch
        self.machine = machine
        self.parameters = {kernel.parameters[i]: v for i, v in launch.parameters.items() if i < len(kernel.parameters)}
        self._patterns: dict[int, Amounts] = {}
        self.order = order(kernel)
        self.unknown = 0

    def place(self, thread: int) -> Place:
        x, y, _ = self.launch.block
        at = (thread % x, thread // x % y, thread // (x * y))
        return Place(at, (0, 0, 0), self.launch.block, self.launch.grid, self.machine.warp)

    def evaluator(self, thread: int, phis: Mapping[str, int] | None = None) -> Evaluator:
        return Evaluator(self.kernel, self.parameters, self.place(thread), phis or {})

    def run(self) -> BlockWork:
        """All warps of block zero, of which every other does the same or less."""
        warp = self.machine.warp
        warps = -(-self.launch.threads // warp)
        total, lines, span = Amounts(), dict[Line, Amounts](), Amounts()
        like: dict[tuple[tuple[str, float], ...], list[int]] = {}
        accesses: dict[int, Access] = {}
        for i in range(warps):
            weights = self.weights(i * warp)
            like.setdefault(tuple(weights.items()), []).append(i)
        for same, members in like.items():
            own = Amounts()
            for label, weight in same:
                if weight <= 0:
                    continue
                waits = self._waits(label)
                for made in self.kernel.blocks[label].instructions:
                    found = self.instruction(made, members[0] * warp)
                    own.add(found, weight)
                    if made.line is not None:
                        lines.setdefault(made.line, Amounts()).add(found, weight * len(members))
                    if found.asked or (found.shared and not found.matrix):
                        seen = accesses.setdefault(id(made), Access(made.line, _what(made), found, 0.0))
                        seen.times += weight * len(members)
                own.rounds += weight * waits[0]
                own.rounds_async += weight * waits[1]
            total.add(own, len(members))
            if own.issued + sum(own.matrix.values()) > span.issued + sum(span.matrix.values()):
                span = own
        return BlockWork(total, lines, self.unknown, self.kernel.cluster, span, list(accesses.values()))

    # -- how often -------------------------------------------------------------------------------------

    def weights(self, thread: int) -> dict[str, float]:
        """How often each block of the code runs in the warp of a thread."""
        state = self.evaluator(thread)
        rounds: dict[str, float] = {}
        unknown: list[str] = []
        for loop in self.kernel.loops:
            found = trips(self.kernel, loop, lambda phis: self.evaluator(thread, phis))
            if found is None:
                unknown.append(loop.header)
            rounds[loop.header] = 1.0 if found is None else found
        weights = dict.fromkeys(self.order, 0.0)
        weights[self.order[0]] = 1.0
        for label in self.order:
            if label in rounds:
                weights[label] *= max(rounds[label], 1.0)
            weight = weights[label]
            if not weight:
                continue
            block = self.kernel.blocks[label]
            inner = [loop for loop in self.kernel.loops if label in loop.blocks]
            leaves = any(after not in loop.blocks for after in block.successors for loop in inner)
            # Where a loop can end, it goes on and ends once: what the condition is in its first round says nothing.
            ways = [(s, 1.0) for s in dict.fromkeys(block.successors)] if leaves else None
            for after, share in ways or self._shares(block.instructions[-1], block.successors, state):
                if after not in weights or any(after == loop.header for loop in inner):
                    continue  # back to the start of a loop: counted in its rounds
                out = weight * share
                for loop in inner:
                    if after not in loop.blocks:
                        out /= max(rounds[loop.header], 1.0)
                weights[after] += out
        self.unknown = max(self.unknown, sum(weights[header] > 0 for header in unknown))
        return weights

    @staticmethod
    def _shares(end: Instruction, successors: list[str], state: Evaluator) -> list[tuple[str, float]]:
        """Where a block goes on, and how likely."""
        distinct = list(dict.fromkeys(successors))
        match = re.match(r"br i1 (\S+),", end.text)
        if match is not None and len(distinct) == 2:
            known = state.value(match[1])
            if known is not None:
                return [(successors[0] if known else successors[1], 1.0)]
        return [(label, 1.0 / len(distinct)) for label in distinct]

    def _waits(self, label: str) -> tuple[float, float]:
        """Whether a block of code loads from memory and waits, and whether it starts copies."""
        sync = started = 0.0
        for made in self.kernel.blocks[label].instructions:
            found = self.instruction(made, 0)
            if found.asked > found.written:
                if any(word in made.text for word in ("async", "lds", "expect")):
                    started = 1.0
                else:
                    sync = 1.0
        return sync, started

    # -- how much --------------------------------------------------------------------------------------

    def instruction(self, made: Instruction, thread: int) -> Amounts:
        """What one warp does for an instruction."""
        known = self._patterns.get(id(made))
        if known is None:
            known = self._patterns[id(made)] = self._amounts(made, thread)
        return known

    def _amounts(self, made: Instruction, thread: int) -> Amounts:
        out = Amounts()
        text, op = made.text, made.opcode
        if op in _FREE:
            return out
        lanes = self.machine.warp
        match = _VECTOR.search(text) if op not in ("call", "load", "store") else None
        width = int(match[1]) if match else 1
        out.issued = float(width)
        if op == "getelementptr":
            out.issued = 0.5  # most of them become part of the address
        elif op in _FLOAT:
            double = 32.0 if "double" in text else 1.0
            halves = 0.5 if ("half" in text or "bfloat" in text) and width > 1 else 1.0
            out.issued *= halves
            out.floats = lanes * width * double * halves
        elif op in ("fdiv", "frem"):
            out.issued, out.floats, out.special = 8.0 * width, 8.0 * lanes * width, float(lanes * width)
        elif op == "load" and (found := _LOAD.match(text)):
            self._memory(out, found[1], int(found[2] or 0), found[3], thread, write=False)
        elif op == "store" and (found := _STORE.match(text)):
            self._memory(out, found[1], int(found[3] or 0), found[4], thread, write=True)
        elif op in ("atomicrmw", "cmpxchg") and (found := _ATOMIC.match(text)):
            self._memory(out, "i32", int(found[1] or 0), found[2], thread, write=True)
        elif op == "call":
            self._call(out, text, thread)
        return out

    def _addresses(self, term: str, thread: int) -> list[int] | None:
        found: list[int] = []
        for lane in range(self.machine.warp):
            value = self.evaluator(thread + lane).value(term)
            if value is None:
                return None
            found.append(value)
        return found

    def _memory(self, out: Amounts, kind: str, space: int, term: str, thread: int, *, write: bool) -> None:
        size = size_of(kind) or 4
        places = self._addresses(term, thread)
        if space == 3:
            self._shared(out, size, places)
        elif space == 5:
            out.local += size * self.machine.warp
        elif space == 4:
            out.issued = 1.0  # constants: through a cache of their own
        else:
            self._global(out, size, places, write=write)

    def _global(self, out: Amounts, size: int, places: list[int] | None, *, write: bool) -> None:
        lanes, sector = self.machine.warp, self.machine.sector
        out.asked += size * lanes
        if places is None:
            out.guessed += 1.0
            moved = float(size * lanes)
        else:
            touched = {b // sector for at in places for b in range(at, at + size, min(sector, size))}
            moved = float(len(touched) * sector)
        out.moved += moved
        out.written += moved if write else 0.0

    def _shared(self, out: Amounts, size: int, places: list[int] | None) -> None:
        lanes, banks = self.machine.warp, self.machine.banks
        ideal = max(size * lanes / self.machine.shared_rate, 1.0)
        out.shared_ideal += ideal
        if places is None:
            out.guessed += 1.0
            out.shared += ideal
            return
        # Wide accesses are served for so many lanes at a time as fill all banks once.
        together = max(min(lanes, banks * 4 // max(size, 4)), 1)
        clocks = 0.0
        for start in range(0, lanes, together):
            words: dict[int, set[int]] = {}
            for at in places[start : start + together]:
                for word in range(at // 4, (at + max(size, 4) - 1) // 4 + 1):
                    words.setdefault(word % banks, set()).add(word)
            clocks += max(len(each) for each in words.values())
        out.shared += max(clocks, ideal)

    def _call(self, out: Amounts, text: str, thread: int) -> None:
        asm = _ASM.search(text)
        called = _CALLED.search(text)
        name = asm[1] if asm else called[1] if called else ""
        lanes = self.machine.warp
        if found := _WGMMA.search(name):
            n, k = int(found[1]), int(found[2])
            kind = _kind(found[3])
            out.matrix[kind] = 2.0 * 64 * n * k / 4
            size = {"fp8": 1, "i8": 1, "tf32": 4}.get(kind, 2)
            out.shared = out.shared_ideal = (64 + n) * k * size / self.machine.shared_rate / 4
        elif found := _MMA.search(name):
            m, n, k = (int(x) for x in found.groups())
            # An intrinsic names what it adds up; operands that it does not name are halves.
            named = re.sub(r"\.(f32|s32|f16)\b", "", name[found.end() :]) if asm is None else name
            out.matrix[_kind(named)] = 2.0 * m * n * k
        elif ("mfma" in name or "wmma" in name) and (found := _AMD_MATRIX.search(name)):
            m, n, k = (int(x) for x in found.groups()[:3])
            out.matrix[_kind(found[4] or name)] = 2.0 * m * n * k
        elif found := _MATRIX_MOVE.search(name):
            out.shared = out.shared_ideal = float(found[1])
        elif found := _CP_ASYNC.search(name):
            self._global(out, int(found[1]), None, write=False)
        elif "cp.async.c" in name and "shared.global" in name:
            tail = re.search(r"global\.(\d+)", name)
            pointers = _POINTER.findall(text)
            places = self._addresses(pointers[-1], thread) if pointers else None
            self._global(out, int(tail[1]) if tail else 16, places, write=False)
        elif "expect.tx" in name or "expect_tx" in name:
            counts = [self.evaluator(thread).value(term) for term in _I32.findall(text.partition(name)[2])]
            nbytes = max((c for c in counts if c is not None), default=0)
            out.asked += nbytes
            out.moved += nbytes  # what a cluster's blocks share counts for each: their walking in step takes it back
        elif found := _BUFFER.search(text):
            self._buffer(out, text, found, thread)
        elif "barrier" in name and "init" not in name and "sched" not in name:
            out.barriers = 1.0
        elif any(f".{word}" in name for word in _SPECIAL):
            out.special, out.issued = float(lanes), 2.0
        elif ".fma." in name or ".fmuladd." in name:
            match = _VECTOR.search(text)
            width = int(match[1]) if match else 1
            out.issued, out.floats = float(width), 2.0 * lanes * width
        elif any(
            word in name for word in ("prefetch", "sched", "assume", "sreg", "workitem", "workgroup.id", "lifetime")
        ):
            out.issued = 0.0

    def _buffer(self, out: Amounts, text: str, found: re.Match[str], thread: int) -> None:
        width = int(found[2][1:]) if found[2] else 1
        size = width * (2 if found[3] == "bf16" else int(found[3][1:]) // 8)
        offsets = _I32.findall(text[found.end() :])
        places = self._addresses(offsets[0], thread) if offsets else None
        self._global(out, size, places, write=found[1] != "load")


def _what(made: Instruction) -> str:
    if made.opcode in ("load", "store"):
        return made.opcode
    if made.opcode in ("atomicrmw", "cmpxchg") or ".atomic" in made.text:
        return "atomic"
    moved = _BUFFER.search(made.text) or re.search(r"\b(ld|st)matrix", made.text)
    return {"ld": "load", "st": "store"}.get(moved[1], moved[1]) if moved else "copy"


def _kind(text: str) -> str:
    for word, kind in _KINDS:
        if word in text and not (word == "f32" and "f16" in text):
            return kind
    return "f16"
