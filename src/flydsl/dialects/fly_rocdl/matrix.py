"""What the types of AMD's matrix instructions share: parameters, their text, and the checks of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, cast

from xdsl.ir import Attribute, Data
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ...layout import Layout
from ..fly.atoms import MmaOpType, parse_mma_types, parse_mnk, print_mma
from ..fly.types import intern
from .common import ArchAtom, fields_text, parse_fields, refuse

WAVE = Layout(64, 1)
WAVE32 = Layout(32, 1)


class MatrixData(Protocol):
    """Parameters: a named tuple that starts with these two."""

    @property
    def mnk(self) -> tuple[int, int, int]:
        """Extent of one instruction."""
        ...

    @property
    def types(self) -> tuple[Attribute, Attribute, Attribute]:
        """Element types of A, B and the accumulator."""
        ...


T = TypeVar("T", bound=MatrixData)


class MatrixAtom(Data[T], MmaOpType, ArchAtom, Generic[T]):
    """`!NAME<MxNxK, (A, B) -> ACC, field = value, ...>`."""

    fields: ClassVar[tuple[str, ...]] = ()
    """Names of the parameters behind the types, as they are written; all are."""
    wave: ClassVar[Layout]
    """Lanes of one instruction."""
    data_class: ClassVar[Callable[..., object]]
    """The named tuple of the parameters."""

    @classmethod
    def parameters(cls, *values: object) -> T:
        """The parameters as their named tuple."""
        return cast(T, cls.data_class(*values))

    @classmethod
    def verify_data(cls, data: T) -> T:
        """Refuse parameters no instruction has."""
        raise NotImplementedError

    @classmethod
    def checked(cls, *values: object) -> Self:
        """The checked, interned type."""
        return intern(cls, cls.verify_data(cls.parameters(*values)))

    @property
    def shape_mnk(self) -> tuple[int, int, int]:
        return self.data.mnk

    @property
    def elem_types(self) -> tuple[Attribute, Attribute, Attribute]:
        return self.data.types

    @property
    def thr_layout(self) -> Layout:
        return self.wave

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> T:
        with parser.in_angle_brackets():
            mnk = parse_mnk(parser)
            parser.parse_punctuation(",")
            types = parse_mma_types(parser)
            data = cls.parameters(mnk, types, *cls.parse_rest(parser))
            return refuse(parser, lambda: cls.verify_data(data))

    @classmethod
    def parse_rest(cls, parser: AttrParser) -> list[bool | int]:
        """The parameters behind the types."""
        return parse_fields(parser, cls.fields)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<")
        print_mma(printer, self.data.mnk, self.data.types)
        printer.print_string(self.rest_text() + ">")

    def rest_text(self) -> str:
        """The parameters behind the types as text."""
        values: Any = self.data
        return fields_text(**dict(zip(self.fields, values[2:], strict=True)))
