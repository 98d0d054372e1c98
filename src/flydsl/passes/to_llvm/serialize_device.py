"""A device module of `llvm` as the content of a `#gpu.object`: LLVM IR, assembly, or code."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, i32, i64
from xdsl.ir import Attribute

from ... import config
from ...dialects.upstream import gpu
from ...dialects.upstream.gpu.binary import FORMATS, KernelMetadataAttr, KernelTableAttr, ObjectData
from ...dialects.upstream.nvvm import NvvmTargetAttr
from ...dialects.upstream.rocdl import RocdlTargetAttr
from ...dialects.upstream.target_attr import TargetAttr
from ...errors import DSLCompileError
from ...llvm import codegen
from ...llvm.objects import code_object, link
from ...llvm.text import abi_amdgpu, abi_nvptx
from ...llvm.text.llvm_ops import untranslatable
from ...target import needs


def serialize(module: gpu.ModuleOp, target: Attribute, format_: str) -> ObjectData:
    """Compile a module for a target. AMD's code is a code object, NVIDIA's is PTX, which the driver compiles."""
    assert format_ in FORMATS
    if not isinstance(target, TargetAttr):
        raise DSLCompileError(f"cannot compile for {target}: expected #rocdl.target or #nvvm.target")
    if target.field("link") is not None:
        raise DSLCompileError(f"linking bitcode into a device module is not supported: {target}")
    kernel = next((op for op in module.body.block.ops if isinstance(op, gpu.FuncOp)), None)
    if kernel is not None:
        raise untranslatable(kernel)
    level: int = target.field("O")
    if isinstance(target, RocdlTargetAttr):
        device = codegen.DeviceTarget.amdgpu(target.field("chip"), target.field("features"))
        text = abi_amdgpu.device_module(module, device.data_layout(), int(target.field("abi")))
    elif isinstance(target, NvvmTargetAttr):
        device = codegen.DeviceTarget.nvptx(target.field("chip"), target.field("features"))
        text = abi_nvptx.device_module(module, device.data_layout())
        asked = needs.read(text)
        chip, features = needs.chip_for(device.cpu, asked), needs.features_for(device.features, asked)
        device = codegen.DeviceTarget.nvptx(chip, features)
    else:
        raise DSLCompileError(f"cannot compile for {target}: expected #rocdl.target or #nvvm.target")
    if format_ == "offload":
        return ObjectData(target, text.encode(), format_)
    code = codegen.compile_device(text, device, level)
    properties = DictionaryAttr({"O": IntegerAttr(level, i32)})
    if format_ == "assembly" or isinstance(target, NvvmTargetAttr):
        table = KernelTableAttr(tuple(_row(op, {}) for op in _kernels(module)))
        return ObjectData(target, code.asm.encode(), "assembly", table, properties)
    hsaco, _ = link.link_hsaco(code.object, linker=config.compile.linker)
    known = {kernel.name: kernel for kernel in code_object.read_code_object(hsaco).kernels}
    table = KernelTableAttr(tuple(_row(op, _facts(known.get(op.sym_name.data))) for op in _kernels(module)))
    return ObjectData(target, hsaco, format_, table)


def _kernels(module: gpu.ModuleOp) -> list[Any]:
    found = (op for op in module.body.block.ops if op.name == "llvm.func" and op.regions[0].blocks)
    return [op for op in found if "gpu.kernel" in op.attributes]


def _row(op: Any, metadata: dict[str, Attribute]) -> KernelMetadataAttr:
    return KernelMetadataAttr(
        (op.sym_name.data, op.function_type, op.arg_attrs, DictionaryAttr(metadata) if metadata else None)
    )


def _facts(kernel: code_object.KernelInfo | None) -> dict[str, Attribute]:
    """Resources of a kernel as upstream names them."""
    if kernel is None:
        return {}
    numbers = {
        "agpr_count": kernel.agpr,
        "group_segment_fixed_size": kernel.lds,
        "max_flat_workgroup_size": kernel.max_flat_workgroup_size,
        "private_segment_fixed_size": kernel.scratch,
        "sgpr_count": kernel.sgpr,
        "sgpr_spill_count": kernel.sgpr_spill,
        "vgpr_count": kernel.vgpr,
        "vgpr_spill_count": kernel.vgpr_spill,
        "wavefront_size": kernel.wavefront_size,
    }
    found: dict[str, Attribute] = {name: IntegerAttr(value, i64) for name, value in numbers.items()}
    if kernel.reqd_workgroup_size is not None:
        found["reqd_workgroup_size"] = DenseArrayBase.from_list(i32, list(kernel.reqd_workgroup_size))
    return dict(sorted(found.items()))
