"""The three built-in backends: targets, hints, pipelines, hashes, device code."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from flydsl.compiler.backends import _fingerprint, backend_for_target, get_backend, resolve_llvm_address_space
from flydsl.compiler.backends.base import BuiltinBackend, Options
from flydsl.errors import NotSupportedError, UnknownHintWarning
from flydsl.llvm import tools
from flydsl.target import GPUTarget

ARCHES = {"rocm": "gfx942", "cuda": "sm_90", "cpu": "native"}
CONVERT = {"rocm": "convert-fly-to-rocdl", "cuda": "convert-fly-to-nvvm", "cpu": "convert-fly-to-cpu"}

ROCM_IR = """
target triple = "amdgcn-amd-amdhsa"
declare void @helper(ptr addrspace(1))
define amdgpu_kernel void @store(ptr addrspace(1) byref(i32) align 4 %p, float %x) #0 {
  store float %x, ptr addrspace(1) %p
  ret void
}
define void @plain(ptr addrspace(1) %p) {
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,256" }
"""
CUDA_IR = """
define ptx_kernel void @store(ptr addrspace(1) %p, float %x) {
  store float %x, ptr addrspace(1) %p
  ret void
}
"""
CPU_IR = """
define void @store(ptr %params, ptr %geometry, ptr %shared, i64 %first, i64 %last) {
  %slot = load ptr, ptr %params
  %p = load ptr, ptr %slot
  store i64 %last, ptr %p
  ret void
}
"""


@pytest.fixture(params=list(ARCHES))
def backend(request: pytest.FixtureRequest) -> BuiltinBackend:
    found = get_backend(request.param, arch=ARCHES[request.param])
    assert isinstance(found, BuiltinBackend)
    return found


def test_pipeline(backend: BuiltinBackend):
    fragments = backend.pipeline_fragments(compile_hints={})
    assert fragments[:3] == ["fly-rewrite-func-signature", "fly-canonicalize", "fly-layout-lowering"]
    assert [f for f in fragments if f.startswith("convert-fly-to-")] == [CONVERT[backend.name]]
    assert fragments[-1] == "gpu-module-to-binary{format=fatbin}"
    before, last = backend.external_binary_pipeline_fragments(compile_hints={})
    assert [*before, last] == fragments
    pre, prep, binary = backend._pipeline_parts()  # pyright: ignore[reportPrivateUsage]
    assert [*pre, *prep, binary] == fragments


def test_class_facts(backend: BuiltinBackend):
    assert not backend.experimental
    assert backend.binary_ext == {"rocm": "hsaco", "cuda": "ptx", "cpu": "o"}[backend.name]
    assert backend.native_lib_patterns() == backend.jit_runtime_lib_basenames() == []
    assert backend.target_caps(backend.target).warp_size == backend.target.warp_size


@pytest.mark.parametrize(
    ("name", "space", "number"),
    [
        *(("rocm", s, n) for s, n in (("generic", 0), ("Global", 1), ("shared", 3), ("register", 5))),
        *(("cuda", s, n) for s, n in (("generic", 0), ("global", 1), ("shared", 3), ("constant", 4), ("local", 5))),
        *(("cpu", s, 0) for s in ("generic", "global", "shared", "register")),
    ],
)
def test_address_spaces(monkeypatch: pytest.MonkeyPatch, name: str, space: str, number: int):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", name)
    assert resolve_llvm_address_space(space) == number
    assert resolve_llvm_address_space(SimpleNamespace(name=space.upper())) == number
    with pytest.raises(ValueError, match="no LLVM address space for 'moon'"):
        resolve_llvm_address_space("moon")


def test_module_targets():
    assert get_backend(arch="gfx942:sramecc+").gpu_module_targets() == [
        '#rocdl.target<chip = "gfx942", features = "+sramecc">'
    ]
    assert get_backend(arch="sm_90a").gpu_module_targets() == ['#nvvm.target<chip = "sm_90a", features = "+ptx83">']
    assert get_backend("cpu", arch="native").gpu_module_targets() == []


@pytest.mark.parametrize(
    ("key", "good"),
    [
        ("rocm:gfx942:w64", True),
        ("cuda:sm_90a:w32", True),
        ("cpu:gfx942:w64", True),
        ("cpu:native:w16", True),
    ],
)
def test_supported_targets(key: str, good: bool):
    assert backend_for_target(GPUTarget.parse(key)).target.key() == key


@pytest.mark.parametrize(
    "target",
    [
        GPUTarget("rocm", "gfx942", 32),
        GPUTarget("rocm", "sm_90", 32),
        GPUTarget("cuda", "sm_90", 64),
        GPUTarget("cpu", "gfx942", 32),
        GPUTarget("cpu", "native", 128),
    ],
)
def test_unsupported_targets(target: GPUTarget):
    with pytest.raises(TypeError, match="does not support target"):
        backend_for_target(target)


# --- hints --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "value", "field"),
    [
        ("waves_per_eu", 2, (2, None)),
        ("waves_per_eu", 0, None),
        ("waves_per_eu", (1, 4), (1, 4)),
        ("waves_per_eu", "2,3", (2, 3)),
        ("waves_per_eu", "3", (3, None)),
        ("maxnreg", 64, 64),
        ("fast_fp_math", True, True),
        ("unsafe_fp_math", False, False),
        ("fastmath", "nnan, contract", ("contract", "nnan")),
        ("llvm_options", {"b": 1, "a": True}, (("a", True), ("b", 1))),
        ("cpu_check", True, True),
        ("opt_level", 3, 3),
        ("maxnreg", None, None),
    ],
)
def test_b38_good_hints(backend: BuiltinBackend, hint: str, value: object, field: object):
    options = backend.parse_options({hint: value})
    assert getattr(options, hint) == field
    assert hash(options) == hash(backend.parse_options({hint: value}))


@pytest.mark.parametrize(
    ("hint", "value", "error"),
    [
        ("waves_per_eu", True, TypeError),
        ("waves_per_eu", -1, ValueError),
        ("waves_per_eu", 1.5, TypeError),
        ("waves_per_eu", "a,b", ValueError),
        ("waves_per_eu", (4, 1), ValueError),
        ("waves_per_eu", (1, 2, 3), ValueError),
        ("maxnreg", 0, ValueError),
        ("maxnreg", "64", TypeError),
        ("fast_fp_math", 1, TypeError),
        ("fastmath", "quick", ValueError),
        ("fastmath", True, TypeError),
        ("llvm_options", ["a"], TypeError),
        ("llvm_options", {"a": 1.5}, TypeError),
        ("opt_level", 4, ValueError),
    ],
)
def test_b38_bad_hints(backend: BuiltinBackend, hint: str, value: object, error: type[Exception]):
    with pytest.raises(error, match=hint if "llvm" not in hint else "llvm_options|LLVM option"):
        backend.pipeline_fragments(compile_hints={hint: value})


def test_unknown_hints_warn_or_raise(backend: BuiltinBackend, monkeypatch: pytest.MonkeyPatch):
    with pytest.warns(UnknownHintWarning, match="'maxnregs'; did you mean 'maxnreg'"):
        backend.parse_options({"maxnregs": 1})
    monkeypatch.setenv("FLYDSL_COMPILE_STRICT", "1")
    with pytest.raises(ValueError, match="unknown compile hint 'maxnregs'"):
        backend.parse_options({"maxnregs": 1})
    backend.parse_options({"llvm_pass_pipeline": "default<O1>"})


def test_options_take_the_environment(monkeypatch: pytest.MonkeyPatch, backend: BuiltinBackend):
    monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "1")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_DEBUG_INFO", "1")
    assert backend.parse_options(None) == Options(opt_level=1, cpu_check=True, debug_info=True)


def test_llvm_options_are_refused_not_ignored(backend: BuiltinBackend):
    with pytest.raises(NotSupportedError, match="llvm_options.*external code generator"):
        backend.make_device_code("", options=backend.parse_options({"llvm_options": {"x": 1}}))


# --- identity -----------------------------------------------------------------------------------------


def test_b34_hash_depends_on_target_and_is_stable(backend: BuiltinBackend):
    assert backend.hash() == backend.hash() and len(backend.hash()) == 64
    others = {
        get_backend(name, arch=arch).hash() for name, arch in (("rocm", "gfx950"), ("cuda", "sm_80"), ("cpu", "gfx942"))
    }
    assert backend.hash() not in others and len(others) == 3


def test_b36_hash_is_the_same_in_another_process(backend: BuiltinBackend, tmp_path: Path):
    code = (
        "from flydsl.compiler.backends import get_backend\n"
        f"print(get_backend({backend.name!r}, arch={backend.target.arch!r}).hash())"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == backend.hash(), done.stderr


def test_b34_tools_that_would_be_used_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cuda = get_backend("cuda", arch="sm_90")
    assert cuda.toolchain() == []
    plain = cuda.hash()
    fake = tmp_path / "ptxas"
    fake.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.9, V12.9.1'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("FLYDSL_COMPILE_PTXAS", str(fake))
    (tool,) = cuda.toolchain()
    with_tool = cuda.hash()
    assert (tool.name, tool.version) == ("ptxas", "12.9") and with_tool != plain
    fake.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.9, V12.9.2'\n")
    assert cuda.hash() not in (plain, with_tool)
    rocm = get_backend("rocm", arch="gfx942")
    monkeypatch.setenv("FLYDSL_COMPILE_LINKER", "internal")
    assert rocm.toolchain() == []


def test_b35_file_digest_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path))
    file = tmp_path / "tool"
    file.write_bytes(b"one")
    first = _fingerprint.file_digest(file)
    assert (tmp_path / "toolhash.json").exists()
    file.write_bytes(b"other")
    assert _fingerprint.file_digest(file) != first
    (tmp_path / "toolhash.json").write_text("broken")
    copy = tmp_path / "copy"
    copy.write_bytes(b"one")
    assert _fingerprint.file_digest(copy) == first, "content counts, not the path"


# --- device code --------------------------------------------------------------------------------------


@pytest.mark.parametrize("linker", ["internal", "auto"])
def test_rocm_device_code(monkeypatch: pytest.MonkeyPatch, linker: str):
    monkeypatch.setenv("FLYDSL_COMPILE_LINKER", linker)
    backend = get_backend("rocm", arch="gfx942")
    binary = backend.make_device_code(ROCM_IR, options=backend.parse_options({}))
    assert binary.sections["hsaco"][:4] == b"\x7fELF" and backend.loadable(binary.sections) == binary.sections["hsaco"]
    (kernel,) = binary.resources
    assert kernel["name"] == "store" and kernel["registers"] and kernel["spills"] == 0 and kernel["max_threads"] == 256
    assert "global_store_dword" in binary.asm()
    assert {"parse", "optimize", "emit", "link"} <= binary.times.keys()
    assert "define" in binary.optimized_ir and binary.sections["o"][:4] == b"\x7fELF"


def test_hints_reach_kernels_only():
    ops = [
        SimpleNamespace(name="gpu.func", attributes={"gpu.kernel": object()}),
        SimpleNamespace(name="gpu.func", attributes={}),
    ]
    backend = get_backend("rocm", arch="gfx942")
    hints = {"waves_per_eu": (2, 4), "maxnreg": 32, "noalias": True}
    backend.lower_compile_hints(SimpleNamespace(walk=lambda: iter(ops)), compile_hints=hints)
    # LLVM counts pairs of a vector and an accumulation register here.
    assert str(ops[0].attributes["passthrough"]) == '[["amdgpu-waves-per-eu", "2,4"], ["amdgpu-num-vgpr", "16"]]'
    assert "fly.noalias" in ops[0].attributes and not ops[1].attributes


def test_rocm_hint_becomes_an_attribute_of_kernels():
    ops = [
        SimpleNamespace(name="gpu.func", attributes={"gpu.kernel": object()}),
        SimpleNamespace(name="gpu.func", attributes={}),
        SimpleNamespace(name="func.func", attributes={"gpu.kernel": object()}),
    ]
    backend = get_backend("rocm", arch="gfx942")
    module = SimpleNamespace(walk=lambda: iter(ops))
    backend.lower_compile_hints(module, compile_hints={})
    assert not any("rocdl.waves_per_eu" in op.attributes for op in ops)
    backend.lower_compile_hints(module, compile_hints={"waves_per_eu": 3})
    assert [str(op.attributes.get("rocdl.waves_per_eu")) for op in ops] == ["3 : i32", "None", "None"]


def test_cuda_device_code():
    backend = get_backend("cuda", arch="sm_90")
    binary = backend.make_device_code(CUDA_IR, options=backend.parse_options({}))
    assert ".entry store" in binary.asm() and ".target sm_90\n" in binary.asm()
    assert backend.loadable(binary.sections) == binary.sections["ptx"]
    assert binary.resources == [{"name": "store", "registers": None, "spills": None, "shared": None, "scratch": None}]


def test_cuda_arch_specific_code_gets_the_suffix():
    backend = get_backend("cuda", arch="sm_90")
    used = CUDA_IR.replace("  ret void", '  call void asm sideeffect "wgmma.fence.sync.aligned;", ""()\n  ret void')
    used = backend.with_libraries(used)
    assert backend.make_device_code(CUDA_IR, options=Options()).chip == "sm_90"
    binary = backend.make_device_code(used, options=Options())
    assert binary.chip == "sm_90a" and ".target sm_90a" in binary.asm()


def test_cuda_cubin_where_ptxas_is_named(monkeypatch: pytest.MonkeyPatch):
    tool = tools.try_find_tool("ptxas")
    if tool is None:
        pytest.skip("no ptxas here")
    monkeypatch.setenv("FLYDSL_COMPILE_PTXAS", str(tool.path))
    backend = get_backend("cuda", arch="sm_90")
    binary = backend.make_device_code(CUDA_IR, options=Options())
    assert binary.sections["cubin"][:4] == b"\x7fELF" and backend.loadable(binary.sections) == binary.sections["cubin"]
    assert binary.resources[0]["registers"] > 0 and binary.resources[0]["spills"] == 0


def test_cpu_device_code_runs(monkeypatch: pytest.MonkeyPatch):
    from flydsl.runtime import get_device_runtime

    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    backend = get_backend()
    binary = backend.make_device_code(CPU_IR, options=backend.parse_options(None))
    runtime = get_device_runtime()
    function = runtime.function(runtime.module_load(backend.loadable(binary.sections)), "store")
    out = ctypes.c_int64(0)
    runtime.launch(function, (5, 2), 1, params=[ctypes.c_void_p(ctypes.addressof(out))])
    assert out.value == 10
    assert binary.asm() and binary.optimized_ir
