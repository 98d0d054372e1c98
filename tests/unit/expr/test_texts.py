"""f-strings of traced functions: `printf` prints the values in them, `print` what is known while tracing."""

import re

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLRuntimeError, DSLValueError

SEEN: list[str] = []


def passed_on(text, value):
    fx.printf(text + " {}", value)


def made_by_a_helper(v):
    fx.printf(f"v is {v}")


@flyc.kernel
def everything(p: fx.Pointer, n: fx.Constexpr[int]):
    i, v, w = fx.thread_idx.x, p[0], 9
    fx.printf(f"a {p[i]} {n}")
    text = f"b {v}"
    fx.printf(text)
    fx.printf(f"c {v:.4f} {v:{w}.3e} {n:03d} {fx.Int32(3)}")
    fx.printf("d " + f"{v}" + f" of {i}" + " end")
    fx.printf(f"e {n} {{}} {v} {{:.1f}}", i, v)
    fx.printf("f {} {}", f"{v} {{x}}", i)
    fx.printf(f"g {v=} {n=} {i!s} {'s'!r}")
    fx.printf(f"h {fx.make_shape(4, i)} {p.load(fx.Float32x2)} {text}")
    fx.printf(f"really? {i if n else 0}")
    passed_on(f"k? {v}", i)
    fx.printf(format_str=f"l {i:04x}")
    SEEN.append(f"{v} {v=} {n:02d} {fx.make_shape(4, i)}")


@flyc.jit
def launch(kernel: fx.Constexpr, p: fx.Pointer, n: fx.Constexpr[int]):
    kernel(p, n).launch(block=64)


def test_values_are_printed(traced):
    SEEN.clear()
    text = traced(launch, everything, flyc.from_c_void_p(fx.Float32, 0), 5)
    assert re.findall(r'fly\.print\(.*?\) \{format = "(.*?)"\} : \((.*?)\) -> \(\)', text) == [
        ("a {} 5", "f32"),
        ("b {}", "f32"),
        ("c {:.4f} {:9.3e} 005 3", "f32, f32"),
        ("d {} of {} end", "f32, i32"),
        ("e 5 {} {} {:.1f}", "i32, f32, f32"),
        ("f {} {{x}} {}", "f32, i32"),
        ("g v={} n=5 {} 's'", "f32, i32"),
        ("h (4,{}) [{}, {}] b {}", "i32, f32, f32, f32"),
        ("really? {}", "i32"),
        ("k? {} {}", "f32, i32"),
        ("l {:04x}", "i32"),
    ]
    assert SEEN == ["? v=Float32(?) 05 IntTuple<(4,?)>"]


@flyc.kernel
def by_a_helper(p: fx.Pointer, n: fx.Constexpr[int]):
    made_by_a_helper(p[0])


@flyc.kernel
def by_format(p: fx.Pointer, n: fx.Constexpr[int]):
    fx.printf("v is {}".format(p[0]))  # noqa: UP032


@flyc.kernel
def by_percent(p: fx.Pointer, n: fx.Constexpr[int]):
    fx.printf("v is %s" % p[0])  # noqa: UP031


@flyc.kernel
def taken_apart(p: fx.Pointer, n: fx.Constexpr[int]):
    fx.printf(f"v is {p[0]}".upper())


@pytest.mark.parametrize("kernel", [by_a_helper, by_format, by_percent, taken_apart], ids=lambda k: k.__name__)
def test_a_question_mark_is_not_printed(traced, kernel):
    with pytest.raises(DSLValueError, match=r"(?i)printf\('v is \?'\): this text was made while tracing.*give them to"):
        traced(launch, kernel, flyc.from_c_void_p(fx.Float32, 0), 5)


@flyc.kernel
def formatted(p: fx.Pointer, n: fx.Constexpr[int]):
    SEEN.append(f"{p[0]:.3f}")


@flyc.kernel
def half_a_brace(p: fx.Pointer, n: fx.Constexpr[int]):
    fx.printf(f"{{{p[0]}")


def test_mistakes(traced):
    pointer = flyc.from_c_void_p(fx.Float32, 0)
    with pytest.raises(DSLRuntimeError, match="cannot be formatted"):
        traced(launch, formatted, pointer, 5)
    with pytest.raises(DSLValueError, match=r"printf\('\{\?'\): '\{' is no placeholder"):
        traced(launch, half_a_brace, pointer, 5)
