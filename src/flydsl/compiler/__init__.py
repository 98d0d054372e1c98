"""The compiler, `import flydsl.compiler as flyc`: decorators, `compile`, adapters for host arguments, backends.

Names resolve on first use from the table below, so importing this package loads neither xDSL nor LLVM; `__init__.pyi`,
which scripts/type_stubs.py makes of it, tells type checkers the same.
"""

from __future__ import annotations

from importlib import import_module

_MODULES: dict[str, str] = {
    ".kernel_function": "kernel KernelFunction",
    ".jit_function": "jit JitFunction invalidate_all",
    ".compiled_function": "compile CompiledFunction",
    ".build.artifact": "CompiledArtifact",
    ".call.prepared": "PreparedLaunch",
    ".call.specs": "TensorSpec ScalarSpec",
    ".listeners": "compile_listener launch_hooks",
    ".call.warmup": "warmup",
    ".ship.aot": "export load",
    ".ship.raw_export": "export_raw",
    ".hints": "CompilationContext",
    ".call.tensor_argument": "from_dlpack from_torch_tensor",
    ".evaluation": "evaluate",
    ".schedules": "explore_schedules replay_schedule",
    ".call.arguments": "from_c_void_p JitArgumentRegistry",
    ".backends": "BaseBackend compile_backend_name get_backend register_backend",
    "..target": "GPUTarget",
    "..errors": "DSLCompileError PassError",
    ".build.user_passes": "ir_pass IRPass enable_pass disable_pass",
}
_WHERE: dict[str, str] = {name: module for module, names in _MODULES.items() for name in names.split()}


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
