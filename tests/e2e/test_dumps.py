"""Dumps, prints and reports of a compilation."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.errors import LostOutputWarning
from flydsl.llvm import tools


@pytest.fixture
def function():
    """A jit function nobody has compiled yet."""

    @flyc.kernel(name="dumped")
    def kernel(a: fx.Tensor):
        a[fx.thread_idx.x] = 1.0

    @flyc.jit
    def run(a: fx.Tensor):
        kernel(a).launch(grid=1, block=4)

    return run


def test_dump_ir(function, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
    a = np.zeros(4, np.float32)
    function(a)
    assert (a == 1).all()
    names = sorted(p.name for p in (tmp_path / "dumped").iterdir())
    assert names[0] == "00_origin.mlir" and names[1] == "01_fly_rewrite_func_signature.mlir"
    assert any(n.endswith("_llvm_ir.ll") for n in names) and any(n.endswith("_final_isa.s") for n in names)
    assert "gpu.func @dumped" in (tmp_path / "dumped" / "00_origin.mlir").read_text()
    assert json.loads((tmp_path / "dumped" / "times.json").read_text())["trace"] > 0
    assert "[flydsl.compile] dump origin -> " in capsys.readouterr().err


def test_dump_does_not_overwrite_another_signature(function, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
    function(np.zeros(4, np.float32))
    function(np.zeros(4, np.float64))
    assert len(list(tmp_path.iterdir())) == 2


def test_dump_and_run_only_contradict(function, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_RUNTIME_RUN_ONLY", "1")
    with pytest.raises(ValueError, match="contradict"):
        function(np.zeros(4, np.float32))


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("FLYDSL_DEBUG_PRINT_ORIGIN_IR", "1", "dumped: origin"),
        ("FLYDSL_DEBUG_PRINT_AFTER_ALL", "1", "dumped: after fly-layout-lowering"),
        ("FLYDSL_DEBUG_PRINT_AFTER", "layout", "dumped: after fly-layout-lowering"),
        ("FLYDSL_DEBUG_PRINT_CHANGED", "1", "changed by fly-rewrite-func-signature"),
        ("FLYDSL_DEBUG_TIMING", "1", "ms  trace"),
        ("FLYDSL_DEBUG_TIMING", "json", '"trace"'),
        ("FLYDSL_DEBUG_RESOURCES", "1", "dumped: "),
    ],
)
def test_prints(function, variable: str, value: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    monkeypatch.setenv(variable, value)
    function(np.zeros(4, np.float32))
    assert expected in capsys.readouterr().err


def test_texts_of_an_artifact_from_disk(function):
    """A cached artifact still shows its IR and assembly."""
    args = (np.zeros(4, np.float32),)
    first = flyc.compile(function, *args).artifact
    function.invalidate()
    second = flyc.compile(function, *args).artifact
    assert second is not first and second.binary() == first.binary()
    assert second.source_ir == first.source_ir
    assert "dumped" in second.asm


def dump_to(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(folder))


def test_d1_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    """A single kernel gives its symbol, several the launcher's name; files have the passes' names in order."""

    @flyc.kernel
    def one(a: fx.Tensor):
        a[0] = 1.0

    @flyc.kernel
    def two(a: fx.Tensor):
        a[1] = 2.0

    @flyc.jit
    def both(a: fx.Tensor):
        one(a).launch(grid=1, block=1)
        two(a).launch(grid=1, block=1)

    dump_to(tmp_path, monkeypatch)
    a = np.zeros(4, np.float32)
    both(a)
    assert list(a) == [1, 2, 0, 0]
    names = sorted(p.name for p in (tmp_path / "both").iterdir())
    numbered = [n for n in names if n[:2].isdigit()]
    assert [int(n[:2]) for n in numbered] == list(range(len(numbered)))
    assert numbered[-4:] == [
        f"{len(numbered) - 4:02d}_llvm_ir.ll",
        f"{len(numbered) - 3:02d}_llvm_opt.ll",
        f"{len(numbered) - 2:02d}_final_isa.s",
        f"{len(numbered) - 1:02d}_binary.o",
    ]
    assert set(names) - set(numbered) == {"meta.json", "repro.sh", "times.json"}
    said = [line for line in capsys.readouterr().err.split("\n") if line.startswith("[flydsl.compile] dump ")]
    assert len(said) == len(numbered) - 1 and said[0].endswith("dump origin -> " + str(tmp_path / "both" / numbered[0]))
    assert (tmp_path / "both" / numbered[-1]).read_bytes()[:4] == b"\x7fELF"
    assert json.loads((tmp_path / "both" / "meta.json").read_text())["name"] == "both"


def test_d2_repro_compiles_the_same_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """From the traced IR alone, in another process: every stage and the binary byte for byte."""

    @flyc.kernel(name="again")
    def kernel(a: fx.Tensor, n: fx.Int32):
        tile = fx.flat_divide(a, (4,))
        for j in range(n):
            tile[fx.thread_idx.x, j] = tile[fx.thread_idx.x, j] * 2.0

    @flyc.jit
    def run(a: fx.Tensor, n: fx.Int32):
        kernel(a, n).launch(grid=1, block=4)

    dump_to(tmp_path, monkeypatch)
    monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "3")
    flyc.compile[{"waves_per_eu": 2}](run, np.zeros(16, np.float32), 4, target="rocm:gfx942")
    script = tmp_path / "again" / "repro.sh"
    text = script.read_text()
    assert "export FLYDSL_COMPILE_OPT_LEVEL=3" in text and '{"waves_per_eu": 2}' in text
    for name in ("FLYDSL_DUMP_IR", "FLYDSL_DUMP_DIR", "FLYDSL_COMPILE_OPT_LEVEL"):
        monkeypatch.delenv(name)
    done = subprocess.run([script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    stages = [line.split() for line in done.stdout.splitlines()]
    assert len(stages) > 10 and {word for word, _ in stages} == {"same"}
    assert stages[-1][1].endswith("_binary.hsaco")

    origin = tmp_path / "again" / "00_origin.mlir"
    origin.write_text(origin.read_text().replace("2.000000e+00", "3.000000e+00"))
    done = subprocess.run([script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "DIFFERS" in done.stdout


def test_d3_dumping_does_not_read_the_disk_cache_but_writes_it(
    function, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))
    args = (np.zeros(4, np.float32),)
    dump_to(tmp_path / "dumps", monkeypatch)
    flyc.compile(function, *args)
    function.invalidate()
    flyc.compile(function, *args)
    assert len(list((tmp_path / "dumps").iterdir())) == 2, "the second compilation read the cache"
    monkeypatch.delenv("FLYDSL_DUMP_IR")
    function.invalidate()
    monkeypatch.setenv("FLYDSL_RUNTIME_RUN_ONLY", "1")
    assert flyc.compile(function, *args).artifact.binary()


def test_d4_assembly_alone(function, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_DEBUG_DUMP_ASM", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
    artifact = flyc.compile(function, np.zeros(4, np.float32), target="rocm:gfx942").artifact
    (only,) = (tmp_path / "dumped").iterdir()
    assert only.name.endswith("_final_isa.s") and only.read_text() == artifact.asm


def test_d4_assembly_of_an_external_code_generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if tools.try_find_tool("llc") is None or tools.try_find_tool("opt") is None:
        pytest.skip("LLVM's opt and llc are not installed")

    @flyc.kernel(name="outside")
    def kernel(a: fx.Tensor):
        a[fx.thread_idx.x] = 1.0

    @flyc.jit(llvm_pass_pipeline="default<O2>")
    def run(a: fx.Tensor):
        kernel(a).launch(grid=1, block=4)

    monkeypatch.setenv("FLYDSL_COMPILE_CODEGEN", "external")
    monkeypatch.setenv("FLYDSL_DEBUG_DUMP_ASM", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
    flyc.compile(run, np.zeros(4, np.float32), target="rocm:gfx942")
    assert "s_endpgm" in next((tmp_path / "outside").glob("*_final_isa.s")).read_text()


def test_d5_only_kernels_with_a_matching_name(function, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    monkeypatch.setenv("FLYDSL_DEBUG_PRINT_AFTER_ALL", "1")
    monkeypatch.setenv("FLYDSL_DEBUG_PRINT_KERNEL", "another")
    function(np.zeros(4, np.float32))
    assert "dumped: after" not in capsys.readouterr().err
    function.invalidate()
    monkeypatch.setenv("FLYDSL_DEBUG_PRINT_KERNEL", "^dump")
    function(np.zeros(4, np.float32))
    assert "dumped: after canonicalize" in capsys.readouterr().err


def test_d5_printing_inside_llvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    if tools.try_find_tool("llc") is None or tools.try_find_tool("opt") is None:
        pytest.skip("LLVM's opt and llc are not installed")

    @flyc.kernel(name="outside")
    def kernel(a: fx.Tensor):
        a[fx.thread_idx.x] = 3.0

    @flyc.jit(llvm_pass_pipeline="instcombine")
    def run(a: fx.Tensor):
        kernel(a).launch(grid=1, block=4)

    monkeypatch.setenv("FLYDSL_COMPILE_CODEGEN", "external")
    monkeypatch.setenv("FLYDSL_COMPILE_ALWAYS", "1")
    flyc.compile(run, np.zeros(4, np.float32), target="rocm:gfx942")
    assert "IR Dump After" not in capsys.readouterr().err
    monkeypatch.setenv("FLYDSL_DEBUG_PRINT_AFTER_ALL", "1")
    run.invalidate()
    flyc.compile(run, np.zeros(4, np.float32), target="rocm:gfx942")
    assert "IR Dump After InstCombinePass" in capsys.readouterr().err


def test_d2_a_failed_compilation_leaves_what_is_needed(function, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The stages up to the failure, and the script that gets there again."""
    from flydsl.cpu.code.rules import RULES
    from flydsl.dialects.upstream import llvm

    def broken(f, op):
        f.line("store nonsense")

    dump_to(tmp_path, monkeypatch)
    monkeypatch.setitem(RULES, llvm.StoreOp, broken)
    with pytest.raises(flyc.DSLCompileError, match="cannot be parsed"):
        flyc.compile(function, np.zeros(4, np.float32))
    names = sorted(p.name for p in (tmp_path / "dumped").iterdir())
    assert "repro.sh" in names and "00_origin.mlir" in names
    assert "store nonsense" in next((tmp_path / "dumped").glob("*_llvm_ir.ll")).read_text()


class TestD6Override:
    """A file named like a dumped stage stands for it."""

    @pytest.fixture
    def stages(self, function, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A copy of the function's dump that holds no stage yet; the dump is beside it."""
        dump_to(tmp_path / "dumps", monkeypatch)
        flyc.compile(function, np.zeros(4, np.float32))
        monkeypatch.delenv("FLYDSL_DUMP_IR")
        function.invalidate()
        (tmp_path / "overrides" / "dumped").mkdir(parents=True)
        monkeypatch.setenv("FLYDSL_COMPILE_OVERRIDE_DIR", str(tmp_path / "overrides"))
        return tmp_path / "overrides" / "dumped"

    def edited(self, stages: Path, ending: str, old: str, new: str) -> str:
        (source,) = (stages.parent.parent / "dumps" / "dumped").glob(f"*{ending}")
        text = source.read_text()
        assert old in text, source
        (stages / source.name).write_text(text.replace(old, new))
        return source.name

    @pytest.mark.parametrize(
        ("ending", "old", "new"),
        [
            ("00_origin.mlir", "1.000000e+00", "5.000000e+00"),
            ("_fly_layout_lowering.mlir", "1.000000e+00", "5.000000e+00"),
            ("_llvm_ir.ll", "0x3FF0000000000000", "0x4014000000000000"),
            ("_llvm_opt.ll", "1.000000e+00", "5.000000e+00"),
        ],
    )
    def test_every_stage(self, function, stages: Path, ending: str, old: str, new: str, capsys):
        name = self.edited(stages, ending, old, new)
        a = np.zeros(4, np.float32)
        function(a)
        assert (a == 5).all()
        assert f"[flydsl.compile] override {name} <- {stages / name}" in capsys.readouterr().err

    def test_content_is_part_of_the_key(self, function, stages: Path):
        keys = {flyc.compile(function, np.zeros(4, np.float32)).artifact.key}
        for value in ("5.000000e+00", "6.000000e+00"):
            self.edited(stages, "00_origin.mlir", "1.000000e+00", value)
            keys.add(flyc.compile(function, np.zeros(4, np.float32)).artifact.key)
        assert len(keys) == 3

    def test_an_edit_between_two_calls_counts(self, function, stages: Path):
        for value in (5, 6, 7):
            self.edited(stages, "00_origin.mlir", "1.000000e+00", f"{value}.000000e+00")
            for _ in range(2):
                a = np.zeros(4, np.float32)
                function(a)
                assert (a == value).all()

    def test_mistakes(self, function, stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        name = self.edited(stages, "00_origin.mlir", "gpu.thread_id", "gpu.thread_identity")
        with pytest.raises(flyc.DSLCompileError, match=rf"{name}:\d+:\d+: .*\n.*gpu.thread_identity"):
            function(np.zeros(4, np.float32))
        (stages / name).unlink()
        name = self.edited(stages, "_final_isa.s", "\t.text", "\t.text\n\tnop")
        with pytest.raises(flyc.DSLCompileError, match="cannot replace the assembly"):
            function(np.zeros(4, np.float32))
        monkeypatch.setenv("FLYDSL_COMPILE_OVERRIDE_DIR", str(tmp_path / "absent"))
        with pytest.raises(flyc.DSLCompileError, match="there is no folder"):
            function(np.zeros(4, np.float32))


def test_d8_verification(function, monkeypatch: pytest.MonkeyPatch):
    """After each pass if asked for; LLVM IR always."""
    from flydsl.passes.cleanup import canonicalize

    broken = []

    def run(self, module):
        for op in module.walk():
            if op.name == "llvm.store":
                broken.append(op)
                op.operands[1] = op.operands[0]
        return module

    monkeypatch.setattr(canonicalize.CanonicalizePass, "run", run)
    monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_VERIFIER", "1")
    monkeypatch.setenv("FLYDSL_DEBUG_PRINT_AFTER", "nothing")
    monkeypatch.setenv("FLYDSL_COMPILE_ALWAYS", "1")
    with pytest.raises(flyc.DSLCompileError, match="does not verify after pass 'canonicalize'"):
        flyc.compile(function, np.zeros(4, np.float32))
    assert broken
    monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_VERIFIER", "0")
    with pytest.raises(flyc.DSLCompileError, match="LLVM IR"):
        flyc.compile(function, np.zeros(4, np.float32))


def test_d17_times_of_every_step(function, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setenv("FLYDSL_DEBUG_TIMING", "1")
    monkeypatch.setenv("FLYDSL_COMPILE_ALWAYS", "1")
    function(np.zeros(4, np.float32))
    table = capsys.readouterr().err
    rows = [line.split(" ms  ")[1].split(" (")[0] for line in table.splitlines() if " ms  " in line]
    steps = ["trace", "translate", "host stub", "link", "llvm/parse", "llvm/optimize", "llvm/emit"]
    assert set(steps) <= set(rows) and rows[-2:] == ["cache write", "module load"]
    assert any(row.startswith("passes/") for row in rows)
    monkeypatch.setenv("FLYDSL_DEBUG_TIMING", "json")
    function.invalidate()
    function(np.zeros(4, np.float32))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["name"] for line in lines] == ["run"] * 3
    assert "trace" in lines[0]["times"] and list(lines[1]["times"]) == ["cache write"]


def test_d20_arguments_are_checked_when_asked_for(function, monkeypatch: pytest.MonkeyPatch):
    """On the warm path too, where the layout of an array is otherwise taken from its type."""
    a = np.zeros(4, np.float32)
    monkeypatch.setenv("FLYDSL_RUNTIME_CHECK_ARGS", "1")
    for _ in range(3):
        a[:] = 0
        function(a)
        assert (a == 1).all()
    with pytest.raises(TypeError):
        function("no array")


class TestNothingToWriteTo:
    """Whoever only looks changes no result and no exit status."""

    @pytest.mark.parametrize("variable", ["FLYDSL_DUMP_IR", "FLYDSL_DEBUG_DUMP_ASM"])
    def test_a_folder_that_cannot_be_made(self, variable, function, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv(variable, "1")
        monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path / "file" / "below"))
        a = np.zeros(4, np.float32)
        with pytest.warns(
            LostOutputWarning, match="the stages of dumped are not dumped, .*below.dumped cannot be written"
        ):
            function(a)
        assert (a == 1).all()

    def test_a_disk_that_fills_up(self, function, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        write = Path.write_bytes

        def full(path: Path, data: bytes) -> int:
            if path.name.startswith("03_"):
                raise OSError(28, "No space left on device")
            return write(path, data)

        dump_to(tmp_path, monkeypatch)
        monkeypatch.setattr(Path, "write_bytes", full)
        a = np.zeros(4, np.float32)
        with pytest.warns(LostOutputWarning, match="No space left"):
            function(a)
        assert (a == 1).all()
        names = sorted(p.name for p in (tmp_path / "dumped").glob("0*"))
        assert len(names) == 3

    @pytest.mark.parametrize("stream", [None, "closed", "full", "ascii"])
    def test_a_console_that_takes_nothing(self, stream, function, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        for name in ("DUMP_IR", "DEBUG_PRINT_AFTER_ALL", "DEBUG_TIMING", "DEBUG_RESOURCES"):
            monkeypatch.setenv(f"FLYDSL_{name}", "1")
        monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
        console = io.TextIOWrapper(io.BytesIO(), "ascii") if stream else None
        if stream == "closed":
            console.close()
        elif stream == "full":
            console.write = lambda text: (_ for _ in ()).throw(BrokenPipeError())
        monkeypatch.setattr(sys, "stderr", console)
        config.say("é")
        a = np.zeros(4, np.float32)
        function(a)
        assert (a == 1).all() and (tmp_path / "dumped" / "00_origin.mlir").is_file()

    def test_a_very_long_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        @flyc.kernel(name="long" * 80)
        def kernel(a: fx.Tensor):
            a[fx.thread_idx.x] = 1.0

        @flyc.jit
        def run(a: fx.Tensor):
            kernel(a).launch(grid=1, block=4)

        dump_to(tmp_path, monkeypatch)
        a = np.zeros(4, np.float32)
        run(a)
        (folder,) = tmp_path.iterdir()
        assert (a == 1).all() and folder.name.startswith("longlong") and (folder / "repro.sh").is_file()
