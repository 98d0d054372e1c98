"""What a trace uses up or changes: each call is traced from the state that the one before has left, on every way."""

from __future__ import annotations

import itertools
import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

HEAD = """
import collections, functools, io, itertools, os, queue, random, statistics
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx
class Held:
    n = 0
    ids = itertools.count(1)
def draw():
    yield from range(1, 99)
"""
IN_KERNEL = """
@flyc.kernel
def store_kernel(x: fx.Tensor):
    x[0] = int(value())
@flyc.jit
def run(x: fx.Tensor):
    store_kernel(x).launch(grid=1, block=1)
"""
IN_HOST = """
@flyc.kernel
def store_kernel(x: fx.Tensor, n: fx.Constexpr[int]):
    x[0] = n
@flyc.jit
def run(x: fx.Tensor, o: fx.Constexpr = None):
    store_kernel(x, int(value(o) if o is not None else value())).launch(grid=1, block=1)
"""
numbers = itertools.count()


def calls_of(source: str, run: str = IN_KERNEL) -> Callable[[], int]:
    """The program made anew, as in a new process on the same cache; gives what a call stores."""
    name = f"<used up {next(numbers)}>"
    text = HEAD + source + run
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "used_up"}
    exec(compile(text, name, "exec", dont_inherit=True), space)

    def call() -> int:
        x = np.zeros(1, np.int32)
        space["run"](x, *([space["O"]] if run is IN_HOST and "O" in space else []))
        return int(x[0])

    call.space = space  # type: ignore[attr-defined]
    return call


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "0")


COUNTED = {
    "list iterator": "I = iter([1, 2, 3, 4, 5])\ndef value(): return next(I)",
    "count": "I = itertools.count(1)\ndef value(): return next(I)",
    "bound next": "N = itertools.count(1).__next__\ndef value(): return N()",
    "partial": "N = functools.partial(next, itertools.count(1))\ndef value(): return N()",
    "default": "def value(i=iter([1, 2, 3, 4, 5])): return next(i)",
    "class attribute": "def value(): return next(Held.ids)",
    "pop": "L = [5, 4, 3, 2, 1]\ndef value(): return L.pop()",
    "deque": "L = collections.deque([1, 2, 3, 4, 5])\ndef value(): return L.popleft()",
    "queue": "Q = queue.Queue()\nfor i in range(1, 9): Q.put(i)\ndef value(): return Q.get()",
    "file": "F = io.StringIO('12345')\ndef value(): return F.read(1)",
    "global": "C = 0\ndef value():\n    global C\n    C += 1\n    return C",
    "attribute": "O_ = Held()\ndef value():\n    O_.n += 1\n    return O_.n",
    "array": "A = np.zeros(1, int)\ndef value():\n    A[0] += 1\n    return A[0]",
    "item": "C = [0]\ndef value():\n    C[0] += 1\n    return C[0]",
    "growing": "D = {}\ndef value():\n    D[len(D)] = 1\n    return len(D)",
    "variable": (
        "os.environ.pop('USED_UP', '')\ndef value():\n"
        "    os.environ['USED_UP'] = str(int(os.environ.get('USED_UP', '0')) + 1)\n"
        "    return os.environ['USED_UP']"
    ),
}


@pytest.mark.parametrize("name", COUNTED)
def test_what_a_trace_uses_up_is_gone_at_the_next_call(name: str):
    for _ in range(2):
        call = calls_of(COUNTED[name])
        assert [call() for _ in range(4)] == [1, 2, 3, 4]


@pytest.mark.filterwarnings("ignore:.*is traced at every call")
@pytest.mark.parametrize("name", ["generator", "simple queue"])
def test_what_no_key_can_hold_is_used_up_too(name: str):
    source = {
        "generator": "I = draw()\ndef value(): return next(I)",
        "simple queue": "Q = queue.SimpleQueue()\nfor i in range(1, 9): Q.put(i)\ndef value(): return Q.get()",
    }
    for _ in range(2):
        call = calls_of(source[name])
        assert [call() for _ in range(4)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "source",
    [
        "O = [4, 3, 2, 1]\ndef value(o): return o.pop()",
        "O = iter([1, 2, 3, 4])\ndef value(o): return next(o)",
        "O = Held()\ndef value(o):\n    o.n += 1\n    return o.n",
    ],
)
def test_arguments_are_used_up_too(source: str):
    for _ in range(2):
        call = calls_of(source, IN_HOST)
        assert [call() for _ in range(4)] == [1, 2, 3, 4]


def test_a_state_that_comes_back_is_traced_again():
    for _ in range(2):
        call = calls_of("C = [0]\ndef value():\n    C[0] = C[0] % 3 + 1\n    return C[0]")
        assert [call() for _ in range(8)] == [1, 2, 3, 1, 2, 3, 1, 2]


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        ("random.randrange(10**6)", lambda: random.randrange(10**6)),
        ("random.gauss(1e5, 1e4)", lambda: int(random.gauss(1e5, 1e4))),
        ("statistics.NormalDist(1e5, 1e4).samples(1)[0]", lambda: int(random.gauss(1e5, 1e4))),
        ("np.random.randint(10**6)", lambda: np.random.randint(10**6)),
    ],
)
def test_random_numbers_are_drawn_at_every_call(drawn: str, expected: Callable[[], int]):
    """Also inside of functions of libraries, whose code no key looks at."""
    for _ in range(2):
        random.seed(5)
        np.random.seed(5)
        want = [expected() for _ in range(4)]
        call = calls_of(f"random.seed(5)\nnp.random.seed(5)\ndef value(): return {drawn}")
        got = [call() for _ in range(4)]
        assert len(set(got)) == 4
        if "NormalDist" not in drawn:
            assert got == want


def test_a_memo_is_filled_once():
    """Its first trace changes what it reads, the second finds it filled: both states are answered from the cache."""
    source = "M = {}\ndef value():\n    return M.setdefault('n', 7)"
    call = calls_of(source)
    assert [call() for _ in range(4)] == [7] * 4
    assert call.space["run"].cache_info().misses == 2  # type: ignore[attr-defined]
    again = calls_of(source)
    assert [again() for _ in range(4)] == [7] * 4
    assert again.space["M"] == {}, "nothing was traced"  # type: ignore[attr-defined]


def test_what_is_only_noted_is_built_once(monkeypatch: pytest.MonkeyPatch):
    built = []
    from flydsl.compiler.build import driver

    plain = driver.compile_module
    monkeypatch.setattr(driver, "compile_module", lambda *a, **k: built.append(1) or plain(*a, **k))
    call = calls_of("LOG = []\ndef value():\n    LOG.append('traced')\n    return 7")
    assert [call() for _ in range(4)] == [7] * 4
    assert len(call.space["LOG"]) == 4 and len(built) == 1  # type: ignore[attr-defined]
