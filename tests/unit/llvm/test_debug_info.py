"""Line tables: from the locations of ops to LLVM metadata, and back from text to source lines."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLValueError
from flydsl.llvm import binding
from flydsl.llvm.text.source_lines import SourceLine, annotate_assembly, assembly_lines, ir_chain, ir_lines

TARGETS = ("cpu:native", "rocm:gfx942", "rocm:gfx1100", "cuda:sm_90a")
HERE = str(Path(__file__).resolve())


def tool(name: str) -> str:
    """A program of Debian's LLVM."""
    found = shutil.which(f"{name}-22") or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def line_of(text: str) -> int:
    """The line of this file that ends with a comment."""
    lines = Path(__file__).read_text().split("\n")
    (found,) = [i for i, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return found


def helper(x):
    return x * 3.0  # in the helper


@flyc.kernel
def looped(a: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x  # the index
    if i < n:
        v = a[i]  # the load
        for _ in range(n):
            v = helper(v) + 1.0  # the sum
        a[i] = v  # the store


@flyc.jit
def run(a: fx.Tensor, n: fx.Int32):
    looped(a, n).launch(grid=fx.ceildiv(n, 64), block=64)


@flyc.kernel
def meeting(a: fx.Tensor):
    i = fx.thread_idx.x
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64]).peek().view(fx.make_layout(64, 1))
    shared[i] = a[i]  # before the barrier
    fx.barrier()
    a[i] = shared[63 - i] * 2.0  # after the barrier


@flyc.jit
def run_meeting(a: fx.Tensor):
    meeting(a).launch(grid=1, block=64)


def compiled(target: str, function=run, *args, debug_info: bool = True):
    args = args or (np.zeros(100, np.float32), 100)
    return flyc.compile[{"debug_info": debug_info}](function, *args, target=target).artifact


@pytest.mark.parametrize("target", TARGETS)
def test_d19_off_by_default_and_free(target: str):
    """Without the hint no byte of metadata is written; with it the instructions are the same ones."""
    args = (np.zeros(100, np.float32), 100)
    plain = flyc.compile(run, *args, target=target).artifact
    assert "!dbg" not in plain.llvm_ir and "DICompileUnit" not in plain.llvm_ir and ".loc" not in plain.asm
    assert plain.llvm_ir == compiled(target, debug_info=False).llvm_ir
    located = compiled(target)
    assert located.key != plain.key
    without = re.sub(r",? !dbg !\d+", "", located.llvm_ir)
    body = without[: without.index("\ndeclare")] if "\ndeclare" in without else without.split("\n!")[0]
    assert body in plain.llvm_ir


@pytest.mark.parametrize("target", TARGETS)
def test_d10_d19_lines_and_call_chains_reach_llvm(target: str):
    text = compiled(target).llvm_ir
    binding.parse(text)
    places = ir_lines(text)
    wanted = {"fmul": "in the helper", "fadd": "the sum", "store float": "the store"}
    for word, comment in wanted.items():
        found = {p for p, t in zip(places, text.split("\n"), strict=True) if word in t and "!dbg" in t}
        assert found == {SourceLine(HERE, line_of(comment))}, word
    (number,) = [i for i, t in enumerate(text.split("\n"), 1) if "fmul" in t]
    chain = ir_chain(text, number)
    assert [(f.filename, f.line) for f in chain] == [(HERE, line_of("the sum")), (HERE, line_of("in the helper"))]
    assert re.search(r'!DISubprogram\(name: "helper"', text) and '!DISubprogram(name: "looped"' in text


@pytest.mark.parametrize("target", TARGETS)
def test_assembly_has_the_lines(target: str):
    lines = assembly_lines(compiled(target).asm)
    found = {line.source for line in lines if line.source}
    for comment in ("in the helper", "the sum", "the store"):
        assert SourceLine(HERE, line_of(comment)) in found, comment
    assert not any(".debug_" in line.text or line.text.strip().startswith(".loc") for line in lines)


@pytest.mark.parametrize("target", TARGETS)
def test_annotated_assembly(target: str):
    artifact = compiled(target)
    text = artifact.annotated_asm()
    mark = {"cpu": "#", "rocm": ";", "cuda": "//"}[target.split(":")[0]]
    comment = f"{mark} {HERE}:{line_of('the store')}: a[i] = v  # the store"
    lines = text.split("\n")
    assert comment in lines
    instruction = lines[lines.index(comment) + 1]
    assert instruction.startswith("\t") and not instruction.strip().startswith((".", mark))
    plain = [line.strip() for line in artifact.asm.split("\n") if line.strip() and not line.strip().startswith(".")]
    kept = {line.strip() for line in lines}
    missing = [line for line in plain if line not in kept and not line.endswith(":") and "\t" in line]
    assert not missing


def test_annotation_needs_line_tables():
    with pytest.raises(DSLValueError, match=r"without line tables.*debug_info"):
        compiled("rocm:gfx942", debug_info=False).annotated_asm()
    assert annotate_assembly("\tret\n") is None


@pytest.mark.parametrize("linker", ["internal", "lld"])
def test_hsaco_has_a_dwarf_line_table(linker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With the built-in linker and with lld: the same valid table, and a disassembly that shows our lines."""
    if linker == "lld":
        tool("ld.lld")
    monkeypatch.setenv("FLYDSL_COMPILE_LINKER", linker)
    path = tmp_path / "k.hsaco"
    path.write_bytes(compiled("rocm:gfx942").binary("hsaco"))
    check = subprocess.run([tool("llvm-dwarfdump"), "--verify", path], capture_output=True, text=True, timeout=60)
    assert check.returncode == 0, check.stdout
    shown = subprocess.run([tool("llvm-objdump"), "-d", "-l", path], capture_output=True, text=True, timeout=60).stdout
    parts = re.split(r"^; (.*:\d+)$", shown, flags=re.MULTILINE)
    code = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert "global_store_dword" in code[f"{HERE}:{line_of('the store')}"]
    assert "global_load_dword" in code[f"{HERE}:{line_of('the load')}"]


def test_object_of_the_cpu_has_a_line_table(tmp_path: Path):
    path = tmp_path / "k.o"
    path.write_bytes(compiled("cpu:native").binary("o"))
    check = subprocess.run([tool("llvm-dwarfdump"), "--verify", path], capture_output=True, text=True, timeout=60)
    assert check.returncode == 0, check.stdout
    table = subprocess.run([tool("llvm-dwarfdump"), "--debug-line", path], capture_output=True, text=True, timeout=60)
    rows = {int(row.split()[1]) for row in table.stdout.split("\n") if row.startswith("0x")}
    assert {line_of(c) for c in ("in the helper", "the sum", "the store")} <= rows


def test_ptx_is_what_ptxas_takes(tmp_path: Path):
    """Directives only: with DWARF of LLVM's own, ptxas would not optimise."""
    text = compiled("cuda:sm_90a").asm
    assert ".loc\t1 " in text and ", debug" not in text and f'"{HERE}"' in text
    ptxas = shutil.which("ptxas")
    if ptxas is None:
        pytest.skip("ptxas is not installed")
    source, out = tmp_path / "k.ptx", tmp_path / "k.cubin"
    source.write_text(text)
    subprocess.run([ptxas, "-arch=sm_90a", "-lineinfo", source, "-o", out], check=True, timeout=120)
    table = subprocess.run([tool("llvm-dwarfdump"), "--debug-line", out], capture_output=True, text=True, timeout=60)
    rows = {int(row.split()[1]) for row in table.stdout.split("\n") if row.startswith("0x")}
    assert {line_of(c) for c in ("in the helper", "the sum", "the store")} <= rows


def test_code_with_line_tables_runs(monkeypatch: pytest.MonkeyPatch):
    """Loops, and threads that are coroutines, on the cpu stack."""
    monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_DEBUG_INFO", "1")
    start = np.random.default_rng().standard_normal(100).astype(np.float32)
    a = start.copy()
    run(a, 5)
    expected = start.astype(np.float64)
    for _ in range(5):
        expected[:5] = expected[:5] * 3.0 + 1.0
    np.testing.assert_allclose(a, expected, rtol=1e-5)
    b = np.random.default_rng().standard_normal(64).astype(np.float32)
    reverse = b[::-1].copy()
    run_meeting(b)
    np.testing.assert_array_equal(b, reverse * 2)
    text = flyc.compile(run_meeting, b).artifact.annotated_asm()
    for comment in ("before the barrier", "after the barrier"):
        assert f"# {HERE}:{line_of(comment)}: " in text


def test_strange_file_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Quotes, spaces, backslashes and letters beyond ASCII come back as they were."""
    source = tmp_path / 'a "quoted"\\ näme.py'
    source.write_text(
        "import flydsl.compiler as flyc\nimport flydsl.expr as fx\n\n\n@flyc.kernel\ndef k(a: fx.Tensor):\n"
        "    a[fx.thread_idx.x] = 1.0\n\n\n@flyc.jit\ndef run(a: fx.Tensor):\n    k(a).launch(grid=1, block=4)\n"
    )
    space: dict[str, object] = {"__name__": "strange"}
    exec(compile(source.read_text(), str(source), "exec"), space)
    text = compiled("rocm:gfx942", space["run"], np.zeros(4, np.float32)).llvm_ir
    binding.parse(text)
    assert SourceLine(str(source), 7) in ir_lines(text)


def test_fly_compile_annotates(tmp_path: Path):
    script = tmp_path / "k.py"
    script.write_text(
        "import numpy as np\nimport flydsl.compiler as flyc\nimport flydsl.expr as fx\n\n\n@flyc.kernel\n"
        "def k(a: fx.Tensor):\n    a[fx.thread_idx.x] = 1.0\n\n\n@flyc.jit\ndef run(a: fx.Tensor):\n"
        "    k(a).launch(grid=1, block=4)\n\n\nrun(np.zeros(4, np.float32))\n"
    )
    command = [
        sys.executable,
        "-m",
        "flydsl.tools.fly",
        "compile",
        str(script),
        "--target",
        "rocm:gfx942",
        "-o",
        tmp_path,
    ]
    for arguments, there in (([], False), (["--annotate"], True)):
        subprocess.run([*command, *arguments], check=True, capture_output=True, timeout=120)
        text = (tmp_path / "run.rocm-gfx942.s").read_text()
        assert (f"; {script}:8: a[fx.thread_idx.x] = 1.0\n" in text) is there
