"""Which arguments of a traced function its kernels store to: their memory must be writable.

Found backwards from the ops that write, along the values that hold addresses. An address that became a number on the
way, or that inline assembly or a function of another language was given, is not followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.ir import Block, Operation

from ...dialects.upstream import gpu
from ...ir.emitter import operands_of, ops_in
from ...ir.locations import source_chain

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from ...dialects.fly.atoms import MmaAtomType

WRITTEN = {
    "fly.ptr.store": 1,
    "fly.memref.store": 1,
    "fly.memref.store_vec": 1,
    "fly.store": 1,
    "fly.copy": 2,
    "fly.copy_atom_call": 2,
    "fly.atomic_rmw": 0,
    "fly.atomic_cas": 0,
    "fly_rocdl.buffer_store": 1,
    "fly_nvgpu.bulk_store": 1,
    "fly_nvgpu.tma_store": 1,
    "llvm.store": 1,
    "llvm.atomicrmw": 0,
    "llvm.cmpxchg": 0,
}
"""Ops that write memory, and which operand says where."""

_LOOPS = frozenset({"scf.while", "scf.for"})

_ADDRESSES = frozenset({"fly.memref", "fly.ptr", "llvm.ptr", "fly_nvgpu.tensor_map"})
"""Types of values that hold an address."""


class Walked(NamedTuple):
    """What the kernels of a function do that calls have to know."""

    stores: list[tuple[int, str]]
    """Position among the run-time arguments and name of each parameter whose memory some kernel writes."""
    loops: dict[str, list[str]]
    """Files and lines of the loops of each kernel."""


def walk_kernels(host: Block, device: Block, spans: Mapping[str, tuple[int, int]]) -> Walked:
    """What the kernels of a function do that calls have to know.

    `spans` says which arguments of the host function belong to a parameter.
    """
    kernels: dict[str, set[int]] = {}
    loops: dict[str, list[str]] = {}
    for op in device.ops:
        if isinstance(op, gpu.FuncOp):
            kernels[op.sym_name.data], places, products = _written(op.body.block)
            if products:
                from .products_under_way import settle_products

                settle_products(op.body.block)
            chains = [source_chain(place) for place in places]
            lines = [f"{chain[-1].filename}:{chain[-1].line}" for chain in chains if chain]
            if lines:
                loops[op.sym_name.data] = list(dict.fromkeys(lines))[:16]
    found: set[int] = set()
    for op in ops_in(host):
        if type(op) is gpu.LaunchFuncOp:
            operands = list(op.parts.arguments)
            for index in kernels.get(op.kernel.nested_references.data[-1].data, ()):
                if index < len(operands):  # what the launch adds by itself is none of the caller's
                    found |= _sources(operands[index], host, {})
    stores = [
        (position, name)
        for position, (name, (start, end)) in enumerate(spans.items())
        if any(start <= index < end for index in found)
    ]
    return Walked(stores, loops)


def _written(entry: Block) -> tuple[set[int], list[object], bool]:
    """Arguments of a kernel that its ops write to, where its loops are, and whether it has asynchronous products."""
    found: set[int] = set()
    loops: list[object] = []
    products = False
    seen: dict[SSAValue, bool] = {}
    for op in ops_in(entry):
        at = WRITTEN.get(op.name)
        if at is not None:
            found |= _sources(operands_of(op)[at], entry, seen)
        elif op.name in _LOOPS:
            loops.append(op.location)
        elif op.name == "fly.make_mma_atom":
            products |= cast("MmaAtomType", op.results[0].type).op.asynchronous
    return found, loops, products


def _sources(value: SSAValue, entry: Block, seen: dict[SSAValue, bool]) -> set[int]:
    """The arguments of a function from which an address may come; values seen before add nothing."""
    found: set[int] = set()
    pending = [value]
    while pending:
        here = pending.pop()
        if here in seen:
            continue
        seen[here] = True
        owner = here.owner
        if owner is entry:
            found.add(cast(int, getattr(here, "index", 0)))
        elif isinstance(owner, Operation):
            pending += _addresses(owner)
        else:  # an argument of a region: of a loop that carries it
            parent = owner.parent_op()
            if parent is not None:
                pending += _addresses(parent)
    return found


def _addresses(op: Operation) -> Iterator[SSAValue]:
    """Values that the addresses an op gives or takes into its regions may come from."""
    yield from (v for v in operands_of(op) if v.type.name in _ADDRESSES)
    for region in op.regions:
        for block in region.blocks:
            last = block.last_op
            if last is not None:
                yield from (v for v in operands_of(last) if v.type.name in _ADDRESSES)
