"""`fly_rocdl.make_tiled_tdm_load_atom` and `_store_atom`: an atom of the tensor data mover for the tiles of a tensor.

```mlir
%atom, %coords = fly_rocdl.make_tiled_tdm_load_atom %tensor, %shared, %tiler {numWarps = 4 : i32} : M, L, T
```

From the tensor in global memory, the layout of a tile in shared memory and the tiler: the atom that moves what one of
`numWarps` warps copies, and the tensor of its coordinates, to be tiled and sliced like the tensor itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, i32
from xdsl.ir import Attribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_op_definition, opt_prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ...errors import DSLCompileError, DSLValueError
from ...ir.op_text import write
from ...ir.types import bit_width
from ...layout import Layout
from ..fly.atom_lowering import AtomLowering
from ..fly.atoms import CopyAtomType
from ..fly.infer import Infer
from ..fly.ops import FlyOp
from ..fly.types import LayoutType, MemRefType, TileType, coord_tensor_type, intern
from .tdm_box import Box, box_of
from .tensor_copy import TensorLoadType, TensorStoreType, check_element

DEFAULTS: dict[str, int] = {"numWarps": 1, "initBoundaryCheck": True, "cacheModifier": 0, "atomicBarrier": False}
"""What is not written."""


def option(properties: dict[str, Attribute], name: str) -> Any:
    """The value of an option."""
    given = properties.get(name)
    if given is None:
        return DEFAULTS[name]
    value = cast(IntegerAttr, given).value.data
    return bool(value) if isinstance(DEFAULTS[name], bool) else value


def tdm_box(operand_types: Sequence[Attribute], properties: dict[str, Attribute]) -> Box:
    """The box of the atom."""
    tensor, shared, tiler = operand_types
    if not isinstance(tensor, MemRefType) or type(tensor.data.layout) is not Layout:
        raise DSLValueError(f"expected a !fly.memref tensor of a plain layout, got '{tensor}'")
    if not isinstance(shared, LayoutType) or type(shared.data) is not Layout:
        raise DSLValueError(f"expected !fly.layout for the LDS layout, got '{shared}'")
    if not isinstance(tiler, TileType):
        raise DSLValueError(f"expected !fly.tile for the tiler, got '{tiler}'")
    if "internalType" in properties:
        raise DSLValueError("internal_type must be omitted until rational basis strides are supported")
    check_element(tensor.data.elem)
    return box_of(tensor.data.layout, shared.data, tiler.data, option(properties, "numWarps"))


def _infer(
    kind: type[TensorLoadType] | type[TensorStoreType],
    operand_types: Sequence[Attribute],
    properties: dict[str, Attribute],
) -> tuple[Attribute, ...]:
    box = tdm_box(operand_types, properties)
    tensor = cast(MemRefType, operand_types[0]).data
    padding: dict[str, int] = {}
    if box.pad_interval:
        if kind is TensorStoreType:
            raise DSLValueError(
                f"a TDM store cannot drain a padded LDS tile (pad interval {box.pad_interval}, amount "
                f"{box.pad_amount}); TENSOR_STORE_FROM_LDS has no de-padding, it walks LDS with the packed tile stride"
            )
        padding = {"pad_interval": box.pad_interval, "pad_amount": box.pad_amount}
    shape = tensor.layout.shape
    op = kind.make(
        box.shape[::-1],
        tensor.elem,
        box.basis(shape, outermost_first=True),
        barrier=option(properties, "atomicBarrier"),
        cache=option(properties, "cacheModifier"),
        **padding,
    )
    coordinates = Layout(shape, box.basis(shape, outermost_first=False))
    return (intern(CopyAtomType, (op, bit_width(tensor.elem))), coord_tensor_type((0,) * len(box.shape), coordinates))


class _MakeTiledTdmAtomOp(FlyOp):
    """Text and checks of both."""

    traits = traits_def(Pure())
    numWarps = opt_prop_def(IntegerAttr)
    initBoundaryCheck = opt_prop_def(BoolAttr)
    cacheModifier = opt_prop_def(IntegerAttr)
    atomicBarrier = opt_prop_def(BoolAttr)
    internalType = opt_prop_def(TypeAttribute)
    ARITY: ClassVar[tuple[int, int]] = (3, 3)
    RESULTS: ClassVar[int | None] = 2

    @classmethod
    def parse(cls, parser: Parser) -> FlyOp:
        pos = parser.pos
        unresolved = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            unresolved.append(parser.parse_unresolved_operand())
        attrs = dict(parser.parse_optional_attr_dict())
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
        operands = parser.resolve_operands(unresolved, types, pos)
        infer_types = cls.INFER
        assert infer_types is not None
        try:
            results = infer_types(types, attrs)
        except ValueError as error:
            parser.raise_error(str(error), pos)
        return cls.build_from(operands, results, attrs)

    def print(self, printer: Printer) -> None:
        write(printer, " ", self.operands)
        shown = {
            k: v for k, v in self.properties.items() if k not in DEFAULTS or option(self.properties, k) != DEFAULTS[k]
        }
        write(printer, {**shown, **self.attributes}, " : ", self.operand_types)

    def verify_(self) -> None:
        for name in ("numWarps", "cacheModifier"):
            given = self.properties.get(name)
            if given is not None and cast(IntegerAttr, given).type != i32:
                raise VerifyException(
                    f"'{self.name}' op attribute '{name}' failed to satisfy constraint: "
                    "32-bit signless integer attribute"
                )
        super().verify_()

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Nothing a target knows: the pass that expands it comes before."""
        raise DSLCompileError(f"'{self.name}' is left; run fly-rocdl-expand-ops after fly-canonicalize")

    emulate = lower


@irdl_op_definition
class MakeTiledTdmLoadAtomOp(_MakeTiledTdmAtomOp):
    """From global to shared memory."""

    name = "fly_rocdl.make_tiled_tdm_load_atom"
    INFER: ClassVar[Infer | None] = staticmethod(partial(_infer, TensorLoadType))


@irdl_op_definition
class MakeTiledTdmStoreAtomOp(_MakeTiledTdmAtomOp):
    """From shared to global memory."""

    name = "fly_rocdl.make_tiled_tdm_store_atom"
    INFER: ClassVar[Infer | None] = staticmethod(partial(_infer, TensorStoreType))
