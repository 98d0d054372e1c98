"""Pipelines that a backend changes: passes dropped, repeated, exchanged, inserted. Each is refused before a pass runs,
with the names of both, or gives the same code whoever looks."""

from __future__ import annotations

import random
import re
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.backends import backend_for_target, parse_target
from flydsl.compiler.build import driver
from flydsl.compiler.build.dumps import watching
from flydsl.errors import CodegenPassError, DSLCompileError, DSLValueError
from flydsl.passes import PASSES
from flydsl.passes.fuse import made_up_for, plan, upper_part
from flydsl.passes.order import check_whole
from flydsl.passes.pipeline import PassSpec, parse_specs

REFUSED = re.compile(
    r"^(pass '[\w-]+' cannot follow ('[\w-]+'|the traced module)|the pipeline cannot end with '[\w-]+')"
)


class Written(Exception):
    """Stops a compilation when its LLVM IR is written: device and host."""


@flyc.kernel
def changed_kernel(a: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64]).peek()
    r = fx.make_rmem_tensor(4, fx.Float32)
    r.fill(0.0)
    for k in range(n):
        r[1] = r[1] + a[i]
        if k > 2:
            r[2] = fx.exp(r[1])
    shared[fx.thread_idx.x] = r[1]
    fx.barrier()
    a[i] = shared[63 - fx.thread_idx.x] + r[2]


@flyc.jit
def changed(a: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    if n > 3:
        changed_kernel(a, n).launch(grid=(n + 63) // 64, block=64, stream=stream)


def text_of(spec: PassSpec) -> str:
    options = " ".join(f"{key}={value}" for key, value in spec.options.items())
    text = f"{spec.name}{{{options}}}" if options else spec.name
    for anchor in reversed(spec.path):
        text = f"{anchor}({text})"
    return text


class Pipeline:
    """Compiles for a target with other passes, up to LLVM IR."""

    def __init__(self, target: str, monkeypatch: pytest.MonkeyPatch):
        self.target = target
        backend: Any = backend_for_target(parse_target(target))
        fragments, binary = backend.external_binary_pipeline_fragments(compile_hints={})
        self.passes = [text_of(spec) for fragment in fragments for spec in parse_specs(fragment)]
        self.listed: list[str] = []
        self.host = ""
        monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
        monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_VERIFIER", "0")
        monkeypatch.setattr(
            type(backend), "external_binary_pipeline_fragments", lambda _, compile_hints: (self.listed, binary)
        )

        def stop(_: Any, device_ir: str, **__: Any) -> None:
            raise Written(device_ir, self.host)

        host_module = driver.host_stub.host_module

        def kept(*args: Any) -> str:
            self.host = host_module(*args)
            return self.host

        monkeypatch.setattr(type(backend), "make_device_code", stop)
        monkeypatch.setattr(driver.host_stub, "host_module", kept)

    def written(self, passes: list[str], looked_at: bool = False) -> tuple[str, str]:
        self.listed = passes
        flyc.invalidate_all()
        look = watching(lambda *_: None) if looked_at else nullcontext()
        with pytest.raises(Written) as caught, look:
            flyc.compile(changed, np.zeros(64, np.float32), 5, target=self.target)
        return caught.value.args  # pyright: ignore[reportReturnType]

    def check(self, passes: list[str]) -> bool:
        """Whether a pipeline is refused; else both ways agree."""
        try:
            plain = self.written(passes)
        except DSLValueError as error:
            assert REFUSED.match(str(error)), error
            with pytest.raises(DSLValueError) as again:
                self.written(passes, looked_at=True)
            assert str(again.value) == str(error)
            return True
        assert self.written(passes, looked_at=True) == plain
        return False


def some(passes: list[str], count: int, rng: random.Random) -> list[list[str]]:
    """Pipelines with one pass more, with two, or with others exchanged."""
    made: list[list[str]] = []
    for _ in range(count):
        new = list(passes)
        for _ in range(rng.choice((1, 1, 2))):
            name = rng.choice([name for name in PASSES if name != "gpu-module-to-binary"])
            new.insert(rng.randrange(len(new) + 1), f"gpu.module({name})" if rng.random() < 0.2 else name)
        if rng.random() < 0.3:
            i, j = rng.sample(range(len(new)), 2)
            new[i], new[j] = new[j], new[i]
        made.append(new)
    return made


@pytest.mark.parametrize(("target", "count"), [("rocm:gfx942", 24), ("cuda:sm_90a", 16), ("cpu:native", 16)])
def test_other_pipelines(target: str, count: int, monkeypatch: pytest.MonkeyPatch):
    pipeline = Pipeline(target, monkeypatch)
    passes, places = pipeline.passes, range(len(pipeline.passes))
    assert not pipeline.check(passes)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dropped = [passes[:i] + passes[i + 1 :] for i in places]
    exchanged = [[*passes[:i], passes[i + 1], passes[i], *passes[i + 2 :]] for i in places[:-1]]
    repeated = [passes[: i + 1] + passes[i:] for i in places]
    if not target.startswith("rocm"):
        exchanged, repeated = exchanged[::3], repeated[::3]
    refused = [pipeline.check(new) for new in [*dropped, *exchanged, *repeated]]
    assert True in refused and False in refused
    for new in some(passes, count, random.Random(seed)):
        try:
            pipeline.check(new)
        except Exception as error:
            error.add_note(f"with {new}")
            raise


@pytest.mark.parametrize("target", ["rocm:gfx942", "cuda:sm_90a"])
def test_canonicalize_of_a_graph_of_blocks(target: str, monkeypatch: pytest.MonkeyPatch):
    """Vectors that are put together lazily stay in front of the branch at the end of their block."""
    pipeline = Pipeline(target, monkeypatch)
    at = pipeline.passes.index("gpu.module(convert-scf-to-cf)") + 1
    assert not pipeline.check([*pipeline.passes[:at], "canonicalize", *pipeline.passes[at:]])


@pytest.mark.parametrize("target", ["rocm:gfx942", "cuda:sm_90a", "cpu:native"])
def test_lines_are_the_same_whoever_looks(target: str, monkeypatch: pytest.MonkeyPatch):
    """What loops and branches hand on is put together where they are, not where the function ends."""
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_DEBUG_INFO", "1")
    made: list[str] = []
    for look in (nullcontext(), watching(lambda *_: None)):
        flyc.invalidate_all()
        with look:
            made.append(flyc.compile(changed, np.zeros(64, np.float32), 5, target=target).artifact.llvm_ir)
    assert made[0] == made[1] and "!DILocation" in made[0]


@pytest.mark.parametrize(
    ("drop", "message"),
    [
        ("convert-fly-to-rocdl", "'fly-split-carried-vectors' cannot follow 'canonicalize': 'convert-fly-to-rocdl', "),
        (
            "gpu.module(convert-gpu-to-rocdl",
            "pass 'fly-rocdl-cluster-attr' cannot follow 'cse': 'convert-gpu-to-rocdl'",
        ),
        ("gpu-to-llvm", "cannot end with 'reconcile-unrealized-casts': behind 'convert-scf-to-cf', 'gpu-to-llvm' must"),
        ("convert-scf-to-cf", "'convert-cf-to-llvm' cannot follow 'rocdl-attach-target': 'convert-scf-to-cf' must run"),
    ],
)
def test_a_missing_pass_is_named(drop: str, message: str, monkeypatch: pytest.MonkeyPatch):
    pipeline = Pipeline("rocm:gfx942", monkeypatch)
    with pytest.raises(DSLValueError, match=re.escape(message)):
        pipeline.written([text for text in pipeline.passes if not text.startswith(drop)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "",
            "cannot end with the traced module: 'convert-fly-to-rocdl', 'convert-fly-to-nvvm' or 'convert-fly-to-cpu'",
        ),
        ("cse", "cannot end with 'cse'"),
        (
            "cse,gpu-module-to-binary",
            "'gpu-module-to-binary' cannot follow 'cse': a backend's pipeline has it at the end",
        ),
    ],
)
def test_half_a_pipeline_is_refused(text: str, message: str):
    with pytest.raises(DSLValueError, match=message):
        check_whole(parse_specs(text))


def rest_of(stack: str, arch: str, hints: dict[str, Any] | None = None) -> list[PassSpec]:
    backend = backend_for_target(parse_target(f"{stack}:{arch}"))
    fragments, _ = backend.external_binary_pipeline_fragments(compile_hints=hints or {})
    specs = driver.specs_of(fragments)
    return list(specs[upper_part(specs) :])


@pytest.mark.parametrize("target", [("rocm", "gfx942"), ("cuda", "sm_90a")])
def test_what_the_writer_makes_up_for(target: tuple[str, str]):
    rest, lines = rest_of(*target), rest_of(*target, {"debug_info": True})
    assert made_up_for(rest) and made_up_for(lines, debug_info=True) and made_up_for([])
    assert not made_up_for(rest, debug_info=True) and not made_up_for(lines)
    other = [spec._replace(options={"emission-kind": "Full"}) if "debug" in spec.name else spec for spec in lines]
    assert not made_up_for(other, debug_info=True)
    assert not made_up_for([*rest, *parse_specs("canonicalize")])
    assert not made_up_for([*rest, *parse_specs("convert-arith-to-llvm")]), "casts may be left"
    nested = [spec._replace(path=("gpu.module",)) if spec.name == "convert-arith-to-llvm" else spec for spec in rest]
    assert not made_up_for(nested), "the host's arithmetic stays"
    assert plan(rest, lambda _: False) == [(i, i, spec) for i, spec in enumerate(rest)]


# --- passes of the user -----------------------------------------------------------------------------------------------


def hooked(stage: str, function: Any, target: str = "cuda:sm_90a") -> Any:
    made = flyc.ir_pass(stage=stage, name=f"pipelines-{stage.replace(':', '-').replace('#', '-')}")(function)
    flyc.invalidate_all()
    return flyc.compile[{"ir_passes": [made]}](changed, np.zeros(64, np.float32), 5, target=target).artifact


def without_kernels(module: Any) -> None:
    (device,) = (op for op in module.ops if op.name == "gpu.module")
    for op in list(device.regions[0].block.ops):
        op.detach()


@pytest.mark.parametrize(
    ("stage", "function", "message"),
    [
        ("fly:start", lambda module: type(module)([]), "at stage fly:start left a module without host function"),
        ("fly:after:fly-layout-lowering", without_kernels, "left a module without kernel"),
        ("fly:before:convert-arith-to-llvm", without_kernels, "left a module without kernel"),
        ("asm", lambda text: text.replace(".entry", ".entrance"), "'pipelines-asm' has no kernel changed_kernel_0"),
    ],
)
def test_a_pass_that_loses_a_kernel_is_named(stage: str, function: Any, message: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    with pytest.raises((DSLCompileError, CodegenPassError), match=message) as caught:
        hooked(stage, function)
    assert "pipelines-" in str(caught.value)


@pytest.mark.parametrize("stage", ["fly:before:convert-scf-to-cf#1", "fly:after:reconcile-unrealized-casts"])
def test_passes_behind_the_upper_part_run(stage: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    seen: list[str] = []
    made = hooked(stage, lambda module: seen.append(module.name))
    plain = flyc.compile(changed, np.zeros(64, np.float32), 5, target="cuda:sm_90a").artifact
    assert seen and dict(plain.sections) == dict(made.sections)
