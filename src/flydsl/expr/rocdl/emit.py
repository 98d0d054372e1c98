"""Emission for `fx.rocdl`; needs xDSL."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

from xdsl.dialects.builtin import BoolAttr, DenseIntOrFPElementsAttr, IntegerAttr, IntegerType, StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue

from ...dialects.fly.ops import OPS
from ...dialects.fly.types import ptr_type
from ...dialects.fly_cpu import BARE, CallOp
from ...dialects.fly_rocdl.buffer import BUFFER
from ...dialects.fly_rocdl.common import mangled
from ...dialects.fly_rocdl.ops import BufferLoadOp, BufferStoreOp, GetBufferRsrcOp
from ...dialects.fly_rocdl.tiled_tdm import DEFAULTS, MakeTiledTdmLoadAtomOp, MakeTiledTdmStoreAtomOp
from ...dialects.upstream import llvm
from ...dialects.upstream.gpu import BarrierOp
from ...dialects.upstream.llvm.values import PoisonOp
from ...ir import arith
from ...ir.builder import i32_list, int_attr
from ...ir.enums import AddressSpace
from ...ir.types import i8, i16, i32
from ..emit.ir import LLVM_SPACES, int_to_pointer, materialise, wrap
from ..emit.trace import current
from ..numeric import Int32, Int64, as_numeric
from ..tensor import Pointer, Tensor, get_iter
from ..tensors.algebra_values import Layout, Tile
from ..tensors.memory import to_llvm_ptr
from ..tensors.tiled import CopyAtom


def buffer_pointer(p: Pointer, size: Int64, flags: int) -> Pointer:
    """`fly.make_ptr` into buffer memory: base, stride, size in bytes, flags."""
    tracer, data = current(), p.type.data
    operands = [p.value, tracer.const(0, i16), size.ir_value(), tracer.const(flags, i32)]
    type_ = ptr_type(data.elem, BUFFER, data.align, data.swizzle)
    return Pointer(tracer.op1(OPS["make_ptr"], operands, type_, {}), p.declared_dtype)


def is_bounded(p: Pointer, reach: int) -> bool:
    """Whether a buffer pointer is seen to be a resource whose size was given, at most `reach` if that is a constant."""
    owner: Any = p.value.owner
    if not isinstance(owner, OPS["make_ptr"]) or len(owner.operands) != 4:
        return False
    size = current().const_of.get(owner.operands[2])
    return size is None or size <= reach


def descriptor(p: Pointer) -> SSAValue:
    """`fly_rocdl.get_buffer_rsrc`."""
    return current().pure(GetBufferRsrcOp, (p.value,), llvm.ptr(8), {})


def pointer_behind(value: SSAValue) -> Pointer | None:
    """The buffer pointer that a raw descriptor was made of, or that an IR value is."""
    owner: Any = value.owner
    if isinstance(owner, GetBufferRsrcOp):
        value = owner.operands[0]
    return Pointer(value) if value.type.name == "fly.ptr" else None


def shared_pointer(value: SSAValue) -> Pointer | None:
    """The pointer into shared memory that an IR value is, or that LLVM's pointer of that space stands for."""
    owner: Any = value.owner
    if isinstance(owner, OPS["to_llvm_ptr"]):
        value = owner.operands[0]
    if value.type.name == "fly.ptr":
        return Pointer(value)
    if value.type != llvm.ptr(LLVM_SPACES[AddressSpace.Shared]):
        return None
    number = current().pure(llvm.PtrToIntOp, (value,), i32, {})
    return int_to_pointer(ptr_type(i8, AddressSpace.Shared, 4), Int32(number))


def shared_address(place: object) -> SSAValue | None:
    """LLVM's pointer to a place in shared memory, given as a pointer or a tensor; None if it is none."""
    if isinstance(place, Tensor):
        place = get_iter(place)
    if isinstance(place, Pointer):
        place = to_llvm_ptr(place)
    found = cast("SSAValue | None", place if isinstance(place, SSAValue) else None)
    wanted = llvm.ptr(LLVM_SPACES[AddressSpace.Shared])
    return found if found is not None and found.type == wanted else None


def is_descriptor(value: SSAValue) -> bool:
    """Whether a value of the IR is a raw buffer descriptor."""
    return value.type == llvm.ptr(8)


def constant_behind(x: object) -> int | None:
    """The number that an int, an integer attribute or a value is known to be."""
    if isinstance(x, IntegerAttr):
        return x.value.data
    value = None if isinstance(x, SSAValue) else as_numeric(x)
    if value is not None and value.is_static():
        return int(value)
    found = current().const_of.get(cast("SSAValue", x) if value is None else value.ir_value())
    return found if isinstance(found, int) else None


def _cache(cache: int) -> dict[str, Attribute]:
    return {"cache": int_attr(cache)} if cache else {}


def buffer_load(p: Pointer, type_: Attribute, soffset: SSAValue, cache: int, scalar: bool = False) -> SSAValue:
    """`fly_rocdl.buffer_load`."""
    props = _cache(cache)
    if scalar:
        props["scalar"] = UnitAttr()
    return current().op1(BufferLoadOp, (p.value, soffset), type_, props)


def buffer_store(value: SSAValue, p: Pointer, soffset: SSAValue, cache: int) -> None:
    """`fly_rocdl.buffer_store`."""
    current().opn(BufferStoreOp, (value, p.value, soffset), (), _cache(cache))


@cache
def integer_type(name: str) -> IntegerType:
    """The type `i32` and the like; making one takes xDSL longer than emitting an op."""
    return IntegerType(int(name[1:]))


@cache
def _intrinsic_properties(name: str, operands: int) -> dict[str, Attribute]:
    return {"intrin": StringAttr(name), "operandSegmentSizes": i32_list((operands, 0))}


def intrinsic(name: str, type_: Attribute | None, operands: Sequence[SSAValue]) -> Any:
    """`llvm.call_intrinsic`: the result, or None."""
    props = dict(_intrinsic_properties(name, len(operands)))
    op = current().opn(llvm.CallIntrinsicOp, operands, () if type_ is None else (type_,), props)
    return op.results[0] if op.results else None


def checked_note(name: str, *numbers: int) -> None:
    """Tell the cpu stack's checked mode of a wait; nothing else takes notice."""
    tracer = current()
    operands = [tracer.const(n, i32) for n in numbers]
    tracer.opn(CallOp, operands, (), {"callee": StringAttr(f"fly_check_{name}")})


def bare_barrier() -> None:
    """A barrier of the cpu stack that waits for no copies."""
    op = current().opn(BarrierOp, (), ())
    op.attributes[BARE] = UnitAttr()


def cluster_barrier() -> None:
    """All threads of the cluster meet; on the cpu stack."""
    from ...dialects.fly_nvgpu.ops import CallOp as NvCallOp

    for kind in ("cluster.arrive", "cluster.wait"):
        current().opn(NvCallOp, (), (), {"kind": StringAttr(kind)})


def cluster_rank() -> SSAValue:
    """Number of the block in its cluster; on the cpu stack."""
    return current().opn(CallOp, (), (i32,), {"callee": StringAttr("fly_cluster_rank")}).results[0]


def cluster_extent(dim: int) -> SSAValue:
    """Blocks of the cluster along a dimension; on the cpu stack."""
    tracer = current()
    callee = StringAttr("fly_cluster_extent")
    return tracer.opn(CallOp, (tracer.const(dim, i32),), (i32,), {"callee": callee}).results[0]


def anything(type_: Attribute) -> SSAValue:
    """A value nobody looks at."""
    return current().pure(PoisonOp, (), type_, {})


def raw_buffer(name: str, result: Attribute | None, moved: Attribute, operands: Sequence[SSAValue]) -> Any:
    """`llvm.amdgcn.raw.ptr.buffer.<name>` of what is moved."""
    return intrinsic(f"llvm.amdgcn.raw.ptr.buffer.{name}.{mangled(moved)}", result, operands)


def constant(value: int, type_: Attribute) -> SSAValue:
    """An integer constant of the function being traced."""
    return current().const(value, type_)


def tiled_tdm_atom(
    load: bool, tensor: Tensor, shared: Layout, tiler: Tile, options: dict[str, int]
) -> tuple[CopyAtom, Any]:
    """`fly_rocdl.make_tiled_tdm_load_atom` or `_store_atom`: the atom and the tensor of coordinates."""
    cls = MakeTiledTdmLoadAtomOp if load else MakeTiledTdmStoreAtomOp
    operands = [materialise(x) for x in (tensor, shared, tiler)]
    props: dict[str, Attribute] = {
        name: BoolAttr.from_bool(value) if isinstance(value, bool) else int_attr(value)
        for name, value in options.items()
        if value != DEFAULTS[name]
    }
    infer = cls.INFER
    assert infer is not None
    for function in current().functions:
        if hasattr(function, "tiled_copies"):
            function.tiled_copies = True
    atom, coordinates = current().opn(cls, operands, infer([v.type for v in operands], props), props).results
    return CopyAtom(atom.type, atom), wrap(coordinates)


def is_zero(value: SSAValue) -> bool:
    """Whether a vector is seen to hold zeros alone."""
    owner: Any = value.owner
    if isinstance(owner, arith.ConstantOp):
        given: Any = owner.value
        return not any(given.get_values()) if isinstance(given, DenseIntOrFPElementsAttr) else not given.value.data
    parts = getattr(owner, "operands", ())
    if getattr(owner, "name", "") in ("vector.from_elements", "vector.splat", "vector.broadcast") and parts:
        return all(is_zero(part) for part in parts)
    return False
