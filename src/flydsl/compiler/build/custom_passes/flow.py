"""From LLVM IR to device code with the user's passes in between."""

from __future__ import annotations

import inspect
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from flydsl import config as env
from flydsl.compiler.build.custom_passes.config import PassConfig
from flydsl.compiler.build.custom_passes.python import LLVMModule, run_text_pass, text_diff
from flydsl.compiler.build.user_passes import Activation, PassContext
from flydsl.compiler.extern_link import Externs, link_externs
from flydsl.errors import (
    CodegenPassError,
    DSLCompileError,
    ExternalLLVMError,
    NotSupportedError,
    PassFallbackWarning,
    PassPipelineError,
    ToolNotFoundError,
)
from flydsl.llvm import binding, codegen, external, isolated, mir, pass_pipeline, tools
from flydsl.llvm.bitcode import undefined
from flydsl.llvm.codegen import DeviceCode, DeviceTarget
from flydsl.llvm.external import Emit

if TYPE_CHECKING:
    from flydsl.compiler.backends.base import BaseBackend, DeviceBinary, Options
    from flydsl.dialects.upstream import gpu


def run_flow(
    llvm_ir: str,
    backend: BaseBackend,
    options: Options,
    config: PassConfig,
    *,
    kernels: Sequence[str] | None = None,
    hints: Mapping[str, object] | None = None,
    folder: Path | None = None,
) -> DeviceBinary:
    """Device code of one module with the user's passes, which must keep its kernels; None: whatever is visible in it.

    Working files go to `folder` and stay there, if given.
    """
    _check_backend(backend)
    try:
        with _working_folder(folder) as place:
            flow = _Flow(kernels, backend, config, hints, place, llvm_flags(options))
            binary = backend.make_device_code(llvm_ir, options=options, compiler=flow.compile)
            flow.check_binary(binary)
            binary.notes.update(flow.notes)
            return binary
    except ExternalLLVMError as error:
        if env.compile.llvm_fallback != "warn":
            raise
        reason = str(error).splitlines()[0]
        env.warn(f"compiled without the requested passes: {reason}", PassFallbackWarning)
        binary = backend.make_device_code(llvm_ir, options=options)
        binary.notes["fallback"] = reason
        return binary


def llvm_flags(options: Options) -> list[str]:
    """The hint `llvm_options` as flags of a program."""
    shown = {True: "true", False: "false"}
    return [f"--{name}={shown[value] if isinstance(value, bool) else value}" for name, value in options.llvm_options]


def _check_backend(backend: BaseBackend) -> None:
    if "compiler" not in inspect.signature(backend.make_device_code).parameters:
        raise NotSupportedError(
            backend.name, "custom passes", f"{type(backend).__name__}.make_device_code takes no argument 'compiler'"
        )


@contextmanager
def _working_folder(folder: Path | None) -> Generator[Path]:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    place = Path(tempfile.mkdtemp(prefix="flydsl-passes-"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def kernel_names(device: gpu.ModuleOp) -> list[str]:
    """The kernels of a device module, before or after they are lowered."""
    marked = (op for op in device.body.block.ops if "gpu.kernel" in op.attributes)
    return [cast("gpu.FuncOp", op).sym_name.data for op in marked]


def visible_functions(module: binding.ModuleRef) -> dict[str, tuple[str, ...]]:
    """Functions that whoever loads the code can ask for, with the types of their arguments."""
    functions = binding.defined_functions(module)
    return {name: functions[name][1] for name in sorted(functions) if functions[name][0] not in ("internal", "private")}


def check_kernels(
    before: Mapping[str, tuple[str, ...]], after: Mapping[str, tuple[str, ...]], others: Collection[str] = ()
) -> None:
    """Passes may do anything but this: lose a kernel, or change what it takes. `others` were visible before, too."""
    changed = [f"kernel {name} is gone" for name in before if name not in after]
    for name, types in before.items():
        if name in after and after[name] != types:
            changed.append(f"the arguments of kernel {name} were ({', '.join(types)}), now ({', '.join(after[name])})")
    if changed:
        added = [name for name in after if name not in before and name not in others]
        hint = f" (new: {', '.join(added)})" if added else ""
        raise PassPipelineError(f"the passes changed the kernels of the module: {'; '.join(changed)}{hint}")


class _Flow:
    """One compilation. `compile` has the signature of `codegen.compile_device`."""

    def __init__(
        self,
        names: Sequence[str] | None,
        backend: BaseBackend,
        config: PassConfig,
        hints: Mapping[str, Any] | None,
        folder: Path,
        flags: Sequence[str] = (),
    ):
        self.isolated = env.compile.isolate != "never"
        """Whether LLVM runs in a worker process: the passes may have left what it gives up on."""
        self.flags = (*flags, "-print-after-all") if env.debug.print_after_all else tuple(flags)
        """Options of LLVM for every program."""
        self.backend = backend
        self.config = config
        self.hints = dict(hints or {})
        self.folder = folder
        self.notes: dict[str, str] = {}
        self.times: dict[str, float] = {}
        self.names = names
        self.visible: dict[str, tuple[str, ...]] = {}
        """Functions of the module as it came."""
        self.kernels: dict[str, tuple[str, ...]] = {}
        """Those of them that must stay: the kernels; on the cpu, where one becomes several functions, all."""

    @contextmanager
    def _timed(self, name: str) -> Generator[None]:
        start = time.perf_counter()
        yield
        self.times[name] = self.times.get(name, 0.0) + time.perf_counter() - start

    def _context(self, stage: str) -> PassContext:
        return PassContext(self.backend.target, self.backend.name, stage, self.hints)

    def compile(self, ir_text: str, target: DeviceTarget, level: int) -> DeviceCode:
        codegen.check_level(level)
        with self._timed("parse"):
            module = codegen.load_module(ir_text, target)
            text = str(module)
            self.visible = visible_functions(module)
            names = self.visible if self.names is None or not target.is_gpu else self.names
            self.kernels = {name: types for name, types in self.visible.items() if name in names}
        # LLVM makes other code of a module that it has written and read again: what no pass changed stays as it came.
        before, _ = self._linked(self._llvm_passes("llvm-pre-opt", text, target), target)
        before = ir_text if before == text else before
        if self._own_pipeline or self.config.at("llvm-post-opt", self.backend.name):
            with self._timed("optimize"):
                module = self._middle_end(before, target, level)
                left, more = self._linked(str(module), target)
                if more:  # What a plugin calls was not there to be optimised.
                    module = codegen.load_module(left, target)
                    codegen.optimize_for(module, target, level)
                    left = str(module)
            text, _ = self._linked(self._llvm_passes("llvm-post-opt", left, target), target)
            optimized = self._own_pipeline or more or text != left
        else:
            optimized = False
        text = text if optimized else before
        check_kernels(self.kernels, visible_functions(codegen.load_module(text, target)), self.visible)
        with self._timed("emit"):
            return self._assembly_passes(self._generate(text, target, level, optimized=optimized), target)

    @property
    def _own_pipeline(self) -> bool:
        """Whether other passes than LLVM's default ones, or another LLVM, optimise the module."""
        return self.config.pipeline is not None or self.config.external

    def _linked(self, text: str, target: DeviceTarget) -> tuple[str, bool]:
        """A device module with the libraries that define what passes made it call, and whether there were any."""
        if not target.is_gpu:
            return text, False
        missing = undefined(binding.parse(text))
        if not missing:
            return text, False
        with self._timed("link libs"):
            return link_externs(text, Externs(), self.backend), True

    # -- boxes 3 to 5

    def _llvm_passes(self, stage: str, text: str, target: DeviceTarget) -> str:
        for each in self.config.at(stage, self.backend.name):
            before = text
            text = run_text_pass(each, LLVMModule(text), self._context(stage))
            try:
                codegen.load_module(text, target)
            except DSLCompileError as error:
                raise DSLCompileError(
                    f"LLVM IR is broken after Python pass '{each}' at stage {stage}: {error.message}\n"
                    + text_diff(before, text, each.what.name)
                ) from error
        return text

    def _middle_end(self, text: str, target: DeviceTarget, level: int) -> binding.ModuleRef:
        pipeline = self.config.pipeline
        if pipeline is None and self.config.external:
            pipeline = f"default<O{level}>"
        if pipeline is None:
            if self.isolated:
                return codegen.load_module(isolated.optimize(text, target, level), target)
            module = codegen.load_module(text, target)
            codegen.optimize_for(module, target, level)
            return module
        if not self.config.needs_opt:
            if self.isolated:
                module = codegen.load_module(isolated.run_pipeline(text, target, level, pipeline), target)
            else:
                module = codegen.load_module(text, target)
                pass_pipeline.run(module, target.machine(level), pass_pipeline.parse(pipeline))
            self.notes["middle_end"] = "in process"
        else:
            result = self._opt(text, pipeline, target)
            try:
                module = codegen.load_module(result, target)
            except DSLCompileError as error:
                raise PassPipelineError(f"the pipeline '{pipeline}' left a broken module: {error.message}") from error
        try:
            binding.verify_module(module)
        except DSLCompileError as error:
            raise PassPipelineError(f"the pipeline '{pipeline}' left a broken module: {error.message}") from error
        return module

    def _opt(self, text: str, pipeline: str, target: DeviceTarget) -> str:
        plugins = [plugin.path for plugin in self.config.plugins]
        external.check_plugins(plugins)
        try:
            tool = tools.find_tool("opt")
        except ToolNotFoundError as error:
            missing = self.config.only_in_opt
            why = "plugins were given" if plugins else "an external LLVM was asked for"
            why = f"{', '.join(missing)} cannot run in process" if missing and not plugins else why
            raise ToolNotFoundError(f"the pipeline '{pipeline}' needs opt, because {why}: {error}") from None
        self.notes["middle_end"] = f"{tool.path} ({tool.version_text})"
        return external.run_opt(text, pipeline, plugins, target, self.folder, self.flags)

    # -- boxes 6 and 7

    def _in_process(self, text: str, target: DeviceTarget, level: int, *, optimized: bool) -> DeviceCode:
        generate = isolated.compile_device if self.isolated else codegen.compile_device
        code = generate(text, target, level, optimized=optimized)
        code.times.update(self.times)
        return code

    def _generate(self, text: str, target: DeviceTarget, level: int, *, optimized: bool) -> DeviceCode:
        """Code of a module whose middle end has run, or runs in front of this."""
        mir_passes = self.config.mir_passes(self.backend.name)
        if not self.config.codegen_passes and not mir_passes and not self.config.external:
            return self._in_process(text, target, level, optimized=optimized)
        if self.config.codegen_passes and mir_passes:
            raise NotImplementedError(
                "machine passes of plugins (llvm_codegen_passes) and Python passes on MIR in one compilation are not "
                "supported yet: the first need one run of fly-llc, the second cut code generation in pieces"
            )
        given, text = text, text if optimized else str(self._middle_end(text, target, level))
        source = self.folder / "codegen_in.ll"
        source.write_text(text, encoding="utf-8")
        kinds = cast("tuple[Emit, ...]", ("asm",) if target.output == "assembly" else ("obj", "asm"))
        if not self.config.codegen_passes:
            made = self._split(source, target, level, mir_passes, kinds)
            if made is None:
                return self._in_process(given, target, level, optimized=optimized)
        else:
            plugins = [plugin.path for plugin in self.config.codegen_plugins]
            passes = self.config.codegen_passes
            flags = self.flags
            made = {
                kind: external.run_fly_llc(source, passes, plugins, target, level, emit=kind, flags=flags)
                for kind in kinds
            }
        module = codegen.load_module(text, target)
        return codegen.finished(
            target, level, module, object=made.get("obj"), asm=made["asm"].decode(), times=dict(self.times)
        )

    def _split(
        self, source: Path, target: DeviceTarget, level: int, passes: list[tuple[str, Activation]], emit: Sequence[str]
    ) -> dict[str, bytes] | None:
        """Code with Python passes on the MIR; None if they left all of it as it was, and this LLVM is as good."""
        changed = self.config.external

        def rewrite(each: Activation, text: str) -> str:
            nonlocal changed
            stage = each.what.stage
            after = run_text_pass(each, mir.MirModule(text), self._context(stage))
            changed = changed or after != text
            if after != text:
                mir.verify(after, target, level, self.folder, f"MIR after Python pass '{each}' at {stage}")
            return after

        cuts: list[tuple[str, Callable[[str], str]]] = [(point, partial(rewrite, each)) for point, each in passes]
        made = mir.split_codegen(source, target, level, cuts, emit, self.flags)
        return made if changed else None

    def _assembly_passes(self, code: DeviceCode, target: DeviceTarget) -> DeviceCode:
        passes = self.config.at("asm", self.backend.name)
        if not passes:
            return code
        text = code.asm
        for each in passes:
            text = run_text_pass(each, text, self._context("asm"))
        if text == code.asm:
            return code
        if target.output == "assembly":
            lost = [name for name in self.kernels if not re.search(rf"\.entry\s+{re.escape(name)}\s*\(", text)]
            if lost:
                names = ", ".join(f"'{each}'" for each in passes)
                raise CodegenPassError(f"assembly after Python pass {names} has no kernel {', '.join(lost)}")
            return codegen.finished(
                target, code.opt_level, binding.parse_bitcode(code.bitcode), asm=text, times=code.times
            )
        try:
            obj = external.assemble(text, target, self.folder)
        except CodegenPassError as error:
            names = ", ".join(f"'{each}'" for each in passes)
            raise CodegenPassError(f"assembly after Python pass {names} is not accepted\n{error}") from None
        module = binding.parse_bitcode(code.bitcode)
        return codegen.finished(target, code.opt_level, module, object=obj, asm=text, times=code.times)

    # -- box 8

    def check_binary(self, binary: DeviceBinary) -> None:
        """The finished code must still have every kernel; machine passes see no module to check."""
        if not binary.resources:
            return
        names = {str(resource["name"]) for resource in binary.resources}
        lost = [name for name in self.kernels if name not in names]
        if lost:
            raise PassPipelineError(
                f"the passes lost kernel {', '.join(lost)}: the code has {', '.join(names) or 'none'}"
            )
