"""The compiler, `import flydsl.compiler as flyc`, for type checkers.

Written by scripts/type_stubs.py; change the tables of the package and run it again.
"""

from ..errors import DSLCompileError as DSLCompileError, PassError as PassError
from ..target import GPUTarget as GPUTarget
from .backends import (
    BaseBackend as BaseBackend, compile_backend_name as compile_backend_name, get_backend as get_backend,
    register_backend as register_backend,
)
from .build.artifact import CompiledArtifact as CompiledArtifact
from .build.user_passes import (
    IRPass as IRPass, disable_pass as disable_pass, enable_pass as enable_pass, ir_pass as ir_pass,
)
from .call.arguments import JitArgumentRegistry as JitArgumentRegistry, from_c_void_p as from_c_void_p
from .call.prepared import PreparedLaunch as PreparedLaunch
from .call.specs import ScalarSpec as ScalarSpec, TensorSpec as TensorSpec
from .call.tensor_argument import from_dlpack as from_dlpack, from_torch_tensor as from_torch_tensor
from .call.warmup import warmup as warmup
from .compiled_function import CompiledFunction as CompiledFunction, compile as compile
from .evaluation import evaluate as evaluate
from .hints import CompilationContext as CompilationContext
from .jit_function import JitFunction as JitFunction, invalidate_all as invalidate_all, jit as jit
from .kernel_function import KernelFunction as KernelFunction, kernel as kernel
from .listeners import compile_listener as compile_listener, launch_hooks as launch_hooks
from .schedules import explore_schedules as explore_schedules, replay_schedule as replay_schedule
from .ship.aot import export as export, load as load
from .ship.raw_export import export_raw as export_raw
