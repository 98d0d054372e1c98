"""Code of the host: bf16 are integers to LLVM, whatever the op, and floats to functions of elsewhere."""

from __future__ import annotations

import ctypes
from typing import cast

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import bf16

from flydsl.cpu.code.abi import device_module
from flydsl.dialects.upstream import gpu
from flydsl.errors import DSLCompileError
from flydsl.ir.parser import LocatedParser
from flydsl.ir.registry import make_context
from flydsl.llvm import binding, host_jit
from flydsl.llvm.text.spelling import HOST, LLVM

BF16 = ml_dtypes.bfloat16


def text_of(body: str) -> str:
    """LLVM IR of a kernel that gets the addresses of two arrays."""
    source = f"""
gpu.module @device {{
  func.func private @other(i32, bf16) -> bf16
  gpu.func @work(%p: !llvm.ptr, %q: !llvm.ptr) kernel attributes {{known_block_size = array<i32: 1, 1, 1>}} {{
    {body}
    gpu.return
  }}
}}"""
    (module,) = LocatedParser(make_context(), source, "work.mlir").parse_module().ops
    triple = binding.host_triple()
    return device_module(cast(gpu.ModuleOp, module), triple, binding.data_layout(triple))


def execute(text: str, x: np.ndarray, y: np.ndarray) -> None:
    with host_jit.load_ir(text) as library:
        signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64)
        cells = (ctypes.c_void_p * 2)(x.ctypes.data, y.ctypes.data)
        addresses = (ctypes.c_void_p * 2)(*(ctypes.addressof(cells) + 8 * i for i in range(2)))
        geometry = np.array([1] * 6 + [0] * 4, np.int32)
        signature(library.address("work"))(ctypes.addressof(addresses), geometry.ctypes.data, None, 0, 1)


def bits(*values: float) -> np.ndarray:
    return np.array(values, BF16).view(np.uint16)


OTHER = """define bfloat @other(i32 %n, bfloat %x) noinline {
  %b = bitcast bfloat %x to i16
  %s = xor i16 %b, -32768
  %r = bitcast i16 %s to bfloat
  ret bfloat %r
}"""
OPS = {
    "llvm.fadd": ("%r = llvm.fadd %a, %b : T", 3.25),
    "llvm.fneg": ("%r = llvm.fneg %a : T", -1.5),
    "fabs": ('%m = llvm.fneg %a : T\n    %r = llvm.call_intrinsic "llvm.fabs.S"(%m) : (T) -> T', 1.5),
    "floor": ('%r = llvm.call_intrinsic "llvm.floor.S"(%a) : (T) -> T', 1.0),
    "intr.fma": ("%r = llvm.intr.fma(%a, %b, %b) : (T, T, T) -> T", 4.375),
    "intr.copysign": ("%m = llvm.fneg %a : T\n    %r = llvm.intr.copysign(%b, %m) : (T, T) -> T", -1.75),
    "intr.maxnum": ("%r = llvm.intr.maxnum(%a, %b) : (T, T) -> T", 1.75),
    "select": ('%c = llvm.fcmp "olt" %a, %b : T\n    %r = arith.select %c, %b, %a : C, T', 1.75),
    "arith": ("%c = arith.constant V : T\n    %r = arith.mulf %a, %c : T", 3.0),
    "reversal": ('%r = llvm.call_intrinsic "llvm.vector.reverse.S"(%a) : (T) -> T', 1.5),
}


@pytest.mark.parametrize(("name", "count"), [(name, n) for name in OPS for n in (0, 4) if n or name != "reversal"])
def test_ops(name: str, count: int):
    op, wanted = OPS[name]
    type_, suffix = (f"vector<{count}xbf16>", f"v{count}bf16") if count else ("bf16", "bf16")
    number = "dense<2.0>" if count else "2.0"
    op = op.replace("llvm.vector.reverse.S", f"llvm.vector.reverse.{suffix}").replace(" : C,", f" : {flag(count)},")
    op = op.replace('.S"', f'.{suffix}"').replace("V : T", f"{number} : T")
    for old in (" T", "(T", "T,", "T)"):
        op = op.replace(old, old.replace("T", type_))
    body = f"""%a = llvm.load %p {{alignment = 2 : i64}} : !llvm.ptr -> {type_}
    %b = llvm.load %q {{alignment = 2 : i64}} : !llvm.ptr -> {type_}
    {op}
    llvm.store %r, %q {{alignment = 2 : i64}} : {type_}, !llvm.ptr"""
    x, y = bits(*[1.5] * max(count, 1)), bits(*[1.75] * max(count, 1))
    text = text_of(body)
    assert "bfloat" not in text
    execute(text, x, y)
    np.testing.assert_array_equal(y, bits(*[wanted] * max(count, 1)))


def flag(count: int) -> str:
    return f"vector<{count}xi1>" if count else "i1"


def test_constrained_ops_are_refused():
    """Their roundings are not those of f32, rounded again."""
    body = """%a = llvm.load %p {alignment = 2 : i64} : !llvm.ptr -> bf16
    %r = llvm.intr.experimental.constrained.fadd %a, %a towardzero ignore : bf16
    llvm.store %r, %q {alignment = 2 : i64} : bf16, !llvm.ptr"""
    with pytest.raises(DSLCompileError, match="constrained.fadd' of bf16 is not for code of the host; convert the"):
        text_of(body)


def test_functions_of_elsewhere_take_bf16_as_c_does():
    body = """%a = llvm.load %p {alignment = 2 : i64} : !llvm.ptr -> bf16
    %n = arith.constant 3 : i32
    %r = func.call @other(%n, %a) : (i32, bf16) -> bf16
    llvm.store %r, %q {alignment = 2 : i64} : bf16, !llvm.ptr"""
    text = text_of(body)
    assert text.count("declare bfloat @other(i32, bfloat)") == 1
    text = text.replace("declare bfloat @other(i32, bfloat)", OTHER)
    x, y = np.array([0x7F81], np.uint16), np.zeros(1, np.uint16)
    execute(text, x, y)
    assert y[0] == 0xFF81


def test_names_and_numbers():
    assert HOST.intrinsic("llvm.masked.load.v8bf16.p0") == "llvm.masked.load.v8i16.p0"
    assert HOST.intrinsic("llvm.x86.avx512bf16.dpbf16ps.512") == "llvm.x86.avx512bf16.dpbf16ps.512"
    assert LLVM.intrinsic("llvm.fabs.bf16") == "llvm.fabs.bf16"
    for value in (0.0, -0.0, 1.5, -(2.0**-133), float("inf"), float("-inf"), 1e39, 1 + 2.0**-8, 1 + 3 * 2.0**-8):
        assert int(HOST.literal(value, bf16)) % 65536 == int(LLVM.literal(value, bf16)[3:], 16)
        with np.errstate(over="ignore"):
            assert int(HOST.literal(value, bf16)) % 65536 == np.float32(value).astype(BF16).view(np.uint16)
    assert int(HOST.literal(float("nan"), bf16)) == 0x7FC0
