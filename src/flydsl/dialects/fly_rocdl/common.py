"""What the AMD atoms share: architectures they exist on, text of their fields, operands as the intrinsics take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import AttrParser

from ... import layout as L
from ...errors import DSLCompileError, DSLValueError
from ...ir.types import bit_width, vector_type
from ...target import families, has
from ..fly.atom_lowering import AtomLowering, Operand

_Checked = TypeVar("_Checked")


class ArchAtom:
    """Mixed into atom operations that only some architectures have."""

    def feature(self) -> str | None:
        """The feature of architectures that have the atom; None where LLVM 22 cannot compile it for any."""
        raise NotImplementedError

    def alternatives(self, arch: str) -> Iterable[str]:
        """What a user of that architecture can write instead; used in the error."""
        return ()

    def exists_on(self, arch: str) -> bool:
        """Whether an architecture has the instruction."""
        feature = self.feature()
        return feature is not None and has(arch, feature)

    def check_arch(self, arch: str) -> None:
        """Refuse an architecture without the instruction: LLVM would abort the process."""
        if self.exists_on(arch):
            return
        feature = self.feature()
        have = ", ".join(families(feature)) if feature else "no architecture that LLVM 22 can compile for"
        text = f"{self} does not exist on {arch}; it exists on {have}."
        instead = list(self.alternatives(arch))
        if instead:
            text += f" {arch} has: {', '.join(instead)}"
        raise DSLValueError(text)


_checked: set[tuple[ArchAtom, str]] = set()
"""Atoms and architectures that go together: a kernel asks for each of its calls."""


def check_lowering(op: ArchAtom, low: AtomLowering) -> None:
    """Refuse an atom that the GPU being compiled for lacks."""
    if not low.has("amd"):
        raise DSLCompileError(f"{op} is an AMD instruction; {low.arch or 'a GPU of another make'} has none")
    check_emulated(op, low)


def check_emulated(op: ArchAtom, low: AtomLowering) -> None:
    """Refuse an atom that the AMD architecture lacks; the cpu stack that emulates none of those has them all."""
    arch = low.arch
    if arch is not None and (op, arch) not in _checked and has(arch, "amd"):
        op.check_arch(arch)
        _checked.add((op, arch))


# --- text ---------------------------------------------------------------------------------------------------------


def parse_fields(parser: AttrParser, names: Sequence[str]) -> list[bool | int]:
    """`, signA = false, opselB = 2`: the named fields in this order, booleans and integers."""
    found: list[bool | int] = []
    for name in names:
        parser.parse_punctuation(",")
        parser.parse_keyword(name)
        parser.parse_punctuation("=")
        if parser.parse_optional_keyword("true") is not None:
            found.append(True)
        elif parser.parse_optional_keyword("false") is not None:
            found.append(False)
        else:
            found.append(parser.parse_integer())
    return found


def fields_text(**fields: bool | int) -> str:
    """`, signA = false, opselB = 2`."""
    return "".join(f", {k} = {str(v).lower() if isinstance(v, bool) else v}" for k, v in fields.items())


def refuse(parser: AttrParser, check: Callable[[], _Checked]) -> _Checked:
    """Run `check` on parsed parameters; what it refuses is a parse error."""
    try:
        return check()
    except DSLValueError as error:
        parser.raise_error(str(error))


def mnk_text(mnk: Sequence[int]) -> str:
    """`16x16x4`."""
    return "x".join(map(str, mnk))


def is_signless(type_: Attribute, width: int) -> bool:
    """An integer of this width, whatever its signedness."""
    return isinstance(type_, IntegerType) and bit_width(cast(Attribute, type_)) == width


# --- operands of intrinsics ---------------------------------------------------------------------------------------


def _contiguous(at: Operand, count: int) -> bool:
    layout: Any = at.data.layout
    if layout is None or (layout.stride == 1 and layout.shape == count):
        return True
    flat: Any = L.coalesce(layout)
    if type(flat) is not L.Layout:
        return False
    return flat.shape == 1 or (flat.shape == count and flat.stride == 1)


def load_fragment(low: AtomLowering, at: Operand, elem: Attribute, count: int) -> SSAValue:
    """The `count` values of a fragment as one vector, a scalar when it is one."""
    if not _contiguous(at, count):
        raise DSLCompileError(
            f"an MMA operand needs {count} values next to each other in registers, got the layout {at.data.layout}"
        )
    return low.load(at, elem if count == 1 else vector_type(elem, count))


def bitcast(low: AtomLowering, value: SSAValue, type_: Attribute) -> SSAValue:
    """The same bits as another type."""
    if value.type is type_ or value.type == type_:
        return value
    return low.b.pure(xllvm.BitcastOp, (value,), type_, {})


def bits_of(low: AtomLowering, value: SSAValue) -> SSAValue:
    """The value as one integer of its width."""
    return bitcast(low, value, IntegerType(bit_width(value.type)))


def mangled(type_: Attribute) -> str:
    """Suffix of an overloaded intrinsic."""
    if isinstance(type_, VectorType):
        vector = cast(VectorType, type_)
        return f"v{vector.get_shape()[0]}{mangled(vector.element_type)}"
    if isinstance(type_, IntegerType):
        return f"i{bit_width(cast(Attribute, type_))}"
    return {"f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64"}[str(type_)]
