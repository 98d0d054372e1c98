"""Which kernels a call launches, with which grid and arguments: its host code is run with a launch that only notes."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ...compiler.build.artifact import CompiledArtifact
from ...compiler.call.arguments import Argument, StreamArgument
from ...compiler.call.dispatch import STUB, TENSOR_MAP_SYMBOL, PackedCall
from ...errors import DSLRuntimeError
from ...llvm import host_jit
from ...llvm.stub_abi import EXTENDED_LAUNCH_SYMBOL, LAUNCH_SYMBOL
from ...runtime.side_buffers import NoSideBuffers

DEVICE_ALIGNMENT = 256
"""Of what a GPU's allocator gives."""
_U32, _POINTER = ctypes.c_uint32, ctypes.c_void_p
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int32, _POINTER, *[_U32] * 7, _POINTER, ctypes.POINTER(_POINTER), _POINTER)
_EXTENDED = ctypes.CFUNCTYPE(ctypes.c_int32, _POINTER, _POINTER, ctypes.POINTER(_POINTER), _POINTER)
_MAP = ctypes.CFUNCTYPE(ctypes.c_int32, *[_POINTER] * 12)


@dataclass(frozen=True)
class Launch:
    """One launch."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    """Dynamic bytes."""
    parameters: Mapping[int, bytes]
    """By number."""

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]


def launches_of(artifact: CompiledArtifact, arguments: Sequence[Argument]) -> list[Launch]:
    """What a call with these argument adapters would launch; nothing is."""
    found: list[Launch] = []
    kernels = artifact.kernels

    def note(handle: int | None, grid: Sequence[int], block: Sequence[int], shared: int, params: Any) -> int:
        kernel = kernels[(handle or 1) - 1]
        about: list[Mapping[str, object]] = list(kernel.get("parameters", ()))
        held = {i: ctypes.string_at(params[i], cast(int, p["size"])) for i, p in enumerate(about) if params[i]}
        for i, data in held.items():
            if str(about[i].get("type", "")).startswith("ptr"):
                held[i] = _on_a_device(data)
        found.append(Launch(kernel["name"], tuple(grid), tuple(block), shared, held))  # pyright: ignore[reportArgumentType]
        return 0

    def launch(f: Any, *rest: Any) -> int:
        return note(f, rest[0:3], rest[3:6], rest[6], rest[8])

    def extended(config: Any, f: Any, params: Any, extra: Any) -> int:
        words = (ctypes.c_uint32 * 7).from_address(config)
        return note(f, list(words[0:3]), list(words[3:6]), words[6], params)

    keep = (_LAUNCH(launch), _EXTENDED(extended), _MAP(lambda *_: 0))
    addresses = [ctypes.cast(each, _POINTER).value or 0 for each in keep]
    names = (LAUNCH_SYMBOL, EXTENDED_LAUNCH_SYMBOL, TENSOR_MAP_SYMBOL)
    host = artifact.sections["host"]
    imports = {name: at for name, at in zip(names, addresses, strict=True) if name.encode() in host}
    quiet = NoSideBuffers()
    imports |= {name: at for name, at in quiet.addresses.items() if name.encode() in host}
    library = host_jit.load_ir(host.decode(), opt_level=1, exports=[artifact.metadata["name"]], imports=imports)
    with library:
        table = (_POINTER * (len(kernels) + 1))(*range(1, len(kernels) + 1), 0)
        packed = PackedCall(table, _storages(arguments), 0, tuple(arguments))
        status = STUB(library.address(artifact.metadata["name"]))(packed.address)
    if status:
        raise DSLRuntimeError(
            f"the host code of {artifact.name} ended with status {status} before it launched anything"
        )
    return found


def _on_a_device(address: bytes) -> bytes:
    """Where an array would start: the host's lie at multiples of 16, which would cost sectors that a GPU does not."""
    at = int.from_bytes(address, "little")
    return (at - at % DEVICE_ALIGNMENT).to_bytes(len(address), "little")


def _storages(arguments: Sequence[Argument]) -> list[Any]:
    storages: list[Any] = []
    stream = False
    for argument in arguments:
        if isinstance(argument, StreamArgument):
            storages.append(ctypes.c_void_p(0))
            stream = True
            continue
        for ctype, fill in argument.__c_abi_spec__():
            storage = ctype()
            fill(argument, storage)
            storages.append(storage)
    if not stream:
        storages.append(ctypes.c_void_p(0))
    return storages
