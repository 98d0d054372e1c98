"""Device modules for the CPU: each kernel becomes a function over a range of blocks.

The kernel's body is a function of one thread, always inlined into loops over the block's threads; LLVM vectorises the
innermost. `NAME(params, geometry, shared, first, last)` runs blocks `first <= i < last`, x fastest; `params` points to
the arguments' addresses, `geometry` to grid and block dimensions (`runtime.cpu_native`).
"""

from __future__ import annotations

from xdsl.ir import Attribute

from ..dialects import gpu
from .kernel_text import functions_of, known_block_size, write_function
from .translate import INTRINSICS, Abi, FunctionText, ModuleText, type_text

_IDS = {
    "thread_id": ("%tx", "%ty", "%tz"),
    "block_id": ("%bx", "%by", "%bz"),
    "grid_dim": ("%gx", "%gy", "%gz"),
    "block_dim": ("%nx", "%ny", "%nz"),
}
_ID_PARAMS = [f"i64 {name}" for names in _IDS.values() for name in names]


class CpuAbi(Abi):
    """Text of one thread of a kernel; ids are parameters."""

    native_math = frozenset(INTRINSICS)

    def index(self, f: FunctionText, kind: str, dim: str) -> str:
        return _IDS[kind]["xyz".index(dim)]

    def barrier(self, f: FunctionText) -> None:
        raise NotImplementedError(
            "fx.barrier() on the cpu stack: kernels with barriers need a coroutine per thread, which is not built yet"
        )

    def lane_id(self, f: FunctionText) -> str:
        raise NotImplementedError("fx.lane_id() on the cpu stack is not built yet")


def device_module(module: gpu.ModuleOp, triple: str, data_layout: str) -> str:
    """LLVM IR text of a device module."""
    text = ModuleText(triple, data_layout)
    for op in functions_of(module):
        name = op.sym_name.data
        write_function(
            text, CpuAbi(), op, f'define internal void @"{name}.thread"', "alwaysinline nounwind", _plain, _ID_PARAMS
        )
        text.functions.append(_block_function(name, op))
    return text.text()


def _plain(type_: Attribute) -> str:
    return ""


def _block_function(name: str, op: gpu.FuncOp) -> str:
    """The loops around one thread's body."""
    lines: list[str] = []
    args: list[str] = []
    for i, arg in enumerate(op.body.block.args):
        t = type_text(arg.type)
        lines += [
            f"  %p{i} = getelementptr ptr, ptr %params, i64 {i}",
            f"  %q{i} = load ptr, ptr %p{i}",
            f"  %a{i} = load {t}, ptr %q{i}, align 1",
        ]
        args.append(f"{t} %a{i}")
    block = known_block_size(op)
    for i, dim in enumerate(("gx", "gy", "gz", "nx", "ny", "nz")):
        lines += [
            f"  %{dim}.at = getelementptr i32, ptr %geometry, i64 {i}",
            f"  %{dim}.32 = load i32, ptr %{dim}.at",
            f"  %{dim}.w = zext i32 %{dim}.32 to i64",
        ]
    sizes = [f"%{d}.w" for d in ("gx", "gy", "gz")]
    threads = [str(n) for n in block] if block is not None else [f"%{d}.w" for d in ("nx", "ny", "nz")]
    call = ", ".join(
        [
            *args,
            *(f"i64 {v}" for v in ("%tx", "%ty", "%tz", "%bx", "%by", "%bz", *sizes, *threads)),
        ]
    )
    gx, gy, _ = sizes
    nx, ny, nz = threads
    return "\n".join(
        [
            f'define void @"{name}"(ptr %params, ptr %geometry, ptr %shared, i64 %first, i64 %last) nounwind {{',
            "entry:",
            *lines,
            f"  %gxy = mul i64 {gx}, {gy}",
            "  br label %blocks",
            "blocks:",
            "  %block = phi i64 [ %first, %entry ], [ %block.next, %done ]",
            "  %more = icmp ult i64 %block, %last",
            "  br i1 %more, label %start, label %out",
            "start:",
            "  %bz = udiv i64 %block, %gxy",
            "  %in.z = urem i64 %block, %gxy",
            f"  %by = udiv i64 %in.z, {gx}",
            f"  %bx = urem i64 %in.z, {gx}",
            "  br label %loop.z",
            "loop.z:",
            "  %tz = phi i64 [ 0, %start ], [ %tz.next, %next.z ]",
            "  br label %loop.y",
            "loop.y:",
            "  %ty = phi i64 [ 0, %loop.z ], [ %ty.next, %next.y ]",
            "  br label %loop.x",
            "loop.x:",
            "  %tx = phi i64 [ 0, %loop.y ], [ %tx.next, %loop.x ]",
            f'  call void @"{name}.thread"({call})',
            "  %tx.next = add nuw nsw i64 %tx, 1",
            f"  %again.x = icmp ult i64 %tx.next, {nx}",
            "  br i1 %again.x, label %loop.x, label %next.y",
            "next.y:",
            "  %ty.next = add nuw nsw i64 %ty, 1",
            f"  %again.y = icmp ult i64 %ty.next, {ny}",
            "  br i1 %again.y, label %loop.y, label %next.z",
            "next.z:",
            "  %tz.next = add nuw nsw i64 %tz, 1",
            f"  %again.z = icmp ult i64 %tz.next, {nz}",
            "  br i1 %again.z, label %loop.z, label %done",
            "done:",
            "  %block.next = add nuw i64 %block, 1",
            "  br label %blocks",
            "out:",
            "  ret void",
            "}",
            "",
        ]
    )
