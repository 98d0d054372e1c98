"""Rewriting of one function: statements whose condition or bounds may exist only at run time become calls.

A run-time `if` becomes

    def __fly_then_1__():
        nonlocal x
        x = x + 1
    __fly_cf__.if_(c, __fly_then_1__, None, (("x", 3),))

Bodies share the cells of the user's own variables (`nonlocal`), so every closure of the user sees what Python would
show it, and `expr.control_flow` can read, replace and unbind a variable through the body's `__closure__`. A name that
occurs in one body only is a variable of that body. Operators become conditional expressions over a temporary: each
operand is evaluated once, in the user's frame.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from ....expr.control.control_flow import ASSIGNED, BUILTINS, LOOKUPS, RECEIVED
from .certain import Certain
from .names import FunctionNode, Scope, called_name, is_const, merge, summarise
from .source import NotImplementedSyntaxError, filename, reject

RUNTIME = "__fly_cf__"
"""The name under which rewritten code sees `expr/control/control_flow.py`. A name that ends in __ is never mangled."""
INDUCTION, STATE, ARM, VALUE, MIDDLE, ERROR, EXIT = (
    "__fly_iv__", "__fly_state__", "__fly_arm__", "__fly_value__", "__fly_middle__", "__fly_error__", "__fly_exit__",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Region:
    """The innermost run-time region around a statement."""

    what: str
    line: int
    test: ast.expr | None = None
    """The condition of a branch."""


@dataclass(frozen=True, slots=True)
class Carried:
    """The names of one region."""

    names: dict[str, int]
    """Variables of the function around it that the region may change, by kind of change."""
    private: set[str]
    """Names that occur in one of its bodies only."""


def literal_int(node: ast.expr) -> int | None:
    """The value of an integer literal with an optional sign."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
        case _:
            return None


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def runtime(function: str, args: Sequence[ast.expr], at: ast.AST, keywords: Sequence[ast.keyword] = ()) -> ast.Call:
    """A call into `control_flow`, located at `at`: that is where its operations come from."""
    callee = ast.Attribute(load(RUNTIME), function, ast.Load())
    return ast.copy_location(ast.Call(callee, list(args), list(keywords)), at)


class Rewriter(ast.NodeTransformer):
    """Rewrites a function definition and everything nested in it, in place.

    New nodes get a position only where it differs from that of the node around them; `ast.fix_missing_locations` does
    the rest.
    """

    def __init__(self, class_name: str | None = None):
        self.scope: Scope | None = None
        self.region: Region | None = None
        self.breakable = False
        """Whether the innermost loop that `break` would leave is plain Python, with no region in between."""
        self.class_name = class_name
        self.only_inside: dict[str, tuple[str, int]] = {}
        """Names bound in regions and nowhere else, with where: for the message of a `NameError`."""
        self.count = 0
        self.inside: FunctionNode | None = None
        """The function whose body is being rewritten."""
        self.repeated = False
        """Whether a loop that is unrolled while tracing comes back here, with the variables of the step before."""
        self.exits: set[str] = set()
        """How the body being rewritten may end early: return, break, continue."""
        self.in_comprehension = False
        self.printed = False
        """Whether an f-string here is an argument of a `printf`."""
        self.in_iterable = False
        """Whether Python allows no `:=` here: in what a comprehension iterates over."""

    # --- functions and classes --------------------------------------------------------------------------------------

    def function(self, node: FunctionNode) -> None:
        """Rewrite the body of a function; the definition itself stays."""
        saved = self.scope, self.region, self.breakable, self.inside, self.exits, self.repeated
        self.scope, self.region, self.breakable, self.repeated = Scope.of(node, self.scope), None, False, False
        self.inside, self.exits = node, set()
        scope = self.scope
        if isinstance(node, ast.Lambda):
            node.body = self.expression(node.body)
        else:
            first = node.body[0]
            body = self.block(node.body)
            if scope.regions:
                names = sorted(scope.locals - set(scope.params) - scope.private)
                at = 1 if ast.get_docstring(node, clean=False) is not None else 0
                body[at:at] = declare(names, first)
                found = scope.only_in_regions.items()
                self.only_inside.update({n: where for n, where in found if n not in scope.private})
            node.body = body
        self.scope, self.region, self.breakable, self.inside, self.exits, self.repeated = saved

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [self.expression(d) for d in node.decorator_list]
        self._defaults(node.args)
        self.function(node)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._defaults(node.args)
        self.function(node)
        return node

    def _defaults(self, args: ast.arguments) -> None:
        args.defaults = [self.expression(d) for d in args.defaults]
        args.kw_defaults = [d and self.expression(d) for d in args.kw_defaults]

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        # The statements of a class body make attributes, not variables: only its methods are rewritten.
        saved, self.class_name = self.class_name, node.name
        for stmt in node.body:
            if isinstance(stmt, ast.AsyncFunctionDef):
                self.visit_AsyncFunctionDef(stmt)
            if isinstance(stmt, ast.FunctionDef):
                self.function(stmt)
        self.class_name = saved
        return node

    # --- statements -------------------------------------------------------------------------------------------------

    def block(self, stmts: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Rewrite statements; one may become several."""
        made: list[ast.stmt] = []
        for stmt in stmts:
            result: Any = self.visit(stmt)
            made.extend(cast("list[ast.stmt]", result) if isinstance(result, list) else [result])
        return made

    def expression(self, node: ast.expr) -> ast.expr:
        return cast(ast.expr, self.visit(node))

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        if is_const(node.test):
            node.test = self.expression(node.test)
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return node
        carried = self.carried(node, node.body, node.orelse)
        saved, self.exits = self.exits, set()
        then, then_name = self.body(node, "then", "branch", node.body, carried)
        defs, else_ref = [then], cast(ast.expr, ast.Constant(None))
        if node.orelse:
            orelse, else_name = self.body(node, "else", "branch", node.orelse, carried)
            defs, else_ref = [then, orelse], load(else_name)
        test = self.expression(node.test)
        call = runtime("if_", [test, load(then_name), else_ref, self.constant(carried)], node.test)
        exits, self.exits = self.exits, saved
        if not exits:
            return [*defs, ast.copy_location(ast.Expr(call), node)]
        made = ast.copy_location(ast.Assign([store(EXIT)], call), node)
        return [*defs, made, ast.copy_location(self.leave_by(exits), node)]

    def leave_by(self, exits: set[str]) -> ast.stmt:
        """After an `if` whose branch ended early: do what it asked for, here or further out."""
        outside = exits if not self.breakable else exits & {"return"}
        body: list[ast.stmt] = []
        for word, stmt in (("break", ast.Break()), ("continue", ast.Continue())):
            if word in exits - outside:
                test = ast.Compare(ast.Attribute(load(EXIT), "word", ast.Load()), [ast.Eq()], [ast.Constant(word)])
                body.append(ast.If(test, [stmt], []))
        if self.region is not None:
            self.exits |= outside
            body.append(ast.Return(load(EXIT)))
        else:
            body.append(ast.Return(ast.Attribute(load(EXIT), "value", ast.Load())))
        return ast.If(ast.Compare(load(EXIT), [ast.IsNot()], [ast.Constant(None)]), body, [])

    def visit_While(self, node: ast.While) -> ast.AST | list[ast.stmt]:
        if is_const(node.test):
            node.test = self.expression(node.test)
            node.body = self.plain_loop(node.body)
            node.orelse = self.block(node.orelse)
            return node
        if node.orelse:
            reject(
                node.orelse[0],
                "the else of a run-time while loop is not implemented",
                "put the statements after the loop, under an if on the loop's condition",
                NotImplementedSyntaxError,
            )
        carried = self.carried(node, [node.test], node.body)
        test_made: ast.stmt = ast.copy_location(ast.Return(node.test), node.test)
        cond, cond_name = self.body(node, "cond", "loop", [test_made], carried, is_test=True)
        body, body_name = self.body(node, "while", "loop", node.body, carried)
        call = runtime("while_", [load(cond_name), load(body_name), self.constant(carried)], node.test)
        return [cond, body, ast.copy_location(ast.Expr(call), node)]

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        if called_name(node.iter) != "range":
            node.target = self.expression(node.target)
            node.iter = self.expression(node.iter)
            node.body = self.plain_loop(node.body)
            node.orelse = self.block(node.orelse)
            return node
        call = cast(ast.Call, node.iter)
        if node.orelse:
            reject(
                node.orelse[0],
                "the else of a run-time for loop is not supported: there is no break that could skip it",
                "put the statements after the loop, or loop over range_constexpr(...)",
            )
        step = literal_int(call.args[2]) if len(call.args) > 2 else None
        if step is not None and step <= 0:
            reject(
                call.args[2],
                f"the step of a run-time for loop must be positive, got {step}",
                "count upwards and compute the descending index in the body, or loop over range_constexpr(...)",
            )
        if any(k.arg == "init" for k in call.keywords):
            return self.legacy_for(node, call)
        if not isinstance(node.target, ast.Name):
            reject(
                node.target,
                "the target of a run-time for loop must be a single name",
                "unpack inside the body, or loop over range_constexpr(...)",
            )
        carried = self.carried(node, [node.target], node.body)
        bind = ast.copy_location(ast.Assign([node.target], load(INDUCTION)), node.target)
        body, name = self.body(node, "for", "loop", [bind, *node.body], carried, [INDUCTION])
        return [body, ast.copy_location(ast.Expr(self.loop_call("for_range", name, carried, call)), node)]

    def legacy_for(self, node: ast.For, call: ast.Call) -> ast.AST | list[ast.stmt]:
        """`for i, state in range(..., init=[...])`, whose body ends in `results = yield [...]`."""
        target = node.target
        if not (isinstance(target, ast.Tuple) and len(target.elts) == 2 and isinstance(target.elts[0], ast.Name)):
            reject(target, "a for loop over range(..., init=...) has two targets", "write for i, state in range(...)")
        last = node.body[-1]
        value = last.value if isinstance(last, (ast.Assign, ast.Expr)) else None
        if not isinstance(value, ast.Yield) or value.value is None:
            reject(
                last,
                "the body of a for loop over range(..., init=...) must end in results = yield [...]",
                "yield the next values of the carried state as the last statement",
            )
        body_nodes: list[ast.AST] = [target, *node.body[:-1], value.value]
        carried = self.carried(node, body_nodes, [])
        state = target.elts[1]
        bind = [
            ast.copy_location(ast.Assign([target.elts[0]], load(INDUCTION)), target),
            ast.copy_location(ast.Assign([state], load(STATE)), target),
            *node.body[:-1],
            ast.copy_location(ast.Return(value.value), last),
        ]
        body, name = self.body(node, "for", "loop", bind, carried, [INDUCTION, STATE], is_test=True)
        made = self.loop_call("for_init", name, carried, call)
        if isinstance(last, ast.Assign):
            targets = [self.expression(t) for t in last.targets]
            return [body, ast.copy_location(ast.Assign(targets, made), last)]
        return [body, ast.copy_location(ast.Expr(made), last)]

    def loop_call(self, function: str, body: str, carried: Carried, call: ast.Call) -> ast.Call:
        args = [self.expression(a) for a in call.args]
        keywords = [ast.keyword(k.arg, self.expression(k.value)) for k in call.keywords]
        return runtime(function, [load(body), self.constant(carried), *args], call, keywords)

    def plain_loop(self, stmts: Sequence[ast.stmt]) -> list[ast.stmt]:
        saved, self.breakable, self.repeated = (self.breakable, self.repeated), True, True
        made = self.block(stmts)
        self.breakable, self.repeated = saved
        return made

    # --- regions ----------------------------------------------------------------------------------------------------

    def carried(self, stmt: ast.stmt, *parts: Sequence[ast.AST]) -> Carried:
        """Names a region may change that live outside its bodies, by kind, and those that live in one body."""
        scope = self.current
        scope.regions += 1
        found: dict[str, int] = {}
        summaries = [summarise(nodes) for nodes in parts]
        for nodes, summary in zip(parts, summaries, strict=True):
            for name in summary.effects.keys() & (scope.summary.globals | scope.summary.nonlocals):
                if summary.effects[name] == ASSIGNED:
                    self.reject_outer(name, nodes)
            merge(found, summary.effects)
            merge(found, scope.calls(summary.mentions.keys()))
        for name in [n for n in found if not scope.owns(n) or (n == "self" and found[n] <= RECEIVED)]:
            del found[name]
        private: set[str] = set()
        for name in [n for n, kind in found.items() if kind == ASSIGNED and n in scope.locals]:
            counts = [s.mentions.get(name, 0) for s in summaries]
            # Both parts of a while statement see each other's names; the branches of an if never do.
            here = max(counts) if isinstance(stmt, ast.While) else sum(counts)
            if scope.summary.mentions[name] != here or name in scope.params or name in scope.lasting:
                continue
            if self.repeated and isinstance(stmt, ast.If) and not all(binds_first(name, p) for p in parts):
                scope.lasting.add(name)
                continue
            private.add(name)
            del found[name]
        scope.private |= private
        return Carried(dict(sorted(found.items())), private)

    def reject_outer(self, name: str, nodes: Sequence[ast.AST]) -> None:
        where = next(
            (n for root in nodes for n in ast.walk(root) if isinstance(n, ast.Name) and n.id == name), nodes[0]
        )
        word = "global" if name in self.current.summary.globals else "nonlocal"
        reject(
            where,
            f"{word} variable '{name}' is assigned in a run-time region, which cannot carry it",
            "assign a local variable and return it, or make the region compile-time with const_expr",
        )

    def body(
        self,
        stmt: ast.stmt,
        part: str,
        what: str,
        stmts: Sequence[ast.stmt],
        carried: Carried,
        params: Sequence[str] = (),
        is_test: bool = False,
    ) -> tuple[ast.stmt, str]:
        """A function that holds one body of a region."""
        self.count += 1
        name = f"__fly_{part}_{self.count}__"
        saved = self.region, self.breakable, self.repeated
        test = stmt.test if isinstance(stmt, ast.If) else None
        self.region, self.breakable = Region(what, stmt.lineno, test), False
        self.repeated = self.repeated and isinstance(stmt, ast.If)
        if is_test:  # made here, so its return is not the user's
            last = cast(ast.Return, stmts[-1])
            made = self.block(stmts[:-1])
            last.value = self.expression(cast(ast.expr, last.value))
            made.append(last)
        else:
            made = self.block(stmts)
        self.region, self.breakable, self.repeated = saved
        head: list[ast.stmt] = [ast.Nonlocal(list(carried.names))] if carried.names else []
        args = ast.arguments([], [ast.arg(p) for p in params], None, [], [], None, [])
        fn = ast.FunctionDef(name, args, [*head, *declare(sorted(carried.private), stmts[0]), *made], [], None)
        return ast.copy_location(fn, stmts[0]), name

    @property
    def current(self) -> Scope:
        assert self.scope is not None
        return self.scope

    def constant(self, carried: Carried) -> ast.expr:
        """The carried names as the cells call them, with their kinds."""
        return ast.Constant(cast(Any, tuple((self.mangled(n), kind) for n, kind in carried.names.items())))

    def mangled(self, name: str) -> str:
        owner = (self.class_name or "").lstrip("_")
        return f"_{owner}{name}" if owner and name.startswith("__") and not name.endswith("__") else name

    # --- statements with rules of their own -------------------------------------------------------------------------

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if self.region is None:
            return self.generic_visit(node)
        return self.leave_body(node, "return", node.value and self.expression(node.value))

    def visit_Break(self, node: ast.Break) -> ast.AST:
        return self.leave_loop(node, "break")

    def visit_Continue(self, node: ast.Continue) -> ast.AST:
        return self.leave_loop(node, "continue")

    def leave_loop(self, node: ast.stmt, word: str) -> ast.AST:
        if self.region is None or self.breakable:
            return node
        return self.leave_body(node, word, None)

    def leave_body(self, node: ast.stmt, word: str, value: ast.expr | None) -> ast.AST:
        """End a body early: its function returns what is to be done, to an `if` decided while tracing.

        In the body of a run-time loop, and under a condition that is certain to be a run-time value, it is refused now;
        under any other condition when the trace finds that it is one.
        """
        assert self.region is not None
        reason, remedy = early_exit(word, self.region.what, self.region.line)
        test = self.region.test
        known = test is not None and isinstance(self.inside, ast.FunctionDef) and Certain(self.inside).holds(test)
        if known or self.region.what == "loop":
            reject(node, reason, remedy)
        self.exits.add(word)
        place = (node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0)
        where = ast.Constant(cast(Any, (filename(), *place)))
        message = ast.Constant(f"{reason}; {remedy}")
        made = runtime("Exit", [ast.Constant(word), value or ast.Constant(None), message, where], node)
        return ast.copy_location(ast.Return(made), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        # Annotations of local variables are never evaluated, and Python forbids them on a nonlocal name.
        value = node.value and self.expression(node.value)
        if isinstance(node.target, ast.Name):
            made: ast.stmt = ast.Pass() if value is None else ast.Assign([node.target], value)
            return ast.copy_location(made, node)
        node.target, node.value = cast(Any, self.expression(node.target)), value
        return node

    def visit_Global(self, node: ast.Global) -> ast.AST:
        return self.declaration(node, "global")

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        return self.declaration(node, "nonlocal")

    def declaration(self, node: ast.stmt, word: str) -> ast.AST:
        if self.region is not None:
            reject(node, f"{word} in a run-time region is not supported", "use a local variable and return it")
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        node.subject = self.expression(node.subject)
        for case in node.cases:
            case.body = self.block(case.body)
        return node

    def untouched(self, node: ast.AST) -> ast.AST:
        for inner in ast.walk(node):
            if isinstance(inner, (ast.Await, ast.Yield, ast.YieldFrom)):
                self.visit(inner)
        return node

    visit_Assert = untouched

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        reject(node, "async functions cannot be traced", "write a plain def")

    def reject_async(self, node: ast.AST) -> ast.AST:
        reject(node, "async code cannot be traced", "write it without async and await")

    visit_AsyncFor = visit_AsyncWith = visit_Await = reject_async

    def reject_yield(self, node: ast.AST) -> ast.AST:
        reject(
            node,
            "yield is only supported as the last statement of a for loop over range(..., init=...)",
            "assign the values to variables instead: they are carried through loops by name",
        )

    visit_Yield = visit_YieldFrom = reject_yield

    # --- expressions ------------------------------------------------------------------------------------------------

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """Which items there are is decided while tracing, what becomes of them is traced."""
        saved, self.in_iterable = self.in_iterable, True
        node.iter = self.expression(node.iter)
        self.in_iterable = saved
        node.target = self.expression(node.target)
        node.ifs = [runtime("chosen", [self.expression(test)], test) for test in node.ifs]
        return node

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> ast.AST:
        saved, self.in_comprehension = self.in_comprehension, True
        self.generic_visit(node)
        self.in_comprehension = saved
        return node

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        word = "and" if isinstance(node.op, ast.And) else "or"
        made = self.expression(node.values[0])
        for value in node.values[1:]:
            bound = sorted(summarise([value]).walrus)
            changed = [] if bound else self.changed_by([value])
            if changed:
                made = runtime(f"{word}_then", [made, self.arm(value), *changed], node)
                continue
            before: list[ast.expr] = []
            if bound and not self.in_comprehension:
                names = Carried(dict.fromkeys(bound, ASSIGNED), set())
                cells = self.arm(ast.Tuple([load(name) for name in bound], ast.Load()))
                before = [runtime("before", [self.constant(names), cells], node)]
            made = self.logical(word, made, [*before, self.expression(value)], node)
        return made

    def logical(self, word: str, left: ast.expr, right: Sequence[ast.expr], at: ast.expr) -> ast.expr:
        """`left and right` with each operand evaluated once: `and_(v, right) if more_and(v := left) else v`."""
        name = ARM if self.in_iterable else VALUE
        given = load(name) if self.in_iterable else ast.NamedExpr(store(name), left)
        word_of = f"{word}_" if len(right) == 1 else f"{word}_binding"
        test, both = runtime(f"more_{word}", [given], at), runtime(word_of, [load(name), *right], at)
        made = ast.copy_location(ast.IfExp(test, both, load(name)), at)
        return let({name: left}, made, at) if self.in_iterable else made

    def chain(self, left: ast.expr, ops: list[ast.cmpop], rights: list[ast.expr], at: ast.expr) -> ast.expr:
        """`a < b < c` where Python allows no `:=`."""
        if len(ops) == 1:
            return compare(left, ops[0], rights[0], at)
        rest = self.chain(load(MIDDLE), ops[1:], rights[1:], at)
        made = self.logical("and", compare(load(ARM), ops[0], load(MIDDLE), at), [rest], at)
        return let({ARM: left, MIDDLE: rights[0]}, made, at)

    def visit_Compare(self, node: ast.Compare) -> Any:
        left = self.expression(node.left)
        operands = [self.expression(c) for c in node.comparators]
        if len(operands) == 1:
            return compare(left, node.ops[0], operands[0], node)
        if self.in_iterable:
            return self.chain(left, node.ops, operands, node)
        made: ast.expr | None = None
        for i, (op, right) in enumerate(zip(node.ops, operands, strict=True)):
            if i + 1 < len(operands):
                right = ast.NamedExpr(store(MIDDLE), right)
            step = compare(left, op, right, node)
            left = load(MIDDLE)
            made = step if made is None else self.logical("and", made, [step], node)
        return made

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        operand = self.expression(node.operand)
        if isinstance(node.op, ast.Not):
            return runtime("not_", [operand], node)
        node.operand = operand
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if is_const(node.test):
            return self.generic_visit(node)
        for arm in (node.body, node.orelse):
            if summarise([arm]).walrus:
                if self.in_comprehension:
                    return self.generic_visit(node)
                reject(
                    arm,
                    "an assignment expression in an arm of a conditional expression cannot be traced",
                    "use an if statement",
                )
        changed = self.changed_by([node.body, node.orelse])
        test = self.expression(node.test)
        return runtime("if_expr", [test, self.arm(node.body), self.arm(node.orelse), *changed], node)

    def changed_by(self, operands: Sequence[ast.expr]) -> list[ast.expr]:
        """What tells the runtime which variables calls in some operands change: their names, and their cells."""
        scope = self.current
        found = {n: kind for n, kind in scope.calls(summarise(operands).mentions.keys()).items() if scope.owns(n)}
        if not found:
            return []
        names = Carried(dict(sorted(found.items())), set())
        return [self.constant(names), self.arm(ast.Tuple([load(name) for name in names.names], ast.Load()))]

    def arm(self, node: ast.expr) -> ast.expr:
        """A lambda with a parameter by which it is known as ours."""
        args = ast.arguments([], [ast.arg(ARM)], None, [], [], None, [ast.Constant(None)])
        return ast.copy_location(ast.Lambda(args, self.expression(node)), node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """An f-string remembers the values in it, for `printf`."""
        printed = ast.Constant(self.printed)
        parts: list[ast.expr] = [printed]
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                saved, self.printed = self.printed, False
                value = self.expression(part.value)
                self.printed = saved
                spec = part.format_spec and self.expression(part.format_spec)
                made = ast.Tuple([value, ast.Constant(part.conversion), spec or ast.Constant(None)], ast.Load())
                parts.append(ast.copy_location(made, part))
            else:
                parts.append(part)
        return runtime("joined", parts, node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        saved, self.printed = self.printed, called_name(node) == "printf"
        made = self.call(node)
        self.printed = saved
        return made

    def call(self, node: ast.Call) -> ast.AST:
        # A body is a function without arguments, where Python's argument-less super() does not work.
        match node:
            case ast.Call(func=ast.Name(id="super"), args=[], keywords=[]) if self.region is not None:
                if self.class_name and self.current.params:
                    node.args = [load("__class__"), load(self.current.params[0])]
                    return node
            case ast.Call(func=ast.Name(id=name)) if name in BUILTINS and not self.current.owns(name):
                self.generic_visit(node)
                return runtime("builtin", [node.func, *node.args], node, node.keywords)
            case ast.Call(func=ast.Attribute(attr=name), args=[_, *_]) if name in LOOKUPS:
                self.generic_visit(node)
                return runtime("lookup", [node.func, *node.args], node, node.keywords)
            case _:
                pass
        return self.generic_visit(node)


def binds_first(name: str, stmts: Sequence[ast.AST]) -> bool:
    """Whether statements that mention a name give it a value without asking for the one before."""
    found = [stmt for stmt in stmts if name in summarise([stmt]).mentions]
    if not found:
        return True
    inner: list[Sequence[ast.AST]]
    match found[0]:
        case ast.Assign(targets=[ast.Name(id=bound)], value=value):
            return bound == name and name not in summarise([value]).mentions
        case ast.For(target=target, iter=head, body=body, orelse=orelse):
            inner = [orelse] if isinstance(target, ast.Name) and target.id == name else [[target, *body], orelse]
        case ast.If(test=head, body=body, orelse=orelse):
            inner = [body, orelse]
        case _:
            return False
    # What only some paths bind must not be read by what follows.
    return len(found) == 1 and name not in summarise([head]).mentions and all(binds_first(name, p) for p in inner)


def early_exit(word: str, what: str, line: int) -> tuple[str, str]:
    """Why a run-time region cannot be left, and what to write instead."""
    if word == "return":
        return (
            f"early return in a run-time {what} is not supported (it starts at line {line}); use a guard",
            "put the rest of the function under the opposite condition, or write const_expr(...) around a "
            "compile-time one",
        )
    return (
        f"{word} in a run-time {what} is not supported (it starts at line {line})",
        "guard the rest of the body with an if, put the condition into a while, or use range_constexpr and "
        "const_expr for compile-time loops and conditions",
    )


def compare(left: ast.expr, op: ast.cmpop, right: ast.expr, at: ast.expr) -> ast.expr:
    """One comparison; what a table has is asked with care."""
    if not isinstance(op, (ast.In, ast.NotIn)):
        return ast.copy_location(ast.Compare(left, [op], [right]), at)
    found = runtime("contains", [left, right], at)
    return found if isinstance(op, ast.In) else ast.copy_location(ast.UnaryOp(ast.Not(), found), at)


def let(values: dict[str, ast.expr], body: ast.expr, at: ast.expr) -> ast.expr:
    """An expression in which names stand for the values of others; by the first name it is known as ours."""
    args = ast.arguments([], [ast.arg(name) for name in values], None, [], [], None, [])
    return ast.copy_location(ast.Call(ast.copy_location(ast.Lambda(args, body), at), list(values.values()), []), at)


def declare(names: Sequence[str], at: ast.AST) -> list[ast.stmt]:
    """Make names variables of a function without binding them: an assignment that never runs."""
    if not names:
        return []
    never = ast.Assign([store(n) for n in names], ast.Constant(None))
    return [ast.copy_location(ast.If(ast.Constant(False), [never], []), at)]
