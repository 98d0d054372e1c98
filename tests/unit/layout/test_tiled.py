"""Tiled copies and MMAs: the worked examples of language reference 8.11, 10.3 and 10.4."""

import pytest

import flydsl.layout as fl
from flydsl.errors import LayoutError
from flydsl.layout import Dyn, parse_any_layout, parse_layout

P = parse_layout
ONE_F32, FOUR = P("(1,1):(1,1)"), P("(1,4):(1,1)")


@pytest.mark.parametrize(
    "thr, val, tiler, tv",
    [
        ("(4,1):(1,1)", "(1,8):(1,1)", (4, 8), "(4,8):(1,4)"),
        ("(8,16):(16,1)", "(1,4):(4,1)", (8, 64), "((16,8),4):((32,1),8)"),
        ("(32,8):(1,32)", "(4,4):(4,1)", (128, 32), "((32,8),(4,4)):((4,512),(128,1))"),
    ],
)
def test_make_layout_tv(thr, val, tiler, tv):
    found_tiler, found_tv = fl.make_layout_tv(P(thr), P(val))
    assert found_tiler == tiler and str(found_tv) == tv


class TestCopy:
    tile, tv = fl.make_layout_tv(P("(8,16):(16,1)"), P("(1,4):(4,1)"))

    def part(self, layout, thr):
        return fl.copy_partition(layout, self.tv, self.tile, FOUR, FOUR, thr)

    def test_one_tile(self):
        assert str(self.part(P("(8,64):(64,1)"), 0)[1]) == "((4,1),1,1):((1,0),0,0)"

    def test_run_time_matrix(self):
        offset, layout = self.part(P("(?,?):(?{i64},1)"), Dyn.get())
        assert str(layout) == "((4,1),?,?):((1,0),?{i64 div=8},64)"
        assert str(offset) == "?{i64}"

    def test_coordinates(self):
        offset, layout = self.part(fl.make_identity_layout((64, 256)), 5)
        at_tile = fl.crd2idx((0, 1, 2), layout)
        assert fl.int_tuple_add(offset, at_tile) == (8, 148)

    def test_composed_layout_keeps_its_swizzle(self):
        offset, layout = self.part(parse_any_layout("S<3,2,3> o 8 o (8,64):(64,1)"), 5)
        assert offset == 20 and str(layout) == "S<3,2,3> o 8 o ((4,1),1,1):((1,0),0,0)"

    @pytest.mark.parametrize(
        "thr, val, offsets",
        [
            ("(8,16):(16,1)", "(1,4):(4,1)", {5: 20, 127: 508}),
            ("(4,16):(16,1)", "(2,2):(2,1)", {5: 10, 63: 414}),
            ("(32,8):(1,32)", "(1,4):(4,1)", {5: 320, 255: 2012}),
        ],
    )
    def test_offsets(self, thr, val, offsets):
        tile, tv = fl.make_layout_tv(P(thr), P(val))
        for thread, offset in offsets.items():
            assert fl.copy_partition(P("(64,64):(64,1)"), tv, tile, FOUR, FOUR, thread)[0] == offset

    def test_every_element_is_copied_once(self):
        layout = P("(16,128):(128,1)")
        seen = []
        for thread in range(128):
            offset, mine = self.part(layout, thread)
            seen += [offset + mine(i) for i in range(fl.size(mine))]
        assert sorted(seen) == list(range(16 * 128))


class TestMatrixCore:
    """Worked example 1: a 16x16x4 float32 atom of 64 threads, two by two of them."""

    shape, atoms, threads = (16, 16, 4), P("(2,2,1):(1,2,0)"), P("64:1")
    A, C = P("((16,4),1):((1,16),16)"), P("((16,4),(4,1)):((16,4),(1,16))")

    def test_tiling(self):
        assert fl.tile_size_mnk(self.shape, self.atoms) == (32, 32, 4)
        assert str(fl.thr_layout_vmnk(self.threads, self.atoms)) == "(64,2,2,1):(1,64,128,0)"

    def tv(self, operand):
        atom = self.C if operand == "c" else self.A
        return fl.mma_tiled_tv(operand, self.shape, atom, self.atoms, None, self.threads)

    def test_tiled_tv(self):
        assert str(self.tv("a")) == "((16,4,2,2),(1,(1,1))):((1,32,16,0),(0,(0,0)))"
        assert str(self.tv("b")) == "((16,4,2,2),(1,(1,1))):((1,32,0,16),(0,(0,0)))"
        assert str(self.tv("c")) == "((16,8,2),((4,1),(1,1))):((32,4,512),((1,0),(0,0)))"

    def test_partition_shapes(self):
        assert fl.mma_partition_shape((64, 8), "a", self.shape, self.A, self.atoms) == (1, 2, 2)
        assert fl.mma_partition_shape((64, 64), 2, self.shape, self.C, self.atoms) == ((4, 1), 2, 2)

    def test_fragments(self):
        a, c = P("(64,8):(8,1)"), P("(64,64):(64,1)")
        assert str(fl.mma_fragment_layout(a, "a", self.shape, self.A, self.atoms)) == "(1,2,2):(0,2,1)"
        assert str(fl.mma_fragment_layout(c, "c", self.shape, self.C, self.atoms)) == "((4,1),2,2):((1,0),8,4)"
        staged = fl.mma_fragment_layout(P("(64,8,3):(8,1,512)"), "a", self.shape, self.A, self.atoms, stages=2)
        assert str(staged) == "(1,2,2,2):(0,2,1,4)"
        run_time = fl.mma_fragment_layout(P("(64,8):(?,1)"), "a", self.shape, self.A, self.atoms, stages=2)
        assert str(run_time) == "(1,2,2,2):(0,2,1,4)"

    def test_copy_of_the_accumulator(self):
        tv = self.tv("c")
        part = fl.copy_partition(P("(64,64):(64,1)"), tv, (32, 32), ONE_F32, ONE_F32, 0)[1]
        assert part.shape == ((1, 4), 2, 2)
        assert str(fl.copy_retile(P("((4,1),2,2):((1,0),8,4)"), tv, (32, 32), ONE_F32)) == "((1,4),2,2):((0,1),8,4)"

    @pytest.mark.parametrize(
        "operand, matrix", [("a", "(64,8):(8,1)"), ("b", "(64,8):(1,64)"), ("c", "(64,64):(64,1)")]
    )
    def test_partitions_cover_the_matrix(self, operand, matrix):
        X = P(matrix)
        atom = self.C if operand == "c" else self.A
        counts: dict[int, int] = {}
        for thread in range(256):
            args = (operand, self.shape, atom, self.atoms, None, self.threads, thread)
            offset, mine = fl.mma_partition(X, *args)
            for i in range(fl.size(mine)):
                at = offset + mine(i)
                counts[at] = counts.get(at, 0) + 1
        # A and B are shared by the two atoms along the axis they do not span.
        assert counts == dict.fromkeys(range(fl.size(X)), 1 if operand == "c" else 2)

    def test_tv_agrees_with_the_partition(self):
        for operand in "abc":
            tv = self.tv(operand)
            atom = self.C if operand == "c" else self.A
            shape = (32, 32) if operand == "c" else (32, 4)
            for thread in range(256):
                args = (operand, self.shape, atom, self.atoms, None, self.threads, thread)
                offset, mine = fl.mma_partition(fl.make_layout(shape), *args)
                assert [offset + mine(i) for i in range(fl.size(mine))] == [tv(thread, i) for i in range(fl.size(mine))]

    def test_permutation(self):
        perm = (fl.make_layout((4, 4, 2), (1, 8, 4)), None)
        assert fl.tile_size_mnk(self.shape, self.atoms, perm) == (32, 32, 4)
        seen = set()
        for thread in range(256):
            args = ("c", self.shape, self.C, self.atoms, perm, self.threads, thread)
            offset, mine = fl.mma_partition(P("(32,32):(1,32)"), *args)
            seen |= {offset + mine(i) for i in range(fl.size(mine))}
        assert seen == set(range(1024))


class TestScalarFma:
    """Worked example 2: one thread per atom, 16 by 16 atoms."""

    shape, atoms, threads, one = (1, 1, 1), P("(16,16,1):(1,16,0)"), P("1:1"), P("(1,1):(1,1)")

    def test_tiling(self):
        assert fl.tile_size_mnk(self.shape, self.atoms) == (16, 16, 1)
        assert str(fl.thr_layout_vmnk(self.threads, self.atoms)) == "(1,16,16,1):(0,1,16,0)"
        assert str(fl.mma_tiled_tv("a", self.shape, self.one, self.atoms, None, self.threads)[0]) == "(16,16):(1,0)"
        assert str(fl.mma_tiled_tv("c", self.shape, self.one, self.atoms, None, self.threads)[0]) == "256:1"

    def test_fragments(self):
        a = fl.mma_fragment_layout(P("(64,8):(8,1)"), "a", self.shape, self.one, self.atoms)
        c = fl.mma_fragment_layout(P("(64,64):(64,1)"), "c", self.shape, self.one, self.atoms)
        assert (str(a), str(c)) == ("(1,4,8):(0,8,1)", "(1,4,4):(0,4,1)")

    def test_static_thread_index(self):
        # Quirk 21 of the language reference: the thread is decoded, not used as a coordinate of the view.
        args = ("c", self.shape, self.one, self.atoms, None, self.threads)
        assert fl.mma_partition(P("(64,64):(64,1)"), *args, 35)[0] == 3 * 64 + 2
        assert fl.mma_partition(P("(64,64):(64,1)"), "b", *args[1:], 35)[0] == 2 * 64


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: fl.make_layout_tv(P("?:1"), P("4:1")), r"expected static layouts, got \?:1"),
        (lambda: fl.copy_view(P("(8,8):(8,1)"), P("4:1"), (8, 8), FOUR, FOUR), "thread-value layouts of rank 2"),
        (lambda: fl.tiled_copy_tv(P("(8,8):(8,1)"), (8, None), FOUR, FOUR), "extent for every mode"),
        (lambda: fl.copy_retile(parse_any_layout("S<1,1,1> o 0 o 4:1"), P("(4,4):(1,4)"), (4, 4), FOUR), "retile"),
        (lambda: fl.copy_retile(P("(?,2):(1,4)"), P("(4,4):(1,4)"), (4, 4), FOUR), "static first mode"),
        (
            lambda: fl.mma_view(P("(8,8):(8,1)"), "e", (1, 1, 1), ONE_F32, P("(2,2,1):(1,2,0)")),
            "operand a, b, c, d",
        ),
        (lambda: fl.mma_view(P("8:1"), "a", (1, 1, 1), ONE_F32, P("(2,2,1):(1,2,0)")), "at least two modes"),
        (lambda: fl.mma_view(P("(8,8):(8,1)"), "a", (1, 1, 1), ONE_F32, P("(2,2):(1,2)")), r"over \(M,N,K\)"),
        (lambda: fl.tile_size_mnk((1, 1, 1), P("(2,2,1):(1,2,0)"), (1, 2, 3, 4)), "at most three modes"),
        (
            lambda: fl.mma_fragment_layout(P("(8,8):(8,1)"), "a", (1, 1, 1), ONE_F32, P("(2,2,1):(1,2,0)"), stages=0),
            "stages must be positive",
        ),
        (
            lambda: fl.mma_fragment_layout(P("8:1"), "a", (1, 1, 1), ONE_F32, P("(2,2,1):(1,2,0)"), stages=2),
            "at least two modes",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(LayoutError, match=message):
        call()
