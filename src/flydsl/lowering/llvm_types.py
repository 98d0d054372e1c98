"""Types of the upper dialects as types of `llvm`."""

from __future__ import annotations

from math import prod
from typing import cast

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, MemRefType, NoneAttr, VectorType, i64
from xdsl.ir import Attribute

from ..dialects.upstream import gpu, llvm
from ..dialects.upstream.gpu.memory import AddressSpaceAttr

_known: dict[Attribute, Attribute] = {}


_SPACES = {"global": 1, "workgroup": 3, "private": 5, "constant": 4}


def space_of(type_: MemRefType) -> int:
    """LLVM's number of the memory a memref is in."""
    space = type_.memory_space
    if isinstance(space, NoneAttr):
        return 0
    if isinstance(space, AddressSpaceAttr):
        return _SPACES[space.data]
    return cast(IntegerAttr, space).value.data


def llvm_type(type_: Attribute) -> Attribute:
    """The type a value has in `llvm`: `index` is i64, a float of less than 16 bits is an integer of that size, a vector
    of several dimensions is one of all its elements, a memref is a bare pointer, a token is a stream."""
    found = _known.get(type_)
    if found is None:
        found = _known[type_] = _convert(type_)
    return found


def _convert(type_: Attribute) -> Attribute:
    if isinstance(type_, IndexType):
        return i64
    if isinstance(type_, gpu.AsyncTokenType):
        return llvm.ptr()
    if isinstance(type_, VectorType):
        shape = type_.get_shape()
        elem = llvm_type(cast(VectorType, type_).element_type)
        if len(shape) == 1 and elem == cast("VectorType", type_).element_type:
            return cast(Attribute, type_)
        return VectorType(elem, [prod(shape)])
    if isinstance(type_, MemRefType):
        return llvm.ptr(space_of(cast(MemRefType, type_)))
    if isinstance(type_, IntegerType):
        return cast(Attribute, type_)
    bits = getattr(type_, "bitwidth", None)
    if bits is not None and bits < 16:
        return IntegerType(bits)
    return llvm.ptr() if getattr(type_, "llvm_text", None) == "ptr" else type_
