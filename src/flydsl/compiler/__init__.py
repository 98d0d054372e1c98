"""The compiler, `import flydsl.compiler as flyc`: decorators, `compile`, adapters for host arguments, backends.

Names resolve on first use from the table below, so importing this package loads neither xDSL nor LLVM; `__init__.pyi`,
which scripts/type_stubs.py makes of it, tells type checkers the same.
"""

from __future__ import annotations

from importlib import import_module

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
    "explore_schedules": ".schedules",
    "replay_schedule": ".schedules",
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


def __getattr__(name: str) -> object:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"flydsl.compiler has no attribute {name!r}")
    from .build.collector import collector_off

    # Hundreds of modules: beside torch, whose objects are all looked at, collections would take as long as the imports.
    with collector_off():
        value = getattr(import_module(where, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_WHERE)
