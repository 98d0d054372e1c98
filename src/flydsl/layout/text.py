"""Text of tuples, layouts and tiles: one printer and one parser, inverse to each other.

Whitespace is free on input; the printer emits none except around the `o` of composed layouts and inside the index
lists of coordinate swizzles.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from flydsl.errors import LayoutError
from flydsl.layout.int_tuple import congruent, format_int_tuple
from flydsl.layout.layout import AnyLayout, ComposedLayout, CoordSwizzle, Layout, Swizzle
from flydsl.layout.leaf import Basis, Dyn, IntTuple
from flydsl.layout.swizzle import Frozen
from flydsl.layout.tile import Tile, TileMode

T = TypeVar("T")

_SPACE = re.compile(r"\s*")
_INT = re.compile(r"-?[0-9]+")
_BASIS = re.compile(r"(?:E[0-9]+)+")
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def format_layout(layout: AnyLayout) -> str:
    """`shape:stride`, or the composed form.

    >>> format_layout(Layout((4, 8), (1, 4)))
    '(4,8):(1,4)'
    """
    return str(layout)


def format_any(data: Any) -> str:
    """Text of a tuple, layout, swizzle or tile.

    >>> format_any((4, (8, None))), format_any(Layout(4, 1))
    ('(4,(8,*))', '4:1')
    """
    return str(data) if isinstance(data, Frozen) else format_int_tuple(data)


def format_tile(tile: Tile) -> str:
    """`[4|*|(2,4):(1,8)]`, or the bare mode of a leaf tile.

    >>> format_tile(Tile((4, None, Layout(2, 4))))
    '[4|*|2:4]'
    """
    return str(tile)


class LayoutParser:
    """A recursive-descent parser over a string, starting anywhere in it.

    >>> parser = LayoutParser("(4,8):(1,4) and more")
    >>> parser.layout(), parser.accept_word("and")
    (Layout((4,8):(1,4)), True)
    """

    def __init__(self, text: str, position: int = 0) -> None:
        self.text = text
        self.position = position

    # Tokens

    def _skip(self) -> None:
        found = _SPACE.match(self.text, self.position)
        assert found is not None
        self.position = found.end()

    def error(self, expected: str) -> LayoutError:
        self._skip()
        came = self.text[self.position : self.position + 12] or "the end"
        return LayoutError(f"expected {expected} at column {self.position}, got {came!r}, in {self.text!r}")

    def accept(self, token: str) -> bool:
        self._skip()
        if not self.text.startswith(token, self.position):
            return False
        self.position += len(token)
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.error(f"'{token}'")

    def accept_word(self, word: str) -> bool:
        self._skip()
        found = _WORD.match(self.text, self.position)
        if found is None or found.group() != word:
            return False
        self.position = found.end()
        return True

    def accept_int(self) -> int | None:
        self._skip()
        found = _INT.match(self.text, self.position)
        if found is None:
            return None
        value = int(found.group())
        if not -(1 << 31) <= value < 1 << 31:
            raise LayoutError(f"expected a 32-bit integer at column {self.position}, got {value}, in {self.text!r}")
        self.position = found.end()
        return value

    def expect_int(self) -> int:
        value = self.accept_int()
        if value is None:
            raise self.error("an integer")
        return value

    # Tuples and layouts

    def leaf(self) -> IntTuple:
        value: int | Dyn | None
        if self.accept("*"):
            value = None
        elif self.accept("?"):
            value = self._dyn()
        else:
            value = self.accept_int()
            if value is None:
                raise self.error("a leaf ('*', '?' or an integer) or '('")
        found = _BASIS.match(self.text, self.position)
        if found is None:
            return value
        self.position = found.end()
        return Basis(0 if value is None else value, tuple([int(m) for m in found.group()[1:].split("E")]))

    def _dyn(self) -> Dyn:
        width, div = 32, 1
        if self.accept("{"):
            if self.accept_word("i64"):
                width = 64
            else:
                self.accept_word("i32")
            if self.accept_word("div"):
                self.expect("=")
                div = self.expect_int()
            self.expect("}")
        return Dyn.get(width, div)

    def int_tuple(self) -> IntTuple:
        if not self.accept("("):
            return self.leaf()
        children = [self.int_tuple()]
        while self.accept(","):
            children.append(self.int_tuple())
        self.expect(")")
        return tuple(children)

    def layout(self) -> Layout:
        return self._stride_of(self.int_tuple())

    def _stride_of(self, shape: IntTuple) -> Layout:
        self.expect(":")
        stride = self.int_tuple()
        if not congruent(shape, stride):
            raise LayoutError(
                f"expected shape and stride of the same nesting, got {format_int_tuple(shape)} and "
                f"{format_int_tuple(stride)}, in {self.text!r}"
            )
        return Layout(shape, stride)

    def swizzle(self) -> Swizzle:
        if not self.accept_word("S"):
            raise self.error("'S'")
        self.expect("<")
        fields = [self.expect_int()]
        for _ in range(2):
            self.expect(",")
            fields.append(self.expect_int())
        self.expect(">")
        return Swizzle(*fields)

    def coord_swizzle(self) -> CoordSwizzle:
        if not self.accept_word("CS"):
            raise self.error("'CS'")
        self.expect("<")
        mask = self.expect_int()
        self.expect(",")
        base_row = self.expect_int()
        self.expect(",")
        mode_row = self._index_list()
        self.expect(",")
        base_col = self.expect_int()
        self.expect(",")
        mode_col = self._index_list()
        self.expect(">")
        return CoordSwizzle(mask, base_row, mode_row, base_col, mode_col)

    def _index_list(self) -> list[int]:
        self.expect("[")
        if self.accept("]"):
            return []
        out = [self.expect_int()]
        while self.accept(","):
            out.append(self.expect_int())
        self.expect("]")
        return out

    def any_layout(self) -> AnyLayout | Swizzle | CoordSwizzle:
        """A plain or composed layout, or a bare swizzle."""
        self._skip()
        found = _WORD.match(self.text, self.position)
        word = found.group() if found else ""
        out: AnyLayout | Swizzle | CoordSwizzle
        if word == "CS":
            out = self.coord_swizzle()
        elif word == "S":
            out = self.swizzle()
        else:
            out = self.layout()
        while self.accept_word("o"):
            offset = self.int_tuple()
            if not self.accept_word("o"):
                raise self.error("'o'")
            if self.accept("["):
                outer = self.any_layout()
                self.expect("]")
                if not isinstance(outer, (Layout, ComposedLayout)):
                    raise self.error("a layout as outer part of a composed layout")
            else:
                outer = self.layout()
            out = ComposedLayout(out, offset, outer)
        return out

    # Tiles

    def tile(self) -> Tile:
        mode = self._tile_mode()
        return mode if type(mode) is Tile else Tile.leaf(mode)

    def _tile_mode(self) -> TileMode:
        if self.accept("["):
            modes = [self._tile_mode()]
            while self.accept("|"):
                modes.append(self._tile_mode())
            self.expect("]")
            return Tile(modes)
        shape = self.int_tuple()
        self._skip()
        if self.text.startswith(":", self.position):
            return self._stride_of(shape)
        if type(shape) is int or shape is None:
            return shape
        raise self.error("an integer, '*', a layout or '[' as tile element")


def _whole(text: str, rule: Callable[[LayoutParser], T]) -> T:
    parser = LayoutParser(text)
    out = rule(parser)
    parser.accept("")
    if parser.position != len(text):
        raise parser.error("the end")
    return out


def parse_int_tuple(text: str) -> IntTuple:
    """The tuple written by `format_int_tuple`.

    >>> parse_int_tuple("(4,(*,?{i64 div=8}),3E1E0)")
    (4, (None, ?{i64 div=8}), 3E1E0)
    """
    return _whole(text, LayoutParser.int_tuple)


def parse_layout(text: str) -> Layout:
    """A plain layout.

    >>> parse_layout("(4, ?) : (1, 4)")
    Layout((4,?):(1,4))
    """
    return _whole(text, LayoutParser.layout)


def parse_any_layout(text: str) -> AnyLayout:
    """A plain or composed layout.

    >>> parse_any_layout("(4,8):(1,4)")
    Layout((4,8):(1,4))
    """
    out = _whole(text, LayoutParser.any_layout)
    if not isinstance(out, (Layout, ComposedLayout)):
        raise LayoutError(f"expected a layout, got the bare swizzle {out}")
    return out


def parse_composed(text: str) -> ComposedLayout:
    """A composed layout.

    >>> parse_composed("S<3,4,3> o 0 o (8,8):(8,1)")
    ComposedLayout(S<3,4,3> o 0 o (8,8):(8,1))
    """
    out = parse_any_layout(text)
    if type(out) is not ComposedLayout:
        raise LayoutError(f"expected a composed layout 'inner o offset o outer', got {text!r}")
    return out


def parse_swizzle(text: str) -> Swizzle:
    """`S<mask,base,shift>`.

    >>> parse_swizzle("S<3,4,3>")
    S<3,4,3>
    """
    return _whole(text, LayoutParser.swizzle)


def parse_coord_swizzle(text: str) -> CoordSwizzle:
    """`CS<mask,base_row,[mode_row],base_col,[mode_col]>`.

    >>> parse_coord_swizzle("CS<2,0,[0],1,[1]>")
    CS<2,0,[0],1,[1]>
    """
    return _whole(text, LayoutParser.coord_swizzle)


def parse_tile(text: str) -> Tile:
    """A tile, bracketed or a bare leaf.

    >>> parse_tile("[4|*|(2,4):(1,8)|[8|2]]"), parse_tile("4")
    (Tile([4|*|(2,4):(1,8)|[8|2]]), Tile(4))
    """
    return _whole(text, LayoutParser.tile)
