"""What to write instead, for errors that Python or another library raised about values of a kernel.

Such an error knows nothing of the language. What was called, and with what, is read off the user's line: the span of
the instruction that failed is an expression, and the frame has the values of its names.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import opcode
import re
from difflib import get_close_matches
from types import FrameType, ModuleType, TracebackType

from ...errors import DSLRuntimeError, FlyDSLError, RejectedSyntaxError
from ...expr.control import regions
from ...expr.utils.suggestions import WORDS, bare, suggest

_BUILTINS: dict[object, str] = {
    max: "fx.max(a, b)",
    min: "fx.min(a, b)",
    round: "fx.roundeven(x), as Python rounds, or fx.round(x)",
    int: "fx.Int32(x)",
    float: "fx.Float32(x)",
    bool: "x != 0",
    any: "a | b, or `a or b` inside a @flyc.kernel function",
    all: "a & b, or `a and b` inside a @flyc.kernel function",
    print: "fx.printf('{}', x)",
    str: "fx.printf('{}', x)",
    format: "fx.printf('{:.3f}', x)",
    range: "for i in range(...) as the head of a loop inside a @flyc.kernel function",
    isinstance: "x.dtype",
    sorted: "fx.min(a, b) and fx.max(a, b) for two, or a collective of fx.coop",
}
_ATTRIBUTES = {
    "size": "fx.size(x) for all elements, x.shape[i] for one extent",
    "dim": "x.rank",
    "strides": "x.stride, in elements",
    "reshape": "fx.make_view(fx.get_iter(x), fx.make_layout(shape, stride))",
    "view": "fx.make_view(fx.get_iter(x), layout), or fx.recast_iter for another type",
    "flatten": "fx.make_view(fx.get_iter(x), fx.coalesce(x.layout))",
    "ravel": "fx.make_view(fx.get_iter(x), fx.coalesce(x.layout))",
    "transpose": "x.T, or fx.make_view(fx.get_iter(x), fx.select(x.layout, [1, 0]))",
    "permute": "fx.make_view(fx.get_iter(x), fx.select(x.layout, [1, 0]))",
    "sum": "a loop over the elements, x.load().reduce(...) in registers, fx.coop.BlockReduce in a block",
    "mean": "a loop over the elements, x.load().reduce(...) in registers, fx.coop.BlockReduce in a block",
    "max": "a loop over the elements, x.load().reduce(...) in registers, fx.coop.BlockReduce in a block",
    "min": "a loop over the elements, x.load().reduce(...) in registers, fx.coop.BlockReduce in a block",
    "item": "the value itself: x[i] is a scalar already",
    "tolist": "fx.printf('{}', x[i]): values exist only at run time",
    "numpy": "fx.printf('{}', x[i]): values exist only at run time",
    "cpu": "fx.printf('{}', x[i]): values exist only at run time",
    "copy": "fx.copy(atom, source, destination)",
    "data_ptr": "fx.get_iter(x), the pointer to its first element",
    "contiguous": "x as it is: a tensor is its layout, with any strides",
    "zero_": "x[i] = 0 for each element; x.fill(0) where the shape is static",
    "fill_": "x[i] = value for each element; x.fill(value) where the shape is static",
    "clone": "fx.make_fragment_like(x) and fx.copy(atom, x, fragment)",
    "astype": "x.to(fx.Float32)",
    "float": "x.to(fx.Float32)",
    "half": "x.to(fx.Float16)",
    "int": "x.to(fx.Int32)",
    "device": "fx.target(), which says what is compiled for",
}
"""Habits of numpy and torch."""


def remedy(error: BaseException, tb: TracebackType | None) -> str | None:
    """What to write instead, for an error that a line of the user raised; None where nothing is known."""
    if isinstance(error, RejectedSyntaxError) or tb is None:
        return None
    if _line(tb).startswith("raise") and tb.tb_next is None:
        return _of_raise(error)
    if isinstance(error, NameError):
        return _of_name(error, tb.tb_frame)
    if isinstance(error, AttributeError) and error.name in _ATTRIBUTES and _is_ours(error.obj):
        return f"write {_ATTRIBUTES[error.name]}"
    # What we raise ourselves says what to do, except that a value exists only at run time: Python asked for it.
    if isinstance(error, DSLRuntimeError if isinstance(error, FlyDSLError) else (TypeError, ValueError, LookupError)):
        return _of_expression(error, tb)
    return None


def _is_ours(x: object) -> bool:
    return type(x).__module__.startswith("flydsl.expr")


def _line(tb: TracebackType) -> str:
    return linecache.getline(tb.tb_frame.f_code.co_filename, tb.tb_lineno).strip()


def _of_raise(error: BaseException) -> str | None:
    """A `raise` of the user's that stands in a run-time region: it happens while tracing, whatever the values."""
    tb = error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == regions.__file__:
            return (
                "this raise is under a run-time condition or in a run-time loop, whose body is traced whatever the "
                "values are; check on the host, print with fx.printf, or decide while tracing with fx.const_expr(...)"
            )
        tb = tb.tb_next
    return None


def _of_name(error: NameError, frame: FrameType) -> str | None:
    name = error.name
    if not name or f"'{name}' is not defined" not in str(error):
        return None
    import flydsl.expr as fx

    # A word of another language, then the author's own names, then names of the language that look alike.
    mine = [n for n in {**frame.f_globals, **frame.f_locals} if not n.startswith("__")]
    close = get_close_matches(name, mine, 1, 0.75)
    found = suggest(name, dir(fx), close=not close) or (close[0] if close else None)
    return found and f"did you mean {found}?"


_NO_PARTS = re.compile(r"'Tuple3D' object is not (?:callable|subscriptable)$")


def _of_expression(error: BaseException, tb: TracebackType) -> str | None:
    node = _failed(tb)
    frame = tb.tb_frame
    if _NO_PARTS.match(str(error)) and isinstance(node, (ast.Call, ast.Subscript)):
        return f"write {ast.unparse(node.func if isinstance(node, ast.Call) else node.value)}.x, .y or .z"
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("shape", "stride"):
            return f"x.{node.func.attr} is no function; write x.{node.func.attr}[0]"
        return _of_parameters(error, node.func, frame) or _of_call(_resolve(node.func, frame))
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        return "`in` is decided while tracing; compare with each: (x == a) | (x == b)"
    if isinstance(error, DSLRuntimeError) and _line(tb).startswith("assert"):
        return "assert is Python's and runs while tracing; print with fx.printf, or run in checked mode"
    if isinstance(error, DSLRuntimeError) and _line(tb).startswith(("match ", "case ")):
        return "match is Python's and is decided while tracing; write if and elif"
    if isinstance(node, (ast.BinOp, ast.Compare)) and type(error) is TypeError:
        sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.left, *node.comparators]
        views = [side.value if isinstance(side, ast.Subscript) and "'Tensor'" in str(error) else side for side in sides]
        if any(getattr(_resolve(side, frame), "is_tensor", False) for side in views):
            return "a tensor is an address and a layout: work on elements, x[i], or on vectors, x.load()"
    if isinstance(node, ast.Subscript):
        return _of_subscript(error, node, frame)
    if isinstance(node, ast.JoinedStr):
        return "write fx.printf('{:.3f}', x): text is made when the kernel runs"
    return None


_PEEK = "this is a place in memory; write .peek() behind it to work with its elements"
_NO_ITEMS = re.compile(r"'(.+)' object (?:is not subscriptable|does not support item assignment)$")


def _of_subscript(error: BaseException, node: ast.Subscript, frame: FrameType) -> str | None:
    """Something that has no elements here, or has them only while tracing."""
    without = _NO_ITEMS.match(str(error))
    if without is not None:
        if without[1].startswith("Storage["):
            return _PEEK
        import flydsl.expr as fx

        if isinstance(getattr(fx, without[1], None), type):
            return "this is one number, not a row of them; all indices go into one bracket: x[i, j]"
        return None
    base = _resolve(node.value, frame)
    if type(base).__name__.startswith("Storage[") and _is_ours(base):
        return _PEEK
    library = type(base).__module__.partition(".")[0]
    if library in ("numpy", "torch") and ("only integers, slices" in str(error) or isinstance(error, DSLRuntimeError)):
        return (
            f"an array of {library} that is no argument is indexed while tracing; pass it to the kernel, as a "
            "parameter annotated with fx.Tensor"
        )
    if isinstance(error, KeyError) and error.args and _is_ours(error.args[0]):
        return "a dict is looked up while tracing; pick with cond.select(a, b), or put the values into a tensor"
    literal = isinstance(node.value, (ast.List, ast.Tuple))
    if not isinstance(error, LookupError) and (literal or isinstance(base, (list, tuple))):
        return (
            "a Python sequence is indexed while tracing; pick with cond.select(a, b), or put the values into a "
            "fragment or an array"
        )
    return None


_LAUNCH = {
    "threads": "block", "numthreads": "block", "threadsperblock": "block", "blockdim": "block", "blocksize": "block",
    "workgroupsize": "block", "numwarps": "block", "numblocks": "grid", "blockspergrid": "grid", "griddim": "grid",
    "shared": "smem", "sharedmem": "smem", "sharedmemory": "smem", "clusterdim": "cluster",
}  # fmt: skip
"""Parts of a launch in the words of CUDA, HIP, OpenCL, CuPy, Numba and Triton."""
_BAD_CALL = re.compile(
    r"([\w.]+)\(\) (got an unexpected keyword argument '(\w+)'|takes .* were given|missing .* argument)"
)


def _of_parameters(error: BaseException, func: ast.expr, frame: FrameType) -> str | None:
    """A call of one of our functions with other parameters than it has: those it has, and the one that was meant."""
    found = _BAD_CALL.match(str(error))
    if found is None:
        return None
    from ..kernel_function import KernelLauncher

    called = _resolve(func, frame) or _by_name(found[1], KernelLauncher)
    if not callable(called) or not getattr(called, "__module__", "").startswith("flydsl."):
        return None
    try:
        names = [n for n in inspect.signature(called).parameters if n != "self"]
    except ValueError:
        return None
    close = get_close_matches(found[3], names, 1) if found[3] else []
    if called is KernelLauncher.launch and found[3] and bare(found[3]) in _LAUNCH:
        close = [_LAUNCH[bare(found[3])]]
    if close:
        return f"did you mean {close[0]}=?"
    example = "; write .launch(grid=..., block=...)" if called is KernelLauncher.launch else ""
    return f"its parameters are {', '.join(names)}{example}"


def _by_name(name: str, launcher: type) -> object:
    """The method that an error of Python names: of a launch, of a class of the language or of its collectives."""
    import flydsl.expr as fx

    owner, _, method = name.rpartition(".")
    for place in (fx, fx.coop):
        if owner and hasattr(place, owner):
            return getattr(getattr(place, owner), method, None)
    return getattr(launcher, method, None) if owner == launcher.__name__ else None


def _of_call(called: object) -> str | None:
    try:
        found = _BUILTINS.get(called)
    except TypeError:  # not hashable
        return None
    if found is not None:
        return f"{getattr(called, '__name__', called)}() is Python's and runs while tracing; write {found}"
    module = getattr(called, "__module__", None) or type(called).__module__
    name = getattr(called, "__name__", None)
    if name == "range_constexpr" and module.startswith("flydsl."):
        return "write range(n) for a loop at run time; one that is unrolled needs a compile-time number"
    if not isinstance(name, str) or module.partition(".")[0] not in ("math", "cmath", "numpy", "torch"):
        return None
    from ...expr import math as ours

    written = f"fx.{name}(x)" if name in ours.__all__ else WORDS.get(name)
    library = module.partition(".")[0]
    if written is None:
        return f"functions of {library} run while tracing; help(fx.math) lists those for values of a kernel"
    return f"{library}.{name} runs while tracing; write {written}"


def _failed(tb: TracebackType) -> ast.expr | None:
    """The expression whose instruction failed."""
    code = tb.tb_frame.f_code
    if opcode.opname[code.co_code[tb.tb_lasti]].startswith("FORMAT_"):
        return ast.JoinedStr([])  # from Python 3.12 on its place is that of {...} in it
    line, end_line, col, end_col = list(code.co_positions())[tb.tb_lasti // 2]
    if line is None or end_line is None or col is None or end_col is None:
        return None
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(line, end_line + 1)]
    lines[-1] = lines[-1][:end_col]
    lines[0] = lines[0][col:]
    try:
        (node,) = ast.parse(b"".join(lines).decode().strip()).body
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return _parsed(b"".join(lines))
    if isinstance(node, ast.AugAssign):
        return ast.BinOp(node.target, node.op, node.value)
    return _parsed(b"".join(lines))


def _parsed(text: bytes) -> ast.expr | None:
    try:
        return ast.parse(f"({text.decode()})", mode="eval").body
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return None


def _resolve(node: ast.expr, frame: FrameType) -> object:
    """What a name, or a name in a module, stands for in a frame; None for any other expression."""
    if isinstance(node, ast.Attribute):
        base = _resolve(node.value, frame)
        return getattr(base, node.attr, None) if isinstance(base, (ModuleType, type)) else None
    if not isinstance(node, ast.Name):
        return None
    for names in (frame.f_locals, frame.f_globals, vars(builtins)):
        if node.id in names:
            return names[node.id]
    return None
