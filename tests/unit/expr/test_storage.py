"""Storable types: sizes and offsets, arrays, alignment, references to memory, arenas."""

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.protocol import Storable, dsl_align_of, dsl_size_of, peek_from_ptr, poke_into_ptr
from flydsl.expr.struct import memory_layout

Both = fx.Union["half" : fx.Array[fx.Float16, 128], "single" : fx.Array[fx.Float32, 64]]


# --- sizes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "size", "align"),
    [
        (fx.Boolean, 1, 1),
        (fx.Int8, 1, 1),
        (fx.Float32, 4, 4),
        (fx.Int128, 16, 16),
        (fx.Float32x4, 16, 16),
        (fx.Float16x2, 4, 4),
        (fx.Align[fx.Int32, 16], 4, 16),
        (fx.Struct["a" : fx.Int32, "b" : fx.Align[fx.Int32, 16]], 32, 16),
        (fx.Struct["a" : fx.Int8, "b" : fx.Int64, "c" : fx.Int8], 24, 8),
        (fx.Struct["a" : fx.Int8, "b" : fx.Int8], 2, 1),
        (Both, 256, 4),
        (fx.Struct["n" : fx.Int32, "u":Both], 260, 4),
        (fx.Union["a" : fx.Int64, "b" : fx.Array[fx.Int8, 9]], 16, 8),
        (fx.Array[fx.Float32, 64], 256, 4),
        (fx.Array[fx.Float32, 3, 16], 12, 16),
        (fx.Array[fx.Int4, 8], 4, 1),
        (fx.Array[fx.Int4, 3], 2, 1),
        (fx.Array[fx.Float6E2M3FN, 4], 3, 1),
        (fx.Array[fx.Boolean, 5], 5, 1),
        (fx.Array[fx.Struct["a" : fx.Int32, "b" : fx.Int8], 3], 24, 4),
        (fx.Array[fx.Align[fx.Int32, 16], 3], 48, 16),
    ],
)
def test_sizes(type_, size, align):
    assert (dsl_size_of(type_), dsl_align_of(type_)) == (size, align)
    assert isinstance(type_, Storable)


def test_offsets():
    layout = memory_layout(fx.Struct["a" : fx.Int8, "b" : fx.Int32, "c" : fx.Int16, "n" : fx.Constexpr[int]])
    assert layout.offsets == {"a": 0, "b": 4, "c": 8} and layout.size == 12
    assert memory_layout(Both).offsets == {"half": 0, "single": 0}


@pytest.mark.parametrize("type_", [fx.Int4, fx.Float6E2M3FN, fx.Float4E2M1FN])
def test_sub_byte_scalars_are_not_storable(type_):
    with pytest.raises(TypeError, match="sub-byte"):
        dsl_size_of(type_)
    with pytest.raises(TypeError, match="sub-byte"):
        dsl_size_of(fx.Struct["a":type_])


@pytest.mark.parametrize("type_", [fx.Tensor, fx.Pointer, fx.Vector, fx.Layout, int, 3])
def test_not_storable(type_):
    with pytest.raises(TypeError, match="Storable"):
        dsl_size_of(type_)


def test_array_attributes_and_errors():
    array = fx.Array[fx.Float32, 8, 16]
    assert (array.dtype, array.size, array.align) == (fx.Float32, 8, 16)
    assert str(array) == "Array[Float32, 8, 16]" and fx.Array[fx.Float32, 8, 16] is array
    for key, text in [
        (fx.Float32, r"Array\[dtype, size\]"),
        ((fx.Float32, 1, 4, 4), r"Array\[dtype, size\]"),
        ((int, 4), "Numeric subclass"),
        ((fx.Tensor, 4), "Numeric subclass"),
        ((fx.Numeric, 4), "Numeric subclass"),
        ((fx.Float32, 0), "positive integer"),
        ((fx.Float32, -1), "positive integer"),
        ((fx.Float32, 2.0), "positive integer"),
        ((fx.Float32, True), "positive integer"),
        ((fx.Float32, 4, "16"), "must be an int"),
    ]:
        with pytest.raises(TypeError, match=text):
            fx.Array[key]
    for align, text in [(3, "power of two"), (2, "smaller than natural alignment"), (0, "positive")]:
        with pytest.raises(ValueError, match=text):
            fx.Array[fx.Float32, 4, align]


def test_align_errors():
    for key, text in [
        (fx.Int32, r"Align\[Type, N\]"),
        ((fx.Int32, 4, 4), r"Align\[Type, N\]"),
        ((fx.Int32, "4"), "must be an int"),
        ((fx.Int32, True), "must be an int"),
        ((fx.Tensor, 16), "Storable"),
    ]:
        with pytest.raises(TypeError, match=text):
            fx.Align[key]
    for n, text in [(3, "power of two"), (2, "smaller than natural alignment"), (0, "positive"), (-8, "positive")]:
        with pytest.raises(ValueError, match=text):
            fx.Align[fx.Int32, n]
    assert fx.Align[fx.Int32, 16] is fx.Align[fx.Int32, 16]
    assert dsl_align_of(fx.Align[fx.Align[fx.Int32, 8], 32]) == 32


# --- references ---------------------------------------------------------------------------------------------------


@fx.struct
class Inner:
    a: fx.Int8
    b: fx.Align[fx.Float32, 16]


@fx.struct
class Record:
    n: fx.Constexpr[int]
    count: fx.Int32
    inner: Inner
    both: Both
    items: fx.Array[fx.Int16, 4]
    word: fx.Float32x4


def test_fields_peek_and_poke(in_kernel):
    def body(p):
        kind = fx.struct(type("R", (), {"__annotations__": {"n": fx.Int32, "inner": Inner, "both": Both}}))
        place = fx.Storage[kind](p)
        place.n.poke(7)
        place.n.poke(fx.Int64(8))
        assert isinstance(place.inner.b.peek(), fx.Float32)
        record = place.peek()
        assert isinstance(record, kind) and isinstance(record.inner, Inner) and not record.n.is_static()
        assert type(record.both) is fx.Storage[Both]
        place.inner.poke(Inner(1, 2.0))
        assert type(place.both.half.peek()) is fx.Array[fx.Float16, 128]

    text = in_kernel(body)
    # inner is at 16, b in it at 16 more, both at 48
    for offset in (16, 48):
        assert f"!fly.int_tuple<{offset}>" in text
    assert "!fly.ptr<f16, global" in text
    # The IR alignment of a recast byte pointer follows from the pointer it started from and the offset.
    assert "-> !fly.ptr<i8, global, align<4>>" in text


def test_storage_errors(in_kernel):
    def body(p):
        place = fx.Storage[Inner](p)
        with pytest.raises(AttributeError, match="has no field 'z'"):
            _ = place.z
        with pytest.raises(AttributeError, match="has no field 'z'"):
            _ = fx.Storage[fx.Int32](p).z
        with pytest.raises(AttributeError, match="compile-time only"):
            _ = fx.Storage[Record](p).n
        with pytest.raises(TypeError, match="compile-time fields"):
            fx.Storage[Record](p).peek()
        with pytest.raises(NotImplementedError, match="union"):
            fx.Storage[Both](p).peek()
        with pytest.raises(NotImplementedError, match="union"):
            fx.Storage[Both](p).poke(3)
        with pytest.raises(NotImplementedError, match="as a whole"):
            fx.Storage[fx.Array[fx.Float32, 4]](p).poke(3)
        with pytest.raises(TypeError):
            fx.Storage[fx.Int32](p).poke("text")
        with pytest.raises(TypeError, match="Inner"):
            place.poke(3)
        with pytest.raises(TypeError, match="fx.Pointer"):
            fx.Storage[Inner](3)
        with pytest.raises(TypeError, match="Storable"):
            fx.Storage[fx.Tensor]
        with pytest.raises(TypeError, match="already"):
            fx.Storage[fx.Int32][fx.Int32]

    in_kernel(body)


def test_arrays_in_memory(in_kernel):
    def body(p):
        array = fx.Storage[fx.Array[fx.Int32, 8]](p).peek()
        assert array.ptr.dtype is fx.Int32 and len(array) == 8
        array[3] = 5
        array[fx.thread_idx.x] = array[-1] + 1
        assert array.view(fx.make_layout((2, 4), (4, 1))).dtype is fx.Int32
        with pytest.raises(IndexError, match="outside"):
            array[8]
        with pytest.raises(TypeError, match="cannot store"):
            array[0] = fx.Float32(p[0])
        pairs = fx.Storage[fx.Array[fx.Struct["a" : fx.Int32, "b" : fx.Float32], 4]](p).peek()
        assert isinstance(pairs[1].b, fx.Float32)
        pairs[2] = pairs[1].replace(a=4)

    text = in_kernel(body)
    assert "!fly.int_tuple<7>" in text and "!fly.int_tuple<16>" in text


def test_vectors_and_pointers_in_memory(in_kernel):
    kind = fx.Struct["v" : fx.Float32x4, "p" : fx.Pointer[fx.Float32, fx.AddressSpace.Global, 4]]

    def body(p):
        place = fx.Storage[kind](p)
        place.v.poke(fx.Float32x4(1.0))
        assert place.v.peek().shape == (4,)
        place.p.poke(p)
        assert place.p.peek().dtype is fx.Float32

    text = in_kernel(body)
    assert "vector<4xf32>" in text and "fly.ptrtoint" in text and "fly.inttoptr" in text


def test_storable_functions(in_kernel):
    class Meters:
        """A user's storable type."""

        @classmethod
        def __dsl_size_of__(cls):
            return 4

        @classmethod
        def __dsl_align_of__(cls):
            return 4

        @classmethod
        def __peek_from_ptr__(cls, ptr):
            return fx.recast_iter(fx.Float32, ptr).load() * 1000.0

        @classmethod
        def __poke_into_ptr__(cls, ptr, value):
            fx.recast_iter(fx.Float32, ptr).store(value)

    def body(p):
        place = fx.Storage[fx.Struct["n" : fx.Int32, "m":Meters]](p)
        assert isinstance(place.m.peek(), fx.Float32)
        place.m.poke(fx.Float32(p[0]))
        assert isinstance(peek_from_ptr(fx.Float32, p), fx.Float32)
        poke_into_ptr(fx.Float32, p, 2)

    in_kernel(body)


def test_references_are_dsl_values(traced):
    @flyc.kernel
    def kernel(p: fx.Pointer, n: fx.Int32):
        place = fx.Storage[Inner](p)
        array = fx.Storage[fx.Array[fx.Float32, 8]](p).peek()
        for i in range(n):
            array[i] = place.b.peek()
            place = fx.Storage[Inner](p + i)

    @flyc.jit
    def launch(p: fx.Pointer, n: fx.Int32):
        kernel(p, n).launch()

    text = traced(launch, flyc.from_c_void_p(fx.Float32, 0), 4)
    assert "scf.for" in text


# --- arenas -------------------------------------------------------------------------------------------------------


def test_arena_offsets():
    arena = fx.Arena()
    assert arena.allocated_bytes == 0
    arena.allocate(fx.Int8)
    assert arena.allocated_bytes == 1
    arena.allocate(fx.Array[fx.Float32, 4, 16])
    assert arena.allocated_bytes == 32
    arena.allocate(3)
    arena.allocate(fx.Int8, alignment=64)
    assert arena.allocated_bytes == 65
    assert type(arena.allocate(12)) is fx.Storage[fx.Array[fx.Uint8, 12]]


def test_arena_errors():
    arena = fx.Arena()
    with pytest.raises(NotImplementedError):
        _ = arena.base_ptr
    for n in (0, -4):
        with pytest.raises(ValueError, match="must be > 0"):
            arena.allocate(n)
    for bad in (fx.Tensor, "text", 2.5):
        with pytest.raises(TypeError, match="Storable"):
            arena.allocate(bad)
    with pytest.raises(ValueError, match="power of two"):
        arena.allocate(4, alignment=12)
    with pytest.raises(ValueError, match="power of two"):
        fx.Arena(24)
