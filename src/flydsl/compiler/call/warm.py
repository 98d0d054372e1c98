"""The warm path of a call: a generated binder, one dictionary lookup, a generated filler, one native call.

It serves calls whose arguments are plain arrays, numbers, streams and compile-time values, exactly as a slower call
with the same signature was served before. Whatever it does not recognise it leaves to that slower path, which also
makes all error messages.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import config
from ...expr.gpu import Stream
from ...expr.numeric import Numeric
from ...expr.scalars.fastmath import FastMathFlags, effective
from ...expr.structs import StructValue
from ...llvm.stub_abi import FAILURE_BYTES
from ...runtime.dlpack import row_major
from ...runtime.objects import Buffer, current_stream
from .. import listeners
from ..hints import has_ambient
from .arguments import ScalarArgument, StreamArgument, TensorArgument
from .placement import placed
from .struct_arguments import leaves_of, struct_leaves

if TYPE_CHECKING:
    from ..build.artifact import CompiledArtifact
    from ..frontend.signature import Signature
    from ..jit_function import BoundCall
    from ..key.dependencies import FunctionKey
    from .dispatch import LoadedFunction

_byte = ctypes.c_char


class Slow(Exception):
    """This call needs the slower path."""


def _numpy_key(x: Any) -> Any:
    """What of a numpy array decides the compiled code; only contiguous ones are served here."""
    flags = x.flags
    if not (flags.c_contiguous or flags.f_contiguous):
        raise Slow
    if not x.size:
        return x.dtype, x.ndim, _leading_of_empty(x)
    try:
        return x.dtype, x.ndim, x.strides.index(x.itemsize)
    except ValueError:
        raise Slow from None


def _torch_key(x: Any) -> Any:
    """The same for a torch tensor; its device counts as well."""
    if x.is_neg():
        raise Slow  # its memory holds other values
    try:
        leading = x.stride().index(1) if x.numel() else _leading_of_empty(x)
        return x.dtype, x.dim(), leading, x.device
    except ValueError:
        raise Slow from None


def _leading_of_empty(x: Any) -> int:
    """Without elements an array is compiled for as if it were dense (`array_info`): its strides say nothing."""
    return row_major(tuple(x.shape)).index(1)


def _adapter_key(x: TensorArgument) -> Any:
    return x.signature(), x.info.device, x.info.ordinal


def numpy_address(x: Any) -> int:
    """Address of the first element; the quick way works for writable arrays in C order."""
    try:
        return ctypes.addressof(_byte.from_buffer(x))
    except (TypeError, ValueError, BufferError):
        return x.__array_interface__["data"][0]


_ARRAY_KEYS: dict[type, Callable[[Any], Any]] = {TensorArgument: _adapter_key}


def _array_key(x: Any) -> Any:
    cls: type[Any] = type(x)  # pyright: ignore[reportUnknownVariableType]
    find = _ARRAY_KEYS.get(cls)
    return _learn(cls)(x) if find is None else find(x)


def _learn(cls: type) -> Callable[[Any], Any]:
    """Recognise the array classes of frameworks by name, so that none is imported."""
    name = (cls.__module__, cls.__qualname__)
    if name == ("numpy", "ndarray"):
        _ARRAY_KEYS[cls] = _numpy_key
    elif name in (("torch", "Tensor"), ("torch.nn.parameter", "Parameter")):
        _ARRAY_KEYS[cls] = _torch_key
    else:
        raise Slow
    return _ARRAY_KEYS[cls]


def _value_key(x: Any) -> Any:
    cls: type[Any] = type(x)  # pyright: ignore[reportUnknownVariableType]
    if cls in (int, float, bool):
        return cls
    if isinstance(x, StructValue):
        if leaves_of(x) is None:
            raise Slow
        return cls
    return _array_key(x)


def _constant_key(x: Any) -> Any:
    if type(x) is float:
        return x.hex()
    if type(x) in (int, bool, str):
        return type(x), x
    raise Slow


def _type_key(x: Any) -> Any:
    """Classes of the language stay what they are; what others hold may change, and is looked at anew."""
    if isinstance(x, type) and issubclass(x, Numeric):
        return x
    raise Slow


def _stream_key(x: Any) -> Any:
    if x is None or (type(x) is Stream and x.raw is None):
        return None
    raise Slow


def _scalar_key(x: Any) -> Any:
    if type(x) in (int, float, bool):
        return None
    raise Slow


def make_binder(signature: Signature) -> Callable[..., tuple[Any, tuple[Any, ...]]]:
    """A function with the parameters of the jit function that gives a key and the arguments in order."""
    names = list(signature.parameters)
    scope: dict[str, Any] = {f"_k_{name}": _key_of(p) for name, p in signature.parameters.items()}
    keys = [f"_k_{name}({name})" for name in names]
    text = (
        f"def bind({signature.text(scope)}):\n"
        f"    return ({', '.join(keys)}{',' if keys else ''}), ({', '.join(names)}{',' if names else ''})\n"
    )
    exec(text, scope)
    return scope["bind"]


def _key_of(parameter: Any) -> Callable[[Any], Any]:
    if parameter.optional:
        find = _key_of(replace(parameter, optional=False))
        return lambda x: "None" if x is None else find(x)
    annotation = parameter.annotation
    if parameter.kind == "constexpr":
        return _constant_key
    if parameter.kind == "type":
        return _type_key
    if annotation is Stream:
        return _stream_key
    if isinstance(annotation, type) and issubclass(annotation, Numeric):
        return _scalar_key
    return _value_key


class _Storage(NamedTuple):
    """Where the arguments of one call are written."""

    cells: list[Any]
    record: Any
    slots: Any
    address: int


class CallState:
    """A signature's loaded code with everything a repeated call needs."""

    def __init__(self, call: BoundCall, loaded: LoadedFunction, function: FunctionKey):
        self._loaded = loaded
        self._function = function
        self.repeat: Callable[..., bool] | None = None
        """The repeated call (`repeat.py`), where the arguments allow one."""
        self.repeat_made = False
        self._environment = config.environment_version()
        # Calls that must be waited for, checked, told of, or ordered after a producer's stream do not come this way.
        asked = config.runtime.launch_blocking or config.runtime.check_args or listeners.launch_hooks_set
        # Files that stand for stages may be edited between any two calls.
        asked = asked or config.compile.override_dir is not None
        if asked or _needs_checks(call):
            raise Slow
        self._several = loaded.runtime.device_count() > 1
        if self._several and not placed(call.adapted, loaded.runtime):
            raise Slow  # Only the current device says where to launch.
        self._free: list[_Storage] = []
        """Storage that no call uses now: calls of other threads, or inside a call, have their own."""
        self._kinds = {name: _kind(a) for name, a in call.adapted.items()}
        self._specs = {name: a.__c_abi_spec__() for name, a in call.adapted.items()}
        if not any(isinstance(a, StreamArgument) for a in call.adapted.values()):
            self._specs["<stream>"] = [(ctypes.c_void_p, _leave)]
        self._stream_cell = self._index_of_stream(call)
        self.fill = self._make_fill(call)

    def _index_of_stream(self, call: BoundCall) -> int:
        """Which storage cell holds the stream: that of the stream parameter, else the last."""
        index = 0
        for name, spec in self._specs.items():
            if isinstance(call.adapted.get(name), StreamArgument):
                return index
            index += len(spec)
        return index - 1

    @property
    def loaded(self) -> LoadedFunction:
        """The code it calls, in this process."""
        return self._loaded

    def artifact(self) -> CompiledArtifact:
        """The code it calls."""
        return self._loaded.artifact

    def same_settings(self) -> bool:
        """Whether the environment and what the process is told by calls is what it was."""
        return self._environment == config.environment_version()

    def valid(self) -> bool:
        """Whether nothing that shaped the code has changed since."""
        return (
            self.same_settings()
            and self._function.check(environment=False)
            and not has_ambient()
            and effective() is FastMathFlags.none
        )

    def _make_fill(self, call: BoundCall) -> Callable[..., None]:
        """Generated code: one statement or two per argument, from the arguments to their storage cells."""
        scope: dict[str, Any] = {"numpy_address": numpy_address, "Slow": Slow}
        lines: list[str] = []
        number = 0
        own = {name: f"a{i}" for i, name in enumerate(call.arguments)}  # the user's names may be those used here
        for given in call.arguments:
            spec = self._specs.get(given)
            if spec is None:
                continue
            cells = [f"__c[{number + i}]" for i in range(len(spec))]
            number += len(spec)
            argument = call.adapted[given]
            kind, name = self._kinds[given], own[given]
            if isinstance(argument, TensorArgument):
                lines += _tensor_lines(name, argument, kind, cells, scope)
            elif isinstance(argument, ScalarArgument):
                from ...expr.scalars.scalar_abi import c_abi_slot

                scope[f"_f_{name}"] = c_abi_slot(argument.dtype)[1]
                lines.append(f"    _f_{name}({name}, {cells[0]})")
            elif struct_leaves(argument) is not None:
                for i, (_, fill) in enumerate(argument.adapter.__c_abi_spec__()):
                    scope[f"_f{i}_{name}"] = fill
                    lines.append(f"    _f{i}_{name}({name}, {cells[i]})")
            elif not isinstance(argument, StreamArgument):
                raise Slow
        names = ", ".join(own.values())
        exec(f"def fill(__c, {names}):\n" + "\n".join([*lines, "    return None"]) + "\n", scope)
        return scope["fill"]

    def _new_storage(self) -> _Storage:
        cells = [ctype() for spec in self._specs.values() for ctype, _ in spec]
        record = (ctypes.c_int64 * (FAILURE_BYTES // 8))()
        slots = (ctypes.c_void_p * (len(cells) + 2))(
            ctypes.addressof(self._loaded.table), ctypes.addressof(record), *map(ctypes.addressof, cells)
        )
        return _Storage(cells, record, slots, ctypes.addressof(slots))

    def run(self, values: tuple[Any, ...]) -> None:
        """Launch with new arguments of the same signature, on the unspecified stream."""
        if not self._loaded.runtime.alive:
            raise Slow
        try:
            storage = self._free.pop()
        except IndexError:
            storage = self._new_storage()
        try:
            self.fill(storage.cells, *values)
        except (struct.error, OverflowError):
            raise Slow from None
        if self._loaded.needs_stream:
            if self._several and current_stream() is not None:
                raise Slow
            storage.cells[self._stream_cell].value = self._loaded.current_stream(values)
        elif current_stream() is not None:
            raise Slow  # A queued launch needs storage of its own.
        status = self._loaded.native(storage.address)
        if status:
            self._loaded.fail(status, list(storage.record))
        self._free.append(storage)


def _needs_checks(call: BoundCall) -> bool:
    """Whether an argument has a producer's stream to wait for, or is a buffer, which may have been freed."""
    infos = (a.info for a in call.adapted.values() if isinstance(a, TensorArgument))
    return any(info.stream is not None or isinstance(info.owner, Buffer) for info in infos)


def _leave(arg: Any, storage: Any) -> None:
    """A stream that is not chosen by the caller keeps its storage as it is."""


def _kind(argument: Any) -> str:
    if not isinstance(argument, TensorArgument):
        return "other"
    owner: type[Any] = type(argument.info.owner)  # pyright: ignore[reportUnknownVariableType]
    return "numpy" if owner.__module__ == "numpy" else "torch" if owner.__module__.startswith("torch") else "other"


def _tensor_lines(name: str, argument: TensorArgument, kind: str, cells: list[str], scope: dict[str, Any]) -> list[str]:
    extents = [i for i, s in enumerate(argument.shape) if s is None]
    steps = [i for i, s in enumerate(argument.strides) if s is None]
    raw = argument.is_default
    if not raw:
        lines = [f"    __i = {name}.info", f"    {cells[0]}.value = __i.pointer"]
        lines += ["    __n = __i.shape", "    __s = __i.strides"]
        step = "__s[{}]"
    elif kind == "numpy":
        lines = _address_lines(f"numpy_address({name})", f"{name}.size", argument, cells[0])
        lines += [f"    __n = {name}.shape", f"    __s = {name}.strides"]
        step = f"__s[{{}}] // {max(argument.dtype.width // 8, 1)}"
    elif kind == "torch":
        lines = _address_lines(f"{name}.data_ptr()", f"{name}.numel()", argument, cells[0])
        lines += [f"    __n = {name}.shape", f"    __s = {name}.stride()"]
        step = "__s[{}]"
    else:
        raise Slow
    if len(cells) > 1:
        width = "q" if argument.stride_width == 64 else "i"
        scope[f"_p_{name}"] = struct.Struct("<" + "i" * len(extents) + width * len(steps)).pack_into
        values = ", ".join([*(f"__n[{i}]" for i in extents), *(step.format(i) for i in steps)])
        lines.append(f"    _p_{name}({cells[1]}, 0, {values})")
    return lines


def _address_lines(address: str, elements: str, argument: TensorArgument, cell: str) -> list[str]:
    """The slower path tells of an array that is not aligned to its elements, or whose storage has been freed."""
    odd = f"__p & {argument.align - 1} or " if argument.align > 1 else ""
    return [
        f"    __p = {address}",
        f"    if {odd}not __p and {elements}: raise Slow",
        f"    {cell}.value = __p",
    ]
