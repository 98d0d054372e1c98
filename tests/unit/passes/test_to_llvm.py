"""Functions taken to the llvm dialect pass by pass, translated to LLVM IR and run on this CPU, against numpy."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from flydsl.dialects.upstream.llvm.function import FuncOp
from flydsl.ir.parser import LocatedParser
from flydsl.ir.registry import make_context
from flydsl.llvm import binding, host_jit
from flydsl.llvm.text.functions import declaration, global_line
from flydsl.llvm.text.host_stub import HostAbi
from flydsl.llvm.text.llvm_ops import write_function
from flydsl.llvm.text.module_text import ModuleText
from flydsl.passes.pipeline import parse_pipeline

PASSES = (
    "convert-scf-to-cf,cse,convert-cf-to-llvm,convert-vector-to-llvm,convert-arith-to-llvm,convert-math-to-llvm,"
    "convert-func-to-llvm,reconcile-unrealized-casts"
)
LATE = (
    "convert-func-to-llvm,convert-math-to-llvm,convert-arith-to-llvm,convert-vector-to-llvm,convert-scf-to-cf,"
    "convert-arith-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts"
)
"""The other way round: each pass leaves casts for those behind it."""


def llvm_ir(text: str, passes: str) -> str:
    """LLVM IR of a module of functions."""
    module = LocatedParser(make_context(), text, "test.mlir").parse_module()
    for p in parse_pipeline(passes):
        module = p.run(module)
        module.verify()
    triple = binding.host_triple()
    made = ModuleText(triple, binding.data_layout(triple))
    for op in module.ops:
        if not isinstance(op, FuncOp):
            made.globals.append(global_line(op))
        elif op.is_declaration:
            made.declarations[op.sym_name.data] = declaration(op)
        else:
            write_function(made, HostAbi([], None), op)
    return made.text()


def run(body: str, inputs: np.ndarray, outputs: np.ndarray, passes: str = PASSES) -> np.ndarray:
    """Run `f(in, out)` with this body on an array of inputs."""
    text = f"func.func @f(%in: !llvm.ptr, %out: !llvm.ptr) {{\n{body}\nfunc.return\n}}"
    with host_jit.load_ir(llvm_ir(text, passes), opt_level=1) as library:
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.address("f"))
        function(inputs.ctypes.data, outputs.ctypes.data)
    return outputs


def at(name: str, index: int, type_: str, base: str = "%in") -> str:
    """Load an element of the inputs."""
    return (
        f"%{name}p = llvm.getelementptr {base}[{index}] : (!llvm.ptr) -> !llvm.ptr, {type_}\n"
        f"%{name} = llvm.load %{name}p : !llvm.ptr -> {type_}\n"
    )


def put(name: str, index: int, type_: str) -> str:
    """Store an element of the outputs."""
    return (
        f"%o{index} = llvm.getelementptr %out[{index}] : (!llvm.ptr) -> !llvm.ptr, {type_}\n"
        f"llvm.store %{name}, %o{index} : {type_}, !llvm.ptr\n"
    )


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng()


BINARY = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
    "divsi": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "remsi": lambda a, b: a - abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) * b,
    "minsi": min,
    "maxsi": max,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
}


@pytest.mark.parametrize("passes", [PASSES, LATE], ids=["usual", "late"])
@pytest.mark.parametrize("type_", ["i32", "index"])
def test_integers(type_, passes, rng):
    """Every operation on operands of both signs; `index` through casts."""
    dtype = np.int32 if type_ == "i32" else np.int64
    word = "i32" if type_ == "i32" else "i64"
    for a in (-7, 12, -8, int(rng.integers(1, 1000))):
        b = int(rng.choice([-5, -3, 4, 9]))
        body = at("x", 0, word) + at("y", 1, word)
        if type_ == "index":
            body += "%a = arith.index_cast %x : i64 to index\n%b = arith.index_cast %y : i64 to index\n"
        names = ("x", "y") if type_ == "i32" else ("a", "b")
        for i, name in enumerate(BINARY):
            body += f"%r{i} = arith.{name} %{names[0]}, %{names[1]} : {type_}\n"
            if type_ == "index":
                body += f"%w{i} = arith.index_cast %r{i} : index to i64\n"
            body += put(f"{'r' if type_ == 'i32' else 'w'}{i}", i, word)
        found = run(body, np.array([a, b], dtype), np.full(len(BINARY), 99, dtype), passes)
        assert found.tolist() == [f(a, b) for f in BINARY.values()], (a, b)


@pytest.mark.parametrize("passes", [PASSES, LATE], ids=["usual", "late"])
@pytest.mark.parametrize("n", [0, 1, 7])
def test_loop_with_a_branch(n, passes):
    """Sum of the odd numbers below n, and the last even one: a branch with results in a loop with carried values."""
    body = (
        at("n", 0, "i64")
        + """
    %end = arith.index_cast %n : i64 to index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %sum, %last = scf.for %i = %c0 to %end step %c1 iter_args(%s = %c0, %l = %c0) -> (index, index) {
      %rest = arith.remui %i, %c2 : index
      %odd = arith.cmpi eq, %rest, %c1 : index
      %s1, %l1 = scf.if %odd -> (index, index) {
        %t = arith.addi %s, %i : index
        scf.yield %t, %l : index, index
      } else {
        scf.yield %s, %i : index, index
      }
      scf.yield %s1, %l1 : index, index
    }
    %a = arith.index_cast %sum : index to i64
    %b = arith.index_cast %last : index to i64
    """
        + put("a", 0, "i64")
        + put("b", 1, "i64")
    )
    found = run(body, np.array([n], np.int64), np.full(2, -1, np.int64), passes)
    assert found.tolist() == [sum(range(1, n, 2)), max([0, *range(0, n, 2)])]


def test_while_and_switch():
    """Collatz steps of a number; each step by a switch on its parity."""
    body = (
        at("n", 0, "i64")
        + """
    %c0 = arith.constant 0 : i64
    %c1 = arith.constant 1 : i64
    %c2 = arith.constant 2 : i64
    %c3 = arith.constant 3 : i64
    %end, %count = scf.while (%x = %n, %k = %c0) : (i64, i64) -> (i64, i64) {
      %more = arith.cmpi ne, %x, %c1 : i64
      scf.condition(%more) %x, %k : i64, i64
    } do {
    ^bb0(%x: i64, %k: i64):
      %rest = arith.remui %x, %c2 : i64
      %which = arith.index_cast %rest : i64 to index
      %next = scf.index_switch %which -> i64
      case 1 {
        %t = arith.muli %x, %c3 : i64
        %u = arith.addi %t, %c1 : i64
        scf.yield %u : i64
      }
      default {
        %h = arith.shrui %x, %c1 : i64
        scf.yield %h : i64
      }
      %k1 = arith.addi %k, %c1 : i64
      scf.yield %next, %k1 : i64, i64
    }
    """
        + put("count", 0, "i64")
    )

    def steps(n: int) -> int:
        count = 0
        while n != 1:
            n, count = (3 * n + 1 if n % 2 else n // 2), count + 1
        return count

    for n in (1, 6, 27):
        assert run(body, np.array([n], np.int64), np.zeros(1, np.int64))[0] == steps(n)


def test_same_target_twice():
    """Both edges of a branch lead to one block with different values."""
    body = (
        at("x", 0, "i32")
        + """
    %c0 = arith.constant 0 : i32
    %neg = arith.cmpi slt, %x, %c0 : i32
    %m = arith.subi %c0, %x : i32
    cf.cond_br %neg, ^join(%m : i32), ^join(%x : i32)
  ^join(%r: i32):
    """
        + put("r", 0, "i32")
    )
    for x in (-5, 7):
        assert run(body, np.array([x], np.int32), np.zeros(1, np.int32))[0] == abs(x)


VECTORS = {
    "slice": (
        "%r = vector.extract_strided_slice %v {offsets = [2], sizes = [4], strides = [1]} : "
        "vector<8xf32> to vector<4xf32>",
        lambda v: v[2:6],
    ),
    "insert": (
        "%s = vector.extract_strided_slice %v {offsets = [0], sizes = [2], strides = [1]} : "
        "vector<8xf32> to vector<2xf32>\n"
        "%r = vector.insert_strided_slice %s, %v {offsets = [5], strides = [1]} : vector<2xf32> into vector<8xf32>",
        lambda v: np.concatenate([v[:5], v[:2], v[7:]]),
    ),
    "transpose": (
        "%a = vector.shape_cast %v : vector<8xf32> to vector<2x4xf32>\n"
        "%b = vector.transpose %a, [1, 0] : vector<2x4xf32> to vector<4x2xf32>\n"
        "%r = vector.shape_cast %b : vector<4x2xf32> to vector<8xf32>",
        lambda v: v.reshape(2, 4).T.ravel(),
    ),
    "row": (
        "%a = vector.shape_cast %v : vector<8xf32> to vector<2x4xf32>\n"
        "%r = vector.extract %a[1] : vector<4xf32> from vector<2x4xf32>",
        lambda v: v[4:],
    ),
    "window": (
        "%a = vector.shape_cast %v : vector<8xf32> to vector<2x4xf32>\n"
        "%b = vector.extract_strided_slice %a {offsets = [0, 1], sizes = [2, 2], strides = [1, 1]} : "
        "vector<2x4xf32> to vector<2x2xf32>\n"
        "%r = vector.shape_cast %b : vector<2x2xf32> to vector<4xf32>",
        lambda v: v.reshape(2, 4)[:, 1:3].ravel(),
    ),
    "part of a row": (
        "%a = vector.shape_cast %v : vector<8xf32> to vector<2x4xf32>\n"
        "%s = vector.extract_strided_slice %v {offsets = [0], sizes = [2], strides = [1]} : "
        "vector<8xf32> to vector<2xf32>\n"
        "%b = vector.insert_strided_slice %s, %a {offsets = [1, 1], strides = [1]} : "
        "vector<2xf32> into vector<2x4xf32>\n"
        "%r = vector.shape_cast %b : vector<2x4xf32> to vector<8xf32>",
        lambda v: np.concatenate([v[:5], v[:2], v[7:]]),
    ),
    "shuffle": (
        "%r = vector.shuffle %v, %v [7, 8, 0, 15] : vector<8xf32>, vector<8xf32>",
        lambda v: np.concatenate([v, v])[[7, 8, 0, 15]],
    ),
    "broadcast": (
        "%x = vector.extract %v[3] : f32 from vector<8xf32>\n%r = vector.broadcast %x : f32 to vector<4xf32>",
        lambda v: np.full(4, v[3]),
    ),
    "elements": (
        "%x = vector.extract %v[3] : f32 from vector<8xf32>\n%y = vector.extract %v[6] : f32 from vector<8xf32>\n"
        "%r = vector.from_elements %x, %y : vector<2xf32>",
        lambda v: v[[3, 6]],
    ),
    "sum": (
        "%x = vector.reduction <add>, %v : vector<8xf32> into f32\n%r = vector.broadcast %x : f32 to vector<1xf32>",
        lambda v: np.array([np.float32(v.astype(np.float64).sum())]),
    ),
    "largest": (
        "%x = vector.reduction <maxnumf>, %v : vector<8xf32> into f32\n%r = vector.broadcast %x : f32 to vector<1xf32>",
        lambda v: np.array([v.max()]),
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors(name, rng):
    text, wanted = VECTORS[name]
    v = rng.integers(-50, 50, 8).astype(np.float32)
    expected = wanted(v)
    type_ = f"vector<{len(expected)}xf32>"
    body = f"%v = llvm.load %in {{alignment = 4 : i64}} : !llvm.ptr -> vector<8xf32>\n{text}\n"
    body += f"llvm.store %r, %out {{alignment = 4 : i64}} : {type_}, !llvm.ptr"
    np.testing.assert_array_equal(run(body, v, np.full(len(expected), np.nan, np.float32)), expected)


def test_element_at_run_time(rng):
    v = rng.standard_normal(4).astype(np.float32)
    for i in range(4):
        body = f"""
        %v = llvm.load %in {{alignment = 4 : i64}} : !llvm.ptr -> vector<4xf32>
        %i = arith.constant {i} : index
        %x = vector.extract %v[%i] : f32 from vector<4xf32>
        %w = vector.insert %x, %v[0] : f32 into vector<4xf32>
        llvm.store %w, %out {{alignment = 4 : i64}} : vector<4xf32>, !llvm.ptr"""
        np.testing.assert_array_equal(run(body, v, np.zeros(4, np.float32)), [v[i], *v[1:]])


MATH = {"absf": np.abs, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}


@pytest.mark.parametrize("name", MATH)
def test_math(name, rng):
    x = np.abs(rng.standard_normal(1)).astype(np.float32) * 10
    found = run(at("x", 0, "f32") + f"%y = math.{name} %x : f32\n" + put("y", 0, "f32"), x, np.zeros(1, np.float32))
    np.testing.assert_allclose(found, MATH[name](x.astype(np.float64)), rtol=1e-6)


def test_what_a_float_is():
    values = np.array([0.0, -2.5, 1e-40, np.inf, -np.inf, np.nan], np.float32)
    tiny = np.finfo(np.float32).tiny
    tests = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}
    tests["isnormal"] = lambda x: np.isfinite(x) & (np.abs(x) >= tiny)
    for value in values:
        body = at("x", 0, "f32")
        for i, name in enumerate(tests):
            body += f"%f{i} = math.{name} %x : f32\n%r{i} = arith.extui %f{i} : i1 to i32\n" + put(f"r{i}", i, "i32")
        found = run(body, np.array([value]), np.full(4, 9, np.int32))
        assert found.tolist() == [bool(test(value)) for test in tests.values()], value


def test_both_halves(rng):
    a, b = (int(x) for x in rng.integers(-(2**31), 2**31, 2))
    body = at("x", 0, "i32") + at("y", 1, "i32")
    body += "%l, %h = arith.mulsi_extended %x, %y : i32\n%m, %n = arith.mului_extended %x, %y : i32\n"
    body += "%s, %c = arith.addui_extended %x, %y : i32, i1\n%k = arith.extui %c : i1 to i32\n"
    body += "".join(put(name, i, "i32") for i, name in enumerate("lhmnsk"))
    found = [int(x) for x in run(body, np.array([a, b], np.int32), np.zeros(6, np.int32)).view(np.uint32)]
    mask = 2**32 - 1
    ua, ub = a & mask, b & mask
    signed, unsigned = a * b, ua * ub
    expected = [signed, signed >> 32, unsigned, unsigned >> 32, ua + ub, (ua + ub) >> 32]
    assert found == [x & mask for x in expected]


def test_conversions(rng):
    x = np.array([rng.uniform(-100, 100)], np.float32)
    body = at("x", 0, "f32") + "%i = arith.fptosi %x : f32 to i32\n%y = arith.sitofp %i : i32 to f32\n"
    body += "%d = arith.extf %x : f32 to f64\n%e = arith.truncf %d : f64 to f32\n%b = arith.bitcast %e : f32 to i32\n"
    body += "%z = arith.bitcast %b : i32 to f32\n" + put("y", 0, "f32") + put("z", 1, "f32")
    np.testing.assert_array_equal(run(body, x, np.zeros(2, np.float32)), [np.trunc(x[0]), x[0]])


def test_calls_with_several_results():
    text = """
    func.func @divmod(%a: i32, %b: i32) -> (i32, i32) {
      %q = arith.divsi %a, %b : i32
      %r = arith.remsi %a, %b : i32
      func.return %q, %r : i32, i32
    }
    func.func @f(%out: !llvm.ptr, %a: i32, %b: i32) {
      %q, %r = func.call @divmod(%a, %b) : (i32, i32) -> (i32, i32)
      llvm.store %q, %out : i32, !llvm.ptr
      %p = llvm.getelementptr %out[1] : (!llvm.ptr) -> !llvm.ptr, i32
      llvm.store %r, %p : i32, !llvm.ptr
      func.return
    }"""
    out = np.zeros(2, np.int32)
    with host_jit.load_ir(llvm_ir(text, PASSES)) as library:
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)(library.address("f"))
        function(out.ctypes.data, 47, 9)
    assert out.tolist() == [5, 2]


def test_unroll_hint_reaches_the_back_edge():
    text = """
    func.func @f(%n: i32, %p: !llvm.ptr) {
      %c1 = arith.constant 1 : i32
      scf.for %i = %c1 to %n step %c1 : i32 {
        llvm.store volatile %i, %p : i32, !llvm.ptr
      } {llvm.loop_annotation = #llvm.loop_annotation<unroll = <count = 4 : i32>>}
      func.return
    }"""
    ir = llvm_ir(text, PASSES)
    assert '!{!"llvm.loop.unroll.count", i32 4}' in ir
    latch = next(line for line in ir.splitlines() if "!llvm.loop" in line and "br label" in line)
    head = latch.split("%")[1].split(",")[0]
    assert f"\n{head}:" in ir.split(latch)[0]
