"""Functions of the host being written: a bf16 is an integer of its bits, and LLVM has no value of type `bfloat`.

Its code generator for x86 holds one between blocks as f32 and rounds it where it is used. That calls a function that
not all C libraries have or, with AVX512-BF16, takes subnormal numbers for zero, and a number that is only moved is no
longer the same. Here arithmetic on bf16 is that of f32, rounded to nearest even in integers: where f32 has two digits
more than twice those of a bf16, rounding twice is rounding once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import BFloat16Type, f32, f64, i16
from xdsl.ir import Attribute

from ...ir.builder import elem_of, i32, i64
from ...ir.identity import by_identity
from ...ir.types import bit_width, vector_type
from ...lowering.rules.arith_rules import element_count, flag_type
from .function_text import FunctionText
from .spelling import HOST, LLVM, flag_words

_SIGN = -(1 << 15)
_SHORT, _EXACT = 24, 53
"""Bits of an integer that f32 and f64 hold exactly."""
_SUFFIX = re.compile(r"llvm\.(.+)\.(?:v\d+)?bf16")


@by_identity
def is_bf16(type_: Attribute) -> bool:
    """Whether a type is bf16 or a vector of it."""
    return isinstance(elem_of(type_), BFloat16Type)


def _like(type_: Attribute, elem: Attribute) -> Attribute:
    """`elem`, or a vector of as many as `type_` has."""
    return elem if elem_of(type_) is type_ else vector_type(elem, element_count(type_))


class HostText(FunctionText):
    """A function body of the host."""

    spelling = HOST

    # --- conversions ----------------------------------------------------------------------------------------------

    def widened(self, type_: Attribute, a: str) -> str:
        """A bf16 as f32: the upper half of its bits."""
        word = _like(type_, i32)
        raised = self.binary("shl", word, self.cast("zext", a, _like(type_, i16), word), self.number(16, word))
        return self.cast("bitcast", raised, word, _like(type_, f32))

    def narrowed(self, type_: Attribute, x: str) -> str:
        """The bf16 nearest to an f32, ties to even."""
        word, single = _like(type_, i32), _like(type_, f32)
        bits = self.cast("bitcast", x, single, word)
        upper = self.binary("lshr", word, bits, self.number(16, word))
        last = self.binary("and", word, upper, self.number(1, word))
        more = self.binary("add", word, self.binary("add", word, bits, self.number(0x7FFF, word)), last)
        near = self.binary("lshr", word, more, self.number(16, word))
        # What is cut off a NaN may be all that tells it from infinity.
        quiet = self.binary("or", word, upper, self.number(0x40, word))
        found = self.select(flag_type(single), word, self.fcmp("uno", single, x, x), quiet, near)
        return self.cast("trunc", found, word, _like(type_, i16))

    def _narrowed_double(self, type_: Attribute, x: str) -> str:
        """The bf16 nearest to an f64, by way of the f32 that is odd where it is not exact."""
        double, single, word = _like(type_, f64), _like(type_, f32), _like(type_, i32)
        near = self.cast("fptrunc", x, double, single)
        back = self.cast("fpext", near, single, double)
        beyond = self.fcmp(
            "ogt", double, self.intr("fabs", double, [back], [double]), self.intr("fabs", double, [x], [double])
        )
        odd = self._to_odd(word, self.cast("bitcast", near, single, word), self.fcmp("one", double, back, x), beyond)
        return self.narrowed(type_, self.cast("bitcast", odd, word, single))

    def _to_odd(self, word: Attribute, bits: str, inexact: str, beyond: str) -> str:
        """The odd one of the two numbers next to a value, of which `bits` is the nearest; `beyond` it or before it."""
        flag, one = flag_type(word), self.number(1, word)
        even = self.icmp("eq", word, self.binary("and", word, bits, one), self.number(0, word))
        step = self.select(flag, word, beyond, self.number(-1, word), one)
        moved = self.binary("add", word, bits, step)
        return self.select(flag, word, self.binary("and", flag, inexact, even), moved, bits)

    def _from_integer(self, word: str, a: str, source: Attribute, target: Attribute) -> str:
        bits, single, double = bit_width(elem_of(source)), _like(target, f32), _like(target, f64)
        if bits <= _SHORT:
            return self.narrowed(target, super().cast(word, a, source, single))
        near = super().cast(word, a, source, double)
        if _EXACT < bits <= 64:
            # What is beyond f64's digits is one digit that is set.
            rest = bits - _EXACT + 1
            shift, zero = self.number(rest, source), self.number(0, source)
            low = self.binary("and", source, a, self.number((1 << rest) - 1, source))
            sticky = self.cast("zext", self.icmp("ne", source, low, zero), flag_type(source), source)
            high = self.binary("ashr" if word == "sitofp" else "lshr", source, a, shift)
            cut = super().cast(word, self.binary("or", source, high, sticky), source, double)
            cut = self.binary("fmul", double, cut, self.number(2.0**rest, double))
            small = self.fcmp(
                "olt", double, self.intr("fabs", double, [near], [double]), self.number(2.0**_EXACT, double)
            )
            near = self.select(flag_type(double), double, small, near, cut)
        return self._narrowed_double(target, near)

    def cast(self, word: str, a: str, source: Attribute, target: Attribute) -> str:
        if word == "bitcast" or not (is_bf16(source) or is_bf16(target)):
            return super().cast(word, a, source, target)
        if is_bf16(source):
            a, source = self.widened(source, a), _like(source, f32)
            if not is_bf16(target):
                return self.cast(word, a, source, target)
        if word in ("sitofp", "uitofp"):
            return self._from_integer(word, a, source, target)
        elem = elem_of(source)
        if elem == f64:
            return self._narrowed_double(target, a)
        return self.narrowed(target, a if elem == f32 else super().cast("fpext", a, source, _like(source, f32)))

    # --- arithmetic -----------------------------------------------------------------------------------------------

    def binary(self, word: str, type_: Attribute, a: str, b: str, flags: Attribute | None = None) -> str:
        if not is_bf16(type_):
            return super().binary(word, type_, a, b, flags)
        wide = super().binary(word, _like(type_, f32), self.widened(type_, a), self.widened(type_, b), flags)
        return self.narrowed(type_, wide)

    def fneg(self, type_: Attribute, a: str, flags: Attribute | None = None) -> str:
        if not is_bf16(type_):
            return super().fneg(type_, a, flags)
        half = _like(type_, i16)
        return self.binary("xor", half, a, self.number(_SIGN, half))

    def fcmp(self, predicate: str, type_: Attribute, a: str, b: str, flags: Attribute | None = None) -> str:
        if not is_bf16(type_):
            return super().fcmp(predicate, type_, a, b, flags)
        return super().fcmp(predicate, _like(type_, f32), self.widened(type_, a), self.widened(type_, b), flags)

    def select(
        self, cond_type: Attribute, type_: Attribute, cond: str, a: str, b: str, flags: Attribute | None = None
    ) -> str:
        # Integers have no flags of floats.
        return super().select(cond_type, type_, cond, a, b, None if is_bf16(type_) else flags)

    def intr(
        self,
        key: str,
        result: Attribute,
        args: Sequence[str],
        types: Sequence[Attribute],
        flags: Attribute | None = None,
        immediate: int | None = None,
    ) -> str:
        if not any(map(is_bf16, types)):
            return super().intr(key, result, args, types, flags, immediate)
        half = _like(result, i16)
        if key == "fabs":
            return self.binary("and", half, args[0], self.number(~_SIGN, half))
        if key == "copysign":
            size = self.binary("and", half, args[0], self.number(~_SIGN, half))
            return self.binary("or", half, size, self.binary("and", half, args[1], self.number(_SIGN, half)))
        if key in ("fma", "fmuladd"):
            return self._fused(result, args)
        if key in ("vector.reduce.fadd", "vector.reduce.fmul"):
            return self._reduced(key.rpartition(".")[2], types[1], args[0], args[1], flags)
        wide = [self.widened(t, a) if is_bf16(t) else a for t, a in zip(types, args, strict=True)]
        single = [_like(t, f32) if is_bf16(t) else t for t in types]
        if not is_bf16(result):
            return super().intr(key, result, wide, single, flags, immediate)
        return self.narrowed(result, super().intr(key, _like(result, f32), wide, single, flags, immediate))

    def _fused(self, type_: Attribute, args: Sequence[str]) -> str:
        """`a * b + c` rounded once: the product is exact in f64, and the sum is odd where it is not."""
        double, word, flag = _like(type_, f64), _like(type_, i64), flag_type(_like(type_, f64))
        a, b, c = (self.cast("fpext", x, type_, double) for x in args)
        product = self.binary("fmul", double, a, b)
        total = self.binary("fadd", double, product, c)
        part = self.binary("fsub", double, total, product)
        error = self.binary(
            "fadd",
            double,
            self.binary("fsub", double, product, self.binary("fsub", double, total, part)),
            self.binary("fsub", double, c, part),
        )
        zero = self.number(0.0, double)
        signs = self.fcmp("olt", double, total, zero), self.fcmp("olt", double, error, zero)
        beyond = self.binary("xor", flag, *signs)
        bits = self.cast("bitcast", total, double, word)
        odd = self._to_odd(word, bits, self.fcmp("one", double, error, zero), beyond)
        return self._narrowed_double(type_, self.cast("bitcast", odd, word, double))

    def _reduced(self, word: str, type_: Attribute, start: str, v: str, flags: Attribute | None) -> str:
        """One element after the other, or by halves where the order is free."""
        count, elem = element_count(type_), elem_of(type_)
        words = "" if flags is None else flag_words(flags)
        while count % 2 == 0 and ("reassoc" in words or "fast" in words):
            whole = vector_type(elem, count)
            count //= 2
            half = vector_type(elem, count)
            low, high = (self.shuffle(whole, v, None, range(at, at + count)) for at in (0, count))
            v = self.binary(word, half, low, high, flags)
        for i in range(count):
            start = self.binary(word, elem, start, self.element(vector_type(elem, count), v, i), flags)
        return start

    def instead(self, name: str, result: Attribute, args: Sequence[str], types: Sequence[Attribute]) -> str | None:
        found = _SUFFIX.fullmatch(name)
        return None if found is None else self.intr(found[1], result, args, types)

    # --- calls ----------------------------------------------------------------------------------------------------

    def spelled_for(self, name: str) -> Callable[[Attribute], str]:
        """Functions of elsewhere take and give bf16 as C does."""
        return super().spelled_for(name) if name in self.module.defined else LLVM.type_text

    def call(
        self, name: str, result: Attribute | None, args: Sequence[str], types: Sequence[Attribute], *,
        fixed: int | None = None, memory: str | None = None, words: str = "",
    ) -> str:  # fmt: skip
        if name in self.module.defined or not any(map(is_bf16, (*types, *((result,) if result is not None else ())))):
            return super().call(name, result, args, types, fixed=fixed, memory=memory, words=words)
        given = [
            self.pure(f"bitcast {self.type_text(t)} {a} to {LLVM.type_text(t)}") if is_bf16(t) else a
            for t, a in zip(types, args, strict=True)
        ]
        made = super().call(name, result, given, types, fixed=fixed, memory=memory, words=words)
        if result is None or not is_bf16(result):
            return made
        return self.pure(f"bitcast {LLVM.type_text(result)} {made} to {self.type_text(result)}")
