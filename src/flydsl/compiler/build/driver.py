"""From a traced module to an artifact: the backend's pipeline, device code, host stub.

Each step is timed. The collector is off meanwhile: IR is cyclic and short-lived, and a full collection in the middle
would cost more than the compilation.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.utils.exceptions import VerifyException

from ... import __version__, config
from ...dialects.upstream import gpu
from ...errors import DSLCompileError, FlyDSLError
from ...ir import arith
from ...ir.discard import discard
from ...ir.emitter import ops_in
from ...ir.locations import frames_of
from ...ir.printer import print_ir
from ...llvm import binding
from ...llvm.stub_abi import SIDE_BUFFERS_ATTRIBUTE
from ...llvm.text import host_stub
from ...llvm.text.debug_info import ATTRIBUTE as DEBUG_ATTRIBUTE
from ...llvm.text.shared_memory import SharedLayout, shared_layout
from ...llvm.text.spelling import type_text
from ...llvm.text.type_layout import sequence
from ...lowering.rebuild import location_of
from ...passes.fuse import Step, made_up_for, one_by_one, plan, upper_part
from ...passes.order import check_order, check_whole
from ...passes.pipeline import PassSpec, parse_specs, with_demanded
from ...runtime.device_runtime import mapped_kind
from ..backends._native_files import host_libraries, identity
from ..extern_link import Externs, describe_hooks, link_externs
from . import repro
from .artifact import CompiledArtifact
from .collector import collector_off
from .dumps import Dumper, wanted
from .ir_errors import place, shown_at_its_line, unverified
from .isolation import blamed, where_to_generate
from .llvm_errors import mapped
from .traced_for import say_what_for

if TYPE_CHECKING:
    from ...dialects.upstream.llvm.function import FuncOp as LlvmFuncOp
    from ..backends.base import BaseBackend
    from .custom_passes import PassConfig, PassHooks


def print_module(module: ModuleOp) -> str:
    """The module as text."""
    return print_ir(module)


def print_located(module: ModuleOp) -> str:
    """The module as text, with the lines it was traced from."""
    return print_ir(module, debuginfo=True)


def run_passes(
    module: ModuleOp,
    steps: Sequence[Step],
    times: dict[str, float],
    dumper: Dumper,
    hooks: PassHooks | None = None,
    kept: ModuleOp | None = None,
) -> ModuleOp:
    """Run the steps of a pipeline in order, the passes of the user (`hooks`) around them; a failure names the pass.

    With one to be `kept` nobody holds the others: each that a pass has made another module of is taken apart.
    """
    verify_each = config.debug.enable_verifier
    for first, last, spec in steps:
        start = time.perf_counter()
        if hooks is not None:
            module = hooks.before(first, module)
        before = module
        p = spec.make()
        try:
            module = p.run(module)
            if verify_each:
                module.verify()
        except (FlyDSLError, NotImplementedError) as error:
            place(error, location_of(error))
            error.add_note(f"while running pass '{p.name}'")
            raise
        except VerifyException as error:
            raise unverified(module, f"the IR does not verify after pass '{p.name}'", error) from error
        if kept is not None and before is not module and before is not kept:
            discard(before)
        times[p.name] = times.get(p.name, 0.0) + time.perf_counter() - start
        module = dumper.after(p.name, module)
        if hooks is not None:
            module = hooks.after(last, module)
    return module


def split(module: ModuleOp) -> tuple[gpu.ModuleOp, func.FuncOp | LlvmFuncOp]:
    """The device module and the host function."""
    device = host = None
    for op in module.ops:
        if isinstance(op, gpu.ModuleOp):
            device = op
        elif isinstance(op, func.FuncOp) or (op.name == "llvm.func" and host is None and op.regions[0].blocks):
            host = cast(Any, op)
    assert device is not None and host is not None
    return device, host


_OWN = ("vprintf",)
"""Functions every driver has."""


def calls_externs(device: gpu.ModuleOp) -> bool:
    """Whether a device module declares functions it does not define."""
    return any(
        isinstance(op, func.FuncOp)
        or (op.name == "llvm.func" and not op.regions[0].blocks and cast(Any, op).sym_name.data not in _OWN)
        for op in device.body.block.ops
    )


def compile_module(
    name: str,
    module: ModuleOp,
    kernels: list[str],
    backend: BaseBackend,
    *,
    hints: Mapping[str, Any] | None = None,
    key: str = "",
    known: Mapping[str, Any] | None = None,
    times: dict[str, Any] | None = None,
    externs: Externs | None = None,
    custom: PassConfig | None = None,
) -> CompiledArtifact:
    """Compile a traced module; `kernels` are those it launches, in order of their handles.

    `known` is what the metadata says of the function it was traced from, `times` what was spent before.
    """
    hints = dict(hints or {})
    times = {} if times is None else times
    externs = externs or Externs()
    with collector_off():
        target, options = backend.target.key(), backend.parse_options(hints)
        located = config.debug.dump_ir and backend.tells_lines(module, options)
        dumper = Dumper(name, kernels, key, print_located if located else print_module)
        fragments, _ = backend.external_binary_pipeline_fragments(compile_hints=hints)

        def script(origin: ModuleOp) -> str:
            passes = with_demanded(fragments, origin.attributes)
            overridden = dumper.keep_overrides()
            libraries = externs.libraries
            return repro.script(name, target, hints, custom, libraries, passes, located=located, overridden=overridden)

        say_what_for(module, backend, options, hints)
        traced = dumper.origin(module, script)
        if traced is not module:  # a file stands for it
            say_what_for(traced, backend, options, hints)
        module = traced
        pass_times: dict[str, float] = {}
        specs = specs_of(with_demanded(fragments, module.attributes))
        hooks = _hooks(custom, backend, hints, [spec.name for spec in specs], dumper)
        upper = upper_part(specs)
        places = set[int]() if hooks is None else hooks.places()
        looked_at = wanted()
        # Who looks may keep what was seen, and so may passes and backends that are not ours.
        kept = traced if hooks is None and not looked_at and type(backend).__module__.startswith("flydsl.") else None
        steps = plan(specs[:upper], lambda i: looked_at or i in places)
        if hooks is not None:
            module = hooks.start(module)
        lowered = run_passes(module, steps, pass_times, dumper, hooks, kept)
        if hooks is not None:
            lowered = hooks.end(lowered)
        times["passes"] = pass_times
        start = time.perf_counter()
        device, host = split(lowered)
        facts = _kernel_facts(device, kernels, _check_resources(device, backend))
        writable = made_up_for(specs[upper:], debug_info=DEBUG_ATTRIBUTE in device.attributes)
        if looked_at or not writable or (hooks is not None and hooks.beyond(upper)):
            rest = one_by_one(specs, upper)
            lowered = run_passes(lowered, rest, pass_times, dumper, hooks, kept)
            device, host = split(lowered)
        with shown_at_its_line(backend, device):
            device_ir = backend.device_ir(device)
        times["translate"] = time.perf_counter() - start
        if calls_externs(device):
            start = time.perf_counter()
            device_ir = link_externs(device_ir, externs, backend)
            times["link libs"] = time.perf_counter() - start
        start = time.perf_counter()
        stub_ir = host_stub.host_module(
            host, kernels, binding.host_triple(), binding.data_layout(binding.host_triple())
        )
        times["host stub"] = time.perf_counter() - start
    device_ir = dumper.llvm_ir(device_ir)
    optimized = dumper.optimized_ir()
    with blamed(traced), mapped(device, device_ir, backend):
        if optimized is not None:
            binary = backend.make_device_code(optimized, options=options, compiler=_generate_only)
        elif custom is None:
            binary = backend.make_device_code(device_ir, options=options, **where_to_generate(backend, traced))
        else:
            from .custom_passes import run_flow

            binary = run_flow(
                device_ir, backend, options, custom, kernels=kernels, hints=hints, folder=dumper.work_folder()
            )
    if kept is not None and lowered is not kept:
        discard(lowered)
    dumper.code(
        lambda: binary.optimized_ir, binary.asm, backend.binary_ext, binary.sections.get(backend.binary_ext, b"")
    )
    stages = dict(binary.times)
    times["link"] = stages.pop("link", 0.0)
    times["llvm"] = stages
    hook_names, memory_only = describe_hooks(externs.load_hooks)
    metadata: dict[str, Any] = {
        "key": key,
        "name": name,
        "module": "",
        "qualname": name,
        "signature": [],
        "components": [],
        "reads": [],
        **(known or {}),
        "product_version": __version__,
        "llvmlite_version": binding.llvmlite_version(),
        "llvm_version": ".".join(map(str, binding.llvm_version())),
        "python": platform.python_version(),
        "host": {"triple": binding.host_triple(), "cpu": binding.host_cpu()},
        "backend_hash": identity(backend),
        "backend": backend.name,
        "target": backend.target.key(),
        "chip": binary.chip,
        "binary_ext": backend.binary_ext,
        "runtime_kind": mapped_kind(backend.name) or backend.runtime_kind or backend.name,
        "host_libraries": host_libraries(backend),
        "hints": hints,
        "kernels": _kernels(facts, backend.launched_with(binary.resources, _dynamic_shared(traced))),
        "notes": {**binary.notes, **({} if memory_only is None else {"memory_only": memory_only})},
        "load_hooks": hook_names,
        "times": times,
    }
    dumper.finish(metadata, len(binary.sections.get(backend.binary_ext, b"")))
    sections = {**binary.sections, "host": stub_ir.encode(), "llvm": device_ir.encode()}
    return CompiledArtifact(
        metadata,
        sections,
        lazy={"fly": lambda: print_module(traced), "asm": binary.asm, "llvm_opt": lambda: binary.optimized_ir},
        load_hooks=externs.load_hooks,
    )


def specs_of(fragments: Sequence[str]) -> tuple[PassSpec, ...]:
    """The passes of a backend's pipeline, each of which can follow the one before, up to where code is made."""
    return _specs(tuple(fragments))


@lru_cache(maxsize=64)
def _specs(fragments: tuple[str, ...]) -> tuple[PassSpec, ...]:
    specs = tuple(spec for fragment in fragments for spec in parse_specs(fragment))
    check_order(specs)
    check_whole(specs)
    return specs


def _generate_only(text: str, target: Any, level: int) -> Any:
    """Code of IR whose middle end has run."""
    from ...llvm.codegen import compile_device

    return compile_device(text, target, level, optimized=True)


def _hooks(
    custom: PassConfig | None, backend: BaseBackend, hints: Mapping[str, Any], names: list[str], dumper: Dumper
) -> PassHooks | None:
    """Passes of the user on the module, if there are any."""
    if custom is None:
        return None
    from .custom_passes import PassHooks

    hooks = PassHooks(custom, backend, hints, names, dumper.after)
    return hooks if hooks.active else None


def _check_resources(device: gpu.ModuleOp, backend: BaseBackend) -> dict[str, SharedLayout]:
    """Shared memory of each kernel, refused where the target has less."""
    target = backend.target
    limit = backend.target_caps(target).shared_mem_per_block
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


def _parameters(kernel: gpu.FuncOp) -> list[dict[str, Any]]:
    """Where each parameter of a kernel lies in its argument memory."""
    # What is passed by value (a tensor map of the copy engine) has no text of its own here: it is 128 bytes at 64.
    types = tuple(
        "[2 x <16 x i32>]" if getattr(t, "by_value", False) else type_text(t) for t in kernel.function_type.inputs.data
    )
    return [
        {"offset": at.offset, "size": at.size, "align": at.align, "type": text}
        for text, at in zip(types, sequence(types), strict=True)
    ]


def _kernels(facts: list[dict[str, Any]], resources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is known of each kernel, what the code generator found out included."""
    known = {r["name"]: r for r in resources}
    return [{**known.get(each["name"], {}), **each} for each in facts]


def _dynamic_shared(module: ModuleOp) -> dict[str, int]:
    """Bytes of dynamic shared memory that launches ask for, by kernel, where they are known; the most of several."""
    found: dict[str, int] = {}
    for function in module.body.block.ops:
        if not isinstance(function, func.FuncOp):
            continue
        for op in (each for block in function.body.blocks for each in ops_in(block)):
            shared = op.parts.shared if type(op) is gpu.LaunchFuncOp else None
            if shared is None:
                continue
            size = shared.owner
            if isinstance(size, arith.ConstantOp) and isinstance(size.value, IntegerAttr):
                name = cast("gpu.LaunchFuncOp", op).kernel.string_value().rpartition(".")[2]
                found[name] = max(found.get(name, 0), size.value.value.data)
    return found


def _source(kernel: gpu.FuncOp) -> list[Any] | None:
    """File and line of the launch that a kernel was traced for."""
    frames = frames_of(kernel.location)
    return [frames[-1].filename.data, frames[-1].line.data] if frames else None


def _side_buffers(kernel: gpu.FuncOp) -> dict[str, Any]:
    """What a kernel declares of the memory that its launches add, if it does."""
    declared = kernel.attributes.get(SIDE_BUFFERS_ATTRIBUTE)
    if declared is None:
        return {}
    return {"side_buffers": [json.loads(text.data) for text in cast("ArrayAttr[StringAttr]", declared).data]}


def _kernel_facts(device: gpu.ModuleOp, names: list[str], shared: Mapping[str, SharedLayout]) -> list[dict[str, Any]]:
    """What the module says of each kernel, in the order of their handles."""
    found: list[dict[str, Any]] = []
    functions = {op.sym_name.data: op for op in device.body.block.ops if isinstance(op, gpu.FuncOp)}
    for name in names:
        size = functions[name].known_block_size
        found.append(
            {
                "name": name,
                "block": [int(i) for i in cast(Any, size).get_values()] if size is not None else None,
                "arguments": len(functions[name].function_type.inputs.data),
                "parameters": _parameters(functions[name]),
                "shared_static": shared[name].reserved,
                "source": _source(functions[name]),
                **_side_buffers(functions[name]),
            }
        )
    return found
