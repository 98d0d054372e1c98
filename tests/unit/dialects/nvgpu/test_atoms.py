"""Text, layouts and refusals of NVIDIA's atom types, and the descriptors read off shared-memory layouts."""

from __future__ import annotations

import io
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError

from flydsl import layout as L
from flydsl.dialects.fly_nvgpu.mma_sync import MmaData, MmaSyncType, feature_of, problem
from flydsl.dialects.fly_nvgpu.wgmma import WgmmaType, descriptor_fields
from flydsl.errors import LayoutError
from flydsl.ir.registry import make_context
from flydsl.layout import Layout
from flydsl.target import since

TYPES = [
    "!fly_nvgpu.sm80.mma<16x8x16, (f16, f16) -> f32>",
    "!fly_nvgpu.sm80.mma<16x8x8, (tf32, tf32) -> f32>",
    "!fly_nvgpu.sm80.mma<16x8x32, (ui8, i8) -> i32>",
    "!fly_nvgpu.sm80.mma<16x8x32, (f8E4M3FN, f8E5M2) -> f32>",
    "!fly_nvgpu.sm90.wgmma<64x256x16, (bf16, bf16) -> f32, a = smem, majorA = k, majorB = mn>",
    "!fly_nvgpu.sm80.cp_async<128, cache = cg>",
    "!fly_nvgpu.sm80.cp_async_zero_fill<64, cache = ca>",
    "!fly_nvgpu.load_global<128, read_only, cache = cg, l2_prefetch = 256, evict = first>",
    "!fly_nvgpu.load_global<8, l1 = no_allocate>",
    "!fly_nvgpu.store_global<64, cache = wt, evict = last>",
    "!fly_nvgpu.sm75.ldmatrix<4, trans = false>",
    "!fly_nvgpu.sm90.stmatrix<2, trans = true>",
    "!fly_nvgpu.tensor_map",
]


def parse(text: str):
    return Parser(make_context(), text).parse_type()


@pytest.mark.parametrize("text", TYPES)
def test_text_round_trip(text: str):
    out = io.StringIO()
    type_ = parse(text)
    Printer(out).print_attribute(type_)
    assert out.getvalue() == text and parse(out.getvalue()) == type_


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("!fly_nvgpu.sm80.mma<16x8x4, (f16, f16) -> f32>", "k = 8 or 16"),
        ("!fly_nvgpu.sm80.mma<16x16x16, (f16, f16) -> f32>", "16x8"),
        ("!fly_nvgpu.sm80.mma<16x8x16, (f16, bf16) -> f32>", "mix"),
        ("!fly_nvgpu.sm80.mma<16x8x16, (bf16, bf16) -> f16>", "accumulates"),
        ("!fly_nvgpu.sm90.wgmma<64x12x16, (f16, f16) -> f32, a = smem, majorA = k, majorB = k>", "steps of 8"),
        ("!fly_nvgpu.sm90.wgmma<64x40x32, (i8, i8) -> i32, a = smem, majorA = k, majorB = k>", "steps of 16"),
        ("!fly_nvgpu.sm90.wgmma<64x64x8, (tf32, tf32) -> f32, a = smem, majorA = mn, majorB = k>", "contiguous k"),
        ("!fly_nvgpu.sm80.cp_async<64, cache = cg>", "128 bits"),
        ("!fly_nvgpu.sm80.cp_async_zero_fill<64, cache = cg>", "128 bits"),
        ("!fly_nvgpu.load_global<128, cache = cg, l1 = evict_last>", "not both"),
        ("!fly_nvgpu.load_global<128, l2 = 64>", "expected one of cache, l1, l2_prefetch, evict, got 'l2'"),
        ("!fly_nvgpu.store_global<128, read_only>", "expected one of cache, l1, evict, got 'read_only'"),
        ("!fly_nvgpu.sm75.ldmatrix<3, trans = false>", "1, 2 or 4"),
    ],
)
def test_bad_types(text: str, message: str):
    with pytest.raises(ParseError, match=message):
        parse(text)


def positions(layout: Layout, threads: int) -> list[list[int]]:
    values = L.size(layout[1])
    return [[L.crd2idx((t, v), layout) for v in range(values)] for t in range(threads)]


@pytest.mark.parametrize(
    ("text", "per_register"),
    [
        ("16x8x16, (f16, f16) -> f32", 2),
        ("16x8x8, (bf16, bf16) -> f32", 2),
        ("16x8x8, (tf32, tf32) -> f32", 1),
        ("16x8x4, (tf32, tf32) -> f32", 1),
        ("16x8x32, (i8, i8) -> i32", 4),
        ("16x8x16, (i8, i8) -> i32", 4),
    ],
)
def test_mma_layouts_follow_the_manual(text: str, per_register: int):
    """A register r: row g + 8 (r % 2), k = p q + i + (K/2)(r / 2); B likewise with column g; C: row g + 8 (v / 2).

    g is lane / 4, q is lane % 4, p the elements of a register.
    """
    op = parse(f"!fly_nvgpu.sm80.mma<{text}>")
    assert isinstance(op, MmaSyncType)
    m, n, k = op.shape_mnk
    p = per_register
    for lane, (a, b, c) in enumerate(zip(*(positions(op.tv_layout(i), 32) for i in range(3)), strict=True)):
        g, q = lane // 4, lane % 4
        for v, at in enumerate(a):
            r, i = divmod(v, p)
            row, col = g + 8 * (r % 2), p * q + i + (k // 2) * (r // 2)
            assert at == row + m * col
        for v, at in enumerate(b):
            r, i = divmod(v, p)
            assert at == g + n * (p * q + i + (k // 2) * r)
        assert c == [g + 8 * (v // 2) + m * (2 * q + v % 2) for v in range(4)]


@pytest.mark.parametrize("n", [8, 64, 256])
def test_wgmma_layouts_follow_the_manual(n: int):
    op = parse(f"!fly_nvgpu.sm90.wgmma<64x{n}x16, (bf16, bf16) -> f32, a = registers, majorA = k, majorB = k>")
    assert isinstance(op, WgmmaType)
    for t, values in enumerate(positions(op.tv_layout(2), 128)):
        row = 16 * (t // 32) + (t % 32) // 4
        assert values == [row + 8 * (v // 2 % 2) + 64 * (2 * (t % 4) + v % 2 + 8 * (v // 4)) for v in range(n // 2)]
    for t, values in enumerate(positions(op.tv_layout(0), 128)):
        row = 16 * (t // 32) + (t % 32) // 4
        assert values == [row + 8 * (v // 2 % 2) + 64 * (2 * (t % 4) + v % 2 + 8 * (v // 4)) for v in range(8)]
    assert L.size(op.tv_layout(1)) == 128 * n * 16


@pytest.mark.parametrize(
    ("layout", "width", "major", "expected"),
    [
        (Layout((64, 16), (64, 1)), 128, "k", (16, 1024)),
        (Layout((64, 16), (32, 1)), 64, "k", (16, 512)),
        (Layout((64, 16), (16, 1)), 32, "k", (16, 256)),
        (Layout(((8, 8), (8, 2)), ((8, 512), (1, 64))), 0, "k", (128, 1024)),
        (Layout((64, 16), (1, 64)), 128, "mn", (0, 1024)),
        (Layout(((64, 4), 16), ((1, 4096), 64)), 128, "mn", (8192, 1024)),
        (Layout(((8, 8), (8, 2)), ((1, 64), (8, 512))), 0, "mn", (1024, 128)),
    ],
)
def test_descriptors(layout: Layout, width: int, major: str, expected: tuple[int, int]):
    assert descriptor_fields(layout, 16, width, major) == expected


def test_descriptors_refuse_other_layouts():
    with pytest.raises(LayoutError, match=r"element \(1, 0\)"):
        descriptor_fields(Layout((64, 16), (72, 1)), 16, 128, "k")
    with pytest.raises(LayoutError, match="no swizzle"):
        descriptor_fields(Layout((64, 16), (16, 1)), 16, 0, "k")


def read_at(r: int, k: int, width: int, major: str, lbo: int, sbo: int) -> int:
    """Where the hardware reads an element of 16 bits: in groups of 8 rows, each 16 bytes or a row of the swizzle."""
    if major == "k" and width:
        return r // 8 * sbo + r % 8 * width + 2 * k
    if major == "k":
        return r // 8 * sbo + r % 8 * 16 + k // 8 * lbo + k % 8 * 2
    if width:
        return 2 * r // width * lbo + 2 * r % width + k // 8 * sbo + k % 8 * width
    return r // 8 * sbo + r % 8 * 2 + k // 8 * lbo + k % 8 * 16


@given(st.integers(0, 1 << 32))
def test_descriptors_tell_where_each_element_is(seed: int):
    """Layouts that are accepted, or changed in one stride: what is returned is right, what is refused is wrong."""
    rng = random.Random(seed)
    major, width = rng.choice("k mn".split()), rng.choice([0, 32, 64, 128])
    group, step = rng.choice([64, 256, 512, 1024, 4096]), rng.choice([64, 128, 512, 1024])
    if major == "k" and width:
        strides = [width // 2, group, 1, 8]
        shape = ((8, 8), (8, 2))
    elif major == "k":
        shape, strides = ((8, 8), (8, 2)), [8, group, 1, step]
    elif width:
        shape, strides = ((width // 2, 4), (8, 2)), [1, group, width // 2, step]
    else:
        shape, strides = ((8, 8), (8, 2)), [1, group, 8, step]
    if rng.random() < 0.5:
        strides[rng.randrange(4)] += rng.choice([1, 8, 64])
    a, b, c, d = strides
    layout = Layout(shape, ((a, b), (c, d)))
    places = {(r, k): 2 * L.crd2idx((r, k), layout) for r in range(L.size(layout[0])) for k in range(16)}
    try:
        lbo, sbo = descriptor_fields(layout, 16, width, major)
    except LayoutError as error:
        found = re.search(r"element \((\d+), (\d+)\) must be (\d+) bytes from the start, not (\d+)", str(error))
        assert found
        r, k, wanted, found_at = map(int, found.groups())
        assert places[r, k] == found_at != wanted
    else:
        assert all(read_at(r, k, width, major, lbo, sbo) == place for (r, k), place in places.items())


def test_oldest_architectures():
    def data(text: str) -> MmaData:
        return parse(f"!fly_nvgpu.sm80.mma<{text}>").data

    assert since(feature_of(data("16x8x16, (f16, f16) -> f32"))) == "sm_80"
    assert since(feature_of(data("16x8x32, (f8E4M3FN, f8E4M3FN) -> f32"))) == "sm_89"
    assert since(feature_of(data("16x8x8, (f64, f64) -> f64"))) == "sm_90"
    assert problem(data("8x8x4, (f64, f64) -> f64")) is None
