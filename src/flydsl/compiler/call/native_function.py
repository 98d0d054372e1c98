"""Functions for Python made of LLVM IR: one module each, compiled once per machine and kept with the disk cache."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from ...llvm import host_jit
from ...llvm.text.routine import Routine, Value
from ..cache.host_code import host_code
from .array_structs import METH_FASTCALL, MethodDef

PARAMETERS = "ptr self, ptr args, i64 count"
"""Those of a function that Python calls with an array of arguments."""
_PASSES = ("add_sroa_pass", "add_simplify_cfg_pass")
"""Of all that LLVM could do, registers for the variables are what counts, and they take 11 ms instead of 50."""
_alive: list[object] = []


def native_function(routine: Routine, imports: Sequence[str]) -> Callable[..., bool]:
    """A routine with `PARAMETERS` as a Python function; `imports` are what it calls of Python's C interface."""
    head = "\n".join(routine.declarations.values())
    code = host_code(f"{head}\n{routine.text()}", _PASSES)
    name = routine.name
    addresses = {each: _python_address(each) for each in imports}
    library = host_jit.load_object(code, exports=[name], imports=addresses, name=name, plain=True)
    method = MethodDef(name.encode(), library.address(name), METH_FASTCALL, None)
    _alive.extend((library, method))  # Python keeps a pointer to the method for good
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )
    return new(ctypes.addressof(method), None, None)


def _python_address(name: str) -> int:
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert address
    return address


def python_bool(r: Routine, value: int) -> Value:
    """True or False as Python has them."""
    return r.value_of("PyBool_FromLong", "ptr", ("i64", value), external=True)
