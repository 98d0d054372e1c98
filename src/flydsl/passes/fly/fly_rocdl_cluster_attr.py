"""`fly-rocdl-cluster-attr`: the clusters a kernel is launched in, told to LLVM."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

from ...dialects.upstream.llvm.function import FuncOp
from ..base import Pass

ATTRIBUTE = "rocdl.cluster_dims"


@dataclass(frozen=True)
class FlyRocdlClusterAttrPass(Pass):
    """Pass `rocdl.cluster_dims` of llvm functions through as an attribute LLVM knows."""

    name = "fly-rocdl-cluster-attr"
    needs = "kernels as functions of `llvm` (`convert-gpu-to-rocdl`)"

    def run(self, module: ModuleOp) -> ModuleOp:
        for op in module.walk():
            if isinstance(op, FuncOp):
                dims = op.attributes.get(ATTRIBUTE)
                if isinstance(dims, StringAttr):
                    del op.attributes[ATTRIBUTE]
                    known = op.passthrough.data if op.passthrough is not None else ()
                    pair = ArrayAttr([StringAttr("amdgpu-cluster-dims"), dims])
                    op.properties["passthrough"] = ArrayAttr([*known, pair])
        return module
