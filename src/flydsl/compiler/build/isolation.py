"""When LLVM runs in a worker process, and whose line it is when it gives up there."""

from __future__ import annotations

import inspect
import itertools
import re
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal

from ... import config
from ...dialects.upstream import llvm
from ...errors import DiagRecord, DSLCompileError, ExternalLLVMError, NotSupportedError, SourceFrame, ToolNotFoundError
from ...ir.locations import source_chain

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

    from ..backends.base import BaseBackend, Compiler

RAW_TEXT = "fly.raw_text"
"""Attribute of a traced module with text for LLVM that nobody has checked: assembly, intrinsics by name."""


IN_PROCESS = 512
"""Modules that LLVM compiles in this process: each leaves some 60 KB behind, and workers are replaced."""
_compilations = itertools.count()

_elsewhere: ContextVar[bool] = ContextVar("flydsl_codegen_elsewhere", default=False)


class generating_elsewhere:
    """A block whose code generation runs in worker processes, if `wanted` and FLYDSL_COMPILE_ISOLATE allows it."""

    def __init__(self, wanted: bool):
        self.wanted = wanted and config.compile.isolate != "never"

    def __enter__(self) -> None:
        self._token = _elsewhere.set(self.wanted)

    def __exit__(self, *_: object) -> None:
        _elsewhere.reset(self._token)


def has_raw_text(module: ModuleOp) -> bool:
    return RAW_TEXT in module.attributes


def where_to_generate(backend: BaseBackend, module: ModuleOp) -> dict[Literal["compiler"], Compiler]:
    """What `make_device_code` of a backend is given for a traced module: a compiler in a worker process, or nothing.

    FLYDSL_COMPILE_ISOLATE asks for one, or text in the module that nobody has checked; or LLVM has compiled so much
    here that what it leaves behind in the process counts.
    """
    mode = "always" if _elsewhere.get() else config.compile.isolate
    if mode == "never" or (mode == "auto" and not has_raw_text(module) and next(_compilations) < IN_PROCESS):
        return {}
    if "compiler" not in inspect.signature(backend.make_device_code).parameters:
        if config.compile.isolate != "always":
            return {}  # A backend with a code generator of its own says itself what it runs where.
        what = f"{type(backend).__name__}.make_device_code takes no argument 'compiler'"
        raise NotSupportedError(backend.name, "FLYDSL_COMPILE_ISOLATE=always", what)
    from ...llvm import isolated

    return {"compiler": isolated.compile_device}


def _text_of(op: Operation) -> str | None:
    """The unchecked text an op carries."""
    if isinstance(op, llvm.InlineAsmOp):
        return op.asm_string.data
    return op.intrin.data if isinstance(op, llvm.CallIntrinsicOp) else None


def _mentions(message: str, text: str) -> int:
    """How well a message of LLVM fits a text: it may quote all of it, a line, or the first word of a line."""
    if text and text in message:
        return 3
    lines = [line.strip() for line in re.split(r"[\n;]", text) if line.strip()]
    if any(line in message for line in lines):
        return 2
    return int(any(re.search(rf"(?<![\w.]){re.escape(line.split()[0])}(?![\w.])", message) for line in lines))


def culprits(message: str, module: ModuleOp) -> list[DiagRecord]:
    """The lines that brought in the text LLVM complains about; all such lines where it does not say which."""
    found: list[tuple[int, str, list[SourceFrame]]] = []
    for op in module.walk():
        text = _text_of(op)
        chain = source_chain(op.location) if text is not None else []
        if text is not None and chain:
            found.append((_mentions(message, text), text, chain))
    best = max((score for score, _, _ in found), default=0)
    records: dict[str, DiagRecord] = {}
    for score, text, chain in found:
        if score == best:
            record = DiagRecord(f"{text!r} comes from here", chain)
            records.setdefault(str(record), record)
    return list(records.values())[:4]


class blamed:
    """A block in which errors of code generation show the user's line with the text LLVM did not accept."""

    def __init__(self, module: ModuleOp):
        self.module = module

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ToolNotFoundError) or not has_raw_text(self.module):
            return
        if isinstance(error, DSLCompileError):
            error.diagnostics.extend(culprits(f"{error}\n{getattr(error, 'stderr', '')}", self.module))
        elif isinstance(error, ExternalLLVMError):
            message = f"the assembly of this kernel is not accepted: {error}"
            raise DSLCompileError(message, diagnostics=culprits(message, self.module)) from error
