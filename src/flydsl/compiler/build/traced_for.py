"""What a module was traced for, as attributes of its device module: passes and `fly-opt` know it from there alone.

`fly.target` is the target, `fly.hints` the compile hints, both up to the conversion; `targets` and what hints are to
kernels (`lower_compile_hints`) are for LLVM. A module that was read back, of a dump or an override, has them already.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute

from ...dialects.upstream import gpu
from ...errors import DSLCompileError
from ...llvm.text.debug_info import ATTRIBUTE as DEBUG_ATTRIBUTE
from ...passes.base import HINTS_ATTRIBUTE, TARGET_ATTRIBUTE, target_of
from ..backends.base import BaseBackend, Options
from .module_targets import attach_targets
from .pass_options import NAMES


def device_of(module: ModuleOp) -> gpu.ModuleOp:
    """The device module."""
    found = next((op for op in module.ops if isinstance(op, gpu.ModuleOp)), None)
    if found is None:
        raise DSLCompileError("the module has no device code: there is no gpu.module in it")
    return found


def say_what_for(module: ModuleOp, backend: BaseBackend, options: Options, hints: Mapping[str, Any]) -> None:
    """Write down what a module is compiled for; one that says so already must say the same."""
    device = device_of(module)
    target = backend.target.key()
    told = target_of(device)
    if told is not None and told.key() != target:
        raise DSLCompileError(f"the module was traced for {told.key()}, not for {target}: trace it for that target")
    known = hints_of(module)
    if known is not None:
        if _canonical(known) != _canonical(hints):
            raise DSLCompileError(
                f"the module was traced with the hints {json.dumps(known)}, not with {_canonical(hints)}: trace it "
                f"with those, or leave out {HINTS_ATTRIBUTE} and what they have become on its kernels"
            )
        return
    attach_targets(device, backend)
    device.attributes[TARGET_ATTRIBUTE] = StringAttr(target)
    device.attributes[HINTS_ATTRIBUTE] = _attribute(_kept(hints))
    backend.lower_compile_hints(module, compile_hints=hints)
    if getattr(options, "debug_info", False):
        device.attributes[DEBUG_ATTRIBUTE] = UnitAttr()


def hints_of(module: ModuleOp) -> dict[str, Any] | None:
    """The hints a module was traced with; None where it does not say."""
    found = device_of(module).attributes.get(HINTS_ATTRIBUTE)
    if found is None:
        return None
    value = _value(found)
    if not isinstance(value, dict):
        raise DSLCompileError(f"{HINTS_ATTRIBUTE} of a device module is a dictionary of hints, got {found}")
    return cast("dict[str, Any]", value)


def is_plain(value: object) -> bool:
    """Whether text can hold a value; a tuple comes back as a list, which means the same to hints."""
    if isinstance(value, list | tuple):
        return all(map(is_plain, cast("Iterable[object]", value)))
    if isinstance(value, dict):
        known = cast("dict[object, object]", value)
        return all(isinstance(key, str) for key in known) and all(map(is_plain, known.values()))
    return value is None or isinstance(value, str | int | float)


def _kept(hints: Mapping[str, Any]) -> dict[str, Any]:
    """Hints that are written down: passes of the user are not, they may be Python objects."""
    return {name: value for name, value in hints.items() if name not in NAMES and is_plain(value)}


def _canonical(hints: Mapping[str, Any]) -> str:
    return json.dumps(_kept(hints), sort_keys=True)


def _attribute(value: Any) -> Attribute:
    """A plain value as an attribute."""
    if value is None:
        return UnitAttr()
    if isinstance(value, bool | int):
        return IntegerAttr(int(value), i1 if isinstance(value, bool) else i64)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        return DictionaryAttr({name: _attribute(items[name]) for name in sorted(items)})
    return ArrayAttr([_attribute(item) for item in cast("Iterable[Any]", value)])


def _value(attribute: Attribute) -> Any:
    """The plain value of an attribute."""
    if isinstance(attribute, UnitAttr):
        return None
    if isinstance(attribute, IntegerAttr):
        found = cast("IntegerAttr[Any]", attribute)
        return bool(found.value.data) if found.type == i1 else found.value.data
    if isinstance(attribute, FloatAttr):
        return cast("FloatAttr[Any]", attribute).value.data
    if isinstance(attribute, StringAttr):
        return attribute.data
    if isinstance(attribute, DictionaryAttr):
        return {name: _value(item) for name, item in attribute.data.items()}
    if isinstance(attribute, ArrayAttr):
        return [_value(item) for item in cast("ArrayAttr[Attribute]", attribute).data]
    raise DSLCompileError(
        f"{HINTS_ATTRIBUTE} of a device module holds numbers, texts and lists of them, got {attribute}"
    )
