"""The printer writes what MLIR writes, its text can be read again, and it is fast enough for dumps."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from xdsl.dialects.builtin import IntegerType
from xdsl.printer import Printer

from flydsl.ir.parser import LocatedParser
from flydsl.ir.printer import print_ir
from flydsl.ir.registry import make_context

MLIR_OPT = shutil.which("mlir-opt-22")
UPSTREAM = sorted((Path(__file__).resolve().parents[2] / "filecheck" / "dialects" / "upstream").glob("*.mlir"))

TEXT = """\
module {
  func.func private @g(i32) -> (i32, i32)
  func.func @f(%arg0: i32, %arg1: index) -> i32 {
    %c3_i32 = arith.constant 3 : i32
    %c-5_i64 = arith.constant -5 : i64
    %c7 = arith.constant 7 : index
    %true = arith.constant true
    %cst = arith.constant 1.000000e+00 : f32
    %cst_0 = arith.constant dense<0> : vector<4xi32>
    %0:2 = call @g(%arg0) : (i32) -> (i32, i32)
    scf.for %arg2 = %arg1 to %c7 step %arg1 {
      %c3_i32_1 = arith.constant 3 : i32
      %5 = arith.addi %c3_i32_1, %c3_i32 : i32
      scf.for %arg3 = %arg1 to %c7 step %arg1 {
        %c3_i32_2 = arith.constant 3 : i32
        %6 = arith.addi %5, %c3_i32_2 : i32
      }
    }
    %1 = scf.for %arg2 = %arg1 to %c7 step %arg1 iter_args(%arg3 = %0#1) -> (i32) {
      %c3_i32_1 = arith.constant 3 : i32
      %5:2 = func.call @g(%arg3) : (i32) -> (i32, i32)
      scf.yield %5#1 : i32
    }
    %2 = scf.while (%arg2 = %1) : (i32) -> i32 {
      scf.condition(%true) %arg2 : i32
    } do {
    ^bb0(%arg2: i32):
      scf.yield %arg2 : i32
    }
    scf.while : () -> () {
      %true_1 = arith.constant true
      scf.condition(%true_1)
    } do {
      scf.yield
    }
    cf.cond_br %true, ^bb1(%2 : i32), ^bb2
  ^bb1(%3: i32):  // 2 preds: ^bb0, ^bb1
    %4 = arith.addi %3, %0#0 : i32
    cf.cond_br %true, ^bb1(%4 : i32), ^bb2
  ^bb2:  // 2 preds: ^bb0, ^bb1
    return %2 : i32
  ^bb3:  // no predecessors
    return %arg0 : i32
  }
  gpu.module @kernels {
    gpu.func @k(%arg0: memref<16xf32, 3>, %arg1: f32) kernel attributes {a = 1 : i32, b.c, z = "w"} {
      %thread_id_x = gpu.thread_id x
      %thread_id_x_0 = gpu.thread_id x
      %0 = gpu.lane_id
      memref.store %arg1, %arg0[%thread_id_x_0] : memref<16xf32, 3>
      gpu.return
    }
    gpu.func @l() -> i32 {
      %c1_i32 = arith.constant 1 : i32
      gpu.return %c1_i32 : i32
    }
  }
}
"""


def parsed(text: str):
    module = LocatedParser(make_context(allow_unregistered=True), text, "text.mlir").parse_module()
    module.verify()
    return module


def squeezed(text: str) -> str:
    """Without blanks: where they stand is not what is compared."""
    return re.sub(r"\s+", "", text)


def upstream(text: str, *options: str) -> str:
    command = [str(MLIR_OPT), "--mlir-print-local-scope", *options]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_names_and_forms_are_those_of_mlir():
    assert print_ir(parsed(TEXT)) == TEXT


@pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt-22 is not installed")
@pytest.mark.parametrize("generic", [False, True])
def test_mlir_prints_the_same(generic: bool):
    options = ["--mlir-print-op-generic"] if generic else []
    ours = print_ir(parsed(TEXT), generic=generic)
    assert squeezed(upstream(ours, *options)) == squeezed(ours)


# What upstream leaves out of these two: a default, and the name of a type that the op implies.
KNOWN = re.compile(r"rocdl\.(wmma\.i32|permlane32\.swap).*")


@pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt-22 is not installed")
@pytest.mark.parametrize("path", UPSTREAM, ids=lambda path: path.stem)
def test_mlir_prints_the_same_of_every_upstream_op(path: Path):
    ours = print_ir(parsed(path.read_text()))
    theirs = upstream(path.read_text())
    assert squeezed(KNOWN.sub("", upstream(ours))) == squeezed(KNOWN.sub("", theirs))
    assert squeezed(KNOWN.sub("", ours)) == squeezed(KNOWN.sub("", theirs))


def test_names_on_request():
    text = TEXT.replace("%c3_i32", "%three").replace("%arg0", "%x").replace("%4", "%sum").replace("^bb1", "^loop_1")
    text = text.replace("%0:2", "%pair:2").replace("%0#", "%pair#")
    kept = print_ir(parsed(text), hints=True)
    for name in ("%three = arith.constant", "%x: i32", "%sum = arith.addi", "%three_"):
        assert name in kept
    assert print_ir(parsed(kept)) == TEXT
    assert print_ir(parsed(kept), hints=True) == kept
    assert print_ir(parsed(text)) == TEXT


@pytest.mark.parametrize("generic", [False, True])
def test_locations_on_request(generic: bool):
    module = parsed(TEXT)
    text = print_ir(module, generic=generic, debuginfo=True)
    assert 'loc("text.mlir":4:15)' in text
    again = parsed(text)
    # Ops that the first text leaves out are nowhere in it; in the second one they are.
    first, second = text.split("\n"), print_ir(again, generic=generic, debuginfo=True).split("\n")
    pairs = [pair for pair in zip(first, second, strict=True) if "unknown" not in pair[0]]
    assert [a for a, _ in pairs] == [b for _, b in pairs]
    assert print_ir(again) == TEXT


def test_several_names_for_the_results_of_one_op():
    text = """\
module {
  %cst = arith.constant 1.000000e+00 : f32
  %c0_i32 = arith.constant 0 : i32
  %shuffleResult, %valid = gpu.shuffle  xor %cst, %c0_i32, %c0_i32 : f32
  %0:2 = "test.two"(%valid) : (i1) -> (i32, i32)
  %shuffleResult_0, %valid_1 = gpu.shuffle  xor %shuffleResult, %0#0, %0#1 : f32
  "test.region"() ({
    %1 = "test.one"() {a = 1 : i32, b} : () -> i32
  }, {
    %1 = "test.one"() : () -> i32
  ^bb1(%2: i32):  // no predecessors
    %3 = "test.one"() : () -> i32
  }) : () -> ()
}
"""
    module = parsed(text)
    assert squeezed(print_ir(module)) == squeezed(text)
    if MLIR_OPT is not None:
        assert squeezed(upstream(text, "--allow-unregistered-dialect")) == squeezed(text)


def test_an_op_of_a_larger_module_names_what_it_uses():
    """Values of outside have names, too, though MLIR prints none."""
    module = parsed(TEXT)
    op = next(op for op in module.walk() if op.name == "arith.addi")
    assert re.fullmatch(r"%0 = arith\.addi %\w+, %\w+ : i32\n", print_ir(op))


@pytest.mark.parametrize("generic", [False, True])
def test_an_attribute_is_printed_once(generic: bool, monkeypatch: pytest.MonkeyPatch):
    """What makes it fast: the work for each attribute, and no other per op, is done anew."""
    lines = "\n".join(f"    %{i + 1} = llvm.add %{i}, %arg0 : i32" for i in range(300))
    module = parsed(f"func.func @f(%arg0: i32) {{\n%0 = llvm.add %arg0, %arg0 : i32\n{lines}\nreturn\n}}")
    printed: list[IntegerType] = []
    whole = IntegerType.print_builtin

    def counted(self: IntegerType, printer: Printer) -> None:
        printed.append(self)
        whole(self, printer)

    monkeypatch.setattr(IntegerType, "print_builtin", counted)
    print_ir(module, generic=generic)
    assert len(printed) < 5


def test_zeros_of_both_signs():
    text = "module {\n  %cst = arith.constant 0.000000e+00 : f32\n  %cst_0 = arith.constant -0.000000e+00 : f32\n}\n"
    assert print_ir(parsed(text)) == text


def test_vectors_of_zeros_of_both_signs():
    """xDSL takes them for one number everywhere."""
    text = "module {\n  %cst = arith.constant dense<[-0.000000e+00, 0.000000e+00]> : vector<2xf32>\n}\n"
    assert print_ir(parsed(text)) == text
    assert "dense<[[-0.000000e+00], [0.000000e+00]]>" in print_ir(
        parsed("module {\n  %cst = arith.constant dense<[[-0.0], [0.0]]> : vector<2x1xf32>\n}\n")
    )
