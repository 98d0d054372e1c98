"""Extern functions: C compiled to bitcode by clang, linked into kernels on every stack."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.extern_link import (
    BoundExternFunction,
    LinkedExternFunction,
    link_extern,
    register_extern_resolver,
    unregister_extern_resolver,
)
from flydsl.errors import CacheWarning, DSLCompileError, LinkError, NotSupportedError
from flydsl.expr.extern import ffi

CLANG = shutil.which("clang-22")
needs_clang = pytest.mark.skipif(CLANG is None, reason="clang-22 is not installed")

SOURCE = """
static float twice(float x) { return x + x; }
float shifted(float x, int n) { return twice(x) + n; }
long long wide(unsigned long long a, unsigned b, int c) { return (long long)(a >> 33) + b * 2LL - c; }
__attribute__((noinline)) float never_called(float x) { return x * 41.0f; }
"""

DEVICE = ["-ffreestanding", "-nogpulib", "-nostdlib", "-fno-math-errno"]
TARGETS = {
    "cpu": [],
    "rocm:gfx942": ["--target=amdgcn-amd-amdhsa", "-mcpu=gfx942", *DEVICE],
    "rocm:gfx1100": ["--target=amdgcn-amd-amdhsa", *DEVICE],
    "cuda:sm_90a": ["--target=nvptx64-nvidia-cuda", "-march=sm_90", *DEVICE],
}


@pytest.fixture
def bitcode(tmp_path):
    """Compile C to a bitcode (or text) file for a target."""
    if CLANG is None:
        pytest.skip("clang-22 is not installed")

    def make(source: str = SOURCE, target: str = "cpu", name: str = "lib.bc", flags: tuple[str, ...] = ("-O1",)):
        path, code = tmp_path / name, tmp_path / f"{name}.c"
        code.write_text(source)
        text = ["-S"] if name.endswith(".ll") else ["-c"]
        command = [str(CLANG), *text, "-emit-llvm", *flags, *TARGETS[target], str(code), "-o", str(path)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        return path

    return make


def shifting(f):
    """A jit function that applies `f(x, n)` to every element."""

    @flyc.kernel
    def kernel(x: fx.Tensor, n: fx.Int32, count: fx.Int32):
        i = fx.block_idx.x * 64 + fx.thread_idx.x
        if i < count:
            x[i] = f(x[i], n)

    @flyc.jit
    def run(x: fx.Tensor, n: fx.Int32, count: fx.Int32):
        kernel(x, n, count).launch(grid=fx.ceildiv(count, 64), block=64)

    return run


def shifted(path=None, **options) -> LinkedExternFunction:
    return link_extern(ffi("shifted", ["float32", "int32"], "float32"), bitcode_path=path, **options)


# --- the cpu stack runs it ----------------------------------------------------------------------------------------


@needs_clang
@pytest.mark.parametrize("name", ["lib.bc", "lib.ll"])
def test_a_c_function_runs(bitcode, rng, name):
    x = rng.standard_normal(131).astype(np.float32)
    got = np.append(x, np.float32(np.nan))
    shifting(shifted(bitcode(name=name)))(got[:-1], -3, 131)
    np.testing.assert_array_equal(got[:-1], (x + x) - np.float32(3))
    assert np.isnan(got[-1])


@needs_clang
def test_code_of_a_debug_build_runs(bitcode, rng):
    """At -O0 clang marks functions so that they are not inlined; they are called then."""
    x = rng.standard_normal(70).astype(np.float32)
    got = x.copy()
    shifting(shifted(bitcode(flags=("-O0",))))(got, 5, 70)
    np.testing.assert_array_equal(got, (x + x) + np.float32(5))


@needs_clang
def test_integers_are_extended_by_the_declared_names(bitcode, rng):
    f = link_extern(ffi("wide", ["uint64", "uint32", "int32"], "int64", is_pure=True), bitcode_path=bitcode())

    @flyc.kernel
    def kernel(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor):
        i = fx.thread_idx.x
        out[i] = f(a[i], b[i], b[i])

    @flyc.jit
    def run(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor):
        kernel(a, b, out).launch(grid=1, block=64)

    a = rng.integers(-(2**31), 2**31, 64, dtype=np.int64) << 32
    b = rng.integers(-100, 100, 64).astype(np.int8)
    out = np.empty(64, np.int64)
    run(a, b, out)
    # The declared types are unsigned 32 and signed 32: the i8 is zero-extended for one, sign-extended for the other.
    expected = (a.view(np.uint64) >> np.uint64(33)).astype(np.int64) + b.view(np.uint8).astype(np.int64) * 2 - b
    np.testing.assert_array_equal(out, expected)


@needs_clang
def test_two_libraries_and_a_helper_between_them(bitcode, rng):
    helper = bitcode("float helper(float x) { return x * 3.0f; }", name="helper.bc")
    main = bitcode("float helper(float); float outer(float x) { return helper(x) + 1.0f; }", name="main.bc")
    outer = link_extern(ffi("outer", ["float32"], "float32"), bitcode_path=main)
    inner = link_extern(ffi("helper", ["float32"], "float32"), bitcode_path=helper)
    x = rng.standard_normal(64).astype(np.float32)
    got = x.copy()
    shifting(lambda v, n: outer(v) - inner(v))(got, 0, 64)
    np.testing.assert_allclose(got, 1.0, rtol=0, atol=1e-5)


@needs_clang
def test_a_resolver_finds_the_library(bitcode, rng):
    path = bitcode()
    asked = []

    @register_extern_resolver
    def find(symbol):
        asked.append(symbol)
        return path if symbol == "shifted" else None

    try:
        x = rng.standard_normal(64).astype(np.float32)
        for f in (ffi("shifted", ["float32", "int32"], "float32"), shifted()):
            got = x.copy()
            shifting(f)(got, 2, 64)
            np.testing.assert_array_equal(got, (x + x) + np.float32(2))
    finally:
        unregister_extern_resolver(find)
    assert "shifted" in asked
    with pytest.raises(ValueError, match="not a registered"):
        unregister_extern_resolver(find)


@needs_clang
def test_a_bound_function_prepares_its_arguments(bitcode, rng):
    bound = BoundExternFunction(shifted(bitcode()), lambda x, n: (x * 0.5, n + 1))
    x = rng.standard_normal(64).astype(np.float32)
    got = x.copy()
    shifting(bound)(got, 2, 64)
    np.testing.assert_array_equal(got, x + np.float32(3))


def test_the_c_library_needs_no_bitcode(rng):
    f = ffi("cbrtf", ["float32"], "float32", is_pure=True)
    x = rng.standard_normal(64).astype(np.float32)
    got = x.copy()
    shifting(lambda v, n: f(v))(got, 0, 64)
    np.testing.assert_allclose(got, np.cbrt(x.astype(np.float64)), rtol=3e-7)


def test_a_symbol_nobody_has_is_named_at_load():
    with pytest.raises(DSLCompileError, match="nowhere_to_be_found"):
        f = ffi("nowhere_to_be_found", ["float32", "int32"], "float32")
        shifting(f)(np.zeros(4, np.float32), 0, 4)


# --- the GPU stacks compile it ------------------------------------------------------------------------------------


@needs_clang
@pytest.mark.parametrize("target", [t for t in TARGETS if t != "cpu"])
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_device_bitcode_is_linked(bitcode, target, level):
    fn = shifting(shifted(bitcode(target=target, flags=(level,))))
    artifact = flyc.compile(fn, np.zeros(64, np.float32), 3, 64, target=target).artifact
    assert "never_called" not in artifact.llvm_ir, "what nobody calls is not linked"
    assert "define internal" in artifact.llvm_ir and "@shifted" in artifact.llvm_ir
    if level == "-O2":
        assert "shifted" not in artifact.asm, "the function is inlined"
        assert "target-cpu" not in artifact.llvm_ir
    binary = artifact.binary()
    assert (binary[:4] == b"\x7fELF") if target.startswith("rocm") else b".visible .entry" in binary


@needs_clang
def test_a_library_may_read_hidden_arguments(bitcode):
    """Kernels promise not to need hidden arguments; with foreign code in them they cannot."""
    source = """
    float shifted(float x, int n) {
        return x + __builtin_amdgcn_workgroup_id_y() + n + *(const unsigned *)__builtin_amdgcn_implicitarg_ptr();
    }"""
    fn = shifting(shifted(bitcode(source, target="rocm:gfx942")))
    artifact = flyc.compile(fn, np.zeros(64, np.float32), 3, 64, target="rocm:gfx942").artifact
    assert "amdgpu-no-implicitarg-ptr" not in artifact.llvm_ir
    assert artifact.resources[artifact.kernels[0]["name"]].get("kernarg_size", 0) >= 0
    assert artifact.kernels[0]["kernarg_size"] > 200, "the hidden arguments are passed"


@needs_clang
@pytest.mark.parametrize("target", ["rocm:gfx942", "cuda:sm_90a"])
def test_an_undefined_function_is_named_when_compiling(bitcode, target):
    fn = shifting(ffi("absent", ["float32", "int32"], "float32"))
    with pytest.raises(DSLCompileError, match="extern function 'absent' is defined nowhere.*bitcode_path"):
        flyc.compile(fn, np.zeros(64, np.float32), 3, 64, target=target)
    source = "float gone(float); float shifted(float x, int n) { return gone(x); }"
    path = bitcode(source, target=target)
    with pytest.raises(DSLCompileError, match=rf"gone, which the linked libraries refer to.*{path.name}"):
        flyc.compile(shifting(shifted(path)), np.zeros(64, np.float32), 3, 64, target=target)


# --- mistakes -----------------------------------------------------------------------------------------------------


@needs_clang
@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("float shifted(float x) { return x; }", r"float \(float\)"),
        ("float shifted(float x, long n) { return x; }", r"float \(float, i64\)"),
        ("double shifted(float x, int n) { return x; }", r"double \(float, i32\)"),
        ("void shifted(void) { }", r"void \(\)"),
    ],
)
def test_a_declaration_that_does_not_fit(bitcode, source, found):
    message = rf"'shifted' is declared as float \(float, i32\), but .*lib\.bc defines it as {found}"
    with pytest.raises(DSLCompileError, match=message):
        shifting(shifted(bitcode(source)))(np.zeros(4, np.float32), 0, 4)


@needs_clang
def test_libraries_of_other_targets(bitcode):
    zeros = np.zeros(64, np.float32)
    host = shifting(shifted(bitcode()))
    with pytest.raises(LinkError, match=r"lib\.bc is for the target x86_64.*, the kernel is for amdgcn-amd-amdhsa"):
        flyc.compile(host, zeros, 3, 64, target="rocm:gfx942")
    device = shifting(shifted(bitcode(target="rocm:gfx942", name="gfx942.bc")))
    with pytest.raises(LinkError, match=r"is for the processor gfx942, the kernel is for gfx1100.*-mcpu=gfx1100"):
        flyc.compile(device, zeros, 3, 64, target="rocm:gfx1100")
    with pytest.raises(LinkError, match=r"is for the target amdgcn"):
        device(zeros, 3, 64)


@needs_clang
def test_a_symbol_defined_twice(bitcode):
    one, two = bitcode(name="one.bc"), bitcode(name="two.bc")
    other = link_extern(ffi("never_called", ["float32"], "float32"), bitcode_path=two)
    f = shifted(one)
    with pytest.raises(LinkError, match=r"'\w+' is defined twice: in .*one\.bc and in .*two\.bc"):
        shifting(lambda x, n: f(x, n) + other(x))(np.zeros(4, np.float32), 0, 4)


def test_files_that_are_no_bitcode(tmp_path):
    zeros = np.zeros(4, np.float32)
    path = tmp_path / "lib.bc"
    with pytest.raises(ValueError, match=r"extern function 'shifted' cannot be read: .*lib\.bc: No such file"):
        shifting(shifted(path))(zeros, 0, 4)
    for content in (b"BC\xc0\xde and then nonsense", b"\x7fELF\xff\xfe", b"define float @shifted(float"):
        path.write_bytes(content)
        with pytest.raises(LinkError, match=r"lib\.bc is not LLVM bitcode or IR"):
            shifting(shifted(path))(zeros, 0, 4)
    with pytest.raises(TypeError, match="module_init_fn is a function"):
        shifted(path, module_init_fn=3)


# --- caching ------------------------------------------------------------------------------------------------------


def returning(number: int) -> str:
    return f"define float @shifted(float %x, i32 %n) {{\n  ret float {number}.0\n}}\n"


def test_the_content_of_a_library_is_part_of_the_key(tmp_path, monkeypatch):
    """An edited file counts from the next `link_extern` on; the same content is found on disk."""
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "lib.ll"
    module = types_module(tmp_path, path)
    got = np.zeros(4, np.float32)
    for number, misses in ((1, 1), (2, 2), (1, 2)):
        path.write_text(returning(number))
        module.f = shifted(path)
        module.run(got, 0, 4)
        assert (got == number).all()
        assert module.run.cache_info().misses == misses
    assert len(list((tmp_path / "cache").rglob("*.fly"))) == 2
    module.run.invalidate()
    module.run(got, 0, 4)
    assert (got == 1).all() and len(list((tmp_path / "cache").rglob("*.fly"))) == 2, "it is found on disk"


def types_module(tmp_path, path):
    """A user's module with a kernel that calls its global `f`."""
    source = """
        import flydsl.compiler as flyc
        import flydsl.expr as fx

        f = None

        @flyc.kernel
        def kernel(x: fx.Tensor, n: fx.Int32, count: fx.Int32):
            i = fx.thread_idx.x
            if i < count:
                x[i] = f(x[i], n)

        @flyc.jit
        def run(x: fx.Tensor, n: fx.Int32, count: fx.Int32):
            kernel(x, n, count).launch(grid=1, block=64)

        seen = []

        def note(handle):
            seen.append(handle)
    """
    name = f"user_of_externs_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
    sys.path.insert(0, str(tmp_path))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(tmp_path))


# --- load hooks ---------------------------------------------------------------------------------------------------


def test_a_load_hook_runs_once_per_module(tmp_path, monkeypatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "lib.ll"
    path.write_text(returning(7))
    module = types_module(tmp_path, path)
    sys.modules[module.__name__] = module
    module.f = shifted(path, module_init_fn=module.note)
    got = np.zeros(4, np.float32)
    for _ in range(3):
        module.run(got, 0, 4)
    assert len(module.seen) == 1 and isinstance(module.seen[0], int)
    # Another process finds it on disk and imports the hook by its name; here a forgetful function stands for one.
    module.run.invalidate()
    module.run(got, 0, 4)
    assert len(module.seen) == 2 and (got == 7).all()
    assert module.run.cache_info().misses == 2 and len(list((tmp_path / "cache").rglob("*.fly"))) == 1
    artifact = flyc.compile(module.run, got, 0, 4).artifact
    assert artifact.metadata["load_hooks"] == [f"{module.__name__}:note"]
    del sys.modules[module.__name__]


def test_a_hook_without_a_name_keeps_the_code_in_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "lib.ll"
    path.write_text(returning(7))
    seen = []
    fn = shifting(shifted(path, module_init_fn=lambda handle: seen.append(handle)))
    got = np.zeros(4, np.float32)
    with pytest.warns(CacheWarning, match="is not kept on disk: module_init_fn .*lambda.* imported by its name"):
        fn(got, 0, 4)
    fn(got, 0, 4)
    assert len(seen) == 1 and (got == 7).all()
    assert not list((tmp_path / "cache").rglob("*.fly"))
    with pytest.warns(CacheWarning), pytest.raises(TypeError, match="cannot be exported: module_init_fn"):
        fn.invalidate()
        flyc.export(fn, tmp_path / "out.fly", args=(got, 0, 4))
    with pytest.raises(NotSupportedError, match="load hooks"):
        flyc.export_raw(fn, tmp_path / "raw", args=(got, 0, 4))


def test_variables_stay_visible_for_a_load_hook(tmp_path):
    """The hook is to find them in the loaded module; without a hook they are the library's own business."""
    text = """
    @table = addrspace(1) global [4 x float] zeroinitializer
    define float @shifted(float %x, i32 %n) {
      %p = getelementptr float, ptr addrspace(1) @table, i32 %n
      %v = load float, ptr addrspace(1) %p
      ret float %v
    }
    """
    path = tmp_path / "lib.ll"
    path.write_text(text)
    zeros = np.zeros(64, np.float32)
    plain = flyc.compile(shifting(shifted(path)), zeros, 3, 64, target="cuda:sm_90a").artifact
    assert "@table = internal" in plain.llvm_ir
    hooked = shifting(shifted(path, module_init_fn=importlib.import_module("operator").index))
    asm = flyc.compile(hooked, zeros, 3, 64, target="cuda:sm_90a").artifact.asm
    assert ".visible .global .align 4 .b8 table" in asm


# --- with passes of the user --------------------------------------------------------------------------------------


def test_a_library_goes_through_the_users_pipeline(tmp_path, rng):
    """It is linked before any pass runs, so they see it as part of the module."""
    path = tmp_path / "lib.ll"
    path.write_text("define float @shifted(float %x, i32 %n) {\n  %r = fadd float %x, 1.0\n  ret float %r\n}\n")
    f = shifted(path)
    seen: list[str] = []

    @flyc.ir_pass(stage="llvm-pre-opt", name="look-at-the-library")
    def look(module):
        seen.append(str(module))
        return module

    @flyc.kernel
    def kernel(x: fx.Tensor):
        x[fx.thread_idx.x] = f(x[fx.thread_idx.x], 0)

    @flyc.jit(ir_passes=[look], llvm_pass_pipeline="default<O2>")
    def run(x: fx.Tensor):
        kernel(x).launch(grid=1, block=16)

    x = rng.standard_normal(16).astype(np.float32)
    got = x.copy()
    run(got)
    np.testing.assert_array_equal(got, x + np.float32(1))
    assert "define internal float @shifted" in seen[0]
