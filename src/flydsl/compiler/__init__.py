"""The compiler, `import flydsl.compiler as flyc`: decorators, `compile`, adapters for host arguments, backends.

Names resolve on first use, so importing this package loads neither xDSL nor LLVM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..errors import DSLCompileError, PassError
    from ..target import GPUTarget
    from .aot import export, load
    from .arguments import JitArgumentRegistry, from_c_void_p, from_dlpack, from_torch_tensor
    from .artifact import CompiledArtifact
    from .backends import BaseBackend, compile_backend_name, get_backend, register_backend
    from .jit_function import CompiledFunction, JitFunction, PreparedLaunch, compile, jit
    from .kernel_function import KernelFunction, kernel
    from .specs import ScalarSpec, TensorSpec
    from .user_passes import IRPass, disable_pass, enable_pass, ir_pass

_WHERE: dict[str, str] = {
    "kernel": ".kernel_function",
    "KernelFunction": ".kernel_function",
    "jit": ".jit_function",
    "JitFunction": ".jit_function",
    "compile": ".jit_function",
    "CompiledFunction": ".jit_function",
    "CompiledArtifact": ".artifact",
    "PreparedLaunch": ".jit_function",
    "TensorSpec": ".specs",
    "ScalarSpec": ".specs",
    "export": ".aot",
    "load": ".aot",
    "CompilationContext": ".hints",
    "from_dlpack": ".arguments",
    "from_torch_tensor": ".arguments",
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
    "disable_pass",
    "enable_pass",
    "export",
    "from_c_void_p",
    "from_dlpack",
    "from_torch_tensor",
    "get_backend",
    "ir_pass",
    "jit",
    "kernel",
    "load",
    "register_backend",
]
