"""Structs and unions: declaration, construction, specialisation, flattening, jit arguments."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.protocol import (
    cache_signature,
    construct_from_ir_values,
    dsl_align_of,
    dsl_size_of,
    extract_to_ir_values,
    get_ir_types,
)


@fx.struct
class Affine:
    scale: fx.Float32
    bias: fx.Float32
    unroll: fx.Constexpr[int]


@fx.struct
class Point:
    x: fx.Int32
    y: fx.Int64

    def shifted(self, by):
        return self.replace(x=self.x + by)

    @property
    def total(self):
        return self.x + self.y

    @staticmethod
    def origin():
        return Point(0, 0)


# --- construction -------------------------------------------------------------------------------------------------


def test_fields_are_coerced():
    p = Point(3, y=4.0)
    assert type(p.x) is fx.Int32 and int(p.x) == 3
    assert type(p.y) is fx.Int64 and int(p.y) == 4
    assert repr(p) == "Point(x=Int32(3), y=Int64(4))"
    assert int(Point(fx.Int64(7), True).x) == 7


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((1,), {}, "missing required field 'y'"),
        ((), {}, "missing required field"),
        ((1, 2), {"z": 3}, "unexpected field 'z'"),
        ((1, 2), {"x": 3}, "multiple values for field 'x'"),
        ((1, 2, 3), {}, r"expected 2 field\(s\), got 3"),
        (("a", 2), {}, "expects Int32"),
        ((None, 2), {}, "expects Int32"),
        ((float("nan"), 2), {}, "expects Int32"),
        ((1, [2]), {}, "expects Int64"),
    ],
)
def test_construction_refuses(args, kwargs, text):
    with pytest.raises(TypeError, match=text):
        Point(*args, **kwargs)


def test_class_level_defaults_are_ignored():
    @fx.struct
    class WithDefault:
        a: fx.Int32 = 5
        b: fx.Int32 = 6

    with pytest.raises(TypeError, match="missing required field 'b'"):
        WithDefault(1)
    assert not hasattr(WithDefault, "a")


def test_structs_are_immutable():
    p = Point(1, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.x = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.other = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        del p.x


def test_replace():
    p = Point(1, 2)
    assert p.replace(x=5) == Point(5, 2) and p == Point(1, 2)
    with pytest.raises(TypeError, match="unexpected field 'z'"):
        p.replace(z=1)
    with pytest.raises(TypeError, match="expects Int32"):
        p.replace(x="no")


def test_equality_and_hash():
    @fx.struct
    class Other:
        x: fx.Int32
        y: fx.Int64

    assert Point(1, 2) == Point(1, 2) and hash(Point(1, 2)) == hash(Point(1, 2))
    assert Point(1, 2) != Point(1, 3)
    assert Point(1, 2).__eq__(Other(1, 2)) is NotImplemented
    assert Point(1, 2) != Other(1, 2) and Point(1, 2) != 3
    assert Affine(1, 2, 4) != Affine(1, 2, 8)


def test_methods_properties_and_statics_are_kept():
    p = Point.origin().shifted(3)
    assert int(p.total) == 3 and isinstance(p, Point)


def test_super_in_methods():
    @fx.struct
    class Base:
        a: fx.Int32

        def name(self):
            return "base"

    @fx.struct
    class Derived(Base):
        b: fx.Int32

        def name(self):
            return super().name() + " and more"

    assert Derived(1, 2).name() == "base and more"
    assert [f.name for f in Derived.__fields__] == ["a", "b"]


# --- declaration --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("_a", "must not start with underscore"),
        ("replace", "reserved"),
        ("peek", "reserved"),
        ("poke", "reserved"),
    ],
)
def test_field_names(name, text):
    with pytest.raises(ValueError, match=text):
        fx.struct(type("S", (), {"__annotations__": {name: fx.Int32}}))
    with pytest.raises(ValueError, match=text):
        fx.Struct[name : fx.Int32]
    with pytest.raises(ValueError, match=text):
        fx.Union[name : fx.Int32]


def test_no_fields():
    with pytest.raises(ValueError, match="at least one field"):

        @fx.struct
        class Nothing:
            pass

    with pytest.raises(ValueError, match="at least one field"):
        fx.Struct[()]
    assert fx.Empty() == fx.Empty() and extract_to_ir_values(fx.Empty()) == []
    assert dsl_size_of(fx.Empty) == 0


def test_duplicates():
    with pytest.raises(ValueError, match="duplicate"):
        fx.Struct["a" : fx.Int32, "a" : fx.Int64]


@pytest.mark.parametrize("bad", [int, 3, "text", list, fx.Numeric, fx.Integer])
def test_field_types(bad):
    with pytest.raises(TypeError, match="expected a DSL type"):
        fx.Struct["a":bad]


def test_constructors_are_refused():
    with pytest.raises(TypeError, match="__init__"):

        @fx.struct
        class Own:
            a: fx.Int32

            def __init__(self, a):
                pass


def test_class_variables_are_no_fields():
    @fx.struct
    class Tuned:
        a: fx.Int32
        limit: ClassVar[int] = 7

    assert Tuned.limit == 7 and int(Tuned(1).a) == 1


def test_string_annotations_see_local_names():
    local = fx.Float64

    @fx.struct
    class Late:
        a: "local"
        b: "fx.Array[fx.Float32, 4]"

    assert Late.__fields__[0].type is local and Late.__fields__[1].type.size == 4
    with pytest.raises(TypeError, match="cannot resolve the type"):

        @fx.struct
        class Lost:
            a: "nowhere"  # noqa: F821


def test_inline_structs():
    pair = fx.Struct["a" : fx.Int32, fx.Float32]
    made = pair(1, 2.5)
    assert made._1.to(float) == 2.5 and int(made.a) == 1
    assert fx.Struct["a" : fx.Int32, fx.Float32] is pair
    assert str(pair) == "Struct[a: Int32, Float32]"
    with pytest.raises(TypeError, match='"name": Type'):
        fx.Struct[3 : fx.Int32]


def test_kinds():
    either = fx.Union["a" : fx.Int32, "b" : fx.Float32]
    assert fx.is_struct_type(Point) and fx.is_composite_type(Point) and not fx.is_specializable_struct_type(Point)
    assert fx.is_composite_type(either) and not fx.is_struct_type(either)
    assert not fx.is_composite_type(fx.Int32) and not fx.is_composite_type(Point(1, 2))
    assert fx.is_specializable_struct_type(Affine)
    assert not fx.is_specializable_struct_type(type(Affine(1, 2, 3)))
    assert Point.__kind__ is fx.CompositeKind.STRUCT and either.__kind__ is fx.CompositeKind.UNION


def test_unions_have_no_values():
    @fx.union
    class Either:
        a: fx.Int32
        b: fx.Float32

    with pytest.raises(TypeError, match="no value form"):
        Either(1)
    with pytest.raises(TypeError, match="no value form"):
        Either()


# --- compile-time fields ------------------------------------------------------------------------------------------


def test_constexpr_fields_are_part_of_the_class():
    p = Affine(2.0, 1.0, 4)
    assert type(p).__name__ == "Affine[unroll=4]" and isinstance(p, Affine)
    assert p.unroll == 4 and type(p.unroll) is int
    assert type(Affine(0, 0, 4)) is type(p) and type(Affine(0, 0, 5)) is not type(p)
    assert type(p)(3.0, 4.0) == Affine(3.0, 4.0, 4)
    assert Affine.__specialize_for_value__(p) is type(p)
    assert p.replace(unroll=8).unroll == 8
    assert dsl_size_of(Affine) == dsl_size_of(type(p)) == 8


def test_constexpr_values_of_different_types_differ():
    any_ = fx.Struct["a" : fx.Constexpr[float]]
    assert type(any_(1)) is not type(any_(1.0))


@pytest.mark.parametrize("bad", [True, 1.5, "4", None, fx.Int32(4)])
def test_constexpr_fields_check_their_type(bad):
    with pytest.raises(TypeError, match="expects int"):
        Affine(1.0, 2.0, bad)


def test_signature_holds_classes_and_constants():
    assert cache_signature(Affine(1, 2, 4)) == cache_signature(Affine(5, 6, 4))
    assert cache_signature(Affine(1, 2, 4)) != cache_signature(Affine(1, 2, 5))
    hash(cache_signature(Affine(1, 2, 4)))


def factor(x):
    return x * 3


def declare(size=4, text="a", call=factor):
    @fx.struct
    class Local:
        a: fx.Array[fx.Float32, size]
        k: fx.Constexpr[int]

        def method(self):
            return call(text)

    return Local


def test_cache_keys_follow_the_declaration():
    from flydsl.compiler.key.cache_key import digest

    assert digest(declare()) == digest(declare())
    different = {digest(declare()), digest(declare(8)), digest(declare(text="b")), digest(declare(call=len))}
    assert len(different) == 4
    nested = {digest(fx.Struct["a" : declare(n)]) for n in (4, 8)}
    assert len(nested) == 2
    assert digest(fx.Union["a" : fx.Int32]) != digest(fx.Union["a" : fx.Int64])
    assert digest(type(Affine(1, 2, 3))) != digest(type(Affine(1, 2, 4))) != digest(Affine)
    assert digest(Affine(1, 2, 3)) == digest(Affine(5, 6, 3))


# --- in traces ----------------------------------------------------------------------------------------------------


def test_flattening(host_trace):
    nested = fx.Struct["p":Affine, "n" : fx.Int32](Affine(2.0, 1.0, 4), 3)
    assert [str(t) for t in get_ir_types(nested)] == ["f32", "f32", "i32"]
    values = extract_to_ir_values(nested)
    again = construct_from_ir_values(nested, values)
    assert type(again) is type(nested) and type(again.p) is type(nested.p) and again.p.unroll == 4
    assert again.p.scale.ir_value() is values[0] and again.n.ir_value() is values[2]
    without = type(nested.p).__construct_from_ir_values__(values[:2])
    assert without.unroll == 4 and without.bias.ir_value() is values[1]


def test_runtime_equality_is_a_boolean(host_trace):
    from xdsl.dialects.builtin import i32, i64

    def value(type_):
        return host_trace.block.insert_arg(type_, len(host_trace.block.args))

    a, b = Point(fx.Int32(value(i32)), 1), Point(fx.Int32(value(i32)), 1)
    assert isinstance(a == b, fx.Boolean) and not (a == b).is_static()
    assert (a == Point(a.x, 1)) is True and (a == Point(a.x, 2)) is False
    assert isinstance(Point(value(i32), value(i64)), Point)


def test_tensors_must_be_tensors():
    holder = fx.Struct["t" : fx.Tensor]
    with pytest.raises(TypeError, match="expects Tensor"):
        holder(np.zeros(4, np.float32))


def test_kernel_parameters_loops_and_branches(traced):
    @flyc.kernel
    def kernel(out: fx.Tensor, p: Affine, n: fx.Int32):
        state = Point(0, 0)
        for i in range(n):
            if i > 3:
                state = state.replace(x=state.x + 1)
            else:
                state = Point(state.x, state.y + i)
        out[0] = p.scale * state.x.to(fx.Float32) + p.bias + p.unroll

    @flyc.jit
    def launch(out: fx.Tensor, p: Affine, n: fx.Int32):
        kernel(out, p, n).launch(block=1)

    text = traced(launch, np.zeros(4, np.float32), Affine(2.0, 1.0, 4), 3)
    assert "func.func @launch(%arg0: !fly.memref<f32, global, (?):(1)>, %arg1: f32, %arg2: f32, %arg3: i32" in text
    assert "scf.if" in text and "-> (i32, i64) : i32" in text


def test_one_device_function_per_constant(traced):
    @flyc.kernel
    def kernel(out: fx.Tensor, p: Affine):
        out[0] = p.scale + p.unroll

    @flyc.jit
    def launch(out: fx.Tensor, p: Affine):
        for unroll in (2, 3, 2):
            kernel(out, p.replace(unroll=unroll)).launch()

    text = traced(launch, np.zeros(4, np.float32), Affine(2.0, 1.0, 4))
    assert text.count("gpu.func") == 2 and text.count("gpu.launch_func @kernels::@kernel_0") == 2


def test_signedness_tells_device_functions_apart(traced):
    @flyc.kernel
    def kernel(out: fx.Tensor, n):
        out[0] = (n >> 1).to(fx.Float32)

    @flyc.jit
    def launch(out: fx.Tensor, n: fx.Int32):
        kernel(out, n).launch()
        kernel(out, fx.Uint32(n)).launch()

    text = traced(launch, np.zeros(4, np.float32), 3)
    assert text.count("gpu.func") == 2 and "shrsi" in text and "shrui" in text


def test_as_jit_argument():
    @flyc.kernel
    def kernel(out: fx.Tensor, p: Affine):
        i = fx.thread_idx.x
        if i < 4:
            out[i] = p.scale * i.to(fx.Float32) + p.bias * p.unroll

    @flyc.jit
    def launch(out: fx.Tensor, p: Affine):
        kernel(out, p).launch(block=8)

    for scale, bias, unroll in [(2.0, 1.0, 4), (3.0, -1.0, 4), (2.0, 1.0, 5)]:
        out = np.full(6, np.nan, np.float32)
        launch(out, Affine(scale, bias, unroll))
        np.testing.assert_allclose(out[:4], scale * np.arange(4) + bias * unroll)
        assert np.isnan(out[4:]).all()
    with pytest.raises(TypeError, match="expects Affine"):
        launch(out, 3.0)
    with pytest.raises(TypeError, match="expects Affine"):
        launch(out, Point(1, 2))


def test_typed_pointers_in_structs(in_kernel):
    wanted = fx.Pointer[fx.Float32, fx.AddressSpace.Global, 4]
    holder = fx.Struct["p":wanted]

    def body(p):
        assert holder(p).p is p
        for bad in (fx.recast_iter(fx.Int32, p), 3):
            with pytest.raises(TypeError, match="expects Pointer"):
                holder(bad)

    in_kernel(body)
    assert dsl_size_of(holder) == dsl_align_of(holder) == 8
    assert dsl_size_of(fx.Pointer[fx.Float32, fx.AddressSpace.Shared, 16]) == 4
    with pytest.raises(TypeError, match="Storable"):
        dsl_size_of(fx.Pointer)
    with pytest.raises(TypeError, match="Storable"):
        dsl_size_of(fx.Pointer[fx.Float32, fx.AddressSpace.Register])
    with pytest.raises(ValueError, match="multiple of 4"):
        fx.Pointer[fx.Float32, fx.AddressSpace.Global, 2]
