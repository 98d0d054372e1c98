"""A box of a tiled tensor is moved as the same box written by hand for the tensor data mover."""

import re

import pytest
from xdsl.parser import Parser

from flydsl.ir.registry import make_context
from flydsl.passes.pipeline import parse_pipeline

PIPELINE = (
    "fly-rewrite-func-signature,fly-canonicalize,fly-rocdl-expand-ops,fly-layout-lowering,convert-fly-to-rocdl,"
    "canonicalize,cse"
)


def lowered(text):
    module = Parser(make_context(), text).parse_module()
    for p in parse_pipeline(PIPELINE):
        module = p.run(module)
        module.verify()
    return str(module)


def descriptor(text):
    """The constants a kernel ends in: the words of the descriptor that are known, in order."""
    known = dict(re.findall(r"(%\S+) = arith.constant (\S+) : i\d+", text))
    groups = dict(re.findall(r"(%\S+) = vector.from_elements (.*?) : vector", text))
    (name, operands) = re.search(r'call_intrinsic "(\S+)"\((.*?)\)', text).groups()
    words = [word for group in operands.split(", ") for word in groups.get(group, group).split(", ")]
    return name, [int(known[word]) if word in known else "run time" for word in words]


def tiled(kind, tensor, shared, tiler, atom, place, bits=16):
    src, dst = ("%v", "%d") if kind == "load" else ("%d", "%v")
    view = f"!fly.coord_tensor<{place}, (1,1):(1E1,1E0)>"
    types = ", ".join([view, "!s"] if kind == "load" else ["!s", view])
    return f"""
!t = !fly.memref<f{bits}, global, {tensor}>
!l = !fly.layout<{shared}>
!k = !fly.tile<{tiler}>
!y = !fly.layout<(1,1):(1E1,1E0)>
!s = !fly.memref<f{bits}, shared, {shared}>
!a = !fly.copy_atom<!fly_rocdl.cdna5.tensor_{kind}<{atom}>, {bits}>
gpu.module @m {{ gpu.func @k(%t: !t, %l: !l, %k: !k, %d: !s) kernel {{
  %a, %c = fly_rocdl.make_tiled_tdm_{kind}_atom %t, %l, %k : !t, !l, !k
  %at = fly.make_int_tuple() : () -> !fly.int_tuple<{place}>
  %shape = fly.make_int_tuple() : () -> !fly.int_tuple<(1,1)>
  %axes = fly.make_int_tuple() : () -> !fly.int_tuple<(1E1,1E0)>
  %y = fly.make_layout(%shape, %axes) : (!fly.int_tuple<(1,1)>, !fly.int_tuple<(1E1,1E0)>) -> !y
  %v = fly.make_view(%at, %y) : (!fly.int_tuple<{place}>, !y) -> {view}
  fly.copy_atom_call(%a, {src}, {dst}) : (!a, {types}) -> ()
  gpu.return
}} }}"""


def by_hand(kind, box, shared, pad, left, bits=16):
    src, dst = ("%t", "%d") if kind == "load" else ("%d", "%t")
    types = "!t, !s" if kind == "load" else "!s, !t"
    return f"""
!t = !fly.memref<f{bits}, global, {box}>
!s = !fly.memref<f{bits}, shared, {shared}>
!o = !fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = {pad}, cache = 0, barrier = false, timeout = false>
!a = !fly.copy_atom<!o, {bits}>
gpu.module @m {{ gpu.func @k(%t: !t, %d: !s) kernel {{
  %a = fly.make_copy_atom {{valBits = {bits} : i32}} : !a
  %0 = arith.constant {left[0]} : i32
  %b = fly.atom.set_value(%a, "extent_0", %0) : (!a, i32) -> !a
  %1 = arith.constant {left[1]} : i32
  %c = fly.atom.set_value(%b, "extent_1", %1) : (!a, i32) -> !a
  fly.copy_atom_call(%c, {src}, {dst}) : (!a, {types}) -> ()
  gpu.return
}} }}"""


@pytest.mark.parametrize(
    ("kind", "tensor", "shared", "tiler", "atom", "place", "box", "pad", "left"),
    [
        ("load", "(256,128):(128,1)", "(64,32):(40,1)", "[64|32]",
         "shape = [64, 32], elem = f16, tensor2tdm = (1E0,1E1), padInterval = 32, padAmount = 8",
         "(96,200)", "(64,32):(128,1)", "32, 8", (56, 32)),
        ("store", "(256,128):(128,1)", "(64,32):(32,1)", "[64|32]",
         "shape = [64, 32], elem = f16, tensor2tdm = (1E0,1E1)", "(32,192)", "(64,32):(128,1)", "0, 0", (64, 96)),
        # Columns first, in memory as in shared memory: the first coordinate is that of the rows.
        ("load", "(100,60):(1,104)", "(32,16):(1,32)", "[32|16]",
         "shape = [16, 32], elem = f16, tensor2tdm = (1E1,1E0)", "(96,48)", "(16,32):(104,1)", "0, 0", (12, 4)),
    ],
)  # fmt: skip
def test_the_descriptor_is_that_of_the_box(kind, tensor, shared, tiler, atom, place, box, pad, left):
    ours = lowered(tiled(kind, tensor, shared, tiler, atom, place))
    assert descriptor(ours) == descriptor(lowered(by_hand(kind, box, shared, pad, left)))
    # The place: row times pitch plus column, in elements.
    inner, outer = map(int, re.findall(r"\d+", place))
    pitch = int(re.findall(r":\((\d+),1\)", box)[0])
    assert f"getelementptr %t[{inner + outer * pitch}]" in ours


def words(bits: int, count: int) -> list[int]:
    return [bits >> 32 * at & 0xFFFFFFFF for at in range(count)]


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_every_field_of_a_descriptor(rank):
    """Extents, tile and strides of each dimension are where the table of the descriptor's bits has them."""
    tile = (16, 6, 4, 3, 2)[:rank]  # innermost first, as the descriptor counts
    steps = (1, 0x11, 0x2_2222, 0x3_3333_3333, 0x4444_4444_4444)[:rank]
    extents = (0x0001_0203, 0x0004_0506, 0x0007_0809, 0x000A_0B0C, 0x000D_0E0F)[:rank]
    compact = [1]
    for extent in tile[:-1]:
        compact.append(compact[-1] * extent)

    def modes(numbers):
        return ",".join(map(str, reversed(numbers)))

    # Layouts have strides of 32 bits, the descriptor has 48: those come as fields.
    fields = [(f"extent_{rank - 1 - i}", f"{extent} : i32") for i, extent in enumerate(extents)]
    fields += [(f"stride_{rank - 1 - i}", f"{step} : i64") for i, step in enumerate(steps) if i]
    sets = "".join(
        f"  %c{i} = arith.constant {value}\n"
        f'  %a{i + 1} = fly.atom.set_value(%a{i}, "{field}", %c{i}) : (!a, {value.rpartition(" ")[2]}) -> !a\n'
        for i, (field, value) in enumerate(fields)
    )
    shape = f"({modes(tile)})" if rank > 1 else modes(tile)
    packed = f"({modes(compact)})" if rank > 1 else modes(compact)
    name, found = descriptor(
        lowered(f"""
!t = !fly.memref<f16, global, {shape}:{packed}>
!s = !fly.memref<f16, shared, {shape}:{packed}>
!o = !fly_rocdl.gfx1250.tdm<rank = {rank}, warps = 1, pad = 0, 0, cache = 0, barrier = false, timeout = false>
!a = !fly.copy_atom<!o, 16>
gpu.module @m {{ gpu.func @k(%t: !t, %d: !s) kernel {{
  %a0 = fly.make_copy_atom {{valBits = 16 : i32}} : !a
{sets}  fly.copy_atom_call(%a{len(fields)}, %t, %d) : (!a, !t, !s) -> ()
  gpu.return
}} }}""")
    )
    assert name == "llvm.amdgcn.tensor.load.to.lds" + (".d2" if rank < 3 else "")
    t, size, step = ([*x, 0, 0, 0, 0][:5] for x in (extents, tile, (*steps[1:], 0)))
    second = 1 << 16 | t[0] << 48 | t[1] << 80 | size[0] << 112 | size[1] << 128 | size[2] << 144
    second |= step[0] << 160 | step[1] << 208
    third = t[2] | t[3] << 32 | step[2] << 64 | size[3] << 112
    fourth = step[3] | t[4] << 48 | size[4] << 80
    wanted = [*words(second, 8), *words(third, 4), *words(fourth, 4)]
    assert [word & 0xFFFFFFFF for word in found[4:20]][: 8 if rank < 3 else 16] == wanted[: 8 if rank < 3 else 16]


def test_the_flags_of_a_descriptor():
    """The first word of the second group; the mask has 16 bits of what is given."""
    _, found = descriptor(
        lowered("""
!t = !fly.memref<f32, global, (8,64):(64,1)>
!s = !fly.memref<f32, shared, (8,64):(68,1)>
!o = !fly_rocdl.gfx1250.tdm<rank = 2, warps = 1, pad = 64, 4, cache = 0, barrier = true, timeout = true>
!a = !fly.copy_atom<!o, 32>
gpu.module @m { gpu.func @k(%t: !t, %d: !s) kernel {
  %a = fly.make_copy_atom {valBits = 32 : i32} : !a
  %0 = arith.constant 205857 : i32
  %b = fly.atom.set_value(%a, "workgroup_mask", %0) : (!a, i32) -> !a
  fly.copy_atom_call(%b, %t, %d) : (!a, !t, !s) -> ()
  gpu.return
} }""")
    )
    mask, code, barrier, pads, timeout = 205857 & 0xFFFF, 2 << 16, 1 << 18, 1 << 20, 1 << 21
    interval, amount = 5 << 22, 3 << 25  # 2^(5 + 1) words, 3 + 1 words
    assert found[4] == mask | code | barrier | pads | timeout | interval | amount
