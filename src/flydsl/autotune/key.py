"""What decides a winner: the arguments that count, the code, the candidates, the device, the settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CellType, CodeType, FunctionType
from typing import NamedTuple, cast

from .. import config
from ..compiler.active_backend import resolve_backend
from ..compiler.hints import ambient, merge
from ..compiler.jit_function import JitFunction
from ..compiler.key.origin import distribution_version
from ..compiler.key.product import environment_components
from ..compiler.key.walk import function_key
from .arrays import CallArray


class DeviceIdentity(NamedTuple):
    """What of a device decides which configuration is best on it."""

    name: str
    arch: str
    compute_units: int

    def to_dict(self) -> dict[str, object]:
        return {"name": self.name, "arch": self.arch, "compute_units": self.compute_units}


def device_identity() -> DeviceIdentity | None:
    """The current device; None where nothing will run, because this process only compiles."""
    if config.compile.compile_only:
        return None
    from ..runtime.device_runtime import get_device_runtime

    runtime = get_device_runtime()
    device = runtime.device(runtime.current_device_id())
    return DeviceIdentity(device.name, device.arch, device.capabilities.compute_units or 0)


def plain(value: object) -> object:
    """A value of a key as JSON has it: numbers and text as they are, types and dtypes by name, the rest as text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else repr(value)
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, tuple | list):
        return [plain(each) for each in cast("Sequence[object]", value)]
    return str(value).removeprefix("torch.")


def declared(names: Sequence[str], named: Mapping[str, object], arrays: Sequence[CallArray]) -> dict[str, object]:
    """The values of the declared key: the shape of an array, the name of a dtype, else the value."""
    shapes = {array.name: array.info.shape for array in arrays}
    owners = {id(array.owner): array.info.shape for array in arrays}
    found: dict[str, object] = {}
    for name in names:
        value = named[name]
        shape = shapes.get(name, owners.get(id(value)))
        found[name] = list(shape) if shape is not None else plain(value)
    return found


def stride_pattern(array: CallArray) -> list[str]:
    """Strides as 0, 1 or other: what decides how memory is walked, not how large it is."""
    return ["0" if s == 0 else "1" if s == 1 else "n" for s in array.info.strides]


def code_digest(fn: Callable[..., object]) -> str:
    """What the function and everything it reaches are, our own version and the tools' included.

    Of a plain function: its code, that of plain functions it names, and the jit functions and kernels among them.
    Values it reads are its own affair; what decides a configuration belongs into the key.
    """
    if isinstance(fn, JitFunction):
        return fn.function_key().digest
    seen: dict[int, str] = {}
    found = [*(f"{c.name} {c.digest}" for c in environment_components()), *_codes(fn, seen)]
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


def _codes(fn: object, seen: dict[int, str]) -> Iterator[str]:
    if id(fn) in seen:
        return
    seen[id(fn)] = ""
    if isinstance(fn, JitFunction):
        yield fn.function_key().digest
    elif hasattr(fn, "__fly_function__"):  # a kernel
        yield function_key(fn).digest
    elif isinstance(fn, FunctionType):
        yield from _code(fn.__code__)
        cells = [_content(cell) for cell in fn.__closure__ or ()]
        for value in (*(fn.__globals__.get(name) for name in fn.__code__.co_names), *cells):
            yield from _codes(value, seen)


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _code(code: CodeType) -> Iterator[str]:
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield _constant(constant)


def _constant(value: object) -> str:
    """A constant of code as text that is the same in every process: sets have no order of their own."""
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_constant, cast('frozenset[object]', value))))}}}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_constant, cast('tuple[object, ...]', value)))},)"
    return repr(value)


class TuningKey(NamedTuple):
    """The key of a winner, with what it was made of."""

    digest: str
    parts: dict[str, object]


def tuning_key(
    fn: Callable[..., object],
    names: Sequence[str],
    named: Mapping[str, object],
    arrays: Sequence[CallArray],
    candidates: str,
    device: DeviceIdentity | None,
) -> TuningKey:
    """Everything of T-4; the order of keyword arguments does not count."""
    hints: Mapping[str, object] = fn.compile_hints if isinstance(fn, JitFunction) else {}
    parts: dict[str, object] = {
        "declared": declared(sorted(names), named, arrays),
        "dtypes": sorted(array.info.dtype.__name__ for array in arrays),
        "strides": {array.name: stride_pattern(array) for array in sorted(arrays, key=lambda a: a.name)},
        "environment": plain([list(pair) for pair in config.cache_relevant_env()]),
        "toolchain": {name: distribution_version(name) for name in ("xdsl", "llvmlite")},
        "target": resolve_backend(None).target.key(),
        "device": None if device is None else device.to_dict(),
        "hints": {name: plain(value) for name, value in sorted(merge(hints, ambient()).items())},
        "function": code_digest(fn),
        "candidates": candidates,
    }
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return TuningKey(hashlib.sha256(text.encode()).hexdigest(), parts)
