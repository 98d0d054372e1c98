"""One xDSL context with every dialect the compiler reads and prints."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from xdsl.context import Context
from xdsl.ir import Dialect

DIALECTS: dict[str, str] = {
    "builtin": "xdsl.dialects.builtin:Builtin",
    "func": "xdsl.dialects.func:Func",
    "arith": "flydsl.dialects.upstream.arith:Arith",
    "scf": "flydsl.dialects.upstream.scf:Scf",
    "cf": "xdsl.dialects.cf:Cf",
    "math": "flydsl.dialects.upstream.math:Math",
    "vector": "flydsl.dialects.upstream.vector:Vector",
    "ub": "xdsl.dialects.ub:UB",
    "memref": "flydsl.dialects.upstream.memref:MemRef",
    "gpu": "flydsl.dialects.upstream.gpu.dialect:Gpu",
    "llvm": "flydsl.dialects.upstream.llvm.dialect:LLVM",
    "dlti": "flydsl.dialects.upstream.dlti:Dlti",
    "rocdl": "flydsl.dialects.upstream.rocdl:Rocdl",
    "nvvm": "flydsl.dialects.upstream.nvvm:Nvvm",
    "fly": "flydsl.dialects.fly.dialect:Fly",
    "fly_rocdl": "flydsl.dialects.fly_rocdl.ops:FlyRocdl",
    "fly_nvgpu": "flydsl.dialects.fly_nvgpu.dialect:FlyNvgpu",
    "fly_cpu": "flydsl.dialects.fly_cpu:FlyCpu",
}
"""Dialect name to `module:attribute`; a module is imported when the first op or type of its dialect is met."""


def _factory(where: str) -> Callable[[], Dialect]:
    module, name = where.split(":")
    return lambda: getattr(import_module(module), name)


def make_context(*, allow_unregistered: bool = False) -> Context:
    """A context that loads dialects on demand."""
    context = Context(allow_unregistered=allow_unregistered)
    for name, where in DIALECTS.items():
        context.register_dialect(name, _factory(where))
    return context
