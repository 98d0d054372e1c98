"""An activation times a gate, `act(x) * y`, and its gradients, in one pass."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError

from ..activations import ACTIVATIONS, slope
from ..repeats import fresh_like, relaunch, remember_call, repeated
from ..scalars import choice, flags
from .arrays import Given, HostArray, describe, is_view, matrix, same_place, shaped
from .call import Result, arrays_only, check_apart, described, dtype_of, in_pieces, more_of, recall
from .form import Form, form_of
from .lines import Lines, Place
from .softmax_entry import describe_rows
from .softmax_kernels import blocks_for, row_of

if TYPE_CHECKING:
    from flydsl.compiler.jit_function import JitFunction


@flyc.kernel
def gated_kernel(
    x: fx.Tensor,
    y: fx.Tensor,
    out: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    activation: fx.Constexpr[str],
    form: fx.Constexpr[Form],
):
    lines = Lines(form, row_of(form), m, n, x=x, y=y, out=out)
    lines.fetch("x", "y")
    act = ACTIVATIONS[activation]
    lines.each(lambda at: lines.write("out", at, act(lines.read("x", at)) * lines.read("y", at)))


@flyc.jit
def gated_rows(
    x: fx.Tensor,
    y: fx.Tensor,
    out: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    activation: fx.Constexpr[str],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """out = act(x) y."""
    gated_kernel(x, y, out, m, n, activation, form).launch(grid=blocks_for(form, m), block=form.block, stream=stream)


@flyc.kernel
def gated_back_kernel(
    x: fx.Tensor,
    y: fx.Tensor,
    d: fx.Tensor,
    dx: fx.Tensor | None,
    dy: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    activation: fx.Constexpr[str],
    form: fx.Constexpr[Form],
):
    lines = Lines(form, row_of(form), m, n, x=x, y=y, d=d, dx=dx, dy=dy)
    lines.fetch("x", "y", "d")

    def finish(at: Place) -> None:
        value, given = lines.read("x", at), lines.read("d", at)
        if dx is not None:
            lines.write("dx", at, given * lines.read("y", at) * slope(activation, value))
        if dy is not None:
            lines.write("dy", at, given * ACTIVATIONS[activation](value))

    lines.each(finish)


@flyc.jit
def gated_back(
    x: fx.Tensor,
    y: fx.Tensor,
    d: fx.Tensor,
    dx: fx.Tensor | None,
    dy: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    activation: fx.Constexpr[str],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """The gradients of the factors from that of the product, but for those that are None."""
    gated_back_kernel(x, y, d, dx, dy, m, n, activation, form).launch(
        grid=blocks_for(form, m), block=form.block, stream=stream
    )


def gated(
    x: HostArray, y: HostArray, *, activation: str = "silu", out: HostArray | None = None, stream: object = None
) -> Given:
    """`activation(x) * y`, element by element; a name of `flydsl.kernels.activations`.

    Halves of one array, `gated(h[..., :n], h[..., n:])`, are read where they are.
    """
    op, key = "gated", None
    if out is None and stream is None and type(activation) is str:
        key, known = repeated(op, activation, x, y)
        if known is not None:
            return known
    check_gated(op, x, y, activation)
    result = Result(op, "out", x, dtype_of(x), out)
    check_apart(op, "out", out, x=x, y=y)
    _launch(op, gated_rows, {"x": x, "y": y}, {"out": result}, activation, stream, key)
    return result.done()


def _launch(
    op: str,
    function: JitFunction,
    given: dict[str, HostArray],
    made: dict[str, Result | None],
    activation: str,
    stream: object,
    key: object,
) -> None:
    """Launch by the element; `key` is that of calls that are to be repeated. Results that nobody wants are None."""
    matrices = {name: matrix(x) for name, x in given.items()}
    results = {name: result.matrix for name, result in made.items() if result is not None}
    launches = in_pieces({**matrices, **results})
    form = None
    for rows in launches:
        m, n = rows["x"].shape
        if m and n:
            form = recall(op, rows, tuple(results), partial(_form, op, rows, len(given)))
            arrays = [rows.get(name) for name in (*given, *made)]
            function(*arrays, m, n, activation, form, **more_of(stream))
    views = all(is_view(matrices[name], x) for name, x in given.items())
    if key is not None and form is not None and len(launches) == 1 and views:
        wanted = [result is not None for result in made.values()]
        _remember(key, function, tuple(given.values()), wanted, launches[0]["x"].shape, (activation, form))


def _remember(
    key: object,
    function: JitFunction,
    given: tuple[Given, ...],
    wanted: list[bool],
    shape: tuple[int, ...],
    rest: tuple[object, ...],
) -> None:
    """A call of one launch, for tensors like these, whose results are like the first of them."""
    fresh, rest, count = fresh_like(given[0]), (*shape, *rest), len(wanted)

    def arrange(*tensors: Given) -> tuple[object, ...]:
        return (*(None if x is None else x.view(shape) for x in tensors), *rest)

    rows = relaunch(function, arrange, range(len(given) + count), fresh=count)

    def one(*given: Given) -> Given:
        made = fresh(given[0])
        return made if rows.now(*given, made) else None

    def two(*given: Given) -> Given:
        made = tuple([fresh(given[0]) if want else None for want in wanted])
        return made if rows.now(*given, *made) else None

    remember_call(key, one if count == 1 else two)


def gated_backward(
    d: HostArray,
    x: HostArray,
    y: HostArray,
    *,
    activation: str = "silu",
    wanted: tuple[bool, bool] = (True, True),
    stream: object = None,
) -> tuple[Given, Given]:
    """The gradients of `x` and `y` from that of `gated(x, y)`; None for one that is not `wanted`."""
    op, key = "gated_backward", None
    of_x, of_y = flags(op, "wanted", wanted, 2)
    if stream is None and type(activation) is str:
        key, known = repeated(op, (activation, of_x, of_y), x, y, d)
        if known is not None:
            return known
    check_gated_backward(op, d, x, y, activation)
    if not (of_x or of_y):
        return None, None
    dx, dy = (Result(op, name, x, dtype_of(x), None) if want else None for name, want in (("dx", of_x), ("dy", of_y)))
    _launch(op, gated_back, {"x": x, "y": y, "d": d}, {"dx": dx, "dy": dy}, activation, stream, key)
    return None if dx is None else dx.done(), None if dy is None else dy.done()


def _form(op: str, rows: dict[str, HostArray], reads: int) -> Form:
    found = described(op, rows)
    same_place(op, found)
    x = found["x"]
    assert x is not None
    m, n = x.shape
    return form_of(m, n, found, reads * max(x.itemsize, 4))


def check_gated(op: str, x: HostArray, y: HostArray, activation: str) -> None:
    """What is refused, by extents and types alone."""
    arrays_only(op, x=x, y=y)
    choice(op, "activation", activation, ACTIVATIONS)
    dtype = dtype_of(describe_rows(op, "x", x))
    shaped(op, "y", describe(op, "y", y), x.shape, "x")
    if dtype_of(y) != dtype:
        raise DSLTypeError(f"{op}: y is {dtype} as x, got {dtype_of(y)}")


def check_gated_backward(op: str, d: HostArray, x: HostArray, y: HostArray, activation: str) -> None:
    """The same of the gradients."""
    check_gated(op, x, y, activation)
    arrays_only(op, d=d)
    shaped(op, "d", describe(op, "d", d), x.shape, "x")


def silu_mul(x: HostArray, y: HostArray, *, out: HostArray | None = None, stream: object = None) -> Given:
    """`silu(x) * y`."""
    return gated(x, y, activation="silu", out=out, stream=stream)


def gelu_mul(
    x: HostArray, y: HostArray, *, approximate: str = "tanh", out: HostArray | None = None, stream: object = None
) -> Given:
    """`gelu(x) * y`, with the approximation of GELU by tanh, or ("none") GELU itself, as torch names them."""
    return gated(x, y, activation=gelu_named("gelu_mul", approximate), out=out, stream=stream)


def gelu_named(op: str, approximate: str) -> str:
    """The activation that torch's word for an approximation means."""
    return {"tanh": "gelu_tanh", "none": "gelu"}[choice(op, "approximate", approximate, ("tanh", "none"))]


__all__ = ["gated", "gated_backward", "gelu_mul", "gelu_named", "silu_mul"]
