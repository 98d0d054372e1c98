"""Loading an artifact on a device and calling it: fill the argument slots, one native call."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

from ..errors import DSLTypeError, LaunchError
from ..llvm import host_jit
from ..llvm.stub_abi import BAD_GEOMETRY, FAILURE_BYTES, LAUNCH_SYMBOL
from .arguments import StreamArgument, TensorArgument
from .artifact import CompiledArtifact

STUB = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


class PackedCall:
    """The slots of one call and what they point to."""

    __slots__ = ("address", "keep", "record", "slots", "stream")

    def __init__(self, table: Any, storages: list[Any], stream: int, arguments: tuple[Any, ...]):
        self.record = (ctypes.c_int64 * (FAILURE_BYTES // 8))()
        self.slots = (ctypes.c_void_p * (len(storages) + 2))(
            ctypes.addressof(table), ctypes.addressof(self.record), *map(ctypes.addressof, storages)
        )
        self.address = ctypes.addressof(self.slots)
        self.stream = stream
        self.keep = (storages, arguments)
        """What the call reads must outlive it, also when it is queued."""


class LoadedFunction:
    """An artifact loaded on one device."""

    def __init__(self, artifact: CompiledArtifact, runtime: Any, binary: bytes):
        self.artifact = artifact
        self.runtime = runtime
        self.module = runtime.module_load(binary)
        self.functions = [
            runtime.function(self.module, k["name"], shared_bytes=k.get("shared_static", 0)) for k in artifact.kernels
        ]
        self._allow_dynamic_shared()
        self._enter = getattr(runtime, "enter", None)
        self.table = (ctypes.c_void_p * (len(self.functions) + 1))(*(f.handle for f in self.functions), 0)
        self.library = host_jit.load_ir(
            artifact.sections["host"].decode(),
            opt_level=1,
            exports=[artifact.metadata["name"]],
            imports={LAUNCH_SYMBOL: runtime.launch_symbol()},
        )
        self.stub = STUB(self.library.address(artifact.metadata["name"]))
        self.needs_stream = runtime.kind != "cpu"
        """Whether an unspecified stream must be looked up; the cpu stack runs such launches at once."""

    def _allow_dynamic_shared(self) -> None:
        """Kernels with dynamic shared memory may ask for all the device has; the driver wants to be told once."""
        if b".extern .shared" not in self.artifact.sections.get("ptx", b""):
            return
        for function in self.functions:
            limit = function.device.capabilities.shared_mem_per_block_optin
            if limit is not None:
                self.runtime.set_dynamic_smem_limit(function, limit - (function.shared_static or 0))

    def call(self, arguments: Sequence[Any]) -> None:
        """Launch with these argument adapters, in parameter order."""
        self.run(self.pack(arguments))

    def pack(self, arguments: Sequence[Any]) -> PackedCall:
        """Storage for the arguments of one call, filled."""
        storages: list[Any] = []
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
        return PackedCall(self.table, storages, handle, tuple(arguments))

    def is_queued(self, packed: PackedCall) -> bool:
        """Whether the call goes through a stream's queue instead of running here."""
        return bool(packed.stream) and hasattr(self.runtime, "enqueue")

    def run(self, packed: PackedCall) -> None:
        """Make the native call, or queue it on its stream."""

        def go() -> None:
            status = self.stub(packed.address)
            if status:
                self.fail(status, list(packed.record))

        if self.is_queued(packed):
            self.runtime.enqueue(packed.stream, go)
        else:
            go()

    def stream_handle(self, stream: StreamArgument | None, arguments: Sequence[Any]) -> int:
        """The stream to launch on: the one given, else the framework's current one, else the default."""
        if stream is not None and stream.stream.handle is not None:
            return stream.stream.handle
        if not self.needs_stream:
            return 0
        return self.current_stream([a.info.owner for a in arguments if isinstance(a, TensorArgument)])

    def current_stream(self, values: Sequence[Any]) -> int:
        """Current stream of the framework that owns the first device array, else the default stream."""
        torch = sys.modules.get("torch")
        if torch is not None:
            for value in values:
                if isinstance(value, torch.Tensor):
                    return torch.cuda.current_stream(value.device).cuda_stream
        return 0

    def fail(self, status: int, record: list[int]) -> None:
        """Raise for a launch that did not succeed."""
        kernel = self.artifact.kernels[record[0] & 0xFFFFFFFF]["name"]
        where = (
            f"kernel '{kernel}' with grid {tuple(record[1:4])}, block {tuple(record[4:7])}, {record[7]} bytes shared"
        )
        if status == BAD_GEOMETRY:
            raise LaunchError(f"{where}: extents must be between 0 and 2**31 - 1", kernel=kernel)
        check = getattr(self.runtime, "check_launch_status", None)
        if check is not None:
            check(status, kernel)
        raise LaunchError(where, code=status, name=self.runtime.error_string(status), kernel=kernel)


def check_devices(arguments: dict[str, Any], kind: str) -> None:
    """Every tensor must live where the stack can reach it."""
    for name, argument in arguments.items():
        if isinstance(argument, TensorArgument) and argument.info.device != kind:
            here, there = argument.info.device, kind
            hint = (
                "copy it to the device first"
                if here == "cpu"
                else "copy it to host memory, or choose the other stack with FLYDSL_COMPILE_BACKEND"
            )
            raise DSLTypeError(
                f"parameter '{name}': the array is in {'host' if here == 'cpu' else here} memory, "
                f"but the active stack is '{there}'; {hint}"
            )
