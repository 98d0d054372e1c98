"""The example kernels through every pass of their pipeline: upstream's tools read what we print at each stage, LLVM
reads what we write, and the code is the one the direct translation gives."""

from __future__ import annotations

import ctypes
import io
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.printer import Printer

import flydsl.compiler as flyc
from flydsl.compiler.backends import get_backend
from flydsl.compiler.build import driver
from flydsl.dialects.upstream import gpu
from flydsl.dialects.upstream.gpu.binary import BinaryOp
from flydsl.ir.parser import LocatedParser
from flydsl.ir.registry import make_context
from flydsl.kernels.gemm_cdna import gemm_cdna
from flydsl.kernels.gemm_preshuffle import gemm_preshuffle
from flydsl.kernels.gemm_sm80 import gemm_sm80
from flydsl.kernels.gemm_sm90 import gemm_sm90
from flydsl.kernels.gemm_wmma import gemm_wmma
from flydsl.kernels.rows import layer_norm, rms_norm, softmax
from flydsl.kernels.transpose import transpose
from flydsl.kernels.vector_add import vector_add
from flydsl.llvm import binding, codegen, host_jit
from flydsl.llvm.stub_abi import LAUNCH_SYMBOL
from flydsl.llvm.text import host_stub
from flydsl.passes.fuse import upper_part
from flydsl.passes.pipeline import parse_pipeline

from .conftest import load_example
from .llvm_text import normalised
from .test_rocm_passes import examples as atoms

EXAMPLES = ("vector_add", "tiled_copy", "predicated_add", "tiled_mma")
TARGETS = {"rocm": "gfx942", "cuda": "sm_90"}

cases = pytest.mark.parametrize("stack", TARGETS)
kernels = pytest.mark.parametrize("name", EXAMPLES)


def tool(name: str) -> str:
    """A tool of LLVM 22, or a skip."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def accepted(command: list[str], text: str) -> str:
    """What a tool makes of a text; it must accept it."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}: {done.stderr[:2000]}"
    return done.stdout


def generic(module: Any) -> str:
    out = io.StringIO()
    Printer(out, print_generic_format=True).print_op(module)
    return out.getvalue()


class Traced(Exception):
    """Stops a compilation in front of its passes."""


def traced(function: Any, args: Any, target: str) -> Any:
    """What the tests of library kernels want of an artifact, without the code: its traced text and kernels."""
    found: list[Any] = []

    def stop(name: str, module: ModuleOp, kernels: list[str], backend: Any, **_: Any):
        names = [{"name": kernel} for kernel in kernels]
        found.append(SimpleNamespace(source_ir=driver.print_module(module), metadata={"kernels": names}))
        raise Traced

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
        patch.setattr(driver, "compile_module", stop)
        try:
            # Another test may have compiled it in this process: then its code is there as well.
            return flyc.compile(function, *args, target=target).artifact
        except Traced:
            return found[0]


class Lowering:
    """A kernel on its way down from the traced text; each stage is made once, from the one before it."""

    def __init__(self, artifact: Any, stack: str, arch: str, verified: bool = True):
        self.backend = get_backend(stack, arch=arch)
        self.verified = verified
        self.stages: dict[tuple[str, ...], ModuleOp] = {}
        self.artifact = artifact
        *self.fragments, self.binary = self.backend.pipeline_fragments(compile_hints={})
        upper = upper_part(driver.specs_of(self.fragments))
        self.head, self.tail = self.fragments[:upper], self.fragments[upper:]
        assert self.head and self.tail

    def after(self, fragments: list[str]) -> ModuleOp:
        """The module after some of the pipeline; every pass leaves one that verifies, where that is looked at."""
        key = tuple(fragments)
        if key not in self.stages:
            if fragments:
                # What a pass leaves behind is what the next one is given, and nobody else.
                start = max((n for n in range(len(key)) if key[:n] in self.stages), default=0)
                module = self.after(fragments[:start])
            else:
                start, module = 0, LocatedParser(make_context(), self.artifact.source_ir, "traced.mlir").parse_module()
            for fragment in fragments[start:]:
                for p in parse_pipeline(fragment):
                    module = p.run(module)
                    if self.verified:
                        module.verify()
            self.stages[key] = module
        return self.stages[key].clone()

    def upper(self) -> ModuleOp:
        return self.after(self.head)

    def lowered(self) -> ModuleOp:
        return self.after(self.fragments)


@cache
def lowered_example(name: str, stack: str) -> Lowering:
    function, args = load_example(name).compile_args()
    arch = TARGETS[stack]
    return Lowering(flyc.compile(function, *args, target=f"{stack}:{arch}").artifact, stack, arch)


@pytest.fixture
def lowering(name: str, stack: str) -> Lowering:
    return lowered_example(name, stack)


def device_of(module: ModuleOp) -> gpu.ModuleOp:
    return next(op for op in module.ops if isinstance(op, gpu.ModuleOp))


@cases
@kernels
def test_upstream_reads_the_upper_dialects(lowering: Lowering):
    text = accepted([tool("mlir-opt-22"), "--verify-each"], generic(lowering.upper()))
    assert "gpu.func" in text and "llvm.getelementptr" in text


@cases
@kernels
def test_upstream_translates_the_llvm_dialect(lowering: Lowering):
    """The device module by itself, then the whole module around the compiled code."""
    translate = tool("mlir-translate-22")
    module = lowering.lowered()
    accepted([tool("mlir-opt-22")], generic(module))
    device = device_of(module)
    alone = ModuleOp([], {"llvm.data_layout": device.attributes["llvm.data_layout"]})
    for op in list(device.body.block.ops):
        op.detach()
        alone.body.block.add_op(op)
    assert {op.name for op in alone.walk()} <= _of_llvm(alone)
    ir = accepted([translate, "--mlir-to-llvmir"], generic(alone))
    assert "llvm.amdgcn.workitem.id.x" in ir or "llvm.nvvm.read.ptx.sreg.tid.x" in ir

    whole = lowering.after([*lowering.fragments, lowering.binary])
    ir = accepted([translate, "--mlir-to-llvmir"], generic(whole))
    assert "mgpuLaunchKernel" in ir


def _of_llvm(module: ModuleOp) -> set[str]:
    return {op.name for op in module.walk() if op.name.split(".")[0] in ("builtin", "llvm", "rocdl", "nvvm")}


@cases
@kernels
def test_llvm_verifies_both_texts(lowering: Lowering):
    opt = tool("opt-22")
    ours = [lowering.artifact.llvm_ir, lowering.backend.device_ir(device_of(lowering.lowered()))]
    for ir in ours:
        accepted([opt, "-passes=verify", "-disable-output"], ir)


def code_target(lowering: Lowering) -> codegen.DeviceTarget:
    arch = lowering.backend.target.arch
    if lowering.backend.name == "rocm":
        return codegen.DeviceTarget.amdgpu(arch)
    return codegen.DeviceTarget.nvptx(arch, "+ptx83")


def host_text(module: ModuleOp, lowering: Lowering) -> str:
    triple = binding.host_triple()
    names = [k["name"] for k in lowering.artifact.metadata["kernels"]]
    return host_stub.host_module(driver.split(module)[1], names, triple, binding.data_layout(triple))


def same_both_ways(lowering: Lowering) -> tuple[str, str]:
    """The device texts of both ways, which are equal up to names; so are those of the host function."""
    upper, lowered = lowering.upper(), lowering.lowered()
    direct, by_passes = (lowering.backend.device_ir(device_of(module)) for module in (upper, lowered))
    assert normalised(by_passes) == normalised(direct)
    assert normalised(host_text(lowered, lowering)) == normalised(host_text(upper, lowering))
    return direct, by_passes


@cases
@kernels
def test_same_code_as_the_direct_translation(lowering: Lowering):
    """From one module of the upper dialects: written as LLVM IR at once, and taken through the llvm dialect."""
    target = code_target(lowering)
    codes = [codegen.compile_device(ir, target, 2) for ir in same_both_ways(lowering)]
    assert codes[0].asm == codes[1].asm and len(codes[0].asm) > 200
    if lowering.backend.name == "rocm":
        assert codes[0].object == codes[1].object


F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


def matrices(dtype: Any, out: Any) -> list[Any]:
    shapes = ((256, 128, dtype), (256, 128, dtype), (256, 256, out))
    return [
        flyc.from_dlpack(torch.zeros(m, n).to(t)).mark_layout_dynamic(leading_dim=1, divisibility=8)
        for m, n, t in shapes
    ]


ROWS = (vector_add, transpose, softmax, rms_norm, layer_norm)


def library() -> Iterator[tuple[Any, list[Any], str, str]]:
    """Every kernel of the library, for a GPU of each family it is for."""
    x, row = torch.zeros(4, 1000).to(BF16), torch.zeros(1000).to(BF16)
    for stack, arch in (("rocm", "gfx942"), ("rocm", "gfx1100"), ("cuda", "sm_80"), ("cuda", "sm_90a")):
        yield vector_add, [row, row, row], stack, arch
        yield transpose, [x, torch.zeros(1000, 4).to(BF16)], stack, arch
        yield softmax, [x, x], stack, arch
        yield rms_norm, [x, row, x, 1e-5], stack, arch
        yield layer_norm, [x, row, row, x, 1e-5], stack, arch
    yield gemm_cdna, matrices(BF16, F32), "rocm", "gfx942"
    yield gemm_wmma, matrices(F16, F32), "rocm", "gfx1100"
    yield gemm_wmma, matrices(F16, F32), "rocm", "gfx1250"
    yield gemm_preshuffle, matrices(BF16, BF16), "rocm", "gfx942"
    yield gemm_sm80, matrices(BF16, BF16), "cuda", "sm_80"
    yield gemm_sm90, [*matrices(BF16, BF16), 4, 2], "cuda", "sm_90a"


@pytest.mark.parametrize(
    ("function", "args", "stack", "arch"), list(library()), ids=lambda x: getattr(x, "__name__", "")
)
def test_library_kernels(function: Any, args: list[Any], stack: str, arch: str):
    """Kernels of the library: the same text both ways, host function included."""
    # The rows of another architecture have the same ops: verifying takes as long as all the passes.
    verified = function not in ROWS or arch in ("gfx942", "sm_80")
    same_both_ways(Lowering(traced(function, args, f"{stack}:{arch}"), stack, arch, verified))


@cases
def test_to_a_binary(stack: str):
    """The whole pipeline, as `fly-opt` runs it, ends in code the loader of the target knows."""
    lowering = lowered_example("vector_add", stack)
    module = lowering.after([*lowering.fragments, lowering.binary])
    (binary,) = (op for op in module.ops if isinstance(op, BinaryOp))
    (made,) = binary.objects.data
    kernel = made.data.kernels.data[0].data
    assert kernel[0] == lowering.artifact.metadata["kernels"][0]["name"]
    if stack == "rocm":
        assert made.data.content.startswith(b"\x7fELF")
        assert kernel[3].data["max_flat_workgroup_size"].value.data == 256
    else:
        assert b".entry " + kernel[0].encode() in made.data.content


@cases
@kernels
def test_host_function(lowering: Lowering):
    """The host function of the llvm dialect launches with the geometry and arguments the direct one launches with."""
    names = [k["name"] for k in lowering.artifact.metadata["kernels"]]
    launches = [_launches(module, names) for module in (lowering.upper(), lowering.lowered())]
    assert launches[0] == launches[1] and len(launches[0]) == 1
    assert launches[0][0][0] == names[0]


def _launches(module: ModuleOp, names: list[str]) -> list[Any]:
    """Calls of the driver's launch entry that the host function makes for arguments of many values."""
    _, host = driver.split(module)
    triple = binding.host_triple()
    entry = host.body.blocks[0]
    sizes = [_bytes(a.type) for a in entry.args]
    ir = host_stub.host_module(host, names, triple, binding.data_layout(triple))
    found: list[Any] = []

    def launch(fn, gx, gy, gz, bx, by, bz, smem, stream, params, extra):
        addresses = ctypes.cast(params, ctypes.POINTER(ctypes.c_void_p))
        arguments = [ctypes.string_at(addresses[i], size) for i, size in enumerate(sizes[:-1])]
        found.append((names[(fn or 1) - 1], (gx, gy, gz, bx, by, bz, smem), stream, arguments))
        return 0

    signature = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
    )
    callback = signature(launch)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    with host_jit.load_ir(ir, imports={LAUNCH_SYMBOL: address}) as library:
        stub = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(library.address(host.sym_name.data))
        handles = (ctypes.c_void_p * len(names))(*range(1, len(names) + 1))
        record = (ctypes.c_int64 * 16)()
        # Extents of 4,096 in every leaf: no grid is empty, none too large.
        storage = [np.full(8, 4096, np.int32) for _ in sizes]
        cells = [ctypes.addressof(handles), ctypes.addressof(record), *(s.ctypes.data for s in storage)]
        slots = (ctypes.c_void_p * len(cells))(*cells)
        assert stub(ctypes.addressof(slots)) == 0
    return found


def _bytes(type_: Any) -> int:
    fields = getattr(type_, "fields", None)
    if fields is not None:
        return sum(map(_bytes, fields))
    width = getattr(type_, "width", None)
    return width.data // 8 if width is not None else 8


@pytest.mark.parametrize(("name", "function", "args", "arch"), list(atoms()), ids=lambda x: str(x)[:10])
def test_atoms(name: str, function: Any, args: Any, arch: str):
    """Matrix instructions and buffer memory: the same code. (Their ops are newer than the tools of LLVM 22.)"""
    _, ir = same_both_ways(Lowering(traced(function, args, f"rocm:{arch}"), "rocm", arch))
    accepted([tool("opt-22"), "-passes=verify", "-disable-output"], ir)


def test_symbols_of_the_whole_module():
    """Every stage keeps the names a launch refers to."""
    lowering = lowered_example("vector_add", "rocm")
    module = lowering.lowered()
    functions = {op.sym_name.data for op in device_of(module).body.block.ops}
    (launch,) = (op for op in module.walk() if isinstance(op, gpu.LaunchFuncOp))
    assert launch.kernel.root_reference == StringAttr("kernels")
    assert launch.kernel.nested_references.data[0].data in functions
