"""`fly-opt` as a function: options, output, errors, exit codes."""

import io
import subprocess
import sys

import pytest

from flydsl.tools import fly_opt
from flydsl.tools.diagnostics import Diagnostic, Expectations

GOOD = """func.func @f(%x: i32) -> i32 {
  %s = fly.make_shape(%x) : (i32) -> !fly.int_tuple<(?,8)>
  %n = fly.size(%s) : (!fly.int_tuple<(?,8)>) -> !fly.int_tuple<?{div=8}>
  %r = fly.get_scalar(%n) : (!fly.int_tuple<?{div=8}>) -> i32
  func.return %r : i32
}
"""
BAD = GOOD.replace("-> i32\n", "-> i64\n").replace("%r : i32", "%r : i64").replace("-> i32 {", "-> i64 {")


@pytest.fixture
def run(tmp_path, capsys):
    def run(text, *options, name="in.mlir"):
        path = tmp_path / name
        path.write_text(text)
        code = fly_opt.main([*options, str(path)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err.replace(str(tmp_path) + "/", "")

    return run


def test_prints_the_module(run):
    code, out, err = run(GOOD)
    assert (code, err) == (0, "")
    assert "%0 = fly.make_shape(%arg0) : (i32) -> !fly.int_tuple<(?,8)>" in out
    assert "%s = fly.make_shape(%x) : (i32) -> !fly.int_tuple<(?,8)>" in run(GOOD, "--print-names")[1]
    assert run(out)[1] == out


def test_passes_run_in_order(run):
    code, out, _ = run(GOOD, "--fly-canonicalize", "-fly-layout-lowering", "--canonicalize")
    assert code == 0 and "arith.muli" in out and "fly." not in out
    assert run(GOOD, "--pass-pipeline=builtin.module(fly-canonicalize,fly-layout-lowering,canonicalize)")[1] == out


def test_generic_form_parses_again(run):
    _, generic, _ = run(GOOD, "--mlir-print-op-generic")
    assert '"fly.size"(%' in generic and '"builtin.module"() ({' in generic
    assert run(generic)[1] == run(GOOD)[1]


def test_locations(run):
    _, out, _ = run(GOOD, "--mlir-print-debuginfo")
    assert out.count('in.mlir":2:8)') == 1
    kernel = "gpu.module @m {\n  gpu.func @k(%x: i32, %p: !fly.ptr<f32, global>) kernel {\n    gpu.return\n  }\n}\n"
    for text in (GOOD, kernel):
        assert run(run(text, "--mlir-print-debuginfo")[1])[:2] == (0, run(text)[1])


def test_reads_standard_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO(GOOD))
    assert fly_opt.main([]) == 0
    assert "fly.size" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.StringIO(BAD))
    assert fly_opt.main(["-"]) == 1
    assert "<stdin>:4:8: error: 'fly.get_scalar' op inferred type(s) 'i32'" in capsys.readouterr().err


def test_writes_a_file(run, tmp_path):
    out = tmp_path / "out.mlir"
    assert run(GOOD, "-o", str(out))[:2] == (0, "")
    assert "fly.size" in out.read_text()


def test_error_shows_the_line(run):
    code, out, err = run(BAD)
    assert (code, out) == (1, "")
    first, line, caret, *_ = err.splitlines()
    assert first.startswith("in.mlir:4:8: error: 'fly.get_scalar' op inferred type(s) 'i32' are incompatible")
    assert line == "  %r = fly.get_scalar(%n) : (!fly.int_tuple<?{div=8}>) -> i64"
    assert caret == " " * 7 + "^"


def test_split_input_keeps_line_numbers(run):
    code, out, err = run(f"{GOOD}// -----\n{BAD}// -----\n{GOOD}", "--split-input-file")
    assert code == 1 and out.count("module {") == 2 and "// -----\n" in out
    assert "in.mlir:11:8: error:" in err


def test_pass_errors_have_a_place(run):
    text = (
        "func.func @f(%t: !fly.int_tuple<?>) -> i32 {\n  %r = fly.get_scalar(%t) : (!fly.int_tuple<?>) -> i32\n"
        "  func.return %r : i32\n}\n"
    )
    code, _, err = run(text, "--fly-layout-lowering")
    assert code == 1 and err.startswith("in.mlir:2:8: error: fly-layout-lowering: !fly.int_tuple<?> is not in normal")


def test_ir_after_all_and_timing(run):
    _, _, err = run(GOOD, "--fly-canonicalize", "--mlir-print-ir-after-all", "--mlir-timing")
    assert "IR Dump After fly-canonicalize" in err and "ms  fly-canonicalize" in err and "ms  parse" in err


@pytest.mark.parametrize(
    "option, message",
    [
        ("--fly-canonicalise", "unknown option --fly-canonicalise; did you mean --fly-canonicalize?"),
        ("--canonicalize{x=1}", "pass 'canonicalize' has no option 'x'; it has: none"),
        ("--canonicalize=x=1", "pass 'canonicalize' has no option 'x'; it has: none"),
        ("--pass-pipeline=nowhere(cse)", "unknown anchor 'nowhere'"),
        ("--pass-pipeline=cs", "unknown pass 'cs'"),
        (
            "--pass-pipeline=convert-fly-to-rocdl,cse,fly-layout-lowering",
            "pass 'fly-layout-lowering' cannot follow 'cse': 'convert-fly-to-rocdl' has left nothing",
        ),
    ],
)
def test_wrong_options(run, option, message):
    code, out, err = run(GOOD, option)
    assert (code, out) == (2, "") and message in err


def test_wrong_files(run, capsys, tmp_path):
    assert run(GOOD, "other.mlir")[0] == 2
    assert fly_opt.main([str(tmp_path / "none.mlir")]) == 2
    assert "cannot read" in capsys.readouterr().err
    assert fly_opt.main(["-o"]) == 2


def test_help_lists_every_pass(capsys):
    assert fly_opt.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  --{name} " in out for name in fly_opt.PASSES)


def test_unregistered_dialects(run):
    text = '"test.op"() : () -> ()\n'
    assert run(text)[0] == 1
    assert run(text, "--allow-unregistered-dialect")[0] == 0


def test_verify_diagnostics(run):
    expected = BAD.replace(
        "  %r =",
        "  // expected-error @+2 {{inferred type(s) 'i32'}}\n  // expected-error @below {{failed to infer}}\n  %r =",
    )
    assert run(expected, "--verify-diagnostics") == (0, "", "")
    code, _, err = run(expected.replace("@+2", "@+1"), "--verify-diagnostics")
    assert code == 1 and "unexpected error" in err and "was not produced" in err


def test_expected_errors_with_patterns():
    text = "a // expected-error-re {{value {{[0-9]+}} is wrong}}"
    assert Expectations(text, 1).check("f", [Diagnostic(1, 1, "value 42 is wrong")])
    assert not Expectations(text, 1).check("f", [Diagnostic(1, 1, "value x is wrong")])


def test_starts_without_what_it_does_not_need():
    """Reading and printing a file loads no code generator, no language and no framework: those take the time."""
    text = "import sys; from flydsl.tools.fly_opt import main; main(['-']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", text], input=GOOD, text=True, check=True, capture_output=True)
    heavy = {"llvmlite", "numpy", "torch", "sympy", "flydsl.compiler", "flydsl.expr", "flydsl.runtime"}
    assert not heavy & set(done.stderr.split())


KERNEL = "gpu.module @m {{\n  gpu.func @k() kernel {{\n    {}\n    gpu.return\n  }}\n}}\n"
LOOP = """func.func @f(%x: i32, %c: i1) {
  %r = scf.while (%a = %x) : (i32) -> i32 {
    scf.condition(%c) %a : i32
  } do {
  ^bb0(%b: i64):
    scf.yield %x : i32
  }
  func.return
}
"""


@pytest.mark.parametrize(
    "text, options, message",
    [
        ('"' + "a" * 5000, (), "1:1: error: End of file reached before closing string literal"),
        ('func.func @f() {\n  "' + "x y " * 2000, (), "2:3: error: End of file reached before closing string"),
        ("%0 = arith.constant 99999999999999999999 : i32", (), "is out of range for type i32"),
        ("%0 = fly.static : !fly.ptr<f32, global, align<x>>", (), "expected 'align<N>' or a swizzle"),
        ("%0 = fly.static : !fly.ptr<f32, global, S<1,2>>", (), "invalid swizzle"),
        (LOOP, (), "2:8: error: 'scf.while' op is malformed: Block arguments with wrong type"),
        (
            "func.func @f(%v: vector<4xf32>) {\n  %s = vector.extract_strided_slice %v {offsets = [0], sizes = [f32], "
            "strides = [1]} : vector<4xf32> to vector<2xf32>\n  func.return\n}",
            (),
            "expected 'sizes', a list of integers",
        ),
        (
            KERNEL.format(
                "%p = fly.make_ptr() : () -> !fly.ptr<i32, register>\n    %x = fly.ptr.load(%p) : "
                "(!fly.ptr<i32, register>) -> i32\n    fly.ptr.store(%x, %p) : (i32, !fly.ptr<i32, register>) -> ()"
            ),
            ("--convert-fly-to-cpu",),
            "3:10: error: make_ptr needs a size, a non-negative integer 'allocSize' in dictAttrs, got None",
        ),
    ],
    ids=["string", "long string", "number", "alignment", "swizzle", "while", "slice", "allocation"],
)
def test_malformed_text_is_an_error_with_a_place(run, text, options, message):
    """Also where an attribute, an op of xDSL or a pass finds out; never a traceback, and never for long."""
    code, out, err = run(text, *options)
    assert (code, out) == (1, "") and message in err and err.startswith("in.mlir:")


def test_a_mistake_of_a_pass_has_a_place(run, monkeypatch):
    from flydsl.passes.cleanup.canonicalize import CanonicalizePass

    def fails(self, module):
        raise KeyError("nothing there")

    monkeypatch.setattr(CanonicalizePass, "run", fails)
    code, _, err = run(GOOD, "--canonicalize")
    assert code == 1 and "pass 'canonicalize' failed here with KeyError: 'nothing there'" in err
    monkeypatch.setenv("FLYDSL_DEBUG_SHOW_STACKTRACE", "1")
    with pytest.raises(KeyError):
        run(GOOD, "--canonicalize")


def test_an_empty_file_is_an_empty_module(run):
    assert run("// nothing here\n")[:2] == (0, "module {\n}\n") == run("")[:2]


def test_launches_that_wait_for_each_other(run):
    text = """module attributes {gpu.container_module} {
  gpu.module @m {
    gpu.func @k() kernel {
      gpu.return
    }
  }
  func.func @host(%n: index, %s: !gpu.async.token) {
    %t = gpu.launch_func async [%s] @m::@k blocks in (%n, %n, %n) threads in (%n, %n, %n)
    gpu.launch_func [%t] @m::@k blocks in (%n, %n, %n) threads in (%n, %n, %n)
    func.return
  }
}
"""
    code, out, _ = run(text, "--convert-fly-to-rocdl")
    assert code == 0 and "%0 = gpu.launch_func async [%arg1]" in out and "gpu.launch_func [%0] @m::@k" in out
