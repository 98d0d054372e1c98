"""Types of `fly_rocdl`: text both ways, verifiers, layouts, where they exist."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import bf16, f16, f32, i8, i32
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from flydsl import layout as L
from flydsl.dialects.fly_rocdl import cdna3, lds, scaled, tdm, wmma
from flydsl.ir.registry import make_context

TEXTS = """
!fly_rocdl.cdna3.mfma<16x16x4, (f32, f32) -> f32>
!fly_rocdl.cdna4.mfma_scale<16x16x128, (f8E4M3FN, f4E2M1FN) -> f32, opselA = 0, opselB = 3>
!fly_rocdl.gfx11.wmma<16x16x16, (f16, f16) -> f32, signA = false, signB = false, clamp = false>
!fly_rocdl.gfx120x.wmma<16x16x32, (i4, i4) -> i32, signA = true, signB = false, clamp = true>
!fly_rocdl.gfx1250.wmma<16x16x64, (f8E4M3FN, f8E5M2) -> f16, signA = false, signB = false, clamp = false>
!fly_rocdl.cdna3.buffer_copy<128>
!fly_rocdl.cdna3.buffer_copy<32, cache = 2>
!fly_rocdl.cdna3.buffer_copy_lds<128>
!fly_rocdl.cdna3.buffer_atomic<add, f32>
!fly_rocdl.cdna3.buffer_atomic<add, vector<2xf16>>
!fly_rocdl.cdna4.lds_read_trans<trans = 16b, 64>
!fly_rocdl.cdna4.buffer_load_async_lds<96>
!fly_rocdl.cdna4.global_load_async_lds<128>
!fly_rocdl.gfx1250.tdm<rank = 2, warps = 4, pad = 64, 4, cache = 0, barrier = false, timeout = true>
!fly.ptr<f32, #fly_rocdl.buffer_desc>
!fly.memref<f32, #fly_rocdl.buffer_desc, (4,8):(8,1), align<16>>
!fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x4, (f32, f32) -> f32>>
!fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<128>, 32>
""".strip().splitlines()


@pytest.mark.parametrize("text", TEXTS)
def test_text_round_trip(text: str):
    assert str(Parser(make_context(), text).parse_type()) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("!fly_rocdl.cdna3.mfma<16x32x4, (f32, f32) -> f32>", "MFMA requires M == N"),
        ("!fly_rocdl.cdna3.mfma<16x16x32, (i8, i8) -> f32>", "integer MFMA requires"),
        ("!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f16>", "elemTyAcc must be f32"),
        ("!fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f16>>", "failed to parse Fly_MmaAtom parameter"),
        ("!fly_rocdl.cdna3.buffer_copy_lds<64>", "unsupported bitSize = 64 for BufferCopyLDS; expected 32 or 128"),
        ("!fly_rocdl.cdna4.buffer_load_async_lds<64>", "for BufferLoadAsyncLDS; expected 32, 96 or 128"),
        ("!fly_rocdl.cdna4.lds_read_trans<trans = 16b, 96>", "unsupported .bitSize, transGranularity. = .96, 16."),
        (
            "!fly_rocdl.cdna4.mfma_scale<16x16x64, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 0, opselB = 0>",
            "unsupported MNK for CDNA4 MFMA_Scale",
        ),
        (
            "!fly_rocdl.gfx11.wmma<16x16x16, (f16, f16) -> f32, signA = true, signB = false, clamp = false>",
            "GFX11 WMMA fp16/bf16 path does not accept signA/signB/clamp",
        ),
        (
            "!fly_rocdl.gfx1250.wmma<16x16x16, (f16, f16) -> f32, signA = false, signB = false, clamp = false>",
            "unsupported GFX1250 WMMA configuration",
        ),
        (
            "!fly_rocdl.gfx1250.tdm<rank = 2, warps = 3, pad = 0, 0, cache = 0, barrier = false, timeout = false>",
            "numWarps must be a positive power of two, got 3",
        ),
        (
            "!fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 3, 1, cache = 0, barrier = false, timeout = false>",
            "padInterval must be a power of two",
        ),
    ],
)
def test_verifiers(text: str, says: str):
    with pytest.raises(ParseError, match=says):
        Parser(make_context(), text).parse_type()


@pytest.mark.parametrize(
    ("type_", "a", "c"),
    [
        (cdna3.MfmaType.make(16, 16, 4, f32, f32, f32), "((16,4),1):((1,16),16)", "((16,4),(4,1)):((16,4),(1,16))"),
        (cdna3.MfmaType.make(32, 32, 8, f16, f16, f32), "((32,2),4):((1,128),32)", "((32,2),(4,4)):((32,4),(1,8))"),
        (cdna3.MfmaType.make(16, 16, 32, i8, i8, i32), "((16,4),8):((1,128),16)", "((16,4),(4,1)):((16,4),(1,16))"),
        (wmma.Gfx11WmmaType.make(16, 16, 16, f16, f16, f32), "((16,2),16):((1,0),16)", "((16,2),8):((16,1),2)"),
        (wmma.Gfx120xWmmaType.make(16, 16, 16, bf16, bf16, f32), "((16,2),8):((1,128),16)", "((16,2),8):((16,8),1)"),
        (wmma.Gfx1250WmmaType.make(16, 16, 4, f32, f32, f32), "((16,2),2):((1,32),16)", "((16,2),8):((16,8),1)"),
        (
            wmma.Gfx1250WmmaType.make(16, 16, 32, f16, f16, f16),
            "((16,2),(8,2)):((1,128),(16,256))",
            "((16,2),(4,2)):((16,8),(2,1))",
        ),
        (
            scaled.MfmaScaleType.make(16, 16, 128, *[next(iter(scaled.FORMATS))] * 2, f32),
            "((16,4),(16,2)):((1,256),(16,1024))",
            "((16,4),(4,1)):((16,4),(1,16))",
        ),
    ],
)
def test_thread_value_layouts(type_, a: str, c: str):
    assert str(type_.tv_layout(0)) == a and str(type_.tv_layout(1)) == a and str(type_.tv_layout(2)) == c


def every_mma():
    for (kind, m, k), form in cdna3.FORMS.items():
        if kind in ("f32", "f16", "bf16"):
            t = {"f32": f32, "f16": f16, "bf16": bf16}[kind]
            yield cdna3.MfmaType.make(m, m, k, t, t, f32), form
    for cls, k in ((wmma.Gfx120xWmmaType, 16), (wmma.Gfx1250WmmaType, 32)):
        yield cls.make(16, 16, k, f16, f16, f32), None
    for t in scaled.FORMATS:
        for m, k in ((16, 128), (32, 64)):
            yield scaled.MfmaScaleType.make(m, m, k, t, t, f32), None
        yield scaled.WmmaScaleType.make(16, 16, 128, t, t, f32), None
    fp4 = list(scaled.FORMATS)[-1]
    yield scaled.WmmaScaleType.make(32, 16, 128, fp4, fp4, f32), None


@pytest.mark.parametrize("type_", [t for t, _ in every_mma()], ids=str)
def test_layouts_cover_the_tile(type_):
    """Every element of A, B and C is held exactly once."""
    m, n, k = type_.shape_mnk
    for operand, size in ((0, m * k), (1, n * k), (2, m * n)):
        layout = type_.tv_layout(operand)
        assert L.size(layout) == size
        assert sorted(L.crd2idx(i, layout) for i in range(size)) == list(range(size))


@pytest.mark.parametrize("form", [(4, 64), (8, 64), (6, 96), (16, 64)])
def test_transposing_reads_are_permutations(form):
    op = lds.LdsReadTransType.make(*form)
    size = 16 * form[1]
    for layout in (op.src_bits, op.dst_bits):
        assert sorted(L.crd2idx(i, layout) for i in range(size)) == list(range(size))
    assert str(op.dst_bits) == f"(16,({form[0]},{form[1] // form[0]})):({form[0]},(1,{16 * form[0]}))"


def test_waves_of_the_tensor_data_mover():
    assert tdm.TdmType.make(2, 4).waves((32, 64)) == [4, 1]
    assert tdm.TdmType.make(2, 8).waves((2, 64)) == [2, 4]
    assert tdm.TdmType.make(3, 4).waves((2, 1, 64)) == [2, 1, 2]


@pytest.mark.parametrize("arch", ["gfx906", "gfx1030", "gfx1100", "gfx1201", "gfx1250"])
def test_no_mfma(arch: str):
    with pytest.raises(ValueError, match=f"does not exist on {arch}; it exists on gfx90a, gfx942, gfx950"):
        cdna3.MfmaType.make(16, 16, 16, f16, f16, f32).check_arch(arch)


def test_several_products_per_instruction_have_no_layout():
    op = cdna3.MfmaType.make(4, 4, 1, f32, f32, f32)
    with pytest.raises(ValueError, match="several independent products"):
        op.tv_layout(0)
    with pytest.raises(ValueError, match="gfx942 has: MFMA 32x32x2"):
        op.check_arch("gfx942")
