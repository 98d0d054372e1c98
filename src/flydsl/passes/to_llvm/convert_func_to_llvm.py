"""`convert-func-to-llvm`: functions, calls and returns as those of `llvm`; several results travel in a struct."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import func
from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects.upstream import llvm
from ...dialects.upstream.llvm.function import CallOp, FuncOp, FunctionType
from ...ir.builder import i64_list, operands_of
from ...ir.emitter import append
from ...lowering.llvm_types import llvm_type
from ...lowering.rebuild import Handler
from ...lowering.rules.func_rules import CALLS
from ..base import Pass
from .llvm_conversion import LlvmConversion
from .llvm_declare import make_function

C_INTERFACE = "llvm.emit_c_interface"
"""Attribute of a function that C code is to call: a wrapper `_mlir_ciface_NAME` is made."""


def packed(types: Sequence[Attribute]) -> Attribute | None:
    """What a function with these results returns."""
    converted = [llvm_type(t) for t in types]
    if len(converted) <= 1:
        return converted[0] if converted else None
    return llvm.StructType((False, tuple(converted)))


def _function(r: LlvmConversion, op: func.FuncOp) -> None:
    inputs = [llvm_type(t) for t in op.function_type.inputs.data]
    type_ = FunctionType.of(inputs, packed(op.function_type.outputs.data))
    body = r.body_of(op.body)
    properties = {k: v for k, v in op.properties.items() if k in ("sym_visibility", "arg_attrs", "res_attrs")}
    made = make_function(op.sym_name.data, type_, body, dict(op.attributes), properties, op.location)
    append(r.b.block, made)
    if C_INTERFACE in op.attributes and body.blocks.first is not None:
        append(r.b.block, _c_wrapper(made))


def _c_wrapper(target: FuncOp) -> FuncOp:
    """A function C code can call; without memrefs in the signature it just passes everything on."""
    signature = target.function_type.data
    entry = Block(arg_types=signature.inputs)
    results = [] if signature.output is None else [signature.output]
    call = CallOp.create(
        operands=list(entry.args),
        result_types=results,
        properties=CallOp.properties_for(target.sym_name.data, len(entry.args)),
    )
    entry.add_ops([call, xllvm.ReturnOp.create(operands=list(call.results))])
    name = f"_mlir_ciface_{target.sym_name.data}"
    return make_function(
        name, target.function_type, Region(entry), {C_INTERFACE: llvm.UnitAttr()}, None, target.location
    )


def return_values(r: LlvmConversion, values: Sequence[SSAValue]) -> None:
    """End a function."""
    given = r.lls(values)
    if len(given) > 1:
        type_ = llvm.StructType((False, tuple(v.type for v in given)))
        whole = r.make(llvm.UndefOp, (), type_)
        for i, v in enumerate(given):
            whole = r.make(llvm.InsertValueOp, (whole, v), type_, {"position": i64_list((i,))})
        given = [whole]
    r.b.opn(xllvm.ReturnOp, given, ())


def _return(r: LlvmConversion, op: Operation) -> None:
    return_values(r, operands_of(op))


def _call(r: LlvmConversion, op: func.CallOp) -> None:
    if len(op.results) <= 1:
        CALLS[func.CallOp](r, op)
        return
    args = r.lls(operands_of(op))
    result = cast(Attribute, packed([x.type for x in op.results]))
    whole = r.b.opn(CallOp, args, (result,), CallOp.properties_for(op.callee.string_value(), len(args))).results[0]
    for i, old in enumerate(op.results):
        r.vm[old] = r.make(llvm.ExtractValueOp, (whole,), old.type, {"position": i64_list((i,))})


HANDLERS = cast(dict[type[Operation], Handler], {func.FuncOp: _function, func.ReturnOp: _return, func.CallOp: _call})
"""Conversions of `func`."""


class _Conversion(LlvmConversion):
    handlers = HANDLERS


@dataclass(frozen=True)
class ConvertFuncToLlvmPass(Pass):
    """Convert functions, calls and returns to the llvm dialect."""

    name = "convert-func-to-llvm"
    needs = "branches of `llvm` (`convert-cf-to-llvm`)"
    use_bare_ptr_memref_call_conv: bool = False
    index_bitwidth: int = 0

    def __post_init__(self) -> None:
        check_index_width(self.index_bitwidth)

    def run(self, module: ModuleOp) -> ModuleOp:
        return _Conversion.rebuild(module)


def check_index_width(width: int) -> None:
    """Refuse widths of `index` other than 64 bits; 0 is the target's."""
    if width not in (0, 64):
        raise ValueError(f"option 'index-bitwidth' is 0 or 64, got {width}: an index has 64 bits on every target")
