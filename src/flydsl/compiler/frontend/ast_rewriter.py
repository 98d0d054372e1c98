"""From a decorated function to one that can be traced: `rewrite_function`.

The source is read and rewritten once, at decoration. The result is a function like the original (globals, closure
cells, defaults, annotations, names, line and column numbers) whose run-time control flow calls `expr.control_flow`.
"""

from __future__ import annotations

import ast
import difflib
import sys
import threading
import time
from itertools import repeat
from types import CellType, CodeType, FunctionType
from typing import Any, cast

from ... import config
from ...expr.control import control_flow
from ...ir.user_code import REGION_MARK
from ..key.changes import unrecorded
from ..logs import tell
from .rewrite.source import FUTURE, FunctionSource, parse_definition, read_source, reject, rewriting
from .rewrite.transform import ARM, ERROR, RUNTIME, Rewriter, load, runtime

_FACTORY, _HOLDER, _FUNCTION = "__fly_factory__", "__fly_holder__", "__fly_function__"


class _Building(threading.local):
    """How long this thread has spent compiling rewritten functions, which happens in the middle of tracing."""

    seconds = 0.0


building = _Building()


class RewrittenFunction:
    """A function as its author wrote it and as it is traced."""

    __slots__ = ("_built", "filename", "first_line", "original", "source", "tree")

    def __init__(self, original: FunctionType, source: FunctionSource, tree: ast.FunctionDef):
        self.original = original
        """The function before rewriting; what it depends on is read off its code."""
        self.source = source.text
        """The text of the definition, decorators included, as it was when the function was decorated."""
        self.filename = source.filename
        self.first_line = source.first_line
        self.tree = tree
        """The rewritten definition."""
        self._built: FunctionType | None = None

    @property
    def function(self) -> FunctionType:
        """The function to call while tracing. Compiled when first asked for: a launch from the cache never asks."""
        if self._built is None:
            start = time.perf_counter()
            self._built = _build(self.original, self.tree, self.filename)
            building.seconds += time.perf_counter() - start
        built, original = self._built, self.original
        if built.__defaults__ is not original.__defaults__ or built.__kwdefaults__ is not original.__kwdefaults__:
            built.__defaults__, built.__kwdefaults__ = original.__defaults__, original.__kwdefaults__
        return built

    @property
    def before(self) -> str:
        """The definition as `ast.unparse` writes it, without its decorators."""
        tree = parse_definition(self.source)
        tree.decorator_list = []
        return ast.unparse(tree)

    @property
    def after(self) -> str:
        """The rewritten definition as text."""
        return ast.unparse(ast.fix_missing_locations(self.tree))

    def diff(self) -> str:
        """What rewriting changed, as a unified diff."""
        name = self.original.__qualname__
        lines = difflib.unified_diff(
            self.before.splitlines(), self.after.splitlines(), f"{name} (source)", f"{name} (rewritten)", lineterm=""
        )
        return "\n".join(lines)


def rewrite_function(fn: FunctionType) -> RewrittenFunction:
    """Rewrite a function so that calling it under a tracer emits its run-time control flow.

    Raises `DSLSyntaxError` for constructs that cannot be traced, `SourceUnavailableError` without source.
    """
    with unrecorded():  # it counts by itself
        source = read_source(fn)
    node = source.node
    with rewriting(source.filename):
        if "breakpoint" in source.text and "breakpoint" not in fn.__globals__:
            _Breakpoints(source.filename).visit(node)
        rewriter = Rewriter(_owner(fn.__qualname__))
        if isinstance(node, ast.AsyncFunctionDef):
            rewriter.visit(node)
        tree = cast(ast.FunctionDef, node)
        tree.decorator_list = []
        try:
            rewriter.function(tree)
            too_deep = False
        except RecursionError:
            too_deep = True  # told outside, without the frames that led there
        if too_deep:
            reject(
                tree,
                "the function is nested too deeply to be rewritten",
                "write expressions of hundreds of operators as several statements",
            )
        _explain_names(tree, rewriter.only_inside)
    made = RewrittenFunction(fn, source, tree)
    if config.debug.ast_diff:
        tell(f"{made.diff() or f'{fn.__qualname__}: nothing to rewrite'}\n{made.after}")
    return made


def ast_diff(fn: FunctionType) -> str:
    """Unified diff between a function's source and its rewritten form, both as `ast.unparse` writes them."""
    return rewrite_function(fn).diff()


class _Breakpoints(ast.NodeTransformer):
    """Let `breakpoint()` stop the kernel that runs, where it can, and not its tracing."""

    def __init__(self, filename: str):
        self.filename = filename

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id == "breakpoint"):
            return node
        end = node.end_lineno or node.lineno, node.end_col_offset or 0
        where = ast.Constant(cast(Any, (self.filename, node.lineno, node.col_offset, *end)))
        return runtime("stop_here", [where], node)


def _explain_names(tree: ast.FunctionDef, only_inside: dict[str, tuple[str, int]]) -> None:
    """Let a `NameError` about a variable of a region say where the variable lives."""
    if not only_inside:
        return
    table = ast.Constant(cast(Any, tuple((n, what, line) for n, (what, line) in sorted(only_inside.items()))))
    first = tree.body[0]
    at = 1 if ast.get_docstring(tree, clean=False) is not None and len(tree.body) > 1 else 0
    explain: ast.stmt = ast.Expr(runtime("explain_name", [load(ERROR), table], first))
    handler = ast.ExceptHandler(load("NameError"), ERROR, [explain, ast.Raise()])
    guarded = ast.copy_location(ast.Try(tree.body[at:], [handler], [], []), first)
    tree.body[at:] = [guarded]


def _owner(qualname: str) -> str | None:
    """Name of the innermost class a function is written in: private names are mangled with it."""
    parts = qualname.split(".")
    for i in range(len(parts) - 2, -1, -1):
        if parts[i] != "<locals>" and parts[i + 1] != "<locals>":
            return parts[i]
    return None


def _bare_arguments(arguments: ast.arguments) -> ast.arguments:
    """The parameters without defaults and annotations."""

    def bare(arg: ast.arg) -> ast.arg:
        return ast.copy_location(ast.arg(arg.arg), arg)

    return ast.arguments(
        [bare(a) for a in arguments.posonlyargs],
        [bare(a) for a in arguments.args],
        bare(arguments.vararg) if arguments.vararg else None,
        [bare(a) for a in arguments.kwonlyargs],
        [None] * len(arguments.kwonlyargs),
        bare(arguments.kwarg) if arguments.kwarg else None,
        [],
    )


_PLACE = ("lineno", "col_offset", "end_lineno", "end_col_offset")
_PLAIN = frozenset(
    ("ctx", "op", "ops", "id", "attr", "arg", "kind", "type_comment", "conversion", "is_async", "simple", "level")
)
"""Fields of nodes in which nothing has a place: texts, numbers, and nodes such as `Load` and `Add`."""
_inner: dict[type, tuple[str, ...]] = {ast.Constant: ()}
"""The other fields, by class."""


def _fill_locations(root: ast.AST, place: dict[str, object]) -> None:
    """`ast.fix_missing_locations` in a fraction of its time: a node without a place gets that of its parent.

    `place` are the fields of the nearest node above that has one.
    """
    todo: list[tuple[Any, dict[str, Any]]] = [(root, place)]
    while todo:
        node, place = todo.pop()
        names = _inner.get(type(node))  # pyright: ignore[reportUnknownArgumentType]
        if names is None:
            if not isinstance(node, ast.AST):  # the name of a function, an argument without a default
                continue
            names = _inner[type(node)] = tuple(name for name in node._fields if name not in _PLAIN)
        fields = node.__dict__
        if "lineno" in fields:
            place = fields
            if fields.get("end_lineno") is None or fields.get("end_col_offset") is None:
                fields["end_lineno"] = fields.get("end_lineno") or fields["lineno"]
                if fields.get("end_col_offset") is None:
                    fields["end_col_offset"] = fields["col_offset"]
        elif "lineno" in node._attributes:
            for name in _PLACE:
                fields[name] = place[name]
        for name in names:
            value = fields.get(name)
            if type(value) is list:
                todo += zip(value, repeat(place))  # pyright: ignore[reportUnknownArgumentType]
            # Half of all nodes are names that the source has: they have a place, and nothing in them needs one.
            elif value is not None and not (type(value) is ast.Name and "end_col_offset" in value.__dict__):
                todo.append((value, place))


def _build(fn: FunctionType, tree: ast.FunctionDef, filename: str) -> FunctionType:
    """Compile a definition so that its free variables can be the cells of the original function.

    The definition stands in a factory that has them as parameters. The factory never runs: only the code object inside
    is wanted. For the same reason defaults and annotations can be left out.
    """
    bare = ast.FunctionDef(**{name: getattr(tree, name) for name in tree._fields if hasattr(tree, name)})
    ast.copy_location(bare, tree)
    bare.args, bare.returns = _bare_arguments(tree.args), None
    if sys.version_info >= (3, 12):
        bare.type_params = []

    # None of the names here may be one that the user's code looks up: class bodies are no scope for what is in them.
    bare.name = _FUNCTION
    path = [_FACTORY, _FUNCTION]
    body: list[ast.stmt] = [bare]
    owner = _owner(fn.__qualname__)
    if owner is not None:
        path[1:1] = [_HOLDER, owner]
        for name in (owner, _HOLDER):
            body = [ast.ClassDef(name, [], [], body, [])]
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    cells[RUNTIME] = CellType(control_flow)
    free = [name for name in cells if owner is None or name != "__class__"]
    factory = ast.FunctionDef(
        _FACTORY, ast.arguments([], [ast.arg(name) for name in free], None, [], [], None, []), body, [], None
    )
    module = ast.Module([ast.copy_location(factory, tree)], [])
    if sys.version_info >= (3, 12):
        for node in ast.walk(module):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not hasattr(node, "type_params"):
                node.type_params = []
    _fill_locations(module, tree.__dict__)

    flags = fn.__code__.co_flags & FUTURE
    code = cast(CodeType, compile(module, filename, "exec", flags, dont_inherit=True))
    for name in path:
        code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
    code = _named(code, fn.__code__.co_name, fn.__qualname__, fn.__qualname__ + ".<locals>.")
    code = _codes.setdefault((filename, fn.__qualname__, code), code)

    made = FunctionType(
        code, fn.__globals__, fn.__name__, fn.__defaults__, tuple(cells[name] for name in code.co_freevars)
    )
    made.__kwdefaults__ = cast(Any, fn.__kwdefaults__)
    made.__qualname__, made.__module__, made.__doc__ = fn.__qualname__, fn.__module__, fn.__doc__
    made.__dict__.update(fn.__dict__)
    if hasattr(fn, "__annotate__"):  # Python 3.14: not evaluated before someone asks
        cast(Any, made).__annotate__ = cast(Any, fn).__annotate__
    else:
        made.__annotations__ = fn.__annotations__
    return made


_codes: dict[tuple[str, str, CodeType], CodeType] = {}
"""Code that was built before: a function that is defined again and again, in a factory of kernels, has one. What is
remembered of code by its identity, such as locations, then does not grow."""

_OPTIMIZED = 1  # inspect.CO_OPTIMIZED: set for functions, not for class bodies


def _named(code: CodeType, name: str, qualname: str, prefix: str) -> CodeType:
    """A code object under the names it has in the user's source, recursively."""
    consts: list[object] = []
    for const in code.co_consts:
        if isinstance(const, CodeType):
            ours = const.co_name.startswith("__fly_") or const.co_varnames[:1] == (ARM,)
            if ours:
                const = _named(const, name, prefix.removesuffix(".<locals>.") + REGION_MARK, prefix)
            else:
                inner = prefix + const.co_name
                nested = inner + (".<locals>." if const.co_flags & _OPTIMIZED else ".")
                const = _named(const, const.co_name, inner, nested)
        elif isinstance(const, str) and const == code.co_qualname and not code.co_flags & _OPTIMIZED:
            const = qualname  # a class body stores its __qualname__ from a constant
        consts.append(const)
    return code.replace(co_name=name, co_qualname=qualname, co_consts=tuple(consts))
