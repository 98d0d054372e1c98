"""Launches of this process, interpreted: from the call of a jit function to the threads of its kernels.

Inside a session kernels are compiled for the cpu stack as always, with marks where lines begin
(`expr/emit/line_marks.py`), and the module that would become LLVM IR is kept. The host function runs natively; where
it calls the launcher, the interpreter answers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import StringAttr

from ..compiler.build.dumps import watching
from ..compiler.listeners import compile_listener
from ..cpu.code.abi import functions_of
from ..cpu.runtime import CpuDeviceRuntime
from ..cpu.runtime.launcher_ir import INVALID_VALUE, MAX_BLOCK_THREADS
from ..cpu.runtime.native import LAUNCH_EX_PROTOTYPE, LAUNCH_PROTOTYPE, launcher
from ..dialects.upstream import gpu
from ..errors import DSLRuntimeError
from ..passes.base import TARGET_ATTRIBUTE
from ..runtime.device_runtime import get_device_runtime
from ..runtime.objects import Function, Module
from ..target import GPUTarget
from .machine import ClusterRun, Thread
from .memory import Memory, Now
from .program import environment
from .writer import Kernel, KernelWriter

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..compiler.build.artifact import CompiledArtifact

FAILED = 999
"""Status of a launch that an exception ended."""


class Launch(NamedTuple):
    """A launch of a kernel."""

    kernel: Kernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    """Bytes of dynamic shared memory."""
    params: int
    """Address of the addresses of the arguments."""


Runner = Callable[[Launch], None]
"""What a session does with a launch."""
WriterClass = type[KernelWriter]


class _Code(NamedTuple):
    """A kernel that can be interpreted, once somebody writes it as Python."""

    function: gpu.FuncOp
    module: gpu.ModuleOp
    warp: int


class _Compiled(NamedTuple):
    """What a compilation under a session left."""

    binary: bytes
    module: ModuleOp
    target: str


class _Known:
    """What sessions of this process share: code that was compiled in one may be called in a later one."""

    def __init__(self) -> None:
        self.compiled: list[_Compiled] = []
        self.modules: dict[int, Mapping[str, _Code]] = {}
        self.codes: dict[int, _Code] = {}
        """By the address of the kernel's descriptor, which is what launches name."""
        self.session: Session | None = None
        # Native code holds these addresses as long as the process lives.
        self.launch = LAUNCH_PROTOTYPE(_launched)
        self.launch_ex = LAUNCH_EX_PROTOTYPE(_launched_ex)


class _InterpretingRuntime(CpuDeviceRuntime):
    """The cpu runtime, whose launches go to the session that is open."""

    def module_load(self, binary: bytes, *, device: int | None = None) -> Module:
        made = super().module_load(binary, device=device)
        same = [entry for entry in reversed(_known.compiled) if entry.binary is binary]
        found = next(iter(same or [entry for entry in reversed(_known.compiled) if entry.binary == binary]), None)
        if found is None and _known.session is not None:
            found = _known.session.latest(binary)
        if found is None:
            raise DSLRuntimeError(
                "the debugger runs kernels that are compiled while it watches; this one was compiled before"
            )
        device_module = next(op for op in found.module.ops if isinstance(op, gpu.ModuleOp))
        warp = GPUTarget.parse(found.target).warp_size
        _known.modules[made.handle] = {
            op.sym_name.data: _Code(op, device_module, warp) for op in functions_of(device_module)
        }
        return made

    def function(self, module: Module, name: str, *, shared_bytes: int = 0, flags: int = 0) -> Function:
        made = super().function(module, name, shared_bytes=shared_bytes, flags=flags)
        _known.codes[made.handle] = _known.modules[module.handle][name]
        return made

    def launch_symbol(self) -> int:
        super().launch_symbol()  # kernels that are not wanted run compiled
        return _address(_known.launch)

    def launch_ex_symbol(self) -> int:
        super().launch_ex_symbol()
        return _address(_known.launch_ex)

    def check_launch_status(self, status: int, kernel: str, stream: int = 0) -> None:
        if status == FAILED and _known.session is not None:
            _known.session.raise_pending()
        super().check_launch_status(status, kernel, stream)


def _address(function: object) -> int:
    return cast(int, ctypes.cast(cast(Any, function), ctypes.c_void_p).value)


class Session:
    """Kernels that are compiled while it is open are interpreted by `run`, if they are wanted; others run compiled."""

    def __init__(
        self, run: Runner, writer: WriterClass = KernelWriter, wanted: Callable[[Kernel], bool] = lambda kernel: True
    ):
        self._run, self._wanted = run, wanted
        self._writer = writer
        self._stage: ModuleOp | None = None
        self._target = ""
        self._kernels: dict[int, tuple[_Code, Kernel]] = {}
        self._pending: BaseException | None = None

    @contextmanager
    def open(self) -> Generator[Session]:
        """A block in which launches are interpreted. The backend must be the cpu one."""
        runtime = get_device_runtime()
        if type(runtime) is not CpuDeviceRuntime:
            raise DSLRuntimeError(
                f"the debugger interprets launches of the cpu stack, and this process uses {runtime.kind}, or a "
                "debugger already; set FLYDSL_COMPILE_BACKEND=cpu"
            )
        with ExitStack() as stack:
            stack.enter_context(environment(FLYDSL_CPU_DEBUG="1", FLYDSL_RUNTIME_ENABLE_CACHE="0"))
            stack.enter_context(watching(self._seen))
            stack.enter_context(compile_listener(self._done))
            runtime.__class__ = _InterpretingRuntime
            _known.session = self
            try:
                yield self
            finally:
                runtime.__class__ = CpuDeviceRuntime
                _known.session = None

    # --- compiling ------------------------------------------------------------------------------------------------

    def _seen(self, name: str, module: ModuleOp) -> None:
        self._stage = module
        for op in module.ops:
            # A pass takes it away.
            target = op.attributes.get(TARGET_ATTRIBUTE)
            self._target = target.data if isinstance(target, StringAttr) else self._target

    def _done(
        self, name: str, key: str, target: str, times: object, cache_hit: bool, artifact: CompiledArtifact
    ) -> None:
        if self._stage is not None:
            _known.compiled.append(_Compiled(artifact.binary(), self._stage, target))
            self._stage = None

    def latest(self, binary: bytes) -> _Compiled | None:
        """What was compiled last, if nobody was told of it: an expression that is evaluated, for example."""
        return None if self._stage is None else _Compiled(binary, self._stage, self._target)

    # --- launching ------------------------------------------------------------------------------------------------

    def launched(self, fn: int, shape: Shape, params: int, compiled: Callable[[], int]) -> int:
        """A launch: interpret it, or run it compiled. Gives the status of a driver's call."""
        try:
            kernel = self._kernel(fn)
            if not self._wanted(kernel):
                return compiled()
            grid, block, shared = shape
            clusters = kernel.how.cluster or (1, 1, 1)
            if any(n % c for n, c in zip(grid, clusters, strict=True)) or prod(block) > MAX_BLOCK_THREADS:
                return INVALID_VALUE
            self._run(Launch(kernel, grid, block, shared, params or 0))
        except BaseException as error:  # noqa: BLE001 - native code is between here and the caller; raised behind it
            self._pending = error
            return FAILED
        return 0

    def _kernel(self, fn: int) -> Kernel:
        """The kernel at an address, as Python."""
        code = _known.codes[fn]
        made = self._kernels.get(fn)
        if made is None or made[0] is not code:
            made = self._kernels[fn] = (code, self._writer(*code).write())
        return made[1]

    def raise_pending(self) -> None:
        """Raise what ended a launch."""
        error, self._pending = self._pending, None
        if error is not None:
            raise error


Shape = tuple[tuple[int, int, int], tuple[int, int, int], int]
"""Grid, block and dynamic shared bytes of a launch."""


def _launched(fn: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, *rest: int) -> int:
    def compiled() -> int:
        return launcher().launch(fn, gx, gy, gz, bx, by, bz, shared, *rest)

    if _known.session is None:
        return compiled()
    return _known.session.launched(fn, ((gx, gy, gz), (bx, by, bz), shared), rest[1], compiled)


def _launched_ex(config: int, fn: int, params: int, extra: int) -> int:
    def compiled() -> int:
        return launcher().launch_ex(config, fn, params, extra)

    if _known.session is None:
        return compiled()
    gx, gy, gz, bx, by, bz, shared = (int(x) for x in (ctypes.c_uint32 * 7).from_address(config))
    return _known.session.launched(fn, ((gx, gy, gz), (bx, by, bz), shared), params, compiled)


_known = _Known()


def arguments_of(launch: Launch, load: Callable[[Any, int], Any]) -> list[Any]:
    """The arguments of a launch, from memory."""
    kinds = launch.kernel.arguments
    addresses = (ctypes.c_uint64 * max(len(kinds), 1)).from_address(launch.params) if kinds else ()
    return [int(at) if k is None else load(k, int(at)) for k, at in zip(kinds, addresses, strict=False)]


def clusters_of(launch: Launch) -> int:
    """How many clusters, or single blocks, a launch has."""
    x, y, z = launch.kernel.how.cluster or (1, 1, 1)
    gx, gy, gz = launch.grid
    return gx * gy * gz // (x * y * z)


def interpret(launch: Launch) -> None:
    """Run a launch to its end, with nobody looking."""
    memory = Memory(Now(), journal=False)
    run = ClusterRun(launch.kernel, memory, launch.block, launch.shared)
    arguments = arguments_of(launch, memory.load)
    with np.errstate(all="ignore"):
        for number in range(clusters_of(launch)):
            run.run(number, launch.grid, arguments, _go_on)


def _go_on(thread: Thread, mark: int) -> None:
    pass
