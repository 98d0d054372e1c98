"""Which expressions are run-time values wherever the function is traced, as far as the source alone tells.

A `return`, `break` or `continue` under an `if` is plain Python where the condition is known while tracing, and cannot
be traced where it is not. Most conditions are only known to the trace; those that come from a thread's number, an
element of a tensor or the variable of a run-time loop can be refused when the function is decorated.
"""

from __future__ import annotations

import ast
import re

from .names import called_name

_IDS = ("thread_idx", "block_idx")
_MEMORY = ("Tensor", "Pointer")
_SCALARS = re.compile(r"(Int|Uint|Float|BFloat|Index|Boolean)\d*")


class Certain:
    """The names of one function that hold run-time values for certain."""

    def __init__(self, node: ast.FunctionDef | ast.AsyncFunctionDef):
        args = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        self.memory = {a.arg for a in args if a.annotation is not None and _last(a.annotation) in _MEMORY}
        found: dict[str, list[ast.expr | None]] = {}
        for inner in ast.walk(node):
            match inner:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    found.setdefault(name, []).append(value)
                case ast.For(target=ast.Name(id=name), iter=iterable):
                    # A variable is only certain if nothing else is ever assigned to it.
                    runs = called_name(iterable) == "range"
                    found.setdefault(name, []).append(iterable if runs else None)
                case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                    found.setdefault(name, [])
                case _:
                    pass
        stores: dict[str, int] = {}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
                stores[inner.id] = stores.get(inner.id, 0) + 1
        self.names: set[str] = set()
        known = {a.arg for a in args}
        for name, values in found.items():
            if name not in known and len(values) == stores.get(name) and all(self._assigned(v) for v in values):
                self.names.add(name)

    def _assigned(self, value: ast.expr | None) -> bool:
        if value is None:
            return False
        return called_name(value) == "range" or self.holds(value)

    def holds(self, node: ast.expr) -> bool:
        """Whether an expression is a run-time value for certain."""
        match node:
            case ast.Name(id=name):
                return name in self.names
            case ast.Attribute(value=ast.Name(id=base) | ast.Attribute(attr=base)):
                return base in _IDS
            case ast.Subscript(value=ast.Name(id=base), slice=index):
                return base in self.memory and not _selects(index)
            case ast.Compare(left=left, ops=ops, comparators=[right]):
                plain = not isinstance(ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn))
                return plain and (self.holds(left) or self.holds(right))
            case ast.BoolOp(values=values):
                return self.holds(values[0])
            case ast.BinOp(left=left, right=right):
                return self.holds(left) or self.holds(right)
            case ast.UnaryOp(operand=operand):
                return self.holds(operand)
            case ast.Call(args=[first]) if _SCALARS.fullmatch(called_name(node) or ""):
                return self.holds(first)
            case ast.Call():
                return called_name(node) == "lane_id"
            case _:
                return False


def _last(annotation: ast.expr) -> str:
    """The last word of `fx.Tensor`, also where it is a string."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.rsplit(".", 1)[-1]
    return getattr(annotation, "attr", None) or getattr(annotation, "id", "")


def _selects(index: ast.expr) -> bool:
    """Whether a coordinate keeps modes, so that the result is a view."""
    return any(isinstance(n, ast.Constant) and n.value is None for n in ast.walk(index)) or any(
        isinstance(n, ast.Slice) for n in ast.walk(index)
    )
