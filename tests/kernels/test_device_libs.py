"""ROCm's device libraries are linked on demand; stand-ins for them are made with clang."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.extern_link import register_extern_resolver, unregister_extern_resolver
from flydsl.errors import LinkError
from flydsl.expr.extern import ffi

CLANG = shutil.which("clang-22")
pytestmark = pytest.mark.skipif(CLANG is None, reason="needs clang-22")

OCML = """
extern const unsigned char __oclc_finite_only_opt;
extern const int __oclc_ISA_version;
float __ocml_twice_f32(float x) { return __oclc_finite_only_opt ? x : x * (float)__oclc_ISA_version; }
"""
OCKL = (
    "float __ocml_twice_f32(float); float __ockl_four_times(float x) { return __ocml_twice_f32(__ocml_twice_f32(x)); }"
)
OPTIONS = {
    "oclc_isa_version_942": "const int __oclc_ISA_version = 9402;",
    "oclc_isa_version_1100": "const int __oclc_ISA_version = 11000;",
    "oclc_finite_only_off": "const unsigned char __oclc_finite_only_opt = 0;",
    "oclc_finite_only_on": "const unsigned char __oclc_finite_only_opt = 1;",
}


def bitcode(folder: Path, name: str, text: str) -> Path:
    source, made = folder / f"{name}.c", folder / f"{name}.bc"
    source.write_text(text)
    subprocess.run(
        [str(CLANG), "--target=amdgcn-amd-amdhsa", "-nogpulib", "-O1", "-emit-llvm", "-c", "-o", made, source],
        check=True,
    )
    return made


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bitcode")
    for name, text in {"ocml": OCML, "ockl": OCKL, **OPTIONS}.items():
        bitcode(folder, name, text)
    return folder


@pytest.fixture(autouse=True)
def chosen(monkeypatch: pytest.MonkeyPatch, libraries: Path, tmp_path: Path) -> None:
    monkeypatch.setenv("FLYDSL_COMPILE_DEVICE_LIBS", str(libraries))
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))


def calling(symbol: str) -> Any:
    outside = ffi(symbol, ["float32"], "float32")

    @flyc.kernel
    def kernel(x: fx.Tensor):
        i = fx.thread_idx.x
        x[i] = outside(x[i])

    @flyc.jit
    def launch(x: fx.Tensor):
        kernel(x).launch(grid=1, block=64)

    return launch


X = np.zeros(64, np.float32)


def test_an_extern_of_the_libraries_is_linked_with_the_options_of_the_target() -> None:
    for arch, factor in (("gfx942", 9402.0), ("gfx1100", 11000.0)):
        artifact = flyc.compile(calling("__ocml_twice_f32"), X, target=f"rocm:{arch}").artifact
        assert np.float32(factor).tobytes()[::-1].hex() in artifact.asm.replace("0x", "")  # the literal of the product
        assert "__ocml_twice_f32" not in artifact.asm.split(".amdgpu_metadata")[0].replace("; ", "")


def test_libraries_bring_those_they_call() -> None:
    artifact = flyc.compile(calling("__ockl_four_times"), X, target="rocm:gfx942").artifact
    assert artifact.asm.count("v_mul_f32") + artifact.asm.count("v_pk_mul") >= 1
    assert "s_swappc" not in artifact.asm and "s_setpc" not in artifact.asm


def test_what_is_missing_is_said_before_anything_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("FLYDSL_COMPILE_DEVICE_LIBS", str(empty))
    with pytest.raises(LinkError, match=r"has no ocml\.bc, which defines __ocml_twice_f32"):
        flyc.compile(calling("__ocml_twice_f32"), X, target="rocm:gfx942")
    monkeypatch.setenv("FLYDSL_COMPILE_DEVICE_LIBS", "")
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "nowhere"))
    if not Path("/opt/rocm/amdgcn/bitcode").is_dir():
        with pytest.raises(LinkError, match="set FLYDSL_COMPILE_DEVICE_LIBS to the folder"):
            flyc.compile(calling("__ocml_twice_f32"), X, target="rocm:gfx942")


def test_the_content_of_the_libraries_counts_for_the_key(libraries: Path, tmp_path: Path, monkeypatch: Any) -> None:
    first = flyc.compile(calling("__ocml_twice_f32"), X, target="rocm:gfx942").artifact.metadata["key"]
    other = tmp_path / "other"
    shutil.copytree(libraries, other)
    bitcode(other, "ocml", "float __ocml_twice_f32(float x) { return x + 1.0f; }")
    monkeypatch.setenv("FLYDSL_COMPILE_DEVICE_LIBS", str(other))
    changed = flyc.compile(calling("__ocml_twice_f32"), X, target="rocm:gfx942").artifact
    assert changed.metadata["key"] != first and "v_add_f32" in changed.asm


def call_added(text: str, symbol: str) -> str:
    """LLVM IR in which every multiplication by 3 is a call."""
    lines, declared = [], False
    for line in text.splitlines():
        if " = fmul " in line and "3.000000e+00" in line:
            name, value = line.split(" = ")[0], line.split("float ")[1].split(",")[0]
            line, declared = f"{name} = call float @{symbol}(float {value})", True
        lines.append(line)
    return "\n".join([*lines, *([f"declare float @{symbol}(float)"] if declared else [])]) + "\n"


@flyc.kernel
def times_three_kernel(x: fx.Tensor):
    i = fx.thread_idx.x
    x[i] = x[i] * 3.0


@pytest.fixture
def resolver(tmp_path: Path) -> Iterator[list[str]]:
    """What is asked for of a resolver, which knows one symbol."""
    asked: list[str] = []
    library = bitcode(tmp_path, "mine", "float my_own(float x) { return x - 5.0f; }")

    @register_extern_resolver
    def find(symbol: str) -> str | None:
        asked.append(symbol)
        return str(library) if symbol == "my_own" else None

    yield asked
    unregister_extern_resolver(find)


@pytest.mark.parametrize("stage", ["llvm-pre-opt", "llvm-post-opt"])
@pytest.mark.parametrize("symbol", ["__ocml_twice_f32", "my_own"])
def test_symbols_that_passes_add_are_linked(stage: str, symbol: str, resolver: list[str]) -> None:
    name = f"call-{symbol.strip('_')}-{stage}"

    @flyc.ir_pass(stage=stage, name=name)
    def replace(module: Any, context: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        module.text = call_added(module.text, symbol)

    @flyc.jit(ir_passes=[name])
    def launch(x: fx.Tensor):
        times_three_kernel(x).launch(grid=1, block=64)

    artifact = flyc.compile(launch, X, target="rocm:gfx942").artifact
    code = artifact.asm.split(".amdgpu_metadata")[0]
    assert symbol in resolver
    assert ("v_add_f32" in code or "v_sub_f32" in code) if symbol == "my_own" else "v_mul_f32" in code
    assert "0x40400000" not in code  # nobody multiplies by 3
