"""The warm call: Python made from the plan of a call, with the native reader for the arrays it understands.

The function made has the parameters of the jit function. It looks at each argument once, writes all of them into one
block, makes the native call and says so; arguments the plan refuses it leaves to the cold call, which serves them or
says what is wrong with them.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from ... import config
from ...expr.emit.trace import active
from ...expr.meta import tracing_options
from ...expr.scalars.fastmath import ambient_flags, default_flags
from ...llvm.stub_abi import FAILURE_BYTES
from ...runtime.objects import current_stream, entered, per_thread
from .. import listeners
from ..hints import ambient_hints
from ..key.changes import changes
from ..key.component import MISSING
from .arguments import StreamArgument
from .call_plan import STREAM, ArgumentPlan, CallPlan
from .fields import FIELDS, SCOPE, VIEWS
from .host_arrays import is_torch_tensor
from .native_reader import NativeArray, can_read, make_reader, reads_natively
from .placement import first_owner, placed, torch_stream_accessor
from .plan import Check, Write
from .tensor_argument import TensorArgument
from .watch import Watch

if TYPE_CHECKING:
    from ..frontend.signature import Signature
    from ..key.function_key import FunctionKey
    from .bind import BoundCall
    from .dispatch import LoadedFunction

Served = Callable[..., bool]
"""Launches with arguments the plan accepts, or says that it did not."""


def is_served_warm(call: BoundCall, loaded: LoadedFunction) -> bool:
    """Whether calls like this one need nobody to wait, to check or to be told, and say themselves where they go."""
    # Files that stand for stages may be edited between any two calls.
    asked = config.runtime.launch_blocking or config.runtime.check_args or config.compile.override_dir is not None
    if asked or listeners.launch_hooks_set:
        return False
    if hasattr(loaded.runtime, "enqueue") and any(
        isinstance(a, StreamArgument) and a.stream.handle for a in call.adapted.values()
    ):
        return False  # a queued launch needs storage of its own
    # Else only the current device says where to launch; arrays are on the same device at every call.
    return loaded.runtime.device_count() <= 1 or bool(placed(call.adapted, loaded.runtime))


def make_warm(
    plan: CallPlan,
    loaded: LoadedFunction,
    signature: Signature,
    function: FunctionKey | None,
    *,
    native: bool,
    counts: list[int] | None = None,
) -> Served:
    """The warm call of a plan; without `native` it reads arrays by their Python attributes alone.

    `function` is what the compiled code depends on; without it only the environment is looked at. The first of `counts`
    is that of its launches.
    """
    scope: dict[str, object] = {**SCOPE, **launch_scope(loaded), **_places(plan, loaded)}
    made = Source(scope)
    arrays: dict[str, NativeArray] = {}
    for planned in plan.arguments:
        reads = native and planned.library in ("numpy", "torch") and can_read(planned.given)
        left = made.native_part(planned, plan) if reads else None
        if left is not None:
            arrays[planned.name] = left
        made.guard(planned, native=reads)
    values = made.values(plan, arrays)
    queued = made.stream(plan, loaded)
    read: list[str] = []
    if arrays:
        scope["__fly_read"], scope["__fly_table"], scope["__fly_kept"] = make_reader(list(arrays.values()))
        names = ", ".join(arrays)
        read = [
            f"        if not __fly_read(__fly_table, __fly_at, {names}):",
            "            __fly_give(__fly_place); return False",
        ]
    changed = changes_of(plan, function, scope)
    lines = [
        f"def __fly_warm({signature.text(scope)}):",
        f"    if __fly_tracing() is not None or {queued}not __fly_runtime.alive: return False",
        "    try:",
        f"        if {' or '.join(changed)}: return False",
        *("        " + line for line in made.lines),
        "        try: __fly_place = __fly_take()",
        "        except __fly_NoPlace: __fly_place = __fly_make_place()",
        "        __fly_block, __fly_at, __fly_slots, __fly_more = __fly_place",
        f"        __fly_pack(__fly_block, 0, {', '.join(values)})",
        *read,
        "    except __fly_other: return False",
        "    __fly_status = __fly_native(__fly_slots)",
        "    if __fly_status: __fly_failed(__fly_status, __fly_slots, __fly_more[0])",
        "    __fly_give(__fly_place)",
        *(() if counts is None else ("    __fly_counts[0] += 1",)),
        "    return True",
    ]
    scope["__fly_counts"] = counts
    exec("\n".join(lines) + "\n", scope)
    return cast(Served, scope["__fly_warm"])


def changes_of(plan: CallPlan, function: FunctionKey | None, scope: dict[str, object]) -> list[str]:
    """Conditions under which the code of a plan no longer stands; what they mention goes into `scope`."""
    changed = ["__fly_version() != __fly_now", *(_changed(function, scope) if function is not None else [])]
    if plan.told is not None:
        scope["__fly_told"] = Watch.of_values(plan.told).holds
        changed.append("not __fly_told()")
    return changed


class Source:
    """Lines of generated code and the constants they mention."""

    def __init__(self, scope: dict[str, object]):
        self.scope = scope
        self.lines: list[str] = []

    def constant(self, value: object) -> str:
        """A name for a value."""
        name = f"__fly_c{len(self.scope)}"
        self.scope[name] = value
        return name

    def native_part(self, planned: ArgumentPlan, plan: CallPlan) -> NativeArray:
        """What the native reader does for an array."""
        checks = [c for c in planned.checks if reads_natively(planned.library, c.field, planned.given)]
        writes: list[tuple[Write, int]] = []
        for placed_slot in plan.slots:
            if placed_slot.owner is planned:
                at = placed_slot.offset
                for write in placed_slot.slot:
                    writes.append((write, at))
                    at += struct.calcsize("<" + write.letter)
        return NativeArray(planned.given, checks, writes)

    def guard(self, planned: ArgumentPlan, *, native: bool) -> None:
        """Leave the function where a check does not hold, but for those that are made natively."""
        view, seen = f"__fly_v_{planned.name}", False
        wrong: list[str] = []
        for check in planned.checks:
            form = FIELDS[check.field].warm.get(planned.library)
            if form is None or (native and reads_natively(planned.library, check.field, planned.given)):
                continue
            if "{v}" in form and not seen:
                self._leave_if(wrong)
                wrong, seen = [], True
                self.lines.append(f"{view} = {VIEWS[planned.library].format(x=planned.name)}")
            condition = self._wrong(check, planned, form.format(x=planned.name, v=view, m=check.mode))
            wrong += [condition] if condition else []
        self._leave_if(wrong)
        if not seen and not native and planned.slots and planned.library in VIEWS:
            self.lines.append(f"{view} = {VIEWS[planned.library].format(x=planned.name)}")

    def _leave_if(self, wrong: list[str]) -> None:
        if wrong:
            self.lines.append(f"if {' or '.join(wrong)}: return False")

    def _wrong(self, check: Check, planned: ArgumentPlan, expression: str) -> str:
        """The condition under which a check does not hold."""
        if check.relation == "packs":
            return ""  # whoever writes it notices
        if check.relation == "bits":
            test = f"{expression} & {check.mask}"
            return test if check.value == 0 else f"{test} != {check.value}"
        by_identity = FIELDS[check.field].by_identity
        if check.relation == "same":
            expected = _warm_value(check, planned)
            if check.field == "content":  # most often it is the very same tuple
                same = f"{planned.name} is not {self.constant(planned.given)}"
                return f"({same} and {expression} != {self.constant(expected)})"
            return f"{expression} {'is not' if by_identity else '!='} {self.constant(expected)}"
        allowed = check.values
        if by_identity:
            return " and ".join(f"{expression} is not {self.constant(each)}" for each in allowed)
        return f"({expression}) not in {self.constant(allowed)}"

    def values(self, plan: CallPlan, arrays: Mapping[str, NativeArray]) -> list[str]:
        """What is packed, and how; natively read arrays are left out."""
        format, end = "<", 0
        found: list[str] = []
        for each in plan.slots:
            format += "x" * (each.offset - end)
            end = each.offset + struct.calcsize(each.format)
            if each.owner is not None and each.owner.name in arrays:
                format += "x" * (end - each.offset)
                continue
            format += each.format[1:]
            found += [self._value(write, each.owner) for write in each.slot]
        self.scope["__fly_pack"] = struct.Struct(format).pack_into
        return found

    def _value(self, write: Write, owner: ArgumentPlan | None) -> str:
        if write is STREAM or owner is None:
            return "__fly_stream"
        form = FIELDS[write.field].warm[owner.library]
        found = form.format(x=owner.name, v=f"__fly_v_{owner.name}", m=write.mode)
        found += f".{write.path}" if write.path else ""
        return found if write.convert is None else f"{self.constant(write.convert)}({found})"

    def stream(self, plan: CallPlan, loaded: LoadedFunction) -> str:
        """Find the stream of a launch that names none; gives a condition under which it is not looked for here."""
        if not any(write is STREAM for each in plan.slots for write in each.slot):
            return ""
        if not loaded.needs_stream:
            self.lines.append("__fly_stream = 0")
            return "__fly_entered and __fly_own.streams or "  # a queued launch needs storage of its own
        arrays = [a for a in plan.arguments if isinstance(a.argument, TensorArgument)]
        owner = first_owner([a.given for a in arrays])
        if config.runtime.stream_policy == "default":
            found = "0"
        elif is_torch_tensor(owner) and owner.get_device() >= 0:
            self.scope["__fly_torch_stream"] = torch_stream_accessor()
            found = f"__fly_torch_stream({owner.get_device()})"
        else:
            self.scope["__fly_current"] = loaded.current_stream
            found = f"__fly_current(({''.join(a.name + ', ' for a in arrays)}))"
        if loaded.runtime.device_count() > 1:
            self.lines.append(f"__fly_stream = {found}")
            return "__fly_entered and __fly_own.streams or "  # it may be a stream of another device
        self.scope["__fly_within"] = current_stream
        self.lines.append(f"__fly_stream = __fly_within().handle if __fly_entered and __fly_own.streams else {found}")
        return ""


def _warm_value(check: Check, planned: ArgumentPlan) -> object:
    """What generated code reads of the argument the plan was made from."""
    names: dict[str, object] = {**SCOPE, "x": planned.given}
    if planned.library in VIEWS:
        names["v"] = eval(VIEWS[planned.library].format(x="x"), names)
    return eval(FIELDS[check.field].warm[planned.library].format(x="x", v="v", m=check.mode), names)


_MOST_NAMES = 40
"""Beyond these, names are compared in groups rather than one by one."""


def _changed(function: FunctionKey, scope: dict[str, object]) -> list[str]:
    """Conditions under which the compiled code no longer stands."""
    scope |= {"__fly_hints": ambient_hints.get, "__fly_flags": ambient_flags.get, "__fly_set": default_flags.get}
    scope["__fly_options"] = tracing_options
    conditions = ["__fly_hints()", "__fly_flags() is not None", "__fly_set() is not None", "__fly_options()"]
    names, cells, more = function.identities()
    if more or len(names) > _MOST_NAMES:
        scope |= {
            "__fly_key": function,
            "__fly_generation": function.generation,
            "__fly_holds": Watch.of_function(function).holds,
        }
        return [*conditions, "__fly_key.generation != __fly_generation", "not __fly_holds()"]
    scope |= {"__fly_changes": changes, "__fly_key": function}
    conditions.append("__fly_changes.count != __fly_key.seen")
    for i, (get, name, expected) in enumerate(names):
        scope |= {f"__fly_get{i}": get, f"__fly_name{i}": name, f"__fly_is{i}": expected}
        absent = ", __fly_missing" if expected is MISSING else ""
        conditions.append(f"__fly_get{i}(__fly_name{i}{absent}) is not __fly_is{i}")
    for i, (called, code, defaults, keywords) in enumerate(function.now.functions):
        scope |= {f"__fly_f{i}": called, f"__fly_code{i}": code}
        conditions.append(f"__fly_f{i}.__code__ is not __fly_code{i}")
        # Where there were no defaults, every call gave all arguments: defaults that come later change none of them.
        for attribute, value in (("__defaults__", defaults), ("__kwdefaults__", keywords)):
            if value is not None:
                scope[f"__fly{attribute}{i}"] = value
                conditions.append(f"__fly_f{i}.{attribute} is not __fly{attribute}{i}")
    for i, (cell, expected) in enumerate(cells):
        scope |= {f"__fly_cell{i}": cell, f"__fly_holds{i}": expected}
        conditions.append(f"__fly_cell{i}.cell_contents is not __fly_holds{i}")
    scope["__fly_missing"] = MISSING
    return conditions


_Place = tuple[ctypes.Array[ctypes.c_char], int, int, tuple[object, object]]


def launch_scope(loaded: LoadedFunction) -> dict[str, object]:
    """What every generated function that launches mentions."""
    return {
        "__fly_tracing": active.get,
        "__fly_own": per_thread,
        "__fly_entered": entered,
        "__fly_runtime": loaded.runtime,
        "__fly_version": config.environment_version,
        "__fly_now": config.environment_version(),
        "__fly_other": (AttributeError, ValueError, TypeError, OverflowError, RuntimeError, struct.error),
    }


def _places(plan: CallPlan, loaded: LoadedFunction) -> dict[str, object]:
    # Places that no call uses now: a call of another thread, or one inside a call (by a signal handler, or a finalizer
    # that happens to run between arguments and launch), has its own. One that fails does not come back.
    free: list[_Place] = []

    def make_place() -> _Place:
        block = (ctypes.c_char * max(plan.size, 1))()
        failure = (ctypes.c_int64 * (FAILURE_BYTES // 8))()
        base = ctypes.addressof(block)
        slots = (ctypes.c_void_p * (len(plan.slots) + 2))(
            ctypes.addressof(loaded.table), ctypes.addressof(failure), *(base + each.offset for each in plan.slots)
        )
        return block, base, ctypes.addressof(slots), (failure, slots)

    return {
        "__fly_take": free.pop,
        "__fly_give": free.append,
        "__fly_make_place": make_place,
        "__fly_NoPlace": IndexError,
        "__fly_native": loaded.quick,
        "__fly_failed": loaded.launch_failed,
    }
