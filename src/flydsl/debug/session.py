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

from ..compiler.build.dumps import watching
from ..compiler.listeners import compile_listener
from ..cpu.code.abi import functions_of
from ..cpu.runtime import CpuDeviceRuntime
from ..cpu.runtime.launcher_ir import INVALID_VALUE, MAX_BLOCK_THREADS
from ..cpu.runtime.native import LAUNCH_EX_PROTOTYPE, LAUNCH_PROTOTYPE, launcher
from ..dialects.upstream import gpu
from ..errors import DSLRuntimeError
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


class _InterpretingRuntime(CpuDeviceRuntime):
    """The cpu runtime, whose launches go to the session."""

    session: Session

    def module_load(self, binary: bytes, *, device: int | None = None) -> Module:
        made = super().module_load(binary, device=device)
        self.session.loaded(made.handle, binary)
        return made

    def function(self, module: Module, name: str, *, shared_bytes: int = 0, flags: int = 0) -> Function:
        made = super().function(module, name, shared_bytes=shared_bytes, flags=flags)
        self.session.found(made.handle, module.handle, name)
        return made

    def launch_symbol(self) -> int:
        return self.session.launch_address

    def launch_ex_symbol(self) -> int:
        return self.session.launch_ex_address

    def check_launch_status(self, status: int, kernel: str, stream: int = 0) -> None:
        if status == FAILED:
            self.session.raise_pending()
        super().check_launch_status(status, kernel, stream)


class Session:
    """Kernels that are compiled while it is open are interpreted by `run`, if they are wanted; others run compiled."""

    def __init__(
        self, run: Runner, writer: WriterClass = KernelWriter, wanted: Callable[[Kernel], bool] = lambda kernel: True
    ):
        self._run, self._wanted = run, wanted
        self._writer = writer
        self._stage: ModuleOp | None = None
        self._compiled: list[tuple[bytes, ModuleOp, str]] = []
        self._modules: dict[int, Mapping[str, Kernel]] = {}
        self._kernels: dict[int, Kernel] = {}
        self._pending: BaseException | None = None
        self._launch = LAUNCH_PROTOTYPE(self._launched)
        self._launch_ex = LAUNCH_EX_PROTOTYPE(self._launched_ex)
        self.launch_address = cast(int, ctypes.cast(self._launch, ctypes.c_void_p).value)
        self.launch_ex_address = cast(int, ctypes.cast(self._launch_ex, ctypes.c_void_p).value)

    @contextmanager
    def open(self) -> Generator[Session]:
        """A block in which launches are interpreted. The backend must be the cpu one."""
        runtime = get_device_runtime()
        if type(runtime) is not CpuDeviceRuntime:
            raise DSLRuntimeError(
                f"the debugger interprets launches of the cpu stack, and this process uses {runtime.kind}; "
                "set FLYDSL_COMPILE_BACKEND=cpu"
            )
        with ExitStack() as stack:
            stack.enter_context(environment(FLYDSL_CPU_DEBUG="1", FLYDSL_RUNTIME_ENABLE_CACHE="0"))
            stack.enter_context(watching(self._seen))
            stack.enter_context(compile_listener(self._done))
            runtime.__class__ = _InterpretingRuntime
            cast(_InterpretingRuntime, runtime).session = self
            try:
                yield self
            finally:
                runtime.__class__ = CpuDeviceRuntime

    # --- compiling ------------------------------------------------------------------------------------------------

    def _seen(self, name: str, module: ModuleOp) -> None:
        self._stage = module

    def _done(
        self, name: str, key: str, target: str, times: object, cache_hit: bool, artifact: CompiledArtifact
    ) -> None:
        if self._stage is not None:
            self._compiled.append((artifact.binary(), self._stage, target))
            self._stage = None

    def loaded(self, handle: int, binary: bytes) -> None:
        """A module was loaded: its kernels can be run."""
        same = [entry for entry in reversed(self._compiled) if entry[0] is binary]
        equal = [entry for entry in reversed(self._compiled) if entry[0] == binary]
        if not (same or equal):
            raise DSLRuntimeError(
                "the debugger runs kernels that are compiled while it watches; this one was compiled before"
            )
        _, module, target = (same or equal)[0]
        device = next(op for op in module.ops if isinstance(op, gpu.ModuleOp))
        warp = GPUTarget.parse(target).warp_size
        self._modules[handle] = {
            op.sym_name.data: self._writer(op, device, warp).write() for op in functions_of(device)
        }

    def found(self, descriptor: int, handle: int, name: str) -> None:
        """A kernel has this address now."""
        self._kernels[descriptor] = self._modules[handle][name]

    # --- launching ------------------------------------------------------------------------------------------------

    def _launched(self, fn: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, *rest: Any) -> int:
        stream, params, extra = rest
        if not self._wanted(self._kernels[fn]):
            return launcher().launch(fn, gx, gy, gz, bx, by, bz, shared, stream, params, extra)
        return self._guarded(fn, (gx, gy, gz), (bx, by, bz), shared, params)

    def _launched_ex(self, config: int, fn: int, params: int, extra: int) -> int:
        if not self._wanted(self._kernels[fn]):
            return launcher().launch_ex(config, fn, params, extra)
        words = (ctypes.c_uint32 * 7).from_address(config)
        gx, gy, gz, bx, by, bz, shared = (int(x) for x in words)
        return self._guarded(fn, (gx, gy, gz), (bx, by, bz), shared, params)

    def _guarded(
        self, fn: int, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int, params: int
    ) -> int:
        kernel = self._kernels[fn]
        clusters = kernel.how.cluster or (1, 1, 1)
        if any(n % c for n, c in zip(grid, clusters, strict=True)) or prod(block) > MAX_BLOCK_THREADS:
            return INVALID_VALUE
        try:
            self._run(Launch(kernel, grid, block, shared, params or 0))
        except BaseException as error:  # noqa: BLE001 - native code is between here and the caller; raised behind it
            self._pending = error
            return FAILED
        return 0

    def raise_pending(self) -> None:
        """Raise what ended a launch."""
        error, self._pending = self._pending, None
        if error is not None:
            raise error


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


__all__ = ["Launch", "Runner", "Session", "arguments_of", "clusters_of", "interpret"]
