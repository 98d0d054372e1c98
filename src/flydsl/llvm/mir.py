"""Machine IR between two halves of code generation: where `llc` can be cut, a view of MIR text, and the cut itself.

`llc -stop-before=P` writes MIR, `llc -start-before=P` goes on from it, and the result is that of one run. What a
Python pass does to the text in between is checked by LLVM's machine verifier.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flydsl.errors import CodegenPassError
from flydsl.llvm import tools
from flydsl.llvm.codegen import DeviceTarget, code_level

POINTS = ("after-isel", "pre-ra", "pre-ra-sched", "post-ra", "pre-sched2", "pre-emit", "pre-emit2")
"""Named points of code generation, in the order they are reached."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place in the pipeline: before or after a pass."""

    side: str
    """`before` or `after`."""
    name: str

    def __str__(self) -> str:
        return f"{self.side} {self.name}"


_FAMILIES = {"amdgcn": "gfx", "nvptx64": "nvptx", "x86_64": "x86"}
_ANCHORS: dict[str, dict[str, str]] = {
    "after-isel": {"": "after finalize-isel"},
    "pre-ra": {"": "before detect-dead-lanes", "nvptx": "before processimpdefs", "O0": "before phi-node-elimination"},
    "pre-ra-sched": {"": "after machine-scheduler", "O0": ""},
    "post-ra": {"": "before removeredundantdebugvalues"},
    "pre-sched2": {
        "gfx": "before postmisched",
        "x86": "before post-RA-sched",
        "O0": "after postrapseudos",
        "nvptx": "",
        "nvptx O0": "",
    },
    "pre-emit": {"": "after xray-instrumentation"},
    # llc cannot be cut before the printer, which has no name; this is the last pass before it.
    "pre-emit2": {"": "after stack-frame-layout", "x86": "after unpack-mi-bundles"},
}
"""Point -> (family of targets, level) -> anchor; an empty one: the point is not there."""


def family(triple: str) -> str:
    return _FAMILIES.get(triple.split("-")[0], "")


def anchor(point: str, triple: str, level: int) -> Anchor | None:
    """Where a point is for a target and level, or None where it does not exist."""
    table = _ANCHORS.get(point)
    if table is None:
        raise CodegenPassError(f"unknown point {point!r}; there are: {', '.join(POINTS)}")
    kind = family(triple)
    keys = (*((f"{kind} O0", "O0") if code_level(triple, level) == 0 else ()), kind, "")
    text = next((table[key] for key in keys if key in table), "")
    if not text:
        return None
    side, name = text.split(" ", 1)
    return Anchor(side, name)


def require_anchor(point: str, triple: str, level: int) -> Anchor:
    """`anchor`, or an error naming the nearest points there are."""
    found = anchor(point, triple, level)
    if found is None:
        at = POINTS.index(point)
        near = sorted((p for p in POINTS if anchor(p, triple, level)), key=lambda p: abs(POINTS.index(p) - at))
        raise CodegenPassError(
            f"point {point!r} does not exist for {triple} at O{level}; nearest: {', '.join(near[:2])}"
        )
    return found


# --- a view of MIR text -------------------------------------------------------------------------------

_BLOCK = re.compile(r"^  bb\.\d+.*:(?: *;.*)?$")
_ABOUT = re.compile(r"^\s*($|;|successors:|liveins:)")
_NAME = re.compile(r"^name:\s*'?\"?([^'\"\s]+)", re.MULTILINE)
_OPCODE = re.compile(r"^(?:(?P<defs>.*?)\s=\s)?(?P<rest>.*)$")
_FLAGS = frozenset(
    "frame-setup frame-destroy nnan ninf nsz arcp contract afn reassoc nuw nsw exact nofpexcept nomerge nounwind "
    "noconvergent unpredictable disjoint nneg samesign inbounds nusw lr-split".split()
)


@dataclass(slots=True)
class MirInstruction:
    """One line of a block; assign to `text` to change it."""

    text: str
    """Without indentation."""
    indent: str = "    "

    def _split(self) -> tuple[str, list[str], str]:
        match = _OPCODE.match(self.text)
        assert match is not None
        words = match["rest"].split(" ")
        flags: list[str] = []
        while words and words[0] in _FLAGS:
            flags.append(words.pop(0))
        return match["defs"] or "", flags, " ".join(words)

    @property
    def opcode(self) -> str:
        """The name of the instruction, such as `S_NOP`."""
        return self._split()[2].split(" ", 1)[0].rstrip(",")

    @property
    def flags(self) -> tuple[str, ...]:
        return tuple(self._split()[1])

    @property
    def defs(self) -> tuple[str, ...]:
        """What stands left of `=`."""
        return tuple(_operands(self._split()[0]))

    @property
    def operands(self) -> tuple[str, ...]:
        """What stands right of the opcode, up to debug location and memory operands."""
        rest = self._split()[2]
        tail = rest.split(" :: ", 1)[0].partition(" ")[2]
        return tuple(o for o in _operands(tail) if not o.startswith("debug-location"))

    @property
    def debug_location(self) -> str | None:
        match = re.search(r"debug-location (![\w]+|!DILocation\([^)]*\))", self.text)
        return match[1] if match else None


def _operands(text: str) -> Iterator[str]:
    """Parts between commas, those inside brackets and quotes left alone."""
    depth, quoted, start = 0, False, 0
    for i, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif not quoted and char in "([{<":
            depth += 1
        elif not quoted and char in ")]}>":
            depth -= 1
        elif char == "," and not quoted and depth == 0:
            yield text[start:i].strip()
            start = i + 1
    if text[start:].strip():
        yield text[start:].strip()


@dataclass(slots=True)
class MirBlock:
    """A block: its label line, what is said about it, and its instructions, a list that may be edited."""

    label: str
    header: list[str] = field(default_factory=list[str])
    instructions: list[MirInstruction] = field(default_factory=list[MirInstruction])
    footer: list[str] = field(default_factory=list[str])
    """Empty lines up to the next block."""

    def insert(self, index: int, text: str) -> MirInstruction:
        """Put an instruction before the one at `index`."""
        made = MirInstruction(text)
        self.instructions.insert(index, made)
        return made


@dataclass(slots=True)
class MirFunction:
    """A machine function: everything before its body as text, then blocks."""

    name: str
    head: str
    blocks: list[MirBlock]
    tail: str

    def instructions(self) -> Iterator[MirInstruction]:
        for block in self.blocks:
            yield from block.instructions


class MirModule:
    """A light view of MIR text: functions, blocks and instructions can be read and changed, `str()` writes it back.

    Text that was not changed is written as it was read.
    """

    def __init__(self, text: str):
        self._parts: list[str | MirFunction] = []
        for document in re.split(r"(?m)^(?=---)", text):
            self._parts.append(_parse_function(document) if "\nbody:" in document else document)

    @property
    def functions(self) -> list[MirFunction]:
        return [part for part in self._parts if isinstance(part, MirFunction)]

    def __str__(self) -> str:
        return "".join(part if isinstance(part, str) else _print_function(part) for part in self._parts)


def _parse_function(document: str) -> str | MirFunction:
    head, mark, body = document.partition("\nbody:")
    name = _NAME.search(head)
    if name is None:
        return document
    first, _, rest = body.partition("\n")
    lines = rest.split("\n")
    end = next((i for i, line in enumerate(lines) if line == "..."), len(lines))
    blocks: list[MirBlock] = []
    before: list[str] = []
    for line in lines[:end]:
        if _BLOCK.match(line):
            blocks.append(MirBlock(line))
        elif not blocks:
            before.append(line)
        elif not blocks[-1].instructions and _ABOUT.match(line):
            blocks[-1].header.append(line)
        else:
            text = line.lstrip(" ")
            blocks[-1].instructions.append(MirInstruction(text, line[: len(line) - len(text)]))
    for block in blocks:
        while block.instructions and not block.instructions[-1].text:
            block.footer.insert(0, block.instructions.pop().indent)
    return MirFunction(name[1], "\n".join((f"{head}{mark}{first}", *before)), blocks, "\n".join(lines[end:]))


def _print_function(function: MirFunction) -> str:
    lines = [function.head]
    for block in function.blocks:
        lines += (block.label, *block.header, *(f"{i.indent}{i.text}" for i in block.instructions), *block.footer)
    return "\n".join((*lines, function.tail))


# --- cut and resume -----------------------------------------------------------------------------------

Rewrite = Callable[[str], str]


def target_arguments(target: DeviceTarget, level: int) -> list[str]:
    """What `llc` and `fly-llc` are told of a target."""
    args = [f"-O{code_level(target.triple, level)}", f"-mtriple={target.triple}", f"-mcpu={target.cpu}"]
    if target.features:
        args.append(f"-mattr={target.features}")
    if target.reloc != "default":
        args.append(f"-relocation-model={target.reloc}")
    if target.codemodel not in ("default", "jitdefault"):
        args.append(f"-code-model={target.codemodel}")
    return args


def split_codegen(
    source: Path,
    target: DeviceTarget,
    level: int,
    cuts: Sequence[tuple[str, Rewrite]],
    emit: Sequence[str],
    flags: Sequence[str] = (),
) -> dict[str, bytes]:
    """Code generation of an IR file with a rewrite of the MIR at each point, in the order the points are reached.

    `emit` are `obj`, `asm` or both, made from the same MIR. MIR files stay beside `source`, named after their point.
    """
    folder = source.parent
    llc = tools.find_tool("llc")
    base = [*flags, *target_arguments(target, level)]
    # Each point is one cut; a second rewrite at it works on the first one's text.
    ordered = sorted(cuts, key=lambda cut: POINTS.index(cut[0]))
    points = list(dict.fromkeys(point for point, _ in ordered))
    anchors = {point: require_anchor(point, target.triple, level) for point in points}
    start: list[str] = []
    for point in points:
        place = anchors[point]
        cut = folder / f"mir_{point}.mir"
        stop = [f"-stop-{place.side}={place.name}"]
        _run(llc, [*base, *start, *stop, str(source), "-o", str(cut)], folder)
        text = cut.read_text(encoding="utf-8")
        for rewrite in (rewrite for at, rewrite in ordered if at == point):
            text = rewrite(text)
        source = folder / f"mir_{point}.edited.mir"
        source.write_text(text, encoding="utf-8")
        start = [f"-start-{place.side}={place.name}"]
    made: dict[str, bytes] = {}
    for kind in emit:
        out = folder / f"codegen.{kind}"
        _run(llc, [*base, *start, f"-filetype={kind}", str(source), "-o", str(out)], folder)
        made[kind] = out.read_bytes()
    return made


def verify(text: str, target: DeviceTarget, level: int, folder: Path, what: str) -> None:
    """Let LLVM parse MIR text and check it; a mistake raises `CodegenPassError` beginning with `what`."""
    path = folder / "mir_check.mir"
    path.write_text(text, encoding="utf-8")
    args = [*target_arguments(target, level), "-run-pass=machineverifier", str(path), "-o", "-"]
    tools.run_tool(tools.find_tool("llc"), args, cwd=folder, error=CodegenPassError, hint=f": {what}")


def _run(llc: tools.Tool, args: list[str], folder: Path) -> None:
    tools.run_tool(llc, args, cwd=folder, error=CodegenPassError)
