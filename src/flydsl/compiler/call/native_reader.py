"""Reading the arrays of a call natively, by the tables their plans make.

In Python each array costs half a microsecond to a whole one, for class, dtype, device, strides, extents and address.
torch hands out a C function that describes a tensor (the DLPack exchange API); numpy's arrays are a C structure whose
fields are part of its binary interface. One native function, made once per process, gathers the fields of each array
as `host_arrays.array_info` does, checks their bits and writes those a call needs.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from ... import config
from ...llvm.text.routine import Routine, Value, Variable
from ...runtime.dlpack import DLTensor, capsule_pointer
from .array_structs import ExchangeTable, NumpyArray, header_is_known
from .fields import FIELDS, Library, Place, library_of
from .host_arrays import array_info
from .native_function import PARAMETERS, native_function, python_bool
from .plan import Check, Write

_MAX_RANK = 64
_NONE = -1
_WORD = 8
_IS_NEG = sys.intern("is_neg")

Reader = Callable[..., bool]


def _index(field: str, mode: int | None = None) -> int:
    """Where the native function keeps a field."""
    plain = [each.name for each in FIELDS.values() if each.native and not each.modes]
    if mode is None:
        return plain.index(field)
    return len(plain) + ["extent", "stride"].index(field) * _MAX_RANK + mode


@dataclass(frozen=True, slots=True)
class NativeArray:
    """An array to be read: what it is like, and what is checked and written of it; None is nothing to read."""

    example: object
    checks: Sequence[Check]
    writes: Sequence[tuple[Write, int]]
    """With their places in the block."""


def reads_natively(library: Library, field: str, example: object) -> bool:
    """Whether the native function can tell a field of arrays like this one, and not only something like it."""
    # torch describes integers of fewer bits as bytes.
    coarse = field == "dtype" and library == "torch" and getattr(example, "itemsize", 0) == 1
    known = FIELDS[field]
    return library in known.native and library in known.warm and not coarse


def can_read(array: object) -> bool:
    """Whether the native function reads this array right: it is tried, and told against what Python says."""
    if not config.runtime.read_in_place or not header_is_known() or _describer(array) is None:
        return False
    info = array_info(array)
    if info is None or len(info.shape) >= _MAX_RANK:
        return False
    found = _probe(array, len(info.shape))
    if found is None:
        return False
    expected = {("pointer", None): info.pointer, ("rank", None): len(info.shape), ("class", None): id(type(array))}
    expected |= {("extent", i): n for i, n in enumerate(info.shape)}
    expected |= {("stride", i): n for i, n in enumerate(info.strides)}
    return all(found[_index(*name)] == value for name, value in expected.items())


def make_reader(arrays: Sequence[NativeArray]) -> tuple[Reader, int, object]:
    """The native function, the table to give it, and what must live as long as the table is used.

    `function(table, block, *arrays)` writes into the block and says whether all arrays are as planned. Each array
    must be one that `can_read` allows.
    """
    text = b"".join(map(_entry, arrays))
    table = ctypes.create_string_buffer(text, len(text))
    kept = [(type(each.example), getattr(each.example, "dtype", None)) for each in arrays]
    return _function(), ctypes.addressof(table), (table, kept)


# --- tables -------------------------------------------------------------------------------------------------------

_HEADER = struct.Struct("<QqqQQqq")
"""The class, torch's describing function (0: a numpy array, 1: no array), log2 of the element size where strides count
bytes, what to ask of arrays of extent one and the answer expected, number of checks, number of writes."""
_CHECK = struct.Struct("<qQQ")
"""Field, mask, value."""
_WRITE = struct.Struct("<qqq")
"""Field, place in the block, bytes."""
_BITS = (1 << 64) - 1
_ABSENT = 1


def _entry(array: NativeArray) -> bytes:
    described = _describer(array.example)
    assert described is not None
    expected: list[int] = []
    if any(check.relation == "same" for check in array.checks):
        rank = getattr(array.example, "ndim", 0)
        found = _probe(array.example, rank)
        assert found is not None
        expected = found
    checks = [check for check in array.checks if check.field != "class"]  # it stands in front
    question = described[-2:] if any(check.field == "negated" for check in checks) else (0, 0)
    rows = [_HEADER.pack(*described[:-2], *question, len(checks), len(array.writes))]
    for check in checks:
        at = _index(check.field, check.mode)
        same = check.relation == "same"
        mask, value = (-1, expected[at]) if same else (check.mask, check.value)
        rows.append(_CHECK.pack(at, mask & _BITS, value & _BITS))
    for write, offset in array.writes:
        rows.append(_WRITE.pack(_index(write.field, write.mode), offset, struct.calcsize("<" + write.letter)))
    return b"".join(rows)


def _probe(array: object, rank: int) -> list[int] | None:
    """Every field of an array as the native function reads it."""
    described = _describer(array)
    if described is None:
        return None
    names = [(each.name, None) for each in FIELDS.values() if each.native and not each.modes]
    count = len(names) + 2 * _MAX_RANK
    at = [_index(*name) for name in names]
    at += [_index(name, mode) for name in ("extent", "stride") for mode in range(rank)]
    rows = [_HEADER.pack(*described, 0, len(at)), *(_WRITE.pack(i, i * _WORD, _WORD) for i in at)]
    table = ctypes.create_string_buffer(b"".join(rows))
    block = (ctypes.c_int64 * count)()
    return list(block) if _function()(ctypes.addressof(table), ctypes.addressof(block), array) else None


def _describer(array: object) -> tuple[int, ...] | None:
    """What an entry starts with for arrays like this one; None if they are of no known class."""
    if array is None:
        return id(type(None)), _ABSENT, 0, 0, 0
    library = library_of(array)
    if library == "numpy":
        size: int = getattr(array, "itemsize", 0)
        if type(array).__basicsize__ < ctypes.sizeof(NumpyArray) or size <= 0 or size & size - 1:
            return None
        return id(type(array)), 0, size.bit_length() - 1, 0, 0
    describe = describing_function(array) if library == "torch" else None
    if describe is None:
        return None
    # Torch negates lazily where it takes the imaginary part of a conjugate. The strides of such a view are even, so a
    # mode of stride one has been added to it and its extent is one: only then the tensor has to be asked.
    floats = getattr(getattr(array, "dtype", None), "is_floating_point", False)
    return id(type(array)), describe, 0, *((id(_IS_NEG), id(False)) if floats else (0, 0))


def describing_function(tensor: object) -> int | None:
    """torch's C function that describes tensors of this one's class."""
    capsule = getattr(type(tensor), "__dlpack_c_exchange_api__", None)
    if capsule is None:  # torch has it since 2.10
        return None
    table = ExchangeTable.from_address(capsule_pointer(capsule, b"dlpack_exchange_api"))
    return table.describe if table.major == 1 else None


# --- native function ----------------------------------------------------------------------------------------------

_IMPORTS = ("PyLong_AsVoidPtr", "PyBool_FromLong", "PyErr_Clear", "PyObject_VectorcallMethod", "Py_DecRef")
_REFUSED, _FAILED = "refused", "failed"
"""Where the function ends without having read all arrays; in the second case Python has an error set."""


@cache
def _function() -> Reader:
    return native_function(_routine(), _IMPORTS)


def _routine() -> Routine:
    """`PyObject *read_arrays(PyObject *self, PyObject *const *args, Py_ssize_t count)`: table, block, arrays."""
    r = Routine("read_arrays", "ptr", PARAMETERS, linkage="")
    table = r.value_of("PyLong_AsVoidPtr", "ptr", r.load("ptr", r["args"]), external=True)
    block = r.value_of("PyLong_AsVoidPtr", "ptr", r.load("ptr", r["args"], _WORD), external=True)
    entry = r.variable("ptr", table)
    fields, tensor = r.room(8 * (_index("extent", 0) + 2 * _MAX_RANK)), r.room(ctypes.sizeof(DLTensor))
    with r.loop(r["count"], start=2) as i:
        body = _Array(r, entry.get(), r.load("ptr", r.at(r["args"], i * _WORD)), fields, tensor)
        body.describe()
        body.gather()
        entry.set(body.check_and_write(block))
    r.give(python_bool(r, 1))
    r.label(_FAILED)
    r.call("PyErr_Clear", "void", external=True)
    r.label(_REFUSED)
    r.give(python_bool(r, 0))
    return r


class _Array:
    """The part of the native function that reads one array."""

    def __init__(self, r: Routine, entry: Value, array: Value, fields: Value, tensor: Value):
        self.r, self.entry, self.array, self.fields, self.tensor = r, entry, array, fields, tensor
        words = ("cls", "describe", "shift", "question", "answer", "checks", "writes")
        self.header = {word: r.load("i64", entry, _WORD * i, 8) for i, word in enumerate(words)}
        self.data, self.rank = r.variable("i64", 0), r.variable("i64", 0)
        self.shape, self.strides = r.variable("ptr", array), r.variable("ptr", array)

    def refuse(self, flag: Value) -> None:
        """The function says no where the flag is set."""
        self.r.leave(flag, _REFUSED)

    def store(self, field: str, value: Value | int, mode: Value | None = None) -> None:
        """Keep a field."""
        at = self.fields if mode is None else self.r.at(self.fields, mode * _WORD)
        self.r.store("i64", value, at, _WORD * _index(field, None if mode is None else 0), 8)

    def describe(self) -> None:
        """Address, rank, where extents and strides are, and every field that has a place."""
        self.refuse(self.load(self.array, FIELDS["class"].native["numpy"]).is_not(self.header["cls"]))
        self.r.either(self.header["describe"].is_(0), self._numpy, self._other)
        self.store("pointer", self.data.get())
        self.store("rank", self.rank.get())
        self.refuse(self.rank.get() >= _MAX_RANK)

    def load(self, base: Value, place: Place | None) -> Value:
        """What stands at a place, in 64 bits."""
        assert place is not None
        found = self.r.load(place.type, base, place.offset, 4).to("i64")
        return found if place.bit is None else (found >> place.bit) & 1

    def _fields_of(self, library: Library, base: Value) -> None:
        for each in FIELDS.values():
            place = each.native.get(library)
            if place is not None:
                self.store(each.name, self.load(self.array if each.name == "class" else base, place))

    def _numpy(self) -> None:
        array = self.array
        self.data.set(self.r.load("i64", array, NumpyArray.data.offset, 8))
        self.rank.set(self.r.load("i32", array, NumpyArray.rank.offset, 4).to("i64"))
        self.shape.set(self.r.load("ptr", array, NumpyArray.shape.offset, 8))
        self.strides.set(self.r.load("ptr", array, NumpyArray.strides.offset, 8))
        self._fields_of("numpy", array)

    def _other(self) -> None:
        with self.r.when(self.header["describe"].is_not(_ABSENT)):
            self._torch()

    def _torch(self) -> None:
        r, tensor = self.r, self.tensor
        describe = r.load("ptr", self.entry, _WORD, 8)
        failed = r.assign("i32", f"call i32 {describe.name}(ptr {self.array.name}, ptr {tensor.name})")
        r.leave(failed.is_not(0), _FAILED)
        self.data.set(
            r.load("i64", tensor, DLTensor.data.offset, 8) + r.load("i64", tensor, DLTensor.byte_offset.offset, 8)
        )
        self.rank.set(r.load("i32", tensor, DLTensor.ndim.offset, 4).to("i64"))
        self.shape.set(r.load("ptr", tensor, DLTensor.shape.offset, 8))
        self.strides.set(r.load("ptr", tensor, DLTensor.strides.offset, 8))
        self.refuse(r.address(self.strides.get()).is_(0))
        self._fields_of("torch", tensor)

    def gather(self) -> None:
        """Extents and strides in elements, and what follows from them."""
        r, rank = self.r, self.rank.get()
        ragged, leading, empty = r.variable("i64", 0), r.variable("i64", _NONE), r.variable("i64", 0)
        unit = r.number(1) << self.header["shift"]
        with r.loop(rank) as m:
            extent = r.load("i64", self.shape.get(), m * _WORD, 8)
            raw = r.load("i64", self.strides.get(), m * _WORD, 8)
            stride = r.assign("i64", f"ashr i64 {raw.name}, {self.header['shift'].name}")
            self.store("extent", extent, m)
            self.store("stride", stride, m)
            ragged.set(ragged.get() | (raw & (unit - 1)))
            with r.when(extent.is_(0)):
                empty.set(1)
            with r.when(stride.is_(1) & leading.get().is_(_NONE)):
                leading.set(m)
        self.refuse(ragged.get().is_not(0))
        with r.when(empty.get().is_not(0)):
            self._row_major(rank, leading)
        self.store("leading", leading.get())
        self.store("missing", (self.data.get().is_(0) & empty.get().is_(0)).to("i64"))
        self.store("negated", 0)
        # Strides do not tell: `as_strided` gives a negated view any.
        with r.when(self.header["question"].is_not(0)):
            self._ask()

    def _row_major(self, rank: Value, leading: Variable) -> None:
        """Without elements strides say nothing; all ways to read an array see a dense one (`array_info`)."""
        r = self.r
        step = r.variable("i64", 1)
        with r.loop(rank) as i:
            m = rank - i - 1
            self.store("stride", step.get(), m)
            with r.when(step.get().is_(1)):
                leading.set(m)
            extent = r.load("i64", self.fields, (m + _index("extent", 0)) * _WORD, 8)
            step.set(step.get() * r.most(extent, r.number(1)))

    def _ask(self) -> None:
        """Call a method of the array without arguments."""
        r = self.r
        receiver = r.variable("ptr", self.array)
        name, wanted = r.load("ptr", self.entry, 3 * _WORD, 8), self.header["answer"]
        call = f"call ptr @PyObject_VectorcallMethod(ptr {name.name}, ptr {receiver.at}, i64 1, ptr null)"
        r.declarations["PyObject_VectorcallMethod"] = "declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)"
        answer = r.assign("ptr", call)
        r.leave(r.address(answer).is_(0), _FAILED)
        r.call("Py_DecRef", "void", answer, external=True)
        self.store("negated", r.address(answer).is_not(wanted).to("i64"))

    def check_and_write(self, block: Value) -> Value:
        """Refuse the array, or write what is wanted of it; where the next entry is."""
        r = self.r
        at = r.variable("ptr", r.at(self.entry, _HEADER.size))
        with r.loop(self.header["checks"]):
            field, mask, value = (r.load("i64", at.get(), _WORD * i, 8) for i in range(3))
            self.refuse((r.load("i64", self.fields, field * _WORD, 8) & mask).is_not(value))
            at.set(r.at(at.get(), _CHECK.size))
        with r.loop(self.header["writes"]):
            field, place, size = (r.load("i64", at.get(), _WORD * i, 8) for i in range(3))
            value, to = r.load("i64", self.fields, field * _WORD, 8), r.at(block, place)
            r.either(size.is_(4), lambda: r.store("i32", value.to("i32"), to), lambda: r.store("i64", value, to))
            at.set(r.at(at.get(), _WRITE.size))
        return at.get()
