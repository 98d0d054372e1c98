"""Instructions of a code object: what llvm-objdump prints, as mnemonic, operands and modifiers."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from flydsl.llvm import tools

from .errors import IsaError

_LINE = re.compile(r"^\t(?P<text>\S.*?)\s*// (?P<address>[0-9A-F]{12,16}):(?P<words>(?: [0-9A-F]{8})+)")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction as it is printed."""

    address: int
    size: int
    mnemonic: str
    """Without the suffix of its encoding."""
    encoding: str
    """`e32`, `e64`, `dpp`, `e64_dpp`, `sdwa` ... or nothing."""
    operands: tuple[str, ...]
    modifiers: dict[str, str] = field(default_factory=dict)
    """`offset:16` is `offset` -> `16`, a word alone stands for itself."""
    text: str = ""

    def number(self, name: str, default: int = 0) -> int:
        """A modifier that is a number."""
        return int(self.modifiers.get(name, str(default)), 0)

    def bits(self, name: str, count: int, default: int) -> list[int]:
        """A modifier that is a list of bits, such as `op_sel:[0,1]`."""
        text = self.modifiers.get(name)
        return [default] * count if text is None else [int(word) for word in text.strip("[]").split(",")]


_ENCODINGS = ("_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa")
_BARE = frozenset(
    "off offen idxen glc slc dlc sc0 sc1 nt lds gds tfe lwe clamp scale_offset nv done vm compr".split()
    # `off` alone may also be an operand: it is one until the first modifier.
)


def _encoding(word: str) -> tuple[str, str]:
    for suffix in _ENCODINGS:
        if word.endswith(suffix) and word.startswith("v_"):
            return word.removesuffix(suffix), suffix[1:]
    return word, ""


def _split(text: str) -> list[str]:
    """Operands, apart at commas outside of brackets and bars."""
    parts: list[str] = []
    depth, start = 0, 0
    for at, letter in enumerate(text):
        if letter in "[(":
            depth += 1
        elif letter in "])":
            depth -= 1
        elif letter == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


_FAR = re.compile(r"v(?:\d+|\[\d+:\d+\])(?:\.[lh])? /\*(v[^*]*)\*/")
"""A register beyond 255, whose upper bits `s_set_vgpr_msb` has said; behind it is which one it is."""


def parse(text: str, address: int = 0, size: int = 0) -> Instruction:
    """One printed instruction."""
    text = _FAR.sub(r"\1", text)
    word, _, rest = text.partition(" ")
    mnemonic, encoding = _encoding(word)
    operands: list[str] = []
    modifiers: dict[str, str] = {}
    if mnemonic.startswith(("s_waitcnt", "s_delay_alu", "s_wait_alu", "s_sendmsg")):
        return Instruction(address, size, mnemonic, encoding, (rest.strip(),) if rest.strip() else (), {}, text)
    parts = _split(rest)
    for part in parts:
        words = re.findall(r"(?:[^\s\[(]|\[[^\]]*\]|\([^)]*\))+", part)
        for at, found in enumerate(words):
            if ":" in found and re.match(r"^[a-z_0-9]+:", found) and not re.match(r"^[vsa]\[", found):
                name, _, value = found.partition(":")
                modifiers[name] = value
            elif at or (found in _BARE and found != "off"):
                modifiers[found] = "1"
            else:
                operands.append(found)
    return Instruction(address, size, mnemonic, encoding, tuple(operands), modifiers, text)


def disassemble(code_object: bytes) -> dict[int, Instruction]:
    """Address in the file's own terms -> instruction, for everything executable."""
    tool = tools.find_tool("llvm-objdump")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.hsaco")
        path.write_bytes(code_object)
        shown = tools.run_tool(tool, ["-d", str(path)])
    found: dict[int, Instruction] = {}
    for line in shown.stdout.splitlines():
        match = _LINE.match(line)
        if match is None:
            if line.startswith("\t"):
                raise IsaError(f"cannot read the disassembly: {line!r}")
            continue
        address, size = int(match["address"], 16), 4 * len(match["words"].split())
        found[address] = parse(match["text"], address, size)
    return found
