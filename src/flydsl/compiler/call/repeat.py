"""The repeated call: arguments of the same kinds as last time, in one generated function.

It looks at each argument once, writes numbers with one `pack_into` and arrays with one call of the native reader
(`runtime/array_reader.py`), or in Python where that does not know them, and makes the native call. Arguments it was not
made for it leave to the general warm path (`warm.py`), which serves them and has a function made for them.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ... import config
from ...expr.emit.trace import active
from ...expr.gpu import Stream
from ...expr.scalars.fastmath import ambient_flags, default_flags
from ...llvm.stub_abi import FAILURE_BYTES
from ...runtime.array_reader import ArrayPlan, can_read, make_reader
from ...runtime.objects import per_thread
from ...target import on_host
from ..hints import ambient_hints
from .arguments import ScalarArgument, StreamArgument, TensorArgument
from .host_arrays import is_cupy_array, is_torch_tensor
from .placement import placed, torch_stream_accessor
from .struct_arguments import Leaf, struct_leaves
from .warm import numpy_address

if TYPE_CHECKING:
    from ..frontend.signature import Signature
    from ..jit_function import BoundCall
    from ..key.dependencies import FunctionKey
    from .dispatch import LoadedFunction
    from .warm import CallState

_SCALARS = {"Boolean": "?", "Int8": "b", "Int16": "h", "Int32": "i", "Int64": "q", "Uint8": "B", "Uint16": "H",
            "Uint32": "I", "Uint64": "Q", "Float32": "f", "Float64": "d"}  # fmt: skip
_ALIGN = 16
_LOCALS = ("_stream", "_place", "_block", "_at", "_slots", "_more", "_status")
"""Variables of the generated function. They and the names of its scope start with `_`: parameters are the user's."""
_LOCAL = re.compile(r"_[inps]\d*_")
"""How variables start that hold something of one argument."""


class _Other(Exception):
    """An argument that a repeated call does not serve."""


class _Record:
    """Where the arguments of a call are written: one block of memory, a slot for each pointing into it."""

    def __init__(self) -> None:
        self.format = "<"
        self.size = 0
        self.values: list[str] = []
        self.offsets: list[int] = []

    def add(self, format: str, values: list[str]) -> int:
        """One more slot, and where it is; its values are written without padding between them."""
        pad = -self.size % _ALIGN
        at = self.size + pad
        self.offsets.append(at)
        self.format += "x" * pad + format
        self.size = at + struct.calcsize("<" + format)
        self.values += values
        return at

    def leave(self, format: str) -> int:
        """A slot that others write, after this record's values."""
        return self.add(f"{struct.calcsize('<' + format)}x", [])


def repeat_of(
    state: CallState, bind: Callable[[], BoundCall], signature: Signature, function: FunctionKey | None
) -> Callable[..., bool] | None:
    """The repeated call of a signature, made at its second call: what is called once is seldom called again."""
    if not state.repeat_made:
        state.repeat = make_repeat(bind(), state.loaded, signature, function)
        state.repeat_made = True
    return state.repeat


def make_repeat(
    call: BoundCall, loaded: LoadedFunction, signature: Signature, function: FunctionKey | None
) -> Callable[..., bool] | None:
    """A function with the parameters of the jit function that launches and says so, or says that it did not.

    None if some argument is of a kind it cannot serve. `function` is what the compiled code depends on; without it
    only the environment is looked at.
    """
    runtime = loaded.runtime
    if runtime.device_count() > 1 and not placed(call.adapted, runtime):
        return None  # Only the current device says where to launch; arrays are on the same device at every call.
    try:
        return _generate(call, loaded, signature, function)
    except _Other:
        return None


def _generate(
    call: BoundCall, loaded: LoadedFunction, signature: Signature, function: FunctionKey | None
) -> Callable[..., bool]:
    scope: dict[str, Any] = {"_numpy_address": numpy_address}
    record = _Record()
    guards: list[str] = []
    arrays: dict[str, ArrayPlan] = {}
    torch_device: int | None = None
    has_stream = False
    for name in signature.parameters:
        argument = call.adapted.get(name)
        if isinstance(argument, TensorArgument):
            device = _tensor(name, argument, guards, record, scope, arrays)
            torch_device = device if torch_device is None else torch_device
        elif isinstance(argument, ScalarArgument):
            _scalar(name, argument, guards, record, annotated=isinstance(signature.parameters[name].annotation, type))
        elif isinstance(argument, StreamArgument):
            guards.append(
                f"if {name} is not None and ({name}.__class__ is not _Stream or {name}.raw is not None): return"
            )
            scope["_Stream"] = Stream
            has_stream = True
            record.add("Q", ["_stream"])
        elif (leaves := struct_leaves(argument)) is not None:
            _struct(name, call.arguments[name].adapter.__class__, leaves, guards, record, scope)
        elif name in call.adapted:
            raise _Other
        else:
            _constant(name, call.arguments[name], guards, scope)
    if not has_stream:
        record.add("Q", ["_stream"])
    stream = _stream(loaded, torch_device, scope)
    scope |= _launch_scope(loaded, record)
    read: list[str] = []
    if arrays:
        scope["_read"], scope["_table"], scope["_kept"] = make_reader(list(arrays.values()))
        read += [f"        if not _read(_table, _at, {', '.join(arrays)}):", "            _give(_place); return False"]
    changed = ["_version() != _now", *(_changed(function, scope) if function is not None else [])]
    scope |= {"_version": config.environment_version, "_now": config.environment_version()}
    lines = [
        f"def _repeat({signature.text(scope)}):",
        "    if _tracing() is not None or _own.streams or not _runtime.alive: return False",
        "    try:",
        f"        if {' or '.join(changed)}: return False",
        *("        " + (g + " False" if g.endswith("return") else g) for g in guards),
        f"        _stream = {stream}",
        "        try: _place = _take()",
        "        except _NoPlace: _place = _make_place()",
        "        _block, _at, _slots, _more = _place",
        f"        _pack(_block, 0, {', '.join(record.values)})",
        *read,
        "    except _other: return False",
        "    _status = _native(_slots)",
        "    if _status: _failed(_status, _slots, _more[0])",
        "    _give(_place)",
        "    return True",
    ]
    names = signature.parameters.keys()
    if not names.isdisjoint((*_LOCALS, *scope)) or any(map(_LOCAL.match, names)):
        raise _Other  # a parameter hides a name that is needed here
    exec("\n".join(lines) + "\n", scope)
    return scope["_repeat"]


def _tensor(
    name: str,
    argument: TensorArgument,
    guards: list[str],
    record: _Record,
    scope: dict[str, Any],
    arrays: dict[str, ArrayPlan],
) -> int | None:
    """Guards and values of an array; the ordinal of the device a torch tensor is on."""
    owner: Any = argument.info.owner
    cls: type[Any] = type(owner)  # pyright: ignore[reportUnknownVariableType]
    if not argument.is_default:
        return _adapter(name, argument, guards, record, scope)
    kind = cls.__module__.partition(".")[0]
    leading = argument.info.strides.index(1)
    if can_read(owner):
        arrays[name] = _plan(argument, leading, record)
        if kind != "torch":
            return None
        if owner.itemsize == 1:  # torch describes integers of fewer bits as bytes
            scope[f"_dtype_{name}"] = owner.dtype
            guards.append(f"if {name}.dtype is not _dtype_{name}: return")
        return owner.get_device()
    scope[f"_class_{name}"], scope[f"_dtype_{name}"] = cls, owner.dtype
    guards.append(f"if {name}.__class__ is not _class_{name} or {name}.dtype is not _dtype_{name}: return")
    device = None
    if kind == "torch" and cls.__qualname__ in ("Tensor", "Parameter"):
        device = owner.get_device()
        guards.append(f"if {name}.get_device() != {device} or {name}.is_neg(): return")
        strides = f"{name}.stride()"
        one, address, divide = "1", f"{name}.data_ptr()", ""
    elif (kind, cls.__qualname__) == ("numpy", "ndarray"):
        guards.append(f"if not {name}.flags.c_contiguous: return")
        strides = f"{name}.strides"
        one, address, divide = str(owner.itemsize), f"_numpy_address({name})", f" // {owner.itemsize}"
    else:
        raise _Other
    # Unpacking checks the rank; the leading dimension is the first of stride one.
    steps_of = [f"_s{i}_{name}" for i in range(len(argument.shape))]
    guards.append(f"{', '.join(steps_of)}, = {strides}")
    wrong = [f"{s} == {one}" for s in steps_of[:leading]] + [f"{steps_of[leading]} != {one}"]
    guards.append(f"if {' or '.join(wrong)}: return")
    guards += [f"_p_{name} = {address}", f"if _p_{name} & {argument.align - 1} or not _p_{name}: return"]
    record.add("Q", [f"_p_{name}"])
    extents = [i for i, s in enumerate(argument.shape) if s is None]
    steps = [i for i, s in enumerate(argument.strides) if s is None]
    if extents or steps:
        if extents:
            guards.append(f"{', '.join(f'_n{i}_{name}' for i in range(len(argument.shape)))}, = {name}.shape")
        values = [f"_n{i}_{name}" for i in extents] + [f"{steps_of[i]}{divide}" for i in steps]
        record.add("i" * len(extents) + ("q" if argument.stride_width == 64 else "i") * len(steps), values)
    return device


def _plan(argument: TensorArgument, leading: int, record: _Record) -> ArrayPlan:
    """An array that is read natively."""
    extents = [i for i, s in enumerate(argument.shape) if s is None]
    steps = [i for i, s in enumerate(argument.strides) if s is None]
    wide = argument.stride_width == 64
    address_at = record.leave("Q")
    values_at = record.leave("i" * len(extents) + ("q" if wide else "i") * len(steps)) if extents or steps else 0
    owner = argument.info.owner
    return ArrayPlan(owner, leading, extents, steps, 8 if wide else 4, argument.align, address_at, values_at)


def _adapter(
    name: str, argument: TensorArgument, guards: list[str], record: _Record, scope: dict[str, Any]
) -> int | None:
    """The same for an array in an adapter (`from_dlpack`), which has read it and checked its marks already."""
    info = argument.info
    if is_cupy_array(info.owner):
        raise _Other  # its framework has a current stream as well, which an array of torch behind it would not tell
    scope |= {
        f"_signature_{name}": argument.signature(),
        f"_owner_{name}": type(info.owner),
        "_Adapter": TensorArgument,
    }
    guards.append(f"if {name}.__class__ is not _Adapter or {name}.signature() != _signature_{name}: return")
    guards.append(f"_i_{name} = {name}.info")
    # A class that needs no look at the memory's state, and no producer to wait for.
    guards.append(f"if _i_{name}.owner.__class__ is not _owner_{name} or _i_{name}.stream is not None: return")
    guards.append(f"if _i_{name}.device != {info.device!r} or _i_{name}.ordinal != {info.ordinal}: return")
    record.add("Q", [f"_i_{name}.pointer"])
    extents = [f"_i_{name}.shape[{i}]" for i, s in enumerate(argument.shape) if s is None]
    steps = [f"_i_{name}.strides[{i}]" for i, s in enumerate(argument.strides) if s is None]
    if extents or steps:
        letters = "i" * len(extents) + ("q" if argument.stride_width == 64 else "i") * len(steps)
        record.add(letters, [*extents, *steps])
    return info.ordinal if is_torch_tensor(info.owner) and not on_host(info.device) else None


def _scalar(name: str, argument: ScalarArgument, guards: list[str], record: _Record, *, annotated: bool) -> None:
    letter = _SCALARS.get(argument.dtype.__name__)
    if letter is None:
        raise _Other
    # Without an annotation the class of the number decides the class of the scalar.
    accepted = "bool" if letter == "?" else "float" if letter in "fd" else "int"
    also = f" and {name}.__class__ is not _int" if accepted == "float" and annotated else ""
    guards.append(f"if {name}.__class__ is not _{accepted}{also}: return")
    record.add(letter, [name])


def _struct(
    name: str, cls: type, leaves: Sequence[Leaf], guards: list[str], record: _Record, scope: dict[str, Any]
) -> None:
    """A struct of numbers: its class says which, each has a slot."""
    scope[f"_class_{name}"] = cls
    guards.append(f"if {name}.__class__ is not _class_{name}: return")
    for leaf in leaves:
        letter = _SCALARS.get(leaf.dtype.__name__)
        if letter is None:
            raise _Other
        record.add(letter, [f"{name}.{'.'.join(leaf.path)}.value"])


def _constant(name: str, value: Any, guards: list[str], scope: dict[str, Any]) -> None:
    scope[f"_constant_{name}"] = value
    if value is None:  # an optional argument that was not given
        guards.append(f"if {name} is not None: return")
    elif type(value) in (int, bool, str):
        guards.append(f"if {name}.__class__ is not _{type(value).__name__} or {name} != _constant_{name}: return")
    elif isinstance(value, type):
        guards.append(f"if {name} is not _constant_{name}: return")
    else:
        raise _Other


def _stream(loaded: LoadedFunction, torch_device: int | None, scope: dict[str, Any]) -> str:
    """Expression for the stream of a launch that names none."""
    if not loaded.needs_stream:
        return "0"
    if config.runtime.stream_policy == "default":
        return "0"
    if torch_device is None or torch_device < 0:
        raise _Other
    scope["_torch_stream"] = torch_stream_accessor()
    return f"_torch_stream({torch_device})"


def _changed(function: FunctionKey, scope: dict[str, Any]) -> list[str]:
    """Conditions under which the compiled code no longer stands; `CallState.valid` says the same with calls."""
    scope |= {"_hints": ambient_hints.get, "_flags": ambient_flags.get, "_flags_set": default_flags.get}
    conditions = ["_hints()", "_flags() is not None", "_flags_set() is not None"]
    known = function.identities()
    if known is None:
        scope["_check"] = function.check
        return [*conditions, "not _check(environment=False)"]
    names, cells, codes = known
    for i, (get, name, expected) in enumerate(names):
        scope |= {f"_get{i}": get, f"_name{i}": name, f"_is{i}": expected}
        conditions.append(f"_get{i}(_name{i}) is not _is{i}")
    for i, (cell, expected) in enumerate(cells):
        scope |= {f"_cell{i}": cell, f"_holds{i}": expected}
        conditions.append(f"_cell{i}.cell_contents is not _holds{i}")
    for i, (called, code) in enumerate(codes):
        scope |= {f"_function{i}": called, f"_code{i}": code}
        conditions.append(f"_function{i}.__code__ is not _code{i}")
    return conditions


def _launch_scope(loaded: LoadedFunction, record: _Record) -> dict[str, Any]:
    # Places that no call uses now: a call of another thread, or one inside a call (by a signal handler, or a finalizer
    # that happens to run between arguments and launch), has its own. One that fails does not come back.
    free: list[tuple[Any, int, int, tuple[Any, Any]]] = []

    def make_place() -> tuple[Any, int, int, tuple[Any, Any]]:
        block = (ctypes.c_char * max(record.size, 1))()
        failure = (ctypes.c_int64 * (FAILURE_BYTES // 8))()
        base = ctypes.addressof(block)
        slots = (ctypes.c_void_p * (len(record.offsets) + 2))(
            ctypes.addressof(loaded.table), ctypes.addressof(failure), *(base + at for at in record.offsets)
        )
        return block, base, ctypes.addressof(slots), (failure, slots)

    return {
        "_tracing": active.get,
        "_own": per_thread,
        "_runtime": loaded.runtime,
        "_take": free.pop,
        "_give": free.append,
        "_make_place": make_place,
        "_pack": struct.Struct(record.format).pack_into,
        "_NoPlace": IndexError,
        "_other": (AttributeError, ValueError, TypeError, OverflowError, struct.error),
        "_native": loaded.quick,
        "_failed": loaded.launch_failed,
        "_bool": bool,
        "_int": int,
        "_float": float,
        "_str": str,
    }
