"""The passes: one per file, the file named after the pass. `PASSES` maps a pass name to where it is defined."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import Pass

PASSES: dict[str, str] = {
    "fly-expand-prints": "fly.fly_expand_prints:FlyExpandPrintsPass",
    "fly-rewrite-func-signature": "fly.fly_rewrite_func_signature:FlyRewriteFuncSignaturePass",
    "fly-canonicalize": "fly.fly_canonicalize:FlyCanonicalizePass",
    "fly-rocdl-expand-ops": "fly.fly_rocdl_expand_ops:FlyRocdlExpandOpsPass",
    "fly-layout-lowering": "fly.fly_layout_lowering:FlyLayoutLoweringPass",
    "fly-int-swizzle-simplify": "fly.fly_int_swizzle_simplify:FlyIntSwizzleSimplifyPass",
    "fly-convert-atom-call-to-ssa-form": "fly.fly_convert_atom_call_to_ssa_form:FlyConvertAtomCallToSsaFormPass",
    "fly-promote-regmem-to-vectorssa": "fly.fly_promote_regmem_to_vectorssa:FlyPromoteRegmemToVectorSsaPass",
    "fly-split-carried-vectors": "fly.fly_split_carried_vectors:FlySplitCarriedVectorsPass",
    "fly-merge-guards": "fly.fly_merge_guards:FlyMergeGuardsPass",
    "fly-to-llvm": "fly.fly_to_llvm:FlyToLlvmPass",
    "convert-fly-to-rocdl": "fly.convert_fly_to_rocdl:ConvertFlyToRocdlPass",
    "convert-fly-to-nvvm": "fly.convert_fly_to_nvvm:ConvertFlyToNvvmPass",
    "fly-nvgpu-insert-fences": "fly.fly_nvgpu_insert_fences:FlyNvgpuInsertFencesPass",
    "convert-fly-to-cpu": "fly.convert_fly_to_cpu:ConvertFlyToCpuPass",
    "canonicalize": "cleanup.canonicalize:CanonicalizePass",
    "cse": "cleanup.cse:CsePass",
    "convert-rocdl-fastmath-ops": "to_llvm.convert_rocdl_fastmath_ops:ConvertRocdlFastmathOpsPass",
    "convert-scf-to-cf": "to_llvm.convert_scf_to_cf:ConvertScfToCfPass",
    "convert-gpu-to-rocdl": "to_llvm.convert_gpu_to_rocdl:ConvertGpuToRocdlPass",
    "convert-gpu-to-nvvm": "to_llvm.convert_gpu_to_nvvm:ConvertGpuToNvvmPass",
    "fly-rocdl-cluster-attr": "fly.fly_rocdl_cluster_attr:FlyRocdlClusterAttrPass",
    "rocdl-attach-target": "to_llvm.rocdl_attach_target:RocdlAttachTargetPass",
    "nvvm-attach-target": "to_llvm.nvvm_attach_target:NvvmAttachTargetPass",
    "convert-cf-to-llvm": "to_llvm.convert_cf_to_llvm:ConvertCfToLlvmPass",
    "gpu-to-llvm": "to_llvm.gpu_to_llvm:GpuToLlvmPass",
    "convert-vector-to-llvm": "to_llvm.convert_vector_to_llvm:ConvertVectorToLlvmPass",
    "convert-arith-to-llvm": "to_llvm.convert_arith_to_llvm:ConvertArithToLlvmPass",
    "convert-math-to-llvm": "to_llvm.convert_math_to_llvm:ConvertMathToLlvmPass",
    "convert-func-to-llvm": "to_llvm.convert_func_to_llvm:ConvertFuncToLlvmPass",
    "reconcile-unrealized-casts": "to_llvm.reconcile_unrealized_casts:ReconcileUnrealizedCastsPass",
    "ensure-debug-info-scope-on-llvm-func": (
        "to_llvm.ensure_debug_info_scope_on_llvm_func:EnsureDebugInfoScopeOnLlvmFuncPass"
    ),
    "gpu-module-to-binary": "to_llvm.gpu_module_to_binary:GpuModuleToBinaryPass",
}
"""Pass name to `module:class` in this package; a module is imported when its pass is first asked for."""


@cache
def pass_class(name: str) -> type[Pass]:
    """The class of a pass."""
    where = PASSES.get(name)
    if where is None:
        from difflib import get_close_matches

        close = get_close_matches(name, PASSES, 1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        raise ValueError(f"unknown pass '{name}'{hint} Known passes: {', '.join(PASSES)}")
    module, cls = where.split(":")
    from ..ir.format_on_use import formats_on_use

    with formats_on_use():
        return getattr(import_module(f"{__name__}.{module}"), cls)
