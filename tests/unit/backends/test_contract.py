"""The contract from the outside: minimal backends run, one instance per compilation, IR without a jit call."""

from __future__ import annotations

import threading
import typing
from typing import Any, ClassVar

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler import backends, jit_function
from flydsl.compiler.backends import BaseBackend, GPUTarget, get_backend, list_backends, register_backend
from flydsl.compiler.backends.base import BINARY_PASS, Hints, common_passes
from flydsl.errors import FlyDSLError, TargetError
from flydsl.runtime import CpuDeviceRuntime, get_device_runtime, register_compile_runtime_mapping
from flydsl.runtime import device_runtime as runtime_module


@flyc.kernel
def triple_kernel(x: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    if i < n:
        x[i] = x[i] * 3


@flyc.jit
def triple(x: fx.Tensor, n: fx.Int32):
    triple_kernel(x, n).launch(grid=1, block=64)


class Minimal(BaseBackend):
    """The members that were abstract in FlyDSL, and nothing newer."""

    experimental: ClassVar[bool] = False
    convert: ClassVar[str] = "convert-fly-to-cpu"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "minimal"

    @staticmethod
    def detect_target() -> GPUTarget:
        return GPUTarget("minimal", "one", 8)

    def pipeline_fragments(self, *, compile_hints: Hints) -> list[str]:
        return [*common_passes(self.convert), BINARY_PASS]

    def gpu_module_targets(self) -> list[str]:
        return []

    def native_lib_patterns(self) -> list[str]:
        return []

    def jit_runtime_lib_basenames(self) -> list[str]:
        return []


class ForAmd(Minimal):
    convert: ClassVar[str] = "convert-fly-to-rocdl"

    @staticmethod
    def detect_target() -> GPUTarget:
        return GPUTarget("minimal", "gfx942", 64)


class Foreign(Minimal):
    convert: ClassVar[str] = "convert-to-something-else"


@pytest.fixture
def mapping() -> Any:
    register_compile_runtime_mapping("minimal", "cpu")
    yield
    runtime_module._registry.mappings.pop("minimal", None)  # pyright: ignore[reportPrivateUsage]


def test_b7_a_minimal_backend_runs(monkeypatch: pytest.MonkeyPatch, mapping: None):
    register_backend("minimal", Minimal)
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "minimal")
    x = np.arange(40, dtype=np.int32)
    triple(x, 40)
    assert np.array_equal(x, 3 * np.arange(40)) and isinstance(get_device_runtime(), CpuDeviceRuntime)


def test_b7_a_minimal_backend_for_a_gpu_compiles():
    register_backend("minimal", ForAmd)
    compiled = flyc.compile(triple, flyc.TensorSpec((40,), "int32"), 40, target="minimal:gfx942")
    assert b"\x7fELF" in compiled.artifact.sections["hsaco"][:4]


def test_b7_a_pipeline_that_ends_elsewhere_needs_its_own_methods():
    register_backend("minimal", Foreign)
    backend = get_backend("minimal")
    with pytest.raises(NotImplementedError, match=r"Foreign has no device_ir\(\)"):
        backend.device_ir(None)
    with pytest.raises(NotImplementedError, match=r"Foreign has no make_device_code\(\)"):
        backend.make_device_code("", options=backend.parse_options(None))
    with pytest.raises(ValueError, match="no section 'bin'; there are: x"):
        backend.loadable({"x": b""})


def test_b8_one_backend_per_compilation(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    made: list[str] = []
    original = backends.get_backend

    def counted(*args: Any, **options: Any) -> BaseBackend:
        made.append("get")
        return original(*args, **options)

    monkeypatch.setattr(backends, "get_backend", counted)
    triple.invalidate()
    triple(np.arange(64, dtype=np.float64), 64)
    assert made == ["get"]


def test_b4_the_warp_size_reaches_the_kernel(monkeypatch: pytest.MonkeyPatch):
    @flyc.kernel
    def kernel(x: fx.Tensor):
        x[0] = fx.Int32(fx.num_warp_threads())

    @flyc.jit
    def ask(x: fx.Tensor):
        kernel(x).launch(grid=1, block=1)

    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    x = np.zeros(1, np.int32)
    for arch, width in (("gfx942", 64), ("sm_90", 32), ("gfx1201", 32)):
        monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
        ask(x)
        assert x[0] == width
    monkeypatch.delenv("FLYDSL_COMPILE_ARCH")
    monkeypatch.setenv("FLYDSL_CPU_WARP_SIZE", "8")
    ask(x)
    assert x[0] == 8


def traced() -> Any:
    from flydsl.compiler.frontend.tracing import trace_host

    call = triple.bind((np.arange(4, dtype=np.int32), 4), {})
    module, *_ = trace_host("triple", triple.rewritten.function, dict(call.arguments), get_backend("cpu").target)
    return module


def test_b9_pipeline_text_is_a_plain_function():
    from flydsl.compiler.mlir_compiler import pipeline_text

    text = pipeline_text(get_backend("rocm", arch="gfx942"))
    assert text.startswith("builtin.module(fly-rewrite-func-signature,") and "convert-fly-to-rocdl" in text


def test_b10_chip_is_the_old_name_of_arch(monkeypatch: pytest.MonkeyPatch):
    from flydsl.compiler.mlir_compiler import MlirCompiler

    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    assert MlirCompiler.compile(traced(), func_name="triple").sections["o"].startswith(b"\x7fELF")
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "auto")
    assert MlirCompiler.compile(traced(), arch="sm_90").sections["ptx"]
    with pytest.warns(DeprecationWarning, match="chip= is deprecated, say arch="):
        assert MlirCompiler.compile(traced(), chip="gfx942").chip.startswith("gfx942")
    with pytest.warns(DeprecationWarning, match="chip='gfx950' is ignored for arch='gfx942'"):
        assert MlirCompiler.compile(traced(), arch="gfx942", chip="gfx950").chip.startswith("gfx942")
    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_PASS_PIPELINE", "no-such-pass")
    with pytest.raises(FlyDSLError, match="no-such-pass"):
        MlirCompiler.compile(traced(), arch="gfx942")
    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_PASS_PIPELINE", "default<O0>")
    assert MlirCompiler.compile(traced(), arch="gfx942").sections["hsaco"]
    monkeypatch.delenv("FLYDSL_COMPILE_LLVM_PASS_PIPELINE")
    with pytest.raises(ValueError, match=r"cannot be read: a\.bc: No such file"):
        MlirCompiler.compile(traced(), arch="gfx942", link_libs=["a.bc"])


def test_b17_registration_from_many_threads():
    def register(number: int) -> None:
        register_backend(f"many{number}", type(f"Many{number}", (Minimal,), {}))
        list_backends()

    workers = [threading.Thread(target=register, args=(i,)) for i in range(32)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert {f"many{i}" for i in range(32)} <= set(list_backends())


def test_b30_memos_follow_what_they_depend_on(monkeypatch: pytest.MonkeyPatch):
    hashes = {get_backend("rocm", arch=arch).hash() for arch in ("gfx942", "gfx950")}
    assert len(hashes) == 2
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    x = np.ones(64, np.float32)
    triple(x, 64)
    before = jit_function.resolve_backend(None).hash()
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx942")
    triple(x, 64)
    assert jit_function.resolve_backend(None).hash() != before and x[0] == 9


def test_b31_targets_differ_per_call_while_the_runtime_stays(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    x = np.ones(64, np.int32)
    triple(x, 64)
    for target, section in (("rocm:gfx942", "hsaco"), ("cuda:sm_90", "ptx"), ("cpu:native", "o")):
        assert section in flyc.compile(triple, x, 64, target=target).artifact.sections
    assert get_device_runtime().kind == "cpu"


def test_b33_backend_names_complete_and_stay_open():
    union = typing.get_args(backends.BackendName)
    assert str in union and {"rocm", "cuda", "cpu"} <= set(typing.get_args(union[0]))


def test_b39_hint_layers():
    from flydsl.compiler.hints import CompilationContext, ambient, merge

    decorator, call = {"maxnreg": 32, "waves_per_eu": 1}, {"maxnreg": 64, "waves_per_eu": None}
    with CompilationContext.compile_hints({"fast_fp_math": True}):
        with CompilationContext.compile_hints({"maxnreg": 128}):
            assert merge(decorator, call, ambient()) == {"maxnreg": 128, "waves_per_eu": 1, "fast_fp_math": True}
        assert merge(decorator, call, ambient())["maxnreg"] == 64
    assert ambient() == {}


def test_b5_unknown_arch_with_the_closest_match():
    with pytest.raises(TargetError, match="gfx942"):
        get_backend("rocm", arch="gfx943")


def test_b45_a_name_some_backend_takes_is_not_portable():
    from flydsl.errors import PortabilityWarning

    @flyc.kernel
    def kernel(x: fx.Tensor, maxnreg: fx.Int32):
        x[0] = maxnreg

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x, fx.Int32(1)).launch(grid=1, block=1)

    with pytest.warns(PortabilityWarning, match="maxnreg"):
        run(np.zeros(1, np.int32))


def test_unknown_variables_are_pointed_out_at_the_first_use(monkeypatch: pytest.MonkeyPatch):
    from flydsl.errors import UnknownVariableWarning

    monkeypatch.setenv("FLYDSL_COMPILE_ACRH", "gfx942")
    with pytest.warns(UnknownVariableWarning, match="FLYDSL_COMPILE_ACRH.*did you mean FLYDSL_COMPILE_ARCH"):
        list_backends()
    list_backends()
