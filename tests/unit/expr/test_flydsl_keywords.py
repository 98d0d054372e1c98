"""Keywords and members that FlyDSL's functions have: places of ops, classes of vectors, scopes."""

import pytest

import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl.errors import DSLTypeError, DSLValueError


def test_places_of_ops(in_kernel):
    def body(p):
        n, f = fx.thread_idx.x, p[0]
        first = fx.as_ir_value(n * 7).owner
        for made in (
            lambda **o: fx.rocdl.readfirstlane(fx.T.i32, n, **o),
            lambda **o: fx.rocdl.readlane(fx.T.i32, n, 0, **o),
            lambda **o: fx.rocdl.ballot(fx.T.i64, n > 3, **o),
            lambda **o: fx.rocdl.ds_bpermute(fx.T.i32, n, n, **o),
            lambda **o: fx.rocdl.perm_b32(n, n, 5, **o),
            lambda **o: fx.rocdl.rcp(fx.T.f32, f, **o),
            lambda **o: fx.rocdl.cvt_pk_f32_fp8(fx.T.f32x2, n, False, **o),
            lambda **o: fx.rocdl.cvt_pk_fp8_f32(fx.T.i32, f, f, n, False, **o),
            lambda **o: fx.rocdl.sched_barrier(0, **o),
            lambda **o: fx.rocdl.sched_group_barrier(8, 1, 0, **o),
            lambda **o: fx.cmpf(fx.arith.CmpFPredicate.OLT, f, f, **o),
            lambda **o: fx.max(n, 3, **o),
            lambda **o: fx.min(n, 3, **o),
            lambda **o: fx.gpu.thread_id("x", **o),
            lambda **o: fx.gpu.block_id(dimension="y", upper_bound=4, **o),
            lambda **o: fx.barrier(**o),
        ):
            made(loc=None, ip=None)
        with ir.Location.name("here") as here:
            pass
        fx.max(n, 1234, ip=ir.InsertionPoint(first), loc=here)
        fx.barrier(scope=ir.Attribute.parse("#gpu.barrier_scope<subgroup>"))
        for wrong, message in (
            (lambda: fx.max(n, 3, ip=3), r"max\(\): ip= must be an ir.InsertionPoint, got 3"),
            (lambda: fx.barrier(loc="here"), r"barrier\(\): loc= must be an ir.Location, got 'here'"),
        ):
            with pytest.raises(DSLTypeError, match=message):
                wrong()
        with pytest.raises(DSLValueError, match="thread_id takes a positive int as upper_bound, got 0"):
            fx.gpu.thread_id("x", upper_bound=0)

    text = in_kernel(body)
    assert "gpu.barrier scope <subgroup>" in text
    assert text.index("arith.maxsi") < text.index("arith.muli"), "the one with ip= stands in front of the first product"


def test_what_a_load_gives(in_kernel):
    def body(p):
        assert type(fx.generic_load(p)) is type(fx.generic_load(p, count=1)) is fx.Float32
        assert type(fx.generic_load(p, dtype=fx.Float32x4)) is fx.Float32x4
        assert fx.generic_load(p, dtype=fx.Float16x8, nontemporal=True).shape == (8,)
        assert fx.generic_load(p, dtype=fx.Vector[fx.Int32, 2], count=None).dtype is fx.Int32
        monotonic = fx.AtomicOrdering.Monotonic
        fx.generic_store(p, 1.0, syncscope="agent", memory_order=monotonic)
        for wrong, error, message in (
            (lambda: fx.generic_load(p, dtype=fx.Float32x4, count=4), DSLTypeError, "Float32x4 says how many elements"),
            (lambda: fx.generic_load(p, dtype=fx.Float32x4, memory_order=monotonic), DSLValueError, "one element"),
            (
                lambda: fx.generic_load(p, syncscope="agent"),
                DSLValueError,
                "'agent' is of atomic accesses; give memory",
            ),
            (lambda: fx.generic_store(p, 1.0, syncscope="agent"), DSLValueError, "is of atomic accesses; give memory"),
        ):
            with pytest.raises(error, match=message):
                wrong()

    in_kernel(body)


def test_members_of_values(in_kernel):
    def body(p):
        v = p.load(fx.Float32x2)
        assert v.shuffle_xor(1, 64).shape == (2,) and v.shuffle_xor(1).dtype is fx.Float32
        assert (p[0].log_width, fx.Int8(3).log_width, (p[0] > 1.0).log_width, fx.Int32.log_width) == (5, 3, 0, 5)

    in_kernel(body)
