"""What rules of lowering are written against: the instructions of LLVM, one method each.

A rule takes an op of an upper dialect and says which instructions it becomes. There are three sinks: `FunctionText`
writes LLVM IR, `LlvmConversion` makes ops of `llvm`, `rocdl` and `nvvm`, `PythonSink` writes Python for the debugger. A
rule gives types of the upper dialects; the sink turns them into its own.

A rule emits nothing whose result nobody reads, and the order in which it emits is that of the instructions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from xdsl.ir import Attribute, Operation, SSAValue

from ...errors import DSLCompileError
from ...ir.builder import i64

V = TypeVar("V")
Sizes = tuple[int, int, int]


class Sink(ABC, Generic[V]):
    """Where instructions go; `V` is how it holds a value."""

    block_size: Sizes | None = None
    """Threads of a block, where the kernel says it."""
    grid_size: Sizes | None = None
    """Blocks of the grid, where the kernel says it."""

    def note(self, what: str) -> None:
        """Remember that the function does something its head must tell."""

    # --- values ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def value(self, old: SSAValue, /) -> V:
        """What an operand of the op has become."""

    @abstractmethod
    def give(self, old: SSAValue, new: V, /) -> None:
        """Say what a result of the op has become."""

    @abstractmethod
    def used(self, result: SSAValue) -> bool:
        """Whether anything that is lowered reads a result."""

    @abstractmethod
    def constant(self, attr: Attribute, type_: Attribute) -> V:
        """The constant an attribute says."""

    @abstractmethod
    def number(self, value: int | float, type_: Attribute) -> V:
        """A number, or a vector of nothing but it."""

    @abstractmethod
    def poison(self, type_: Attribute) -> V:
        """A value nobody looks at."""

    @abstractmethod
    def null(self, type_: Attribute) -> V:
        """The pointer to nothing."""

    # --- arithmetic -----------------------------------------------------------------------------------------------

    @abstractmethod
    def binary(self, word: str, type_: Attribute, a: V, b: V, flags: Attribute | None = None) -> V:
        """`add`, `fmul`, ... by LLVM's name; `flags` are those of the op, of `arith` or `llvm`."""

    @abstractmethod
    def divisor(self, op: Operation, signed: bool) -> V:
        """What an integer division is to divide by: the op's second operand, guarded where a division can trap."""

    @abstractmethod
    def fneg(self, type_: Attribute, a: V, flags: Attribute | None = None) -> V:
        """The negative of a float."""

    @abstractmethod
    def cast(self, word: str, a: V, source: Attribute, target: Attribute) -> V:
        """`sext`, `bitcast`, ... by LLVM's name; nothing where LLVM has one type for the two."""

    @abstractmethod
    def icmp(self, predicate: str, type_: Attribute, a: V, b: V) -> V:
        """Compare integers of a type."""

    @abstractmethod
    def fcmp(self, predicate: str, type_: Attribute, a: V, b: V, flags: Attribute | None = None) -> V:
        """Compare floats of a type."""

    @abstractmethod
    def select(self, cond_type: Attribute, type_: Attribute, cond: V, a: V, b: V, flags: Attribute | None = None) -> V:
        """`a` where `cond` holds, else `b`."""

    @abstractmethod
    def intr(
        self,
        key: str,
        result: Attribute,
        args: Sequence[V],
        types: Sequence[Attribute],
        flags: Attribute | None = None,
        immediate: int | None = None,
    ) -> V:
        """A pure intrinsic of every target: `llvm.KEY` on the types of its first vector or only operand."""

    # --- vectors and structs --------------------------------------------------------------------------------------

    @abstractmethod
    def element(self, type_: Attribute, v: V, at: int | V, index: Attribute = i64) -> V:
        """An element of a vector of a type."""

    @abstractmethod
    def with_element(self, type_: Attribute, v: V, x: V, at: int | V, index: Attribute = i64) -> V:
        """A vector of a type with one element replaced."""

    @abstractmethod
    def shuffle(self, type_: Attribute, a: V, b: V | None, mask: Sequence[int]) -> V:
        """Elements of two vectors of a type; -1 is one nobody looks at."""

    # --- memory and calls -----------------------------------------------------------------------------------------

    @abstractmethod
    def load(self, type_: Attribute, at: V, pointer: Attribute, align: int, *, invariant: bool = False) -> V:
        """What is at an address; `invariant` memory is never written."""

    @abstractmethod
    def store(self, type_: Attribute, x: V, at: V, pointer: Attribute, align: int) -> None:
        """Write to an address."""

    @abstractmethod
    def address(self, elem: Attribute, base: V, pointer: Attribute, indices: Sequence[int], flags: int = 0) -> V:
        """An address behind a pointer; `flags` as in `llvm.getelementptr`."""

    @abstractmethod
    def room(self, elem: Attribute, align: int) -> V:
        """Stack memory, taken at the head of the function so that a loop does not grow the stack."""

    @abstractmethod
    def fence(self, ordering: str, scope: str) -> None:
        """Order accesses of memory."""

    @abstractmethod
    def instruction(
        self,
        name: str,
        intrinsic: str,
        result: Attribute | None,
        args: Sequence[V] = (),
        types: Sequence[Attribute] = (),
        *,
        pure: bool = False,
        bound: int | None = None,
        defined: bool = False,
        keywords: Mapping[str, str] = {},
        immediates: Sequence[tuple[Attribute, int]] = (),
        expand: Callable[[Sink[Any]], object] | None = None,
    ) -> V:
        """An op of the target's dialect by its name there, which is an intrinsic of LLVM.

        `bound`: results are less; `defined`: they are not undefined. `keywords` are attributes of the op that the
        name of the intrinsic holds, `immediates` arguments of the intrinsic that the op does not have. `expand` says
        what an op becomes that stands for several instructions.
        """

    @abstractmethod
    def call(
        self,
        name: str,
        result: Attribute | None,
        args: Sequence[V],
        types: Sequence[Attribute],
        *,
        fixed: int | None = None,
        memory: str | None = None,
    ) -> V:
        """A function of elsewhere; `fixed` arguments of any number, `memory` what it does there if that is known."""

    @abstractmethod
    def text(self, text: str, prefix: str, space: int) -> V:
        """Address of a constant, zero-terminated text of the module, made once."""

    def asm(
        self,
        text: str,
        constraints: str,
        result: Attribute | None,
        args: Sequence[V],
        types: Sequence[Attribute],
        memory: str | None,
    ) -> V:
        """Inline assembly; `memory` is what it does there, None if that is not known."""
        raise NotImplementedError


Rule = Callable[[Any, Any], None]
"""Takes a sink and an op."""


def refuse(op: Operation, why: str = "that was explicitly marked illegal") -> DSLCompileError:
    """The error of an op no rule is for."""
    return DSLCompileError(f"failed to legalize operation '{op.name}' {why}")


def refused(s: Sink[Any], op: Operation) -> None:
    """The rule of an op a target has nothing for."""
    raise refuse(op)
