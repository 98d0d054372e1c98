"""What pyright knows of a user's file, with the package installed as a wheel installs it (py.typed and stubs).

The program below is written with right and wrong uses. Each line says what pyright must say of it, in strict mode:
`#: T` the type it reveals, `#! rule` the errors it reports, and a line without a mark nothing at all.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.typing import T, Int32x4
from flydsl.layout import make_layout
import flydsl.runtime
from flydsl.kernels.rows import softmax


@fx.struct
class Affine:
    scale: fx.Float32
    bias: fx.Float32
    unroll: fx.Constexpr[int]


@flyc.kernel
def axpy_kernel(x: fx.Tensor, y: fx.Tensor, by: fx.Float32, n: fx.Int32, p: Affine, width: fx.Constexpr[int]):
    reveal_type(x)  #: Tensor | Any
    reveal_type(x[0])  #: Numeric | Any
    reveal_type(x[0, 1])  #: Numeric | Any
    reveal_type(x[None, 1])  #: Tensor | Any
    reveal_type(x.load())  #: Vector | Any
    reveal_type(x.shape)  #: IntTuple | Any
    reveal_type(fx.thread_idx.x)  #: Int32
    i = fx.block_idx.x * width + fx.thread_idx.x
    reveal_type(i)  #: Int32
    reveal_type(i < n)  #: Boolean | Any
    reveal_type(n + 1)  #: Int32 | Any
    reveal_type(i // 2 - 3)  #: Int32
    reveal_type(i / 2)  #: Float32
    reveal_type(i & 7)  #: Int32
    reveal_type(i + fx.Int64(1))  #: Numeric | Any
    reveal_type((i == 0) & (i < 4))  #: Boolean
    reveal_type(by * 2.0)  #: Float32 | Any
    reveal_type(fx.exp(by))  #: Float32
    reveal_type(fx.exp(x.load()))  #: Vector
    reveal_type(fx.fma(2.0, by, by))  #: Float32
    reveal_type(fx.max(i, 3))  #: Int32
    reveal_type(fx.maximumf(by, 0.0))  #: Float32
    reveal_type(fx.ceildiv(n, 64))  #: Int32
    reveal_type(i.to(fx.Float32))  #: Float32 | Any
    reveal_type(x.load() * 2 + x.load())  #: Vector | Any
    reveal_type(x.load().reduce("add"))  #: Numeric | Any
    reveal_type(width)  #: int
    reveal_type(p.scale)  #: Float32 | Any
    reveal_type(fx.shuffle_xor(i, 1))  #: Int32
    tile = fx.zipped_divide(x, (64,))
    reveal_type(tile)  #: Tensor | Any
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    reveal_type(atom)  #: CopyAtom
    registers = fx.make_rmem_tensor(4, fx.Float32)
    reveal_type(registers)  #: Tensor
    reveal_type(registers[0])  #: Numeric
    reveal_type(registers.load())  #: Vector
    reveal_type(registers[None, 0])  #: Tensor
    fx.copy(atom, tile[None, 0], registers)
    reveal_type(fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64]).peek())  #: Array
    reveal_type(fx.make_view((0, 0), fx.make_identity_layout((4, 8)))[1, 2])  #: Any
    if i < n:
        y[i] = by * x[i] + y[i]
    x.no_such_method()  #! reportAttributeAccessIssue
    i.no_such_method()  #! reportAttributeAccessIssue
    fx.no_such_thing  #! reportAttributeAccessIssue
    fx.exp("text")  #! reportArgumentType
    fx.nvgpu.no_such_thing  #! reportAttributeAccessIssue
    fx.barrier(1)  #! reportCallIssue
    _ = i + "text"  #! reportOperatorIssue


@flyc.jit
def axpy(
    x: fx.Tensor, y: fx.Tensor, by: fx.Float32, n: fx.Int32, p: Affine, mask: fx.Tensor | None = None,
    stream: fx.Stream = fx.Stream(None),
):
    reveal_type(axpy_kernel(x, y, by, n, p, 4))  #: KernelLauncher
    axpy_kernel(x, y, by, n, p, 4).launch(grid=fx.ceildiv(n, 64), block=(64, 1, 1), stream=stream)
    axpy_kernel(x, y, by, n, p, 4, value_attrs={"nvvm.minctasm": 2}).launch(grid=n, block=64, smem=1024)
    axpy_kernel(x, y, by, n, p, 4).launch(grids=n)  #! reportCallIssue
    axpy_kernel(x, y, by)  #! reportCallIssue


a = np.ones(4, np.float32)
p = Affine(2.0, bias=1, unroll=4)
axpy(a, a, 2.0, 4, p)
axpy(a, a, 2.0, 4, p, None)
axpy(a, a, by=2.0, n=4, p=p, mask=a, stream=None)
axpy(a, a, 2.0, 4, p, None, None, 8, 9, 10, 11)  #! reportCallIssue
axpy(a, a, 2.0)  #! reportCallIssue
axpy(a, a, 2.0, 4, p, masks=a)  #! reportCallIssue
Affine(2.0)  #! reportCallIssue
Affine(2.0, 1.0, 4, 5)  #! reportCallIssue

compiled = flyc.compile(axpy, a, a, 2.0, 4, p)
reveal_type(compiled)  #: CompiledFunction
reveal_type(compiled.artifact)  #: CompiledArtifact
reveal_type(compiled.artifact.key)  #: str
reveal_type(compiled.artifact.target)  #: GPUTarget
reveal_type(compiled.artifact.target.backend)  #: str
reveal_type(compiled.artifact.asm)  #: str
compiled.artifact.no_such_member  #! reportAttributeAccessIssue
flyc.compile(3)  #! reportArgumentType
flyc.no_such_thing  #! reportAttributeAccessIssue
flydsl.runtime.no_such_thing  #! reportAttributeAccessIssue
flydsl.kernels.no_such_thing  #! reportAttributeAccessIssue
flydsl.testing.no_such_thing  #! reportAttributeAccessIssue
flydsl.no_such_thing  #! reportAttributeAccessIssue
fx.coop.no_such_thing  #! reportAttributeAccessIssue

layout = fx.make_layout((4, 8), (8, 1))
reveal_type(layout)  #: Layout
reveal_type(layout(1, 2))  #: IntTuple
reveal_type(layout(None, 2))  #: Layout
reveal_type(layout.shape)  #: IntTuple
reveal_type(fx.logical_divide(layout, (2, 4)))  #: Layout
reveal_type(fx.size(layout))  #: IntTuple
reveal_type(fx.make_composed_layout(fx.static(fx.SwizzleType.get(3, 3, 3)), layout))  #: ComposedLayout
fx.make_layout("text")  #! reportArgumentType
reveal_type(fx.Int32.width)  #: int | Any
reveal_type(T.i32)  #: Attribute
reveal_type(Int32x4)  #: type[Int32x4]
reveal_type(make_layout((4, 8), (8, 1)))  #: Layout
reveal_type(flydsl.runtime.get_device_runtime())  #: DeviceRuntime
reveal_type(softmax(a, a))  #: Any
softmax(a)  #! reportCallIssue
"""
REVEALED = re.compile(r'^Type of ".*" is "(.*)"$', re.S)


def check(folder: Path, program: str) -> dict[int, list[str]]:
    """What pyright says of each line of a program, in a folder where the package is installed."""
    packages = folder / "env" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "flydsl").symlink_to(ROOT / "src" / "flydsl")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    (folder / "pyrightconfig.json").write_text(
        json.dumps({"venvPath": str(folder), "venv": "env", "typeCheckingMode": "strict", "include": ["user.py"]}),
        encoding="utf-8",
    )
    (folder / "user.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "-p", str(folder)], capture_output=True, text=True, cwd=folder
    )
    said: dict[int, list[str]] = {}
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        revealed = REVEALED.match(one["message"])
        text = revealed[1] if revealed and one["severity"] == "information" else f"! {one.get('rule', one['message'])}"
        said.setdefault(one["range"]["start"]["line"] + 1, []).append(text)
    return {line: mistakes(found) for line, found in said.items()}


def mistakes(said: list[str]) -> list[str]:
    """What is said of a line, without the types that are unknown because of a mistake in it."""
    follow = ("! reportUnknown", "! reportUnusedExpression")
    return [text for text in dict.fromkeys(said) if not text.startswith(follow)] or said


def expected(program: str) -> dict[int, list[str]]:
    """What the marks of a program say."""
    found: dict[int, list[str]] = {}
    for number, line in enumerate(program.split("\n"), 1):
        _, revealed, kind = line.partition("  #: ")
        _, reported, rules = line.partition("  #! ")
        if revealed:
            found[number] = [kind]
        elif reported:
            found[number] = [f"! {rule}" for rule in rules.split(", ")]
    return found


def test_what_a_type_checker_knows(tmp_path: Path):
    pytest.importorskip("pyright")
    said, wanted = check(tmp_path, PROGRAM), expected(PROGRAM)
    lines = PROGRAM.split("\n")
    wrong = [
        f"{number}: {lines[number - 1].strip()}\n      said {said.get(number, [])}"
        for number in sorted({*said, *wanted})
        if sorted(said.get(number, [])) != sorted(wanted.get(number, []))
    ]
    assert not wrong, "pyright says something else:\n  " + "\n  ".join(wrong)
