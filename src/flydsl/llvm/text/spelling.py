"""LLVM's spelling of types, literals, names and flags.

Code of the host is written by a `Spelling` of its own (`HOST`), in which a bf16 is an integer of its bits.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection
from math import prod
from typing import Any, cast

from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute

from ...dialects.upstream import gpu, llvm
from ...errors import DSLCompileError
from ...ir.builder import elem_of
from ...ir.fold import signed
from ...ir.identity import by_identity

_FLOATS: dict[type[Attribute], str] = {
    Float16Type: "half",
    BFloat16Type: "bfloat",
    Float32Type: "float",
    Float64Type: "double",
}
_BF16 = re.compile(r"(?<=\.)(v\d+)?bf16(?=\.|$)")
_MANGLED = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}


class Spelling:
    """How types and numbers are written; floats of some classes as integers of their bits, like all below 16 bits."""

    def __init__(self, integers: Collection[type[Attribute]] = ()):
        self._floats = {cls: text for cls, text in _FLOATS.items() if cls not in integers}
        self.type_text = by_identity(self._spell)
        """LLVM spelling of a type."""

    def _spell(self, type_: Attribute) -> str:
        if isinstance(type_, IntegerType):
            return f"i{type_.width.data}"  # pyright: ignore[reportUnknownMemberType]
        if isinstance(type_, IndexType):
            return "i64"
        found = self._floats.get(type(type_))
        if found is not None:
            return found
        if isinstance(type_, VectorType):
            return f"<{prod(type_.get_shape())} x {self.type_text(cast(VectorType, type_).element_type)}>"
        if isinstance(type_, llvm.LLVMPointerType):
            space = llvm.address_space(type_)
            return f"ptr addrspace({space})" if space else "ptr"
        if isinstance(type_, llvm.StructType):
            inner = ", ".join(self.type_text(t) for t in type_.fields)
            return f"<{{ {inner} }}>" if type_.packed else f"{{ {inner} }}"
        if isinstance(type_, llvm.LLVMArrayType):
            return f"[{type_.size.data} x {self.type_text(type_.type)}]"
        if isinstance(type_, gpu.AsyncTokenType):
            return "ptr"
        bits = getattr(type_, "bitwidth", None)
        if bits is not None:
            return f"i{bits}"
        own = getattr(type_, "llvm_text", None)
        if own is not None:
            return own
        raise DSLCompileError(f"type {type_} has no LLVM counterpart")

    def mangle(self, type_: Attribute) -> str:
        """Suffix of an overloaded intrinsic."""
        if isinstance(type_, VectorType):
            return f"v{prod(type_.get_shape())}{self.mangle(cast(VectorType, type_).element_type)}"
        if isinstance(type_, llvm.LLVMPointerType):
            return f"p{llvm.address_space(type_)}"
        text = self.type_text(type_)
        return _MANGLED.get(text, text)

    def intrinsic(self, name: str) -> str:
        """The full name of an overloaded intrinsic, on the types as they are written."""
        return name if BFloat16Type in self._floats else _BF16.sub(r"\1i16", name)

    def literal(self, value: Any, type_: Attribute) -> str:
        """Text of a scalar constant."""
        if isinstance(type_, IntegerType):
            if type_.width.data == 1:  # pyright: ignore[reportUnknownMemberType]
                return "true" if value else "false"
            return str(int(value))
        if isinstance(type_, IndexType):
            return str(int(value))
        if isinstance(type_, BFloat16Type) and BFloat16Type not in self._floats:
            return str(signed(_bf16_bits(float(value)), 16))
        return float_text(float(value), type_)

    def splat(self, value: Any, type_: Attribute) -> str:
        """Text of a number, or of a vector of nothing but it."""
        elem = elem_of(type_)
        text = self.literal(value, elem)
        return text if elem is type_ else f"splat ({self.type_text(elem)} {text})"

    def constant(self, attr: Attribute, type_: Attribute) -> str:
        """Text of a constant by its attribute."""
        if isinstance(attr, IntegerAttr | FloatAttr):
            return self.literal(cast(Any, attr).value.data, type_)
        if isinstance(attr, DenseIntOrFPElementsAttr):
            elem = elem_of(type_)
            word = self.type_text(elem)
            values: list[Any] = list(cast(Any, attr).get_values())
            if len(set(map(repr, values))) == 1:
                return f"splat ({word} {self.literal(values[0], elem)})"
            return f"<{', '.join(f'{word} {self.literal(v, elem)}' for v in values)}>"
        raise DSLCompileError(f"no translation of constant {attr}")


def bool_text(type_: Attribute) -> str:
    """The type of a comparison."""
    return f"<{prod(type_.get_shape())} x i1>" if isinstance(type_, VectorType) else "i1"


# --- literals -----------------------------------------------------------------------------------------------------


def float_text(value: float, type_: Attribute) -> str:
    """A float literal by its bits."""
    if isinstance(type_, Float64Type):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if isinstance(type_, Float16Type):
        return f"0xH{struct.unpack('<H', _packed('<e', value))[0]:04X}"
    if isinstance(type_, BFloat16Type):
        return f"0xR{_bf16_bits(value):04X}"
    bits = struct.unpack("<I", _packed("<f", value))[0]
    if isinstance(type_, Float32Type):
        rounded = struct.unpack("<f", struct.pack("<I", bits))[0]
        return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    raise DSLCompileError(f"no literals of type {type_}")


def _bf16_bits(value: float) -> int:
    if value != value:
        return 0x7FC0
    bits = struct.unpack("<I", _packed("<f", value))[0]
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF


def _packed(form: str, value: float) -> bytes:
    try:
        return struct.pack(form, value)
    except OverflowError:
        return struct.pack(form, float("inf") if value > 0 else float("-inf"))


LLVM = Spelling()
"""As LLVM has it."""
HOST = Spelling((BFloat16Type,))
"""For code of the host, where bf16 are integers (`host_text.py`)."""
type_text = LLVM.type_text
mangle = LLVM.mangle
literal = LLVM.literal
splat = LLVM.splat


# --- names and words ----------------------------------------------------------------------------------------------


def symbol(name: str) -> str:
    """A global name, in quotes where it needs them."""
    return name if name.replace("_", "a").replace(".", "a").replace("$", "a").isalnum() else f'"{name}"'


def quoted(data: bytes) -> str:
    """Bytes between quotes: what is not plain is written by its number."""
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data) + '"'


_OVERFLOW = {0: "", 1: "nsw ", 2: "nuw ", 3: "nuw nsw "}


@by_identity
def flag_words(attr: Attribute) -> str:
    """Fast-math or overflow flags of `arith` or `llvm` as LLVM writes them, with a trailing space."""
    return _flag_words(attr)


def _flag_words(attr: Any) -> str:
    if isinstance(attr, IntegerAttr):
        return _OVERFLOW[cast(Any, attr).value.data]
    words = sorted(str(getattr(f, "value", f)) for f in attr.data)
    if not words or words == ["none"]:
        return ""
    if set(words) <= {"nsw", "nuw"}:
        return _OVERFLOW[("nsw" in words) + 2 * ("nuw" in words)]
    return "fast " if len(words) >= 7 or "fast" in words else " ".join(words) + " "
