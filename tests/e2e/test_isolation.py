"""LLVM gives up on a kernel: the user's process goes on, with an exception that shows the line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import CodegenAbortError, DSLCompileError, DSLValueError
from flydsl.llvm import codegen, isolated, tools

SPECS = (flyc.TensorSpec((100,), "int32"), flyc.ScalarSpec(fx.Int32))


def elementwise(body: Any) -> flyc.JitFunction:
    """A launcher of a kernel that applies `body` to every element."""

    @flyc.kernel
    def apply_kernel(x: fx.Tensor, n: fx.Int32):
        i = fx.block_idx.x * 64 + fx.thread_idx.x
        if i < n:
            x[i] = body(x[i])

    @flyc.jit
    def apply(x: fx.Tensor, n: fx.Int32):
        apply_kernel(x, n).launch(grid=fx.ceildiv(n, 64), block=64)

    return apply


def plus_one(v):
    return v + 1


def host_assembly(v):
    return fx.inline_asm(fx.Int32, [v], "leal 5($1), $0", "=r,r")


def unknown_host_instruction(v):
    return fx.inline_asm(fx.Int32, [v], "frobnicate $1, $0", "=r,r")  # culprit


def impossible_register(v):
    return fx.inline_asm(fx.Int32, [v], "add.s32 $0, $1, 5;", "=Z,r")  # culprit


def unknown_amd_instruction(v):
    return fx.inline_asm(fx.Int32, [v], "v_frobnicate $0, $1", "=v,v")  # culprit


def intrinsic_of_another_chip(v):
    yes, no = fx.Boolean(True), fx.Boolean(False)
    return fx.llvm_intrinsic(fx.Int32, "llvm.amdgcn.sudot4", [yes, v, yes, v, v, no])  # culprit


def amd_intrinsic_of_another_chip(v):
    yes, no = fx.Boolean(True), fx.Boolean(False)
    return fx.rocdl.intrinsic("sudot4", fx.Int32, [yes, v, yes, v, v, no])  # culprit


def intrinsic_of_another_cpu(v):
    return fx.llvm_intrinsic(fx.Int32, "llvm.aarch64.crc32b", [fx.Int32(1), fx.Int32(2)]) + v  # culprit


def malformed_constraints(v):
    return fx.inline_asm(fx.Int32, [v], "movl $1, $0", "=Q9,r")  # culprit


ABORTS = [
    (unknown_host_instruction, "cpu:native", "invalid instruction mnemonic 'frobnicate'"),
    (intrinsic_of_another_cpu, "cpu:native", "Cannot select: intrinsic %llvm.aarch64.crc32b"),
    (impossible_register, "cuda:sm_90a", "couldn't allocate output register for constraint 'Z'"),
    (intrinsic_of_another_chip, "rocm:gfx90a", "Cannot select: intrinsic %llvm.amdgcn.sudot4"),
    (amd_intrinsic_of_another_chip, "rocm:gfx90a", "Cannot select: intrinsic %llvm.amdgcn.sudot4"),
]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def left_behind(cache: Path) -> list[Path]:
    """Entries, locks and temporary files; the lock of evictions stays where it is."""
    known = ("README", "CACHEDIR.TAG", "toolhash.json", "producthash.json", "eviction")
    return [p for p in cache.rglob("*") if p.is_file() and p.name not in known]


def shows_the_line(error: BaseException, body: Any) -> bool:
    lines = Path(__file__).read_text().splitlines()
    start = body.__code__.co_firstlineno
    number = next(n for n in range(start, start + 5) if "# culprit" in lines[n - 1])
    return f'File "{__file__}", line {number}' in str(error) and lines[number - 1].strip() in str(error)


@pytest.mark.parametrize(("body", "target", "reason"), ABORTS, ids=[f"{b.__name__}-{t}" for b, t, _ in ABORTS])
def test_c69_an_abort_is_an_exception_at_the_users_line(body: Any, target: str, reason: str, cache: Path):
    with pytest.raises(CodegenAbortError) as caught:
        flyc.compile(elementwise(body), *SPECS, target=target)
    assert reason in caught.value.message and reason in caught.value.stderr
    assert caught.value.returncode in (1, -signal.SIGABRT)
    assert shows_the_line(caught.value, body)
    assert left_behind(cache) == []
    good = flyc.compile(elementwise(plus_one), *SPECS, target=target)
    assert len(good.artifact.binary()) > 100
    assert len(left_behind(cache)) == 1


def test_c69_assembly_the_assembler_refuses(cache: Path):
    if tools.try_find_tool("llc") is None:
        pytest.skip("assembly for AMD GPUs needs LLVM's llc")
    with pytest.raises(DSLCompileError, match="invalid instruction") as caught:
        flyc.compile(elementwise(unknown_amd_instruction), *SPECS, target="rocm:gfx942")
    assert shows_the_line(caught.value, unknown_amd_instruction)
    assert left_behind(cache) == []


def test_c69_constraints_llvm_cannot_read(cache: Path):
    with pytest.raises(DSLCompileError, match="failed to parse constraints") as caught:
        flyc.compile(elementwise(malformed_constraints), *SPECS, target="cpu:native")
    assert shows_the_line(caught.value, malformed_constraints)
    assert left_behind(cache) == []


@pytest.mark.parametrize(
    ("constraints", "message"),
    [("=r,=r,r", "2 outputs, but 1 results"), ("=r", "0 inputs, but 1 operands"), ("=r,r,r,~{memory}", "2 inputs")],
)
def test_constraints_are_counted_before_code_generation(constraints: str, message: str):
    def wrong(v):
        return fx.inline_asm(fx.Int32, [v], "nop", constraints)

    with pytest.raises(DSLValueError, match=message):
        flyc.compile(elementwise(wrong), *SPECS, target="cpu:native")


@pytest.mark.skipif(not codegen.DeviceTarget.host().triple.startswith("x86_64"), reason="x86 assembly")
def test_assembly_runs(cache: Path):
    def two(v):
        a, b = fx.inline_asm((fx.Int32, fx.Int32), [v], "leal 5($2), $0\nleal 7($2), $1", "=&r,=r,r")
        return a * b

    x = np.random.default_rng().integers(-(2**10), 2**10, 1003).astype(np.int32)
    y = x.copy()
    elementwise(host_assembly)(y, 1003)
    np.testing.assert_array_equal(y, x + 5)
    z = x.copy()
    elementwise(two)(z, 1003)
    np.testing.assert_array_equal(z, (x + 5) * (x + 7))


def test_assembly_of_gpus_is_in_the_code(cache: Path):
    def ptx(v):
        return fx.inline_asm(fx.Int32, [v], 'add.s32 $0, $1, 5; // "quoted" \\ and more', "=r,r")

    def gcn(v):
        return fx.inline_asm(fx.Int32, [v], "v_add_u32 $0, $1, 5", "=v,v")

    code = flyc.compile(elementwise(ptx), *SPECS, target="cuda:sm_90").artifact
    assert "add.s32 " in code.asm and '// "quoted" \\ and more' in code.asm
    if tools.try_find_tool("llc") is not None:
        code = flyc.compile(elementwise(gcn), *SPECS, target="rocm:gfx942").artifact
        assert "v_add_u32 v" in code.asm and code.binary("hsaco")[:4] == b"\x7fELF"


CHECKED = {
    "permlane32_swap": lambda v: fx.rocdl.permlane32_swap(fx.Int32, v, v)[0],
    "permlane16_swap": lambda v: fx.rocdl.permlane16_swap(fx.Int32, v, v)[0],
    "ballot": lambda v: fx.rocdl.ballot(fx.Int32, v > 3),
    "cvt_pk_fp8_f32": lambda v: fx.rocdl.cvt_pk_fp8_f32(fx.Int32, fx.Float32(v), fx.Float32(v)),
    "cvt_f32_bf8": lambda v: fx.Int32(fx.rocdl.cvt_f32_bf8(fx.Float32, v)),
    "mov_dpp": lambda v: fx.rocdl.mov_dpp(fx.Int32, v, 0x101, 0xF, 0xF, True),
}


def test_paths_that_are_no_text_do_not_keep_a_worker_from_starting(monkeypatch: pytest.MonkeyPatch):
    isolated.close_workers()
    monkeypatch.setattr(sys, "path", [*sys.path, Path(__file__).parent])
    target = codegen.DeviceTarget.host()
    assert isolated.optimize("define i32 @one() {\n  ret i32 1\n}\n", target, 1)


@pytest.mark.parametrize("name", CHECKED)
def test_c69_instructions_are_checked_before_code_generation(name: str, monkeypatch: pytest.MonkeyPatch, cache: Path):
    """What the language offers never gets as far as an abort: it compiles, or is refused at the user's line."""
    monkeypatch.setenv("FLYDSL_COMPILE_ISOLATE", "always")
    for arch in ("gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1250"):
        try:
            flyc.compile(elementwise(CHECKED[name]), *SPECS, target=f"rocm:{arch}")
        except DSLValueError as error:
            assert f'File "{__file__}"' in "".join(getattr(error, "__notes__", ()))
    with pytest.raises(DSLValueError, match="belongs to AMD GPUs"):
        flyc.compile(elementwise(CHECKED[name]), *SPECS, target="cuda:sm_90")


ORDINARY = """
import json, os, sys
import flydsl.compiler as flyc, flydsl.expr as fx

@flyc.kernel
def k(x: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        x[i] = x[i] + 1

@flyc.jit
def f(x: fx.Tensor, n: fx.Int32):
    k(x, n).launch(grid=fx.ceildiv(n, 64), block=64)

f2 = flyc.compile(f, flyc.TensorSpec((9,), "int32"), 9, target=sys.argv[1])
children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
print(json.dumps({"isolated": "flydsl.llvm.isolated" in sys.modules, "children": len(children)}))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(("mode", "expected"), [("auto", [False, 0]), ("always", [True, 1]), ("never", [False, 0])])
def test_c69_ordinary_kernels_start_no_worker(mode: str, expected: list[Any], tmp_path: Path):
    script = tmp_path / "ordinary.py"
    script.write_text(ORDINARY)
    env = {**os.environ, "FLYDSL_COMPILE_ISOLATE": mode, "FLYDSL_RUNTIME_ENABLE_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, str(script), "cuda:sm_90"], env=env, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert [found["isolated"], found["children"]] == expected


def test_never_leaves_it_to_llvm(tmp_path: Path):
    """What the worker is there for: without it the process is gone."""
    script = tmp_path / "never.py"
    foreign = 'fx.llvm_intrinsic(fx.Int32, "llvm.aarch64.crc32b", [fx.Int32(1), fx.Int32(2)])'
    script.write_text(ORDINARY.replace("x[i] + 1", foreign))
    env = {**os.environ, "FLYDSL_COMPILE_ISOLATE": "never", "FLYDSL_RUNTIME_ENABLE_CACHE": "0"}
    done = subprocess.run([sys.executable, str(script), "cpu:native"], env=env, capture_output=True, text=True)
    assert done.returncode == -signal.SIGABRT and "Cannot select" in done.stderr


# --- the workers themselves -------------------------------------------------------------------------------------

IR = "define i32 @f(i32 %x) {\n  %y = add i32 %x, NUMBER\n  ret i32 %y\n}\n"
HOST = codegen.DeviceTarget.host()


def compile_ir(number: int = 1) -> codegen.DeviceCode:
    return isolated.compile_device(IR.replace("NUMBER", str(number)), HOST)


def same_code(code: codegen.DeviceCode, number: int = 1) -> bool:
    here = codegen.compile_device(IR.replace("NUMBER", str(number)), HOST)
    return (code.object, code.asm, code.optimized_ir) == (here.object, here.asm, here.optimized_ir)


@pytest.fixture
def no_workers():
    isolated.close_workers()
    yield
    isolated.close_workers()


@pytest.mark.usefixtures("no_workers")
def test_a_worker_makes_the_same_code_and_is_used_again():
    assert same_code(compile_ir())
    first = isolated.worker_pids()
    assert same_code(compile_ir(2), 2) and isolated.worker_pids() == first and len(first) == 1


@pytest.mark.usefixtures("no_workers")
def test_a_worker_killed_while_it_waits_is_replaced():
    compile_ir()
    (pid,) = isolated.worker_pids()
    os.kill(pid, signal.SIGKILL)
    assert same_code(compile_ir(3), 3)
    assert isolated.worker_pids() != [pid]


@pytest.mark.usefixtures("no_workers")
def test_workers_are_recycled(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(isolated, "RECYCLE", 3)
    seen: list[int] = []
    for number in range(7):
        compile_ir(number)
        seen += [pid for pid in isolated.worker_pids() if pid not in seen]
    assert len(seen) == 3  # the third request of a worker is its last


@pytest.mark.usefixtures("no_workers")
def test_errors_of_a_worker_keep_their_class():
    with pytest.raises(DSLCompileError, match="LLVM IR cannot be parsed: line 1"):
        isolated.compile_device("define nonsense", HOST)
    assert same_code(compile_ir(4), 4)


@pytest.mark.usefixtures("no_workers")
def test_a_worker_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch):
    compile_ir()
    (pid,) = isolated.worker_pids()
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_TIMEOUT", "1")
    with pytest.raises(DSLCompileError, match="did not finish within 1 s; FLYDSL_COMPILE_LLVM_TIMEOUT"):
        compile_ir()
    monkeypatch.delenv("FLYDSL_COMPILE_LLVM_TIMEOUT")
    assert same_code(compile_ir(5), 5)


@pytest.mark.usefixtures("no_workers")
def test_threads_have_workers_of_their_own():
    results: dict[int, bool] = {}

    def work(number: int) -> None:
        results[number] = same_code(compile_ir(number), number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(range(3), True)


@pytest.mark.usefixtures("no_workers")
def test_a_forked_child_starts_its_own_worker():
    compile_ir()
    before = isolated.worker_pids()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            fine = same_code(compile_ir(6), 6) and not set(isolated.worker_pids()) & set(before)
            isolated.close_workers()
            status = 0 if fine else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert same_code(compile_ir(7), 7) and isolated.worker_pids() == before


def test_an_interrupt_ends_the_worker_not_the_next_answer(no_workers, monkeypatch: pytest.MonkeyPatch):
    compile_ir()
    (pid,) = isolated.worker_pids()
    os.kill(pid, signal.SIGSTOP)
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        compile_ir(8)
    timer.join()
    assert same_code(compile_ir(9), 9)
    assert isolated.worker_pids() != [pid]


def test_a_worker_ends_with_its_process():
    script = (
        "import os\n"
        "from flydsl.llvm import codegen, isolated\n"
        "isolated.compile_device('define void @f() { ret void }', codegen.DeviceTarget.host())\n"
        "print(isolated.worker_pids()[0], flush=True)\n"
        "os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    for _ in range(100):
        try:
            os.kill(int(done.stdout), 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the worker outlived its process")
