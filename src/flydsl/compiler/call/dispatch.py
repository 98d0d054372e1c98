"""Loading an artifact on a device and calling it: fill the argument slots, one native call."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

from ... import config
from ...errors import FlyRuntimeError, InvalidHandleError, LaunchError, OutOfResourcesError
from ...llvm import host_jit
from ...llvm.stub_abi import (
    BAD_GEOMETRY,
    EXTENDED_LAUNCH_SYMBOL,
    FAILURE_BYTES,
    LAUNCH_SYMBOL,
    SIDE_BUFFER_FAILED,
    SIDE_BUFFER_SYMBOL,
)
from ...runtime.base import check_launch
from .. import listeners
from ..build.artifact import ArtifactFormatError, CompiledArtifact
from ..cache.host_code import host_code
from ..extern_link import run_load_hooks
from .arguments import Argument, StreamArgument, TensorArgument
from .placement import order_after_producers, unspecified_stream
from .plan import WRITABLE

if TYPE_CHECKING:
    from ...runtime.base import DeviceRuntime
    from ...runtime.driver_table import DriverTable
    from ...runtime.side_buffers import SideBuffers

    Storage = ctypes.c_void_p | ctypes.Array[ctypes.c_char]

TENSOR_MAP_SYMBOL = "fly_tensor_map_encode"
"""What host code calls to describe a tensor to the copy engine of NVIDIA GPUs."""

STUB = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


class _WithContexts(Protocol):
    """A runtime whose calls go to the current device of the thread."""

    def enter(self, ordinal: int) -> int | None: ...
    def leave(self, context: int) -> None: ...


class _WithTable(Protocol):
    """A runtime over a driver library."""

    def table(self) -> DriverTable: ...


class _WithQueues(Protocol):
    """A runtime whose streams run host code."""

    def enqueue(self, stream: int | None, task: Callable[[], object]) -> None: ...


class PackedCall:
    """The slots of one call and what they point to."""

    __slots__ = ("address", "keep", "record", "slots", "stream")

    def __init__(
        self, table: ctypes.Array[ctypes.c_void_p], storages: list[Storage], stream: int, arguments: Sequence[Argument]
    ):
        self.record = (ctypes.c_int64 * (FAILURE_BYTES // 8))()
        self.slots = (ctypes.c_void_p * (len(storages) + 2))(
            ctypes.addressof(table), ctypes.addressof(self.record), *map(ctypes.addressof, storages)
        )
        self.address = ctypes.addressof(self.slots)
        self.stream = stream
        self.keep = (storages, arguments)
        """What the call reads must outlive it, also when it is queued."""


_STUB_PASSES = ("add_sroa_pass", "add_instruction_combine_pass", "add_simplify_cfg_pass")
"""LLVM's default pipeline leaves 45 KB behind for each module, and a host function has nothing for it to do."""


INTERRUPTED = 4
"""Status of a launch on the cpu stack that Control-C ended."""


def interrupted(text: str) -> NoReturn:
    """Raise what Control-C raises: by the program's own handler of the signal where it has one."""
    if signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, None):
        signal.raise_signal(signal.SIGINT)
        raise LaunchError(text, code=INTERRUPTED)
    raise KeyboardInterrupt(text)


class LoadedFunction:
    """An artifact loaded on one device."""

    def __init__(self, artifact: CompiledArtifact, runtime: DeviceRuntime, binary: bytes):
        self.artifact = artifact
        self.runtime = runtime
        self.side_buffers: SideBuffers | None = None
        """What makes and reads the memory that launches add by themselves."""
        artifact.check_runnable()
        self.module = runtime.module_load(binary)
        if artifact.metadata.get("load_hooks") or artifact.load_hooks:
            run_load_hooks(artifact, self.module.handle)
        try:
            self.functions = [
                runtime.function(self.module, k["name"], shared_bytes=k.get("shared_static", 0))
                for k in artifact.kernels
            ]
        except InvalidHandleError as error:
            raise ArtifactFormatError("kernels", f"its code is not that of its kernels: {error}") from error
        self._allow_dynamic_shared()
        self.table = (ctypes.c_void_p * (len(self.functions) + 1))(*(f.handle for f in self.functions), 0)
        host_jit.load_libraries(artifact.metadata.get("host_libraries") or ())
        self.library = host_jit.load_object(
            host_code(artifact.sections["host"].decode(), _STUB_PASSES),
            plain=True,
            exports=[artifact.metadata["name"]],
            imports=self._imports(artifact.sections["host"]),
        )
        self.stub = STUB(self.library.address(artifact.metadata["name"]))
        self.native: Callable[[int], int] = self._on_device if hasattr(runtime, "enter") else self.stub
        """The native call, with the device current that the code was loaded on."""
        forgiving = hasattr(runtime, "context_statuses") and runtime.device_count() == 1
        self.quick: Callable[[int], int] = self.stub if forgiving else self.native
        """The same, trusting that the only device is current where a launch says if it is not (`launch_failed`)."""
        self.needs_stream = not runtime.pageable_host
        """Whether an unspecified stream must be looked up; on host memory such launches run at once."""

    def _on_device(self, slots: int) -> int:
        """Call with the device current: a thread may have none yet, or another one."""
        runtime = cast(_WithContexts, self.runtime)
        before = runtime.enter(self.module.device.ordinal)
        try:
            return self.stub(slots)
        finally:
            if before is not None:
                runtime.leave(before)

    def launch_failed(self, status: int, slots: int, record: Iterable[int]) -> None:
        """After a native call without a look at the current context: try again where that was the mistake."""
        if status in getattr(self.runtime, "context_statuses", ()):
            status = self._on_device(slots)
        if status:
            self.fail(status, list(record))

    def _imports(self, host: bytes) -> dict[str, int]:
        """What the host function calls, by name."""
        imports = {LAUNCH_SYMBOL: self.runtime.launch_symbol()}
        if EXTENDED_LAUNCH_SYMBOL.encode() in host:
            imports[EXTENDED_LAUNCH_SYMBOL] = self.runtime.launch_ex_symbol()
        if TENSOR_MAP_SYMBOL.encode() in host:
            own = getattr(self.runtime, "tensor_map_symbol", None)
            imports[TENSOR_MAP_SYMBOL] = (
                own() if own is not None else cast(_WithTable, self.runtime).table().address("tensor_map_encode")
            )
        if SIDE_BUFFER_SYMBOL.encode() in host:
            from ...runtime.side_buffers import SideBuffers

            self.side_buffers = SideBuffers(self.artifact.metadata["name"], self.artifact.kernels, self.runtime)
            imports |= self.side_buffers.addresses
        return imports

    def _allow_dynamic_shared(self) -> None:
        """Kernels with dynamic shared memory may ask for all the device has; the driver wants to be told once."""
        if b".extern .shared" not in self.artifact.sections.get("ptx", b""):
            return
        for function in self.functions:
            limit = function.device.capabilities.shared_mem_per_block_optin
            if limit is not None:
                self.runtime.set_dynamic_smem_limit(function, limit - (function.shared_static or 0))

    def call(self, arguments: Sequence[Argument]) -> None:
        """Launch with these argument adapters, in parameter order."""
        self.run(self.pack(arguments))

    def pack(self, arguments: Sequence[Argument]) -> PackedCall:
        """Storage for the arguments of one call, filled."""
        self._check_writable(arguments)
        storages: list[Storage] = []
        stream: StreamArgument | None = None
        stream_cell = ctypes.c_void_p(0)
        for argument in arguments:
            if isinstance(argument, StreamArgument):
                stream = argument
                storages.append(stream_cell)
                continue
            for ctype, fill in argument.__c_abi_spec__():
                storage = ctype()
                fill(argument, storage)
                storages.append(storage)
        if stream is None:
            storages.append(stream_cell)
        handle = self.stream_handle(stream, arguments)
        stream_cell.value = handle
        order_after_producers(arguments, handle, self.runtime)
        return PackedCall(self.table, storages, handle, tuple(arguments))

    def refill(self, packed: PackedCall, arguments: Sequence[Argument], changed: Iterable[Argument]) -> None:
        """Write the arguments that changed into the storage of a call; the stream stays."""
        self._check_writable(arguments)
        storages, wanted = packed.keep[0], {id(argument) for argument in changed}
        index = 0
        for argument in arguments:
            spec = argument.__c_abi_spec__()
            if id(argument) in wanted:
                for (_, fill), storage in zip(spec, storages[index : index + len(spec)], strict=True):
                    fill(argument, storage)
            index += len(spec)
        order_after_producers([a for a in arguments if id(a) in wanted], packed.stream, self.runtime)
        packed.keep = (storages, tuple(arguments))

    def _check_writable(self, arguments: Sequence[Argument]) -> None:
        """Refuse read-only arrays that kernels store to."""
        for position, name in cast("list[tuple[int, str]]", self.artifact.metadata.get("stores", ())):
            argument = arguments[position] if position < len(arguments) else None
            if isinstance(argument, TensorArgument) and not argument.info.writable:
                WRITABLE.demand(argument.info.owner, argument, f"parameter '{name}': ")

    def is_queued(self, packed: PackedCall) -> bool:
        """Whether the call goes through a stream's queue instead of running here."""
        return bool(packed.stream) and hasattr(self.runtime, "enqueue")

    def run(self, packed: PackedCall) -> None:
        """Make the native call, or queue it on its stream."""
        _ = self.module.handle  # raises if the runtime was reset
        if listeners.launch_hooks_set:
            listeners.call_hooks("enter", self.artifact)
            self._run(packed)
            listeners.call_hooks("exit", self.artifact)
        else:
            self._run(packed)

    def _run(self, packed: PackedCall) -> None:

        def go() -> None:
            status = self.native(packed.address)
            if status:
                self.fail(status, list(packed.record))

        if self.is_queued(packed):
            cast(_WithQueues, self.runtime).enqueue(packed.stream, go)
        else:
            go()
        if config.runtime.launch_blocking:
            self._wait(packed)

    def _wait(self, packed: PackedCall) -> None:
        """Wait for a launch, so that a fault is reported at the launch that caused it."""
        try:
            self.runtime.stream_synchronize(packed.stream)
        except FlyRuntimeError as error:
            values = ", ".join(map(repr, packed.keep[1]))
            error.add_note(
                f"while waiting for {self.artifact.metadata['name']}, with {values}; it last launched "
                f"{self._last_launch(list(packed.record))}"
            )
            raise

    def _last_launch(self, record: list[int]) -> str:
        """Kernel, geometry and source line of the launch that a record tells of."""
        kernel = self.artifact.kernels[record[0] & 0xFFFFFFFF]
        source = kernel.get("source")
        where = f", at {source[0]}:{source[1]}" if source else ""
        return (
            f"kernel '{kernel['name']}' with grid {tuple(record[1:4])}, block {tuple(record[4:7])}, "
            f"{record[7]} bytes shared{where}"
        )

    def stream_handle(self, stream: StreamArgument | None, arguments: Sequence[Argument]) -> int:
        """The stream to launch on: the one given, else the framework's current one, else the default."""
        if stream is not None and stream.stream.handle is not None:
            return stream.stream.handle
        return self.current_stream([a.info.owner for a in arguments if isinstance(a, TensorArgument)])

    def current_stream(self, values: Sequence[object]) -> int:
        """The stream of a launch that names none; `values` are its arrays."""
        return unspecified_stream(values, self.runtime)

    def fail(self, status: int, record: list[int]) -> None:
        """Raise for a launch that did not succeed."""
        kernel = self.artifact.kernels[record[0] & 0xFFFFFFFF]["name"]
        where = self._last_launch(record)
        if status == SIDE_BUFFER_FAILED and self.side_buffers is not None:
            self.side_buffers.raise_failure()
        if status == BAD_GEOMETRY:
            raise LaunchError(f"{where}: extents must be between 0 and 2**31 - 1", kernel=kernel)
        if status == INTERRUPTED and self.runtime.pageable_host:
            loops = ", ".join(self.artifact.metadata.get("loops", {}).get(kernel, ())[:8])
            interrupted(
                f"{where}: interrupted, its results are incomplete" + (f"; its loops: {loops}" if loops else "")
            )
        check = getattr(self.runtime, "check_launch_status", None)
        if check is not None:
            try:
                check(status, kernel)
            except FlyRuntimeError as error:
                error.add_note(f"the launch: {where}{self._too_much(record)}")
                raise
        raise LaunchError(where, code=status, name=self.runtime.error_string(status), kernel=kernel)

    def _too_much(self, record: list[int]) -> str:
        """Which limit of its device a launch is beyond, where drivers say no more than that something is wrong."""
        function = self.functions[record[0] & 0xFFFFFFFF]
        x, y, z, *block = record[1:7]
        try:
            check_launch(
                function, function.device.capabilities, (x, y, z), (block[0], block[1], block[2]), record[7], None
            )
        except (OutOfResourcesError, ValueError) as error:
            return f"; {error}"
        return ""
