"""IR that was taken apart is gone without the garbage collector; what it shared with others is as it was."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.ir.discard import discard
from flydsl.ir.printer import print_ir
from flydsl.ir.registry import make_context

TEXT = """
func.func @f(%n: i32, %x: f32) -> f32 {
  %c = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = scf.for %i = %c to %n step %one iter_args(%a = %x) -> (f32) : i32 {
    %even = arith.cmpi slt, %i, %one : i32
    %b = scf.if %even -> (f32) {
      %d = arith.addf %a, %x : f32
      scf.yield %d : f32
    } else {
      %d = arith.mulf %a, %a : f32
      scf.yield %d : f32
    }
    scf.yield %b : f32
  }
  cf.br ^next(%r : f32)
^next(%y: f32):
  func.return %y : f32
}
"""


@pytest.fixture
def collector_off():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def parsed() -> ModuleOp:
    return Parser(make_context(), TEXT).parse_module()


def test_nothing_is_left(collector_off):
    module, other = parsed(), parsed()
    text = print_ir(other)
    parts = [*module.walk(), *(block for op in module.walk() for region in op.regions for block in region.blocks)]
    left = [weakref.ref(part) for part in parts]
    assert len(left) > 15
    del parts
    discard(module)
    del module
    assert not any(ref() for ref in left)
    assert print_ir(other) == text


@flyc.kernel
def scale_kernel(x: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        x[i] = x[i] * 2.0


@flyc.jit
def scale(x: fx.Tensor, n: fx.Int32):
    scale_kernel(x, n).launch(grid=fx.ceildiv(n, 64), block=64)


@pytest.mark.parametrize("target", ["cpu:native", "rocm:gfx942", "cuda:sm_90a"])
def test_a_compilation_leaves_the_traced_module_alone(collector_off, target: str):
    flyc.invalidate_all()
    before = {id(x) for x in gc.get_objects() if isinstance(x, ModuleOp)}
    artifact = flyc.compile(scale, np.zeros(100, np.float32), 100, target=target, run=False).artifact
    left = [x for x in gc.get_objects() if isinstance(x, ModuleOp) and id(x) not in before]
    assert [x for x in left if x.__dict__] == left, "no module that was taken apart is kept"
    assert len(left) <= 1
    assert "scf.if" in artifact.source_ir and "fly.memref.store" in artifact.source_ir


def test_who_looks_may_keep_the_last_that_was_seen(monkeypatch: pytest.MonkeyPatch):
    """A watcher of passes; and whoever gives a module to be compiled."""
    from flydsl.compiler.build.dumps import watching
    from flydsl.compiler.mlir_compiler import MlirCompiler

    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    seen: list[tuple[ModuleOp, str]] = []
    flyc.invalidate_all()
    with watching(lambda name, module: seen.append((module, print_ir(module)))):
        made = flyc.compile(scale, np.zeros(100, np.float32), 100, target="rocm:gfx942", run=False).artifact
    assert len(seen) > 3
    module = Parser(make_context(), made.source_ir).parse_module()
    assert MlirCompiler.compile(module, arch="gfx942").sections["hsaco"]
    assert "scf.if" in print_ir(module)
    last, text = seen[-1]
    assert print_ir(last) == text
