"""The head of a kernel: which attributes the function of `llvm` has that a `gpu.func` becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute

from ...dialects.upstream import gpu, llvm
from .gpu_rules import GpuTarget

NOALIAS = "fly.noalias"
"""Attribute of a kernel whose caller promises that its pointers lead to different memory."""
PASSTHROUGH = "passthrough"
"""Attributes of the LLVM function by name, `[["key", "value"], ...]`; of a `gpu.func`, then of the `llvm.func`."""
_GLOBAL_SPACE = 1
_HIDDEN = ("sym_name", "gpu.kernel", "workgroup_attributions", PASSTHROUGH)


class FunctionFacts(NamedTuple):
    """What a function's head says."""

    kernel: bool
    attributes: Mapping[str, Attribute]
    properties: Mapping[str, Attribute]
    arguments: list[dict[str, Attribute]]
    """Attributes of each argument."""


def kernel_facts(op: gpu.FuncOp, target: GpuTarget) -> FunctionFacts:
    """The facts of a device function."""
    types = op.function_type.inputs.data
    given = op.arg_attrs.data if op.arg_attrs is not None else [None] * len(types)
    attributes = {k: v for k, v in op.attributes.items() if k not in _HIDDEN and not k.startswith("fly.")}
    arguments: list[dict[str, Attribute]] = []
    for attrs, type_ in zip(given, types, strict=True):
        found = {**({} if attrs is None else attrs.data), **target.argument_attributes(type_)}
        if NOALIAS in op.attributes and _is_global(type_):
            found["llvm.noalias"] = UnitAttr()
        arguments.append(found)
    if op.kernel is not None:
        attributes["gpu.kernel"] = attributes[target.kernel_attribute] = UnitAttr()
        attributes |= target.kernel_attributes(op)
    for name, size in (("known_block_size", op.known_block_size), ("known_grid_size", op.known_grid_size)):
        if size is not None:
            attributes[f"gpu.{name}"] = size
    passed = op.attributes.get(PASSTHROUGH)
    return FunctionFacts(op.kernel is not None, attributes, {} if passed is None else {PASSTHROUGH: passed}, arguments)


def _is_global(type_: Attribute) -> bool:
    return isinstance(type_, llvm.LLVMPointerType) and llvm.address_space(type_) == _GLOBAL_SPACE
