"""Running decorated functions to build IR: the host function, and each kernel it launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, SymbolRefAttr, UnitAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from ... import config
from ...dialects.upstream import gpu
from ...errors import DSLRuntimeError, DSLTypeError, DSLValueError, FlyDSLError
from ...expr.arith import max as arith_max
from ...expr.emit.side_buffers import SideBuffers
from ...expr.emit.trace import active
from ...expr.emit.tracer import BOUNDARIES, Tracer
from ...expr.gpu import Stream
from ...expr.ktrace.switch import events_kept, tracing_enabled
from ...expr.meta import tracing_options
from ...expr.numeric import Int32, Integer, Numeric, as_numeric
from ...expr.protocol import construct_from_ir_values, extract_to_ir_values
from ...expr.scalars.fastmath import ambient_flags
from ...expr.scalars.scalar_ops import make
from ...expr.structs import StructValue
from ...expr.tensors.algebra_values import AlgebraValue, IntTuple
from ...expr.tensors.tiled import ThrCopy, ThrMma
from ...expr.vector import Vector
from ...ir.builder import i32_list, index
from ...ir.emitter import new_block
from ...ir.types import function_type, i32
from ...llvm.stub_abi import SIDE_BUFFERS_ATTRIBUTE
from ...passes.pipeline import PRINTS, TILED_COPIES
from ...target import GPUTarget
from ..build.ir_errors import place
from ..build.isolation import RAW_TEXT
from ..extern_link import Externs
from ..key.constant_keys import constexpr_key
from .escapes import check_escapes
from .geometry import check_extent
from .host_ops import check_host_ops, warn_of_result
from .pointer_arguments import Taken, bytes_from, is_map, kind_of, taken_again, taken_from
from .stores import Walked, walk_kernels

if TYPE_CHECKING:
    from ...expr.ktrace.emit import KernelTrace

for _module in ("matrix_product", "shared"):
    # Names of the language load on first use, in the middle of a trace; the little that is left of tensors loads here.
    import_module(f"flydsl.expr.tensors.{_module}")

_TOKEN = gpu.AsyncTokenType()
KERNELS = "kernels"
"""Name of the device module."""


class KernelFrame:
    """A kernel being traced."""

    is_kernel = True

    def __init__(self, name: str, block_size: tuple[int, int, int] | None):
        self.name = name
        self.block_size = block_size
        self.shared: Any = None
        """Its `SharedAllocator`."""
        self.symmetric: set[int] = set()
        """Numbers of the arguments that are tensors of all ranks (`fx.dist.peer`)."""
        self.side_buffers = SideBuffers()
        """Memory that its launches add by themselves."""
        self.ktrace: KernelTrace | None = None
        """What it records of its run, with tracing on."""


class KernelText(NamedTuple):
    """A device function that was emitted."""

    symbol: str
    dynamic_shared: int
    """Bytes of dynamic shared memory it needs."""
    side_buffers: ArrayAttr[StringAttr] | None = None
    """Memory its launches add by themselves, if any."""


Settled: TypeAlias = Callable[[object], bool]


def _never(_kernel: object) -> bool:
    return False


class HostFrame:
    """A jit function being traced: what it has launched so far."""

    def __init__(
        self, target: GPUTarget, device: Block, externs: Externs, bounded: bool = False, settled: Settled = _never
    ):
        self.target = target
        self.bounded = bounded
        """Whether kernels get the tensors of pointers, and maps the bytes of theirs."""
        self.settled = settled
        """Whether all that a kernel reads beside its arguments is as it was when the trace began."""
        self.device = device
        self.kernels: list[str] = []
        self.made: dict[Any, KernelText] = {}
        """Kernels by what they are made from, so that launching one twice traces it once."""
        self.texts: dict[object, list[tuple[gpu.FuncOp, KernelText]]] = {}
        """Device functions by the Python function they are of, so that what is equal is emitted once."""
        self.externs = externs
        self.waiting: dict[object, Attribute] = {}
        """Kernels that were called and not launched yet, and where."""
        self.raw_text = False
        """Whether a kernel holds assembly or intrinsics by name, which nobody has checked."""
        self.tiled_copies = False
        """Whether a kernel holds copies by the coordinates of a tensor."""
        self.prints = False
        """Whether a kernel prints into memory that its launches add."""

    def bytes_from(self, tracer: Tracer, pointer: SSAValue) -> SSAValue | None:
        """Where accesses are checked: how many bytes an array has from a pointer on, if that is known."""
        return bytes_from(tracer, pointer) if self.bounded else None

    def symbol(self, name: str, explicit: bool) -> str:
        """A fresh kernel symbol."""
        if explicit and name not in self.kernels:
            return name
        count = 0
        while f"{name}_{count}" in self.kernels:
            count += 1
        return f"{name}_{count}"


def trace_host(
    name: str,
    function: Any,
    arguments: dict[str, Any],
    target: GPUTarget,
    externs: Externs | None = None,
    bounded: bool = False,
    settled: Settled = _never,
) -> tuple[ModuleOp, list[str], Walked]:
    """Trace a jit function; `arguments` maps parameters to Python values or argument adapters.

    Gives the module, the kernels it launches in order of their handles and what calls must know of them; `externs`
    collects what its extern functions need. With `bounded` kernels get the tensors of pointers: accesses are checked.
    `settled` tells of a kernel's function whether what it reads has not changed since the call began.
    """
    tracer = _tracer() if target.on_host else Tracer()
    types: list[Attribute] = []
    spans: dict[str, tuple[int, int]] = {}
    has_stream = False
    for key, argument in arguments.items():
        # On its class, as Python looks for protocols: an object may answer to any name.
        kind = cast("type[object]", type(argument))
        if not (hasattr(kind, "construct") and hasattr(kind, "__get_ir_types__")):
            continue
        mine = argument.__get_ir_types__()
        spans[key] = (len(types), len(types) + len(mine))
        types.extend(mine)
        has_stream = isinstance(mine[-1], gpu.AsyncTokenType) if mine else has_stream
    if not has_stream:
        types.append(_TOKEN)
    entry, device = new_block(types), Block()
    kernels = gpu.ModuleOp.create(properties={"sym_name": StringAttr(KERNELS)}, regions=[Region(device)])
    frame = HostFrame(target, device, externs or Externs(), bounded, settled)
    tracer.functions.append(frame)
    token = active.set(tracer)
    try:
        with tracer.open_function(entry):
            values = {
                key: argument.construct(entry.args[slice(*spans[key])]) if key in spans else argument
                for key, argument in arguments.items()
            }
            follow = getattr(tracer, "following", nullcontext)
            with follow():
                warn_of_result(name, function, _call(function, values))
            tracer.opn(func.ReturnOp, (), ())
        _check_caught(tracer)
        _check_launched(frame)
        check_host_ops(name, entry, target.on_host)
    finally:
        active.reset(token)
    host = func.FuncOp(name, function_type(types, ()), Region(entry))
    host.attributes["llvm.emit_c_interface"] = UnitAttr()
    module = ModuleOp([kernels, host])
    module.attributes["gpu.container_module"] = UnitAttr()
    if frame.raw_text or frame.externs.libraries:
        module.attributes[RAW_TEXT] = UnitAttr()
    if frame.tiled_copies:
        module.attributes[TILED_COPIES] = UnitAttr()
    if frame.prints:
        module.attributes[PRINTS] = UnitAttr()
    check_escapes(module)
    return module, frame.kernels, walk_kernels(entry, device, spans)


def _tracer() -> Tracer:
    """The tracer of the cpu stack; most processes never need those that count or mark lines."""
    if config.cpu.profile:
        from ...expr.emit.line_counts import CountingTracer

        return CountingTracer()
    if config.cpu.coverage:
        from ...expr.emit.line_coverage import CoverageTracer

        return CoverageTracer()
    if config.cpu.debug:
        from ...expr.emit.line_marks import MarkingTracer

        return MarkingTracer()
    return Tracer()


def _kernel_trace(buffers: SideBuffers) -> KernelTrace:
    """The recording code of a kernel, which few processes ever need."""
    from ...expr.ktrace.emit import KernelTrace

    return KernelTrace(buffers, events_kept())


def _call(function: Any, arguments: dict[str, Any]) -> Any:
    """Run user code; frames above this one are not part of the traced program."""
    first = function.__code__.co_varnames[: function.__code__.co_posonlyargcount]
    if not first:
        return function(**arguments)
    rest = {name: value for name, value in arguments.items() if name not in first}
    return function(*(arguments[name] for name in first), **rest)


BOUNDARIES.add(_call.__code__)


def _check_caught(tracer: Tracer) -> None:
    """Refuse an `except` around a run-time region: what is raised in one is raised while tracing, whatever happens."""
    error = tracer.broken_off
    if error is None:
        return
    if isinstance(error, FlyDSLError):
        raise error
    raise DSLRuntimeError(
        f"this {type(error).__name__} left a run-time region and was caught: a region is traced once, whatever the "
        "values are, so it would always be raised; choose a value under the condition instead"
    ).with_traceback(error.__traceback__) from error


def _check_launched(frame: HostFrame) -> None:
    """Refuse a kernel that was given its arguments and nothing else: the call alone does nothing."""
    for launcher, where in frame.waiting.items():
        error = DSLRuntimeError(f"{launcher} was called but never launched; add .launch(grid=..., block=...)")
        place(error, where)
        raise error


def host_frame(tracer: Tracer | None) -> HostFrame:
    """The jit function being traced, which must be outside any kernel."""
    if tracer is None or not tracer.functions:
        raise DSLRuntimeError(
            "a kernel can only be called while a @flyc.jit function is traced; write a jit function that launches it"
        )
    frame = tracer.functions[-1]
    if not isinstance(frame, HostFrame):
        raise DSLRuntimeError(
            f"kernel '{frame.name}' cannot launch another kernel; launch both from the @flyc.jit function, one after "
            "the other, or make what they share a plain function"
        )
    return frame


def _is_static_argument(value: object) -> bool:
    """DSL objects without run-time content, and plain Python containers of them."""
    if isinstance(value, (str, type)) or value is None:
        return False
    try:
        return not extract_to_ir_values(value)
    except TypeError:
        return False


def trace_kernel(
    tracer: Tracer,
    frame: HostFrame,
    name: str,
    explicit_name: bool,
    function: Any,
    arguments: dict[str, Any],
    flat: dict[str, list[SSAValue]],
    taken: Sequence[Taken],
    block_size: tuple[int, int, int] | None,
    attributes: dict[str, Attribute],
    original: object,
) -> KernelText:
    """Emit the device function for a launch unless an equal one exists; `taken` are the values of `flat`, in order.

    What the host function does between two launches may change what a kernel reads, so the second is traced as well
    where that cannot be excluded; what comes out equal is one function.
    """
    identity = (original, tuple(sorted(attributes.items())), *map(kind_of, taken))
    key = _identity(identity, arguments, flat, block_size) if frame.settled(original) else None
    known = frame.made.get(key) if key is not None else None
    if known is not None:
        return known
    symbol = frame.symbol(name, explicit_name)
    entry = new_block(one.value.type for one in taken)
    inside: dict[str, Any] = {}
    kernel = KernelFrame(symbol, block_size)
    tracer.functions.append(kernel)
    try:
        with tracer.open_function(entry):
            given, at = taken_again(tracer, taken, entry.args), 0
            for param, value in arguments.items():
                mine = flat.get(param)
                if mine is None or (not mine and _is_static_argument(value)):
                    inside[param] = value
                    continue
                values = given[at : at + len(mine)]
                # Asked how many values a number is made of, one that the host function knows would become a constant.
                number = isinstance(value, Numeric)
                inside[param] = make(type(value), *values) if number else construct_from_ir_values(value, values)
                at += len(mine)
            if tracing_enabled():
                kernel.ktrace = _kernel_trace(kernel.side_buffers)
            with getattr(tracer, "following_kernel", nullcontext)():
                warn_of_result(name, function, _call(function, inside))
            tracer.opn(gpu.ReturnOp, (), ())
            if kernel.ktrace is not None:
                kernel.ktrace.close()
    finally:
        tracer.functions.pop()
    props: dict[str, Attribute] = {"function_type": function_type([a.type for a in entry.args], ())}
    attributes = {**attributes, "sym_name": StringAttr(symbol), "gpu.kernel": UnitAttr()}
    declared = kernel.side_buffers.declared()
    if declared is not None:
        attributes[SIDE_BUFFERS_ATTRIBUTE] = declared
        frame.prints |= kernel.side_buffers.declares("print")
    if block_size is not None:
        props["known_block_size"] = i32_list(block_size)
    if frame.target.on_host:
        # What checked mode calls the arguments.
        names = [StringAttr(param) for param, mine in flat.items() for _ in mine]
        attributes = {**attributes, "fly.arg_names": ArrayAttr(names)}
        if kernel.symmetric:
            attributes["fly.symmetric_args"] = i32_list(sorted(kernel.symmetric))
        maps = [i for i, one in enumerate(taken) if is_map(one.value)] if frame.bounded else []
        if maps:
            attributes["fly.map_args"] = i32_list(maps)
    with tracer.region(frame.device):
        emitted = cast(gpu.FuncOp, tracer.with_regions(gpu.FuncOp, (), (), [Region(entry)], props, attributes))
    made = KernelText(symbol, kernel.shared.dynamic_bytes if kernel.shared is not None else 0, declared)
    known = _equal_one(frame.texts.setdefault(original, []), emitted, made)
    if known is None:
        frame.kernels.append(symbol)
    if key is not None:
        frame.made[key] = known or made
    return known or made


def _equal_one(others: list[tuple[gpu.FuncOp, KernelText]], emitted: gpu.FuncOp, made: KernelText) -> KernelText | None:
    """An earlier function that is this one but for its name: this one then goes. Else it is put to the others."""
    symbol, device = emitted.attributes["sym_name"], emitted.parent
    for other, known in others:
        emitted.attributes["sym_name"] = other.attributes["sym_name"]
        same = made == known._replace(symbol=made.symbol)
        if same and emitted.is_structurally_equivalent(other, {device: device} if device is not None else None):
            emitted.detach()
            emitted.erase()
            return known
    emitted.attributes["sym_name"] = symbol
    others.append((emitted, made))
    return None


def given_to(frame: HostFrame, flat: dict[str, list[SSAValue]]) -> list[Taken]:
    """What a kernel is given for its arguments' values."""
    return [taken_from(v) if frame.bounded else Taken(v) for values in flat.values() for v in values]


def static_part(value: object) -> object:
    """What of an argument is decided while tracing and does not show in its IR types: classes, shapes, constants."""
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *(static_part(v) for v in cast(Sequence[object], value)))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, dict):
        return tuple((k, static_part(v)) for k, v in cast(dict[object, object], value).items())
    if isinstance(value, SimpleNamespace):
        return static_part(vars(value))
    if isinstance(value, Vector):
        return value.dtype, value.shape
    if isinstance(value, StructValue):
        return type(value), *(static_part(v) for v in vars(value).values())
    if isinstance(value, (ThrCopy, ThrMma)):
        return type(value), value.type, static_part(value.thr_idx)
    kind = cast(object, type(value))
    if not kind.__module__.startswith("flydsl."):
        return _constant_part(value)
    return kind, getattr(value, "declared_dtype", None) or getattr(value, "type", None)


def _identity(identity: object, arguments: dict[str, object], flat: dict[str, list[SSAValue]], block: object) -> object:
    """What makes two launches of a settled kernel share a device function; None if that cannot be told."""
    if ambient_flags.get() is not None or tracing_options():
        return None
    try:
        types = tuple((k, tuple(v.type for v in vs), static_part(arguments[k])) for k, vs in flat.items() if vs)
        rest = tuple((k, _constant_part(v)) for k, v in arguments.items() if not flat.get(k))
        key = (identity, types, rest, block)
        hash(key)
    except TypeError:
        return None
    return key


def _constant_part(value: object) -> object:
    """A constant of ours, or a plain one; `TypeError` for others, which may change in place or call others equal."""
    kind = cast(object, type(value))
    if kind.__module__.startswith("flydsl.") and not kind.__module__.startswith("flydsl.kernels."):
        return kind, value
    return kind, constexpr_key(value)


def shared_bytes(kernel: str, inferred: int, smem: object) -> object:
    """Dynamic shared memory of a launch: what the kernel allocates, or more if the launch asks for more."""
    if smem is None:
        return inferred or None
    size = as_numeric(smem)
    if not isinstance(size, Integer):
        raise DSLTypeError(f"launch of {kernel}: smem is a number of bytes, got {smem!r}")
    if not inferred:
        return smem
    if not size.is_static():
        return arith_max(Int32(size), inferred)
    if int(size) < inferred:
        raise DSLValueError(
            f"launch of {kernel}: smem={int(size)} is less than the {inferred} bytes its SharedAllocator hands out; "
            "leave smem out to have it inferred"
        )
    return smem


# --- launch geometry ----------------------------------------------------------------------------------------------


def dimensions(what: str, value: object) -> list[object]:
    """Three extents from an int, a scalar, or a sequence of one to three of them."""
    if isinstance(value, IntTuple):
        value = value.unpack()
    parts: list[object] = list(cast(Sequence[object], value)) if isinstance(value, (tuple, list)) else [value]
    if not 1 <= len(parts) <= 3:
        raise DSLValueError(f"{what} takes one to three extents, got {len(parts)}")
    found = [_extent(what, p) for p in parts]
    return [*found, *[1] * (3 - len(found))]


def _extent(what: str, value: object) -> object:
    if isinstance(value, IntTuple):
        value = value.unpack()
    if isinstance(value, (bool, float, str)) or value is None or callable(value):
        hint = "; divide with // or fx.ceildiv" if isinstance(value, float) else ""
        if callable(value):
            name = getattr(value, "__qualname__", type(value).__name__)
            raise DSLTypeError(f"{what} takes integers, got the function {name}; compute it in the jit function")
        raise DSLTypeError(f"{what} takes integers, got {value!r}{hint}")
    if isinstance(value, AlgebraValue):
        raise DSLTypeError(f"{what} takes integers, got {value}")
    number = value if isinstance(value, int) else as_numeric(value)
    if isinstance(number, Numeric):
        if not isinstance(number, Integer):
            raise DSLTypeError(f"{what} takes integers, got a {type(number)}")
        if number.is_static():
            number = int(number)
    if isinstance(number, int):
        check_extent(what, number)
    return number


def as_index(tracer: Tracer, value: Any) -> SSAValue:
    """An extent as an index value."""
    if isinstance(value, int):
        return tracer.const(value, index)
    ir = value.ir_value()
    if not value.signed and value.width < 64:
        ir = tracer.cast("extui", ir, _i64())
    return ir if ir.type == index else tracer.cast("index_cast", ir, index)


def _i64() -> Attribute:
    from xdsl.dialects.builtin import i64

    return i64


def emit_launch(
    tracer: Tracer,
    symbol: str,
    grid: Sequence[object],
    block: Sequence[object],
    smem: object,
    stream: object,
    cluster: Sequence[object] | None,
    values: Sequence[SSAValue],
    attributes: Sequence[str] = (),
    side_buffers: Attribute | None = None,
) -> None:
    """`gpu.launch_func`, with these launch attributes switched on."""
    deps: list[SSAValue] = []
    if stream is not None:
        if not isinstance(stream, Stream):
            raise DSLTypeError(f"launch: stream must be the jit function's fx.Stream parameter, got {stream!r}")
        if stream.raw is not None or stream._ir is not None:  # pyright: ignore[reportPrivateUsage]
            deps.append(stream.ir_value())
    dims = [as_index(tracer, d) for d in (*grid, *block, *(cluster or ()))]
    shared: list[SSAValue] = []
    if smem is not None:
        size = as_numeric(smem)
        shared.append(tracer.const(int(size), i32) if size.is_static() else size.ir_value())
    launch = tracer.opn(
        gpu.LaunchFuncOp,
        [*deps, *dims, *shared, *values],
        [x.type for x in deps],  # a launch that depends on a stream gives its token on
        {
            "kernel": SymbolRefAttr(KERNELS, [symbol]),
            "operandSegmentSizes": gpu.LaunchFuncOp.segments(len(deps), bool(cluster), bool(shared), len(values)),
        },
    )
    for name in attributes:
        launch.attributes[name] = UnitAttr()
    if side_buffers is not None:
        launch.attributes[SIDE_BUFFERS_ATTRIBUTE] = side_buffers
