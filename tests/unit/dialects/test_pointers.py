"""What is known of the alignment of a pointer that is moved, sliced or swizzled."""

from __future__ import annotations

from math import gcd
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import f16, f32, i8
from xdsl.parser import Parser

from flydsl.dialects.fly.semantics import add_offset, apply_swizzle, decomposition, object_of, slice_, type_of_object
from flydsl.dialects.fly.types import AddressSpace, ptr_type
from flydsl.errors import LayoutError
from flydsl.ir.registry import make_context
from flydsl.layout import Dyn, Swizzle


def parsed(text: str) -> Any:
    return Parser(make_context(), text).parse_type()


@pytest.mark.parametrize(
    ("pointer", "by", "moved"),
    [
        ("f16, shared, align<32>", 12, "f16, shared, align<8>"),
        ("f16, shared, align<32>", 0, "f16, shared, align<32>"),
        ("f16, shared, align<32>", -12, "f16, shared, align<8>"),
        ("f16, shared, align<32>", 48, "f16, shared, align<32>"),
        ("f16, shared, align<32>", 7, "f16, shared"),
        ("f16, shared, align<32>", Dyn(32, 4), "f16, shared, align<8>"),
        ("f32, global, align<16>", Dyn(64, 1), "f32, global"),
        ("f32, shared, align<64>, S<2,3,4>", 8, "f32, shared, align<32>, S<2,3,4>"),
    ],
)
def test_moved(pointer: str, by: Any, moved: str):
    assert add_offset(parsed(f"!fly.ptr<{pointer}>"), by) == parsed(f"!fly.ptr<{moved}>")


def test_moved_by_one_number():
    pointer = parsed("!fly.ptr<f16, shared, align<32>>")
    assert add_offset(pointer, (12,)) == add_offset(pointer, 12)
    with pytest.raises(LayoutError, match=r"offset must be a scalar .*, got \(1,2\)"):
        add_offset(pointer, (1, 2))


@given(st.sampled_from([i8, f16, f32]), st.integers(0, 8), st.integers(-(2**20), 2**20))
def test_every_address_is_a_multiple_of_the_alignment(elem: Any, power: int, by: int):
    """It is the largest power of two that all addresses share: those of the pointer, moved by so many bytes."""
    width = {i8: 1, f16: 2, f32: 4}[elem]
    align = max(1 << power, width)
    made = add_offset(ptr_type(elem, AddressSpace.Shared, align), by)
    assert made.data.align == gcd(align, by * width)


@pytest.mark.parametrize(
    ("pointer", "swizzle", "made"),
    [
        ("f16, shared, align<256>", Swizzle(2, 3, 4), "f16, shared, align<16>, S<2,3,4>"),
        ("f16, shared, align<8>", Swizzle(2, 3, 4), "f16, shared, align<8>, S<2,3,4>"),
        ("f32, shared, align<256>", Swizzle(3, 2, 3), "f32, shared, align<16>, S<3,2,3>"),
        ("i8, shared, align<256>, S<1,0,1>", Swizzle(3, 4, 3), "i8, shared, align<16>, S<3,4,3>"),
    ],
)
def test_swizzled(pointer: str, swizzle: Swizzle, made: str):
    assert apply_swizzle(parsed(f"!fly.ptr<{pointer}>"), swizzle) == parsed(f"!fly.ptr<{made}>")


def test_slices_start_where_their_first_element_is():
    tensor = object_of(parsed("!fly.memref<f16, global, (6,5):(1,12), align<48>>"))
    some = slice_(tensor, (None, Dyn(32, 1)))
    assert type_of_object(some) == parsed("!fly.memref<f16, global, 6:1, align<24>>")


def test_decomposed_offsets_are_swizzled_with_it():
    """The inner part of 72 is 64: as many elements of two bytes keep the alignment, 72 of them would not."""
    tensor = object_of(parsed("!fly.memref<f16, shared, S<1,3,3> o 72 o (8,8):(8,1), align<64>>"))
    assert type_of_object(decomposition(tensor)) == parsed("!fly.memref<f16, shared, (8,8):(8,1), align<64>>")
