"""From a traced module to an artifact: the backend's pipeline, device code, host stub.

Each step is timed. The collector is off meanwhile: IR is cyclic and short-lived, and a full collection in the middle
would cost more than the compilation.
"""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from .. import __version__, config
from ..dialects import gpu
from ..errors import DSLCompileError, FlyDSLError
from ..expr.fastmath import set_default as set_default_fastmath
from ..llvm import binding, host_stub
from ..llvm.shared_memory import SharedLayout, shared_layout
from ..passes.base import Pass
from ..passes.device_module import TARGET_ATTRIBUTE
from ..passes.fly_to_llvm import fuse
from ..passes.pipeline import parse_pipeline
from ..target import GPUTarget
from .artifact import CompiledArtifact
from .collector import collector_off
from .dumps import Dumper, wanted
from .tracing import trace_host

if TYPE_CHECKING:
    from .backends.base import BaseBackend
    from .custom_passes import PassConfig, PassHooks


def print_module(module: ModuleOp) -> str:
    """The module as text."""
    out = io.StringIO()
    Printer(out).print_op(module)
    return out.getvalue() + "\n"


def run_passes(
    module: ModuleOp, passes: list[Pass], times: dict[str, float], dumper: Dumper, hooks: PassHooks | None = None
) -> ModuleOp:
    """Run passes in order, those of the user (`hooks`) around them; a failure names the pass."""
    verify_each = config.debug.enable_verifier
    for index, p in enumerate(passes):
        start = time.perf_counter()
        if hooks is not None:
            module = hooks.before(index, module)
        try:
            module = p.run(module)
            if verify_each:
                module.verify()
        except FlyDSLError as error:
            error.add_note(f"while running pass '{p.name}'")
            raise
        except VerifyException as error:
            raise DSLCompileError(f"the IR does not verify after pass '{p.name}': {error}") from error
        times[p.name] = times.get(p.name, 0.0) + time.perf_counter() - start
        dumper.after(p.name, module)
        if hooks is not None:
            module = hooks.after(index, module)
    return module


def split(module: ModuleOp) -> tuple[gpu.ModuleOp, func.FuncOp]:
    """The device module and the host function."""
    device = host = None
    for op in module.ops:
        if isinstance(op, gpu.ModuleOp):
            device = op
        elif isinstance(op, func.FuncOp):
            host = op
    assert device is not None and host is not None
    return device, host


def compile_traced(
    name: str,
    function: Any,
    arguments: Mapping[str, Any],
    backend: BaseBackend,
    *,
    hints: Mapping[str, Any] | None = None,
    key: str = "",
    components: list[list[str]] | None = None,
    signature: list[list[str]] | None = None,
    fuse_passes: bool = True,
    custom: PassConfig | None = None,
) -> CompiledArtifact:
    """Trace a host function and compile it with everything it launches."""
    hints = dict(hints or {})
    times: dict[str, Any] = {}
    start = time.perf_counter()
    with collector_off():
        with set_default_fastmath(_default_flags(hints)):
            module, kernels = trace_host(name, function, dict(arguments), backend.target)
        try:
            module.verify() if config.debug.enable_verifier else None
        except VerifyException as error:
            raise DSLCompileError(f"the traced IR does not verify: {error}") from error
        times["trace"] = time.perf_counter() - start
        traced = module
        dumper = Dumper(name, kernels, key, print_module)
        dumper.origin(module)
        split(module)[0].attributes[TARGET_ATTRIBUTE] = StringAttr(backend.target.key())
        backend.lower_compile_hints(module, compile_hints=hints)
        options = backend.parse_options(hints)
        fragments, _ = backend.external_binary_pipeline_fragments(compile_hints=hints)
        pass_times: dict[str, float] = {}
        passes = [p for f in fragments for p in parse_pipeline(f)]
        hooks = _hooks(custom, backend, hints, passes, dumper)
        if fuse_passes and not wanted() and hooks is None:
            passes = fuse(passes)
        if hooks is not None:
            module = hooks.start(module)
        lowered = run_passes(module, passes, pass_times, dumper, hooks)
        if hooks is not None:
            lowered = hooks.end(lowered)
        times["passes"] = pass_times
        start = time.perf_counter()
        device, host = split(lowered)
        resources = _check_resources(device, backend.target)
        device_ir = backend.device_ir(device)
        stub_ir = host_stub.host_module(
            host, kernels, binding.host_triple(), binding.data_layout(binding.host_triple())
        )
        times["translate"] = time.perf_counter() - start
    if custom is None:
        binary = backend.make_device_code(device_ir, options=options)
    else:
        from .custom_passes import run_flow

        binary = run_flow(device_ir, backend, options, custom, hints=hints, folder=dumper.work_folder())
    dumper.code(device_ir, lambda: binary.optimized_ir, binary.asm)
    stages = dict(binary.times)
    times["link"] = stages.pop("link", 0.0)
    times["llvm"] = stages
    metadata: dict[str, Any] = {
        "key": key,
        "name": name,
        "module": getattr(function, "__module__", ""),
        "qualname": getattr(function, "__qualname__", name),
        "product_version": __version__,
        "backend": backend.name,
        "target": backend.target.key(),
        "chip": binary.chip,
        "binary_ext": backend.binary_ext,
        "runtime_kind": backend.runtime_kind or backend.name,
        "hints": hints,
        "signature": signature or [],
        "components": components or [],
        "kernels": _kernels(device, kernels, binary.resources, resources),
        "notes": binary.notes,
        "times": times,
    }
    dumper.finish(metadata)
    sections = {**binary.sections, "host": stub_ir.encode(), "llvm": device_ir.encode()}
    return CompiledArtifact(
        metadata,
        sections,
        lazy={
            "fly": lambda: print_module(traced),
            "asm": binary.asm,
            "llvm_opt": lambda: binary.optimized_ir,
        },
    )


def _hooks(
    custom: PassConfig | None, backend: BaseBackend, hints: Mapping[str, Any], passes: list[Pass], dumper: Dumper
) -> PassHooks | None:
    """Passes of the user on the module, if there are any."""
    if custom is None:
        return None
    from .custom_passes import PassHooks

    hooks = PassHooks(custom, backend, hints, [p.name for p in passes], dumper.after)
    return hooks if hooks.active else None


def _default_flags(hints: Mapping[str, Any]) -> Any:
    """Float flags the hints ask for, or None."""
    explicit = hints.get("fastmath")
    if explicit is not None:
        return explicit
    return "fast" if hints.get("fast_fp_math") else None


def _check_resources(device: gpu.ModuleOp, target: GPUTarget) -> dict[str, SharedLayout]:
    """Shared memory of each kernel, refused where the target has less."""
    limit = target.caps.shared_mem_per_block
    found: dict[str, SharedLayout] = {}
    for op in device.body.block.ops:
        if isinstance(op, gpu.FuncOp):
            layout = found[op.sym_name.data] = shared_layout(op, device)
            if limit is not None and layout.static > limit:
                raise DSLCompileError(
                    f"kernel '{op.sym_name.data}' needs {layout.static} bytes of static shared memory; {target.arch} "
                    f"gives a block {limit}. Use fewer stages or smaller tiles, or SharedAllocator(static=False)"
                )
    return found


def _kernels(
    device: gpu.ModuleOp, names: list[str], resources: list[dict[str, Any]], shared: Mapping[str, SharedLayout]
) -> list[dict[str, Any]]:
    """What is known of each kernel, in the order of their handles."""
    known = {r["name"]: r for r in resources}
    found: list[dict[str, Any]] = []
    functions = {op.sym_name.data: op for op in device.body.block.ops if isinstance(op, gpu.FuncOp)}
    for name in names:
        size = functions[name].known_block_size
        found.append(
            {
                **known.get(name, {}),
                "name": name,
                "block": [int(i) for i in cast(Any, size).get_values()] if size is not None else None,
                "arguments": len(functions[name].function_type.inputs.data),
                "shared_static": shared[name].reserved,
            }
        )
    return found
