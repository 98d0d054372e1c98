"""What rewritten control flow calls: `if`, `for ... in range`, `while`, conditional expressions, `and`, `or`, `not`.

A condition known at trace time is decided here, in plain Python; everything else goes to `regions`, which emits `scf`
and needs the compiler. Bodies arrive as functions that share the user's variables as closure cells. `names` lists the
variables a statement may change, with how: `ASSIGNED`, `STORED` (`x[i] = v`, `x.f = v`), `RECEIVED` (`x.m()`) or
`DEEP` (`x.f.m()`). A variable that is unbound before a run-time region is unbound after it; under a condition that is
known, statements do what they do in Python.
"""

from __future__ import annotations

import numbers
import operator
import re
import sys
from collections.abc import Callable, Generator, Mapping, Sequence, Set
from contextlib import contextmanager
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, TypeAlias, cast

from ... import config
from ...errors import DSLRuntimeError, DSLTypeError, DSLValueError, RejectedSyntaxError, UnrollWarning
from ...ir.user_code import is_user_code
from ..emit import trace
from ..scalars.scalar_ops import is_ir_value
from .texts import joined as joined

if TYPE_CHECKING:
    from ..numeric import Boolean


DEEP, RECEIVED, STORED, ASSIGNED = range(4)

Names = Sequence[tuple[str, int]]
Body: TypeAlias = Callable[..., Any]


def const_expr(x: Any) -> Any:
    """Mark the test of an `if` or `while` as compile-time: the statement stays plain Python.

    >>> def apply(x, how):
    ...     if fx.const_expr(how == "negate"):
    ...         x = -x
    ...     return x
    >>> flyc.evaluate(apply, 3, "negate")
    -3
    """
    return x


def range_constexpr(*args: SupportsIndex) -> range:
    """Python's `range` over compile-time integers; a loop over it is unrolled while tracing.

    >>> list(fx.range_constexpr(fx.Int32(4)))
    [0, 1, 2, 3]
    """
    made = range(*(operator.index(a) for a in args))
    if len(made) > UNROLLED_QUIETLY and trace.maybe_current() is not None:
        _warn_of_cost(len(made))
    return made


UNROLLED_QUIETLY = 2000
"""Steps that a loop may have that is unrolled while tracing, before its cost is told."""
_SECONDS_PER_STEP = 2.5e-3
"""Of tracing and compiling a step of some four operations."""


def _warn_of_cost(steps: int) -> None:
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and not is_user_code(frame.f_code):
        frame = frame.f_back
    config.warn(
        f"{frame.f_code.co_filename}:{frame.f_lineno}: range_constexpr unrolls {steps} steps, each of which is traced "
        f"and compiled by itself: about {steps * _SECONDS_PER_STEP:.0f} s for a body of four operations, and code as "
        "many times as long. A loop over range(...) is compiled once",
        UnrollWarning,
        stacklevel=3,
    )


# --- conditions ---------------------------------------------------------------------------------------------------


def is_runtime(x: object) -> bool:
    """Whether the truth of `x` is only known at run time: it has a logical hook and is not a compile-time number."""
    if getattr(type(x), "__dsl_bool__", None) is None:
        return is_ir_value(x)
    static = getattr(x, "is_static", None)
    return static is None or not static()


def truth(x: object) -> bool | Boolean:
    """`bool` of a compile-time value, a run-time `Boolean` otherwise."""
    if not is_runtime(x):
        return bool(x)
    made = typed(x).__dsl_bool__()
    return made if is_runtime(made) else bool(made)


def typed(x: object) -> Any:
    """A bare IR value as a number of its class; anything else as it is."""
    if not is_ir_value(x):
        return x
    from ..numeric import Numeric

    return Numeric.from_ir_type(x.type)(x)


def more_and(left: object) -> bool:
    """Whether `left and right` needs its right operand."""
    return is_runtime(left) or bool(left)


def more_or(left: object) -> bool:
    """Whether `left or right` needs its right operand."""
    return is_runtime(left) or not left


def and_(left: object, right: object) -> object:
    """`left and right`, where `more_and(left)`; of a compile-time left operand only the right one is left."""
    return _logical(left, right, "and", "__dsl_and__") if is_runtime(left) else right


def or_(left: object, right: object) -> object:
    """`left or right`, where `more_or(left)`."""
    if is_runtime(left):
        return _logical(left, right, "or", "__dsl_or__")
    if left is None and is_runtime(right):
        raise DSLValueError(
            "'or' got None on its left and a run-time value on its right; a default is chosen with "
            "'value if value is not None else default'"
        )
    return right


def _logical(left: object, right: object, word: str, hook: str) -> object:
    if right is None:
        raise DSLValueError(f"'{word}' got None on its right and a run-time value on its left")
    return getattr(typed(left), hook)(typed(right))


def before(names: Names, cells: Body) -> list[tuple[CellType, object]]:
    """What variables are that the right operand of an `and` or `or` is about to bind, where they are anything."""
    return [(cell, cell.cell_contents) for cell in cells_of(names, cells).values() if is_bound(cell)]


def and_binding(left: object, before: list[tuple[CellType, object]], right: object) -> object:
    """`left and right`, where `more_and(left)`; the right operand has bound variables."""
    _keep(left, before, True)
    return and_(left, right)


def or_binding(left: object, before: list[tuple[CellType, object]], right: object) -> object:
    """`left or right` of the same kind."""
    _keep(left, before, False)
    return or_(left, right)


def _keep(left: object, before: list[tuple[CellType, object]], when: bool) -> None:
    """Let variables be what they were where Python would not have come to the right operand."""
    if not is_runtime(left):
        return
    from ..numeric import Numeric

    cond: Any = truth(left)
    for cell, old in before:
        new = cell.cell_contents
        if new is old or not all(isinstance(x, (numbers.Real, Numeric)) for x in (old, new)):
            continue
        old, new = _regions().promote(old, new), _regions().promote(new, old)
        if type(old) is type(new):  # another one is no longer what it was
            cell.cell_contents = cond.select(new, old) if when else cond.select(old, new)


def not_(x: object) -> object:
    """`not x`."""
    return typed(x).__dsl_not__() if is_runtime(x) else not x


def chosen(x: object) -> object:
    """The condition of a comprehension, on which depends how many items there are."""
    if not is_runtime(x):
        return x
    raise DSLRuntimeError(
        "a comprehension decides while tracing which items it has, and this condition is known at run time only; keep "
        "all items and choose their values, as in [a if cond else b for ...]"
    )


def contains(x: object, items: Any) -> bool:
    """`x in items`. Tables find by hash, which takes a run-time value for different from every number."""
    found = x in items
    if not found and isinstance(items, (Set, Mapping)):
        refuse_key(x, cast("Set[object]", items))
    return found


def lookup(method: Body, *args: Any, **options: object) -> Any:
    """A call of a method named like those that look something up in a dict."""
    table = getattr(method, "__self__", None)
    if args and isinstance(table, dict) and args[0] not in table:
        refuse_key(args[0], cast("dict[object, object]", table).keys())
    return method(*args, **options)


def refuse_key(x: object, keys: Set[object]) -> None:
    """Refuse to take a value for different from all keys where that is known at run time only."""
    if any(is_number(key) for key in keys) if is_runtime(x) else is_number(x) and any(map(is_runtime, keys)):
        raise DSLRuntimeError(
            "whether a run-time value equals a key of a table is known at run time only; compare with each, or pick "
            "with cond.select(a, b)"
        )


def is_number(x: object) -> bool:
    """Whether `x` is a number that is known while tracing."""
    return isinstance(x, numbers.Real) or (hasattr(type(x), "is_static") and not is_runtime(x))


# --- functions of Python ------------------------------------------------------------------------------------------

LOOKUPS = ("get", "pop", "setdefault")
"""Methods of dicts that do something else for a key that is not there; calls of these names come to `lookup`."""
BUILTINS = ("all", "any", "max", "min")
"""Functions of Python that decide by truth; calls of these names come to `builtin`."""


def builtin(function: Body, *args: Any, **options: object) -> Any:
    """A call of something named like one of `BUILTINS`: the same on values of a kernel, if it is that function."""
    if options or not args or function not in _FOLDS:
        return function(*args, **options)
    many = function in (all, any)
    items: list[object] = list(args[0]) if len(args) == 1 else list(args)
    if (many and len(args) > 1) or not any(is_runtime(x) for x in items):
        return function(*((items,) if len(args) == 1 else args))
    if not many:
        from .. import arith

        return getattr(arith, function.__name__)(*items)
    more, fold = (more_and, and_) if function is all else (more_or, or_)
    found = truth(items[0])
    for item in items[1:]:
        if not more(found):
            break
        found = fold(found, truth(item))
    return found


_FOLDS: tuple[Body, ...] = (all, any, max, min)


# --- statements ---------------------------------------------------------------------------------------------------


class DebuggerWanted(RejectedSyntaxError):
    """A kernel for the cpu stack has a `breakpoint()` and no debugger runs: a call starts one and tries again."""


def stop_here(where: tuple[str, int, int, int, int]) -> None:
    """`breakpoint()`: the kernel stops there when it runs under the debugger, which interprets the cpu stack's code."""
    tracer = trace.maybe_current()
    if tracer is None:
        breakpoint()  # noqa: T100 - a function that runs as plain Python
        return
    mark = getattr(tracer, "stop_here", None)
    if mark is not None and mark():
        return
    frames = tracer.functions
    if frames and getattr(frames[-1], "is_kernel", False):
        target = next((f.target for f in frames if hasattr(f, "target")), None)
        if target is not None and target.on_host:
            text = "breakpoint() stops a kernel that is called, or that `fly debug` runs; it cannot be compiled alone"
            raise DebuggerWanted(text, *where)
    raise RejectedSyntaxError(
        "breakpoint() cannot stop a kernel on a GPU, nor the function that launches it: their Python runs once, while "
        "it is traced; run on the cpu stack (FLYDSL_COMPILE_BACKEND=cpu), where it stops kernels, print values with "
        "fx.printf, or call pdb.set_trace() to look at the tracing itself",
        *where,
    )


class Exit:
    """How a body ended before its end: `return`, `break` or `continue` under a condition that was known."""

    __slots__ = ("message", "value", "where", "word")

    def __init__(self, word: str, value: object, message: str, where: tuple[str, int, int, int, int]):
        self.word = word
        self.value = value
        self.message = message
        self.where = where

    def refuse(self) -> NoReturn:
        """The condition is only known at run time after all."""
        raise RejectedSyntaxError(self.message, *self.where)


def refuse_exit(left: object, but: str | None = None) -> None:
    """Refuse to leave a run-time region early; `but` is the one word that may."""
    if isinstance(left, Exit) and left.word != but:
        left.refuse()


def cells_of(names: Names, *bodies: Body | None) -> dict[str, CellType]:
    """The cells of variables that bodies share with the function around them."""
    found: dict[str, CellType] = {}
    for body in bodies:
        if body is not None:
            fn = cast(FunctionType, body)
            found.update(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    return {name: found[name] for name, _ in names if name in found}


def is_bound(cell: CellType) -> bool:
    """Whether a variable has a value."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def unbind(cell: CellType) -> None:
    """Take a variable's value away."""
    if is_bound(cell):
        del cell.cell_contents


@contextmanager
def scope(cells: dict[str, CellType]) -> Generator[None]:
    """A nested scope: variables that are unbound before are unbound after."""
    fresh = [cell for cell in cells.values() if not is_bound(cell)]
    try:
        yield
    finally:
        for cell in fresh:
            unbind(cell)


def _regions():
    """`regions`, which needs the compiler: loaded at the first run-time condition."""
    from . import regions

    return regions


def if_(cond: object, then: Body, orelse: Body | None, names: Names) -> Exit | None:
    """An `if` statement; how its branch was left, where that was known while tracing and before its end."""
    known = truth(cond)
    if isinstance(known, bool):
        chosen = then if known else orelse
        return None if chosen is None else _decided(chosen, names)
    return _regions().if_region(known, then, orelse, names)


def _decided(chosen: Body, names: Names) -> Exit | None:
    """The branch that was taken while tracing. What it binds stays bound, and is noted as new."""
    tracer = trace.maybe_current()
    if tracer is None or not names:
        return chosen()
    fresh = [cell for cell in cells_of(names, chosen).values() if not is_bound(cell)]
    left = chosen()
    for cell in fresh:
        if is_bound(cell):
            tracer.loose[id(cell)] = cell
    return left


def if_expr(cond: object, then: Body, orelse: Body, names: Names = (), cells: Body | None = None) -> Any:
    """`then if cond else orelse`; the arms change variables where there are `names`, whose cells `cells` has."""
    known = truth(cond)
    if isinstance(known, bool):
        return then() if known else orelse()
    return _regions().if_value(known, then, orelse, names, cells)


def and_then(left: object, right: Body, names: Names, cells: Body) -> Any:
    """`left and right` whose right operand changes variables, which it must not where the left one is false."""
    if not is_runtime(left):
        return right() if left else left
    return if_expr(left, lambda: truth(right()), lambda: False, names, cells)


def or_then(left: object, right: Body, names: Names, cells: Body) -> Any:
    """`left or right` of the same kind."""
    if not is_runtime(left):
        return left or right()
    return if_expr(left, lambda: True, lambda: truth(right()), names, cells)


def while_(cond: Body, body: Body, names: Names) -> None:
    """A `while` statement."""
    if trace.maybe_current() is not None:
        _regions().while_region(cond, body, names)
        return
    with scope(cells_of(names, cond, body)):
        while cond():
            refuse_exit(body(), but="continue")


def for_range(body: Body, names: Names, *bounds: object, unroll: object = None, unroll_full: object = False) -> None:
    """`for i in range(*bounds)`; the body gets the value of `i`."""
    hints = unroll_hints(unroll, unroll_full)
    start, stop, step = _bounds(bounds)
    if trace.maybe_current() is not None:
        _regions().for_region(body, names, (start, stop, step), hints)
        return
    # Nothing to emit into: this is how a rewritten function runs as plain Python.
    with scope(cells_of(names, body)):
        for i in range_constexpr(start, stop, step):
            refuse_exit(body(i), but="continue")


def for_init(
    body: Body, names: Names, *bounds: object, init: object, unroll: object = None, unroll_full: object = False
) -> Any:
    """`for i, state in range(*bounds, init=...)`; the body returns the next state, the result is the last one.

    The state is a list in the body, also of one value; after the loop one value stands by itself.
    """
    hints = unroll_hints(unroll, unroll_full)
    start, stop, step = _bounds(bounds)
    if not isinstance(init, (list, tuple)):
        raise DSLTypeError(f"range(init=...) expects a list of values, got {type(init).__name__}")
    state = list(cast("Sequence[object]", init))
    if trace.maybe_current() is not None:
        return _regions().for_region(body, names, (start, stop, step), hints, state)
    with scope(cells_of(names, body)):
        for i in range_constexpr(start, stop, step):
            state = list(body(i, state))
    return last_state(state)


def last_state(state: list[object]) -> object:
    """What `results = yield [...]` gives after the loop: the last values, a single one without a list around it."""
    return state[0] if len(state) == 1 else state


def _bounds(args: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    if not 1 <= len(args) <= 3:
        raise DSLTypeError(f"range expects 1 to 3 arguments, got {len(args)}")
    if len(args) == 1:
        return 0, args[0], 1
    return args[0], args[1], args[2] if len(args) == 3 else 1


def unroll_hints(unroll: object, unroll_full: object) -> dict[str, int]:
    """The unroll hints of a loop, checked: `{}`, `{"count": N}` or `{"full": 1}`."""
    full = _constant(unroll_full, "unroll_full")
    if unroll is None:
        return {"full": 1} if full else {}
    factor = _constant(unroll, "unroll")
    if full:
        raise DSLValueError("range(...) takes unroll or unroll_full, not both")
    if factor < 1:
        raise DSLValueError(f"range(unroll=...) must be positive, got {factor}")
    return {"count": factor}


def _constant(x: Any, what: str) -> int:
    if is_runtime(x):
        raise DSLTypeError(f"range({what}=...) must be a compile-time constant, got a run-time {type(x).__name__}")
    try:
        return operator.index(x)
    except TypeError:
        raise DSLTypeError(f"range({what}=...) must be an integer constant, got {type(x).__name__}") from None


# --- names --------------------------------------------------------------------------------------------------------


def explain_name(error: NameError, table: Sequence[tuple[str, str, int]]) -> None:
    """Say in a `NameError` that the variable lives in a region, if that is why it is unbound."""
    found = re.search(r"'(\w+)'", str(error))
    where = next((w for w in table if found and w[0] == found[1]), None)
    here = at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if where is None or here is None or at is None:
        return
    if at.tb_frame.f_code.co_filename != here.tb_frame.f_code.co_filename:
        return  # raised in a helper from elsewhere
    name, what, line = where
    tracer = trace.maybe_current()
    why = "its condition, known while tracing, left that side out"
    if tracer is None or name in tracer.unbound or what != "if":
        why = "what a run-time region defines does not exist after it"
        why = (tracer and tracer.unbound.get(name)) or why
    error.args = (
        f"'{name}' is defined only inside the '{what}' at line {line}; {why}. Define '{name}' before the '{what}'",
    )
