"""Tensor maps: the description of a tensor in global memory for the copy engine, made by the host at a launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.ir import ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, prop_def

from ..fly.atom_lowering import AtomLowering
from .ops import NvOp

ENCODE_SYMBOL = "fly_tensor_map_encode"
"""What generated host code calls; the runtime binds it to the driver's `cuTensorMapEncodeTiled`."""

DATA_TYPES = {
    "i8": 0, "i16": 1, "i32": 3, "i64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9, "f8E4M3FN": 0, "f8E5M2": 0,
}  # fmt: skip
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
MAP_BYTES = 128
KNOWN, ROOM = 116, 120
"""Where the cpu stack's checked mode has, behind what its emulation reads of a map, whether the array is known that the
map's address is the start of (i32), and its bytes (i64)."""


@irdl_attr_definition
class TensorMapType(ParametrizedAttribute, TypeAttribute):
    """`!fly_nvgpu.tensor_map`: 128 bytes that travel to a kernel by value."""

    name = "fly_nvgpu.tensor_map"

    @property
    def llvm_text(self) -> str:
        """How the value is written in LLVM IR."""
        return "ptr"

    @property
    def by_value(self) -> bool:
        """A launch passes the bytes, not their address."""
        return True


@irdl_op_definition
class MakeTensorMapOp(NvOp):
    """A map of a tensor: its pointer, extents (innermost first) and strides in bytes from the second dimension on.

    In the cpu stack's checked mode also the bytes of the array that begins at the pointer, where that is known.
    """

    name = "fly_nvgpu.make_tensor_map"
    dtype = prop_def(IntegerAttr)
    box = prop_def(ArrayAttr)
    swizzle = prop_def(IntegerAttr)
    promotion = prop_def(IntegerAttr)
    fill = prop_def(IntegerAttr)

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Stays as it is, on lowered operands: host code writes itself in `write_llvm`."""
        return low.b.opn(MakeTensorMapOp, operands, [r.type for r in self.res], dict(self.properties)).results

    emulate = lower

    def write_llvm(self, f: Any) -> None:
        """Fill the arrays and call the driver; a refusal leaves the host function with its status."""
        first, *sizes = (f.names[v] for v in self.args)
        pointer = first
        if f.typed(self.args[0]).startswith("ptr addrspace"):
            pointer = f.assign(f"addrspacecast {f.typed(self.args[0])} to ptr")
        box = [cast(IntegerAttr, a).value.data for a in self.box.data]
        rank = len(box)
        dims, strides, room = sizes[:rank], sizes[rank : 2 * rank - 1], sizes[2 * rank - 1 :]
        arrays: dict[str, tuple[int, str, int, list[int] | list[str]]] = {
            "map": (MAP_BYTES, "i8", 64, []),
            "dims": (rank, "i64", 8, dims),
            "strides": (max(rank - 1, 1), "i64", 8, strides),
            "box": (rank, "i32", 8, box),
            "steps": (rank, "i32", 8, [1] * rank),
        }
        at: dict[str, str] = {}
        for name, (count, type_, align, values) in arrays.items():
            at[name] = f.take(f"[{count} x {type_}], align {align}")
            for i, value in enumerate(values):
                cell = f.assign(f"getelementptr {type_}, ptr {at[name]}, i32 {i}")
                f.line(f"store {type_} {value}, ptr {cell}")
        numbers = [p.value.data for p in (self.swizzle, self.promotion, self.fill)]
        params = ["ptr", "i32", "i32", "ptr", "ptr", "ptr", "ptr", "ptr", "i32", "i32", "i32", "i32"]
        args = [
            at["map"], self.dtype.value.data, rank, pointer, at["dims"], at["strides"], at["box"], at["steps"],
            0, *numbers,
        ]  # fmt: skip
        status = f.intrinsic(ENCODE_SYMBOL, "i32", params, [str(a) for a in args])
        failed, after = f.new_label(), f.new_label()
        bad = f.assign(f"icmp ne i32 {status}, 0")
        f.line(f"br i1 {bad}, label %{failed}, label %{after}")
        f.start(failed)
        f.line(f"ret i32 {status}")
        f.start(after)
        for type_, value, place in [("i32", "1", KNOWN), ("i64", *room, ROOM)] if room else ():
            cell = f.assign(f"getelementptr i8, ptr {at['map']}, i64 {place}")
            f.line(f"store {type_} {value}, ptr {cell}")
        f.names[self.res[0]] = at["map"]
