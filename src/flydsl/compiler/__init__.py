"""The compiler, `import flydsl.compiler as flyc`: decorators, `compile`, adapters for host arguments, backends.

Names resolve on first use, so importing this package loads neither xDSL nor LLVM.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..errors import DSLCompileError, PassError
    from ..target import GPUTarget
    from .aot import export, load
    from .arguments import JitArgumentRegistry, from_c_void_p, from_dlpack, from_torch_tensor
    from .artifact import CompiledArtifact
    from .backends import BaseBackend, compile_backend_name, get_backend, register_backend
    from .compiled_function import CompiledFunction, compile
    from .evaluation import evaluate
    from .jit_function import JitFunction, invalidate_all, jit
    from .kernel_function import KernelFunction, kernel
    from .listeners import compile_listener, launch_hooks
    from .prepared import PreparedLaunch
    from .raw_export import export_raw
    from .specs import ScalarSpec, TensorSpec
    from .user_passes import IRPass, disable_pass, enable_pass, ir_pass
    from .warmup import warmup

_WHERE: dict[str, str] = {
    "kernel": ".kernel_function",
    "KernelFunction": ".kernel_function",
    "jit": ".jit_function",
    "JitFunction": ".jit_function",
    "compile": ".compiled_function",
    "invalidate_all": ".jit_function",
    "CompiledFunction": ".compiled_function",
    "CompiledArtifact": ".artifact",
    "PreparedLaunch": ".prepared",
    "TensorSpec": ".specs",
    "ScalarSpec": ".specs",
    "compile_listener": ".listeners",
    "launch_hooks": ".listeners",
    "warmup": ".warmup",
    "export": ".aot",
    "export_raw": ".raw_export",
    "load": ".aot",
    "CompilationContext": ".hints",
    "from_dlpack": ".arguments",
    "from_torch_tensor": ".arguments",
    "evaluate": ".evaluation",
    "from_c_void_p": ".arguments",
    "JitArgumentRegistry": ".arguments",
    "BaseBackend": ".backends",
    "compile_backend_name": ".backends",
    "get_backend": ".backends",
    "register_backend": ".backends",
    "GPUTarget": "..target",
    "DSLCompileError": "..errors",
    "PassError": "..errors",
    "ir_pass": ".user_passes",
    "IRPass": ".user_passes",
    "enable_pass": ".user_passes",
    "disable_pass": ".user_passes",
}


def __getattr__(name: str) -> Any:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"flydsl.compiler has no attribute {name!r}")
    value = getattr(import_module(where, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_WHERE)


class _Package(ModuleType):
    """Importing `flydsl.compiler.warmup` must not hide `flyc.warmup`, the function in it; likewise for namesakes."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and _WHERE.get(name) == f".{name}":
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


__all__ = [
    "BaseBackend",
    "CompiledArtifact",
    "CompiledFunction",
    "DSLCompileError",
    "GPUTarget",
    "IRPass",
    "JitArgumentRegistry",
    "JitFunction",
    "KernelFunction",
    "PassError",
    "PreparedLaunch",
    "ScalarSpec",
    "TensorSpec",
    "compile",
    "compile_backend_name",
    "compile_listener",
    "disable_pass",
    "enable_pass",
    "evaluate",
    "export",
    "export_raw",
    "from_c_void_p",
    "from_dlpack",
    "from_torch_tensor",
    "get_backend",
    "invalidate_all",
    "ir_pass",
    "jit",
    "kernel",
    "launch_hooks",
    "load",
    "register_backend",
    "warmup",
]
