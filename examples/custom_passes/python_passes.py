"""Three passes in Python: on the traced module, on LLVM IR, and on machine IR (the last needs LLVM's llc).

python examples/custom_passes/python_passes.py
"""

import numpy as np
from xdsl.dialects import arith, math
from xdsl.rewriter import Rewriter

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.ir_pass(stage="fly:start")
def mul_add_to_fma(module):
    """`a * b + c` becomes one operation with one rounding."""
    for add in [op for op in module.walk() if isinstance(op, arith.AddfOp)]:
        for product, other in ((add.lhs, add.rhs), (add.rhs, add.lhs)):
            mul = product.owner
            if isinstance(mul, arith.MulfOp):
                fma = math.FmaOp(mul.lhs, mul.rhs, other)
                fma.location = add.location
                Rewriter.replace_op(add, fma)
                if mul.result.first_use is None:
                    Rewriter.erase_op(mul)
                break


@flyc.ir_pass(stage="llvm-post-opt")
def count_loads(module, context, *, most: int = 1000):
    """Print how many loads each function has; too many are an error."""
    for function in module.module.functions:
        loads = sum(i.opcode == "load" for block in function.blocks for i in block.instructions)
        if function.is_declaration:
            continue
        print(f"{context.backend} {function.name}: {loads} loads")
        if loads > most:
            raise flyc.PassError(f"{function.name} has {loads} loads, allowed are {most}")


NOPS = {"rocm": "S_NOP 0", "cpu": "NOOP"}


@flyc.ir_pass(stage="mir:pre-emit", backends=NOPS)
def nop_at_entry(module, context):
    """One instruction that does nothing at the start of each function."""
    for function in module.functions:
        function.blocks[0].insert(0, NOPS[context.backend])


@flyc.kernel
def axpy_kernel(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor):
    i = fx.thread_idx.x
    out[i] = x[i] * 3.0 + y[i]


@flyc.jit(ir_passes=[mul_add_to_fma, "count-loads{most=4096}"])
def axpy(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    axpy_kernel(x, y, out).launch(grid=1, block=64, stream=stream)


if __name__ == "__main__":
    x, y = np.random.default_rng().standard_normal((2, 64)).astype(np.float32)
    out = np.empty_like(x)
    axpy(x, y, out)
    np.testing.assert_allclose(out, 3 * x + y, rtol=1e-6, atol=1e-6)
    print("axpy:", out[:4])
