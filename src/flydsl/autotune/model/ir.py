"""Optimised LLVM IR as blocks of instructions with their source lines, and the loops around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_DEFINE = re.compile(r"^define\b.*?@([\w.$\"-]+)\((.*)\)[^)]*\{")
_LABEL = re.compile(r"^([\w.$-]+):")
_RESULT = re.compile(r"^\s+(?:(%[\w.$-]+) = )?(.*)$")
_LOCATION = re.compile(r"^(!\d+) = !DILocation\(line: (\d+),.*scope: (!\d+)(?:, inlinedAt: (!\d+))?")
_SCOPE = re.compile(r"^(!\d+) = .*!DI(?:Subprogram|LexicalBlock)\(.*?file: (!\d+)")
_FILE = re.compile(r'^(!\d+) = !DIFile\(filename: "([^"]*)", directory: "([^"]*)"')
_DEBUG = re.compile(r", !dbg (!\d+)")
_GROUP = re.compile(r"\) [^)]*#(\d+)[^)]*\{$")
_CLUSTER = re.compile(r'^attributes #(\d+) = .*"nvvm\.cluster_dim"="(\d+),(\d+),(\d+)"', re.MULTILINE)
_LABELS = re.compile(r"label %([\w.$-]+)")


@dataclass
class Instruction:
    """One instruction; `text` is without its result and its metadata."""

    result: str
    text: str
    line: tuple[str, int] | None

    @property
    def opcode(self) -> str:
        words = self.text.split(None, 2)
        return words[1] if words[0] in ("tail", "musttail", "notail") else words[0]


@dataclass
class Block:
    label: str
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    successors: list[str] = field(default_factory=list[str])


@dataclass
class Loop:
    """A natural loop."""

    header: str
    blocks: set[str]
    latches: list[str]
    trips: float = 0.0
    """How often its header runs for each time it is entered; 0: not known yet."""


@dataclass
class KernelIR:
    name: str
    parameters: list[str]
    """Their names, in order."""
    blocks: dict[str, Block]
    """In the order of the text, the entry first."""
    definitions: dict[str, Instruction]
    loops: list[Loop]
    cluster: int = 1
    """Blocks that are launched together."""

    def around(self, label: str) -> list[Loop]:
        """The loops a block is in."""
        return [loop for loop in self.loops if label in loop.blocks]


def _places(text: str) -> dict[str, tuple[str, int]]:
    files: dict[str, str] = {}
    scopes: dict[str, str] = {}
    found: dict[str, tuple[int, str]] = {}
    for line in text.splitlines():
        if not line.startswith("!"):
            continue
        if match := _FILE.match(line):
            files[match[1]] = f"{match[3]}/{match[2]}" if match[3] else match[2]
        elif match := _SCOPE.match(line):
            scopes[match[1]] = match[2]
        elif match := _LOCATION.match(line):
            found[match[1]] = (int(match[2]), match[3])
    return {key: (files.get(scopes.get(scope, ""), ""), line) for key, (line, scope) in found.items()}


def _parameter_names(text: str) -> list[str]:
    """The names of parameters: each is the last word of its piece, pieces are split at commas outside of brackets."""
    pieces: list[str] = []
    depth = start = 0
    quoted = False
    for i, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif not quoted and c in "([{<":
            depth += 1
        elif not quoted and c in ")]}>":
            depth -= 1
        elif c == "," and depth == 0 and not quoted:
            pieces.append(text[start:i])
            start = i + 1
    pieces.append(text[start:])
    return [piece.split()[-1] for piece in pieces if piece.strip()]


def _joined(text: str) -> Iterator[str]:
    """Lines, with the cases of a switch on one."""
    held = ""
    for line in text.splitlines():
        if held:
            held += " " + line.strip()
            if line.strip().startswith("]"):
                yield held
                held = ""
        elif re.match(r"\s+switch .*\[$", line):
            held = line
        else:
            yield line


def parse(text: str) -> dict[str, KernelIR]:
    """The kernels of a module by symbol: what is defined and not called by others."""
    places = _places(text)
    clusters = {n: int(x) * int(y) * int(z) for n, x, y, z in _CLUSTER.findall(text)}
    kernels: dict[str, KernelIR] = {}
    block: Block | None = None
    kernel: KernelIR | None = None
    for line in _joined(text):
        if match := _DEFINE.match(line):
            number = _GROUP.search(line)
            together = clusters.get(number[1], 1) if number else 1
            kernel = KernelIR(match[1].strip('"'), _parameter_names(match[2]), {}, {}, [], together)
            if "kernel" in line.split("@")[0]:
                kernels[kernel.name] = kernel
            block = kernel.blocks["entry"] = Block("entry")
            continue
        if kernel is None:
            continue
        if line.startswith("}"):
            kernel.loops = _loops(kernel)
            kernel = None
            continue
        if match := _LABEL.match(line):
            if not block or block.instructions or match[1] != "entry":
                if block is not None and not block.instructions:
                    del kernel.blocks[block.label]
                block = kernel.blocks[match[1]] = Block(match[1])
            continue
        if not line.strip() or line.lstrip().startswith((";", "#dbg")) or block is None:
            continue
        match = _RESULT.match(line)
        if match is None:
            continue
        debug = _DEBUG.search(match[2])
        body = match[2].split(", !")[0]
        made = Instruction(match[1] or "", body, places.get(debug[1]) if debug else None)
        block.instructions.append(made)
        if made.result:
            kernel.definitions[made.result] = made
        if made.opcode in ("br", "switch"):
            block.successors = _LABELS.findall(body)
    return kernels


def order(kernel: KernelIR) -> list[str]:
    """Labels in reverse post-order from the entry."""
    seen: set[str] = set()
    out: list[str] = []
    entry = next(iter(kernel.blocks))
    stack: list[tuple[str, Iterator[str]]] = [(entry, iter(kernel.blocks[entry].successors))]
    seen.add(entry)
    while stack:
        label, rest = stack[-1]
        for after in rest:
            if after not in seen and after in kernel.blocks:
                seen.add(after)
                stack.append((after, iter(kernel.blocks[after].successors)))
                break
        else:
            out.append(label)
            stack.pop()
    return out[::-1]


def _loops(kernel: KernelIR) -> list[Loop]:
    """Natural loops, outer ones first: an edge back to a block that dominates its source closes one."""
    labels = order(kernel)
    place = {label: i for i, label in enumerate(labels)}
    before: dict[str, list[str]] = {label: [] for label in labels}
    for label in labels:
        for after in kernel.blocks[label].successors:
            if after in before:
                before[after].append(label)
    over: dict[str, str] = {labels[0]: labels[0]}
    changed = True
    while changed:
        changed = False
        for label in labels[1:]:
            new = ""
            for source in before[label]:
                if source in over:
                    new = source if not new else _meet(new, source, over, place)
            if new and over.get(label) != new:
                over[label] = new
                changed = True
    found: dict[str, Loop] = {}
    for label in labels:
        for after in kernel.blocks[label].successors:
            if after in place and _dominates(after, label, over):
                loop = found.setdefault(after, Loop(after, {after}, []))
                loop.latches.append(label)
                stack = [label]
                while stack:
                    each = stack.pop()
                    if each not in loop.blocks:
                        loop.blocks.add(each)
                        stack.extend(before[each])
    return sorted(found.values(), key=lambda loop: -len(loop.blocks))


def _meet(a: str, b: str, over: dict[str, str], place: dict[str, int]) -> str:
    while a != b:
        while place[a] > place[b]:
            a = over[a]
        while place[b] > place[a]:
            b = over[b]
    return a


def _dominates(a: str, b: str, over: dict[str, str]) -> bool:
    while b in over:
        if a == b:
            return True
        if over[b] == b:
            return False
        b = over[b]
    return False
