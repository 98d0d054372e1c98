"""The backend registry: names, discovery, errors, selection, instances."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

from flydsl.compiler import backends
from flydsl.compiler.backends import (
    BaseBackend,
    GPUTarget,
    all_reserved_launch_param_names,
    backend_for_target,
    backend_info,
    compile_backend_name,
    current_target,
    get_backend,
    get_backend_class,
    list_backends,
    parse_target,
    register_backend,
    resolve_llvm_address_space,
    unregister_backend,
)
from flydsl.compiler.backends.base import Hints
from flydsl.errors import ExperimentalBackendWarning, TargetDetectionError
from flydsl.runtime import probe
from flydsl.runtime.device_runtime import runtime_kind_of_backend


class Upstream(BaseBackend):
    """Only the members that are abstract: what a backend written for FlyDSL has (B-7)."""

    experimental: ClassVar[bool] = False

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "up"

    @staticmethod
    def detect_target() -> GPUTarget:
        return GPUTarget("up", "one", 16)

    def pipeline_fragments(self, *, compile_hints: Hints) -> list[str]:
        return ["a", "b", "binary"]

    def gpu_module_targets(self) -> list[str]:
        return []

    def native_lib_patterns(self) -> list[str]:
        return []

    def jit_runtime_lib_basenames(self) -> list[str]:
        return []


class Second(Upstream):
    pass


class Trial(Upstream):
    experimental: ClassVar[bool] = True

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return True


def test_b7_minimal_backend_registers_and_has_defaults():
    register_backend("up", Upstream)
    backend = get_backend("up")
    assert backend.target == GPUTarget("up", "one", 16) and backend.name == "up"
    assert backend.external_binary_pipeline_fragments(compile_hints={}) == (["a", "b"], "binary")
    assert backend.hash() == "up:one:w16" and backend.toolchain() == []
    assert get_backend("up", arch="two").target == GPUTarget("up", "two", 16)
    assert parse_target("up:three") == GPUTarget("up", "three", 16)
    assert backend.device_libs([]) == [] and backend.parse_options(None).opt_level == 2
    with pytest.raises(NotImplementedError, match="make_device_code"):
        backend.make_device_code("", options=backend.parse_options(None))
    with pytest.raises(NotImplementedError, match="address spaces"):
        Upstream.llvm_address_space("global")


def test_b6_type_error_names_class_target_and_supporters():
    register_backend("up", Upstream)
    with pytest.raises(TypeError, match=r"Upstream does not support target rocm:gfx942:w64; backends that do: rocm"):
        Upstream(GPUTarget("rocm", "gfx942", 64))
    with pytest.raises(TypeError, match="needs a GPUTarget"):
        Upstream("rocm")  # type: ignore[arg-type]


def test_b6_holds_under_python_o():
    code = (
        "from flydsl.compiler.backends import get_backend_class, GPUTarget\n"
        "try: get_backend_class('cuda')(GPUTarget('rocm', 'gfx942', 64))\n"
        "except TypeError as error: print(error)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-O", "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert "CudaBackend does not support target rocm:gfx942:w64; backends that do: rocm" in done.stdout, done.stderr


def test_b11_names():
    register_backend(" Up ", Upstream)
    assert get_backend_class("UP") is Upstream
    for bad in ("1up", "up-2", "", "auto"):
        with pytest.raises(ValueError, match="bad backend name"):
            register_backend(bad, Upstream)


def test_b12_b13_duplicates_and_force(caplog: pytest.LogCaptureFixture):
    register_backend("up", Upstream)
    register_backend("up", Upstream)
    first = get_backend("up")
    with pytest.raises(ValueError, match="force=True"):
        register_backend("up", Second)
    assert get_backend("up") is first
    with caplog.at_level(logging.WARNING, logger="flydsl"):
        register_backend("up", Second, force=True)
    assert "Second" in caplog.text and "Upstream" in caplog.text
    assert type(get_backend("up")) is Second


def test_b14_only_concrete_classes_and_no_instantiation():
    class Partial(BaseBackend):
        pass

    with pytest.raises(TypeError, match="missing: detect_target, gpu_module_targets"):
        register_backend("partial", Partial)  # type: ignore[type-abstract]
    with pytest.raises(TypeError, match="subclass of BaseBackend"):
        register_backend("x", object)  # type: ignore[arg-type]

    class Explosive(Upstream):
        def __init__(self, target: GPUTarget) -> None:
            raise RuntimeError("instantiated")

    register_backend("explosive", Explosive)


def test_decorator():
    @register_backend("deco")
    class Decorated(Upstream):
        pass

    assert get_backend_class("deco") is Decorated
    unregister_backend("deco")
    with pytest.raises(ValueError, match="Unknown compile backend 'deco'"):
        get_backend_class("deco")


def test_unregister_restores_what_was_replaced():
    register_backend("cpu", Upstream, force=True)
    assert get_backend_class("cpu") is Upstream
    unregister_backend("cpu")
    assert get_backend_class("cpu").__name__ == "CpuBackend"


def test_b15_registration_keeps_the_default():
    before = compile_backend_name()
    register_backend("aaa", Upstream)
    assert compile_backend_name() == before


@pytest.mark.parametrize("lookup", [get_backend, get_backend_class, unregister_backend])
def test_b16_unknown_name(lookup: object):
    with pytest.raises(ValueError, match="Unknown compile backend 'nope'. Registered: cpu, cuda, rocm"):
        lookup("nope")  # type: ignore[operator]


def test_b16_unknown_name_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "nope")
    for use in (get_backend, current_target, lambda: resolve_llvm_address_space("global")):
        with pytest.raises(ValueError, match="Unknown compile backend 'nope'"):
            use()


def test_b18_builtins_are_lazy():
    code = (
        "import sys; import flydsl.compiler.backends as b\n"
        "heavy = ('llvmlite', 'xdsl', 'numpy', 'torch', 'flydsl.runtime', 'ctypes')\n"
        "assert not [m for m in heavy if m in sys.modules]\n"
        "assert b.list_backends() == ['cpu', 'cuda', 'rocm']\n"
        "assert not [m for m in sys.modules if m in ('flydsl.compiler.backends.rocm', 'llvmlite', 'xdsl')]\n"
        "b.get_backend_class('rocm')\n"
        "assert 'flydsl.compiler.backends.cuda' not in sys.modules and 'llvmlite' not in sys.modules\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_b19_only_classes_of_the_module_count():
    module = ModuleType("vendor")
    mine = type("Mine", (Upstream,), {"__module__": "vendor"})
    module.__dict__.update(Upstream=Upstream, Mine=mine)
    assert backends.backend_class_of_module(module) is mine
    module.__dict__["Twin"] = type("Twin", (Upstream,), {"__module__": "vendor"})
    with pytest.raises(ImportError, match="found: Mine, Twin"):
        backends.backend_class_of_module(module)
    module.__dict__["BACKEND"] = mine
    assert backends.backend_class_of_module(module) is mine


SITE = {
    "vend-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: vend\nVersion: 1.0\n",
    "vend-1.0.dist-info/entry_points.txt": "[flydsl.backends]\nvend = vend:Vend\ncpu = vend:Vend\nbroken = nowhere:X\n",
    "vend.py": """
from flydsl.compiler.backends import BaseBackend, GPUTarget
class Vend(BaseBackend):
    runtime_kind = "cpu"
    @staticmethod
    def supports_target(target): return True
    @staticmethod
    def detect_target(): return GPUTarget("vend", "v1", 8)
    def pipeline_fragments(self, *, compile_hints): return []
    def gpu_module_targets(self): return []
    def native_lib_patterns(self): return []
    def jit_runtime_lib_basenames(self): return []
""",
}


@pytest.fixture
def vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in SITE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "vend", raising=False)


@pytest.mark.usefixtures("vendor")
def test_b21_entry_points_are_lazy_and_do_not_shadow(monkeypatch: pytest.MonkeyPatch):
    assert list_backends() == ["broken", "cpu", "cuda", "rocm", "vend"]
    assert "vend" not in sys.modules
    assert get_backend_class("cpu").__name__ == "CpuBackend"
    with pytest.warns(ExperimentalBackendWarning, match="'vend' is experimental"):
        assert get_backend("vend").target.key() == "vend:v1:w8"
    assert runtime_kind_of_backend("vend") == "cpu"
    info = {row.name: row for row in backend_info()}
    assert info["vend"].origin == "entry-point:vend" and info["vend"].loaded and info["vend"].experimental
    assert info["cuda"].origin == "builtin" and not info["cuda"].loaded


@pytest.mark.usefixtures("vendor")
def test_b16_b20_failed_import_is_kept_and_explained():
    for _ in range(2):
        with pytest.raises(ImportError, match="Compile backend 'broken' failed to import") as caught:
            get_backend_class("broken")
        assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    assert "broken" not in list_backends()
    (row,) = [row for row in backend_info() if row.name == "broken"]
    assert row.import_error is not None and "nowhere" in row.import_error


@pytest.mark.usefixtures("vendor")
def test_b23_in_tree_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_BACKENDS_IN_TREE", "1")
    assert list_backends() == ["cpu", "cuda", "rocm"]


def test_b26_selection(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(probe, "stack_present", lambda kind: kind in ("cuda", "cpu"))
    assert compile_backend_name() == "cuda"
    assert get_backend(arch="gfx942").name == "rocm" and get_backend(arch="sm_90").name == "cuda"
    assert get_backend(arch="native").name == "cpu"
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "CPU")
    assert compile_backend_name() == "cpu"
    assert get_backend(arch="gfx942").target.key() == "cpu:gfx942:w64", "the named backend emulates"


def test_b28_no_default_arch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    monkeypatch.setattr(probe, "stack_present", lambda kind: kind == "cpu")
    with pytest.raises(TargetDetectionError, match="FLYDSL_COMPILE_ARCH is not set"):
        get_backend()


def test_b29_instances_follow_the_resolved_target(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "rocm")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx942")
    first = get_backend()
    assert get_backend("rocm", arch="9.4.2") is first and get_backend() is first
    assert backend_for_target(GPUTarget.parse("gfx942")) is first
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx950")
    second = get_backend()
    assert second is not first and second.target.arch == "gfx950" and current_target() == second.target
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx942")
    assert get_backend() is first


def test_b32_experimental_warns_once(monkeypatch: pytest.MonkeyPatch):
    register_backend("trial", Trial)
    with pytest.warns(ExperimentalBackendWarning, match="trial"):
        get_backend("trial")
    get_backend("trial", arch="other")
    register_backend("quiet", Trial)
    monkeypatch.setenv("FLYDSL_IGNORE_WARNINGS", "ExperimentalBackendWarning")
    get_backend("quiet")


def test_b44_b45_reserved_names():
    assert all_reserved_launch_param_names() == {"waves_per_eu", "maxnreg", "pdl", "cooperative", "threads"}

    @register_backend("more")
    class More(Upstream):
        @staticmethod
        def reserved_launch_param_names() -> frozenset[str]:
            return frozenset(("turbo",))

    assert "turbo" in all_reserved_launch_param_names() and More.__name__ == "More"
    assert "stream" in backends.CORE_RESERVED_LAUNCH_PARAM_NAMES
