"""The compiler, `import flydsl.compiler as flyc`: decorators, `compile`, adapters for host arguments, backends.

Names resolve on first use, so importing this package loads neither xDSL nor LLVM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..errors import DSLCompileError, PassError
    from ..target import GPUTarget
    from .backends import BaseBackend, compile_backend_name, get_backend, register_backend
    from .build.artifact import CompiledArtifact
    from .build.user_passes import IRPass, disable_pass, enable_pass, ir_pass
    from .call.arguments import JitArgumentRegistry, from_c_void_p
    from .call.prepared import PreparedLaunch
    from .call.specs import ScalarSpec, TensorSpec
    from .call.tensor_argument import from_dlpack, from_torch_tensor
    from .call.warmup import warmup
    from .compiled_function import CompiledFunction, compile
    from .evaluation import evaluate
    from .jit_function import JitFunction, invalidate_all, jit
    from .kernel_function import KernelFunction, kernel
    from .listeners import compile_listener, launch_hooks
    from .ship.aot import export, load
    from .ship.raw_export import export_raw

_WHERE: dict[str, str] = {
    "kernel": ".kernel_function",
    "KernelFunction": ".kernel_function",
    "jit": ".jit_function",
    "JitFunction": ".jit_function",
    "compile": ".compiled_function",
    "invalidate_all": ".jit_function",
    "CompiledFunction": ".compiled_function",
    "CompiledArtifact": ".build.artifact",
    "PreparedLaunch": ".call.prepared",
    "TensorSpec": ".call.specs",
    "ScalarSpec": ".call.specs",
    "compile_listener": ".listeners",
    "launch_hooks": ".listeners",
    "warmup": ".call.warmup",
    "export": ".ship.aot",
    "export_raw": ".ship.raw_export",
    "load": ".ship.aot",
    "CompilationContext": ".hints",
    "from_dlpack": ".call.tensor_argument",
    "from_torch_tensor": ".call.tensor_argument",
    "evaluate": ".evaluation",
    "from_c_void_p": ".call.arguments",
    "JitArgumentRegistry": ".call.arguments",
    "BaseBackend": ".backends",
    "compile_backend_name": ".backends",
    "get_backend": ".backends",
    "register_backend": ".backends",
    "GPUTarget": "..target",
    "DSLCompileError": "..errors",
    "PassError": "..errors",
    "ir_pass": ".build.user_passes",
    "IRPass": ".build.user_passes",
    "enable_pass": ".build.user_passes",
    "disable_pass": ".build.user_passes",
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
