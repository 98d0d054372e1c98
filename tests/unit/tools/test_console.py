"""Commands whose files, targets or settings are wrong: one line, status 2, no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

GOOD = "func.func @f(%x: i32) -> i32 {\n  func.return %x : i32\n}\n"
SCRIPT = "import flydsl.compiler as flyc\nopen('/nowhere/of/the/script')\n"


def run(tool: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"flydsl.tools.{tool}", *words]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env})


@pytest.fixture
def module(tmp_path: Path) -> str:
    (tmp_path / "in.mlir").write_text(GOOD)
    return str(tmp_path / "in.mlir")


def one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and len(lines) == 1, done.stderr
    assert all(word in lines[0] for word in words), lines[0]


def test_files(module: str, tmp_path: Path) -> None:
    one_line(run("fly_opt", "-o", str(tmp_path / "no/x"), module), "fly-opt: ", "no/x", "No such file")
    one_line(run("fly_opt", "-o", str(tmp_path), module), "fly-opt: ", "Is a directory")
    one_line(run("fly_opt", str(tmp_path / "none")), "fly-opt: cannot read ", "No such file")
    one_line(run("fly", "draw", "(4,8):(8,1)", "-o", str(tmp_path / "no/x")), "fly: ", "No such file")
    one_line(run("fly", "compile", str(tmp_path / "none.py"), "--target", "rocm:gfx942"), "fly: ", "No such file")


def test_targets_and_settings(tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text("x = 1\n")
    one_line(run("fly", "compile", str(script), "--target", "banana"), "fly: target 'banana' names no architecture")
    done = run("fly", "cache", "info", FLYDSL_RUNTIME_CACHE_MAX_BYTES="many")
    one_line(done, "fly: FLYDSL_RUNTIME_CACHE_MAX_BYTES='many' cannot be used")


def test_a_script_shows_its_own_mistakes(tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text(SCRIPT)
    done = run("fly", "compile", str(script), "--target", "rocm:gfx942")
    assert done.returncode and f'{script}", line 2' in done.stderr


@pytest.mark.parametrize("words", [("fly_opt", "--help"), ("fly", "env"), ("fly", "cache", "info")])
def test_closed_pipes(words: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", f"flydsl.tools.{words[0]}", *words[1:]]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 141 and not done.stderr, "whoever read has seen enough: nothing to complain of"
    done = subprocess.run(f"{' '.join(command)} >&-", shell=True, stderr=subprocess.PIPE, text=True)
    one_line(done, "standard output is closed")


def test_a_missing_llvm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from flydsl import config
    from flydsl.errors import ConfigError

    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_DIR", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="FLYDSL_COMPILE_LLVM_DIR=.*expected a folder that exists"):
        config.cache_relevant_env()
    (tmp_path / "none").mkdir()
    assert config.compile.llvm_dir == tmp_path / "none"


@pytest.mark.parametrize(
    "words",
    [
        ("fly", "--version"),
        ("fly", "cache", "--version"),
        ("fly", "aot", "build", "--version"),
        ("fly", "lsp", "--version"),
        ("fly_opt", "--version"),
    ],
)
def test_every_command_tells_its_version(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    from importlib import import_module

    import flydsl

    main = import_module(f"flydsl.tools.{words[0]}").main
    try:
        status = main(list(words[1:]))
    except SystemExit as left:
        status = left.code
    assert not status
    assert capsys.readouterr().out.split()[-1] == flydsl.__version__


TWICE = """
import flydsl.compiler as flyc, flydsl.expr as fx

@flyc.kernel
def fill_kernel(x: fx.Tensor):
    x[fx.thread_idx.x] = 2.0

@flyc.jit
def fill(x: fx.Tensor):
    fill_kernel(x).launch(grid=1, block=8)

fill(flyc.TensorSpec((8,), "float32"))
fill(flyc.TensorSpec((8,), "float32", dynamic=False))
"""


def test_files_are_named_after_what_is_in_them(tmp_path: Path) -> None:
    script, out = tmp_path / "s.py", tmp_path / "out"
    script.write_text(TWICE)
    done = run("fly", "compile", str(script), "--target", "rocm:9.4.2", "--target", "cuda:90", "-o", str(out))
    assert done.returncode == 0, done.stderr
    names = sorted(p.name for p in out.iterdir())
    stems = {name.partition(".host.ll")[0] for name in names if name.endswith(".host.ll")}
    assert len(stems) == 4 and {"fill.rocm-gfx942", "fill.cuda-sm_90"} < stems
    for stem in stems:
        assert (out / f"{stem}.ll").read_text().count("define")
        binary = (out / f"{stem}.{'hsaco' if 'rocm' in stem else 'ptx'}").read_bytes()
        assert binary.startswith(b"\x7fELF") if "rocm" in stem else b".target sm_90" in binary
    assert not [name for name in names if name.endswith((".llvm", ".host"))]


def test_a_command_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    from flydsl.tools.fly import main

    assert main([]) == 2 and "compile the kernels of a script" in capsys.readouterr().err
    for words, meant in ((["compil"], "compile"), (["cache", "lst"], "list")):
        with pytest.raises(SystemExit, match="2"):
            main(words)
        assert capsys.readouterr().err.rstrip().endswith(f"did you mean '{meant}'?")
