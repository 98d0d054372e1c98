"""Mistakes that people make, each a small program; the line of the mistake is marked `# here`."""

from __future__ import annotations

HEAD = """\
import math

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

LIMIT, TABLE = 8, np.ones(8, np.float32)


def positive(x):
    return x if x > 0 else -x


@flyc.kernel
def kernel({parameters}):
{body}

@flyc.jit
def run(x: fx.Tensor, y: fx.Tensor):
{host}

run(np.ones(8, np.float32), np.ones((2, 4), np.float32))
"""

PARAMETERS = "x: fx.Tensor, y: fx.Tensor"
LAUNCH = "kernel(x, y).launch(grid=1, block=8)"


def program(body: str, host: str = LAUNCH, parameters: str = PARAMETERS) -> str:
    """A whole program around the body of a kernel, which has its thread's number in `i`."""

    def indented(text: str) -> str:
        return "".join(f"    {line}\n" for line in text.splitlines())

    return HEAD.format(body=indented("i = fx.thread_idx.x\n" + body), host=indented(host), parameters=parameters)


MISTAKES: dict[str, str] = {
    "another language's word": program("x[threadIdx.x] = 1.0  # here"),
    "a misspelled name of the language": program("x[fx.thread_id.x] = 1.0  # here"),
    "a function of another language": program("fx.syncthreads()  # here"),
    "an index without its part": program("x[fx.thread_idx] = 1.0  # here"),
    "a part that indices do not have": program("x[fx.thread_idx.w] = 1.0  # here"),
    "math on a value of the kernel": program("x[i] = math.exp(x[i])  # here"),
    "numpy on a value of the kernel": program("x[i] = np.where(x[i] > 2, x[i], 0)  # here"),
    "rounding as in Python": program("x[i] = round(x[i] / 2.0)  # here"),
    "int() of a value of the kernel": program("n = int(x[i])  # here"),
    "an f-string of a value": program("print(f'{x[i]:.3f}')  # here"),
    "the length of a tensor": program("n = len(x)  # here"),
    "a loop over a tensor": program("for v in x:  # here\n    x[i] = v"),
    "a method of numpy": program("x[i] = y.sum()  # here"),
    "a method of torch": program("x[i] = x[i].item()  # here"),
    "strides as a function": program("x[i] = fx.Float32(y.stride(0))  # here"),
    "arithmetic on tensors": program("z = x + y  # here"),
    "a part of a tensor by a slice": program("z = y[0, 1:3]  # here"),
    "a negative index": program("x[i] = x[-1]  # here"),
    "a Python list indexed at run time": program("x[i] = [1.0, 2.0][i]  # here"),
    "`in` on a value": program("if i in (1, 2):  # here\n    x[i] = 1.0"),
    "an early return": program("if i < 2:\n    return  # here\nx[i] = 1.0"),
    "break in a run-time loop": program("for k in range(i):\n    if x[k] > 2.0:\n        break  # here"),
    "a name of one branch": program("if i < 4:\n    v = 3.0\nx[i] = v  # here"),
    "a name of a branch left out": program("if LIMIT > 100:\n    v = 3.0\nx[i] = v  # here"),
    "a value of a branch in a list": program(
        "kept = []\nput = kept.append\nif i < 4:\n    put(x[i] + 1.0)\nx[0] = kept[0]  # here"
    ),
    "a variable that changes its type": program("s = 0\nfor k in range(i):  # here\n    s = s + x[k]"),
    "a variable that starts as None": program("s = None\nif i < 4:  # here\n    s = x[i]"),
    "a store of another type": program("x[i] = i  # here"),
    "a number that does not fit": program("x[i] = fx.Float32(1.0)\nfx.Int8(0) + 1\nfx.full(4, 300, fx.Int8)  # here"),
    "a condition in a helper": program("x[i] = positive(x[i])  # here"),
    "a kernel without a launch": program("x[i] = 1.0", host="kernel(x, y)  # here"),
    "an argument too few": program("x[i] = 1.0", host="kernel(x).launch(grid=1, block=8)  # here"),
    "a block that is too large": program("x[i] = 1.0", host="kernel(x, y).launch(grid=1, block=4096)  # here"),
    "a grid of floats": program("x[i] = 1.0", host="kernel(x, y).launch(grid=8 / 4, block=8)  # here"),
    "a fraction for an integer": program(
        "x[i] = 1.0", host="kernel(x, 0.5).launch(grid=1, block=8)  # here", parameters="x: fx.Tensor, n: fx.Int32"
    ),
    "a number without an annotation": program(
        "x[i] = 1.0", host="kernel(x, 0.5).launch(grid=1, block=8)  # here", parameters="x: fx.Tensor, n"
    ),
    "None for a tensor": program("x[i] = 1.0", host="kernel(x, None).launch(grid=1, block=8)  # here"),
    "a misspelled name of the author's": program("total = x[i]\nx[i] = totl  # here"),
    "a misspelled attribute": program("x[i] = fx.Float32(x.shpe[0])  # here"),
    "a conversion of numpy": program("x[i] = x[i].astype(fx.Float32)  # here"),
    "an index that is a fraction": program("x[i] = x[i / 2]  # here"),
    "indices one by one": program("y[i][0] = 1.0  # here"),
    "an array of the host": program("x[i] = TABLE[i]  # here"),
    "a dict looked up at run time": program("x[i] = {0: 1.0}[i]  # here"),
    "an assertion": program("assert x[i] > 0.0  # here"),
    "a raise under a condition": program("if x[i] > 0.0:\n    raise ValueError('positive')  # here"),
    "a raise that is caught": program(
        "try:\n    if x[i] > 0.0:\n        raise ValueError  # here\nexcept ValueError:\n    x[i] = 0.0"
    ),
    "an unrolled loop of run time": program("for k in fx.range_constexpr(x.shape[0]):  # here\n    x[k] = 1.0"),
    "a parameter left out": program("v = fx.make_view(x)  # here"),
    "a parameter that is none": program("x[i] = fx.exp(x[i], fastmat='afn')  # here"),
    "shared memory with two indices": program(
        "s = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64]).peek()\ns[i, 0] = x[i]  # here"
    ),
    "shared memory without its elements": program(
        "s = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64])\ns[i] = x[i]  # here"
    ),
    "shared memory of a shape": program("fx.SharedAllocator().allocate(fx.Array[fx.Float32, (8, 8)])  # here"),
    "shared memory of a run-time size": program("fx.Array[fx.Float32, i]  # here"),
    "registers of a run-time size": program("r = fx.make_rmem_tensor(i, fx.Float32)  # here"),
    "a tuple for a layout": program("fx.make_layout_tv((4, 2), fx.make_layout(1, 1))  # here"),
    "a collective without its storage": program("x[i] = fx.coop.BlockReduce[fx.Float32, 8](x[i], 'add')  # here"),
    "a class of numpy for a size": program("fx.make_shape(np.float32, 4)  # here"),
    "a format of C": program("fx.printf('%f', x[i])  # here"),
    "an index of threads on the host": program("x[i] = 1.0", host="x[fx.thread_idx.x] = 1.0  # here"),
    "a launch by position": program("x[i] = 1.0", host="kernel(x, y).launch(1, 8)  # here"),
    "a misspelled part of a launch": program("x[i] = 1.0", host="kernel(x, y).launch(grid=1, blocks=8)  # here"),
    "a launch as in Triton": program("x[i] = 1.0", host="kernel[(1,)](x, y)  # here"),
    "a number for a tensor": program("x[i] = 1.0", host="kernel(8, y).launch(grid=1, block=8)  # here"),
    "a tensor for a number": program(
        "x[i] = 1.0", host="kernel(x, y).launch(grid=1, block=8)  # here", parameters="x: fx.Tensor, n: fx.Int32"
    ),
    "an extent for a compile-time number": program(
        "x[i] = 1.0",
        host="kernel(x, x.shape[0]).launch(grid=1, block=8)  # here",
        parameters="x: fx.Tensor, n: fx.Constexpr[int]",
    ),
    "a kernel in a kernel": program("kernel(x, y)  # here"),
    "a yield": program("yield x  # here"),
    "indices called as in CuTe": program("n = fx.thread_idx()  # here"),
    "indices by number": program("x[fx.thread_idx[0]] = 1.0  # here"),
    "arithmetic in place on a view": program("y[0, None] += 1.0  # here"),
    "a range of numbers as in Triton": program("x[fx.arange(0, 8)] = 1.0  # here"),
    "an index over the whole grid": program("x[fx.global_id(0)] = 1.0  # here"),
    "a sum of numpy": program("x[i] = np.sum(x)  # here"),
    "a tensor for an element": program("x[i] = y  # here"),
    "a loop to a whole shape": program("for k in range(y.shape):  # here\n    x[k] = 1.0"),
    "a type of numpy": program("x[i] = i.to(np.float32)  # here"),
    "a type as text": program("r = fx.make_rmem_tensor(4, 'float16')  # here"),
    "shared memory by shape and type": program("fx.SharedAllocator().allocate((8, 8))  # here"),
    "a grid that is a function": program(
        "x[i] = 1.0", host="kernel(x, y).launch(grid=lambda meta: (1,), block=8)  # here"
    ),
    "a launch in words of CUDA": program("x[i] = 1.0", host="kernel(x, y).launch(grid=1, threads=8)  # here"),
    "a method of torch that writes": program("x.zero_()  # here"),
    "the address of a tensor": program("p = x.data_ptr()  # here"),
    "a match on a value": program("match i:\n    case 0:  # here\n        x[i] = 1.0"),
}
