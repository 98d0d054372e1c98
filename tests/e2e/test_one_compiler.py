"""One compiler: whoever looks, and wherever passes are run one by one, the code is the same, byte for byte.

FLYDSL_TEST_EVERY_TARGET=1 compares on more targets.
"""

from __future__ import annotations

import importlib.util
import os
import random
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.backends import backend_for_target, parse_target
from flydsl.compiler.build import driver
from flydsl.compiler.build.overrides import parse_module
from flydsl.errors import DSLValueError
from flydsl.kernels.gemm_cdna import gemm_cdna
from flydsl.kernels.gemm_preshuffle import gemm_preshuffle
from flydsl.kernels.gemm_sm80 import gemm_sm80
from flydsl.kernels.gemm_wmma import gemm_wmma
from flydsl.kernels.rows import layer_norm, rms_norm, softmax
from flydsl.kernels.transpose import transpose
from flydsl.kernels.vector_add import vector_add
from flydsl.llvm import external, tools
from flydsl.llvm.codegen import DeviceTarget
from flydsl.passes.fuse import Step, one_by_one, plan, upper_part
from flydsl.passes.order import check_order
from flydsl.passes.pipeline import parse_specs, with_demanded

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "kernels"))
from library import CASES  # noqa: E402 - a folder of tests is no package

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EVERY = bool(os.environ.get("FLYDSL_TEST_EVERY_TARGET"))
TARGETS = ["rocm:gfx942", "cuda:sm_90a", "cpu:native", "cpu:gfx942"]
MORE = ["rocm:gfx950", "rocm:gfx1201", "cuda:sm_80", "cpu:sm_90a"]
ALONE = ("fly-expand-prints", "fly-nvgpu-insert-fences", "fly-split-carried-vectors", "fly-merge-guards")
"""Passes around the group."""
F16, BF16 = torch.float16, torch.bfloat16


class Traced(Exception):
    """Stops a compilation in front of its passes."""


def traced(function, args, target: str):
    """The module a call is traced to, as it reaches the passes, and the passes up to LLVM IR."""
    found = SimpleNamespace(backend=backend_for_target(parse_target(target)))

    def stop(module, *_):
        found.module = module
        raise Traced

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
        patch.setattr(driver, "run_passes", stop)
        with pytest.raises(Traced):
            flyc.compile(function, *args, target=target)
    fragments, _ = found.backend.external_binary_pipeline_fragments(compile_hints={})
    specs = driver.specs_of(with_demanded(fragments, found.module.attributes))
    found.specs = specs[: upper_part(specs)]
    return found


def device_ir(found, steps: list[Step], text: bool = False) -> str:
    """LLVM IR after some steps, with the module as text in between if asked for."""
    module = found.module.clone()
    for step in steps:
        module = step.spec.make().run(module)
        if text:
            module = parse_module(driver.print_module(module), "stage")
    return found.backend.device_ir(driver.split(module)[0])


def check(function, args, target: str, seed: int = 0, text: bool = True) -> None:
    """Compare one walk, one by one, split somewhere, and through text, where that is wanted: parsing is slow."""
    found = traced(function, args, target)
    fused = plan(found.specs, lambda _: False)
    assert [step.spec.name for step in fused if step.spec.name not in ALONE] == ["fly-to-llvm"]
    expected = device_ir(found, fused)
    listed = one_by_one(found.specs)
    assert device_ir(found, listed) == expected
    at = random.Random(seed).randrange(len(found.specs) - 1)
    assert device_ir(found, plan(found.specs, lambda i: i == at)) == expected
    if text:
        assert device_ir(found, listed, text=True) == expected


def example(name: str):
    spec = importlib.util.spec_from_file_location(f"one_compiler_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.compile_args()


@pytest.mark.parametrize("name", [path.stem for path in sorted(EXAMPLES.glob("*.py"))])
def test_examples(name: str):
    for target in TARGETS + MORE * EVERY:
        # Through text once for each stack.
        check(*example(name), target, len(name), text=EVERY or target != "cpu:gfx942")


def matrices(dtype, out):
    shapes = ((256, 128, dtype), (256, 128, dtype), (256, 256, out))
    return [
        flyc.from_dlpack(torch.zeros(m, n).to(t)).mark_layout_dynamic(leading_dim=1, divisibility=8)
        for m, n, t in shapes
    ]


X, ROW = torch.zeros(4, 1000, dtype=F16), torch.zeros(1000, dtype=F16)
ROWS = {
    "vector_add": (vector_add, (ROW, ROW, ROW)),
    "transpose": (transpose, (X, torch.zeros(1000, 4, dtype=F16))),
    "softmax": (softmax, (X, X)),
    "rms_norm": (rms_norm, (X, ROW, X, 1e-5)),
    "layer_norm": (layer_norm, (X, ROW, ROW, X, 1e-5)),
}


@pytest.mark.parametrize("name", ROWS)
def test_kernels(name: str):
    targets = TARGETS + MORE if EVERY else [TARGETS[len(name) % len(TARGETS)]]
    for target in targets:
        check(*ROWS[name], target, len(name))


@pytest.mark.parametrize(
    ("function", "dtype", "target"),
    [
        (gemm_cdna, F16, "rocm:gfx942"),
        (gemm_preshuffle, BF16, "rocm:gfx950"),
        (gemm_wmma, F16, "rocm:gfx1201"),
        (gemm_sm80, F16, "cuda:sm_80"),
    ],
)
def test_products(function, dtype, target: str):
    args = matrices(dtype, torch.float32 if function is not gemm_preshuffle else BF16)
    check(function, args, target, text=EVERY or function is gemm_wmma)


# --- watching ---------------------------------------------------------------------------------------------------------


@flyc.ir_pass(stage="fly:after:fly-layout-lowering", name="one-compiler-look")
def look(module):
    """Looks, and leaves everything as it is."""


def compiled(**options):
    @flyc.kernel(name="watched")
    def kernel(a: fx.Tensor, n: fx.Int32):
        i = fx.block_idx.x * 64 + fx.thread_idx.x
        r = fx.make_rmem_tensor(4, fx.Float32)
        r.fill(0.0)
        for k in fx.range(n):
            r[1] = r[1] + a[i]
            if k > 2:
                r[2] = r[1]
        a[i] = r[1] + r[2]

    @flyc.jit(**options)
    def run(a: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        kernel(a, n).launch(grid=1, block=64, stream=stream)

    return flyc.compile(run, np.zeros(64, np.float32), 5, target="rocm:gfx942").artifact


def test_an_empty_hook_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    plain, hooked = compiled(), compiled(ir_passes=[look])
    assert "fly-to-llvm" in plain.metadata["times"]["passes"]
    assert "fly-promote-regmem-to-vectorssa" in hooked.metadata["times"]["passes"]
    assert plain.llvm_ir == hooked.llvm_ir and plain.binary("hsaco") == hooked.binary("hsaco")


@flyc.kernel
def twice_used_kernel(a: fx.Tensor, n: fx.Int32, w: fx.Float32):
    """LLVM makes other code for the host of what it has written and read again."""
    i = fx.thread_idx.x
    shared = fx.make_view(fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64]).peek().ptr, fx.make_layout(64, 1))
    shared[i] = a[i]
    fx.barrier()
    a[(i + n) & 63] = 0.0
    shared[i] = 0.0
    fx.barrier()
    a[i] = w + fx.Float32(n)


@flyc.jit
def twice_used(a: fx.Tensor, n: fx.Int32, w: fx.Float32, stream: fx.Stream = fx.Stream(None)):
    twice_used_kernel(a, n, w).launch(grid=1, block=64, stream=stream)


def looks_at(stage: str):
    @flyc.ir_pass(stage=stage, name=f"one-compiler-{stage.replace(':', '-')}")
    def look_there(given):
        """Looks, and leaves everything as it is."""

    return look_there


LLVM_STAGES = [looks_at(stage) for stage in ("fly:end", "llvm-pre-opt", "llvm-post-opt", "asm", "mir:pre-emit")]


@pytest.mark.parametrize("target", TARGETS[:3])
@pytest.mark.parametrize("hook", LLVM_STAGES, ids=lambda hook: hook.stage)
def test_an_empty_hook_beyond_the_passes_changes_nothing(hook, target: str, monkeypatch: pytest.MonkeyPatch):
    if hook.stage.startswith("mir:") and tools.try_find_tool("llc") is None:
        pytest.skip("LLVM's llc is not installed")
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    args = (np.zeros(64, np.float32), 5, 1.5)
    plain = flyc.compile(twice_used, *args, target=target).artifact
    hooked = flyc.compile[{"ir_passes": [hook]}](twice_used, *args, target=target).artifact
    assert plain.llvm_ir == hooked.llvm_ir and plain.binary() == hooked.binary() and plain.asm == hooked.asm


@pytest.mark.parametrize("isolate", ["never", "always"])
@pytest.mark.parametrize("target", ["rocm:gfx942", "cpu:native"])
def test_the_assembly_shown_is_that_of_the_binary(target: str, isolate: str, monkeypatch: pytest.MonkeyPatch, tmp_path):
    if tools.try_find_tool("llvm-mc") is None:
        pytest.skip("LLVM's llvm-mc is not installed")
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    monkeypatch.setenv("FLYDSL_COMPILE_ISOLATE", isolate)
    flyc.invalidate_all()
    artifact = flyc.compile(twice_used, np.zeros(64, np.float32), 5, 1.5, target=target).artifact
    device = DeviceTarget.host() if target.startswith("cpu") else DeviceTarget.amdgpu("gfx942")
    assembled = external.assemble(artifact.asm, device, tmp_path)
    assert code_of(assembled) == code_of(artifact.binary())


def code_of(elf: bytes) -> bytes:
    """The section `.text` of an object."""
    at, size, count, last = struct.unpack_from("<40xQ10xHHH", elf)
    headers = [struct.unpack_from("<IIQQQQ", elf, at + size * i) for i in range(count)]
    names = headers[last][4]
    (found,) = [h for h in headers if elf[names + h[0] :].startswith(b".text\0")]
    return elf[found[4] : found[4] + found[5]]


@pytest.mark.parametrize("target", TARGETS[:3])
def test_a_pass_at_every_place_changes_nothing(target: str):
    """A pass that finds nothing to do, listed anywhere in the pipeline, or a look there."""
    function, args = example("tiled_mma")
    found = traced(function, args, target)
    expected = device_ir(found, plan(found.specs, lambda _: False))
    (idle,) = parse_specs("reconcile-unrealized-casts")
    for at in range(len(found.specs) + 1):
        steps = plan([*found.specs[:at], idle, *found.specs[at:]], lambda _: False)
        assert device_ir(found, steps) == expected, at
        assert device_ir(found, plan(found.specs, lambda i, at=at: i == at)) == expected, at


TIMES = ("created", "times")
LIBRARY = {case.name: case for case in CASES}
ONE_EACH = {case.kernel: case.name for case in CASES}
"""A case of every kernel of the library."""


def watched(compile_it, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Compile as it is, and with everything that only looks: the artifact is the same, every byte but for its times."""
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    made = []
    for looks in (False, True):
        if looks:
            for name in ("DUMP_IR", "DEBUG_ENABLE_VERIFIER", "DEBUG_PRINT_AFTER_ALL", "DEBUG_TIMING"):
                monkeypatch.setenv(f"FLYDSL_{name}", "1")
            monkeypatch.setenv("FLYDSL_DUMP_DIR", str(folder))
        flyc.invalidate_all()
        made.append(compile_it())
    plain, seen = (dict(a.sections) for a in made)
    assert len(list(folder.glob("*/*.mlir"))) > 8 and len(plain) > 2 and plain == seen
    known = [{name: value for name, value in a.metadata.items() if name not in TIMES} for a in made]
    assert known[0] == known[1] and " at 0x" not in str(known[0]["signature"])
    assert made[0].source_ir == made[1].source_ir and made[0].asm == made[1].asm


@pytest.mark.parametrize("name", LIBRARY if EVERY else ONE_EACH.values())
def test_watching_library_kernels(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    case = LIBRARY[name]
    watched(lambda: case.compile(case.targets[0]), monkeypatch, tmp_path)


@pytest.mark.parametrize("target", ["rocm:gfx942", "cuda:sm_90a", "cpu:native"])
@pytest.mark.parametrize("name", ["vector_add", "predicated_add", "tiled_copy", "tiled_mma"])
def test_watching_examples(name: str, target: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    function, args = example(name)
    watched(lambda: flyc.compile(function, *args, target=target).artifact, monkeypatch, tmp_path)


@flyc.kernel
def telling_kernel(a: fx.Tensor, n: fx.Int32, tag: fx.Constexpr[int]):
    """Branches of every kind, and calls that LLVM numbers."""
    i, s = fx.thread_idx.x, fx.Float32(0.0)
    for k in range(n):
        if k % 3 == tag:
            s = s + a[i]
        else:
            while s > 8.0:
                s = s * 0.5
    if i < n:
        a[i] = fx.exp(s)
        fx.printf("{}: {}\n", i, s)
    else:
        fx.printf("{} is outside\n", i)


@flyc.jit
def telling(a: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    if n > 3:
        telling_kernel(a, n, 1).launch(grid=1, block=64, stream=stream)
    else:
        telling_kernel(a, n, 2).launch(grid=(n + 1) // 2, block=64, stream=stream)


@pytest.mark.parametrize("target", ["rocm:gfx942", "cuda:sm_80", "cpu:native"])
def test_watching_branches_and_calls(target: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    args = (np.zeros(64, np.float32), 5)
    watched(lambda: flyc.compile(telling, *args, target=target).artifact, monkeypatch, tmp_path)


# --- what a shared walk sees late -------------------------------------------------------------------------------------


@flyc.kernel
def converted_kernel(a: fx.Tensor, n: fx.Int32, t: fx.Float32):
    """A conversion that becomes arithmetic of floats, first used behind where it was written."""
    c = fx.Int32(n)
    for _ in range(c & 3):
        c = c + fx.max(fx.Int32(t * 3.0), fx.ctlz(fx.max(fx.ctlz(c), fx.Int32(t * 3.0))) & 4)
    a[fx.thread_idx.x] = fx.Float32(c)


@flyc.kernel
def carried_kernel(a: fx.Tensor, n: fx.Int32, t: fx.Float32):
    """Registers that loops and ifs further in start from, all with one vector."""
    i, held = fx.thread_idx.x, fx.make_rmem_tensor(4, fx.Float32)
    held.fill(0.0)
    held[2] = t * 3.0
    if i % 4 == 1:
        if i < n:
            fx.printf("{}\n", t)
        else:
            for k in range(n):
                held[2] = a[k]
            j = fx.Int32(0)
            while j < (n & 3):
                held[2] = held[2] * 2.0
                j = j + 1
    a[i] = held[1]


@flyc.kernel
def for_nothing_kernel(a: fx.Tensor, n: fx.Int32, t: fx.Float32):
    """Results of an if and of a loop that nobody takes, of functions and exchanges that are instructions."""
    i, s = fx.thread_idx.x, fx.Float32(0.0)
    _unused = fx.sin(t) if t < 2.0 else a[i + 1]
    for _ in range(n):
        s = s + fx.shuffle_xor(t, 1)
    a[i] = t
    fx.barrier()
    a[i + 64] = t


@flyc.kernel
def told_kernel(a: fx.Tensor, n: fx.Int32, t: fx.Float32):
    """Registers that are put together where they are read, text beyond ASCII, and room for what is printed."""
    i, held = fx.thread_idx.x, fx.make_rmem_tensor(4, fx.Float32)
    held.fill(0.0)
    for _ in range(n & 3):
        if i < n:
            held[2] = a[i]
            was = held.load()
            held.store(was * 2.0 + t)
        for _ in range(3):
            was = held.load()
            held.store(was * was + t)
    fx.printf("é {} → {}\n", n, held[2])


@flyc.kernel
def only_read_kernel(a: fx.Tensor, n: fx.Int32, t: fx.Float32):
    """Registers that a `while` further in reads, and others behind the `if` and the loop around it."""
    i, held = fx.thread_idx.x, fx.make_rmem_tensor(4, fx.Float32)
    held.fill(1.0)
    held[2] = t
    if i < n:
        j = fx.Int32(0)
        while j < 3:
            a[j] = held[3]
            j = j + 1
    for _ in range(n):
        j = fx.Int32(0)
        while held[1] + fx.Float32(j) < 3.0:
            a[j] = held[0]
            j = j + 1
    a[i] = held[2]


@flyc.kernel
def there_and_back_kernel(a: fx.Tensor, n: fx.Int32, t: fx.Float32):
    """Conversions that undo each other, of what is expanded and of what expansions make themselves."""
    i, held = fx.thread_idx.x, fx.make_rmem_tensor(4, fx.Float32)
    held.fill(0.0)
    same = fx.Float32(fx.Float64(t))
    other = t * 2.0 + a[i]
    held[1] = fx.Float32(fx.Float8E4M3FN(t))
    small = fx.Float8E4M3FN(fx.Float32(fx.Float8E4M3FN(other)))
    a[i] = other + fx.log1p(same) + fx.Float32(small) + fx.Float32(fx.Float8E4M3FN(held[1]))


KERNELS = (converted_kernel, carried_kernel, for_nothing_kernel, told_kernel, only_read_kernel, there_and_back_kernel)
LATE = {kernel.__name__: kernel for kernel in KERNELS}


@pytest.mark.parametrize("target", ["rocm:gfx942", "cuda:sm_90a", "cpu:native"])
@pytest.mark.parametrize("hints", [{}, {"debug_info": True, "fast_fp_math": True}], ids=["plain", "debug"])
@pytest.mark.parametrize("name", LATE)
@pytest.mark.covering("name", "target")
def test_what_is_seen_late(name: str, hints: dict, target: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    kernel = LATE[name]

    @flyc.jit
    def run(a: fx.Tensor, n: fx.Int32, t: fx.Float32, stream: fx.Stream = fx.Stream(None)):
        kernel(a, n, t).launch(grid=1, block=64, stream=stream)

    args = (np.zeros(128, np.float32), 5, 1.5)
    watched(lambda: flyc.compile[hints](run, *args, target=target).artifact, monkeypatch, tmp_path)
    if not hints:
        flyc.invalidate_all()
        check(run, args, target)


# --- pipelines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fly-layout-lowering", "'fly-layout-lowering' cannot follow the traced module"),
        ("fly-rewrite-func-signature,convert-fly-to-cpu", "'convert-fly-to-cpu' cannot follow 'fly-rewrite-func-sig"),
        (
            "fly-rewrite-func-signature,fly-layout-lowering,convert-fly-to-cpu,canonicalize,fly-canonicalize",
            "'fly-canonicalize' cannot follow 'canonicalize': 'convert-fly-to-cpu' has left nothing",
        ),
    ],
)
def test_a_pass_that_cannot_follow_is_refused(text: str, message: str):
    with pytest.raises(DSLValueError, match=message):
        check_order(parse_specs(text))


def test_groups_end_where_somebody_looks():
    specs = parse_specs(
        "fly-rewrite-func-signature,fly-canonicalize,fly-layout-lowering,fly-int-swizzle-simplify,canonicalize,"
        "fly-convert-atom-call-to-ssa-form,fly-promote-regmem-to-vectorssa,convert-fly-to-nvvm,canonicalize,cse"
    )
    assert [step[:2] for step in plan(specs, lambda _: False)] == [(0, 8), (9, 9)]
    assert len(plan(specs, lambda i: i == 3)) == 10
    # Behind it another starts, where its passes take what is there to the end.
    assert [step[:2] for step in plan(specs, lambda i: i < 2)] == [(0, 0), (1, 1), (2, 8), (9, 9)]
    (more,) = parse_specs("fly-rocdl-expand-ops")
    assert [step[:2] for step in plan([*specs[:2], more, *specs[2:]], lambda _: False)][2:] == [
        (2, 2),
        (3, 9),
        (10, 10),
    ]


@pytest.mark.parametrize("at", [1, 2, 4, 6])
def test_passes_whose_forms_do_not_follow_are_no_group(at: int):
    """One left out, one on a part of the module, and one that stands twice."""
    specs = parse_specs(
        "fly-rewrite-func-signature,fly-canonicalize,fly-layout-lowering,fly-int-swizzle-simplify,canonicalize,"
        "fly-convert-atom-call-to-ssa-form,fly-promote-regmem-to-vectorssa,convert-fly-to-nvvm,canonicalize"
    )
    nested = specs[at]._replace(path=("gpu.module",))
    for changed in ([], [nested], [specs[at]] * 2):
        listed = [*specs[:at], *changed, *specs[at + 1 :]]
        assert plan(listed, lambda _: False) == one_by_one(listed), changed
    # What cleans up in front of them does not matter to them.
    cleaned = [specs[4], *specs]
    assert [step[:2] for step in plan(cleaned, lambda _: False)] == [(0, 0), (1, 9)]
