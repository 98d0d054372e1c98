"""Values carried through a run-time region: how a variable becomes a list of IR values, and comes back.

A `Tree` is the shape of one variable as it enters a region: its containers, its DSL values and the IR values they hold.
At the end of the region the variable must still have that shape. Variables that cannot have changed are not carried.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import numbers
import sys
import warnings
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn, cast

from ...errors import DSLTypeError, FlyDSLWarning
from ..emit.trace import current
from ..numeric import Numeric, as_numeric
from ..scalars.scalar_ops import is_ir_value
from .control_flow import ASSIGNED, DEEP, RECEIVED, STORED, Body, Names, cells_of, is_bound, unbind

if TYPE_CHECKING:
    from ..annotations import SSAValue


_HANDLES = {
    f"flydsl.expr.{name}" for name in ("numeric", "tensor", "vector", "tensors.algebra_values", "tensors.tiled")
}
_CONSTANTS = (
    str, bytes, range, slice, frozenset, enum.Enum, type, ModuleType, FunctionType, MethodType, BuiltinFunctionType,
    numbers.Number, type(None), type(Ellipsis),
)  # fmt: skip

_OTHER_CONTAINERS = (set, deque, bytearray, array)

_handle_classes: dict[type, bool] = {}


def class_of(x: object) -> Any:
    """`type(x)`, for the type checker a class it knows nothing about."""
    return cast(Any, type(x))


def is_handle(x: object, kind: int) -> bool:
    """Whether `x` is a DSL value that no method or store can change: what it points to may, the value itself not.

    Numbers, tensors, pointers, layouts and atoms are; other classes can say so with `__dsl_immutable__ = True`.
    """
    cls = class_of(x)
    known = _handle_classes.get(cls)
    if known is None:
        known = _handle_classes[cls] = bool(getattr(cls, "__dsl_immutable__", False)) or any(
            base.__module__ in _HANDLES for base in cls.__mro__
        )
    return known and not (kind == STORED and cls.__name__ == "Vector")


def is_constant(x: object) -> bool:
    """Whether `x` is a Python object that a method call cannot change, or that asks to be left alone.

    A class whose objects may be used in run-time regions as they are says so with `__dsl_captured__ = True`.
    """
    if isinstance(x, _CONSTANTS) or getattr(class_of(x), "__dsl_captured__", False):
        return True
    if isinstance(x, tuple):
        return all(is_constant(item) for item in cast("tuple[object, ...]", x))
    params = getattr(class_of(x), "__dataclass_params__", None)
    return dataclasses.is_dataclass(x) and bool(params is not None and params.frozen)


def is_fixed_tuple(x: object) -> bool:
    """Whether `x` is a tuple, named or not, that no method can change, since nothing in it can be."""
    return isinstance(x, tuple) and all(
        is_handle(item, RECEIVED) or is_constant(item) or is_ir_value(item) or is_fixed_tuple(item)
        for item in cast("tuple[object, ...]", x)
    )


def is_dsl(x: object) -> bool:
    """Whether `x` answers the protocol of DSL values."""
    return getattr(class_of(x), "__extract_to_ir_values__", None) is not None


def children_of(x: object) -> list[tuple[object, object]] | None:
    """Keys and items of a container, or None."""
    if isinstance(x, (list, tuple)):
        return list(enumerate(cast("Sequence[object]", x)))
    if isinstance(x, dict):
        return list(cast("dict[object, object]", x).items())
    if isinstance(x, SimpleNamespace):
        return list(vars(x).items())
    return None


def is_other_container(x: object) -> bool:
    """Whether `x` is a container that is not carried: its methods must not change it."""
    return isinstance(x, _OTHER_CONTAINERS)


def holds_dsl(x: object) -> bool:
    """Whether there is a DSL value in a container, at any depth."""
    if is_dsl(x) or is_ir_value(x):
        return True
    children = children_of(x)
    return children is not None and any(holds_dsl(item) for _, item in children)


def with_items(like: object, items: Sequence[object]) -> Any:
    """A container like another one, with other items."""
    if isinstance(like, dict):
        made = copy.copy(cast("dict[object, object]", like))  # a defaultdict keeps what it makes items with
        made.update(zip(made, items, strict=True))
        return made
    if isinstance(like, SimpleNamespace):
        return SimpleNamespace(**dict(zip(vars(like), items, strict=True)))
    cls = class_of(like)
    return cls(*items) if hasattr(cls, "_fields") else cls(items)


def child_path(path: str, container: object, key: object) -> str:
    """How the user would write an item of a container."""
    return f"{path}.{key}" if isinstance(container, SimpleNamespace) else f"{path}[{key!r}]"


def describe(x: object) -> str:
    """The type of a value as the user knows it, with its IR types."""
    children = children_of(x)
    if children is not None:
        if isinstance(x, (dict, SimpleNamespace)):
            return f"{class_of(cast(object, x)).__name__} with {', '.join(str(k) for k, _ in children) or 'no items'}"
        return f"{class_of(x).__name__} of {len(children)}"
    if isinstance(x, numbers.Real):
        x = as_numeric(x)
    if isinstance(x, Numeric):
        return f"{type(x).__name__} ({type(x).ir_name})"
    if is_ir_value(x):
        return f"an IR value ({x.type})"
    if is_dsl(x):
        types = ", ".join(str(v.type) for v in cast(Any, x).__extract_to_ir_values__())
        return f"{type(x).__name__} ({types})" if types else f"{type(x).__name__} {x!r}"
    return "None" if x is None else f"{type(x).__name__} {x!r}"


def mismatch(path: str, end: str, entry: object, now: object) -> NoReturn:
    """The value at the end of a region is not like the one at its start."""
    if end == ARMS:
        raise DSLTypeError(
            f"the arms of a conditional expression must have the same type: {path} is {describe(entry)} in the first "
            f"and {describe(now)} in the second; convert one of them"
        )
    remedy = "give it before the region the type it is to have, or convert what is assigned, as in x.to(fx.Float32)"
    if children_of(entry) is not None:
        remedy = "containers keep their length and keys in a run-time region: make room before it"
    raise DSLTypeError(
        f"variable '{path}' at the end of the {end} does not match the region entry: it was {describe(entry)} and "
        f"became {describe(now)}; {remedy}"
    )


ARMS = "second arm"
"""The `end` of a conditional expression, whose second arm must be like the first."""


# --- shapes -------------------------------------------------------------------------------------------------------


class Tree:
    """One value as it entered a region."""

    __slots__ = ("entry", "leaves")

    promoted = False
    """Whether a Python number in it became a DSL one."""

    def __init__(self, entry: object, leaves: list[SSAValue]):
        self.entry: Any = entry
        self.leaves = leaves

    def fresh(self) -> object:
        """The value, in objects of its own: what a branch does to them stays in the branch."""
        return self.entry

    def rebuild(self, values: Iterator[SSAValue]) -> object:
        """The value made of other IR values."""
        raise NotImplementedError

    def leave(self, now: object, path: str, end: str) -> list[SSAValue]:
        """IR values of what the variable is at the end of the region."""
        raise NotImplementedError


class Scalar(Tree):
    """A number, or an IR value that stands for itself."""

    __slots__ = ("promoted",)

    def __init__(self, entry: Any):
        self.promoted = isinstance(entry, numbers.Real)
        number = as_numeric(entry) if self.promoted else entry
        super().__init__(number, [number if is_ir_value(number) else number.ir_value()])

    def rebuild(self, values: Iterator[SSAValue]) -> object:
        value = next(values)
        if is_ir_value(self.entry):
            return value
        return class_of(self.entry).__construct_from_ir_values__([value], self.entry)

    def leave(self, now: Any, path: str, end: str) -> list[SSAValue]:
        if is_ir_value(now):
            leaf = now
        elif isinstance(now, (numbers.Real, Numeric)):
            leaf = as_numeric(now).ir_value()
        elif is_dsl(now) and len(now.__extract_to_ir_values__()) == 1 and is_ir_value(self.entry):
            (leaf,) = now.__extract_to_ir_values__()
        else:
            mismatch(path, end, self.entry, now)
        if leaf.type != self.leaves[0].type:
            mismatch(path, end, self.entry, now)
        return [leaf]


class Dsl(Tree):
    """A DSL value of any other class."""

    __slots__ = ()

    def __init__(self, entry: Any):
        super().__init__(entry, list(entry.__extract_to_ir_values__()))

    def fresh(self) -> object:
        return self.entry if is_handle(self.entry, RECEIVED) else self.rebuild(iter(self.leaves))

    def rebuild(self, values: Iterator[SSAValue]) -> object:
        own = [next(values) for _ in self.leaves]
        return class_of(self.entry).__construct_from_ir_values__(own, self.entry)

    def leave(self, now: Any, path: str, end: str) -> list[SSAValue]:
        leaves: list[SSAValue]
        if is_ir_value(now) and len(self.leaves) == 1:
            leaves = [now]  # the bare value of what the variable was
        elif type(now) is not type(self.entry) and not (
            is_dsl(now) and type(now).__name__ == type(self.entry).__name__
        ):
            mismatch(path, end, self.entry, now)
        else:
            leaves = list(cast(Any, now).__extract_to_ir_values__())
        if [v.type for v in leaves] != [v.type for v in self.leaves]:
            mismatch(path, end, self.entry, now)
        # Without IR values the object is all static, so it has to be the same one.
        if not leaves and not same(now, self.entry):
            mismatch(path, end, self.entry, now)
        return leaves


class Static(Tree):
    """A Python object that stays as it is."""

    __slots__ = ()

    def __init__(self, entry: object):
        super().__init__(entry, [])

    def rebuild(self, values: Iterator[SSAValue]) -> object:
        return self.entry

    def leave(self, now: object, path: str, end: str) -> list[SSAValue]:
        if same(now, self.entry):
            return []
        if self.entry is None:
            reject_none([path])
        raise DSLTypeError(
            f"Cannot extract IR values from '{path}', a {type(self.entry).__name__}: it is changed in the {end} of a "
            "run-time region, which can only carry DSL values; make the region compile-time with const_expr or "
            "range_constexpr"
        )


class Node(Tree):
    """A container."""

    __slots__ = ("children", "promoted")

    def __init__(self, entry: object, children: list[tuple[object, Tree]]):
        super().__init__(entry, [leaf for _, child in children for leaf in child.leaves])
        self.children = children
        self.promoted = any(child.promoted for _, child in children)

    def fresh(self) -> object:
        return with_items(self.entry, [child.fresh() for _, child in self.children])

    def rebuild(self, values: Iterator[SSAValue]) -> object:
        return with_items(self.entry, [child.rebuild(values) for _, child in self.children])

    def leave(self, now: object, path: str, end: str) -> list[SSAValue]:
        items = dict(children_of(now) or ()) if type(now) is type(self.entry) else None
        if items is None or items.keys() != {key for key, _ in self.children}:
            mismatch(path, end, self.entry, now)
        found: list[SSAValue] = []
        for key, child in self.children:
            found += child.leave(items[key], child_path(path, self.entry, key), end)
        return found


def same(a: object, b: object) -> bool:
    """Whether two static objects are one, or equal."""
    return a is b or (type(a) is type(b) and (a == b) is True)


def tree_of(x: object, path: str, lenient: bool = False) -> Tree:
    """The shape of a value. `lenient` takes objects that are not DSL values as long as they stay the same."""
    if is_ir_value(x) or isinstance(x, (numbers.Real, Numeric)):
        return Scalar(x)
    if is_dsl(x):
        return Dsl(x)
    children = children_of(x)
    if children is not None:
        return Node(x, [(key, tree_of(item, child_path(path, x, key), lenient)) for key, item in children])
    if x is None and not lenient:
        reject_none([path])
    if not lenient and not is_constant(x):
        raise DSLTypeError(
            f"Cannot extract IR values from '{path}', a {type(x).__name__}: it is not a DSL value, and a run-time "
            "region changes it. Make the region compile-time with const_expr or range_constexpr, or give the class the "
            "methods of a DSL value (__extract_to_ir_values__, __construct_from_ir_values__)"
        )
    return Static(x)


def reject_none(names: Sequence[str]) -> NoReturn:
    """Variables that are None when a region starts have no type to carry."""
    text = ", ".join(f"'{n}'" for n in names)
    raise DSLTypeError(
        f"{text} {'is' if len(names) == 1 else 'are'} initialized as None and assigned in a run-time region; start "
        "with a value of the type the variable is to have, such as fx.Float32(0.0)"
    )


# --- variables ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class Slot:
    """One carried variable."""

    name: str
    kind: int
    cell: CellType
    before: object
    tree: Tree
    loose: bool = False
    """Whether the variable came from a compile-time `if`, so that nobody may be asking for it any more."""
    entered: list[SSAValue] = dataclasses.field(default_factory=list["SSAValue"])
    """Its IR values at the start of the body."""
    lost: bool = False
    """Whether the region gave it another type, which ends it."""


class Variables:
    """The variables a region may change. As a context manager: puts them back if tracing the region fails."""

    def __init__(self, names: Names, *bodies: Body | None):
        self.slots: list[Slot] = []
        self.unbound: dict[str, CellType] = {}
        """Variables that do not exist before the region, and so not after it."""
        self.watched: list[tuple[str, object, list[object]]] = []
        """Python containers whose methods are called: they may be read, but not changed."""
        self.objects: list[tuple[str, object, dict[str, object]]] = []
        """Other Python objects whose methods are called: what happens to their attributes happens while tracing."""
        cells = cells_of(names, *bodies)
        none: list[str] = []
        for name, kind in names:
            cell = cells.get(name)
            if cell is None:
                continue
            if not is_bound(cell):
                self.unbound[name] = cell
            elif cell.cell_contents is None and kind == ASSIGNED:
                none.append(name)
            else:
                self._add(name, kind, cell)
        if none:
            reject_none(none)

    def _add(self, name: str, kind: int, cell: CellType) -> None:
        value = cell.cell_contents
        if kind < ASSIGNED and (is_handle(value, kind) or is_fixed_tuple(value)):
            return
        if kind <= RECEIVED:
            if is_constant(value) or (kind == DEEP and not holds_dsl(value)):
                return
            if is_other_container(value) or (children_of(value) is not None and not holds_dsl(value)):
                self.watched.append((name, value, _snapshot(value)))
                return
            if children_of(value) is None and not is_dsl(value):
                self.objects.append((name, value, _attributes(value)))
                return
            # An object in a container may be called through it; it only must not be replaced.
            lenient = kind == DEEP or children_of(value) is not None
            self.slots.append(Slot(name, kind, cell, value, tree_of(value, name, lenient)))
            return
        loose = current().loose.get(id(cell)) is cell
        self.slots.append(Slot(name, kind, cell, value, tree_of(value, name), loose))

    def add_state(self, name: str, state: list[object]) -> CellType:
        """Carry a value that is no variable of the user."""
        cell = CellType(state)
        self.slots.append(Slot(name, ASSIGNED, cell, state, tree_of(state, name)))
        return cell

    def __enter__(self) -> Variables:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if isinstance(error, BaseException):
            current().broken_off = current().broken_off or error
            for slot in self.slots:
                slot.cell.cell_contents = slot.before
        self.forget_new()

    @property
    def leaves(self) -> list[SSAValue]:
        """IR values of all variables as they enter the region."""
        return [leaf for slot in self.slots for leaf in slot.tree.leaves]

    def bound_now(self) -> dict[str, CellType]:
        """Variables that the region has defined so far."""
        return {name: cell for name, cell in self.unbound.items() if is_bound(cell)}

    def forget_new(self) -> None:
        """Unbind what the region defined."""
        for name, cell in self.unbound.items():
            if is_bound(cell):
                del cell.cell_contents
                current().unbound[name] = ""

    def bind_fresh(self) -> None:
        """Start a branch: the values of before, in new objects."""
        for slot in self.slots:
            slot.cell.cell_contents = slot.tree.fresh()
            slot.entered = slot.tree.leaves

    def bind(self, values: Sequence[SSAValue]) -> None:
        """Start a body: the same shapes, made of these IR values."""
        source = iter(values)
        for slot in self.slots:
            slot.entered = [next(source) for _ in slot.tree.leaves]
            slot.cell.cell_contents = slot.tree.rebuild(iter(slot.entered))

    def leave(self, end: str) -> list[SSAValue]:
        """IR values of all variables at the end of a body."""
        found: list[SSAValue] = []
        for slot in self.slots:
            if slot.loose and self._ended(slot, end):
                found += slot.entered
                continue
            if not is_bound(slot.cell):
                raise DSLTypeError(
                    f"variable '{slot.name}' is deleted in the {end}, so it does not match the region entry; a "
                    "run-time region can only change what a variable holds"
                )
            found += slot.tree.leave(slot.cell.cell_contents, slot.name, end)
        for name, value, before in self.watched:
            after = _snapshot(value)
            if len(after) != len(before) or not all(same(a, b) for a, b in zip(after, before, strict=True)):
                raise DSLTypeError(
                    f"variable '{name}' at the end of the {end} does not match the region entry: a method changed this "
                    f"{type(value).__name__} of Python values, and would do so once, whatever happens at run time; "
                    "containers keep their length and keys in a run-time region"
                )
        for name, value, before in self.objects:
            check_attributes(name, value, before, end)
        return found

    def _ended(self, slot: Slot, end: str) -> bool:
        """Whether a loose variable is something else by now, and nobody in a loop asks for what it was before."""
        looped = slot.entered is not slot.tree.leaves
        if looped and any(value.first_use is not None for value in slot.entered):
            return False
        if is_bound(slot.cell):
            try:
                slot.tree.leave(slot.cell.cell_contents, slot.name, end)
            except DSLTypeError as error:
                current().unbound[slot.name] = str(error)
                slot.lost = True
        else:
            slot.lost = True
        return slot.lost

    def finish(self, values: Sequence[SSAValue]) -> None:
        """After the region: give every variable its value."""
        source = iter(values)
        for slot in self.slots:
            own = [next(source) for _ in slot.tree.leaves]
            if slot.lost:
                unbind(slot.cell)
                continue
            unchanged = all(a is b for a, b in zip(own, slot.tree.leaves, strict=True))
            keep = unchanged and not (slot.kind == ASSIGNED and slot.tree.promoted)
            slot.cell.cell_contents = slot.before if keep else slot.tree.rebuild(iter(own))


def _attributes(x: object) -> dict[str, object]:
    """The attributes of an object, as they are."""
    found = dict(getattr(x, "__dict__", {}))
    for cls in type(x).__mro__:
        slots: object = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else cast("Sequence[str]", slots):
            if hasattr(x, name):
                found[name] = getattr(x, name)
    return found


def check_attributes(name: str, x: object, before: dict[str, object], end: str) -> None:
    """What a method did to the object it was called on in a run-time region.

    The region is traced once, so an attribute changes once, whatever happens at run time: for a Python value that is
    told, and for a value of the kernel it cannot be, since it exists only inside the region.
    """
    for key, now in _attributes(x).items():
        if key in before and before[key] is now:
            continue
        if holds_dsl(now):
            raise DSLTypeError(
                f"Cannot extract IR values from '{name}', a {type(x).__name__}: its '{key}' becomes {describe(now)} "
                f"in the {end}, and a run-time region can only carry variables and DSL values. Assign a variable and "
                "pass it, make the region compile-time with const_expr or range_constexpr, or give the class the "
                "methods of a DSL value (__extract_to_ir_values__, __construct_from_ir_values__)"
            )
        if key in before and not same(before[key], now):
            warnings.warn(
                f"'{name}.{key}' is changed in the {end} of a run-time region: that happens once, while tracing, "
                "whatever happens at run time",
                FlyDSLWarning,
                stacklevel=_frames_to_user(),
            )


def _frames_to_user() -> int:
    """How far up the stack the user's function is, for the line of a warning."""
    from ...ir.user_code import is_user_code

    level, frame = 1, sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and not is_user_code(frame.f_code):
        level, frame = level + 1, frame.f_back
    return level


def _snapshot(x: object) -> list[object]:
    """The keys and leaves of a container, depth first."""
    if is_other_container(x):
        return list(cast("Iterable[object]", x))
    found: list[object] = []
    for key, item in children_of(x) or ():
        found.append(key)
        found += [item] if children_of(item) is None else [type(item), *_snapshot(item)]
    return found
