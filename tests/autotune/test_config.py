"""`Config` and `Space`: what they hold, what they refuse (T-1, T-2)."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flydsl
import flydsl.autotune
from flydsl.autotune import Autotuner, Config, Space, autotune
from flydsl.autotune.candidate import candidates_digest, plain_values
from flydsl.autotune.space import parse_space
from flydsl.errors import DSLTypeError, DSLValueError


def test_the_signature_is_the_one_of_the_rule():
    names = list(inspect.signature(autotune).parameters)
    assert names[:12] == [
        *("configs", "key", "warmup", "rep", "prune_configs_by", "reset_to_zero", "restore_value"),
        *("pre_hook", "post_hook", "do_bench", "default", "artifact_name"),
    ]
    defaults = inspect.signature(autotune).parameters
    assert (defaults["warmup"].default, defaults["rep"].default, defaults["key"].default) == (5, 25, None)


def test_the_attribute_is_the_decorator():
    tuned = flydsl.autotune([Config(a=1)])(lambda a: a)
    assert isinstance(tuned, Autotuner)
    assert flydsl.Config is Config
    assert flydsl.autotune is autotune
    assert type(sys.modules["flydsl.autotune"]) is ModuleType


def test_importing_the_package_loads_nothing():
    heavy = "('numpy', 'xdsl', 'llvmlite', 'torch')"
    code = f"import flydsl, flydsl.autotune, sys; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


scalars = st.integers() | st.booleans() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
names = st.from_regex(r"[A-Z][A-Z0-9_]{0,8}", fullmatch=True)


@given(st.dictionaries(names, scalars), st.none() | st.integers(1, 32), st.none() | st.integers(1, 255))
def test_to_dict_and_back(knobs: dict[str, object], warps: int | None, registers: int | None):
    config = Config(num_warps=warps, maxnreg=registers, **knobs)  # pyright: ignore
    again = Config.from_dict(config.to_dict())
    assert again == config and hash(again) == hash(config)
    assert again.all_kwargs() == config.all_kwargs() == {**knobs, **({} if warps is None else {"num_warps": warps})}
    assert again.compiler_opts() == ({} if registers is None else {"maxnreg": registers})
    assert plain_values(config) == config.to_dict()


def test_options_are_apart():
    config = Config(BLOCK=64, num_warps=4, waves_per_eu=2, maxnreg=128)
    assert config.all_kwargs() == {"BLOCK": 64, "num_warps": 4}
    assert config.compiler_opts() == {"waves_per_eu": 2, "maxnreg": 128}
    assert str(config) == "BLOCK=64, num_warps=4, waves_per_eu=2, maxnreg=128"
    assert plain_values(Config(x=(1, 2))) is None and plain_values(Config(x=float("nan"))) is None


@pytest.mark.parametrize("bad", [{"num_warps": 0}, {"num_warps": "4"}, {"maxnreg": -1}, {"pre_hook": 3}])
def test_bad_options(bad: dict[str, object]):
    with pytest.raises(DSLTypeError, match=next(iter(bad))):
        Config(**bad)  # pyright: ignore


@pytest.mark.parametrize(
    ("configs", "said"),
    [([], "no configuration"), ([3], "expected Config"), ("text", "sequence of Config"), (None, "sequence of Config")],
)
def test_bad_candidates(configs: object, said: str):
    with pytest.raises((DSLTypeError, DSLValueError), match=said):
        autotune(configs)(lambda x: x)


def test_a_knob_the_function_lacks():
    with pytest.raises(DSLValueError, match=r"gives 'TILE', but the parameters of .* are x, BLOCK"):
        autotune([Config(TILE=1)])(lambda x, BLOCK: x)
    with pytest.raises(DSLValueError, match="'TILE'"):
        autotune(Space(TILE=(1, 2)))(lambda x, BLOCK: x)


@pytest.mark.parametrize("option", ["key", "restore_value", "reset_to_zero"])
def test_names_of_no_argument(option: str):
    with pytest.raises(DSLValueError, match=f"{option}: there is no parameter 'm'; the parameters are x, BLOCK"):
        autotune([Config(BLOCK=1)], **{option: ["m"]})(lambda x, BLOCK: x)  # pyright: ignore
    with pytest.raises(DSLTypeError, match="list of names"):
        autotune([Config(BLOCK=1)], **{option: "x"})(lambda x, BLOCK: x)  # pyright: ignore


# --- spaces -------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=5),
    st.lists(st.integers(0, 20), min_size=1, max_size=5),
    st.integers(0, 40),
)
def test_a_space_is_the_product_where_its_condition_holds(a: list[int], b: list[int], most: int):
    space = Space(A=a, B=b, where=lambda c: c.A + c["B"] <= most)
    found = [(c.kwargs["A"], c.kwargs["B"]) for c in space]
    want = [(x, y) for x in dict.fromkeys(a) for y in dict.fromkeys(b) if x + y <= most]
    assert found == want and len(space) == len(want)
    for config in space:
        for other in space.neighbours(config):
            differ = [n for n in ("A", "B") if other.kwargs[n] != config.kwargs[n]]
            assert len(differ) == 1 and other in list(space)


def test_samples_are_seeded_and_inside():
    space = Space(A=range(100), B=range(100), C=range(100), where=lambda c: c.A % 2 == 0)
    first, again, other = space.sample(50, 1), space.sample(50, 1), space.sample(50, 2)
    assert first == again != other
    assert len(set(first)) == 50 and all(c.kwargs["A"] % 2 == 0 for c in first)  # pyright: ignore
    rare = Space(A=range(200), B=range(200), where=lambda c: c.A == 7 and c.B in (3, 5))
    assert {c.kwargs["B"] for c in rare.sample(10)} == {3, 5}


def test_bad_spaces():
    for make, said in (
        (lambda: Space(), "no knob"),
        (lambda: Space(A=()), "A has no value"),
        (lambda: Space(A="text"), "sequence of values"),
        (lambda: Space(A=3), "sequence of values"),  # pyright: ignore
        (lambda: Space(A=[1], where=3), "where is a function"),  # pyright: ignore
        (lambda: parse_space("A"), "NAME=VALUE"),
        (lambda: parse_space("A=1..x"), "FIRST..LAST"),
    ):
        with pytest.raises((DSLTypeError, DSLValueError), match=said):
            make()
    with pytest.raises(AttributeError, match="no knob 'B'; it has A"):
        list(Space(A=[1], where=lambda c: c.B))
    empty = autotune(Space(A=[1], where=lambda c: False))(lambda x, A: x)
    with pytest.raises(DSLValueError, match="no point of the space"):
        empty(1)


def test_options_are_knobs_too():
    (config,) = Space(num_warps=[4], maxnreg=[64], BLOCK=[8])
    assert config == Config(num_warps=4, maxnreg=64, BLOCK=8)
    assert [str(c) for c in parse_space("B=1..2,9 S=a F=true")] == [
        "B=1, S=a, F=True",
        "B=2, S=a, F=True",
        "B=9, S=a, F=True",
    ]


def test_the_digest_of_candidates_ignores_their_order():
    a, b = Config(x=1), Config(x=2)
    assert candidates_digest([a, b]) == candidates_digest([b, a]) != candidates_digest([a])
    assert candidates_digest([Config(x=1)]) != candidates_digest([Config(x=True)])


def test_sets_in_the_code_of_a_function_have_no_order():
    code = (
        "from flydsl.autotune.key import code_digest\n"
        "def f(x):\n    return x in {'alpha', 'beta', 'gamma', 'delta'} or x in ('a', frozenset)\n"
        "print(code_digest(f))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1
