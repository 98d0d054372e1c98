"""How mistakes are shown: frames, carets, notes, tracebacks without our frames, the log."""

from __future__ import annotations

import logging
import os
import statistics
import subprocess
import sys
import traceback
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config, errors
from flydsl._mlir.dialects import gpu as gpu_ops
from flydsl.compiler import diagnostics, logs
from flydsl.compiler.build.driver import run_passes
from flydsl.compiler.build.dumps import Dumper, report, watching
from flydsl.errors import DiagRecord, DSLCompileError, DSLRuntimeError, DSLSyntaxError, DSLTypeError, SourceFrame
from flydsl.ir import arith
from flydsl.ir.locations import source_chain
from flydsl.llvm.text.abi_amdgpu import AmdgpuAbi
from flydsl.lowering.rebuild import Rebuilder
from flydsl.passes.fuse import Step

ROOT = Path(__file__).resolve().parents[3]
HERE = __file__
TARGET = "rocm:gfx942"


@pytest.fixture(autouse=True)
def compile_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was compiled before would not fail."""
    monkeypatch.setenv("FLYDSL_COMPILE_ALWAYS", "1")


def line_of(text: str) -> int:
    """The line of this file that ends with a comment."""
    lines = Path(HERE).read_text().split("\n")
    (found,) = [i for i, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return found


def launched(kernel, *annotations):
    """A jit function that launches a kernel on a tensor."""

    @flyc.jit
    def run(a: fx.Tensor):
        kernel(a).launch(grid=1, block=4)

    return run


def compile_error(kernel, kind: type[BaseException]) -> BaseException:
    with pytest.raises(kind) as caught:
        flyc.compile(launched(kernel), np.zeros(4, np.float32), target=TARGET)
    return caught.value


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error))


# --- rendering ------------------------------------------------------------------------------------------------------


def test_d9_rendering(tmp_path: Path):
    source = tmp_path / "k.py"
    source.write_text("def k():\n    x = call(y)\n")
    outer, inner = SourceFrame(str(source), 1), SourceFrame(str(source), 2, 8, 15)
    error = DSLCompileError("it is wrong", diagnostics=[DiagRecord("it is wrong", [outer, inner]), DiagRecord("")])
    assert str(error) == (
        "it is wrong\n\nDSL Traceback (most recent operation last):\n"
        f'  File "{source}", line 1\n    def k():\n    ^\n'
        f'  File "{source}", line 2\n    x = call(y)\n        ^^^^^^^'
    )
    assert len(error.diagnostics) == 1
    assert str(DSLCompileError("plain")) == "plain"
    assert flyc.DSLCompileError is diagnostics.DSLCompileError is DSLCompileError


def test_d9_a_second_message_is_shown():
    error = DSLCompileError("first", diagnostics=[DiagRecord("second", [SourceFrame("nowhere.py", 3)])])
    assert str(error).split("\n")[:3] == ["first", "", "second"]


def doubled(x):
    return x * 2.0  # deep


@flyc.kernel
def chained(a: fx.Tensor):
    i = fx.thread_idx.x
    if i < 3:
        a[i] = doubled(a[i])  # call


def test_d10_locations_are_the_users_call_chain():
    module = flyc.compile(launched(chained), np.zeros(4, np.float32), target=TARGET).artifact
    chains = []

    def watch(name, traced):
        if name == "origin":
            chains.extend(source_chain(op.location) for op in traced.walk() if isinstance(op, arith.MulfOp))

    with watching(watch):
        flyc.compile[{"opt_level": 1}](launched(chained), np.zeros(4, np.float32), target=TARGET)
    ((*_, call, deep),) = chains
    assert (deep.filename, deep.line, call.line) == (HERE, line_of("deep"), line_of("call"))
    text = Path(HERE).read_text().split("\n")[deep.line - 1]
    assert text[deep.col : deep.end_col] == "x * 2.0"
    assert all("/src/flydsl/" not in frame.filename for chain in chains for frame in chain)
    assert "loc(" not in module.source_ir


def nested(x, depth):
    return nested(x, depth - 1) if depth else x * 2.0  # innermost


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_d10_long_chains_lose_their_middle(limit: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_DEBUG_MAX_LOC_DEPTH", str(limit))
    chains = []

    @flyc.kernel
    def kernel(a: fx.Tensor):
        a[0] = nested(a[0], 12)  # boundary

    def watch(name, module):
        if name == "origin":
            chains.extend(source_chain(op.location) for op in module.walk() if isinstance(op, arith.MulfOp))

    with watching(watch):
        flyc.compile(launched(kernel), np.zeros(4, np.float32), target=TARGET)
    (chain,) = chains
    assert len(chain) == limit
    assert chain[0].line == line_of("boundary")
    assert limit == 1 or chain[-1].line == line_of("innermost")


# --- tracebacks -----------------------------------------------------------------------------------------------------


@flyc.kernel
def misspelled(a: fx.Tensor):
    i = fx.thread_idx.x
    if i < 3:
        a[i] = broken(a[i])


def broken(x):
    return x.bitcst(fx.Int32)  # misspelled


@flyc.kernel
def averaged(a: fx.Tensor):
    a[0] = statistics.mean([])  # averaged


def test_d11_an_error_of_pythons_own_functions_is_shown_at_the_users_call():
    (note,) = compile_error(averaged, statistics.StatisticsError).__notes__
    assert f'File "{__file__}", line {line_of("averaged")}' in note


def files_in(error: BaseException) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


def test_d11_tracebacks_have_no_frames_of_ours():
    error = compile_error(misspelled, AttributeError)
    assert set(files_in(error)) == {HERE}
    assert traceback.extract_tb(error.__traceback__)[-1].lineno == line_of("misspelled")
    assert [f.name for f in traceback.extract_tb(error.__traceback__)][-2:] == ["misspelled", "broken"]


def test_d11_all_frames_are_there_when_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_DEBUG_SHOW_STACKTRACE", "1")
    error = compile_error(misspelled, AttributeError)
    assert any(name.endswith("compiler/frontend/tracing.py") for name in files_in(error))


def test_d11_mistakes_of_calls_and_decorators_too():
    @flyc.jit
    def run(a: fx.Tensor, n: fx.Int32):
        pass

    with pytest.raises(TypeError) as call:
        run(1, 2, 3, 4)
    with pytest.raises(ValueError) as target:
        flyc.compile(run, np.zeros(4, np.float32), 1, target="rocm:gfx9999")
    with pytest.raises(DSLTypeError) as decorated:

        @flyc.kernel
        def kernel(grid: fx.Int32):
            pass

    with pytest.raises(DSLTypeError) as compiled:
        flyc.compile(run, np.zeros(4, np.float32), 1)(np.zeros(4, np.float64), 1)
    for caught in (call, target, decorated, compiled):
        assert set(files_in(caught.value)) == {HERE}


def test_d11_our_own_mistakes_keep_their_frames(monkeypatch: pytest.MonkeyPatch):
    """An error nobody raised on purpose, out of our code: the frames are what is needed to mend it."""
    monkeypatch.setitem(AmdgpuAbi.rules, arith.MulfOp, AmdgpuAbi.rules[arith.CmpiOp])
    error = compile_error(chained, AttributeError)
    assert any(name.endswith("lowering/rules/arith_rules.py") for name in files_in(error))


PROGRAM = """
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLCompileError

@flyc.kernel
def kernel(a: fx.Tensor):
    fx.SharedAllocator().allocate(fx.Array[fx.Float32, 100000]).peek()

@flyc.jit
def run(a: fx.Tensor):
    kernel(a).launch(grid=1, block=4)

def main():
    flyc.compile(run, np.zeros(4, np.float32), target="rocm:gfx942")

{call}
"""


def uncaught(folder: Path, call: str, **env: str) -> str:
    path = folder / "program.py"
    path.write_text(PROGRAM.format(call=call))
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, env={**os.environ, **env}, timeout=120
    )
    assert done.returncode == 1
    return done.stderr


def test_d11_excepthook(tmp_path: Path):
    """The user's frames, a rule, the error with cause and remedy; other errors are shown as ever."""
    lines = uncaught(tmp_path, "main()").split("\n")
    assert lines[0] == "Traceback (most recent call last):"
    assert lines.count("-" * 40) == 1
    rule = lines.index("-" * 40)
    frames = [line for line in lines[:rule] if line.startswith("  File ")]
    assert len(frames) == 4 and all("program.py" in line for line in frames)
    text = "\n".join(lines[rule + 1 :])
    assert text.startswith("flydsl.errors.DSLCompileError: the kernel needs 400000 bytes of static shared memory")
    assert "65536" in text and "smaller tiles" in text and "DSL Traceback" in text and "^^^" in text
    whole = uncaught(tmp_path, "main()", FLYDSL_DEBUG_SHOW_STACKTRACE="1")
    assert "-" * 40 not in whole and "compiler/frontend/tracing.py" in whole
    other = uncaught(tmp_path, "try:\n    main()\nexcept DSLCompileError:\n    raise KeyError('mine') from None")
    assert "-" * 40 not in other and other.rstrip().endswith("KeyError: 'mine'")


def test_d11_no_hook_before_it_is_needed():
    code = "import sys, flydsl.compiler as flyc, flydsl.expr; flyc.jit; assert sys.excepthook is sys.__excepthook__"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- texts ----------------------------------------------------------------------------------------------------------


def test_d12_python_errors_keep_their_type_and_gain_the_line():
    error = compile_error(misspelled, AttributeError)
    text = shown(error)
    assert type(error) is AttributeError
    assert "did you mean Float32.bitcast?" in text
    assert f'File "{HERE}", line {line_of("misspelled")}' in text and "^^^^^^^^" in text


def test_d12_common_mistakes():
    @flyc.kernel
    def as_bool(a: fx.Tensor):
        bool(a[0] < 1.0)

    @flyc.kernel
    def one_branch(a: fx.Tensor):
        if a[0] < 1.0:
            y = a[1]
        a[0] = y

    @flyc.kernel
    def unknown(a: fx.Tensor):
        fx.thread_indx.x  # noqa: B018

    @flyc.kernel
    def dtype(a: fx.Tensor):
        fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 128, fx.Float8E4M3FN))

    assert "cond.select" in shown(compile_error(as_bool, DSLRuntimeError))
    assert "is defined only inside the 'if'" in shown(compile_error(one_branch, UnboundLocalError))
    assert "did you mean fx.thread_idx" in shown(compile_error(unknown, AttributeError))
    assert "does not exist on gfx942" in shown(compile_error(dtype, ValueError))
    with pytest.raises(DSLSyntaxError, match="early return in a run-time branch"):

        @flyc.kernel
        def early(a: fx.Tensor):
            if a[0] < 1.0:
                return
            a[0] = 1.0


def test_breakpoint_is_refused():
    @flyc.kernel
    def kernel(a: fx.Tensor):
        if a[0] < 1.0:
            breakpoint()  # refused

    @flyc.jit
    def run(a: fx.Tensor):
        breakpoint()

    for function in (launched(kernel), run):
        with pytest.raises(
            DSLSyntaxError, match="cannot stop a kernel.*FLYDSL_COMPILE_BACKEND=cpu.*fx.printf"
        ) as caught:
            flyc.compile(function, np.zeros(4, np.float32), target=TARGET)
        assert function is run or caught.value.lineno == line_of("refused")
    with pytest.raises(DSLSyntaxError, match="stops a kernel that is called"):
        flyc.compile(launched(kernel), np.zeros(4, np.float32), target="cpu:native")


def breakpoint_of_my_own(x):
    return x


def test_another_breakpoint_is_not():
    """Only the builtin is refused, not what a program calls so itself."""
    space = {"__name__": "mine", "flyc": flyc, "fx": fx, "breakpoint": breakpoint_of_my_own}
    import linecache

    text = "@flyc.kernel\ndef kernel(a: fx.Tensor):\n    a[0] = breakpoint(1.0)\n"
    linecache.cache["<mine>"] = (len(text), None, text.splitlines(True), "<mine>")
    exec(compile(text, "<mine>", "exec"), space)
    flyc.compile(launched(space["kernel"]), np.zeros(4, np.float32), target=TARGET)


def test_d13_resources_name_limit_request_and_remedy():
    @flyc.kernel
    def static(a: fx.Tensor):
        fx.SharedAllocator().allocate(fx.Array[fx.Float32, 100000]).peek()

    @flyc.kernel
    def dynamic(a: fx.Tensor):
        fx.SharedAllocator(static=False).allocate(fx.Array[fx.Float32, 100000]).peek()

    text = shown(compile_error(static, DSLCompileError))
    assert "400000" in text and "65536" in text and "SharedAllocator(static=False)" in text
    text = shown(compile_error(dynamic, DSLCompileError))
    assert "400000" in text and text.split("\n")[0].endswith("use smaller tiles or fewer stages")


def refused_by_llvm(monkeypatch: pytest.MonkeyPatch, line: str) -> DSLCompileError:
    """A handler that writes `line` for a product: what a defect of the translation looks like."""

    def handler(f, op):
        f.names[op.results[0]] = f.assign(line)

    monkeypatch.setitem(AmdgpuAbi.rules, arith.MulfOp, handler)
    error = compile_error(chained, DSLCompileError)
    assert isinstance(error, DSLCompileError)
    return error


@pytest.mark.parametrize("debug_info", ["0", "1"])
def test_d14_llvm_errors_are_shown_at_the_users_line(debug_info: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_DEBUG_INFO", debug_info)
    for line in ("fmul float 1.0, i32 7", "call float @llvm.amdgcn.readlane.f32(float 1.0, float 2.0)"):
        error = refused_by_llvm(monkeypatch, line)
        text = str(error)
        assert line.split(",")[0] in text and "\n> " in text
        (record,) = error.diagnostics
        assert [frame.line for frame in record.chain][-2:] == [line_of("call"), line_of("deep")]
        assert "return x * 2.0  # deep" in text


def test_d14_an_op_without_translation_is_shown_at_its_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(AmdgpuAbi.rules, arith.MulfOp)
    error = compile_error(chained, DSLCompileError)
    assert isinstance(error, DSLCompileError)
    assert [frame.line for frame in error.diagnostics[0].chain][-2:] == [line_of("call"), line_of("deep")]
    assert "no translation of 'arith.mulf'" in str(error)


def test_d14_what_a_target_cannot_do_is_shown_at_its_line():
    @flyc.kernel
    def prints(a: fx.Tensor):
        gpu_ops.printf("%f", a[0])  # printed

    text = shown(compile_error(prints, errors.NotSupportedError))
    assert f'File "{HERE}", line {line_of("printed")}' in text and "fx.printf" in text


def test_d14_errors_of_passes_and_of_verification_are_shown_at_their_lines():
    def refuse(rebuilder, op):
        raise DSLCompileError("products are not liked here")

    def spoil(rebuilder, op):
        rebuilder.copy(op)
        rebuilder.b.block.last_op.results[0]._type = fx.Int32.ir_type

    class Refusing(Rebuilder):
        handlers: ClassVar = {arith.MulfOp: refuse}

    class Spoiling(Rebuilder):
        handlers: ClassVar = {arith.MulfOp: spoil}

    found = []

    def watch(name, module):
        if name == "origin":
            for cls in (Refusing, Spoiling):
                each = SimpleNamespace(name=cls.__name__.lower(), run=cls.rebuild)
                with pytest.raises(DSLCompileError) as caught:
                    step = Step(0, 0, SimpleNamespace(make=lambda each=each: each))
                    run_passes(module, [step], {}, Dumper("k", [], "", str))
                found.append(caught.value)

    with watching(watch):
        flyc.compile(launched(chained), np.zeros(4, np.float32), target=TARGET)
    refused, spoiled = found
    assert refused.__notes__ == ["while running pass 'refusing'"]
    assert str(spoiled).startswith("the IR does not verify after pass 'spoiling'")
    for error in found:
        assert [frame.line for frame in error.diagnostics[0].chain][-2:] == [line_of("call"), line_of("deep")]


# --- warnings, log, reports -----------------------------------------------------------------------------------------


def test_d15_categories_and_once_per_site():
    names = "ExperimentalBackend Portability Capture UntrackedGlobal UnknownHint Cache PassFallback".split()
    for name in names:
        assert issubclass(getattr(errors, f"{name}Warning"), errors.FlyDSLWarning)

    def ours() -> None:
        config.warn("something", errors.CacheWarning)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            ours()  # the site
    assert [(w.filename, w.lineno) for w in seen] == [(HERE, line_of("the site"))]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch):
    """The logger as it is without variables, before and after."""
    yield logs.logger
    monkeypatch.undo()
    logs.logger()


def test_d16_log_is_silent_by_default_and_does_not_propagate(log, capfd, caplog):
    logger = log()
    assert logger.name == "flydsl" and not logger.propagate
    assert [type(h) for h in logger.handlers] == [logging.NullHandler]
    logger.warning("nobody sees this")
    assert capfd.readouterr() == ("", "") and not caplog.records


def test_d16_console_file_and_level(log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    path = tmp_path / "logs" / "flydsl.log"
    monkeypatch.setenv("FLYDSL_DEBUG_LOG_TO_FILE", str(path))
    monkeypatch.setenv("FLYDSL_DEBUG_LOG_TO_CONSOLE", "1")
    log().info("too quiet")
    monkeypatch.setenv("FLYDSL_DEBUG_LOG_LEVEL", "INFO")
    log().info("loud enough")
    text = path.read_text()
    assert "INFO flydsl: loud enough" in text and "too quiet" not in text
    assert "loud enough" in capsys.readouterr().err
    logging.getLogger("flydsl.cache").info("a child")
    assert "flydsl.cache: a child" in path.read_text()


def decorate_with_a_branch() -> None:
    @flyc.kernel
    def with_a_branch(a: fx.Tensor):
        if a[0] < 1.0:
            a[0] = 2.0


def test_d7_ast_diff(log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    """To the log at INFO; where no log shows that, to the console."""
    decorate_with_a_branch()
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FLYDSL_DEBUG_AST_DIFF", "1")
    decorate_with_a_branch()
    shown = capsys.readouterr().err
    assert "with_a_branch (source)" in shown and "-    if a[0] < 1.0:" in shown and "def with_a_branch(" in shown
    path = tmp_path / "diff.log"
    monkeypatch.setenv("FLYDSL_DEBUG_LOG_TO_FILE", str(path))
    monkeypatch.setenv("FLYDSL_DEBUG_LOG_LEVEL", "INFO")
    decorate_with_a_branch()
    assert "INFO flydsl: --- " in path.read_text() and capsys.readouterr().err == ""


def test_d18_spills_are_pointed_out(monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setenv("FLYDSL_DEBUG_RESOURCES", "1")
    kernel = {"name": "k", "registers": 256, "spills": 12, "parameters": [{"offset": 0}]}
    report({"name": "f", "target": "t", "times": {}, "kernels": [kernel]}, 4096)
    text = capsys.readouterr().err
    assert "k: registers 256, spills 12, binary 4096 bytes" in text and "offset" not in text
    assert "warning: k spills 12 registers" in text and "maxnreg" in text
    report({"name": "f", "target": "t", "times": {}, "kernels": [{**kernel, "spills": 0}]})
    assert "warning" not in capsys.readouterr().err
