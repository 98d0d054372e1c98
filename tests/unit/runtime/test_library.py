"""Finding vendor libraries, probing stacks, detecting targets: all without a driver."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from flydsl.errors import LibraryNotFoundError, TargetDetectionError
from flydsl.runtime import detect, library, probe
from flydsl.runtime.device import get_rocm_arch, get_warp_size, is_rdna_arch

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def make_library(folder: Path, name: str) -> Path:
    path = folder / name
    (folder / "x.c").write_text("int x(void) { return 1; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(folder / "x.c"), "-o", str(path)], check=True)
    return path


def test_failure_lists_every_candidate(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_HIP_LIBRARY", "/nowhere/libamdhip64.so")
    with pytest.raises(LibraryNotFoundError, match="/nowhere/libamdhip64.so: ") as caught:
        library.open_library(library.HIP)
    assert "FLYDSL_HIP_LIBRARY" in str(caught.value)


@needs_cc
def test_r20_prefix_before_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "lib").mkdir()
    path = make_library(tmp_path / "lib", "libamdhip64.so.6")
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    names = library.candidates(library.HIP)
    assert names.index(str(path)) < names.index("libamdhip64.so")
    assert library.resolvable(library.HIP)


@needs_cc
def test_r20_mapped_copy_and_explicit_path_must_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    spec = library.LibrarySpec("cuda", library.CUDA.file_variables, ("libflyfake.so.1",))
    mapped = make_library(tmp_path, "libflyfake.so.1")
    handle = ctypes.CDLL(str(mapped))
    assert library.mapped_copies(spec) == [mapped]
    assert library.candidates(spec)[0] == str(mapped)
    other = tmp_path / "other.so"
    other.write_bytes(b"")
    monkeypatch.setenv("FLYDSL_CUDA_LIBRARY", str(other))
    with pytest.raises(LibraryNotFoundError, match="must not be mixed"):
        library.open_library(spec)
    monkeypatch.setenv("FLYDSL_CUDA_LIBRARY", str(mapped))
    assert library.open_library(spec)[1] == str(mapped)
    assert handle.x() == 1


def test_resolvable_says_no_for_a_missing_library():
    assert not library.resolvable(library.LibrarySpec("cuda", library.CUDA.file_variables, ("libflynone.so.1",)))


def test_b26_order_of_stacks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("FLYDSL_COMPILE_BACKEND")
    present = {"rocm", "cuda", "cpu"}
    monkeypatch.setattr(probe, "stack_present", lambda kind: kind in present)
    for expected in ("rocm", "cuda", "cpu"):
        assert probe.auto_stack() == probe.selected_backend() == expected
        present.discard(expected)


@pytest.mark.parametrize(("arch", "backend"), [("gfx942", "rocm"), ("sm_90", "cuda"), ("native", "cpu")])
def test_b26_arch_decides(monkeypatch: pytest.MonkeyPatch, arch: str, backend: str):
    monkeypatch.delenv("FLYDSL_COMPILE_BACKEND")
    assert probe.selected_backend(arch) == backend
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
    assert probe.selected_backend() == backend
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    assert probe.selected_backend() == "cpu"


def test_arch_precedence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", "9.0.10")
    assert get_rocm_arch() == "gfx90a"
    monkeypatch.setenv("FLYDSL_GPU_ARCH", "gfx1100")
    assert get_rocm_arch() == "gfx1100" and is_rdna_arch()
    monkeypatch.setenv("ARCH", "gfx1201")
    assert get_rocm_arch() == "gfx1201"
    monkeypatch.setenv("ARCH", "x86_64")
    assert get_rocm_arch() == "gfx1100", "junk in ARCH is ignored"
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx950")
    assert get_rocm_arch() == "gfx950" and not is_rdna_arch()
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx9999")
    with pytest.raises(ValueError, match="Unknown rocm architecture"):
        get_rocm_arch()


def test_b28_no_silent_default(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(probe, "stack_present", lambda kind: kind == "cpu")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setenv("ARCH", "x86_64")
    with pytest.raises(TargetDetectionError) as caught:
        get_rocm_arch()
    for source in (
        "FLYDSL_COMPILE_ARCH is not set",
        "ARCH=x86_64 is no rocm architecture",
        "FLYDSL_GPU_ARCH is not set",
        "HSA_OVERRIDE_GFX_VERSION is not set",
        "no rocm driver",
        "rocm_agent_enumerator: not on the search path",
    ):
        assert source in str(caught.value)


def test_agent_enumerator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tool = tmp_path / "rocm_agent_enumerator"
    tool.write_text("#!/bin/sh\necho gfx000\necho gfx90a\necho gfx942\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(probe, "stack_present", lambda kind: kind == "cpu")
    assert get_rocm_arch() == "gfx90a"
    tool.unlink()
    with pytest.raises(TargetDetectionError):
        get_rocm_arch()


def test_warp_size(monkeypatch: pytest.MonkeyPatch):
    assert get_warp_size("gfx942") == 64 and get_warp_size("sm_90") == 32 and get_warp_size() == 32
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx942")
    assert get_warp_size() == 64, "the cpu stack emulates the named architecture"
    assert detect.cpu_target().key() == "cpu:gfx942:w64"
