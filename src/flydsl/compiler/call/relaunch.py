"""A launch once more: arrays of which nothing but the addresses can differ from those of a launch before.

Whoever repeats a call has compared its arrays with the earlier ones already (`alike.py`), and made the others itself.
So all that a warm call checks and writes of extents, strides and numbers is known: it stands in a copy of the
arguments, into which one native function writes the addresses and the stream before it launches.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from ...llvm.stub_abi import FAILURE_BYTES
from ...llvm.text.routine import Routine, Value
from ...runtime.dlpack import DLTensor
from .array_structs import PyObject, method_address
from .call_plan import STREAM
from .fields import library_of
from .native_function import PARAMETERS, native_function, python_bool
from .native_reader import can_read, describing_function
from .tensor_argument import TensorArgument
from .warm import Served, Source, changes_of, launch_scope

if TYPE_CHECKING:
    from ..jit_function import JitFunction
    from .bind import BoundCall
    from .call_plan import CallPlan
    from .dispatch import LoadedFunction

ALIGNMENT = 16
"""Bytes: of addresses, what they are beyond a multiple of these counts."""
_WORD = 8
_BLOCK, _SLOTS = 4096, 256
"""Bytes and pointers of the largest call that is launched so; both are on the stack."""


class _Kind(Protocol):
    is_floating_point: bool


class _Tensor(Protocol):
    dtype: _Kind

    def data_ptr(self) -> int: ...


_Tensors: TypeAlias = "Sequence[_Tensor | None]"


class Relaunch:
    """Launches of one function whose arguments are made of tensors that are like each other from launch to launch.

    `arrange` makes the arguments of tensors, arrays first, and `sources` has for each array the number of the tensor
    that it is, or is a part of. The last `fresh` tensors are made for each launch: where they are aligned is not known
    before. Call `now`, which says whether it has launched; it has not where a fresh tensor is at no multiple of 16.
    """

    __slots__ = ("__weakref__", "_after", "_arrange", "_count", "_fresh", "_function", "_sources", "now")

    def __init__(
        self,
        function: JitFunction,
        arrange: Callable[..., tuple[object, ...]],
        sources: Sequence[int],
        *,
        fresh: int,
        after: int,
    ):
        self._function, self._arrange, self._sources = function, arrange, tuple(sources)
        self._fresh, self._after, self._count = fresh, after, 0
        self.now: Served = self.launch

    def launch(self, *tensors: _Tensor | None) -> bool:
        """Launch by the function itself; arguments that come `after` so many launches are launched natively then."""
        for tensor in tensors[len(tensors) - self._fresh :]:
            if tensor is not None and tensor.data_ptr() % ALIGNMENT:
                return False
        args, function = self._arrange(*tensors), self._function
        served = function.repeat
        if served is None or not served(*args):
            function(*args)
        self._count += 1
        if self._count >= self._after:
            # What cannot be had now, or does not hold any more, is tried for less and less often.
            self._after *= 2
            self.now = _native(self, function, args, tensors, self._sources) or self.launch
        return True

    def forget(self) -> None:
        """The code that is launched natively is dropped."""
        self.now = self.launch


def _native(
    repeated: Relaunch, function: JitFunction, args: tuple[object, ...], tensors: _Tensors, sources: Sequence[int]
) -> Served | None:
    """What launches with arguments like these, given tensors of other addresses; None if it cannot be had."""
    if not all(map(_is_usable, tensors)):
        return None
    call = function.bind_given(args)
    warm = function.warm.serving(args, call, function.function_key())
    if warm is None:
        return None
    plan, loaded = warm.plan, warm.loaded
    writes = _writes(plan, call, tensors, sources)
    if writes is None or plan.size > _BLOCK or len(plan.slots) + 2 > _SLOTS:
        return None
    table, kept = _table(plan, loaded, call, tensors, writes)
    scope: dict[str, object] = launch_scope(loaded)
    made = Source(scope)
    queued = made.stream(plan, loaded)
    if "__fly_current" in scope:
        return None  # it asks the arguments
    changed = changes_of(plan, warm.function, scope)
    names = ", ".join(f"t{i}" for i in range(len(tensors)))
    launch = f"__fly_done = __fly_launch({table}, __fly_stream, {names})"
    entered = loaded.quick is not loaded.stub  # the device has to be made current
    lines = [
        f"def __fly_again({names}):",
        f"    if __fly_tracing() is not None or {queued}not __fly_runtime.alive: return __fly_plain({names})",
        "    try:",
        f"        if {' or '.join(changed)}: return __fly_plain({names})",
        *(f"        {line}" for line in made.lines),
        f"    except __fly_other: return __fly_plain({names})",
        *([f"    {launch}"] if not entered else [
            f"    __fly_before = __fly_enter({loaded.module.device.ordinal})",
            "    try:",
            f"        {launch}",
            "    finally:",
            "        if __fly_before is not None: __fly_leave(__fly_before)",
        ]),
        "    if __fly_done is not True:",
        "        if __fly_done: __fly_undone(__fly_done)",
        f"        return __fly_plain({names})",
        *(() if warm.counts is None else ("    __fly_counts[0] += 1",)),
        "    return True",
    ]  # fmt: skip
    scope |= {
        "__fly_launch": _function(),
        "__fly_plain": repeated.launch,
        "__fly_kept": kept,
        "__fly_undone": _undone(loaded),
        "__fly_counts": warm.counts,
        "__fly_enter": getattr(loaded.runtime, "enter", None),
        "__fly_leave": getattr(loaded.runtime, "leave", None),
    }
    exec("\n".join(lines) + "\n", scope)
    function.warm.note(repeated)
    return cast(Served, scope["__fly_again"])


def _undone(loaded: LoadedFunction) -> Callable[[bytes], None]:
    """What says why a launch did not succeed, but where the plain way will try again: without a context."""
    expected: Sequence[int] = getattr(loaded.runtime, "context_statuses", ())

    def undone(told: bytes) -> None:
        status, *record = struct.unpack(f"<{1 + FAILURE_BYTES // _WORD}q", told)
        if status not in expected:
            loaded.fail(status, record)

    return undone


def _is_usable(tensor: object) -> bool:
    if tensor is None:
        return True
    return library_of(tensor) == "torch" and can_read(tensor) and method_address(type(tensor), _NEGATED) is not None


def _writes(
    plan: CallPlan, call: BoundCall, tensors: _Tensors, sources: Sequence[int]
) -> list[list[tuple[int, int]]] | None:
    """For each tensor where it is written, and how far behind its address that argument is; None: not all are known."""
    found: list[list[tuple[int, int]]] = [[] for _ in tensors]
    numbers = dict(zip((planned.name for planned in plan.arguments), sources, strict=False))
    for each in plan.slots:
        argument = None if each.owner is None else call.adapted[each.owner.name]
        if each.owner is None or not isinstance(argument, TensorArgument) or each.slot[0].field != "pointer":
            continue
        number = numbers.get(each.owner.name)
        tensor = None if number is None else tensors[number]
        if number is None or tensor is None or len(each.slot) != 1:
            return None
        found[number].append((each.offset, argument.info.pointer - tensor.data_ptr()))
    return found


# --- tables -----------------------------------------------------------------------------------------------------------

_HEADER = struct.Struct("<QQQQQQQQ")
"""The host function, its table of kernels, the arguments as they were and their words, where each of them is and how
many there are, where the stream is, and Python's False."""
_ENTRY = struct.Struct("<QQQQQ")
"""The class of an array, torch's describing function (`_ABSENT`: None, no array), what asks whether it is negated (0:
it cannot be), its address beyond a multiple of `ALIGNMENT`, and how often it is written."""
_PLACE = struct.Struct("<QQ")
"""Where an address is written, and what is added to it."""
_ABSENT = 1
_NEGATED = "is_neg"
_BITS = (1 << 64) - 1


def _table(
    plan: CallPlan, loaded: LoadedFunction, call: BoundCall, tensors: _Tensors, writes: list[list[tuple[int, int]]]
) -> tuple[int, object]:
    """The table of the native function, and what must live as long as it is used: none of the tensors."""
    packed = loaded.pack(list(call.adapted.values()))
    block = (ctypes.c_uint64 * max(-(-plan.size // _WORD), 1))()
    for each, storage in zip(plan.slots, packed.keep[0], strict=True):
        ctypes.memmove(ctypes.addressof(block) + each.offset, ctypes.addressof(storage), struct.calcsize(each.format))
    offsets = (ctypes.c_uint64 * len(plan.slots))(*(each.offset for each in plan.slots))
    (stream,) = (each.offset for each in plan.slots if each.slot[0] is STREAM)
    stub = ctypes.cast(loaded.stub, ctypes.c_void_p).value
    kernels = ctypes.addressof(loaded.table)
    rows = [
        _HEADER.pack(
            stub,
            kernels,
            ctypes.addressof(block),
            len(block),
            ctypes.addressof(offsets),
            len(offsets),
            stream,
            id(False),
        )
    ]
    rows += [_entry(tensor, places) for tensor, places in zip(tensors, writes, strict=True)]
    text = b"".join(rows)
    table = ctypes.create_string_buffer(text, len(text))
    return ctypes.addressof(table), (table, block, offsets, loaded, [type(tensor) for tensor in tensors])


def _entry(tensor: _Tensor | None, places: Sequence[tuple[int, int]]) -> bytes:
    if tensor is None:
        return _ENTRY.pack(id(type(None)), _ABSENT, 0, 0, 0)
    describe = describing_function(tensor)
    asks = method_address(type(tensor), _NEGATED) if tensor.dtype.is_floating_point else 0
    assert describe is not None and asks is not None
    head = _ENTRY.pack(id(type(tensor)), describe, asks, tensor.data_ptr() % ALIGNMENT, len(places))
    return head + b"".join(_PLACE.pack(at, behind & _BITS) for at, behind in places)


# --- native function --------------------------------------------------------------------------------------------------

_IMPORTS = (
    "PyLong_AsVoidPtr", "PyBool_FromLong", "PyBytes_FromStringAndSize", "PyErr_Clear", "PyEval_SaveThread",
    "PyEval_RestoreThread", "Py_DecRef",
)  # fmt: skip
_REFUSED, _FAILED = "refused", "failed"
"""Where the function ends without a launch; in the second case Python has an error set."""


@cache
def _function() -> Callable[..., object]:
    return native_function(_routine(), _IMPORTS)


def _routine() -> Routine:
    """`launch_again(table, stream, *tensors)`: True, False without a launch, or bytes: its status and its record."""
    r = Routine("launch_again", "ptr", PARAMETERS, linkage="")
    table = r.value_of("PyLong_AsVoidPtr", "ptr", r.load("ptr", r["args"]), external=True)
    stream = r.value_of("PyLong_AsVoidPtr", "ptr", r.load("ptr", r["args"], _WORD), external=True)
    words = ("stub", "kernels", "block", "words", "offsets", "count", "stream", "false")
    given = {word: r.load("ptr" if i in (0, 2, 4) else "i64", table, i * _WORD, 8) for i, word in enumerate(words)}
    block, slots = r.alloca(_BLOCK, 16), r.alloca(_SLOTS * _WORD, 16)
    told, tensor = r.alloca(_WORD + FAILURE_BYTES), r.alloca(ctypes.sizeof(DLTensor))
    with r.loop(given["words"]) as i:
        r.store("i64", r.load("i64", r.at(given["block"], i * _WORD), 0, 8), r.at(block, i * _WORD), 0, 8)
    r.store("i64", r.address(stream), r.at(block, given["stream"]), 0, 8)
    entry = r.variable("ptr", r.at(table, _HEADER.size))
    with r.loop(r["count"], start=2) as i:
        _write(r, entry.get(), r.load("ptr", r.at(r["args"], i * _WORD)), tensor, block, given["false"])
        places = r.load("i64", entry.get(), 4 * _WORD, 8)
        entry.set(r.at(entry.get(), places * _PLACE.size + _ENTRY.size))
    record = r.at(told, _WORD)
    r.store("i64", given["kernels"], slots, 0, 8)
    r.store("i64", r.address(record), slots, _WORD, 8)
    with r.loop(given["count"]) as i:
        place = r.at(block, r.load("i64", r.at(given["offsets"], i * _WORD), 0, 8))
        r.store("i64", r.address(place), r.at(slots, i * _WORD), 2 * _WORD, 8)
    # The driver may wait for its queue, and for whoever empties it by Python code.
    thread = r.value_of("PyEval_SaveThread", "ptr", external=True)
    status = r.assign("i32", f"call i32 {given['stub'].name}(ptr {slots.name})")
    r.call("PyEval_RestoreThread", "void", thread, external=True)
    with r.when(status.is_(0)):
        r.give(python_bool(r, 1))
    r.store("i64", status.to("i64", signed=True), told, 0, 8)
    size = ("i64", _WORD + FAILURE_BYTES)
    r.give(r.value_of("PyBytes_FromStringAndSize", "ptr", told, size, external=True))
    r.label(_FAILED)
    r.call("PyErr_Clear", "void", external=True)
    r.label(_REFUSED)
    r.give(python_bool(r, 0))
    return r


def _write(r: Routine, entry: Value, array: Value, tensor: Value, block: Value, false: Value) -> None:
    """Write the address of one array."""
    cls, describing, asks, bits, count = (r.load("i64", entry, i * _WORD, 8) for i in range(5))
    r.leave(r.load("i64", array, PyObject.cls.offset, 8).is_not(cls), _REFUSED)
    with r.when(describing.is_not(_ABSENT)):
        with r.when(asks.is_not(0)):
            ask = r.load("ptr", entry, 2 * _WORD, 8)
            answer = r.assign("ptr", f"call ptr {ask.name}(ptr {array.name}, ptr null)")
            r.leave(r.address(answer).is_(0), _FAILED)
            r.call("Py_DecRef", "void", answer, external=True)
            r.leave(r.address(answer).is_not(false), _REFUSED)
        describe = r.load("ptr", entry, _WORD, 8)
        failed = r.assign("i32", f"call i32 {describe.name}(ptr {array.name}, ptr {tensor.name})")
        r.leave(failed.is_not(0), _FAILED)
        data = r.load("i64", tensor, DLTensor.data.offset, 8) + r.load("i64", tensor, DLTensor.byte_offset.offset, 8)
        r.leave((data & (ALIGNMENT - 1)).is_not(bits), _REFUSED)
        at = r.variable("ptr", r.at(entry, _ENTRY.size))
        with r.loop(count):
            place, more = (r.load("i64", at.get(), i * _WORD, 8) for i in range(2))
            r.store("i64", data + more, r.at(block, place), 0, 8)
            at.set(r.at(at.get(), _PLACE.size))


__all__ = ["ALIGNMENT", "Relaunch"]
