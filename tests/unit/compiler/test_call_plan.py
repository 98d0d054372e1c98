"""Cold and warm calls read one plan: they accept the same arguments and write the same bytes.

Argument lists are drawn at random. A list makes a plan, others are judged by it three times: interpreted, by the
generated Python, and with the native reader. The launch is replaced by a look at what was written.
"""

import ctypes
import pickle
import random
import struct
from types import SimpleNamespace

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.call import fields, native_reader, plan, warm
from flydsl.compiler.call.bind import bind
from flydsl.compiler.call.call_plan import plan_of
from flydsl.compiler.call.fields import Field, Place
from flydsl.compiler.call.native_reader import can_read
from flydsl.compiler.call.warm import make_warm
from flydsl.compiler.frontend.signature import Signature
from flydsl.errors import FlyDSLError
from flydsl.llvm.stub_abi import FAILURE_BYTES

torch = pytest.importorskip("torch")

LISTS = 150


@fx.struct
class Point:
    x: fx.Float32
    n: fx.Int16


def function(
    a: fx.Tensor,
    b,
    n: fx.Int32,
    small: fx.Uint8,
    real: fx.Float32,
    half: fx.BFloat16,
    flag: fx.Boolean,
    plain,
    point: Point,
    k: fx.Constexpr[int],
    scale: fx.Constexpr[float],
    dtype: type[fx.Numeric],
    other: fx.Tensor | None = None,
    stream: fx.Stream = None,
):
    pass


SIGNATURE = Signature(function)


class Sub(np.ndarray):
    """Of another class."""


class Lent:
    """An array of which only DLPack knows."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def misaligned(shape):
    memory = np.zeros(4 * int(np.prod(shape)) + 8, np.uint8)
    at = 1 + -memory.ctypes.data % 4
    return memory[at : at + 4 * int(np.prod(shape))].view(np.float32).reshape(shape)


def freed(shape):
    made = torch.ones(shape)
    made.untyped_storage().resize_(0)
    return made


def foreign_dtype(shape):
    return pickle.loads(pickle.dumps(np.ones(shape, np.float32)))


ARRAYS = {
    "numpy": lambda s: np.ones(s, np.float32),
    "numpy, double": lambda s: np.ones(s, np.float64),
    "numpy, bytes": lambda s: np.ones(s, np.uint8),
    "numpy, another dtype object": foreign_dtype,
    "numpy, swapped": lambda s: np.ones(s, ">f4"),
    "column major": lambda s: np.asfortranarray(np.ones(s, np.float32)),
    "wide": lambda s: np.ones([n + 3 for n in s], np.float32)[tuple(slice(n) for n in s)],
    "every other": lambda s: np.ones([2 * n for n in s], np.float32)[tuple(slice(None, None, 2) for _ in s)],
    "backwards": lambda s: np.ones(s, np.float32)[::-1],
    "ragged": lambda s: np.ones(s, np.dtype({"names": ["a"], "formats": ["f4"], "itemsize": 6}))["a"],
    "read-only": lambda s: np.broadcast_to(np.ones(s, np.float32), s),
    "broadcast": lambda s: np.broadcast_to(np.ones(s[-1:], np.float32), s),
    "subclass": lambda s: np.ones(s, np.float32).view(Sub),
    "more modes": lambda s: np.ones((2, *s), np.float32),
    "misaligned": misaligned,
    "torch": torch.ones,
    "torch, half": lambda s: torch.ones(s, dtype=torch.float16),
    "torch, bytes": lambda s: torch.ones(s, dtype=torch.uint8),
    "torch, booleans": lambda s: torch.ones(s, dtype=torch.bool),
    "torch, four bits": lambda s: torch.empty(s, dtype=torch.uint4),
    "torch, turned": lambda s: torch.ones(s[::-1]).permute(*range(len(s))[::-1]),
    "torch, wide": lambda s: torch.ones([n + 1 for n in s])[tuple(slice(n) for n in s)],
    "torch, expanded": lambda s: torch.ones([1] * len(s)).expand(s),
    "torch, misaligned": lambda s: torch.from_numpy(misaligned(s)),
    "torch, negated": lambda s: torch.view_as_complex(torch.ones(*s, 2)).conj().imag[..., None][..., 0:1].squeeze(-1),
    "torch, negated column": lambda s: torch.view_as_complex(torch.ones(s[0], 2)).conj().imag[:, None],
    "torch, column": lambda s: torch.ones(s[0], 2)[:, :1],
    "torch, meta": lambda s: torch.ones(s, device="meta"),
    "torch, sparse": lambda s: torch.ones(s).to_sparse(),
    "torch, freed": freed,
    "parameter": lambda s: torch.nn.Parameter(torch.ones(s)),
    "adapter": lambda s: flyc.from_dlpack(np.ones(s, np.float32)),
    "adapter, run-time": lambda s: flyc.from_dlpack(np.ones(s, np.float32)).mark_layout_dynamic(),
    "adapter of torch": lambda s: flyc.from_dlpack(torch.ones(s)).mark_shape_dynamic(0),
    "adapter, freed": lambda s: flyc.from_dlpack(freed(s)).mark_layout_dynamic(),
    "lent": lambda s: Lent(np.ones(s, np.float32)),
    "number": lambda s: 3,
    "text": lambda s: "array",
    "nothing": lambda s: None,
}
COMMON = ("numpy", "torch", "wide", "adapter, run-time")


def draw_array(rng):
    kind = rng.choice([*ARRAYS, *COMMON * 12])
    shape = rng.choice([(4,), (3, 5), (2, 3, 4), (1, 5), (4, 1), (0, 3), (3, 0)])
    return ARRAYS[kind](rng.choice([(3, 5), shape]))


def draw(rng):
    usual = rng.random() < 0.5
    some = (lambda first, *others: first) if usual else (lambda *all: rng.choice(all))
    return {
        "a": draw_array(rng) if not usual else ARRAYS[rng.choice(COMMON)]((rng.randrange(1, 9), 5)),
        "b": rng.choice([draw_array(rng), 1, 2.5, True]) if not usual else np.ones(rng.randrange(1, 9), np.float32),
        "n": some(rng.randrange(-(2**31), 2**31), 2**31, True, 2.0, np.int32(4), "5", fx.Int32(3)),
        "small": some(rng.randrange(256), 256, -1),
        "real": some(rng.uniform(-9, 9), 7, True, 1e40, float("nan"), 10**400, np.float32(2), None),
        "half": some(rng.uniform(-9, 9), 3, 1e39),
        "flag": some(rng.random() < 0.5, 0, 1, 2, 1.0),
        "plain": some(rng.randrange(-9, 9), 2.5, False, 2**31, 2**40),
        "point": some(Point(rng.uniform(-9, 9), rng.randrange(-9, 9)), (1, 2), Point(fx.Float32(1), 3)),
        "k": some(3, 4, True),
        "scale": some(0.0, -0.0, 1.5),
        "dtype": some(fx.Float32, fx.Int8, int),
        "other": some(None, np.ones(3, np.float32), torch.ones(3)),
        "stream": some(None, fx.Stream(None), fx.Stream(0)),
    }


def tell(values):
    """A list without the contents of its arrays: some have none, and torch would look for them."""
    said = {}
    for name, value in values.items():
        strides = (
            value.stride() if hasattr(value, "data_ptr") and not value.is_sparse else getattr(value, "strides", ())
        )
        array = hasattr(value, "shape") and hasattr(value, "dtype")
        said[name] = (type(value), value.dtype, tuple(value.shape), strides) if array else value
    return said


class Loaded:
    """A loaded function whose launch copies what it is given."""

    def __init__(self, sizes):
        self.sizes = sizes
        self.table = (ctypes.c_void_p * 1)()
        self.runtime = SimpleNamespace(alive=True, device_count=lambda: 1)
        self.needs_stream = False
        self.launch_failed = None
        self.written = None

    def quick(self, slots):
        places = (ctypes.c_void_p * (len(self.sizes) + 2)).from_address(slots)
        assert places[1] and FAILURE_BYTES
        self.written = [ctypes.string_at(at, size) for at, size in zip(places[2:], self.sizes, strict=True)]
        return 0


def cold(call):
    """What a call without a plan writes: slots in order, the stream where it stands or at the end."""
    found, stream = [], False
    for argument in call.adapted.values():
        for ctype, fill in argument.__c_abi_spec__():
            storage = ctype()
            fill(argument, storage)
            found.append(bytes(storage))
        stream = stream or type(argument).__name__ == "StreamArgument"
    return found if stream else [*found, bytes(8)]


def no_key():
    """Of these functions nobody asks for a key: their constants are plain."""
    pytest.fail("the key of a function was asked for")


def bound(values):
    try:
        return bind(SIGNATURE, (), values, no_key)
    except (FlyDSLError, RuntimeError, TypeError, NotImplementedError, OverflowError) as error:
        return error


class Judges:
    """The plan of one argument list in its three renderings."""

    def __init__(self, values, call, made):
        self.plan, self.values = made, values
        self.loaded = Loaded([struct.calcsize(each.format) for each in made.slots])
        self.quick = make_warm(made, self.loaded, SIGNATURE, None, native=True)
        self.plain = make_warm(made, self.loaded, SIGNATURE, None, native=False)

    def served(self, function, values):
        self.loaded.written = None
        taken = function(**values)
        assert taken is (self.loaded.written is not None)
        return self.loaded.written


@pytest.mark.parametrize("in_place", [True, False])
def test_warm_and_cold_calls_agree(monkeypatch, in_place):
    monkeypatch.setenv("FLYDSL_RUNTIME_READ_IN_PLACE", str(int(in_place)))
    assert can_read(np.ones(3, np.float32)) is in_place
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    judges, taken, refused, wrong = [], 0, 0, 0
    for number in range(LISTS):
        values = draw(rng)
        call = bound(values)
        said = f"seed {seed}, list {number}: {tell(values)}"
        for judge in judges:
            # Most of the list is as it was for the plan, so that one argument decides.
            mixed = {name: v if rng.random() < 0.15 else judge.values[name] for name, v in values.items()}
            for given in (values, mixed):
                other = bound(given)
                quick, plain = judge.served(judge.quick, given), judge.served(judge.plain, given)
                about = f"{said}\nof {tell(judge.values)}\ngiven {tell(given)}"
                if isinstance(other, Exception):
                    wrong += 1
                    assert quick is None and plain is None, f"{about}\n{other}"
                    continue
                refusal = judge.plan.refusal(other)
                assert (plain is None) is (refusal is not None), f"{about}\n{refusal}"
                assert quick is None or plain is not None, about
                if plain is None:
                    refused += 1
                    continue
                taken += 1
                assert plain == cold(other), about
                same_objects = all(getattr(given[name], "dtype", 0) is getattr(judge.values[name], "dtype", 0)
                                   for name in ("a", "b", "other"))  # fmt: skip
                assert quick == plain if same_objects else quick in (None, plain), about
        if not isinstance(call, Exception) and len(judges) < 6:
            made = plan_of(call, SIGNATURE.parameters)
            if made is not None:
                judges.append(Judges(values, call, made))
                assert made.refusal(call) is None
    assert len(judges) == 6 and taken > LISTS and refused > LISTS and wrong > LISTS // 4, (taken, refused, wrong)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("shape", [(3, 5), (0, 3), (3, 0), (1, 5), (3, 1), (1, 1)])
def test_views_that_negate_are_left_to_the_cold_call(shape, step):
    """Their memory holds other values, whatever their strides."""

    def only(a: fx.Tensor):
        pass

    signature = Signature(only)
    planned = torch.ones(6, 5 * step)[:, ::step]
    made = plan_of(bind(signature, (planned,), {}, no_key), signature.parameters)
    negated = ARRAYS["torch, negated"](shape)
    dense = negated.as_strided(shape, (shape[1], 1))
    assert negated.is_neg() and dense.is_neg() and made is not None
    with pytest.raises(FlyDSLError, match="negated lazily"):
        bind(signature, (negated,), {}, no_key)
    for native in (True, False):
        loaded = Loaded([struct.calcsize(each.format) for each in made.slots])
        served = make_warm(made, loaded, signature, None, native=native)
        assert served(planned) is True and served(negated) is False and served(dense) is False


# --- a new property of arrays ------------------------------------------------------------------------------------


@pytest.fixture
def writable(monkeypatch):
    """`must be writable`, as one entry of the table and one check."""
    entry = Field(
        "writable",
        lambda x, _: x.flags.writeable if isinstance(x, np.ndarray) else True,
        {"numpy": "{x}.flags.writeable"},
        {"numpy": Place("i32", fields.NumpyArray.flags.offset, bit=10)},
    )
    monkeypatch.setitem(fields.FIELDS, "writable", entry)
    check = plan.Check("writable", "bits", 1, mask=1, says="the array is read-only")
    limits = plan.array_limits
    monkeypatch.setattr("flydsl.compiler.call.tensor_argument.array_limits", lambda *args: (*limits(*args), check))
    native_reader._function.cache_clear()
    yield
    native_reader._function.cache_clear()


def test_a_property_is_one_entry(writable):
    def only(a: fx.Tensor):
        pass

    signature = Signature(only)
    array = np.ones((3, 4), np.float32)
    closed = array.view()
    closed.flags.writeable = False
    call = bind(signature, (array,), {}, no_key)
    made = plan_of(call, signature.parameters)
    loaded = Loaded([struct.calcsize(each.format) for each in made.slots])
    for native in (True, False):
        served = make_warm(made, loaded, signature, None, native=native)
        assert served(array) is True and served(closed) is False and served(torch.ones(3, 4)) is False
    with pytest.raises(ValueError, match="the array is read-only"):
        bind(signature, (closed,), {}, no_key)


# --- the switch --------------------------------------------------------------------------------------------------


def test_nothing_is_looked_into_without_the_switch(monkeypatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_READ_IN_PLACE", "0")
    monkeypatch.setattr(native_reader, "_probe", lambda *_: pytest.fail("looked into an array"))
    assert not can_read(np.ones(3)) and not can_read(torch.ones(3))


@pytest.mark.parametrize("what", ["header", "numpy"])
def test_objects_laid_out_otherwise_are_left_to_python(monkeypatch, what):
    if what == "header":
        monkeypatch.setattr(native_reader, "header_is_known", lambda: False)
    else:
        found = native_reader._probe
        monkeypatch.setattr(native_reader, "_probe", lambda *args: [n + 1 for n in found(*args)])
    assert not can_read(np.ones(3, np.float32))
    array = np.ones((3, 4), np.float32)
    made = plan_of(bind(Signature(lambda a: None), (array,), {}, no_key), Signature(lambda a: None).parameters)
    loaded = Loaded([struct.calcsize(each.format) for each in made.slots])
    monkeypatch.setattr(warm, "make_reader", lambda *_: pytest.fail("read natively"))
    assert make_warm(made, loaded, Signature(lambda a: None), None, native=True)(array) is True
    assert loaded.written[0] == struct.pack("<Q", array.ctypes.data)
