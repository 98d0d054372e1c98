"""What to write instead, for errors that Python or another library raised about values of a kernel.

Such an error knows nothing of the language. What was called, and with what, is read off the user's line: the span of
the instruction that failed is an expression, and the frame has the values of its names.
"""

from __future__ import annotations

import ast
import builtins
import linecache
from types import FrameType, ModuleType, TracebackType

from ...errors import DSLRuntimeError, FlyDSLError, RejectedSyntaxError
from ...expr.utils.suggestions import WORDS, suggest

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
    if isinstance(error, NameError):
        name = error.name
        if not name or f"'{name}' is not defined" not in str(error):
            return None
        import flydsl.expr as fx

        found = suggest(name, dir(fx))
        return found and f"did you mean {found}?"
    if isinstance(error, AttributeError) and error.name in _ATTRIBUTES and _is_ours(error.obj):
        return f"write {_ATTRIBUTES[error.name]}"
    # What we raise ourselves says what to do, except that a value exists only at run time: Python asked for it.
    if isinstance(error, DSLRuntimeError if isinstance(error, FlyDSLError) else (TypeError, ValueError)):
        return _of_expression(error, tb)
    return None


def _is_ours(x: object) -> bool:
    return type(x).__module__.startswith("flydsl.expr")


def _of_expression(error: BaseException, tb: TracebackType) -> str | None:
    node = _failed(tb)
    frame = tb.tb_frame
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("shape", "stride"):
            return f"x.{node.func.attr} is no function; write x.{node.func.attr}[0]"
        return _of_call(_resolve(node.func, frame))
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        return "`in` is decided while tracing; compare with each: (x == a) | (x == b)"
    if isinstance(node, (ast.BinOp, ast.Compare)) and type(error) is TypeError:
        sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.left, *node.comparators]
        if any(getattr(_resolve(side, frame), "is_tensor", False) for side in sides):
            return "a tensor is an address and a layout: work on elements, x[i], or on vectors, x.load()"
    literal = isinstance(node, ast.Subscript) and isinstance(node.value, (ast.List, ast.Tuple))
    if literal or (isinstance(node, ast.Subscript) and isinstance(_resolve(node.value, frame), (list, tuple))):
        return (
            "a Python sequence is indexed while tracing; pick with cond.select(a, b), or put the values into a "
            "fragment or an array"
        )
    if isinstance(node, ast.JoinedStr):
        return "write fx.printf('{:.3f}', x): text is made when the kernel runs"
    return None


def _of_call(called: object) -> str | None:
    try:
        found = _BUILTINS.get(called)
    except TypeError:  # not hashable
        return None
    if found is not None:
        return f"{getattr(called, '__name__', called)}() is Python's and runs while tracing; write {found}"
    module = getattr(called, "__module__", None) or type(called).__module__
    name = getattr(called, "__name__", None)
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
    line, end_line, col, end_col = list(code.co_positions())[tb.tb_lasti // 2]
    if line is None or end_line is None or col is None or end_col is None:
        return None
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(line, end_line + 1)]
    lines[-1] = lines[-1][:end_col]
    lines[0] = lines[0][col:]
    try:
        return ast.parse(f"({b''.join(lines).decode()})", mode="eval").body
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


__all__ = ["remedy"]
