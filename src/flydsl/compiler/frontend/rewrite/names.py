"""Which names a piece of source binds, changes and mentions: what decides the carried names of a region.

One pass over a function computes a `Summary` of every statement in it, before anything is rewritten; a region asks for
the summaries of its bodies. Only `ast` is looked at. Kinds of change are ordered: a name that is assigned and also the
receiver of a call counts as assigned.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from ....expr.control.control_flow import ASSIGNED, DEEP, RECEIVED, STORED

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class _Noted(Protocol):
    """What is kept at a node, so that it is looked at once."""

    fly_summary: Summary
    fly_inside: Summary


@dataclass(slots=True)
class Summary:
    """What statements do with names, in their own scope unless said otherwise."""

    mentions: dict[str, int] = field(default_factory=dict[str, int])
    """How often each name is spelled, nested functions included."""
    effects: dict[str, int] = field(default_factory=dict[str, int])
    """Names that may be changed, by the strongest kind; nested functions count for the names they do not own."""
    bound: set[str] = field(default_factory=set[str])
    walrus: set[str] = field(default_factory=set[str])
    """Those bound by `:=`, which reaches out of comprehensions."""
    outside: set[str] = field(default_factory=set[str])
    """Names bound in no region."""
    regions: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    """Names bound in a region, with the keyword and line of the first one."""
    globals: set[str] = field(default_factory=set[str])
    nonlocals: set[str] = field(default_factory=set[str])
    functions: list[tuple[str, FunctionNode]] = field(default_factory=list[tuple[str, FunctionNode]])
    """Functions with a name, at any depth."""

    def mention(self, name: str) -> None:
        self.mentions[name] = self.mentions.get(name, 0) + 1

    def bind(self, name: str) -> None:
        self.mention(name)
        self.effects[name] = ASSIGNED
        self.bound.add(name)
        self.outside.add(name)

    def add(self, other: Summary) -> None:
        """Take over all of another summary."""
        self.add_nested(other, ())
        self.bound |= other.bound
        self.walrus |= other.walrus
        self.outside |= other.outside
        self.globals |= other.globals
        self.nonlocals |= other.nonlocals
        for name, where in other.regions.items():
            self.regions.setdefault(name, where)

    def add_nested(self, other: Summary, own: Iterable[str]) -> None:
        """Take over what a nested scope with names of its own does to this one."""
        mentions = self.mentions
        for name, count in other.mentions.items():
            mentions[name] = mentions.get(name, 0) + count
        merge(self.effects, other.effects, own)
        self.functions += other.functions


def merge(into: dict[str, int], more: dict[str, int], but: Iterable[str] = ()) -> bool:
    """Add names, keeping the strongest kind; whether anything changed."""
    changed = False
    for name, kind in more.items():
        if into.get(name, -1) < kind and name not in but:
            into[name], changed = kind, True
    return changed


# --- recognised calls -----------------------------------------------------------------------------------------------


def called_name(node: ast.AST) -> str | None:
    """`range` of `range(...)` and of `fx.range(...)`."""
    if type(node) is not ast.Call:
        return None
    callee = node.func
    return callee.id if type(callee) is ast.Name else callee.attr if type(callee) is ast.Attribute else None


def is_const(test: ast.expr) -> bool:
    """Whether a test is one `const_expr(...)` call."""
    return called_name(test) == "const_expr"


def yields(stmt: ast.stmt) -> bool:
    """`results = yield ...` or `yield ...`."""
    return isinstance(stmt, (ast.Assign, ast.Expr)) and isinstance(stmt.value, ast.Yield)


def region_heads(stmt: ast.stmt) -> tuple[str, list[ast.AST]] | None:
    """Keyword of a statement that becomes a region, and the parts of it that stay outside; None for others."""
    if isinstance(stmt, ast.If):
        return None if is_const(stmt.test) else ("if", [stmt.test])
    if isinstance(stmt, ast.While):
        return None if is_const(stmt.test) else ("while", [])
    if isinstance(stmt, ast.For) and called_name(stmt.iter) == "range":
        last = stmt.body[-1]
        # `results` of the legacy form is assigned after the loop.
        targets = cast("list[ast.AST]", last.targets) if isinstance(last, ast.Assign) and yields(last) else []
        return "for", [stmt.iter, *targets]
    return None


# --- the pass -------------------------------------------------------------------------------------------------------


def summarise(nodes: Iterable[ast.AST]) -> Summary:
    """What nodes do together."""
    found = Summary()
    for node in nodes:
        _visit(node, found)
    return found


def _visit(node: ast.AST, into: Summary) -> None:
    if isinstance(node, ast.stmt):
        known: Summary | None = getattr(node, "fly_summary", None)
        if known is None:
            known = _statement(node)
            cast("_Noted", node).fly_summary = known
        into.add(known)
    else:
        _HANDLERS.get(type(node), _children)(node, into)


def _statement(node: ast.stmt) -> Summary:
    found = Summary()
    _HANDLERS.get(type(node), _children)(node, found)
    region = region_heads(node)
    if region is not None:
        found.outside = summarise(region[1]).outside
        found.regions = {name: (region[0], node.lineno) for name in found.bound}
    return found


def _children(node: ast.AST, into: Summary) -> None:
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            for item in cast("list[object]", value):
                if isinstance(item, ast.AST):
                    _visit(item, into)
        elif isinstance(value, ast.AST):
            _visit(value, into)


def _name(node: ast.Name, into: Summary) -> None:
    if type(node.ctx) is ast.Load:
        into.mention(node.id)
    else:
        into.bind(node.id)


def _named_expr(node: ast.NamedExpr, into: Summary) -> None:
    into.walrus.add(node.target.id)
    _children(node, into)


def _place(node: ast.Attribute | ast.Subscript, into: Summary) -> None:
    """`x.a`, `x[i]`."""
    if type(node.ctx) is not ast.Load:
        name = root_name(node)
        if name is not None:
            merge(into.effects, {name: STORED})
    _children(node, into)


def _call(node: ast.Call, into: Summary) -> None:
    if type(node.func) is ast.Attribute:
        name = root_name(node.func)
        if name is not None and name != "self":
            merge(into.effects, {name: RECEIVED if type(node.func.value) is ast.Name else DEEP})
    _children(node, into)


def root_name(node: ast.AST) -> str | None:
    """`x` of `x.a[i].b`."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _assign(node: ast.Assign, into: Summary) -> None:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as fn):
            into.functions.append((name, fn))
        case _:
            pass
    _children(node, into)


def _imports(node: ast.Import | ast.ImportFrom, into: Summary) -> None:
    for alias in node.names:
        into.bind(alias.asname or alias.name.partition(".")[0])


def _named(node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar, into: Summary) -> None:
    """`except E as name`, `case name`, `case [*name]`."""
    if node.name is not None:
        into.bind(node.name)
    _children(node, into)


def _mapping(node: ast.MatchMapping, into: Summary) -> None:
    if node.rest is not None:
        into.bind(node.rest)
    _children(node, into)


def _global(node: ast.Global, into: Summary) -> None:
    into.globals.update(node.names)
    for name in node.names:
        into.mention(name)


def _nonlocal(node: ast.Nonlocal, into: Summary) -> None:
    into.nonlocals.update(node.names)
    for name in node.names:
        into.mention(name)


def _function(node: FunctionNode, into: Summary) -> None:
    args: ast.arguments = node.args
    outside: list[ast.expr | None] = [*args.defaults, *args.kw_defaults]
    if not isinstance(node, ast.Lambda):
        into.bind(node.name)
        into.functions.append((node.name, node))
        outside += [*node.decorator_list, node.returns]
    for arg in arguments(args):
        into.mention(arg.arg)
        outside.append(arg.annotation)
    for expr in outside:
        if expr is not None:
            _visit(expr, into)
    inner = inside(node)
    into.add_nested(inner, owned_by(node, inner))


def inside(fn: FunctionNode) -> Summary:
    """Summary of a function's body."""
    known: Summary | None = getattr(fn, "fly_inside", None)
    if known is None:
        known = summarise([fn.body] if isinstance(fn, ast.Lambda) else fn.body)
        cast("_Noted", fn).fly_inside = known
    return known


def owned_by(fn: FunctionNode, inner: Summary) -> set[str]:
    """The variables of a function."""
    return ({a.arg for a in arguments(fn.args)} | inner.bound) - inner.globals - inner.nonlocals


def arguments(args: ast.arguments) -> list[ast.arg]:
    """All parameters, in order."""
    starred = [a for a in (args.vararg, args.kwarg) if a is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *starred]


def _class(node: ast.ClassDef, into: Summary) -> None:
    into.bind(node.name)
    for expr in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
        _visit(expr, into)
    inner = summarise(node.body)
    into.add_nested(inner, inner.bound)


def _comprehension(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, into: Summary) -> None:
    inner = Summary()
    _children(node, inner)
    targets = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    into.add_nested(inner, targets - inner.walrus)
    into.bound |= inner.walrus
    into.outside |= inner.walrus
    into.walrus |= inner.walrus


_HANDLERS: dict[type, Callable[[Any, Summary], None]] = {
    ast.Name: _name,
    ast.NamedExpr: _named_expr,
    ast.Attribute: _place,
    ast.Subscript: _place,
    ast.Call: _call,
    ast.Assign: _assign,
    ast.Import: _imports,
    ast.ImportFrom: _imports,
    ast.ExceptHandler: _named,
    ast.MatchAs: _named,
    ast.MatchStar: _named,
    ast.MatchMapping: _mapping,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Lambda: _function,
    ast.ClassDef: _class,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _comprehension,
    ast.GeneratorExp: _comprehension,
}


# --- scopes ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Scope:
    """The names of one function."""

    parent: Scope | None
    params: list[str]
    locals: set[str]
    summary: Summary
    functions: dict[str, dict[str, int]]
    """What calling a function defined here by name may change: its names by kind."""
    private: set[str] = field(default_factory=set[str])
    """Names that live in one region only; they are variables of the region's function."""
    lasting: set[str] = field(default_factory=set[str])
    """Names of one `if` that the next step of an unrolled loop may read: they are variables of the function."""
    regions: int = 0

    @classmethod
    def of(cls, node: FunctionNode, parent: Scope | None) -> Scope:
        summary = inside(node)
        params = [a.arg for a in arguments(node.args)]
        return cls(parent, params, owned_by(node, summary), summary, _function_effects(summary.functions))

    @property
    def only_in_regions(self) -> dict[str, tuple[str, int]]:
        """Variables that regions bind and nothing else does."""
        found = self.summary.regions.items()
        return {n: where for n, where in found if n not in self.summary.outside and n not in self.params}

    def calls(self, mentions: Set[str]) -> dict[str, int]:
        """What functions of these names may change, where they are defined in this function or in one around it."""
        found: dict[str, int] = {}
        for name in self.functions.keys() & mentions:
            merge(found, self.functions[name])
        if self.parent is not None:
            merge(found, self.parent.calls(mentions - self.locals))
        return found

    def owns(self, name: str) -> bool:
        """Whether a name is a variable of this function or of one around it, in the source being rewritten."""
        if name in self.locals:
            return True
        return name not in self.summary.globals and self.parent is not None and self.parent.owns(name)


def _function_effects(functions: list[tuple[str, FunctionNode]]) -> dict[str, dict[str, int]]:
    """What functions may change when called, by name, including what the functions they mention may."""
    effects: dict[str, dict[str, int]] = {}
    uses: dict[str, set[str]] = {}
    for name, fn in functions:
        inner = inside(fn)
        own = owned_by(fn, inner)
        # Receivers are left out: that a helper calls a method of an object says nothing about a region.
        merge(effects.setdefault(name, {}), {n: k for n, k in inner.effects.items() if k >= STORED}, own)
        uses.setdefault(name, set()).update(inner.mentions)
    changed = True
    while changed:
        changed = False
        for name, used in uses.items():
            for other in used & effects.keys() - {name}:
                changed |= merge(effects[name], effects[other])
    return effects
