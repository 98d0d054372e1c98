"""Lines of assembly inside a kernel: read, and done one after the other by the tables of `assembly_rules.py`.

Operands are `$0`, `$1` ... (outputs first, then inputs, as the constraints list them), numbers, and on AMD GPUs
operands with a sign or an absolute value, and DPP controls behind them. Whatever else stands in a line is refused with
the instruction's name. A cpu that emulates no GPU runs assembly of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.dialects import math
from xdsl.dialects.builtin import IntegerType, f16, f32, f64
from xdsl.ir import Attribute, SSAValue

from ...dialects.upstream import llvm
from ...errors import DSLCompileError
from ...ir.builder import i32, i64_list
from ...ir.types import bit_width
from ...target import has
from .instructions import Own, refused
from .lane_rules import RULES as LANES
from .rule_tools import NotEmulated, as_integer, bits_of

if TYPE_CHECKING:
    from .assembly_rules import Instruction
    from .instructions import EmulatedInstructions

_OPERAND = re.compile(r"(-?)(\|?)(?:\$(\d+)|\$\{(\d+)(?::\w+)?\})(\|?)")
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)")
_FLOAT = re.compile(r"-?\d+\.\d*(?:[eE][-+]?\d+)?|0[fF][0-9a-fA-F]{8}")
_COMMENT = re.compile(r"//.*|#.*|/\*.*?\*/")


class Line(NamedTuple):
    """An instruction, its operands, and the words behind them."""

    name: str
    operands: list[str]
    words: dict[str, str]


def _split(text: str) -> list[str]:
    """Operands at the commas that are in no brackets."""
    found, depth = [""], 0
    for c in text:
        depth += (c in "[{(") - (c in "]})")
        if c == "," and not depth:
            found.append("")
        else:
            found[-1] += c
    return [part.strip() for part in found if part.strip()]


def read(text: str) -> list[Line]:
    """The lines of a piece of assembly."""
    found: list[Line] = []
    for raw in re.split(r"[\n;]", text):
        line = _COMMENT.sub("", raw).strip().strip("{}").strip()
        if not line:
            continue
        name, _, rest = line.partition(" ")
        operands = _split(rest)
        words: dict[str, str] = {}
        if operands:
            # Behind the last operand stand words such as `row_mask:0xf`.
            first, *more = re.split(r"\s+(?![^\[]*\])", operands[-1])
            operands[-1] = first
            for word in more:
                key, _, value = word.partition(":")
                words[key] = value
        found.append(Line(name, operands, words))
    return found


def _constraints(text: str) -> tuple[list[str], list[str]]:
    """Constraints of outputs, and of inputs."""
    parts = [p.strip() for p in text.split(",") if p.strip() and not p.strip().startswith("~")]
    return [p for p in parts if p.startswith(("=", "+"))], [p for p in parts if not p.startswith(("=", "+"))]


class Run:
    """Values of the operands while lines are done."""

    def __init__(self, r: EmulatedInstructions, text: str, values: dict[int, SSAValue]):
        self.r, self.text, self.values = r, text, values

    def refuse(self, what: str) -> DSLCompileError:
        return refused(what, f"is in {self.text!r}")

    def operand(self, place: str, type_: Attribute) -> SSAValue:
        """An input, as a type of its width."""
        b = self.r.b
        found = _OPERAND.fullmatch(place)
        if found is not None:
            number = int(found[3] or found[4])
            if number not in self.values:
                raise self.refuse(f"the operand {place!r}, which has no value yet,")
            value = self.values[number]
            if isinstance(value.type, llvm.LLVMPointerType):
                value = b.pure(llvm.PtrToIntOp, (value,), type_, {})
            value = bits_of(self.r, self.fitted(value, type_), type_)
            if type_ not in (f32, f16, f64):
                if found[1] or found[2]:
                    raise self.refuse(f"the operand {place!r}")
                return value
            if found[2]:
                value = self.r.expanded(math.AbsFOp, (value,), (type_,), type_)
            return b.negf(value) if found[1] else value
        if _FLOAT.fullmatch(place):
            if place[1] in "fF":
                return bits_of(self.r, b.i32(_signed(int(place[2:], 16))), type_)
            return b.const(float(place), type_) if type_ in (f32, f16, f64) else self._encoded(float(place), type_)
        if _NUMBER.fullmatch(place):
            return self._literal(int(place, 0), type_)
        raise self.refuse(f"the operand {place!r}")

    def _encoded(self, number: float, type_: Attribute) -> SSAValue:
        return bits_of(self.r, self.r.b.const(number, f32), type_)

    def _literal(self, number: int, type_: Attribute) -> SSAValue:
        """Numbers are bits, but small ones are that as floats too: they are of use to integers alone."""
        width = bit_width(type_)
        integer = self.r.b.const(_signed(number, width), IntegerType(width))
        return bits_of(self.r, integer, type_)

    def fitted(self, value: SSAValue, type_: Attribute) -> SSAValue:
        """A narrow value in a register of 32 bits, and the low part of one."""
        have, want = bit_width(value.type), bit_width(type_)
        if have == want:
            return value
        whole = as_integer(self.r, value)
        return self.r.b.cast("extui" if have < want else "trunci", whole, IntegerType(want))

    def value(self, place: str) -> SSAValue:
        """What an operand holds, as it is."""
        found = _OPERAND.fullmatch(place)
        number = -1 if found is None or found[1] or found[2] else int(found[3] or found[4])
        if number not in self.values:
            raise self.refuse(f"the operand {place!r}")
        return self.values[number]

    def define(self, place: str, value: SSAValue) -> None:
        """An operand holds a value from here on."""
        found = _OPERAND.fullmatch(place)
        if found is None or found[1] or found[2]:
            raise self.refuse(f"the operand {place!r}")
        self.values[int(found[3] or found[4])] = value

    def do(self, line: Line) -> None:
        """One instruction."""
        from . import assembly_memory
        from .assembly_rules import find

        rule = find(line.name)
        if rule is None and has(self.r.arch, "amd") and assembly_memory.knows(line.name):
            try:
                assembly_memory.do(self, line)
            except (NotEmulated, ValueError) as error:
                raise self.refuse(f"the assembly {line.name!r} ({error})") from error
            return
        if rule is None:
            raise self.refuse(f"the assembly {line.name!r}")
        if rule.nothing:
            return
        targets = line.operands[: len(rule.results)]
        places = line.operands[len(rule.results) :]
        kinds = list(rule.operands)
        words = dict(line.words)
        dpp = _dpp(words)
        for key in list(words):
            if key in rule.words or key in _HARMLESS:
                continue
            raise self.refuse(f"the assembly {line.name!r} with {key!r}")
        if len(places) != len(kinds):
            raise self.refuse(f"the assembly {line.name!r} of {len(line.operands)} operands")
        values = [self.operand(p, k) for p, k in zip(places, kinds, strict=True)]
        if dpp is not None:
            values[0] = self._moved(values[0], targets, rule, dpp)
        options = {k: int(words[k], 0) if words[k] else 1 for k in rule.words if k in words}
        try:
            made = rule.emit(self.r, values, options)
        except (NotEmulated, ValueError) as error:
            raise self.refuse(f"the assembly {line.name!r} ({error})") from error
        for place, value in zip(targets, made, strict=True):
            self.define(place, value)

    def _moved(self, value: SSAValue, targets: Sequence[str], rule: Instruction, dpp: Sequence[int]) -> SSAValue:
        """The first operand from the lanes that a DPP control names; the others keep what the target holds."""
        if bit_width(value.type) != 32:
            raise self.refuse("DPP of a value that has not 32 bits")
        ctrl, rows, banks, bound = dpp
        word = as_integer(self.r, value)
        found = _OPERAND.fullmatch(targets[0])
        held = None if found is None else self.values.get(int(found[3] or found[4]))
        whole = rows == banks == 15 and (bound == 1 or _always_there(ctrl))
        if not whole and (held is None or not rule.copies):
            raise self.refuse("DPP that leaves lanes as they are, other than in v_mov_b32 of an operand that is set,")
        old = word if held is None else as_integer(self.r, self.fitted(held, i32))
        moved = cast(SSAValue, LANES["update.dpp"](self.r, [old, word, ctrl, rows, banks, bound], i32))
        return bits_of(self.r, moved, value.type)


def _always_there(ctrl: int) -> bool:
    """Whether a DPP control brings every lane a value: permutations, rotations, mirrors and broadcasts in a row."""
    return ctrl < 0x100 or 0x121 <= ctrl <= 0x12F or ctrl in (0x134, 0x13C, 0x140, 0x141) or 0x150 <= ctrl <= 0x16F


def _signed(number: int, width: int = 32) -> int:
    number &= (1 << width) - 1
    return number - (1 << width) if number >> (width - 1) else number


_HARMLESS = {"offen", "sc0", "sc1", "nt", "glc", "slc", "dlc", "off"}
"""Words that choose caches, or repeat what the operands say."""
_ROWS = {"row_shl": 0x100, "row_shr": 0x110, "row_ror": 0x120, "row_share": 0x150, "row_newbcast": 0x150,
         "row_xmask": 0x160}  # fmt: skip
_WAVES = {"wave_shl": 0x130, "wave_rol": 0x134, "wave_shr": 0x138, "wave_ror": 0x13C, "row_mirror": 0x140,
          "row_half_mirror": 0x141}  # fmt: skip


def _dpp(words: dict[str, str]) -> tuple[int, int, int, int] | None:
    """The control of a DPP move and its masks, taken out of the words behind an instruction."""
    ctrl: int | None = None
    if "quad_perm" in words:
        picks = [int(n) for n in words.pop("quad_perm").strip("[]").split(",")]
        ctrl = sum(n << 2 * i for i, n in enumerate(picks))
    for word, base in _ROWS.items():
        if word in words:
            ctrl = base | int(words.pop(word))
    for word, base in _WAVES.items():
        if word in words:
            words.pop(word)
            ctrl = base
    if "row_bcast" in words:
        ctrl = {"15": 0x142, "31": 0x143}[words.pop("row_bcast")]
    if ctrl is None:
        return None
    rows, banks = (int(words.pop(word, "0xf"), 0) for word in ("row_mask", "bank_mask"))
    # Assemblers write 1, older ones 0, for lanes that read 0 where there is nothing.
    bound = int("bound_ctrl" in words)
    words.pop("bound_ctrl", None)
    return ctrl, rows, banks, bound


def assembly_rule(r: EmulatedInstructions, op: llvm.InlineAsmOp) -> Own | None:
    """What a piece of assembly does; None where it is the host's own, or there is none."""
    text = op.asm_string.data
    if not (has(r.arch, "amd") or has(r.arch, "nvidia")) or not text.strip():
        return None
    lines = read(text)
    outputs, inputs = _constraints(op.constraints.data)

    def apply(r: EmulatedInstructions, args: Sequence[SSAValue]) -> Sequence[SSAValue]:
        values: dict[int, SSAValue] = {}
        for i, (kind, value) in enumerate(zip(inputs, args, strict=False)):
            values[len(outputs) + i] = value
            if kind.isdigit():
                values[int(kind)] = value
        run = Run(r, text, values)
        for line in lines:
            run.do(line)
        wanted: list[Attribute] = [x.type for x in op.results]
        if not wanted:
            return []
        struct = wanted[0]
        types = list(struct.data[1]) if isinstance(struct, llvm.StructType) else wanted
        made: list[SSAValue] = []
        for i, type_ in enumerate(types):
            if i not in values:
                raise run.refuse(f"the output ${i}, which no instruction sets,")
            kind = r.convert(type_)
            made.append(bits_of(r, run.fitted(values[i], kind), kind))
        if not isinstance(struct, llvm.StructType):
            return made
        whole = r.b.pure(llvm.UndefOp, (), struct, {})
        for i, part in enumerate(made):
            whole = r.b.pure(llvm.InsertValueOp, (whole, part), struct, {"position": i64_list((i,))})
        return [whole]

    return apply
