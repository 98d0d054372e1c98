"""Loading an artifact on a device and calling it: fill the argument slots, one native call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ..errors import DSLTypeError, LaunchError
from ..llvm import host_jit
from ..llvm.stub_abi import BAD_GEOMETRY, FAILURE_BYTES, LAUNCH_SYMBOL
from .arguments import StreamArgument, TensorArgument
from .artifact import CompiledArtifact

STUB = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


class LoadedFunction:
    """An artifact loaded on one device."""

    def __init__(self, artifact: CompiledArtifact, runtime: Any, binary: bytes):
        self.artifact = artifact
        self.runtime = runtime
        self.module = runtime.module_load(binary)
        self.functions = [
            runtime.function(self.module, k["name"], shared_bytes=k.get("shared_static", 0)) for k in artifact.kernels
        ]
        self.table = (ctypes.c_void_p * (len(self.functions) + 1))(*(f.handle for f in self.functions), 0)
        self.library = host_jit.load_ir(
            artifact.sections["host"].decode(),
            opt_level=1,
            exports=[artifact.metadata["name"]],
            imports={LAUNCH_SYMBOL: runtime.launch_symbol()},
        )
        self.stub = STUB(self.library.address(artifact.metadata["name"]))

    def call(self, arguments: Sequence[Any]) -> None:
        """Launch with these argument adapters, in parameter order."""
        storages: list[Any] = []
        stream: StreamArgument | None = None
        for argument in arguments:
            if isinstance(argument, StreamArgument):
                stream = argument
                cell = ctypes.c_void_p(0)
                storages.append(cell)
                stream_cell = cell
                continue
            for ctype, fill in argument.__c_abi_spec__():
                storage = ctype()
                fill(argument, storage)
                storages.append(storage)
        if stream is None:
            stream_cell = ctypes.c_void_p(0)
            storages.append(stream_cell)
        handle = self.stream_handle(stream, arguments)
        stream_cell.value = handle  # pyright: ignore[reportPossiblyUnboundVariable]
        record = (ctypes.c_int64 * (FAILURE_BYTES // 8))()
        slots = (ctypes.c_void_p * (len(storages) + 2))(
            ctypes.addressof(self.table), ctypes.addressof(record), *map(ctypes.addressof, storages)
        )

        def run() -> None:
            status = self.stub(ctypes.addressof(slots))
            if status:
                self.fail(status, list(record))

        # What the call reads must outlive it, also when it is queued.
        keep = (slots, storages, record, arguments)
        enqueue = getattr(self.runtime, "enqueue", None)
        if enqueue is not None and handle:

            def queued() -> None:
                run()
                _ = keep

            enqueue(handle, queued)
        else:
            run()

    def stream_handle(self, stream: StreamArgument | None, arguments: Sequence[Any]) -> int:
        """The stream to launch on: the one given, else the framework's current one, else the default."""
        if stream is not None and stream.stream.handle is not None:
            return stream.stream.handle
        if self.runtime.kind == "cpu":
            return 0
        import sys

        torch = sys.modules.get("torch")
        if torch is not None:
            for argument in arguments:
                if isinstance(argument, TensorArgument) and isinstance(argument.info.owner, torch.Tensor):
                    return torch.cuda.current_stream(argument.info.owner.device).cuda_stream
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
