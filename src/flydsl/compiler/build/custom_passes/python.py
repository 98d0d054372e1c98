"""Running passes written in Python: on the xDSL module between the passes of a pipeline, and on text."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flydsl.compiler.build.custom_passes.config import PassConfig
from flydsl.compiler.build.user_passes import Activation, PassContext
from flydsl.errors import DiagRecord, DSLCompileError, DSLValueError, PassError
from flydsl.llvm import binding, mir

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from flydsl.compiler.backends.base import BaseBackend


Observer = Callable[[str, Any], None]
"""Told the name of a pass and the module after it, as the dumps are."""


class LLVMModule:
    """LLVM IR as a Python pass sees it: text to read and assign, or llvmlite's module for reading."""

    def __init__(self, text: str):
        self.text = text

    @property
    def module(self) -> Any:
        """A fresh `llvmlite.binding.ModuleRef` of the text; changing it changes nothing here."""
        return binding.parse(self.text)

    def __str__(self) -> str:
        return self.text


@contextmanager
def _blamed(each: Activation, stage: str) -> Generator[None]:
    """Name the pass in whatever it raises, and show the line: of the op it complains about, else of the pass."""
    try:
        yield
    except PassError as error:
        chain = _chain_of(error.op)
        if chain and not error.diagnostics:
            error.diagnostics.append(DiagRecord(error.message, chain))
        error.add_note(f"raised by Python pass '{each}' at stage {stage}")
        raise
    except Exception as error:
        error.add_note(f"raised in Python pass '{each}' at stage {stage}{_own_line(each, error)}")
        raise


def _chain_of(op: Any) -> Any:
    from flydsl.ir.locations import source_chain

    while op is not None:
        chain = source_chain(getattr(op, "location", None))
        if chain:
            return chain
        parent = getattr(op, "parent_op", None)
        op = parent() if callable(parent) else None
    return []


def _own_line(each: Activation, error: BaseException) -> str:
    from flydsl.ir.locations import traceback_location

    code = each.what.function.__code__  # pyright: ignore[reportFunctionMemberAccess]
    frame = None
    entry = error.__traceback__
    while entry is not None:
        if entry.tb_frame.f_code.co_filename == code.co_filename:
            frame = traceback_location(entry)
        entry = entry.tb_next
    return f":\n{frame.render()}" if frame is not None else ""


def text_diff(before: str, after: str, what: str) -> str:
    lines = list(
        difflib.unified_diff(before.splitlines(), after.splitlines(), f"before {what}", f"after {what}", "", "", 2, "")
    )
    more = f"\n... {len(lines) - 60} more lines" if len(lines) > 60 else ""
    return "\n".join(lines[:60]) + more


def run_text_pass(each: Activation, value: Any, context: PassContext) -> str:
    """Run a pass over LLVM IR, MIR or assembly; what it returns, or what it made of its input."""
    with _blamed(each, context.stage):
        result = each.run(value, context)
    if result is None:
        result = value
    if not isinstance(result, str | LLVMModule | mir.MirModule):
        raise DSLCompileError(
            f"Python pass '{each}' at stage {context.stage} must return text, the module it was given, or None, "
            f"got {type(result).__name__}"
        )
    return str(result)


def _print(module: ModuleOp) -> str:
    from ....ir.printer import print_ir

    # The generic form can be written even where an op is broken.
    return print_ir(module, generic=True)


def run_stage(
    config: PassConfig,
    stage: str,
    module: ModuleOp,
    backend: BaseBackend,
    hints: Mapping[str, Any] | None = None,
    observe: Observer | None = None,
) -> ModuleOp:
    """The module after the Python passes of one stage; each result is verified, then shown to `observe`."""
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.utils.exceptions import VerifyException

    from flydsl.dialects.upstream.adopt import adopt

    for each in config.at(stage, backend.name):
        before, functions = _print(module), _functions(module)
        context = PassContext(backend.target, backend.name, stage, dict(hints or {}))
        with _blamed(each, stage):
            result = each.run(module, context)
        if result is not None and not isinstance(result, ModuleOp):
            raise DSLCompileError(
                f"Python pass '{each}' at stage {stage} must return a module or None, got {type(result).__name__}"
            )
        module = result if result is not None else module
        adopt(module)
        try:
            module.verify()
        except VerifyException as error:
            raise DSLCompileError(
                f"the IR does not verify after Python pass '{each}' at stage {stage}: {error}\n"
                + text_diff(before, _print(module), each.what.name)
            ) from error
        lost = functions - _functions(module)
        if lost:
            raise DSLCompileError(
                f"Python pass '{each}' at stage {stage} left a module without {', '.join(sorted(lost))}: every kernel "
                "and the host function must stay"
            )
        if observe is not None:
            observe(each.what.name, module)
    return module


def _functions(module: ModuleOp) -> set[str]:
    """What a launch needs: the host function, and the kernels of device modules."""
    found: set[str] = set()
    for op in module.ops:
        on_device = op.name == "gpu.module"
        for function in op.regions[0].block.ops if on_device else (op,):
            known = {**function.attributes, **function.properties}
            named = on_device and any(key.endswith("kernel") for key in known)
            if named or (not on_device and function.regions and function.regions[0].blocks):
                found.add(f"{'kernel' if named else 'host function'} {known.get('sym_name')}")
    return found


def around_pass(
    config: PassConfig,
    pass_name: str,
    when: str,
    module: ModuleOp,
    *,
    backend: BaseBackend,
    hints: Mapping[str, Any] | None = None,
) -> ModuleOp:
    """Run what is asked for `before` or `after` a pass; `start` and `end` of the pipeline go without a name."""
    stage = f"fly:{when}" if when in ("start", "end") else f"fly:{when}:{pass_name}"
    return run_stage(config, stage, module, backend, hints)


class PassHooks:
    """Python passes between the passes of a pipeline; one that has no place in it is an error right away.

    A pass that occurs more than once is meant by all of its occurrences, or by one as `canonicalize#2`.
    """

    def __init__(
        self,
        config: PassConfig,
        backend: BaseBackend,
        hints: Mapping[str, Any] | None,
        pipeline: Sequence[str],
        observe: Observer | None = None,
    ):
        self._observe = observe
        self.config = config
        self.backend = backend
        self.hints = hints
        self.active = any(each.what.stage.startswith(("fly:", "llvm-dialect")) for each in config.ir_passes)
        seen: dict[str, int] = {}
        self._names: list[tuple[str, str]] = []
        for name in pipeline:
            seen[name] = seen.get(name, 0) + 1
            self._names.append((name, f"{name}#{seen[name]}"))
        known = {name for pair in self._names for name in pair}
        for each in config.ir_passes:
            if not each.applies(each.what.stage, backend.name) or each.what.stage.count(":") != 2:
                continue
            name = each.what.stage.split(":", 2)[2]
            if name not in known:
                raise DSLValueError(
                    f"Python pass '{each}' is to run at {each.what.stage}, but the pipeline of {backend.name} has no "
                    f"such pass; it has: {', '.join(pipeline)}"
                )

    def beyond(self, index: int) -> bool:
        """Whether a pass of the user stands before or after one of the pipeline's from `index` on."""
        stages = {each.what.stage for each in self.config.ir_passes if each.applies(each.what.stage, self.backend.name)}
        names = {name for pair in self._names[index:] for name in pair}
        return any(stage.count(":") == 2 and stage.split(":", 2)[2] in names for stage in stages)

    def places(self) -> set[int]:
        """Passes of the pipeline right behind which a pass of the user is to run."""
        stages = {each.what.stage for each in self.config.ir_passes if each.applies(each.what.stage, self.backend.name)}
        found: set[int] = set()
        for i, names in enumerate(self._names):
            if any(f"fly:before:{name}" in stages for name in names):
                found.add(i - 1)
            converts = names[0].startswith("convert-fly-to-") and "llvm-dialect" in stages
            if converts or any(f"fly:after:{name}" in stages for name in names):
                found.add(i)
        return found

    def _run(self, stage: str, module: ModuleOp) -> ModuleOp:
        return run_stage(self.config, stage, module, self.backend, self.hints, self._observe)

    def start(self, module: ModuleOp) -> ModuleOp:
        return self._run("fly:start", module)

    def end(self, module: ModuleOp) -> ModuleOp:
        return self._run("fly:end", module)

    def before(self, index: int, module: ModuleOp) -> ModuleOp:
        """What stands before the pass of that index in the pipeline."""
        for name in self._names[index]:
            module = self._run(f"fly:before:{name}", module)
        return module

    def after(self, index: int, module: ModuleOp) -> ModuleOp:
        """What stands after it; after the conversion to the LLVM dialect also the stage `llvm-dialect`."""
        for name in self._names[index]:
            module = self._run(f"fly:after:{name}", module)
        if self._names[index][0].startswith("convert-fly-to-"):
            module = self._run("llvm-dialect", module)
        return module
