"""Microseconds of CPU time per op and pass on generated modules of 500, 2,000 and 8,000 ops: time must grow linearly.

python benchmarks/pass_time.py [--repeat N]
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from flydsl.passes.order import FLY

SIZES = (500, 2_000, 8_000)
PASSES = (
    *FLY,
    "convert-fly-to-rocdl",
    "canonicalize",
    "cse",
    "convert-scf-to-cf",
    "convert-gpu-to-rocdl{chipset=gfx942}",
    "convert-cf-to-llvm",
    "convert-vector-to-llvm",
    "convert-arith-to-llvm",
    "reconcile-unrealized-casts",
)
MEMREF = "!fly.memref<f32, global, (?,64):(?{i64 div=4},1), align<16>>"
ATOM = "!fly.copy_atom<!fly.universal_copy<128>, 32>"


def body(i: int) -> str:
    """One step of a kernel, about 25 ops: addresses, a swizzle, a register tensor, copies in a loop and an if."""
    part = "!fly.memref<f32, global, (4,2):(1,8), align<16>>"
    regs = "!fly.memref<f32, register, (4,2):(1,4)>"
    return f"""
    %i{i} = arith.constant {i * 4} : i32
    %n{i} = arith.addi %tid, %i{i} : i32
    %m{i} = arith.muli %n{i}, %c512 : i32
    %u{i} = arith.addi %tid, %m{i} : i32
    %a{i} = arith.andi %u{i}, %c448 : i32
    %h{i} = arith.shrui %a{i}, %c3 : i32
    %z{i} = arith.xori %u{i}, %h{i} : i32
    %x{i} = fly.make_coord(%n{i}, %z{i}) : (i32, i32) -> !fly.int_tuple<(?,?{{div=4}})>
    %lay{i} = fly.get_layout(%t) : ({MEMREF}) -> !fly.layout<(?,64):(?{{i64 div=4}},1)>
    %off{i} = fly.crd2idx(%x{i}, %lay{i}) :
      (!fly.int_tuple<(?,?{{div=4}})>, !fly.layout<(?,64):(?{{i64 div=4}},1)>) -> !fly.int_tuple<?{{i64 div=4}}>
    %p{i} = fly.get_iter(%t) : ({MEMREF}) -> !fly.ptr<f32, global, align<16>>
    %q{i} = fly.add_offset(%p{i}, %off{i}) :
      (!fly.ptr<f32, global, align<16>>, !fly.int_tuple<?{{i64 div=4}}>) -> !fly.ptr<f32, global, align<16>>
    %sh{i} = fly.make_shape() : () -> !fly.int_tuple<(4,2)>
    %st{i} = fly.make_stride() : () -> !fly.int_tuple<(1,8)>
    %l{i} = fly.make_layout(%sh{i}, %st{i}) : (!fly.int_tuple<(4,2)>, !fly.int_tuple<(1,8)>) -> !fly.layout<(4,2):(1,8)>
    %v{i} = fly.make_view(%q{i}, %l{i}) : (!fly.ptr<f32, global, align<16>>, !fly.layout<(4,2):(1,8)>) -> {part}
    %r{i} = fly.make_fragment_like(%v{i}) : ({part}) -> {regs}
    fly.copy(%atom, %v{i}, %r{i}) : ({ATOM}, {part}, {regs}) -> ()
    scf.if %flag {{
      fly.copy(%atom, %r{i}, %v{i}) : ({ATOM}, {regs}, {part}) -> ()
    }}
    %w{i} = fly.memref.load_vec(%r{i}) : ({regs}) -> vector<8xf32>
    %y{i} = arith.addf %w{i}, %w{i} : vector<8xf32>
    fly.memref.store_vec(%y{i}, %r{i}) : (vector<8xf32>, {regs}) -> ()
    fly.copy(%atom, %r{i}, %v{i}) : ({ATOM}, {regs}, {part}) -> ()
    """


def module_text(ops: int) -> str:
    """A kernel of about this many ops."""
    steps = "".join(body(i) for i in range(ops // 24))
    return f"""
    gpu.module @kernels {{
      gpu.func @k(%t: {MEMREF}, %tid: i32, %flag: i1) kernel {{
        %c512 = arith.constant 512 : i32
        %c448 = arith.constant 448 : i32
        %c3 = arith.constant 3 : i32
        %atom = fly.make_copy_atom {{valBits = 32 : i32}} : {ATOM}
        {steps}
        gpu.return
      }}
    }}"""


def count(module: Any) -> int:
    """Ops of a module."""
    return sum(1 for _ in module.walk())


def measure(ops: int, best: dict[int, float]) -> tuple[int, dict[int, int]]:
    """Run the pipeline once; note the best time of each pass in microseconds of CPU time per op it was given."""
    from flydsl.ir.parser import LocatedParser
    from flydsl.ir.registry import make_context
    from flydsl.passes.pipeline import parse_pipeline

    module = LocatedParser(make_context(), module_text(ops), "generated").parse_module()
    size, sizes = count(module), {}
    gc.collect()
    gc.disable()
    for i, name in enumerate(PASSES):
        (p,) = parse_pipeline(name)
        sizes[i] = count(module)
        start = time.process_time()
        module = p.run(module)
        spent = (time.process_time() - start) * 1e6 / sizes[i]
        best[i] = min(best.get(i, spent), spent)
    gc.enable()
    return size, sizes


def table(repeat: int) -> str:
    """The figures as a Markdown table; sizes take turns, so that a slow moment does not hit only one of them."""
    best: dict[int, dict[int, float]] = {size: {} for size in SIZES}
    found: dict[int, tuple[int, dict[int, int]]] = {}
    for _ in range(repeat):
        for size in SIZES:
            found[size] = measure(size, best[size])
    head = " | ".join(f"{found[size][0]:,} ops" for size in SIZES)
    lines = [f"| µs per op | {head} | growth |", "|---|" + "---|" * (len(SIZES) + 1)]
    for i, name in enumerate(PASSES):
        growth = best[SIZES[-1]][i] / best[SIZES[0]][i]
        texts = " | ".join(f"{best[size][i]:.1f} ({found[size][1][i]:,} in)" for size in SIZES)
        lines.append(f"| `{name.split('{')[0]}` | {texts} | {growth:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    print(table(parser.parse_args().repeat))
    print("\ngrowth: time per op at the largest size over that at the smallest; 1 is linear.")


if __name__ == "__main__":
    main()
