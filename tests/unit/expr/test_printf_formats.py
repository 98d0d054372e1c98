"""printf takes Python's format specifications: what a kernel prints is what `format` gives."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLValueError

FLOATS = [f"{align}{sign}{width}{point}{kind}" for align, width in (("", ""), ("", "8"), ("", "012"), ("<", "11"),
          (">", "9")) for sign in ("", "+", " ") for point in (".0", ".3", "") for kind in "eGf"]  # fmt: skip
INTEGERS = [f"{align}{sign}{width}{kind}" for align, width in (("", ""), ("", "6"), ("", "07"), ("<", "5"), (">", "9"))
            for sign in ("", "+") for kind in ("d", "")]  # fmt: skip
WORDS = ["x", "X", "o", "08x", "#x", "#X", "#010x", "#o", "<9x", "5x"]


@flyc.kernel
def formats_kernel(x: fx.Tensor, n: fx.Tensor, small: fx.Tensor):
    for spec in FLOATS:
        fx.printf("{:" + spec + "}|{:" + spec + "}", x[0], x[1])
    for spec in INTEGERS:
        fx.printf("{:" + spec + "}|{:" + spec + "}", n[0], fx.Int64(n[1]))
    for spec in WORDS:
        fx.printf("{:" + spec + "}|{:" + spec + "}", n[0], fx.Uint32(n[2]))
    fx.printf("{:.3f} {:5.1f} {:04} {:>4}", n[0], 2.25, fx.Int32(7), "ab")
    fx.printf("{{{:.1f}}} 100% {}", small, fx.size(x))
    registers = fx.make_fragment_like(small)
    registers.store(small.load() + 1.0)
    fx.printf("{:.0f} {:.0f}", registers, registers.load())
    fx.printf("{} {}", x, x.layout)


@flyc.jit
def formats(x: fx.Tensor, n: fx.Tensor, small: fx.Tensor):
    fx.printf("host {:03d} {:.1e}", n.shape[0], fx.Float32(n.shape[0]))
    formats_kernel(x, n, small).launch(grid=1, block=1)


def test_a_kernel_prints_what_format_gives(capfd: pytest.CaptureFixture[str]):
    x = np.array([-12.34375, 0.00244140625, 7], np.float32)
    n = np.array([90210, -45, 0, 3], np.int32)
    small = np.arange(4, dtype=np.float32).reshape(2, 2)
    formats(x, n, flyc.from_dlpack(small))
    lines = capfd.readouterr().out.splitlines()
    a, b = float(x[0]), float(x[1])
    expected = ["host 004 4.0e+00"]
    expected += [f"{a:{spec}}|{b:{spec}}" for spec in FLOATS]
    expected += [f"{90210:{spec}}|{-45:{spec}}" for spec in INTEGERS]
    expected += [f"{90210:{spec}}|{0:{spec}}" for spec in WORDS]
    expected += ["90210.000   2.2 0007   ab", "{[[0.0, 1.0], [2.0, 3.0]]} 100% 3", "[[1, 2], [3, 4]] [1, 3, 2, 4]"]
    expected += ["Tensor<3:1> 3:1"] if "Tensor<3:1>" in lines[-1] else ["Tensor<(3):(1)> (3):(1)"]
    assert lines == expected


@pytest.mark.parametrize(
    ("spec", "value", "message"),
    [("d", 1.5, "for integers"), (".2", 3, "precision"), ("^5", 3, "cannot be printed"), (",", 3, "cannot be printed"),
     ("%", 0.5, "cannot be printed"), ("b", 3, "cannot be printed"), ("#6x", 3, "zeros: {:#06x}"),
     ("?!", 3, "no format")],
)  # fmt: skip
def test_formats_that_kernels_cannot_print(spec: str, value: float, message: str):
    with pytest.raises(DSLValueError, match=message):
        flyc.evaluate(lambda x: fx.printf("{:" + spec + "}", x), value)


def test_formats_reach_the_driver_of_nvidia():
    compiled = flyc.compile(
        formats, *(flyc.TensorSpec((4,), dtype) for dtype in ("float32", "int32")),
        flyc.TensorSpec((2, 2), "float32", dynamic=False), target="cuda:sm_90",
    )  # fmt: skip
    text = ", ".join(str(byte) for byte in b"%+012.3e|%+012.3e\n")
    assert f"{{{text}}}" in compiled.artifact.asm
