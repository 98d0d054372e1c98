"""Writing a small LLVM function in Python: values with operators, variables, loops and conditions.

Variables live in stack slots, which LLVM turns into registers. Comparisons are unsigned unless they say otherwise.

    r = Routine("fly_sum", "i64", "ptr from, i64 count")
    total = r.variable("i64", 0)
    with r.loop(r["count"]) as i:
        total.set(total.get() + r.load("i64", r.at(r["from"], i * 8)))
    r.give(total.get())
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any


class Value:
    """An SSA value of a routine."""

    __slots__ = ("name", "routine", "type")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, routine: Routine, type_: str, name: str):
        self.routine, self.type, self.name = routine, type_, name

    def _binary(self, word: str, other: Value | int) -> Value:
        return self.routine.assign(self.type, f"{word} {self.type} {self.name}, {_name(other)}")

    def _compare(self, word: str, other: Value | int) -> Value:
        return self.routine.assign("i1", f"icmp {word} {self.type} {self.name}, {_name(other)}")

    def __add__(self, other: Value | int) -> Value:
        return self._binary("add", other)

    def __sub__(self, other: Value | int) -> Value:
        return self._binary("sub", other)

    def __mul__(self, other: Value | int) -> Value:
        return self._binary("mul", other)

    def __floordiv__(self, other: Value | int) -> Value:
        return self._binary("udiv", other)

    def __mod__(self, other: Value | int) -> Value:
        return self._binary("urem", other)

    def __and__(self, other: Value | int) -> Value:
        return self._binary("and", other)

    def __or__(self, other: Value | int) -> Value:
        return self._binary("or", other)

    def __xor__(self, other: Value | int) -> Value:
        return self._binary("xor", other)

    def __lshift__(self, other: Value | int) -> Value:
        return self._binary("shl", other)

    def __rshift__(self, other: Value | int) -> Value:
        return self._binary("lshr", other)

    def __invert__(self) -> Value:
        return self._binary("xor", -1)

    def __lt__(self, other: Value | int) -> Value:
        return self._compare("ult", other)

    def __le__(self, other: Value | int) -> Value:
        return self._compare("ule", other)

    def __gt__(self, other: Value | int) -> Value:
        return self._compare("ugt", other)

    def __ge__(self, other: Value | int) -> Value:
        return self._compare("uge", other)

    def is_(self, other: Value | int) -> Value:
        """Equality; `==` is left alone so that values stay usable in containers."""
        return self._compare("eq", other)

    def is_not(self, other: Value | int) -> Value:
        """Inequality."""
        return self._compare("ne", other)

    def to(self, type_: str, *, signed: bool = False) -> Value:
        """The integer in another width."""
        if type_ == self.type:
            return self
        grows = int(type_[1:]) > int(self.type[1:])
        word = ("sext" if signed else "zext") if grows else "trunc"
        return self.routine.assign(type_, f"{word} {self.type} {self.name} to {type_}")


def _name(value: Value | int) -> str:
    return value.name if isinstance(value, Value) else str(int(value))


class Variable:
    """A stack slot."""

    __slots__ = ("at", "routine", "type")

    def __init__(self, routine: Routine, type_: str, at: str):
        self.routine, self.type, self.at = routine, type_, at

    def get(self) -> Value:
        return self.routine.assign(self.type, f"load {self.type}, ptr {self.at}")

    def set(self, value: Value | int) -> None:
        self.routine.line(f"store {self.type} {_name(value)}, ptr {self.at}")


class Routine:
    """A function being written; `give` or the end of `text` closes it."""

    def __init__(self, name: str, result: str, params: str, attributes: str = "nounwind", *, linkage: str = "internal"):
        self.linkage = f"{linkage} " if linkage else ""
        self.name, self.result, self.params, self.attributes = name, result, params, attributes
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.declarations: dict[str, str] = {}
        self._count = 0
        self._open = True
        self._known: dict[str, Value] = {}
        for param in filter(None, (p.strip() for p in params.split(","))):
            type_, word = param.rsplit(" ", 1)
            self._known[word] = Value(self, type_, f"%{word}")

    def __getitem__(self, name: str) -> Value:
        return self._known[name]

    def _fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def line(self, text: str) -> None:
        """Append an instruction; what follows a `give` in the same block is never run."""
        if not self._open:
            self.label(self._fresh("after"))
        self.lines.append(f"  {text}")

    def assign(self, type_: str, text: str) -> Value:
        name = f"%{self._fresh('v')}"
        self.line(f"{name} = {text}")
        return Value(self, type_, name)

    def label(self, name: str) -> None:
        if self._open:
            self.lines.append(f"  br label %{name}")
        self.lines.append(f"{name}:")
        self._open = True

    def jump(self, text: str) -> None:
        """End the block."""
        self.line(text)
        self._open = False

    # --- values ---------------------------------------------------------------------------------------------------

    def number(self, value: int, type_: str = "i64") -> Value:
        return Value(self, type_, str(value))

    def variable(self, type_: str, init: Value | int) -> Variable:
        at = f"%{self._fresh('slot')}"
        self.slots.append(f"  {at} = alloca {type_}, align 8")
        made = Variable(self, type_, at)
        made.set(init)
        return made

    def room(self, nbytes: int) -> Value:
        """Memory on the stack."""
        name = f"%{self._fresh('room')}"
        self.slots.append(f"  {name} = alloca [{nbytes} x i8], align 8")
        return Value(self, "ptr", name)

    def at(self, base: Value, nbytes: Value | int) -> Value:
        return self.assign("ptr", f"getelementptr i8, ptr {base.name}, i64 {_name(nbytes)}")

    def load(self, type_: str, at: Value, offset: Value | int = 0, align: int = 1) -> Value:
        place = at if type(offset) is int and not offset else self.at(at, offset)
        return self.assign(type_, f"load {type_}, ptr {place.name}, align {align}")

    def store(self, type_: str, value: Value | int, at: Value, offset: Value | int = 0, align: int = 1) -> None:
        place = at if type(offset) is int and not offset else self.at(at, offset)
        self.line(f"store {type_} {_name(value)}, ptr {place.name}, align {align}")

    def alloca(self, nbytes: int, align: int = 8) -> Value:
        """Address of so many bytes in the frame of the function."""
        at = f"%{self._fresh('frame')}"
        self.slots.append(f"  {at} = alloca [{nbytes} x i8], align {align}")
        return Value(self, "ptr", at)

    def atomic_load(self, type_: str, at: Value, ordering: str = "monotonic") -> Value:
        return self.assign(type_, f"load atomic {type_}, ptr {at.name} {ordering}, align {int(type_[1:]) // 8}")

    def atomic(self, word: str, at: Value, value: Value, ordering: str = "monotonic") -> Value:
        """`atomicrmw`: what was there before."""
        return self.assign(value.type, f"atomicrmw {word} ptr {at.name}, {value.type} {value.name} {ordering}")

    def invoke(self, function: Value, *args: Value) -> None:
        """Call a pointer to a function without a result."""
        self.line(f"call void {function.name}({', '.join(f'{a.type} {a.name}' for a in args)})")

    def choose(self, flag: Value, yes: Value, no: Value) -> Value:
        return self.assign(yes.type, f"select i1 {flag.name}, {yes.type} {yes.name}, {no.type} {no.name}")

    def least(self, x: Value, y: Value) -> Value:
        return self.choose(x < y, x, y)

    def most(self, x: Value, y: Value) -> Value:
        return self.choose(x > y, x, y)

    def address(self, at: Value) -> Value:
        return self.assign("i64", f"ptrtoint ptr {at.name} to i64")

    def call(self, name: str, result: str, *args: Value | tuple[str, Any], external: bool = False) -> Value | None:
        """Call a function; integers come as `(type, value)`."""
        pairs = [(a.type, a.name) if isinstance(a, Value) else (a[0], _name(a[1])) for a in args]
        actual = ", ".join(f"{t} {n}" for t, n in pairs)
        if external:
            self.declarations[name] = f"declare {result} @{name}({', '.join(t for t, _ in pairs)})"
        if result == "void":
            self.line(f"call void @{name}({actual})")
            return None
        return self.assign(result, f"call {result} @{name}({actual})")

    def value_of(self, name: str, result: str, *args: Value | tuple[str, Any], external: bool = False) -> Value:
        """A call with a result."""
        made = self.call(name, result, *args, external=external)
        assert made is not None
        return made

    # --- control flow ---------------------------------------------------------------------------------------------

    def leave(self, flag: Value, label: str) -> None:
        """Go to a label that is placed elsewhere where the flag is set."""
        after = self._fresh("on")
        self.jump(f"br i1 {flag.name}, label %{label}, label %{after}")
        self.label(after)

    @contextmanager
    def when(self, flag: Value) -> Generator[None]:
        yes, after = self._fresh("yes"), self._fresh("end")
        self.jump(f"br i1 {flag.name}, label %{yes}, label %{after}")
        self.label(yes)
        yield
        self.label(after)

    def either(self, flag: Value, then: Callable[[], None], other: Callable[[], None]) -> None:
        yes, no, after = self._fresh("yes"), self._fresh("no"), self._fresh("end")
        self.jump(f"br i1 {flag.name}, label %{yes}, label %{no}")
        self.label(yes)
        then()
        if self._open:
            self.jump(f"br label %{after}")
        self.label(no)
        other()
        self.label(after)

    @contextmanager
    def loop(self, stop: Value | int, start: Value | int = 0, step: Value | int = 1) -> Generator[Value]:
        """Count in i64, up to less than 2^63."""
        counter = self.variable("i64", start)
        with self.again(lambda: counter.get() < stop):
            yield counter.get()
            counter.set(self.assign("i64", f"add nuw nsw i64 {counter.get().name}, {_name(step)}"))

    @contextmanager
    def again(self, condition: Callable[[], Value]) -> Generator[None]:
        """While."""
        head, body, after = self._fresh("head"), self._fresh("body"), self._fresh("done")
        self.label(head)
        self.jump(f"br i1 {condition().name}, label %{body}, label %{after}")
        self.label(body)
        yield
        if self._open:
            self.jump(f"br label %{head}")
        self.label(after)

    def give(self, value: Value | int | None = None) -> None:
        """Return."""
        self.jump("ret void" if value is None else f"ret {self.result} {_name(value)}")

    def text(self) -> str:
        """The whole function."""
        if self._open:
            self.jump("ret void" if self.result == "void" else "unreachable")
        params = ", ".join(f"{v.type} {v.name}" for v in self._known.values())
        head = f"define {self.linkage}{self.result} @{self.name}({params}) {self.attributes} {{"
        return "\n".join([head, "entry:", *self.slots, *self.lines, "}", ""])
