"""Text, layouts and refusals of NVIDIA's atom types, and the descriptors read off shared-memory layouts."""

from __future__ import annotations

import io

import pytest
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


def test_oldest_architectures():
    def data(text: str) -> MmaData:
        return parse(f"!fly_nvgpu.sm80.mma<{text}>").data

    assert since(feature_of(data("16x8x16, (f16, f16) -> f32"))) == "sm_80"
    assert since(feature_of(data("16x8x32, (f8E4M3FN, f8E4M3FN) -> f32"))) == "sm_89"
    assert since(feature_of(data("16x8x8, (f64, f64) -> f64"))) == "sm_90"
    assert problem(data("8x8x4, (f64, f64) -> f64")) is None
