"""`call`: a jit function on the arrays of JAX, inside `jax.jit`, `jax.vmap` and, with a gradient, `jax.grad`."""

from __future__ import annotations

import ctypes
import itertools
import math
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from flydsl.compiler.jit_function import JitFunction
from flydsl.compiler.key.cache_key import encode
from flydsl.errors import DSLRuntimeError, DSLTypeError, DSLValueError
from flydsl.expr.gpu import Stream
from flydsl.expr.tensor import Tensor

from .ffi import NAMES, TARGET, Memory, handler
from .library import Array, Shape, load, varies, varying

jax = load()

Like: TypeAlias = "str | Shape | Callable[..., Shape]"
"""What a result is like: an argument by name, a shape and type, or a function of the arguments' by name."""
Gradient = Callable[[Mapping[str, Array], Mapping[str, Array]], Mapping[str, Array]]


class Plan(NamedTuple):
    """A jit function with its order of arguments; it is found again by its key when XLA calls."""

    function: JitFunction
    arrays: tuple[str, ...]
    results: tuple[str, ...]
    others: tuple[tuple[str, object], ...]
    stream: str | None


_lock = threading.Lock()
_plans: dict[str, Plan] = {}
_keys: dict[object, str] = {}
_numbers = itertools.count()
_process = secrets.token_hex(8)
"""Part of every key: an executable that JAX kept from another process must not find a plan of this one."""
_registered: list[object] = []


def call(
    function: JitFunction,
    *args: object,
    results: Mapping[str, Like],
    backward: JitFunction | Gradient | None = None,
    **kwargs: object,
) -> Array:
    """Run a jit function on arrays of JAX; gives its result, or a tuple of them.

    `args` and `kwargs` are its parameters but for the results: arrays where it takes an `fx.Tensor`, and values that
    are known when JAX traces. `results` names the tensors that it writes, and what each is like: an argument, a
    `jax.ShapeDtypeStruct`, or a function of the arguments by name.

    `backward` is a jit function whose parameters say what it is given by their names: `dy` is the gradient of result
    `y`, `dx`, which it writes, that of argument `x`, other names are arguments and results. A Python function instead
    is called with arguments and results, and with the gradients of the results, by name, and gives those of arguments.
    """
    given = _bind(function, args, kwargs, results)
    arrays = [name for name in given if _is_tensor(function, name)]
    given |= _in_step({name: jax.numpy.asarray(given[name]) for name in arrays if given[name] is not None})
    if backward is None:
        return _run(function, given, arrays, results)
    gradient = _gradient(function, given, arrays, results, backward)

    def forward(*values: Array) -> Array:
        return _run(function, {**given, **dict(zip(arrays, values, strict=True))}, arrays, results)

    def remember(*values: Array) -> tuple[Array, tuple[Array, ...]]:
        made = forward(*values)
        return made, (*values, *_all_of(made))

    def back(kept: tuple[Array, ...], grads: Array) -> tuple[Array, ...]:
        values = {**given, **dict(zip((*arrays, *results), kept, strict=True))}
        found = gradient(values, {r: _gradient_of(values[r], g) for r, g in zip(results, _all_of(grads), strict=True)})
        if not isinstance(found, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DSLTypeError(f"call {_name(function)}: backward gives {{argument: its gradient}}, got {found!r}")
        unknown = sorted(set(found) - set(arrays))
        if unknown:
            raise DSLValueError(
                f"call {_name(function)}: backward gave a gradient of {unknown[0]!r}; arrays are {arrays}"
            )
        return tuple(found.get(name) for name in arrays)

    differentiable = jax.custom_vjp(forward)
    differentiable.defvjp(remember, back)
    return differentiable(*(given[name] for name in arrays))


def _gradient_of(result: Array, grad: Array) -> Array:
    """JAX's gradient of integers has no memory: it is zeros of their type here, as in torch."""
    return grad if result.dtype.kind in "fV" else jax.numpy.zeros_like(result)


def _in_step(values: Mapping[str, Array]) -> dict[str, Array]:
    """Arguments as varying as each other inside `jax.shard_map`, so that gradients of replicated ones are summed."""
    axes = varies(*values.values())
    return {name: varying(value, axes) for name, value in values.items()}


def _all_of(made: Array) -> tuple[Array, ...]:
    """Results: a single one comes without a tuple."""
    return cast("tuple[Array, ...]", made) if isinstance(made, tuple) else (made,)


def _name(function: JitFunction) -> str:
    return function.__qualname__


def _is_tensor(function: JitFunction, name: str) -> bool:
    return function.signature.parameters[name].annotation is Tensor


def _bind(
    function: JitFunction, args: Sequence[object], kwargs: Mapping[str, object], results: Mapping[str, Like]
) -> dict[str, object]:
    """Arguments by name."""
    if not isinstance(function, JitFunction):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"call: the first argument is a jit function, got {function!r}")
    if not isinstance(results, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"call {_name(function)}: results={{name: what it is like}}, got {results!r}")
    parameters = function.signature.parameters
    for result in results:
        if result not in parameters or not _is_tensor(function, result):
            tensors = ", ".join(k for k in parameters if _is_tensor(function, k))
            raise DSLValueError(f"call {_name(function)}: no tensor parameter {result!r}; there are {tensors}")
    if not results:
        raise DSLValueError(f"call {_name(function)}: say which tensors are written, with results={{...}}")
    names = [k for k, p in parameters.items() if k not in results and p.annotation is not Stream]
    if len(args) > len(names):
        raise DSLTypeError(f"call {_name(function)}: takes {', '.join(names)}, got {len(args)} arguments")
    given = dict(zip(names, args, strict=False))
    for key, value in kwargs.items():
        if key not in names or key in given:
            raise DSLTypeError(f"call {_name(function)}: {key!r} is given twice, or none of {', '.join(names)}")
        given[key] = value
    empty = function.signature.inspected.parameters
    missing = [k for k in names if k not in given and empty[k].default is empty[k].empty]
    if missing:
        raise DSLTypeError(f"call {_name(function)}: {missing[0]!r} is missing")
    return {name: given[name] for name in names if name in given}


def _run(
    function: JitFunction, given: Mapping[str, object], arrays: Sequence[str], results: Mapping[str, Like]
) -> Array:
    present = [name for name in arrays if given[name] is not None]
    values = {name: cast(Array, given[name]) for name in present}
    shapes = {name: jax.ShapeDtypeStruct(v.shape, v.dtype) for name, v in values.items()}
    wanted = [_shape(function, result, like, shapes, given) for result, like in results.items()]
    others = tuple((k, v) for k, v in given.items() if k not in values)
    stream = next((k for k, p in function.signature.parameters.items() if p.annotation is Stream), None)
    key = _key(Plan(function, tuple(present), tuple(results), others, stream))
    for array, kind in ((k, v.dtype) for k, v in (*shapes.items(), *zip(results, wanted, strict=True))):
        if str(kind) not in NAMES:
            raise DSLTypeError(
                f"call {_name(function)}: {array!r} has elements of {kind}, which cannot be handed over; convert it to "
                f"one of {', '.join(sorted(NAMES))}"
            )
    made = jax.ffi.ffi_call(TARGET, wanted, vmap_method="sequential")(*values.values(), plan=key)
    # What is made of one shard's elements differs from shard to shard, also where the result's shape does not say so.
    made = [varying(one, varies(*values.values())) for one in made]
    return made[0] if len(made) == 1 else tuple(made)


def _shape(
    function: JitFunction, result: str, like: Like, shapes: Mapping[str, Shape], given: Mapping[str, object]
) -> Shape:
    if isinstance(like, str):
        if like not in shapes:
            raise DSLValueError(
                f"call {_name(function)}: result {result!r} is to be like {like!r}, which is no array argument"
            )
        return shapes[like]
    found = like(**{**given, **shapes}) if callable(like) else like
    if not hasattr(found, "shape") or not hasattr(found, "dtype"):
        raise DSLTypeError(
            f"call {_name(function)}: result {result!r} is to be like an argument's name, a jax.ShapeDtypeStruct or a "
            f"function that gives one, got {found!r}"
        )
    return found


def _key(plan: Plan) -> str:
    _register()
    told = plan._replace(others=tuple((name, _told(plan, name, value)) for name, value in plan.others))
    with _lock:
        found = _keys.get(told)
        if found is None:
            found = _keys[told] = f"{_name(plan.function)}:{next(_numbers)}:{_process}"
            _plans[found] = plan
    return found


def _told(plan: Plan, name: str, value: object) -> object:
    """A value as part of a key. Python takes 1 for True and 0.0 for -0.0, which make different code and results."""
    try:
        hash(value)
    except TypeError as error:
        raise DSLTypeError(
            f"call {_name(plan.function)}: {name!r} must be a value that is known when JAX traces and can be hashed, "
            f"got {value!r} of type {type(value).__name__}; a number that is computed goes in as an array"
        ) from error
    try:
        return encode(value)
    except TypeError:
        return type(value), value


def _register() -> None:
    """Tell XLA of the handler, once a process."""
    with _lock:
        if _registered:
            return
        for platform, on_device in (("cpu", False), ("CUDA", True), ("ROCM", True)):
            made = handler(_launch_on_device if on_device else _launch_on_host, on_device)
            jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(made), platform=platform)
            _registered.append(made)


def _launch_on_host(key: str, arguments: Sequence[Memory], results: Sequence[Memory], stream: int) -> None:
    _launch(key, [_host_array(_indexed(m)) for m in (*arguments, *results)], None)


def _launch_on_device(key: str, arguments: Sequence[Memory], results: Sequence[Memory], stream: int) -> None:
    _launch(key, [_DeviceArray(_indexed(m)) for m in (*arguments, *results)], stream)


def _launch(key: str, arrays: Sequence[object], stream: int | None) -> None:
    plan = _plans.get(key)
    if plan is None:
        raise DSLRuntimeError(
            f"call: {key.partition(':')[0]} was traced in another process, which kept its function; an exported or "
            "serialized call cannot be run here: trace it again"
        )
    named = dict(zip((*plan.arrays, *plan.results), arrays, strict=True))
    if stream is not None:
        if plan.stream is None:
            raise DSLValueError(f"call {_name(plan.function)}: on a GPU the function takes a fx.Stream to launch on")
        named[plan.stream] = stream
    plan.function(**dict(plan.others), **named)


def _indexed(memory: Memory) -> Memory:
    """A kernel indexes at least one dimension: a number that JAX computes is an array of one element for it."""
    return memory if memory.shape else memory._replace(shape=(1,))


def _host_array(memory: Memory) -> object:
    dtype = jax.numpy.dtype(memory.dtype)
    count = math.prod(memory.shape)
    if not count:
        return np.empty(memory.shape, dtype)
    room = (ctypes.c_char * (count * dtype.itemsize)).from_address(memory.pointer)
    return np.ndarray(memory.shape, dtype, buffer=memoryview(room))


class _DeviceArray:
    """Memory on a GPU for the time of a call."""

    def __init__(self, memory: Memory):
        kind = jax.numpy.dtype(memory.dtype)
        if kind.kind == "V":
            raise DSLTypeError(
                f"call: arrays of {memory.dtype} cannot be handed over on a GPU; pass their bits as uints"
            )
        self.__cuda_array_interface__ = {
            "version": 3, "shape": memory.shape, "typestr": kind.str, "data": (memory.pointer, False), "strides": None,
        }  # fmt: skip


def _gradient(
    function: JitFunction,
    given: Mapping[str, object],
    arrays: Sequence[str],
    results: Mapping[str, Like],
    backward: JitFunction | Gradient,
) -> Gradient:
    """The gradient as a Python function of names."""
    name = _name(function)
    if not isinstance(backward, JitFunction):
        if not callable(backward):
            raise DSLTypeError(f"call {name}: backward is a jit function or a Python function, got {backward!r}")
        return backward
    parameters = backward.signature.parameters
    wanted = {f"d{a}": a for a in arrays if f"d{a}" in parameters}
    if not wanted:
        possible = ", ".join(f"d{a}" for a in arrays)
        raise DSLValueError(f"call {name}: backward writes none of {possible}; it has {', '.join(parameters)}")
    grads_of = {f"d{r}": r for r in results}
    names = [p for p, q in parameters.items() if p not in wanted and q.annotation is not Stream]
    for p in names:
        if p not in grads_of and p not in given and p not in results:
            known = ", ".join((*grads_of, *given, *results))
            raise DSLValueError(f"call {name}: backward has a parameter {p!r}, which is none of {known}")

    def gradient(values: Mapping[str, Array], grads: Mapping[str, Array]) -> Mapping[str, Array]:
        sent = {p: grads[grads_of[p]] if p in grads_of else values[p] for p in names}
        # An argument that was left out has no gradient: backward is given None for both.
        present = {d: a for d, a in wanted.items() if values[a] is not None}
        left_out = dict.fromkeys(set(wanted) - set(present))
        like = {d: jax.ShapeDtypeStruct(values[a].shape, values[a].dtype) for d, a in present.items()}
        made = call(backward, results=like, **sent, **left_out)
        return dict(zip(present.values(), _all_of(made), strict=True))

    return gradient
