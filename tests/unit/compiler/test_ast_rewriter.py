"""The rewriter: a rewritten function is the function its author wrote, and what cannot be traced is refused."""

import ast
import functools
import importlib.util
import inspect
import linecache
import textwrap
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flydsl.compiler.frontend.ast_rewriter import RewrittenFunction, _fill_locations, ast_diff, rewrite_function
from flydsl.errors import DSLSyntaxError, FlyDSLError, SourceUnavailableError
from flydsl.expr.control import control_flow as fx
from flydsl.expr.control.control_flow import const_expr, range_constexpr
from flydsl.ir.user_code import REGION_MARK


def rewritten(fn: Any) -> Any:
    return rewrite_function(fn).function


def decorate(fn: Any) -> Any:
    """A decorator that must not run again."""
    CALLS.append(fn.__name__)
    return fn


CALLS: list[str] = []
SCALE = 10


# --- without run-time values, a rewritten function does what Python does --------------------------------------------


def branches(a: int, b: int):
    x, y = 0, ""
    if a < b:
        x = a
        if a == 0:
            y = "zero"
        elif a == 1:
            y = "one"
        else:
            y = "many"
    else:
        x = -b
    return x, y


def loops(a: int, b: int):
    total, last = 0, None
    for i in range(a, b):
        total += i
        for last in range(i):
            total += last * 2
    for k, v in enumerate(("x", "y")):
        total += k + len(v)
    for j in range_constexpr(5):
        if const_expr(j == 3):
            break
        total += j
    else:
        total = -1
    return total, last, j


def while_loops(a: int, b: int):
    n = 0
    while a > 0 and n < 20:
        a -= 1 if b > 2 else 2
        n += 1
    while const_expr(n > 3):
        n -= 3
        if const_expr(n == 4):
            continue
    return a, n


def logic(a: int, b: int):
    return (
        a and b,
        a or b,
        not a,
        a and b and a + b,
        a or b or "none",
        (a and not b) or (b and not a),
        0 < a < 3,
        a < b < 4 <= 7 != a,
        a == 1 or b == 2 or [],
        a in (1, 2) and b is not None,
        [] and a,
        None or a,
        "small" if a < 2 else "big" if a > 3 else "middle",
        [x for x in range(a) if x and not b or x > 1],
        f"{a and b}",
        {k: v or 0 for k, v in {"a": a}.items()},
    )


def closures(a: int, b: int):
    seen = []
    total = 0

    def add(n: int = SCALE, *, twice: bool = False):
        nonlocal total
        """Not a docstring."""
        total += n
        if twice:
            seen.append(n)
            added = n * 2
        else:
            added = n
            seen.append(added)
        seen.append("x")

    read = lambda: total if a < b else -total  # noqa: E731
    for i in range(3):
        add(i, twice=i == 1)
        add()
        seen.append(read())
    return total, seen, read()


def scopes(a: int, b: int):
    value: int = 1
    other: int  # noqa: F842
    (first, *rest), last = [a, b, a], b
    if a < b:
        value: int = 2
        tmp: int = value + 1
        value, rest = tmp, [tmp]
        first = [y := a, y + 1]
    with open(__file__) as handle:
        if a:
            value += len(handle.readline())
    try:
        if b:
            raise ValueError("x")
    except ValueError as error:
        value += len(str(error))
    finally:
        value += 1
    match a:
        case 1:
            if b > 0:
                value += 100
        case int(n) if n > 1:
            value += n
        case _:
            pass
    del last
    import math as m

    if a:
        from math import pi as half

        value += int(half)

        class Local:
            size = a

            def double(self):
                if self.size > 1:
                    return_value = 2
                    self.size = return_value * self.size
                assert self.size
                yield_value = self.size
                return yield_value

        value += Local().double() + int(m.floor(1.5))
    return value, first, rest


def recursive(a: int, b: int):
    result = 1
    if a > 0:
        result = a * recursive(a - 1, b)
    return result


def mutation(a: int, b: int):
    data, table = [0, 1], {"k": [a]}
    if a > 0:
        data[0] = b
        data.append(a)
        table["k"][0] += 1
        table["new"] = data
    while len(data) < 6:
        data.append(len(data))
    for i in range(len(data)):
        data[i] += i
    return data, table


def empties(a: int, b: int):
    if a:
        pass
    for _ in range(a):
        ...
    if b:
        "text"
    return None


FUNCTIONS = [branches, loops, while_loops, logic, closures, scopes, recursive, mutation, empties]


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda f: f.__name__)
def test_plain_python_is_kept(fn: Any):
    traced = rewritten(fn)
    for a in range(4):
        for b in range(4):
            assert traced(a, b) == fn(a, b), (a, b)


def test_keeps_what_a_function_is():
    def f(a: int, b: "str" = "x", *args: int, c: float = 1.5, **kw: Any) -> "bool":
        """Says what it does."""
        if a:
            b = "y"
        return (a, b, args, c, kw)

    f.tag = 1
    traced = rewritten(f)
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__"):
        assert getattr(traced, name) == getattr(f, name), name
    assert traced.__annotations__ == f.__annotations__
    assert traced.__globals__ is f.__globals__
    assert traced.tag == 1
    assert inspect.signature(traced) == inspect.signature(f)
    assert traced(1, "q", 2, c=3, d=4) == (1, "y", (2,), 3, {"d": 4})
    assert traced.__code__.co_qualname == f.__code__.co_qualname
    assert "__fly_cf__" not in f.__globals__


def test_record_of_the_source():
    found = rewrite_function(branches)
    assert isinstance(found, RewrittenFunction)
    assert found.original is branches
    assert found.source == inspect.getsource(branches)
    assert found.first_line == branches.__code__.co_firstlineno
    assert found.filename == __file__


def test_closure_cells_are_shared():
    count = 0
    unused = 5

    def f(n: int):
        nonlocal count
        total = unused
        if n > 0:
            total = n + count
        count = count + 1
        return total

    traced = rewritten(f)
    assert traced(2) == 2
    assert f(2) == 3
    assert count == 2
    count = 40
    assert traced(2) == 42
    own = dict(zip(traced.__code__.co_freevars, traced.__closure__, strict=True))
    for name, cell in zip(f.__code__.co_freevars, f.__closure__, strict=True):
        assert own[name] is cell


def test_decorators_do_not_run_again():
    CALLS.clear()

    @decorate
    @functools.cache
    def f(a: int):
        if a:
            a = 2

        @decorate
        def inner():
            return a

        return inner()

    assert CALLS == ["f"]
    assert rewritten(f.__wrapped__)(1) == 2
    assert CALLS == ["f", "inner"]


class Base:
    def size(self, n: int) -> int:
        return n


class Derived(Base):
    __factor = 3

    def size(self, n: int) -> int:
        total = 0
        __local = 1
        if n > 0:
            total = super().size(n) * self.__factor
            __local = self.__helper(n)
        return total + __local

    def __helper(self, n: int) -> int:
        return n * 100

    @classmethod
    def make(cls, n: int):
        made = None
        if n:
            made = cls()
        return made

    def nested(self, n: int):
        def inner(k: int):
            result = 0
            if k:
                result = self.__factor
            return result

        return inner(n)


@pytest.mark.parametrize("n", [0, 2])
def test_methods(n: int):
    obj = Derived()
    assert rewritten(Derived.size)(obj, n) == obj.size(n)
    assert type(rewritten(Derived.make.__func__)(Derived, n)) is type(Derived.make(n))
    assert rewritten(Derived.nested)(obj, n) == obj.nested(n)


def test_method_bound_by_the_descriptor_protocol():
    class Holder:
        scale = 3
        run = rewritten(Derived.nested)

        def method(self, n: int):
            if n > 1:
                n = n * self.scale
            return n

        fast = rewritten(method)

    assert Holder().fast(4) == 12


def test_nested_function_decorated_inside_a_rewritten_one():
    def f(a: int):
        base = a + 1

        @rewritten
        def inner(n: int):
            out = base
            if n > base:
                out = n
            return out

        return inner(5), inner(0)

    assert rewritten(f)(1) == f(1) == (5, 2)


def test_text_inside_strings_is_not_touched():
    def f(a: int):
        text = """one
  two
            three"""
        if a:
            text += "!"
        return text

    assert rewritten(f)(1) == f(1)


def test_private_names_survive_in_closures():
    def f(a: int):
        get = None
        if a:
            hidden = a * 2
            get = lambda: hidden  # noqa: E731
        return get()

    assert rewritten(f)(4) == 8


def test_future_annotations_are_kept():
    text = "def f(a):\n    def g(x: Missing): return x\n    if a: a = g(a)\n    return a\n"
    f = define("from __future__ import annotations\n" + text)
    assert rewritten(f)(3) == 3


# --- positions ----------------------------------------------------------------------------------------------------


def failing(a: int):
    x = a
    if a > 0:
        for _ in range(2):
            x = x + (1 / 0 if a > 1 else len(None))
    return x


@pytest.mark.parametrize(("a", "error"), [(2, ZeroDivisionError), (1, TypeError)])
def test_line_numbers_and_names_in_tracebacks(a: int, error: type[Exception]):
    with pytest.raises(error) as info:
        rewritten(failing)(a)
    frames = traceback.extract_tb(info.value.__traceback__)
    assert frames[-1].filename == __file__
    assert frames[-1].lineno == failing.__code__.co_firstlineno + 4
    assert {f.name for f in frames if f.filename == __file__} - {"rewritten"} >= {"failing"}
    assert not any("__fly" in f.name for f in frames)


def calls(code: Any) -> set[tuple[Any, ...]]:
    """Positions of the calls of a code object and those inside."""
    found = {p for p in code.co_positions() if p[0] is not None}
    for const in code.co_consts:
        if hasattr(const, "co_positions"):
            found |= calls(const)
    return found


def test_columns_are_those_of_the_file():
    # The names of a line and the columns of what they are in, e.g. the call of len.
    for fn in (failing, logic, scopes):
        lines = inspect.getsource(fn).splitlines()
        tree = ast.parse(textwrap.dedent("\n".join(lines)))
        first = fn.__code__.co_firstlineno
        wanted = {
            (n.lineno + first - 1, n.end_lineno + first - 1, n.col_offset, n.end_col_offset)
            for n in ast.walk(tree)
            if isinstance(n, ast.BinOp) and n.lineno == n.end_lineno
        }
        assert wanted and wanted <= calls(rewritten(fn).__code__)


def test_nodes_without_a_place_get_that_of_their_parent():
    text = "def f(a, *, b=1, **c):\n  try:\n    return {**c, a: [b, -a][0]}\n  except E as e:\n    x: int = a.b(*c)"
    places = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    for without in ({ast.Name, ast.Constant}, {ast.Dict, ast.Call, ast.arg}, {ast.ExceptHandler, ast.Starred, ast.Try}):
        ours, python = ast.parse(text), ast.parse(text)
        for tree in (ours, python):
            for node in ast.walk(tree):
                for name in places if type(node) in without else ():
                    delattr(node, name)
        _fill_locations(ours, {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0})
        assert ast.dump(ours, include_attributes=True) == ast.dump(
            ast.fix_missing_locations(python), include_attributes=True
        )


def test_columns_of_an_indented_function():
    class Holder:
        def f(self, a: int):
            if a:
                a = a + 1
            return a

    line = Holder.f.__code__.co_firstlineno + 2
    text = linecache.getline(__file__, line)
    start = text.index("a + 1")
    assert (line, line, start, start + 5) in calls(rewritten(Holder.f).__code__)


def test_bodies_are_marked():
    traced = rewritten(failing)
    inner = [c for c in traced.__code__.co_consts if hasattr(c, "co_name")]
    assert [(c.co_name, c.co_qualname) for c in inner] == [("failing", "failing" + REGION_MARK)]


def test_names_of_nested_definitions():
    def f(a: int):
        def g():
            pass

        class C:
            def m(self):
                pass

        if a:

            def h():
                pass

        else:
            h = None  # noqa: F841
        return g, C, C.m

    for mine, theirs in zip(rewritten(f)(1), f(1), strict=True):
        assert mine.__qualname__ == theirs.__qualname__


# --- names that live in a region ------------------------------------------------------------------------------------


def test_name_error_says_where_the_name_lives():
    def f(a: int):
        for i in range(a):
            value = i
        return value

    line = f.__code__.co_firstlineno + 1
    with pytest.raises(NameError) as info:
        rewritten(f)(3)
    assert str(info.value) == (
        f"'value' is defined only inside the 'for' at line {line}; what a run-time region defines does not exist after "
        "it. Define 'value' before the 'for'"
    )
    assert traceback.extract_tb(info.value.__traceback__)[-1].lineno == line + 2


def test_other_name_errors_are_kept():
    def f(a: int):
        if a:
            value = 1  # noqa: F841
        return missing  # noqa: F821

    with pytest.raises(NameError, match="name 'missing' is not defined"):
        rewritten(f)(1)


def test_a_local_of_a_region_never_falls_back_to_a_global():
    def f(a: int):
        if a:
            SCALE = 1
        return SCALE

    assert rewritten(f)(1) == 1
    with pytest.raises(NameError, match="'SCALE' is defined only inside the 'if'"):
        rewritten(f)(0)


def test_a_name_of_one_branch_is_not_looked_up_in_globals():
    def f(a: int):
        if a:
            SCALE = 1
        else:
            a = SCALE
        return a

    with pytest.raises(NameError):
        rewritten(f)(0)


# --- where source comes from ----------------------------------------------------------------------------------------


def define(text: str, filename: str = "<made up>", register: bool = True, **names: Any) -> Any:
    if register:
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    scope: dict[str, Any] = {"__name__": "made_up", "fx": fx, **names}
    exec(compile(text, filename, "exec"), scope)
    return scope["f"]


SIMPLE = "\n\ndef f(a):\n    if a:\n        a = 5\n    return a\n"


def test_source_from_linecache():
    found = rewrite_function(define(SIMPLE))
    assert found.function(1) == 5
    assert found.filename == "<made up>"
    assert found.first_line == 3


def test_notebook_cells():
    f = define(SIMPLE, "/tmp/ipykernel_1/123.py")
    assert rewritten(f)(1) == 5


def test_without_source():
    f = define(SIMPLE, "<nowhere>", register=False)
    with pytest.raises(
        SourceUnavailableError, match="source of 'f' cannot be found.*Put the function in a file.*linecache"
    ) as info:
        rewrite_function(f)
    assert isinstance(info.value, OSError)


def test_lambda_has_no_source_of_its_own():
    with pytest.raises(SourceUnavailableError, match="write it as a def"):
        rewrite_function(lambda x: x)


@pytest.mark.parametrize(
    ("later", "match"),
    [
        ("x = 1\n\ndef g(a):\n    return a\n", "do not define 'f'"),
        ("x = 1\n\ndef f(a, b):\n    return a\n", "parameters found there are others"),
    ],
)
def test_source_edited_before_decoration(later: str, match: str):
    f = define(SIMPLE, "<edited>")
    linecache.cache["<edited>"] = (len(later), None, later.splitlines(True), "<edited>")
    with pytest.raises(SourceUnavailableError, match=f"is not what was imported: .*{match}.*reload"):
        rewrite_function(f)


def load_module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nesting_has_a_limit(tmp_path: Path):
    path = tmp_path / "nested.py"
    path.write_text("def f(a):\n    return a" + " + 1" * 900 + "\n")
    with pytest.raises(DSLSyntaxError, match="nested too deeply to be rewritten; write expressions of hundreds"):
        rewrite_function(load_module(path).f)


EDITED = "def f(a):\n    if a:\n        a = 5\n    return a\n"


@pytest.mark.parametrize("later", [EDITED.replace("5", "6"), EDITED.replace("= 5", "= True"), "", "def f(a): (\n"])
def test_a_file_that_was_edited_after_it_was_imported_is_not_read(later: str, tmp_path: Path):
    """The text would be of another function than the one that was loaded."""
    path = tmp_path / "edited.py"
    path.write_text(EDITED)
    f = load_module(path).f
    path.write_text(later)
    with pytest.raises(SourceUnavailableError, match="is not what was imported|cannot be found"):
        rewrite_function(f)


@pytest.mark.parametrize(
    "later", [EDITED.replace("5", "5  # five"), "X = 3\n\n" + EDITED, EDITED + EDITED.replace("def f", "def g")]
)
def test_what_an_edit_leaves_alone_is_found(later: str, tmp_path: Path):
    path = tmp_path / "moved.py"
    path.write_text(EDITED)
    f = load_module(path).f
    path.write_text(later)
    found = rewrite_function(f)
    assert found.function(1) == 5 and "a = 5" in found.source
    assert found.first_line == later.splitlines().index("def f(a):") + 1


def test_a_text_that_was_read_before_an_edit_serves_after_it(tmp_path: Path):
    """Functions that are made and decorated later, in a factory, are of the text that their file had."""
    path = tmp_path / "factory.py"
    path.write_text("def first(a):\n    return a\n\ndef make():\n    def f(a):\n        return a + 1\n    return f\n")
    module = load_module(path)
    rewrite_function(module.first)
    path.write_text(path.read_text().replace("1", "22"))
    found = rewrite_function(module.make())
    assert found.function(1) == 2 and "a + 1" in found.source
    assert rewrite_function(load_module(path).make()).function(1) == 23


def test_source_is_captured_at_decoration(tmp_path: Path):
    path = tmp_path / "edited_later.py"
    path.write_text("def f(a):\n    if a:\n        a = 5\n    return a\n")
    found = rewrite_function(load_module(path).f)
    path.write_text("something else\n")
    linecache.checkcache(str(path))
    assert found.function(1) == 5
    assert "a = 5" in found.source


def test_tabs_and_odd_indentation(tmp_path: Path):
    path = tmp_path / "tabs.py"
    path.write_text("if True:\n\tdef f(a):\n\t\tif a: a = 5\n# a comment at the margin\n\t\treturn a\n")
    assert rewritten(load_module(path).f)(1) == 5


# --- rejections -----------------------------------------------------------------------------------------------------

BREAK = "guard the rest of the body"
REJECTED = [
    ("for i in range(a):\n        break", "break", "break in a run-time loop", BREAK),
    ("for i in range(a):\n        continue", "continue", "continue in a run-time loop", BREAK),
    ("while a:\n        break", "break", "break in a run-time loop", BREAK),
    (
        "if a:\n        for i in range(a):\n            if i: continue",
        "continue",
        "continue in a run-time branch",
        BREAK,
    ),
    (
        "for i in range_constexpr(4):\n        if fx.thread_idx.x == 2:\n            break",
        "break",
        "break in a run-time branch",
        BREAK,
    ),
    (
        "if fx.lane_id():\n        return 1",
        "return 1",
        "early return in a run-time branch is not supported",
        "use a guard",
    ),
    ("for i in range(a):\n        return i", "return i", "early return in a run-time loop", "use a guard"),
    (
        "b = fx.block_idx.x + a\n    if b > 1:\n        for x in (1, 2):\n            return x",
        "return x",
        "early return in a run-time branch",
        "guard",
    ),
    (
        "if -fx.Int32(fx.block_idx.x):\n        if const_expr(1):\n            return 2",
        "return 2",
        "early return",
        "const_expr",
    ),
    ("for i in range(a):\n        pass\n    else:\n        a = 1", "a = 1", "else of a run-time for", "after the loop"),
    ("while a:\n        a = 0\n    else:\n        a = 1", "a = 1", "else of a run-time while", "after the loop"),
    ("for i, j in range(a):\n        pass", "i, j", "must be a single name", "unpack inside the body"),
    ("for a[0] in range(a):\n        pass", "a[0]", "must be a single name", "unpack inside the body"),
    ("for i in range(a, 0, -1):\n        pass", "-1", "must be positive, got -1", "count upwards"),
    ("for i in fx.range(0, a, 0):\n        pass", "0", "must be positive, got 0", "count upwards"),
    (
        "global G\n    if a:\n        G = 1",
        "G",
        "global variable 'G' is assigned in a run-time region",
        "local variable",
    ),
    ("if a:\n        global G", "global G", "global in a run-time region", "local variable"),
    ("x = yield a", "yield a", "yield is only supported", "assign the values to variables"),
    ("x = [(yield a)]", "yield a", "yield is only supported", "assign the values to variables"),
    ("for i, s in range(a, init=[1]):\n        pass", "pass", "must end in results = yield", "last statement"),
    ("for i in range(a, init=[1]):\n        yield [1]", "i", "has two targets", "for i, state in range"),
    ("x = (y := 1) if a else 2", "y := 1", "assignment expression in an arm", "use an if statement"),
    ("async def g():\n        pass", "async def g():", "async functions cannot be traced", "plain def"),
]


@pytest.mark.parametrize(("body", "marked", "reason", "remedy"), REJECTED)
def test_rejections(body: str, marked: str, reason: str, remedy: str):
    text = f"G = 0\ndef f(a):\n    {body}\n"
    f = define(text, "<rejected>", range_constexpr=range_constexpr, const_expr=const_expr)
    with pytest.raises(DSLSyntaxError) as info:
        rewrite_function(f)
    error = info.value
    message = str(error)
    head, where, shown, caret = message.splitlines()[-4:]
    assert reason in head and remedy in head
    lines = text.splitlines()
    assert where == f'  File "<rejected>", line {error.lineno}'
    assert shown.strip() == lines[error.lineno - 1].strip()
    start = len(caret) - len(caret.lstrip())
    assert shown[start : start + caret.count("^")] == marked
    assert error.filename == "<rejected>"
    assert error.offset is not None and error.end_offset is not None
    assert lines[error.lineno - 1][error.offset - 1 : error.end_offset - 1] == marked
    assert isinstance(error, SyntaxError) and isinstance(error, FlyDSLError)


LEFT = """
def f(a, log):
    for i in range_constexpr(6):
        if i == a:
            log.append("break")
            break
        if i % 2:
            if i == 3:
                continue
            log.append("odd")
            continue
        elif a > 100:
            return "far"
        log.append(i)
    for j in range(2):
        if a > 4:
            continue
        log.append("low")
    while a < 0:
        a = a + 1
        if a == -1:
            continue
        log.append("neg")
    if a == 5:
        return a * 10
    elif a == 6:
        if log:
            return
    log.append("end")
    return a
"""


@pytest.mark.parametrize("a", [-3, 0, 3, 5, 6, 101])
def test_exits_under_known_conditions_are_python(a: int):
    """Plain Python is the oracle: every condition is known, so every exit does what it does there."""
    plain: list[object] = []
    traced: list[object] = []
    f = define(LEFT, "<exits>", range_constexpr=range)
    expected = f(a, plain)
    assert rewrite_function(f).function(a, traced) == expected
    assert traced == plain


def test_a_condition_from_which_nothing_certain_follows_is_left_to_the_trace():
    for test in ("a", "a == 2", "t", "t.shape[0] > 1", "None is t[0]", "k and fx.lane_id()", "t[None, 0]", "other"):
        text = f"def f(a, k, t: Tensor):\n    other = a\n    other = fx.lane_id()\n    if {test}:\n        return 1\n"
        rewrite_function(define(text, "<open>", Tensor=object))
    for test in ("t[0] > 1", "b", "1 + b", "b and a", "t[a, 1]", "fx.Int32(b) == a", "thread_idx.x < 4"):
        text = f"def f(a, t: Tensor):\n    b = fx.lane_id() % 4\n    if {test}:\n        return 1\n"
        with pytest.raises(DSLSyntaxError, match="early return"):
            rewrite_function(define(text, "<certain>", Tensor=object))


def test_while_else_is_not_implemented():
    f = define("def f(a):\n    while a:\n        a = 0\n    else:\n        a = 1\n", "<while else>")
    with pytest.raises(NotImplementedError, match="not implemented"):
        rewrite_function(f)


def test_python_prints_the_caret():
    f = define("def f(a):\n    if fx.lane_id():\n        return 1\n", "<caret>")
    with pytest.raises(DSLSyntaxError) as info:
        rewrite_function(f)
    text = "".join(traceback.format_exception_only(info.value))
    assert 'File "<caret>", line 3' in text
    assert "^^^^^^^^" in text
    assert text.count("early return") == 1


def test_async_functions():
    text = "async def f(a):\n    return a\n"
    with pytest.raises(DSLSyntaxError, match="async functions cannot be traced"):
        rewrite_function(define(text, "<async>"))


def test_caret_behind_wide_characters():
    f = define("def f(a):\n    if fx.lane_id():\n        π = 'é'; return 1\n", "<wide>")
    with pytest.raises(DSLSyntaxError) as info:
        rewrite_function(f)
    assert (info.value.offset, info.value.end_offset) == (18, 26)


def test_nonlocal_in_a_region():
    def f(a: int):
        total = 0

        def add():
            nonlocal total
            if a:
                total = total + 1

        add()
        return total

    with pytest.raises(DSLSyntaxError, match="nonlocal variable 'total' is assigned in a run-time region"):
        rewrite_function(f)


ALLOWED = [
    "if const_expr(a):\n        return 1",
    "for x in (1, 2):\n        if const_expr(x == 1):\n            return x",
    "for i in range_constexpr(3):\n        continue\n    else:\n        a = 1",
    "while const_expr(a):\n        break",
    "if a:\n        for x in (1, 2):\n            break",
    "if a:\n        for x in (1, 2):\n            if const_expr(x):\n                continue",
    "if a:\n        def g():\n            return 1\n        g()",
    "if a:\n        g = lambda: (yield_ := 1)",
    "global G\n    G = a",
    "x = (y := 1) if const_expr(a) else 2",
]


@pytest.mark.parametrize("body", ALLOWED)
def test_allowed(body: str):
    f = define(f"G = 0\ndef f(a):\n    {body}\n", "<allowed>", range_constexpr=range_constexpr, const_expr=const_expr)
    assert rewritten(f)(1) == f(1)


# --- the diff -------------------------------------------------------------------------------------------------------


def test_diff():
    def f(a: int):
        x = 0
        if a and x:
            x = 1
        return x

    text = ast_diff(f)
    assert text.startswith("--- test_diff.<locals>.f (source)\n+++ test_diff.<locals>.f (rewritten)\n")
    assert "\n-    if a and x:" in text
    assert "\n+    __fly_cf__.if_(" in text
    assert rewrite_function(f).after.startswith("def f(a: int):")


def test_function_without_control_flow_is_not_changed():
    def f(a: int):
        y = a + 1
        return y

    assert ast_diff(f) == ""
