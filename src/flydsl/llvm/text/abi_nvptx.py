"""Device modules for NVIDIA GPUs: what a kernel's head says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, StringAttr
from xdsl.ir import Attribute

from ...dialects.upstream import gpu
from ...lowering.rules.nvvm_rules import KERNEL, LATE, RULES, TARGET
from ...target import needs
from .debug_info import Emission
from .device_module import DeviceText
from .function_text import Abi, FunctionText
from .functions import passed_through
from .structured import table

TRIPLE = "nvptx64-nvidia-cuda"


class NvptxAbi(Abi):
    """Functions for NVIDIA GPUs."""

    rules = table(RULES)
    late = LATE
    relaxes_updates = True


class NvptxText(DeviceText):
    """A module for NVIDIA GPUs."""

    triple = TRIPLE
    convention = "ptx_kernel"
    block_attribute = "nvvm.reqntid"
    target = TARGET
    abi = NvptxAbi
    # With tables of LLVM's own, PTX would be marked as unoptimised code for debuggers.
    emission: ClassVar[Emission] = "DebugDirectivesOnly"

    def tail(self, attributes: Mapping[str, Attribute], properties: Mapping[str, Attribute], f: FunctionText) -> str:
        """Attributes of the kernel that LLVM reads itself, such as `nvvm.minctasm` or `nvvm.cluster_dim`."""
        words = ["nounwind", "mustprogress"]
        for name in sorted(attributes):
            value: Any = attributes[name]
            if not name.startswith("nvvm.") or name == KERNEL:
                continue
            if isinstance(value, DenseArrayBase):
                text = ",".join(str(int(i)) for i in value.get_values())
            else:
                text = value.data if isinstance(value, StringAttr) else str(value.value.data)
            words.append(f'"{name}"="{text}"')
        return " ".join([*words, *passed_through(properties)])


def device_module(module: gpu.ModuleOp, data_layout: str) -> str:
    """LLVM IR text of a device module, with what its code asks of the assembler."""
    text = NvptxText().write(module, data_layout)
    words = module.attributes.get(needs.ATTRIBUTE)
    return text if words is None else declared(text, [word.data for word in cast("ArrayAttr[StringAttr]", words).data])


def declared(llvm_ir: str, words: Iterable[str]) -> str:
    """LLVM IR that declares needs."""
    missing = set(words) - needs.read(llvm_ir)
    return "\n".join([llvm_ir.rstrip("\n"), *needs.lines(missing), ""]) if missing else llvm_ir
