"""Device modules for AMD GPUs: what a kernel's head says, and the module's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Attribute

from ...dialects.upstream import gpu
from ...lowering.rules.rocdl_rules import IMPLICIT, RULES, TARGET
from .device_module import DeviceText
from .function_text import Abi, FunctionText
from .functions import passed_through
from .module_text import ModuleText
from .structured import table

TRIPLE = "amdgcn-amd-amdhsa"
CODE_OBJECT_VERSION = 600
_UNUSED = (
    "amdgpu-no-completion-action",
    "amdgpu-no-default-queue",
    "amdgpu-no-dispatch-id",
    "amdgpu-no-dispatch-ptr",
    "amdgpu-no-heap-ptr",
    "amdgpu-no-hostcall-ptr",
    "amdgpu-no-lds-kernel-id",
    "amdgpu-no-multigrid-sync-arg",
    "amdgpu-no-queue-ptr",
)
"""Implicit arguments none of our kernels reads: without these attributes the ABI would pass them."""


_FIRST_SIZE = 8200
"""Number of the first node with the extents of a block."""


class AmdgpuAbi(Abi):
    """Functions for AMD GPUs."""

    rules = table(RULES)
    own_memory = ", !amdgpu.no.fine.grained.memory !8001, !amdgpu.no.remote.memory !8001"


class AmdgpuText(DeviceText):
    """A module for AMD GPUs."""

    triple = TRIPLE
    convention = "protected amdgpu_kernel"
    block_attribute = "rocdl.reqd_work_group_size"
    target = TARGET
    abi = AmdgpuAbi

    def __init__(self, version: int = CODE_OBJECT_VERSION):
        self._version = version
        self._groups: list[str] = []

    def tail(self, attributes: Mapping[str, Attribute], properties: Mapping[str, Attribute], f: FunctionText) -> str:
        words = ["nounwind", *(f'"{name}"' for name in _UNUSED)]
        threads = "1,1024"
        if f.block_size is not None:
            count = f.block_size[0] * f.block_size[1] * f.block_size[2]
            threads = f"{count},{count}"
        words.append(f'"amdgpu-flat-work-group-size"="{threads}"')
        if IMPLICIT not in f.notes:
            words.append('"amdgpu-no-implicitarg-ptr"')
        words.append('"uniform-work-group-size"="true"')
        waves = attributes.get("rocdl.waves_per_eu")
        if isinstance(waves, IntegerAttr):
            words.append(f'"amdgpu-waves-per-eu"="{cast(Any, waves).value.data}"')
        words += passed_through(properties)
        clusters = attributes.get("rocdl.cluster_dims")
        if isinstance(clusters, StringAttr):
            words.append(f'"amdgpu-cluster-dims"="{clusters.data}"')
        number = len(self._groups)
        self._groups.append(f"attributes #{number} = {{ {' '.join(words)} }}")
        if f.block_size is None:
            return f"#{number}"
        # With the extents, not their product alone, LLVM knows a lane by the number of its thread.
        node = f"!{_FIRST_SIZE + number}"
        f.module.metadata(f"{node} = !{{{', '.join(f'i32 {n}' for n in f.block_size)}}}")
        return f"#{number} !reqd_work_group_size {node}"

    def finish(self, text: ModuleText) -> None:
        text.footer += [
            *self._groups,
            "!llvm.module.flags = !{!0}",
            f'!0 = !{{i32 1, !"amdhsa_code_object_version", i32 {self._version}}}',
        ]


def device_module(module: gpu.ModuleOp, data_layout: str, version: int = CODE_OBJECT_VERSION) -> str:
    """LLVM IR text of a device module."""
    return AmdgpuText(version).write(module, data_layout)
