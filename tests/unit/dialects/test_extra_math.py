"""Text and verification of the scalar ops xDSL lacks, and of its `arith` ops on vectors."""

import shutil
import subprocess

import pytest
from xdsl.context import Context
from xdsl.dialects import builtin, func, math, test
from xdsl.ir import Dialect
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from flydsl.dialects.upstream import extra_math
from flydsl.dialects.upstream.arith import Arith

PROGRAM = """builtin.module {
  func.func @f(%i: vector<4xi32>, %x: vector<4xf32>, %s: f32, %n: index, %c: i1) {
    %0 = arith.extsi %i : vector<4xi32> to vector<4xi64>
    %1 = arith.extui %i : vector<4xi32> to vector<4xi64>
    %2 = arith.trunci %i : vector<4xi32> to vector<4xi8>
    %3 = arith.cmpi slt, %i, %i : vector<4xi32>
    %4 = arith.cmpf olt, %x, %x fastmath<nnan> : vector<4xf32>
    %5 = arith.cmpf une, %s, %s : f32
    %6 = arith.truncf %s toward_zero : f32 to bf16
    %7 = arith.truncf %x upward fastmath<fast> : vector<4xf32> to vector<4xbf16>
    %8 = arith.truncf %x fastmath<nnan> : vector<4xf32> to vector<4xbf16>
    %9 = arith.truncf %x : vector<4xf32> to vector<4xbf16>
    %10 = arith.extf %9 fastmath<fast> : vector<4xbf16> to vector<4xf32>
    %11 = arith.sitofp %i : vector<4xi32> to vector<4xf32>
    %12 = arith.uitofp %i : vector<4xi32> to vector<4xf32>
    %13 = arith.fptosi %x : vector<4xf32> to vector<4xi32>
    %14 = arith.fptoui %x : vector<4xf32> to vector<4xi32>
    %15 = arith.index_cast %n : index to i32
    %16 = arith.index_cast %i : vector<4xi32> to vector<4xindex>
    %17 = arith.remf %s, %s : f32
    %18 = math.erfc %x fastmath<afn> : vector<4xf32>
    %19 = arith.select %3, %i, %i : vector<4xi1>, vector<4xi32>
    %20 = arith.select %c, %i, %i : vector<4xi32>
    func.return
  }
}
"""


def context() -> Context:
    made = Context()
    for dialect in (builtin.Builtin, func.Func, test.Test):
        made.load_dialect(dialect)
    made.load_dialect(Arith)
    made.load_dialect(Dialect("math", [*math.Math.operations, extra_math.ErfcOp], []))
    return made


def test_round_trip():
    module = Parser(context(), PROGRAM).parse_module()
    module.verify()
    assert str(module).strip() == PROGRAM.strip()
    assert str(Parser(context(), str(module)).parse_module()) == str(module)


@pytest.mark.skipif(shutil.which("mlir-opt-22") is None, reason="mlir-opt-22 is not installed")
def test_upstream_reads_the_text():
    done = subprocess.run(["mlir-opt-22"], input=PROGRAM, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("op", "complaint"),
    [
        ('"arith.extsi"(%i) : (vector<4xi32>) -> vector<2xi64>', "same shape"),
        ('"arith.extsi"(%i) : (vector<4xi32>) -> vector<4xi16>', "must be larger"),
        ('"arith.trunci"(%i) : (vector<4xi32>) -> vector<4xi64>', "must be smaller"),
        ('"arith.truncf"(%s) : (f32) -> f64', "must be smaller"),
        ('"arith.index_cast"(%i) : (vector<4xi32>) -> vector<4xi64>', "between index and an integer"),
        ('"arith.select"(%m, %s, %s) : (vector<4xi1>, f32, f32) -> f32', "condition must be"),
        ('"arith.cmpi"(%i, %i) <{predicate = 0 : i64}> : (vector<4xi32>, vector<4xi32>) -> i1', "same shape"),
    ],
)
def test_verifier(op: str, complaint: str):
    text = f'%i, %s, %m = "test.op"() : () -> (vector<4xi32>, f32, vector<4xi1>)\n%r = {op}'
    with pytest.raises(VerifyException, match=complaint):
        Parser(context(), text).parse_module().verify()


@pytest.mark.parametrize("op", ["arith.truncf %s sideways : f32 to f16", "arith.cmpi lt, %s, %s : f32"])
def test_unknown_words(op: str):
    with pytest.raises(ParseError, match="expected one of"):
        Parser(context(), f'%s = "test.op"() : () -> f32\n%r = {op}').parse_module()
