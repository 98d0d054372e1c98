"""`gpu-module-to-binary`: device modules of `llvm` compiled for each of their targets."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, ModuleOp

from ...dialects.upstream import gpu
from ...dialects.upstream.gpu.binary import BinaryOp, ObjectAttr, SelectObjectAttr
from ...errors import DSLCompileError
from ..base import Pass
from .serialize_device import serialize

FORMATS = {
    "offloading": "offload", "llvm": "offload", "assembly": "assembly", "isa": "assembly", "binary": "bin",
    "bin": "bin", "fatbinary": "fatbin", "fatbin": "fatbin",
}  # fmt: skip
"""Values of the option `format` by the kind of object made."""


@dataclass(frozen=True)
class GpuModuleToBinaryPass(Pass):
    """Compile device modules for their targets and keep the objects in gpu.binary."""

    name = "gpu-module-to-binary"
    needs = "device modules of `llvm` with targets (`rocdl-attach-target`, `nvvm-attach-target`)"
    toolkit: str = ""
    l: str = ""  # noqa: E741, the option's name is upstream's
    opts: str = ""
    format: str = "fatbin"
    section: str = ""

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ValueError(f"option 'format' is one of {', '.join(FORMATS)}, got {self.format!r}")
        for option, value in (("l", self.l), ("opts", self.opts), ("section", self.section), ("toolkit", self.toolkit)):
            if value:
                raise ValueError(f"option '{option}' of pass '{self.name}' is not supported; got {value!r}")

    def run(self, module: ModuleOp) -> ModuleOp:
        for op in list(module.ops):
            if isinstance(op, gpu.ModuleOp):
                self._replace(op)
        return module

    def _replace(self, op: gpu.ModuleOp) -> None:
        try:
            if op.targets is None or not op.targets.data:
                raise DSLCompileError("the module has no target attributes")
            objects = [ObjectAttr(serialize(op, target, FORMATS[self.format])) for target in op.targets.data]
        except DSLCompileError as error:
            if getattr(error, "ir_location", None) is None:
                error.ir_location = op.location  # pyright: ignore[reportAttributeAccessIssue]
            raise
        made = BinaryOp.create(
            properties={
                "sym_name": op.sym_name,
                "objects": ArrayAttr(objects),
                "offloadingHandler": op.offloadingHandler or SelectObjectAttr(None),
            },
            location=op.location,
        )
        block = op.parent
        assert block is not None
        block.insert_op_before(made, op)
        op.detach()
        op.erase()
