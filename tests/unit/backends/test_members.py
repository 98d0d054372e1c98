"""Every member that `BaseBackend` requires has an effect, and each is seen here."""

from __future__ import annotations

import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler import backends, jit_function
from flydsl.compiler.backends import BaseBackend, GPUTarget, get_backend, register_backend
from flydsl.compiler.backends._native_files import identity, native_files
from flydsl.compiler.backends.base import BINARY_PASS, Hints, common_passes
from flydsl.errors import DSLCompileError, ExperimentalBackendWarning, LibraryNotFoundError
from flydsl.runtime import device_runtime as runtime_module
from flydsl.runtime import register_compile_runtime_mapping
from flydsl.target import TargetCaps


class Whole(BaseBackend):
    """A backend whose answers the tests change."""

    experimental: ClassVar[bool] = False
    targets: ClassVar[list[str]] = []
    patterns: ClassVar[list[str]] = []
    libraries: ClassVar[list[str]] = []
    shared: ClassVar[int | None] = None

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "whole"

    @staticmethod
    def detect_target() -> GPUTarget:
        return GPUTarget("whole", "one", 8)

    @classmethod
    def target_caps(cls, target: GPUTarget) -> TargetCaps:
        found = super().target_caps(target)
        return found if cls.shared is None else replace(found, shared_mem_per_block=cls.shared)

    def pipeline_fragments(self, *, compile_hints: Hints) -> list[str]:
        return [*common_passes("convert-fly-to-cpu"), BINARY_PASS]

    def gpu_module_targets(self) -> list[str]:
        return self.targets

    def native_lib_patterns(self) -> list[str]:
        return self.patterns

    def jit_runtime_lib_basenames(self) -> list[str]:
        return self.libraries


@pytest.fixture(autouse=True)
def whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[Whole]]:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "whole")
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))
    register_compile_runtime_mapping("whole", "cpu")
    register_backend("whole", Whole, force=True)
    yield Whole
    runtime_module._registry.mappings.pop("whole", None)  # pyright: ignore[reportPrivateUsage]
    for name in ("targets", "patterns", "libraries"):
        setattr(Whole, name, [])
    Whole.shared = None


@flyc.kernel
def double_kernel(x: fx.Tensor):
    i = fx.thread_idx.x
    x[i] = x[i] * 2


def double() -> Any:
    @flyc.jit
    def launch(x: fx.Tensor):
        double_kernel(x).launch(grid=1, block=8)

    return launch


def run(launch: Any) -> Any:
    x = np.arange(8, dtype=np.float32)
    compiled = flyc.compile(launch, x, target="whole:one")
    compiled(x)
    return compiled.artifact, x


def test_targets_are_attributes_of_the_device_module(whole: type[Whole]) -> None:
    whole.targets = ['#rocdl.target<chip = "gfx950">', "#nvvm.target"]
    artifact, _ = run(double())
    assert '[#rocdl.target<chip = "gfx950">, #nvvm.target]' in artifact.text("fly")


@pytest.mark.parametrize(
    ("targets", "why"),
    [
        (["nonsense"], "which is no attribute"),
        (['#rocdl.target<chip = "gfx942"> more'], "which is no attribute"),
        (["#rocdl.target<ship = 1>"], "expected one of O, triple, chip"),
        (["4 : i32"], "which is no target"),
        ("#rocdl.target", "must give a list of texts"),
        ([3], "as text, got 3"),
    ],
)
def test_nonsense_in_targets_is_refused(whole: type[Whole], targets: Any, why: str) -> None:
    whole.targets = targets
    with pytest.raises(DSLCompileError, match=why):
        run(double())


def test_native_files_count_for_the_key(whole: type[Whole], tmp_path: Path) -> None:
    library = tmp_path / "libmine.so.1"
    library.write_bytes(b"one")
    backend = get_backend("whole")
    plain = identity(backend)
    whole.patterns = [str(tmp_path / "libmine*")]
    assert native_files(backend) == [library.resolve()]
    first = identity(backend)
    x = np.arange(8, dtype=np.float32)
    keys = {flyc.compile(double(), x, target="whole:one").artifact.metadata["key"]}
    library.write_bytes(b"two!")
    second = identity(backend)
    keys.add(flyc.compile(double(), x, target="whole:one").artifact.metadata["key"])
    assert len({plain, first, second}) == 3 and len(keys) == 2


def test_shared_libraries_are_loaded_with_the_host_code(whole: type[Whole], tmp_path: Path) -> None:
    whole.libraries = ["libnowhere_at_all.so.9"]
    with pytest.raises(LibraryNotFoundError, match=r"libnowhere_at_all\.so\.9, which the host code needs"):
        run(double())
    if shutil.which("cc") is None:
        return
    source = tmp_path / "mark.c"
    source.write_text("int mark(void) { return 7; }\n")
    library = tmp_path / "libmark.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    whole.libraries = [str(library)]
    run(double())
    assert str(library) in Path("/proc/self/maps").read_text()


def test_limits_of_a_backend_are_asked_for(whole: type[Whole]) -> None:
    def through_shared(count: int) -> Any:
        @flyc.kernel
        def kernel(x: fx.Tensor):
            cells = fx.SharedAllocator().allocate(fx.Array[fx.Float32, count]).peek()
            cells[0] = x[7]
            x[1] = cells[0]

        @flyc.jit
        def launch(x: fx.Tensor):
            kernel(x).launch(grid=1, block=1)

        return launch

    whole.shared = 1 << 10
    _, x = run(through_shared(256))
    assert x[1] == x[7]
    with pytest.raises(DSLCompileError, match="shared memory"):
        run(through_shared(257))


def test_experimental_may_be_a_property(whole: type[Whole]) -> None:
    class Trial(Whole):
        @property
        def experimental(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
            return self.target.arch == "two"

    register_backend("whole", Trial, force=True)

    def said() -> bool | None:
        (info,) = [i for i in backends.backend_info() if i.name == "whole"]
        return info.experimental

    assert said() is None  # nobody has asked for an instance yet
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        get_backend("whole", arch="one")
    assert said() is False
    with pytest.warns(ExperimentalBackendWarning, match="'whole' is experimental"):
        get_backend("whole", arch="two")
    assert said() is True


def test_a_mapping_of_runtimes_is_honoured(whole: type[Whole]) -> None:
    assert backends.runtime_kind_of("whole") == "cpu"
    (info,) = [i for i in backends.backend_info() if i.name == "whole"]
    assert info.runtime_kind == "cpu" and info.experimental is False
    artifact, x = run(double())
    assert artifact.metadata["runtime_kind"] == "cpu" and np.array_equal(x, 2.0 * np.arange(8))


def test_mlir_compiler_is_where_the_seed_has_it() -> None:
    from flydsl.compiler.jit_function import MlirCompiler  # noqa: PLC0415
    from flydsl.compiler.mlir_compiler import MlirCompiler as ours  # noqa: N813

    assert MlirCompiler is ours
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        jit_function.Nonsense  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_sources_of_fly_llc_are_package_data(tmp_path: Path) -> None:
    """A wheel has them beside the module; a program that runs from there finds them."""
    from flydsl.tools import build_llc

    root = Path(__file__).parents[3]
    text = (root / "pyproject.toml").read_text()
    assert '"tools/fly-llc" = "flydsl/tools/fly-llc"' in text
    module = tmp_path / "tools" / "build_llc.py"
    shutil.copytree(build_llc.source_folder(), tmp_path / "tools" / "fly-llc")
    shutil.copy(Path(build_llc.__file__), module)
    program = f"import runpy; print(runpy.run_path({str(module)!r})['source_folder']())"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == str(tmp_path / "tools" / "fly-llc")
