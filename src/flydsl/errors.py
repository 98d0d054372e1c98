"""Every exception class a user of the product can meet.

A mistake in user code keeps the built-in family it belongs to (`TypeError`, `ValueError`, ...), so that
`except TypeError` works, and also derives from `FlyDSLError`. Where the mistake was made is a chain of
`SourceFrame`s, outermost first; the innermost one is shown with a caret.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass, field
from typing import TypedDict, Unpack


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """A span of one line of user source; columns count from 0, `end_col` is exclusive."""

    filename: str
    line: int
    col: int = 0
    end_col: int = 0

    def render(self) -> str:
        """The frame as Python prints one, with a caret line under the span."""
        head = f'  File "{self.filename}", line {self.line}'
        text = linecache.getline(self.filename, self.line).rstrip("\n")
        stripped = text.lstrip()
        if not stripped:
            return head
        start = max(self.col - (len(text) - len(stripped)), 0)
        width = max(min(self.end_col, len(text)) - self.col, 1)
        return f"{head}\n    {stripped}\n    {' ' * start}{'^' * width}"


@dataclass(frozen=True, slots=True)
class DiagRecord:
    """One message and the call chain of user frames it belongs to."""

    message: str
    chain: list[SourceFrame] = field(default_factory=list[SourceFrame])


class FlyDSLError(Exception):
    """Base of all exceptions raised on purpose by this package."""


class DSLCompileError(FlyDSLError, RuntimeError):
    """The traced program could not be verified, lowered or code-generated.

    >>> str(DSLCompileError("the IR does not verify"))
    'the IR does not verify'
    """

    def __init__(self, message: str, *, diagnostics: list[DiagRecord] | None = None):
        self.message = message
        self.diagnostics = [d for d in diagnostics or () if d.message]
        super().__init__(message, self.diagnostics)

    def __str__(self) -> str:
        parts = [self.message]
        for record in self.diagnostics:
            parts.append("")
            if record.message != self.message:
                parts.append(record.message)
            parts.append("DSL Traceback (most recent operation last):")
            parts.extend(frame.render() for frame in record.chain)
        return "\n".join(parts)


class CodegenAbortError(DSLCompileError):
    """LLVM gave up on a module the hard way: it ended the worker process it ran in."""

    returncode: int | None = None
    """What the worker ended with, negative for a signal."""
    stderr: str = ""
    """What LLVM printed."""


class PassError(DSLCompileError):
    """Raised by a user's pass: what it does not accept, and the op it is about, whose source line is then shown.

    >>> PassError("this loop has no bounds").message
    'this loop has no bounds'
    """

    def __init__(self, message: str, *, op: object = None, diagnostics: list[DiagRecord] | None = None):
        super().__init__(message, diagnostics=diagnostics)
        self.op = op


class DSLTypeError(FlyDSLError, TypeError):
    """A value of the wrong type in traced code or at the host boundary."""


class DSLValueError(FlyDSLError, ValueError):
    """A value outside what an operation accepts."""


class MLIRError(DSLTypeError, DSLValueError):
    """IR, or text of it, is wrong: what `flydsl._mlir` raises where MLIR's bindings raise their `MLIRError`, and where
    they raise a ValueError for something of another class."""


class DSLRuntimeError(FlyDSLError, RuntimeError):
    """An operation used where it cannot work, such as a kernel called outside a jit function."""


class DSLAttributeError(FlyDSLError, AttributeError):
    """A name that the language does not have."""

    def __init__(self, message: str):
        super().__init__(message)
        # Or else Python notes what was asked, and from 3.12 on shows names like it behind a message that has one.
        self.obj = None


class DSLOverflowError(FlyDSLError, OverflowError):
    """A Python number does not fit the type it is passed as."""


class DSLSyntaxError(FlyDSLError, SyntaxError):
    """Python syntax that cannot be traced; raised when the function is decorated."""


class RejectedSyntaxError(DSLSyntaxError):
    """A construct that cannot be traced. Python prints its `msg`, line and caret; `str()` gives them all."""

    def __init__(self, message: str, filename: str, line: int, col: int, end_line: int, end_col: int):
        text = linecache.getline(filename, line)
        start = _column(text, col)
        # A span over several lines is marked up to the end of its first one.
        end = _column(text, end_col) if end_line == line else len(text.rstrip())
        self.frame = SourceFrame(filename, line, start, max(end, start + 1))
        super().__init__(message, (filename, line, start + 1, text, line, self.frame.end_col + 1))

    def __str__(self) -> str:
        return f"{self.msg}\n{self.frame.render()}"


def _column(text: str, offset: int) -> int:
    """Characters before a byte offset: `ast` counts UTF-8 bytes."""
    return len(text.encode()[:offset].decode(errors="replace"))


class LayoutError(FlyDSLError, ValueError):
    """A precondition of the layout algebra does not hold."""


class SourceUnavailableError(FlyDSLError, OSError):
    """The source text of a decorated function cannot be found, so it cannot be rewritten."""


class ManifestError(FlyDSLError, ValueError):
    """A manifest of ahead-of-time builds is malformed, or names what is not there."""


class ConfigError(FlyDSLError, ValueError):
    """An environment variable holds a value that cannot be used."""


class TargetError(FlyDSLError, ValueError):
    """An architecture or target text is unknown or malformed."""


class TargetDetectionError(FlyDSLError, RuntimeError):
    """No source could tell which architecture to compile for; the sources tried are listed."""


class ExternalLLVMError(FlyDSLError, RuntimeError):
    """An external LLVM or vendor tool could not do its part."""

    returncode: int | None = None
    """What the tool ended with, negative for a signal; None where none ran to its end."""
    stderr: str = ""
    """What the tool wrote to its error stream."""


class ToolNotFoundError(ExternalLLVMError):
    """A tool is not installed where it was looked for; the candidates are listed."""


class ToolVersionError(ExternalLLVMError):
    """A tool was found but its version does not fit."""


class PluginLoadError(ExternalLLVMError):
    """A plugin is missing, cannot be loaded or was built for another LLVM."""


class PassPipelineError(ExternalLLVMError):
    """A pipeline over LLVM IR cannot be read, failed, or left a module that cannot be used."""


class CodegenPassError(ExternalLLVMError):
    """A machine pass is unknown, has no place to run, failed, or left code that cannot be used."""


class LinkError(ExternalLLVMError):
    """Linking a code object failed."""


class _Circumstances(TypedDict, total=False):
    """What a `FlyRuntimeError` says beside its description."""

    api: str
    code: int | None
    name: str
    device: int | None
    stream: int | None
    kernel: str | None


class FlyRuntimeError(FlyDSLError, RuntimeError):
    """A device runtime call failed.

    `api` is the entry point, `code` and `name` the vendor's status, the rest says what was being worked on.

    >>> str(FlyRuntimeError("out of room", api="cuMemAlloc", code=2, name="CUDA_ERROR_OUT_OF_MEMORY", device=0))
    'cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (2): out of room [device 0]'
    """

    def __init__(
        self,
        description: str,
        *,
        api: str = "",
        code: int | None = None,
        name: str = "",
        device: int | None = None,
        stream: int | None = None,
        kernel: str | None = None,
    ):
        self.description = description
        self.api = api
        self.code = code
        self.name = name
        self.device = device
        self.stream = stream
        self.kernel = kernel
        super().__init__(description)

    def __str__(self) -> str:
        status = f"{self.name or 'error'} ({self.code})" if self.code is not None else self.name
        head = f"{self.api} failed: {status}: " if self.api and status else f"{self.api}: " if self.api else ""
        context = [
            text
            for text, shown in (
                (f"kernel {self.kernel}", self.kernel is not None),
                (f"device {self.device}", self.device is not None),
                (f"stream {self.stream or 0:#x}", self.stream is not None),
            )
            if shown
        ]
        tail = f" [{', '.join(context)}]" if context else ""
        return f"{head}{self.description}{tail}"


class OutOfMemoryError(FlyRuntimeError):
    """The device has too little free memory for an allocation.

    >>> str(OutOfMemoryError(requested=2**30, free=2**20, total=2**34))
    'out of memory: 1073741824 bytes requested, 1048576 free of 17179869184'
    """

    def __init__(
        self,
        description: str = "",
        *,
        requested: int | None = None,
        free: int | None = None,
        total: int | None = None,
        **circumstances: Unpack[_Circumstances],
    ):
        self.requested = requested
        self.free = free
        self.total = total
        if not description:
            description = f"out of memory: {requested} bytes requested, {free} free of {total}"
        super().__init__(description, **circumstances)


class InvalidHandleError(FlyRuntimeError):
    """A handle was closed, freed, or belongs to a runtime that is gone.

    >>> issubclass(InvalidHandleError, FlyRuntimeError)
    True
    """


class LaunchError(FlyRuntimeError):
    """A kernel could not be started, or failed while running on a stream.

    >>> str(LaunchError("cannot be started", kernel="scale"))
    'cannot be started [kernel scale]'
    """


class KernelCheckError(LaunchError):
    """The cpu stack's checked mode found mistakes in a kernel; the message has a line for each."""


class KernelScheduleError(KernelCheckError):
    """Some order of a kernel's warps and copies goes wrong on the cpu stack; the message has a schedule to replay."""


class KernelDeadlockError(LaunchError):
    """Threads of a kernel on the cpu stack wait for something that no thread can bring about any more."""


class DeviceLostError(FlyRuntimeError):
    """The device hit a fault that cannot be recovered from in this process; every later call raises it too.

    >>> str(DeviceLostError("illegal address", device=1))
    'illegal address [device 1]'
    """


class NotSupportedError(FlyRuntimeError, NotImplementedError):
    """The runtime of this kind does not offer the operation.

    >>> str(NotSupportedError("cpu", "graph capture"))
    'the cpu runtime does not support graph capture'
    """

    def __init__(self, kind: str, operation: str, reason: str = "", **circumstances: Unpack[_Circumstances]):
        self.kind = kind
        self.operation = operation
        text = f"the {kind} runtime does not support {operation}"
        super().__init__(f"{text}: {reason}" if reason else text, **circumstances)


class CaptureError(FlyRuntimeError):
    """An operation is impossible while its stream records a graph.

    >>> str(CaptureError("prepare() it first", stream=16))
    'prepare() it first [stream 0x10]'
    """


class StackMismatchError(FlyRuntimeError):
    """Objects of two different stacks (rocm, cuda, cpu, ...) meet in one call.

    >>> issubclass(StackMismatchError, RuntimeError)
    True
    """


class ArtifactMismatchError(FlyRuntimeError):
    """A stored artifact does not fit this process; `field` says in what.

    >>> str(ArtifactMismatchError("target", "rocm:gfx942:w64", "rocm:gfx950:w64"))
    "artifact does not fit: target is 'rocm:gfx950:w64', expected 'rocm:gfx942:w64'"
    """

    def __init__(self, field: str, expected: object, found: object):
        self.field = field
        self.expected = expected
        self.found = found
        super().__init__(f"artifact does not fit: {field} is {found!r}, expected {expected!r}")


class ArtifactSignatureError(FlyRuntimeError):
    """An artifact is not signed by a key that this process trusts, so its code is not run.

    >>> str(ArtifactSignatureError("gemm.fly", "it is not signed"))
    'gemm.fly is refused: it is not signed'
    """

    def __init__(self, path: str, reason: str):
        self.path = path
        super().__init__(f"{path} is refused: {reason}")


class ArtifactHookError(FlyRuntimeError):
    """An artifact names a load hook of a module that the program has neither imported nor named."""


class MissingPackageError(FlyDSLError, ImportError):
    """A package that an optional part of the product needs is not installed.

    >>> str(MissingPackageError("signatures", "cryptography", "sign"))
    'signatures need the package cryptography: install flydsl[sign]'
    """

    def __init__(self, what: str, package: str, extra: str):
        super().__init__(f"{what} need the package {package}: install flydsl[{extra}]")


class LibraryNotFoundError(FlyRuntimeError):
    """A vendor library could not be opened; every candidate is listed with its reason.

    >>> str(LibraryNotFoundError("libcuda.so.1 was not found"))
    'libcuda.so.1 was not found'
    """


class OutOfResourcesError(FlyRuntimeError):
    """A launch asks for more of something than the device has.

    >>> str(OutOfResourcesError(2048, 1024, "threads per block"))
    'out of resource threads per block: 2048 required, limit is 1024'
    """

    def __init__(
        self,
        required: int | None,
        limit: int | None,
        name: str,
        *,
        description: str = "",
        api: str = "",
        code: int | None = None,
        device: int | None = None,
        stream: int | None = None,
        kernel: str | None = None,
    ):
        self.required = required
        self.limit = limit
        self.resource = name
        if not description:
            description = f"out of resource {name}: {required} required, limit is {limit}"
        super().__init__(description, api=api, code=code, name=name, device=device, stream=stream, kernel=kernel)


class RuntimeStateError(FlyRuntimeError):
    """The process-wide device runtime is in a state that forbids the operation.

    >>> issubclass(RuntimeStateError, FlyRuntimeError)
    True
    """


class ForkedProcessError(FlyRuntimeError):
    """A driver initialised before fork() cannot be used in the child.

    >>> issubclass(ForkedProcessError, FlyRuntimeError)
    True
    """


class FlyDSLWarning(UserWarning):
    """Base of all warnings of this package."""


class ExperimentalBackendWarning(FlyDSLWarning):
    """A compile backend that declares itself experimental is used."""


class UnrollWarning(FlyDSLWarning):
    """A loop that is unrolled while tracing has so many steps that compiling it takes long."""


class PortabilityWarning(FlyDSLWarning):
    """A kernel uses a name or feature that not every backend can take."""


class CaptureWarning(FlyDSLWarning):
    """Something slow or doubtful happens while a stream records a graph."""


class UntrackedGlobalWarning(FlyDSLWarning):
    """A kernel reads a global whose value the cache key cannot hold."""


class UnknownHintWarning(FlyDSLWarning):
    """A compile hint is not known to the backend and has no effect."""


class UnmetHintWarning(FlyDSLWarning):
    """The code generator did not keep to a compile hint."""


class CacheWarning(FlyDSLWarning):
    """The disk cache cannot be used as asked; work goes on without it."""


class PassFallbackWarning(FlyDSLWarning):
    """A requested pass was left out because FLYDSL_COMPILE_LLVM_FALLBACK=warn."""


class UnknownVariableWarning(FlyDSLWarning):
    """An environment variable starts with FLYDSL_ but is none of ours."""


class LostOutputWarning(FlyDSLWarning):
    """A kernel printed more than there was room for, or what was to be shown could not be written."""
