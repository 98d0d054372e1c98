"""Leaves of integer tuples and their arithmetic, written once for three readings.

A leaf is an `int` (evaluate), `None` (the empty leaf `*`, worth 0), a `Basis`, or a `Dyn`: a number known only
by width and divisibility (infer types) unless it is a `ValueLeaf`, which carries a run-time value (emit code).
Invariant: which branch is taken depends on static content alone, so all readings walk the same path.
"""

from __future__ import annotations

from math import gcd
from typing import Any, Protocol, TypeAlias, Union, final

from flydsl.errors import DSLTypeError, LayoutError


class LeafOps(Protocol):
    """What turns leaf arithmetic into code: one call per operation that is not static.

    >>> class Recorded:
    ...     def combine(self, op, a, b, width, div):
    ...         return ValueLeaf(f"{op}({getattr(a, 'value', a)}, {getattr(b, 'value', b)})", self, width, div)
    >>> from flydsl.layout import Layout, crd2idx
    >>> crd2idx((ValueLeaf("i", Recorded()), 2), Layout((4, 8), (8, 1))).value
    'add(mul(i, 8), 2)'
    """

    def combine(self, op: str, a: int | Dyn, b: Any, width: int, div: int) -> Dyn:
        """The leaf of `a op b`, `width` bits wide and divisible by `div`.

        `op` is one of add sub mul div mod min max safediv ceildiv lt le gt ge eq ne and or not (`b` is None),
        swizzle (`b` is the Swizzle) and coord_swizzle (`a` is the column, `b` is `(row, CoordSwizzle)`).
        Operands are ints or leaves of the same `ops`.
        """
        ...


class SwizzleBits(Protocol):
    """The bits a Swizzle moves."""

    mask: int
    base: int
    shift: int


class CoordSwizzleBits(Protocol):
    """The bits a CoordSwizzle moves."""

    mask: int
    base_row: int
    base_col: int


class Dyn:
    """The type of a run-time integer: its width in bits (32 or 64) and a known divisor. Interned.

    >>> Dyn.get(64, 8), Dyn.get() is Dyn()
    (?{i64 div=8}, True)
    """

    __slots__ = ("div", "width")

    width: int
    div: int
    ops: LeafOps | None = None

    def __new__(cls, width: int = 32, div: int = 1) -> Dyn:
        return Dyn.get(width, div)

    @staticmethod
    def get(width: int = 32, div: int = 1) -> Dyn:
        """The one leaf of this width and divisor."""
        found = _DYN.get((width, div))
        return found if found is not None else _intern(width, div)

    def __str__(self) -> str:
        if self.width == 32 and self.div == 1:
            return "?"
        inside = [f"i{self.width}"] * (self.width != 32) + [f"div={self.div}"] * (self.div != 1)
        return f"?{{{' '.join(inside)}}}"

    __repr__ = __str__

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable, cannot set {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        return Dyn.get, (self.width, self.div)


_DYN: dict[tuple[int, int], Dyn] = {}


def _intern(width: int, div: int) -> Dyn:
    if width not in (32, 64):
        raise LayoutError(f"a run-time leaf is 32 or 64 bits wide, got {width}")
    if div < 1:
        raise LayoutError(f"the divisor of a run-time leaf must be at least 1, got {div}")
    leaf = object.__new__(Dyn)
    object.__setattr__(leaf, "width", width)
    object.__setattr__(leaf, "div", div)
    return _DYN.setdefault((width, div), leaf)


class ValueLeaf(Dyn):
    """A run-time integer together with its value and the `ops` that combine it; compared by identity.

    >>> class NoArithmetic:
    ...     def combine(self, op, a, b, width, div):
    ...         raise NotImplementedError
    >>> n = ValueLeaf("n", NoArithmetic(), 64, 8)
    >>> n, n.value, n.type_leaf
    (?{i64 div=8}, 'n', ?{i64 div=8})
    """

    __slots__ = ("ops", "value")

    value: Any
    ops: LeafOps | None

    def __new__(cls, value: object, ops: LeafOps, width: int = 32, div: int = 1) -> ValueLeaf:
        leaf = object.__new__(cls)
        put = object.__setattr__
        put(leaf, "width", width)
        put(leaf, "div", div)
        put(leaf, "value", value)
        put(leaf, "ops", ops)
        return leaf

    @property
    def type_leaf(self) -> Dyn:
        """The same leaf without its value."""
        return Dyn.get(self.width, self.div)

    def __reduce__(self) -> tuple[object, ...]:
        raise DSLTypeError("a leaf holding a run-time value cannot be pickled or copied")


@final
class Basis:
    """`value` times the unit vector at path `modes` of a coordinate tuple.

    >>> Basis(2, [0]), Basis(1, (0, 1)) * 3
    (2E0, 3E0E1)
    """

    __slots__ = ("_hash", "modes", "value")

    value: int | Dyn
    modes: tuple[int, ...]
    _hash: int

    def __init__(self, value: int | Dyn, modes: tuple[int, ...] | list[int]) -> None:
        path = tuple(modes)
        if not path:
            raise LayoutError("Basis needs at least one mode; a plain integer is written as an int")
        for mode in path:
            if type(mode) is not int or mode < 0:
                raise LayoutError(f"Basis modes are non-negative ints, got {mode!r} in {path!r}")
        if type(value) is not int and not isinstance(value, Dyn) and not hasattr(value, "__extract_to_ir_values__"):
            raise DSLTypeError(f"a Basis coefficient is an int or a run-time leaf, got {value!r}")
        put = object.__setattr__
        put(self, "value", value)
        put(self, "modes", path)
        put(self, "_hash", hash((value, path)))

    def __mul__(self, factor: int | Dyn) -> Basis:
        value = leaf_mul(self.value, factor)
        assert not isinstance(value, Basis) and value is not None
        return Basis(value, self.modes)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return type(other) is Basis and self.value == other.value and self.modes == other.modes

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"{self.value}{''.join(f'E{m}' for m in self.modes)}"

    __repr__ = __str__

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Basis is immutable, cannot set {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        return Basis, (self.value, self.modes)


Leaf: TypeAlias = int | None | Dyn | Basis
IntTuple: TypeAlias = Union[int, None, Dyn, Basis, "tuple[IntTuple, ...]"]  # noqa: UP007


def E(*modes: int) -> int | Basis:
    """The unit vector at a path; `E()` is the plain integer 1.

    >>> E(0), E(1, 0), E()
    (1E0, 1E1E0, 1)
    """
    for mode in modes:
        if type(mode) is not int or mode < 0:
            raise DSLTypeError(f"E() takes non-negative ints, got {mode!r}")
    return Basis(1, modes) if modes else 1


def basis_to_tuple(b: Basis) -> IntTuple:
    """The coordinate a basis leaf stands for, zeros elsewhere.

    >>> basis_to_tuple(Basis(3, (1, 0)))
    (0, (3,))
    """
    out: IntTuple = b.value
    for mode in reversed(b.modes):
        out = (0,) * mode + (out,)
    return out


def _expect_number(op: str, x: Leaf) -> int | Dyn:
    """`x` as a number: `None` counts as 0, everything but ints and run-time leaves is refused."""
    if x is None:
        return 0
    if type(x) is int or isinstance(x, Dyn):
        return x
    if type(x) is Basis:
        raise LayoutError(f"{op} is not defined on the basis leaf {x}; use plain integer strides here")
    raise DSLTypeError(f"{op} expects int, None, Basis or run-time leaves, got {x!r} of type {type(x).__name__}")


def _dynamic(op: str, a: int | Dyn, b: int | Dyn, width: int, div: int) -> Dyn:
    ops = a.ops if isinstance(a, Dyn) else None
    if ops is None and isinstance(b, Dyn):
        ops = b.ops
    return Dyn.get(width, div) if ops is None else ops.combine(op, a, b, width, div)


def _width(a: int | Dyn, b: int | Dyn) -> int:
    wide = (isinstance(a, Dyn) and a.width == 64) or (isinstance(b, Dyn) and b.width == 64)
    return 64 if wide else 32


def _d(x: int | Dyn) -> int:
    return x.div if isinstance(x, Dyn) else x


def _gcd_result(op: str, a: int | Dyn, b: int | Dyn) -> Dyn:
    return _dynamic(op, a, b, _width(a, b), gcd(_d(a), _d(b)))


def _trunc_div(a: int, b: int) -> int:
    if b == 0:
        raise LayoutError(f"division of {a} by a static 0; check for an extent or a stride of 0")
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def leaf_add(a: Leaf, b: Leaf) -> Leaf:
    """`a + b` of two numbers; a static 0 is the identity (sums with a basis are tuples, see int_tuple_add)."""
    if type(a) is int and type(b) is int:
        return a + b
    if not a:
        return 0 if b is None else b
    if not b:
        return a
    return _gcd_result("add", _expect_number("add", a), _expect_number("add", b))


def leaf_sub(a: Leaf, b: Leaf) -> Leaf:
    """`a - b`; `0 - x` keeps x's width and divisor."""
    if type(a) is int and type(b) is int:
        return a - b
    if not b:
        return 0 if a is None else a
    y = _expect_number("sub", b)
    if not a:
        return -y if type(y) is int else _dynamic("sub", 0, y, _width(0, y), _d(y))
    return _gcd_result("sub", _expect_number("sub", a), y)


def leaf_mul(a: Leaf, b: Leaf) -> Leaf:
    """`a * b`; a basis is scaled, also by 0, so that a coordinate keeps its components."""
    if type(a) is int and type(b) is int:
        return a * b
    if type(a) is Basis:
        if type(b) is Basis:
            raise LayoutError(f"cannot multiply the basis leaves {a} and {b}; one factor must be a plain integer")
        return a * _expect_number("mul", b)
    if type(b) is Basis:
        return b * _expect_number("mul", a)
    if not a or not b:
        return 0
    x, y = _expect_number("mul", a), _expect_number("mul", b)
    # Multiplying by 1 gives the same width and divisor, so the operand itself is the result.
    if type(y) is int and y == 1:
        return x
    if type(x) is int and x == 1:
        return y
    return _dynamic("mul", x, y, _width(x, y), abs(_d(x) * _d(y)))


def leaf_div(a: Leaf, b: Leaf) -> Leaf:
    """Quotient truncated toward zero."""
    if type(a) is int and type(b) is int:
        return a // b if a >= 0 and b > 0 else _trunc_div(a, b)
    x, y = _expect_number("div", a), _expect_number("div", b)
    if not y:
        raise LayoutError(f"division of {x} by a static 0; check for an extent or a stride of 0")
    return 0 if not x else _dynamic("div", x, y, _width(x, y), 1)


def leaf_mod(a: Leaf, b: Leaf) -> Leaf:
    """Remainder with the sign of the dividend."""
    if type(a) is int and type(b) is int:
        return a % b if a >= 0 and b > 0 else a - b * _trunc_div(a, b)
    x, y = _expect_number("mod", a), _expect_number("mod", b)
    if not y:
        raise LayoutError(f"remainder of {x} by a static 0; check for an extent of 0")
    if not x or (type(y) is int and y == 1):
        return 0
    return _gcd_result("mod", x, y)


def leaf_min(a: Leaf, b: Leaf) -> Leaf:
    """The smaller of two numbers."""
    if type(a) is int and type(b) is int:
        return a if a < b else b
    x, y = _expect_number("min", a), _expect_number("min", b)
    return min(x, y) if type(x) is int and type(y) is int else _gcd_result("min", x, y)


def leaf_max(a: Leaf, b: Leaf) -> Leaf:
    """The larger of two numbers."""
    if type(a) is int and type(b) is int:
        return a if a > b else b
    x, y = _expect_number("max", a), _expect_number("max", b)
    return max(x, y) if type(x) is int and type(y) is int else _gcd_result("max", x, y)


def leaf_safe_div(a: Leaf, b: Leaf) -> Leaf:
    """Quotient that must be exact as far as is known statically."""
    if type(a) is Basis:
        value = leaf_safe_div(a.value, b)
        assert type(value) is int or isinstance(value, Dyn)
        return Basis(value, a.modes)
    x, y = _expect_number("exact division", a), _expect_number("exact division", b)
    if type(x) is int and x == 0:
        return 0
    if type(y) is int and (y == 0 or _d(x) % y != 0):
        known = f"{Dyn.get(x.width, x.div)} (known divisor {_d(x)})" if isinstance(x, Dyn) else f"{x}"
        raise LayoutError(f"exact division: expected a multiple of {y}, got {known}; choose sizes that divide evenly")
    if type(x) is int and type(y) is int:
        return _trunc_div(x, y)
    return _dynamic("safediv", x, y, _width(x, y), 1)


def leaf_ceil_div(a: Leaf, b: Leaf) -> Leaf:
    """`(a + b - 1) / b`; a static 0 or 1 on the left is the result."""
    if type(a) is int and type(b) is int and b > 0:
        return -(-a // b) if a >= 0 else _trunc_div(a + b - 1, b)
    if type(a) is Basis:
        value = leaf_ceil_div(a.value, b)
        assert type(value) is int or isinstance(value, Dyn)
        return Basis(value, a.modes)
    x, y = _expect_number("ceil_div", a), _expect_number("ceil_div", b)
    if type(x) is int and 0 <= x <= 1:
        return x
    if type(x) is int and type(y) is int:
        return _trunc_div(x + y - 1, y)
    if not y:
        raise LayoutError(f"ceil_div of {x} by a static 0; check for an extent of 0")
    return _dynamic("ceildiv", x, y, _width(x, y), 1)


def leaf_shape_div(a: Leaf, b: Leaf) -> Leaf:
    """As `leaf_ceil_div`, but of two statics one must divide the other."""
    x, y = _expect_number("shape_div", a), _expect_number("shape_div", b)
    if type(x) is int and type(y) is int and not 0 <= x <= 1 and (y == 0 or (x % y != 0 and y % x != 0)):
        raise LayoutError(f"shape_div: expected {x} and {y} to divide one another; choose sizes that divide evenly")
    return leaf_ceil_div(x, y)


def leaf_lt(a: Leaf, b: Leaf) -> Leaf:
    """1 if `a < b` else 0, as the comparisons below."""
    return _compare("lt", a, b)


def leaf_le(a: Leaf, b: Leaf) -> Leaf:
    """`a <= b`."""
    return _compare("le", a, b)


def leaf_gt(a: Leaf, b: Leaf) -> Leaf:
    """`a > b`."""
    return _compare("gt", a, b)


def leaf_ge(a: Leaf, b: Leaf) -> Leaf:
    """`a >= b`."""
    return _compare("ge", a, b)


def leaf_eq(a: Leaf, b: Leaf) -> Leaf:
    """`a == b`; two bases are equal when modes and coefficients are, a number never equals a basis."""
    if type(a) is Basis or type(b) is Basis:
        if type(a) is Basis and type(b) is Basis and a.modes == b.modes:
            return leaf_eq(a.value, b.value)
        return 0
    return _compare("eq", a, b)


def leaf_ne(a: Leaf, b: Leaf) -> Leaf:
    """`a != b`."""
    if type(a) is Basis or type(b) is Basis:
        if type(a) is Basis and type(b) is Basis and a.modes == b.modes:
            return leaf_ne(a.value, b.value)
        return 1
    return _compare("ne", a, b)


def _compare(op: str, a: Leaf, b: Leaf) -> Leaf:
    x, y = _expect_number(op, a), _expect_number(op, b)
    if type(x) is int and type(y) is int:
        found = {"lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "eq": x == y, "ne": x != y}
        return int(found[op])
    return _dynamic(op, x, y, 32, 1)


def leaf_and(a: Leaf, b: Leaf) -> Leaf:
    """Logical and. (FlyDSL infers `?` for two static non-zero operands; nothing can observe it, 1 is used.)"""
    x, y = _expect_number("and", a), _expect_number("and", b)
    if not x or not y:
        return 0
    return 1 if type(x) is int and type(y) is int else _dynamic("and", x, y, 32, 1)


def leaf_or(a: Leaf, b: Leaf) -> Leaf:
    """Logical or."""
    x, y = _expect_number("or", a), _expect_number("or", b)
    if (type(x) is int and x) or (type(y) is int and y):
        return 1
    return 0 if type(x) is int and type(y) is int else _dynamic("or", x, y, 32, 1)


def leaf_not(a: Leaf) -> Leaf:
    """Logical not."""
    x = _expect_number("not", a)
    if type(x) is int:
        return int(not x)
    return Dyn.get() if isinstance(x, Dyn) and x.ops is None else _combine(x, "not", None, 32, 1)


def leaf_swizzle(a: Leaf, swizzle: SwizzleBits) -> Leaf:
    """XOR of `mask` bits found at `base + shift` into the bits at `base`."""
    x = _expect_number("swizzle", a)
    if swizzle.mask == 0:
        return x
    if type(x) is int:
        return x ^ ((x & (((1 << swizzle.mask) - 1) << (swizzle.base + swizzle.shift))) >> swizzle.shift)
    return _combine(x, "swizzle", swizzle, _width(x, 0), gcd(_d(x), 1 << swizzle.base))


def leaf_coord_swizzle(col: Leaf, row: Leaf, cs: CoordSwizzleBits) -> Leaf:
    """XOR of `mask` bits of the row, found at `base_row`, into the column's bits at `base_col`."""
    x, y = _expect_number("coord swizzle", col), _expect_number("coord swizzle", row)
    if cs.mask == 0:
        return x
    if type(x) is int and type(y) is int:
        return x ^ (((y >> cs.base_row) & ((1 << cs.mask) - 1)) << cs.base_col)
    owner = x if isinstance(x, Dyn) and x.ops is not None else y if isinstance(y, Dyn) else x
    return _combine(owner, "coord_swizzle", (y, cs), _width(x, y), gcd(_d(x), 1 << cs.base_col), first=x)


def _combine(owner: int | Dyn, op: str, b: Any, width: int, div: int, first: int | Dyn | None = None) -> Dyn:
    ops = owner.ops if isinstance(owner, Dyn) else None
    return Dyn.get(width, div) if ops is None else ops.combine(op, owner if first is None else first, b, width, div)
