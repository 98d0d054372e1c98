"""Whatever a kernel reads from a global, two values that differ give two keys, or the value is said to have none."""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import enum
import fractions
import functools
import operator
import pathlib
import re
import types
import typing
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flydsl.compiler.key.constant_keys import constexpr_key, hint_key
from flydsl.compiler.key.function_key import FunctionKey
from flydsl.compiler.key.states import note_state
from flydsl.compiler.key.walk import Walk, function_key


class Plain:
    def __init__(self, **fields: object):
        self.__dict__.update(fields)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: object, b: object):
        self.a, self.b = a, b


class Dispatching:
    @functools.singledispatchmethod
    def call(self, x: object) -> int:
        return 1

    @functools.cached_property
    def size(self) -> int:
        return 3


class Colour(enum.IntFlag):
    RED = 1
    BLUE = 2


class Text(str):
    pass


def plus(x: Any, y: Any = 1) -> Any:
    return x + y


def minus(x: Any, y: Any = 1) -> Any:
    return x - y


class Counter(dict[str, int]):
    pass


VALUES: list[list[object]] = [
    [slice(1, 2), slice(1, 3), slice(0, 2), slice(1, 2, 2), range(3), range(0, 3, 2), range(1, 3)],
    [array.array("i", [1, 2]), array.array("i", [1, 3]), array.array("f", [1, 2]), bytearray(b"a"), bytearray(b"b")],
    [np.array([1, 2]), np.array([1, 3]), np.array([1.0, 2.0]), np.array([[1, 2]]), np.array([1, 2], "i2")],
    [np.float32(1), np.float32(2), np.float64(1), np.dtype("f4"), np.dtype("f8"), np.dtype([("a", "f4")])],
    [collections.deque([1, 2]), collections.deque([2, 1]), collections.deque([1, 2], maxlen=3)],
    [collections.defaultdict(int, a=1), collections.defaultdict(list, a=1), collections.OrderedDict(a=1)],
    [Counter(a=1), Counter(a=2), collections.Counter("aab"), collections.Counter("ab")],
    [types.MappingProxyType({1: 2}), types.MappingProxyType({1: 3}), types.SimpleNamespace(a=1, b=2)],
    [functools.partial(plus, 1), functools.partial(plus, 2), functools.partial(minus, 1), functools.partial(plus, y=1)],
    [operator.itemgetter(1), operator.itemgetter(2), operator.attrgetter("a"), operator.methodcaller("a")],
    [decimal.Decimal("1.0"), decimal.Decimal("1.00"), fractions.Fraction(1, 3), fractions.Fraction(2, 3)],
    [datetime.date(2000, 1, 1), datetime.date(2000, 1, 2), datetime.timedelta(1), datetime.timedelta(2)],
    [re.compile("a"), re.compile("b"), re.compile("a", re.IGNORECASE), uuid.UUID(int=1), uuid.UUID(int=2)],
    [pathlib.PurePosixPath("/a"), pathlib.PurePosixPath("/b"), Text("a"), Text("b"), "a"],
    [Plain(a=1), Plain(a=2), Plain(b=1), Plain(a=1, b=2), Plain(a=[1]), Plain(a=Plain(a=1)), Plain(a=Plain(a=2))],
    [Slotted(1, 2), Slotted(2, 1), Slotted(1, [2]), Slotted(1, Slotted(1, 2)), Slotted(1, Slotted(1, 3))],
    [Colour.RED, Colour.BLUE, Colour.RED | Colour.BLUE, 1, 2, 3],
    [plus, minus, Plain(a=1).__init__, [].append, len, max, np.add, np.multiply, np.add.reduce],
    [plus.__code__, minus.__code__, Dispatching(), property(plus), property(minus), staticmethod(plus)],
    [typing.ForwardRef("int"), typing.ForwardRef("str"), typing.ForwardRef("int", module="json"), "int"],
    [list[int], list[str], dict[str, int], int | str, int | None, Callable[[int], str], Callable[[int], int]],
    [(1, 2), [1, 2], {1, 2}, frozenset({1, 2}), {1: 2}, (1, (2,)), ((1,), 2), ((1, 2),), b"\1\2"],
    [{"a": [1, {"b": (2, 3)}]}, {"a": [1, {"b": (2, 4)}]}, {"a": [1, {"c": (2, 3)}]}, {"a": (1, {"b": (2, 3)})}],
]


def key_of(value: object) -> FunctionKey:
    """Of a kernel that hands the value on, and reads its attributes by the names that are used here."""
    space: dict[str, Any] = {"__name__": "made", "G": value}
    exec("def kernel(x):\n    return use(x, G), G.a, G.b, G.c", space)
    return function_key(space["kernel"], environment=False)


@pytest.mark.parametrize("values", VALUES, ids=lambda values: type(values[0]).__name__)
def test_other_value_other_key(values: list[object]):
    known = [(value, key) for value in values if not (key := key_of(value)).problems]
    digests = [key.digest for _, key in known]
    assert len(set(digests)) == len(digests), [str(value) for value, _ in known]
    assert [key_of(value).digest for value, _ in known] == digests
    # Few things have no key at all, and those are traced each time.
    assert len(known) >= len(values) - 3


@pytest.mark.parametrize(
    ("value", "change"),
    [
        ([1, 2], lambda x: x.append(3)),
        ({"a": 1}, lambda x: x.update(a=2)),
        ({1, 2}, lambda x: x.add(3)),
        (bytearray(b"ab"), lambda x: x.extend(b"c")),
        (array.array("i", [1, 2]), lambda x: x.append(3)),
        (np.arange(3), lambda x: x.__setitem__(0, 7)),
        (collections.deque([1]), lambda x: x.append(2)),
        (Plain(a=1), lambda x: setattr(x, "a", 2)),
        (Plain(a=[1]), lambda x: x.a.append(2)),
        (Slotted(1, 2), lambda x: setattr(x, "b", 3)),
        (types.SimpleNamespace(a={"b": [1]}), lambda x: x.a["b"].append(2)),
        ((1, [2]), lambda x: x[1].append(2)),
        (functools.partial(plus, [1]), lambda x: x.args[0].append(2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_changes_in_place_is_noticed(value: object, change: Callable[[Any], object]):
    record = key_of(value)
    assert record.check()
    before = record.digest
    change(value)
    try:
        kept = record.check()
    except RuntimeError:
        kept = False
    assert not kept and key_of(value).digest != before


class Named(typing.NamedTuple):
    a: int
    b: str = ""


def test_annotations_that_are_text_count_by_their_text():
    annotations = dict(Named.__annotations__)
    assert any(isinstance(each, typing.ForwardRef) for each in annotations.values())
    record = key_of(annotations)
    assert typing.get_type_hints(Named) == {"a": int, "b": str}  # they keep what they were evaluated to
    assert record.check() and key_of(annotations).digest == record.digest
    assert key_of({**annotations, "b": typing.ForwardRef("bytes")}).digest != record.digest


def test_plain_values_speak_for_themselves_and_classes_of_users_do_not():
    values: list[object] = [
        None,
        True,
        1,
        1.0,
        "1",
        b"1",
        (1,),
        (1.0,),
        (True,),
        ("1",),
        ((1,),),
        0.0,
        -0.0,
        int,
        float,
    ]
    assert len({repr(constexpr_key(value)) for value in values}) == len(values)
    for value in (Plain, Plain(a=1), [1], {1: 2}, Colour.RED, np.float32(1), plus):
        with pytest.raises(TypeError):
            constexpr_key(value)
    assert len({hint_key(value) for value in ((1, 2), "12", 12)}) == 3
    assert hint_key([1, 2]) != hint_key([2, 1])


def test_names_and_constants_beyond_the_first_256():
    """Larger arguments of instructions come in parts."""
    names = [f"name{i}" for i in range(700)]
    space: dict[str, Any] = {"__name__": "made", **{name: 1 for name in names}}
    lines = [f"    x = x + {name} + {1000 + i}" for i, name in enumerate(names)]
    exec("\n".join(["def kernel(x):", *lines, "    return x"]), space)
    before = function_key(space["kernel"], environment=False)
    for name in (names[1], names[200], names[300], names[600], names[-1]):
        space[name] = 2
        assert function_key(space["kernel"], environment=False).digest != before.digest, name
        space[name] = 1
    assert function_key(space["kernel"], environment=False).digest == before.digest


@pytest.mark.parametrize("module", ["decimal", "_decimal"])
def test_a_state_counts_whichever_module_a_version_of_python_puts_its_function_in(module: str):
    walk = Walk(plus, ())
    note_state(walk, module, "getcontext")
    (probe,) = walk.probes
    with decimal.localcontext() as context:
        assert probe()
        context.prec += 1
        assert not probe()
