"""The plan of a whole call: the checks and slots of all its arguments, and where in one block of memory they lie.

`plan_of` derives it from the arguments of a cold call. `CallPlan.refusal` interprets it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ...expr.gpu import Stream
from ...expr.numeric import Numeric
from ...expr.scalars.scalar_abi import encoding
from ...runtime.objects import Buffer
from .arguments import ScalarArgument, StreamArgument, TensorArgument
from .fields import Library, content_of, library_of
from .plan import Check, Slot, Write
from .struct_arguments import struct_leaves

if TYPE_CHECKING:
    from ..frontend.signature import Parameter
    from ..key.function_key import Walked
    from .bind import BoundCall

_ALIGN = 16
STREAM = Write("Q", "launch stream")
"""The stream of the launch, which is no field of an argument."""
HANDLE = Write("Q", "handle")
"""The stream the caller names."""


@dataclass(frozen=True, slots=True)
class ArgumentPlan:
    """What is expected and written of one argument."""

    name: str
    library: Library
    checks: tuple[Check, ...]
    slots: tuple[Slot, ...]
    given: object
    """The value the plan was made from."""
    argument: object
    """Its adapter."""


@dataclass(frozen=True, slots=True)
class PlacedSlot:
    """A slot, whose it is and where in the block it lies."""

    owner: ArgumentPlan | None
    slot: Slot
    offset: int

    @property
    def format(self) -> str:
        """For `struct`."""
        return "<" + "".join(write.letter for write in self.slot)


@dataclass(frozen=True, slots=True)
class CallPlan:
    """The arguments of a signature, in the order of its parameters."""

    arguments: tuple[ArgumentPlan, ...]
    slots: tuple[PlacedSlot, ...]
    size: int
    told: Walked | None = None
    """What the code may read of compile-time values that are no plain ones; it must be as it was."""

    def refusal(self, call: BoundCall) -> tuple[str, Check] | None:
        """Which check of which parameter the arguments of another call do not pass; None if they are served."""
        for planned in self.arguments:
            given, argument = call.given[planned.name], call.adapted.get(planned.name)
            for check in planned.checks:
                same = check.relation == "same"
                expected = check.read(planned.given, planned.argument) if same else None
                if not check.holds(given, argument, expected):
                    return planned.name, check
        return None


def plan_of(call: BoundCall, parameters: Mapping[str, Parameter]) -> CallPlan | None:
    """The plan for calls like this one; None where some argument needs a look of its own at every call."""
    planned: list[ArgumentPlan] = []
    for name, parameter in parameters.items():
        given, argument = call.given[name], call.adapted.get(name)
        found = _constant(given) if name not in call.adapted else _run_time(given, argument, parameter)
        if name in call.objects:
            found = _object(given)
        if found is None:
            return None
        library, checks, slots = found
        planned.append(ArgumentPlan(name, library, tuple(checks), tuple(slots), given, argument))
    return CallPlan(tuple(planned), *_placed(planned), call.told)


_Found = tuple[Library, list[Check], list[Slot]]


def _run_time(given: object, argument: object, parameter: Parameter) -> _Found | None:
    if isinstance(argument, TensorArgument):
        return _array(given, argument)
    if isinstance(argument, ScalarArgument):
        return _number(given, argument.dtype, annotated=isinstance(parameter.annotation, type))
    if isinstance(argument, StreamArgument):
        if argument.stream.handle is not None:
            return "value", [Check("class"), Check("named")], [[HANDLE]]
        return "value", [Check("stream", "among", values=(None, (Stream, None)))], [[STREAM]]
    leaves = struct_leaves(argument)
    if leaves is None:
        return None
    slots: list[Slot] = []
    for leaf in leaves:
        made = encoding(leaf.dtype)
        slots.append([Write(made.letter, "value", path=f"{leaf.name}.value", convert=made.bits)])
    return "value", [Check("class")], slots


def _array(given: object, argument: TensorArgument) -> _Found | None:
    # A producer's stream must be waited for, and a buffer may have been freed.
    if argument.info.stream is not None or isinstance(argument.info.owner, Buffer):
        return None
    library = library_of(given)
    # A class whose ways are not known here, or an adapter that somebody else made.
    if library is None or (library == "adapter") == argument.is_default:
        return None
    foreign = [Check("producer")] if library == "foreign" else []
    return library, [*argument.checks(), *foreign], argument.slots()


def _number(given: object, dtype: type[Numeric], *, annotated: bool) -> _Found | None:
    made = encoding(dtype)
    # Without an annotation the class of the number decides the class of the scalar.
    classes = made.plain if annotated else (type(given),)
    if type(given) not in made.plain:
        # Numbers of numpy are written as Python's are, where any number of the class is.
        if made.values or type(given).__module__ != "numpy":
            return None
        classes = (type(given),)
    checks = [Check("class", "among", values=classes)]
    if made.values:
        checks.append(Check("value", "among", values=made.values))
    elif made.bits is None:
        checks.append(Check("value", "packs", letter=made.letter))
    return "value", checks, [[Write(made.letter, "value", convert=made.bits)]]


def _constant(given: object) -> _Found | None:
    """A value that is compiled in."""
    if given is None:
        return "value", [Check("identity")], []
    if isinstance(given, type):
        # Classes of the language stay what they are; what others hold may change, and is looked at anew.
        known = issubclass(given, Numeric) and _is_ours(given)
        return ("value", [Check("identity")], []) if known else None
    if _stays(given):
        return "value", [Check("class"), Check("content")], []
    if type(given) in (int, bool, str):
        return "value", [Check("class"), Check("value")], []
    return ("value", [Check("class"), Check("bits")], []) if type(given) is float else None


def _object(given: object) -> _Found:
    """A compile-time value of a class of the user's: the very same one, or a tuple of the same plain values.

    What the code reads of it beside that, its class above all, is looked at by the plan as a whole.
    """
    if content_of(given) is not None:
        return "value", [Check("class"), Check("content")], []
    return "value", [Check("identity")], []


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("flydsl.")


def _stays(given: object) -> bool:
    """Whether it is a tuple of what never changes; one of a class that could change is looked at anew."""
    if not isinstance(given, tuple) or not (type(given) is tuple or _is_ours(type(given))):  # pyright: ignore[reportUnknownArgumentType]
        return False
    items = cast("tuple[object, ...]", given)
    return all(x is None or type(x) in (int, bool, str, float) or _stays(x) for x in items)


def _placed(planned: list[ArgumentPlan]) -> tuple[tuple[PlacedSlot, ...], int]:
    owned: list[tuple[ArgumentPlan | None, Slot]] = [(each, slot) for each in planned for slot in each.slots]
    if not any(slot in ([STREAM], [HANDLE]) for _, slot in owned):
        owned.append((None, [STREAM]))
    found: list[PlacedSlot] = []
    end = 0
    for owner, slot in owned:
        found.append(PlacedSlot(owner, slot, end + -end % _ALIGN))
        end = found[-1].offset + struct.calcsize(found[-1].format)
    return tuple(found), end
