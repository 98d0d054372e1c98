"""What a device module is compiled for, as an attribute: `#rocdl.target<chip = "gfx942">`; defaults are not written."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ...target import MLIR_DEFAULTS

Value = int | str | Attribute | None


class TargetField(NamedTuple):
    """A field and its default: a number, a text, or None for attributes (`flags`, `link`)."""

    name: str
    default: int | str | None


class TargetAttr(Data[tuple[tuple[str, Value], ...]]):
    """Fields that differ from their defaults, in the order of `FIELDS`."""

    FIELDS: ClassVar[tuple[TargetField, ...]]

    @classmethod
    def of(cls, **values: Value) -> Self:
        """The attribute with these fields."""
        known = {f.name: f.default for f in cls.FIELDS}
        unknown = set(values) - set(known)
        if unknown:
            raise TypeError(f"{cls.name} has no field {', '.join(sorted(unknown))}; it has: {', '.join(known)}")
        return cls(tuple((f.name, values[f.name]) for f in cls.FIELDS if values.get(f.name, f.default) != f.default))

    def field(self, name: str) -> Any:
        """A field, or its default."""
        for key, value in self.data:
            if key == name:
                return value
        return next(f.default for f in self.FIELDS if f.name == name)

    @property
    def flags(self) -> frozenset[str]:
        """Names of the flags."""
        found: DictionaryAttr | None = self.field("flags")
        return frozenset() if found is None else frozenset(found.data)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, Value], ...]:
        defaults = {f.name: f.default for f in cls.FIELDS}

        def one() -> tuple[str, Value]:
            word = parser.parse_identifier()
            if word not in defaults:
                parser.raise_error(f"expected one of {', '.join(defaults)}, got '{word}'")
            parser.parse_punctuation("=")
            default = defaults[word]
            if isinstance(default, int):
                return word, parser.parse_integer()
            if isinstance(default, str):
                return word, parser.parse_str_literal()
            return word, parser.parse_attribute()

        given = dict(parser.parse_optional_comma_separated_list(parser.Delimiter.ANGLE, one) or [])
        if given.get("O", 2) not in (0, 1, 2, 3):
            parser.raise_error(f"the optimization level is 0 to 3, got {given['O']}")
        return cls.of(**given).data

    def print_parameter(self, printer: Printer) -> None:
        if not self.data:
            return
        printer.print_string("<")

        def one(pair: tuple[str, Value]) -> None:
            name, value = pair
            printer.print_string(f"{name} = ")
            if isinstance(value, Attribute):
                printer.print_attribute(value)
            elif isinstance(value, str):
                printer.print_string_literal(value)
            else:
                printer.print_string(str(value))

        printer.print_list(self.data, one)
        printer.print_string(">")


@irdl_attr_definition
class RocdlTargetAttr(TargetAttr):
    """`#rocdl.target<chip = "gfx942", flags = {fast}>`: what to compile a module for, and how."""

    name = "rocdl.target"
    FIELDS = (
        TargetField("O", 2),
        TargetField("triple", "amdgcn-amd-amdhsa"),
        TargetField("chip", MLIR_DEFAULTS["rocdl"]),
        TargetField("features", ""),
        TargetField("abi", "600"),
        TargetField("flags", None),
        TargetField("link", None),
    )


@irdl_attr_definition
class NvvmTargetAttr(TargetAttr):
    """`#nvvm.target<chip = "sm_90", features = "+ptx83">`: what to compile a module for, and how."""

    name = "nvvm.target"
    FIELDS = (
        TargetField("O", 2),
        TargetField("triple", "nvptx64-nvidia-cuda"),
        TargetField("chip", MLIR_DEFAULTS["nvvm"]),
        TargetField("features", "+ptx60"),
        TargetField("flags", None),
        TargetField("link", None),
        TargetField("verifyTarget", None),
    )
