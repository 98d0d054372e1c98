"""Every instruction that a kernel can name is emulated on the cpu stack, or refused there by its name and line."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest
from llvmlite import binding
from xdsl.ir import Block
from xdsl.parser import Parser

from flydsl._mlir.intrinsics import intrinsic_of
from flydsl._mlir.signature import signatures
from flydsl.cpu.emulation.conversion_rules import scaled
from flydsl.cpu.emulation.instruction_rules import AMD, rule_of
from flydsl.cpu.emulation.matrix_rules import matrix_rule
from flydsl.cpu.emulation.nvidia_rules import RULES as NVIDIA_RULES
from flydsl.dialects.upstream.nvvm import NVVM_OPS
from flydsl.dialects.upstream.rocdl import ROCDL_OPS
from flydsl.errors import DSLCompileError
from flydsl.ir.builder import Builder
from flydsl.ir.parser import LocatedParser
from flydsl.ir.registry import make_context
from flydsl.llvm.text import instructions
from flydsl.lowering.rocdl_instructions import spelled
from flydsl.passes.fly.convert_fly_to_cpu import ConvertFlyToCpuPass

from .signatures import NOT_IN_LLVM, NVIDIA, ROWS, parts

NAMES = sorted({s.op.removeprefix("rocdl.") for s in signatures("rocdl").values()})
REFUSED = re.compile(
    r"smfmac\..*|swmmac\..*|cvt\.scale\.pk.*|ds\.load\.tr.*|global\.load\.tr.*|ds\.atomic\..*|exp|"
    r"s\.barrier\.(init|join|leave|signal\.var)|s\.get\..*|s\.wakeup\.barrier|wmma\.bf16f32.*"
)
"""Families that no rule describes."""
TYPE = re.compile(r"(v\d+)?(i|f|bf)\d+|p\d+")


def mlir_type(text: str) -> str:
    if text.startswith("{"):
        return f"!llvm.struct<({text.strip('{}').replace(',', ', ')})>"
    if text.startswith("p"):
        return f"!llvm.ptr<{text[1:]}>" if text != "p0" else "!llvm.ptr"
    vector = re.fullmatch(r"v(\d+)(\w+)", text)
    return f"vector<{vector[1]}x{vector[2]}>" if vector else text


def llvm_type(text: str) -> str:
    if text.startswith("{"):
        return f"{{ {text.strip('{}').replace(',', ', ')} }}"
    vector = re.fullmatch(r"v(\d+)(\w+)", text)
    if vector:
        return f"<{vector[1]} x {llvm_type(vector[2])}>"
    if text.startswith("p"):
        return f"ptr addrspace({text[1:]})" if text != "p0" else "ptr"
    return {"f32": "float", "f16": "half", "bf16": "bfloat", "f64": "double"}.get(text, text)


def called(name: str, row: str, arch: str) -> str:
    """A module with a kernel that calls an intrinsic."""
    result, arguments = parts(row)
    types = [mlir_type(t) for t, _ in arguments]
    free = [f"%a{i}: {t}" for i, (t, (_, fixed)) in enumerate(zip(types, arguments, strict=True)) if fixed is None]
    constants = [
        f"%a{i} = arith.constant {('true' if n else 'false') if t == 'i1' else f'{n} : {t}'}"
        for i, (t, n) in enumerate(arguments)
        if n is not None
    ]
    values = ", ".join(f"%a{i}" for i in range(len(types)))
    made = "%r = " if result else ""
    returned = mlir_type(result) if result else "()"
    return f"""
module {{ gpu.module @m attributes {{fly.target = "cpu:{arch}:w{64 if arch.startswith("gfx9") else 32}"}} {{
gpu.func @k({", ".join(free)}) kernel {{
  {" ".join(constants)}
  {made}"llvm.call_intrinsic"({values}) <{{intrin = "{name}", op_bundle_sizes = array<i32>,
    operandSegmentSizes = array<i32: {len(types)}, 0>}}> : ({", ".join(types)}) -> {returned} loc("k.py":7:1)
  gpu.return
}} }} }}"""


def converted(text: str) -> str:
    return str(ConvertFlyToCpuPass().run(LocatedParser(make_context(), text, "k.mlir").parse_module()))


def stem(name: str) -> str:
    """A name without the types at its end."""
    words = name.split(".")
    while TYPE.fullmatch(words[-1]) and ".".join(words) not in {**AMD, **NVIDIA_RULES} and not scaled(".".join(words)):
        words.pop()
    return ".".join(words)


def test_every_rule_has_a_row() -> None:
    """So that none is left out below."""
    known = {stem(name) for name in ROWS}
    blocks = {f"{what}.dim.{d}" for what in ("workgroup", "grid") for d in "xyz"}
    others = {"barrier", "cvt.pk.bf16.f32", "s.wait.loadcnt.dscnt", "s.wait.storecnt.dscnt"}
    assert set(AMD) - known == blocks | others


@pytest.mark.parametrize("group", sorted({name.split(".")[0] for name in ROWS}))
def test_rules_take_the_types_of_llvm(group: str) -> None:
    """LLVM agrees with the table of types, and the conversion leaves nothing of the intrinsic."""
    for name, row in ROWS.items():
        if name.split(".")[0] != group:
            continue
        full = f"llvm.amdgcn.{name}"
        check_with_llvm(full, row)
        arch = "gfx942" if "fp8" not in name else "gfx950"
        assert "amdgcn" not in converted(called(full, row, arch)), name


@pytest.mark.parametrize("name", NVIDIA)
def test_nvidias_rules_take_the_types_of_llvm(name: str) -> None:
    full = f"llvm.nvvm.{name}"
    check_with_llvm(full, NVIDIA[name])
    assert "nvvm" not in converted(called(full, NVIDIA[name], "sm_90a"))


def check_with_llvm(full: str, row: str) -> None:
    result, arguments = parts(row)
    if NOT_IN_LLVM.fullmatch(full.removeprefix("llvm.amdgcn.")):
        return
    given = ", ".join(
        f"{llvm_type(t)} {f'%a{i}' if n is None else n if t != 'i1' else str(bool(n)).lower()}"
        for i, (t, n) in enumerate(arguments)
    )
    declared = ", ".join(llvm_type(t) for t, _ in arguments)
    params = ", ".join(f"{llvm_type(t)} %a{i}" for i, (t, n) in enumerate(arguments) if n is None)
    out = llvm_type(result) if result else "void"
    text = (
        f"declare {out} @{full}({declared})\n"
        f"define void @f({params}) {{\n  {'%r = ' if result else ''}call {out} @{full}({given})\n  ret void\n}}\n"
    )
    module = binding.parse_assembly(text)
    module.verify()
    # LLVM renames intrinsics of the old and forgets those it does not know.
    assert f"@{full}(" in str(module), full


@pytest.mark.parametrize("name", [n for n in NAMES if rule_of(intrinsic_of(f"rocdl.{n}") or "") is None])
def test_what_has_no_rule_is_refused(name: str) -> None:
    full = intrinsic_of(f"rocdl.{name}")
    assert full is not None
    with pytest.raises(DSLCompileError, match=re.escape(f"does not emulate {full}")) as caught:
        converted(called(full, "i32 <- i32", "gfx950"))
    assert "k.py" in str(getattr(caught.value, "ir_location", ""))


def test_how_many_are_refused() -> None:
    """A rule that is lost is noticed: these families are all."""
    left = {n for n in NAMES if rule_of(intrinsic_of(f"rocdl.{n}") or "") is None}
    assert {n for n in left if not REFUSED.fullmatch(n)} == set()


@pytest.mark.parametrize("name", ["readfirst", "s.barrier.init", "raw.ptr.buffer.load.format.f32",
                                  "image.load.2d", "log.other.f32", "cvt.scalef32.pk.f32.fp9"])  # fmt: skip
def test_names_that_only_begin_like_a_known_one(name: str) -> None:
    assert rule_of(f"llvm.amdgcn.{name}") is None


def test_ops_of_the_dialects_have_rules() -> None:
    """Those that have none are few, and known."""

    def has_rule(name: str) -> bool:
        return rule_of(f"llvm.amdgcn.{name}") is not None or matrix_rule(name) is not None

    missing = {name for name in ROCDL_OPS if not has_rule(name.replace("ds_", "ds."))}
    assert {name for name in missing if not REFUSED.fullmatch(name)} == set()
    assert {n for n in NVVM_OPS if rule_of(f"llvm.nvvm.{n}") is None} <= {
        "shfl.sync", "vote.sync", "cluster.arrive", "cluster.wait",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(n for n in ROWS if n in ROCDL_OPS and not n.startswith("tensor.")))
def test_ops_call_the_intrinsic_that_they_stand_for(name: str) -> None:
    """An op made of the arguments of a call gives that call again; those of tensors have a group more than LLVM's."""
    result, arguments = parts(ROWS[name])
    types = [Parser(make_context(), mlir_type(t)).parse_type() for t, _ in arguments]
    block = Block(arg_types=types)
    builder = Builder(block)
    values = [
        block.args[i] if n is None else builder.const(n, t)
        for i, (t, (_, n)) in enumerate(zip(types, arguments, strict=True))
    ]
    out = Parser(make_context(), mlir_type(result)).parse_type() if result else None
    made = spelled(builder, f"llvm.amdgcn.{name}", out, values)
    assert made is not None and made.name == f"rocdl.{name}"
    names = {v: f"%a{i}" if n is None else str(n) for i, (v, (_, n)) in enumerate(zip(values, arguments, strict=True))}
    again = instructions._arguments(cast(Any, SimpleNamespace(names=names)), made)  # pyright: ignore[reportPrivateUsage]

    def number(type_text: str, n: int) -> str:
        return str(n) if type_text != "i1" else "true" if n else "false"

    wanted = [(llvm_type(t), n) for t, n in arguments]
    assert again == [(t, f"%a{i}" if n is None else number(t, n)) for i, (t, n) in enumerate(wanted)]
