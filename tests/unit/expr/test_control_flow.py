"""Run-time control flow: what `scf` ops come out, what they carry, and what they compute."""

import ast
import itertools
import linecache
import random
import subprocess
import sys
import textwrap
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from tests.covering import some_of
from tests.fuzz.statements import wrong
from xdsl.dialects import func, scf
from xdsl.dialects import test as xdsl_test
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue

from flydsl.compiler.frontend.ast_rewriter import rewrite_function
from flydsl.errors import DSLRuntimeError, DSLTypeError, DSLValueError, FlyDSLWarning
from flydsl.expr.control import control_flow as fx
from flydsl.expr.emit import trace
from flydsl.expr.emit.tracer import Tracer
from flydsl.expr.numeric import Boolean, Float32, Index, Int32, Int64, Numeric, Uint32
from flydsl.expr.protocol import extract_to_ir_values

# --- tracing one function -----------------------------------------------------------------------------------------


class Traced:
    """A traced function: its result, its entry block, its ops."""

    def __init__(self, result: Any, block: Block, module: ModuleOp):
        self.result = result
        self.block = block
        self.module = module

    def all(self, cls: type) -> list[Any]:
        return [op for op in self.module.walk() if isinstance(op, cls)]

    def one(self, cls: type) -> Any:
        (op,) = self.all(cls)
        return op

    @property
    def text(self) -> str:
        return str(self.module)


def trace_values(fn: Callable[..., Any], *classes: Any) -> Traced:
    """Rewrite and trace `fn` on run-time arguments of these classes; the module is verified."""
    rewritten = rewrite_function(fn).function
    tracer, block = Tracer(), Block(arg_types=[cls.ir_type for cls in classes])
    token = trace.active.set(tracer)
    try:
        with tracer.open_function(block):
            result = rewritten(*[cls(arg) for cls, arg in zip(classes, block.args, strict=True)])
            values = [] if result is None else [v for r in flat(result) for v in extract_to_ir_values(r)]
            tracer.opn(func.ReturnOp, values, ())
    finally:
        trace.active.reset(token)
    made = func.FuncOp("f", (list(block.arg_types), [v.type for v in values]), Region(block))
    module = ModuleOp([made])
    module.verify()
    return Traced(result, block, module)


def flat(x: Any) -> Iterator[Any]:
    if isinstance(x, (list, tuple)):
        for item in x:
            yield from flat(item)
    elif isinstance(x, (bool, int, float)):
        yield Numeric.from_python_value(x)
    else:
        yield x


def run(traced: Traced, *args: int) -> list[int]:
    """Execute a traced function on integers."""
    env: dict[SSAValue, int] = dict(zip(traced.block.args, args, strict=True))
    return execute(traced.block, env)


COMPARE = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b, "sgt": lambda a, b: a > b, "sge": lambda a, b: a >= b,
}  # fmt: skip
BINARY = {
    "arith.addi": lambda a, b: a + b, "arith.subi": lambda a, b: a - b, "arith.muli": lambda a, b: a * b,
    "arith.andi": lambda a, b: a & b, "arith.ori": lambda a, b: a | b, "arith.xori": lambda a, b: a ^ b,
    "arith.shli": lambda a, b: a << b, "arith.maxsi": max, "arith.minsi": min,
}  # fmt: skip
PREDICATES = list(COMPARE)


def execute(block: Block, env: dict[SSAValue, int]) -> list[int]:
    """Run a block; the operands of its terminator."""
    for op in block.ops:
        args = [env[v] for v in op.operands]
        match op.name:
            case "arith.constant":
                out = [op.properties["value"].value.data]  # pyright: ignore
            case "arith.cmpi":
                out = [int(COMPARE[PREDICATES[op.properties["predicate"].value.data]](*args))]  # pyright: ignore
            case "arith.select":
                out = [args[1] if args[0] else args[2]]
            case "scf.if":
                region = op.regions[0 if args[0] else 1]
                out = execute(region.block, env) if region.blocks else []
            case "scf.for":
                body, state = op.regions[0].block, args[3:]
                for i in range(*args[:3]):
                    env.update(zip(body.args, [i, *state], strict=True))
                    state = execute(body, env)
                out = state
            case "scf.while":
                before, after = (r.block for r in op.regions)
                state = args
                while True:
                    env.update(zip(before.args, state, strict=True))
                    go, *out = execute(before, env)
                    if not go:
                        break
                    env.update(zip(after.args, out, strict=True))
                    state = execute(after, env)
            case "scf.yield" | "scf.condition" | "func.return":
                return args
            case _:
                out = [BINARY[op.name](*args)]
        bits = [v & 1 if str(r.type) == "i1" else v for r, v in zip(op.results, out, strict=True)]
        env.update(zip(op.results, bits, strict=True))
    return []


_count = itertools.count()


def define(source: str, **names: Any) -> Any:
    """The last function of a piece of source, with the text where `inspect` finds it."""
    text = textwrap.dedent(source)
    filename = f"<generated {next(_count)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    scope: dict[str, Any] = {"fx": fx, "Int32": Int32, "Float32": Float32, "SimpleNamespace": types.SimpleNamespace}
    scope.update(names)
    exec(compile(text, filename, "exec"), scope)
    last = [n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)][-1]
    return scope[last]


@pytest.fixture
def tracer() -> Iterator[Tracer]:
    made = Tracer()
    token = trace.active.set(made)
    with made.open_function(Block()):
        yield made
    trace.active.reset(token)


def runtime(tracer: Tracer, cls: Any) -> Any:
    """A run-time value."""
    return cls(tracer.block.insert_arg(cls.ir_type, len(tracer.block.args)))


# --- if -----------------------------------------------------------------------------------------------------------


def test_if_carries_what_both_branches_change():
    def f(a: Int32, b: Int32):
        x = 1
        y = b
        if a < b:
            x = a
        else:
            y = a
        return x, y

    traced = trace_values(f, Int32, Int32)
    op = traced.one(scf.IfOp)
    assert [str(t) for t in op.result_types] == ["i32", "i32"]
    assert all(isinstance(r, Int32) and not r.is_static() for r in traced.result)
    assert run(traced, 1, 5) == [1, 5]
    assert run(traced, 5, 1) == [1, 5]


def test_if_without_changes_has_no_results_and_no_else():
    def f(a: Int32, store: Any = None):
        if a < 3:
            effect()

    def effect():
        trace.current().opn(xdsl_test.TestOp, (), ())

    op = trace_values(f, Int32).one(scf.IfOp)
    assert not op.results
    assert not op.false_region.blocks


def test_if_that_does_nothing_is_not_emitted():
    def f(a: Int32):
        x = a
        if a < 3:
            x = a
        else:
            pass
        return x

    traced = trace_values(f, Int32)
    assert traced.all(scf.IfOp) == []
    assert traced.result.ir_value() is traced.block.args[0]


def test_integer_condition_is_tested_against_zero():
    def f(a: Int32):
        x = 0
        if a:
            x = 7
        return x

    traced = trace_values(f, Int32)
    assert "arith.cmpi ne" in traced.text
    assert [run(traced, v) for v in (0, 3)] == [[0], [7]]


def test_elif_chain_nests():
    def f(a: Int32):
        x = 0
        if a == 0:
            x = 10
        elif a == 1:
            x = 20
        elif a == 2:
            x = 30
        else:
            x = 40
        return x

    traced = trace_values(f, Int32)
    assert len(traced.all(scf.IfOp)) == 3
    assert [run(traced, v)[0] for v in range(4)] == [10, 20, 30, 40]


def test_branches_do_not_see_each_other():
    def f(a: Int32):
        data = [1, 2]
        if a < 3:
            data[0] = a
        else:
            note(data[0])
        return data

    noted: list[Any] = []
    note = noted.append
    traced = trace_values(f, Int32)
    assert noted[0].is_static() and int(noted[0]) == 1
    assert run(traced, 2) == [2, 2]
    assert run(traced, 9) == [1, 2]


ONE = Int32(1)


def test_static_conditions_choose_a_branch():
    def f(a: Int32, flag: Any = ONE):
        x = 1
        if flag:
            x = "one"
        if flag == 0:
            x = undefined  # noqa: F821
        return a if x == "one" else x

    traced = trace_values(f, Int32)
    assert traced.all(scf.IfOp) == []
    assert traced.result.ir_value() is traced.block.args[0]


def test_names_of_a_region_do_not_exist_after_it():
    def f(a: Int32):
        if a < 3:
            x = a
        else:
            x = a + 1
        return x

    first = f.__code__.co_firstlineno
    with pytest.raises(
        NameError, match=rf"'x' is defined only inside the 'if' at line {first + 1}.* Define 'x' before"
    ):
        trace_values(f, Int32)


def test_a_static_if_binds_as_python_does():
    def f(flag: Any):
        if flag:
            x = 1
        return x

    assert rewrite_function(f).function(True) == 1
    with pytest.raises(NameError, match="defined only inside the 'if'"):
        rewrite_function(f).function(False)


def test_names_of_both_branches_are_separate():
    def f(a: Int32, b: Int32):
        out = 0
        if a < b:
            t = a + 1
            out = t
        else:
            t = 2.5
            out = b
        if a > b:
            t = a - b
            out = out + t
        return out

    traced = trace_values(f, Int32, Int32)
    assert run(traced, 7, 4) == [7]
    assert run(traced, 1, 4) == [2]


# --- structure ----------------------------------------------------------------------------------------------------


def test_containers_are_carried_leaf_by_leaf():
    def f(a: Int32):
        state = {"n": 0, "pair": (a, [1, 2.0])}
        names = SimpleNamespace(total=0)
        for i in range(a):
            state["n"] = state["n"] + i
            state["pair"][1][0] = i
            names.total = names.total + 2
        return state["n"], state["pair"][1][0], names.total

    SimpleNamespace = types.SimpleNamespace
    traced = trace_values(f, Int32)
    op = traced.one(scf.ForOp)
    # The unchanged leaves (a and 2.0) are not carried.
    assert len(op.iter_args) == 3
    assert run(traced, 4) == [6, 3, 8]


def test_bool_int_and_float_are_promoted():
    def f(a: Int32):
        flag, n, x, wide = True, 1, 0.5, 1 << 40
        if a < 3:
            flag, n, x, wide = False, 2, 1.5, 1 << 41
        return flag, n, x, wide

    result = trace_values(f, Int32).result
    assert [type(v) for v in result] == [Boolean, Int32, Float32, Int64]
    assert not any(v.is_static() for v in result)


def test_result_takes_the_class_of_the_entry():
    def f(a: Int32, b: Uint32):
        x = b
        if a < 3:
            x = a
        return x

    assert type(trace_values(f, Int32, Uint32).result) is Uint32


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (
            "acc = acc + 1.0",
            r"'acc' .*for-body does not match the region entry: it was Int32 \(i32\) and became Float32",
        ),
        ("acc = [acc]", r"does not match the region entry: it was Int32 \(i32\) and became list of 1"),
        ("items.append(i)", "variable 'items' at the end of the for-body does not match the region entry"),
        ("items[0] = 0.5", r"variable 'items\[0\]' at the end of the for-body does not match"),
        ("table['new'] = i", "variable 'table' .* was dict with a and became dict with a, new"),
        ("del acc", "variable 'acc' is deleted in the for-body, so it does not match the region entry"),
        ("table['a'] = 'x'", r"variable 'table\['a'\]' .* became str 'x'"),
    ],
)
def test_changed_structure_is_refused(body: str, match: str):
    f = define(
        f"""
        def f(a):
            acc = 0
            items = [a, a]
            table = {{"a": a}}
            for i in range(a):
                {body}
        """
    )
    with pytest.raises(DSLTypeError, match=match):
        trace_values(f, Int32)


@pytest.mark.parametrize(
    ("statement", "end"),
    [
        ("if a < 3:\n        x = 0.5", "then-branch"),
        ("if a < 3:\n        x = 1\n    else:\n        x = 0.5", "else-branch"),
        ("for i in range(a):\n        x = 0.5", "for-body"),
        ("while a < x:\n        x = 0.5", "while-body"),
        ("while (x := 0.5) < 3:\n        pass", "while-condition"),
    ],
)
def test_mismatch_names_the_branch(statement: str, end: str):
    f = define(f"def f(a):\n    x = 0\n    {statement}\n")
    with pytest.raises(DSLTypeError, match=f"'x' at the end of the {end} does not match the region entry"):
        trace_values(f, Int32)


def test_none_names_the_variables():
    def f(a: Int32):
        x = None
        y = None
        if a < 3:
            x = a
            y = a
        return x, y

    with pytest.raises(DSLTypeError, match="'x', 'y' are initialized as None"):
        trace_values(f, Int32)


def test_none_in_a_container():
    def f(a: Int32):
        slots = [a, None]
        if a < 3:
            slots[1] = a

    with pytest.raises(DSLTypeError, match=r"'slots\[1\]' is initialized as None"):
        trace_values(f, Int32)


class Opaque:
    def poke(self) -> int:
        return 1


class Counting:
    def __init__(self) -> None:
        self.calls = 0
        self.last: Any = None

    def twice(self, x: Any, keep: bool = False) -> Any:
        self.calls += 1
        if keep:
            self.last = x
        return x * 2


def test_methods_of_plain_objects_are_called_while_tracing():
    def f(a: Int32):
        helper = Opaque()
        other = Counting()
        n = a
        for _i in range(3):
            n = other.twice(n) + helper.poke()
        return n

    with pytest.warns(FlyDSLWarning, match="'other.calls' is changed in the for-body") as told:
        traced = trace_values(f, Int32)
    assert run(traced, 5) == [5 * 8 + 7]
    assert told[0].filename == __file__, "at the user's line"


@pytest.mark.filterwarnings("ignore::flydsl.errors.FlyDSLWarning")
def test_an_object_cannot_take_a_value_out_of_a_region():
    def f(a: Int32):
        other = Counting()
        if a < 3:
            other.twice(a + 1, keep=True)

    with pytest.raises(DSLTypeError, match="IR values from 'other', a Counting: its 'last' becomes Int32"):
        trace_values(f, Int32)


def test_bare_ir_values_of_what_a_variable_was_are_carried():
    def f(a: Int32):
        s = a
        for _i in range(3):
            s = (Int32(s) + 2).ir_value()
        return s

    assert run(trace_values(f, Int32), 4) == [10]


def test_one_value_comes_out_of_a_legacy_loop_bare():
    def f(a: Int32):
        for _i, state in range(0, 3, 1, init=[a]):
            result = yield [state[0] + 1]
        return result

    assert run(trace_values(f, Int32), 4) == [7]


def test_opaque_store_is_refused():
    def f(a: Int32):
        helper = Opaque()
        if a < 3:
            helper.field = a

    with pytest.raises(DSLTypeError, match="Cannot extract IR values from 'helper'"):
        trace_values(f, Int32)


OUTER = Opaque()


def test_what_is_not_a_local_object_is_captured():
    nonlocal_helper = Opaque()

    class Captured:
        __dsl_captured__ = True

        def poke(self) -> int:
            return 1

    def f(a: Int32, mode: Any = "fast", count: Any = 4, nothing: Any = None):
        math = __import__("math")
        cls = Opaque
        helper = Captured()
        numbers = [1, 2, 3]
        out = 0
        if a < 3:
            OUTER.poke()
            nonlocal_helper.poke()
            math.floor(1.5)
            cls.poke(OUTER)
            helper.poke()
            if mode.startswith("f"):
                out = numbers.index(3) + count.bit_length()
        return out, numbers

    traced = trace_values(f, Int32)
    assert run(traced, 0) == [5, 1, 2, 3]
    assert type(traced.result[1][0]) is int


def test_python_list_that_a_method_changes_is_refused():
    def f(a: Int32):
        log = []
        if a < 3:
            log.append("x")

    with pytest.raises(DSLTypeError, match="'log' at the end of the then-branch does not match the region entry"):
        trace_values(f, Int32)


def test_static_object_may_be_assigned_what_it_was():
    def f(a: Int32):
        for word in ("a", "b"):  # noqa: B007
            pass
        total = 0
        for _ in range(a):
            for word in ("a", "b"):
                total = total + len(word)
        return total

    assert run(trace_values(f, Int32), 3) == [6]


def test_static_object_may_not_change():
    def f(a: Int32):
        mode = "slow"
        if a < 3:
            mode = "fast"
        return mode

    with pytest.raises(DSLTypeError, match="Cannot extract IR values from 'mode', a str: it is changed in the then"):
        trace_values(f, Int32)


class Pair:
    """A mutable DSL value."""

    def __init__(self, a: Any, b: Any):
        self.a, self.b = a, b

    def bump(self) -> None:
        self.a = self.a + 1

    def total(self) -> Any:
        return self.a + self.b

    def __extract_to_ir_values__(self) -> list[Any]:
        return [self.a.ir_value(), self.b.ir_value()]

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[Any], exemplar: Any = None) -> Any:
        return cls(Int32(values[0]), Int32(values[1]))


def test_mutable_dsl_values_are_carried_by_method_calls():
    def f(a: Int32):
        p = Pair(a, a)
        for _ in range(3):
            p.bump()
        if a < 0:
            p.b = a - 1
        return p

    traced = trace_values(f, Int32)
    assert len(traced.one(scf.ForOp).iter_args) == 1
    assert len(traced.one(scf.IfOp).results) == 1
    assert run(traced, 2) == [5, 2]
    assert run(traced, -2) == [1, -3]


def test_receiver_that_is_only_read_stays_the_same_object():
    def f(a: Int32):
        p = Pair(a, a)
        before = p
        out = 0
        for _ in range(a):
            out = out + p.total()
        while out > 100:
            out = out - p.total()
        return p is before, out

    traced = trace_values(f, Int32)
    assert traced.result[0] is True
    assert len(traced.one(scf.ForOp).iter_args) == 1
    assert len(traced.one(scf.WhileOp).arguments) == 1
    assert run(traced, 3) == [1, 18]


def test_static_dsl_value_must_stay_equal():
    class Shape:
        def __init__(self, n: int):
            self.n = n

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Shape) and other.n == self.n

        def __repr__(self) -> str:
            return f"<{self.n}>"

        def __extract_to_ir_values__(self) -> list[Any]:
            return []

        @classmethod
        def __construct_from_ir_values__(cls, values: Sequence[Any], exemplar: Any = None) -> Any:
            return exemplar

    def f(a: Int32, n: Any):
        shape = Shape(4)
        if a < 3:
            shape = Shape(n)  # noqa: F841
        return a

    good = rewrite_function(f)
    assert good.function(5, 8) == 5
    trace_values(lambda_free(f, 4), Int32)
    with pytest.raises(DSLTypeError, match="does not match the region entry: it was Shape <4> and became Shape <8>"):
        trace_values(lambda_free(f, 8), Int32)


def lambda_free(f: Any, n: int) -> Any:
    """`f` with a default for its second parameter."""
    made = types.FunctionType(f.__code__, f.__globals__, f.__name__, (n,), f.__closure__)
    return made


def test_closures_see_the_carried_values():
    def f(a: Int32):
        acc = 0
        log = [a]

        def bump(k: Any):
            nonlocal acc
            acc = acc + k
            log[0] = log[0] + 1

        def read():
            return acc

        for i in range(a):
            bump(i)
            acc = read() + 1
        if a > 2:
            bump(100)
        return acc, log

    assert run(trace_values(f, Int32), 4) == [4 + 6 + 100, 9]


def test_region_in_a_nested_function_changes_outer_containers():
    def f(a: Int32):
        data = [a, 0]

        def put(k: Any):
            if k < 3:
                data[1] = data[1] + k
            for j in range(k):
                data[0] = data[0] + j

        put(a)
        put(2)
        return data

    def expected(a: int) -> list[int]:
        return [a + sum(range(a)) + 1, (a if a < 3 else 0) + 2]

    traced = trace_values(f, Int32)
    for a in range(5):
        assert run(traced, a) == expected(a)


def test_warning_points_at_the_loop():
    def f(n: Any):
        for _ in range(n):
            pass

    with pytest.warns(FlyDSLWarning) as caught:
        trace_values(f, Index)
    assert (caught[0].filename, caught[0].lineno) == (__file__, f.__code__.co_firstlineno + 1)


# --- for ----------------------------------------------------------------------------------------------------------


def test_for_counts_with_int32():
    def f(a: Int32, b: Int32):
        n = 0
        last = a
        for i in range(a, b, 2):
            n = n + 1
            last = i
            kinds.append(type(i))
        return n, last

    kinds: list[Any] = []
    traced = trace_values(f, Int32, Int32)
    op = traced.one(scf.ForOp)
    assert str(op.lb.type) == "i32"
    assert kinds == [Int32]
    assert run(traced, 1, 8) == [4, 7]
    assert run(traced, 8, 1) == [0, 8]


def test_loop_variable_that_existed_is_carried():
    def f(a: Int32):
        i = 100
        for i in range(a):  # noqa: B007
            pass
        return i

    traced = trace_values(f, Int32)
    assert run(traced, 5) == [4]
    assert run(traced, 0) == [100]


def test_loop_variable_does_not_exist_after():
    def f(a: Int32):
        for i in range(a):  # noqa: B007
            pass
        return i

    with pytest.raises(NameError, match="'i' is defined only inside the 'for'"):
        trace_values(f, Int32)


def test_unchanged_values_are_not_carried():
    def f(a: Int32, b: Int32):
        x, y, z = a, b, 5
        for _ in range(a):
            for j in range(b):
                x = x + j
                y = y  # noqa: PLW0127
                if j < 2:
                    z = z  # noqa: PLW0127
        return x, y, z

    traced = trace_values(f, Int32, Int32)
    assert [len(op.iter_args) for op in traced.all(scf.ForOp)] == [1, 1]
    assert traced.all(scf.IfOp) == []
    assert traced.result[1].ir_value() is traced.block.args[1]
    assert run(traced, 2, 3) == [8, 3, 5]


def test_a_value_replaced_by_an_invariant_one():
    def f(a: Int32, b: Int32):
        x, y = a, b
        for _ in range(a):
            x = y
            y = y  # noqa: PLW0127
        return x, y

    traced = trace_values(f, Int32, Int32)
    assert len(traced.one(scf.ForOp).iter_args) == 1
    assert run(traced, 0, 3) == [0, 3]
    assert run(traced, 1, 3) == [3, 3]


def test_swap():
    def f(a: Int32, b: Int32):
        x, y = a, b
        for _ in range(a):
            x, y = y, x
        return x, y

    assert run(trace_values(f, Int32, Int32), 3, 9) == [9, 3]


@pytest.mark.parametrize("cls", [Int64, Float32, Boolean])
def test_bounds_must_be_i32(cls: Any):
    def f(n: Any):
        for _ in range(n):
            pass

    with pytest.raises(DSLTypeError, match="the stop of range must be i32, got " + cls.__name__):
        trace_values(f, cls)


@pytest.mark.parametrize(("bound", "text"), [("1.5", "float 1.5"), ("'x'", "str 'x'"), ("1 << 40", "does not fit")])
def test_python_bounds_must_be_i32(bound: str, text: str):
    f = define(f"def f(a):\n    for i in range(0, {bound}):\n        pass\n")
    with pytest.raises(DSLTypeError, match=f"the stop of range must be i32, .*{text}"):
        trace_values(f, Int32)


def test_index_bounds_are_cast_with_a_warning():
    def f(n: Any):
        for _ in range(n):
            pass

    with pytest.warns(FlyDSLWarning, match="stop of range is an index value"):
        traced = trace_values(f, Index)
    assert "arith.index_cast" in traced.text


@pytest.mark.parametrize("step", [0, -1])
def test_static_step_must_be_positive(step: int):
    def f(n: Any):
        for _ in range(0, n, stride):
            pass

    for stride in (step, Int32(step)):  # noqa: B007
        with pytest.raises(DSLValueError, match=f"step of range must be positive, got {step}"):
            trace_values(f, Int32)


@pytest.mark.parametrize("args", ["", "1, 2, 3, 4"])
def test_range_argument_count(args: str):
    f = define(f"def f(a):\n    for i in range({args}):\n        pass\n")
    with pytest.raises(DSLTypeError, match="range expects 1 to 3 arguments"):
        trace_values(f, Int32)


def test_unroll_hints():
    def f(n: Any):
        x = 0
        for i in range(0, n, 1, unroll=Int32(4)):
            x = x + i
        for i in fx.range(n, unroll_full=True):
            x = x + i
        return x

    a, b = trace_values(f, Int32).all(scf.ForOp)
    assert str(a.attributes["llvm.loop_annotation"]) == "#llvm.loop_annotation<unroll = <count = 4 : i32>>"
    assert str(b.attributes["llvm.loop_annotation"]) == "#llvm.loop_annotation<unroll = <full = true>>"


@pytest.mark.parametrize(
    ("hints", "error", "match"),
    [
        ("unroll=2, unroll_full=True", DSLValueError, "not both"),
        ("unroll=0", DSLValueError, "must be positive"),
        ("unroll=a", DSLTypeError, "must be a compile-time constant"),
        ("unroll=1.5", DSLTypeError, "must be an integer constant"),
        ("unroll_full=a < 3", DSLTypeError, "must be a compile-time constant"),
        ("banana=3", TypeError, "banana"),
    ],
)
def test_bad_unroll_hints(hints: str, error: type[Exception], match: str):
    f = define(f"def f(a):\n    for i in range(a, {hints}):\n        pass\n")
    with pytest.raises(error, match=match):
        trace_values(f, Int32)


def test_legacy_loop():
    def f(n: Int32, b: Int32):
        other = b
        for i, state in range(0, n, 1, init=[b, 0]):
            kinds.append((type(i), type(state), [type(s) for s in state]))
            other = other + 1
            results = yield [state[0] + 2, state[1]]
        return results, other

    kinds: list[Any] = []
    traced = trace_values(f, Int32, Int32)
    op = traced.one(scf.ForOp)
    assert str(op.lb.type) == "index"
    assert kinds == [(Index, list, [Int32, Int32])]
    assert len(op.iter_args) == 2  # the second state is never changed
    assert type(traced.result[0]) is list


def test_legacy_loop_checks_what_is_yielded():
    def short(n: Int32):
        for _i, state in range(0, n, 1, init=[n, n]):
            yield [state[0]]

    def scalar(n: Int32):
        for _i, state in range(0, n, 1, init=[n]):
            yield state[0]

    with pytest.raises(
        DSLTypeError, match="variable 'init' at the end of the for-body does not match the region entry"
    ):
        trace_values(short, Int32)
    with pytest.raises(DSLTypeError, match="must yield a list"):
        trace_values(scalar, Int32)


def test_static_bounds_still_make_a_loop():
    def f(a: Int32):
        n = 0
        for i in range(3):
            n = n + i
        return n

    assert run(trace_values(f, Int32), 0) == [3]


def test_range_constexpr_takes_static_numbers(tracer: Tracer):
    assert list(fx.range_constexpr(Int32(1), 6, Int32(2))) == [1, 3, 5]
    with pytest.raises(DSLRuntimeError, match="no Python integer"):
        fx.range_constexpr(runtime(tracer, Int32))


# --- while --------------------------------------------------------------------------------------------------------


def test_while_carries_counters():
    def f(a: Int32):
        n = 0
        v = a
        while v > 1 and n < 10:
            v = v - 3
            n += 1
        return v, n

    traced = trace_values(f, Int32)
    assert run(traced, 10) == [1, 3]
    assert run(traced, 100) == [70, 10]
    assert run(traced, 0) == [0, 0]


def test_while_condition_may_bind():
    def f(a: Int32, b: Int32):
        total = 0
        i = a
        while (left := b - i) > 0:
            total = total + left
            i = i + 1
        return total

    traced = trace_values(f, Int32, Int32)
    op = traced.one(scf.WhileOp)
    assert len(op.arguments) == 2
    assert len(op.results) == 3
    assert run(traced, 1, 4) == [6]


def test_while_on_an_invariant_condition():
    def f(a: Int32, flag: Int32):
        n = a
        while flag:
            n = n + 1
        return n

    traced = trace_values(f, Int32, Int32)
    assert len(traced.one(scf.WhileOp).arguments) == 1
    assert run(traced, 4, 0) == [4]


def test_while_true_is_a_loop():
    def f(a: Int32):
        while True:
            pass

    assert "scf.while" in trace_values(f, Int32).text


# --- expressions --------------------------------------------------------------------------------------------------


def test_conditional_expression_traces_each_arm_once():
    def f(a: Int32):
        return count(a) if a < 3 else count(a + 1)

    calls: list[Any] = []

    def count(x: Any) -> Any:
        calls.append(x)
        return x * 2

    traced = trace_values(f, Int32)
    assert len(calls) == 2
    assert [run(traced, v)[0] for v in (1, 5)] == [2, 12]


@pytest.mark.parametrize(
    ("arms", "cls"),
    [
        ("x if c else 0", Float32),
        ("0.0 if c else x", Float32),
        ("a if c else 1", Int32),
        ("1 if c else 2", Int32),
        ("1 if c else 2.5", Float32),
        ("True if c else (a < 5)", Boolean),
        ("w if c else 1 << 40", Int64),
        ("1 << 40 if c else 2", Int64),
    ],
)
def test_literals_take_the_class_of_the_other_arm(arms: str, cls: Any):
    f = define(f"def f(a, x, w):\n    c = a < 3\n    return {arms}\n")
    assert type(trace_values(f, Int32, Float32, Int64).result) is cls


@pytest.mark.parametrize(
    ("arms", "match"),
    [
        ("x if c else a", r"Float32 \(f32\) in the first and Int32 \(i32\) in the second"),
        ("a if c else 1.5", "Int32 .* Float32"),
        ("a if c else 1 << 40", "Int32 .* Int64"),
        ("None if c else a", "is None"),
        ("(a, x) if c else (a, a)", r"the value\[1\] is Float32"),
        ("[a] if c else (a,)", "list of 1 in the first and tuple of 1"),
    ],
)
def test_arms_of_other_types_are_refused(arms: str, match: str):
    f = define(f"def f(a, x):\n    c = a < 3\n    return {arms}\n")
    with pytest.raises(DSLTypeError, match=match):
        trace_values(f, Int32, Float32)


def test_containers_in_arms():
    def f(a: Int32):
        return (a, [1, a]) if a < 3 else (0, [a, 2])

    traced = trace_values(f, Int32)
    assert run(traced, 1) == [1, 1, 1]
    assert run(traced, 7) == [0, 7, 2]


def test_logic_evaluates_every_operand_once():
    def f(a: Int32, b: Int32):
        return (see(a > 0) and see(b > 0) and see(a > b)) or not see(a)

    seen: list[Any] = []

    def see(x: Any) -> Any:
        seen.append(x)
        return x

    traced = trace_values(f, Int32, Int32)
    assert len(seen) == 4
    assert type(traced.result) is Boolean
    for a, b in itertools.product(range(-1, 3), repeat=2):
        assert run(traced, a, b) == [int((a > 0 and b > 0 and a > b) or not a)]


def test_chained_comparison_evaluates_the_middle_once():
    def f(a: Int32, b: Int32):
        return a < see(b) < 10 <= see(b + 8)

    seen: list[Any] = []

    def see(x: Any) -> Any:
        seen.append(x)
        return x

    traced = trace_values(f, Int32, Int32)
    assert len(seen) == 2
    for a, b in itertools.product(range(0, 12, 3), repeat=2):
        assert run(traced, a, b) == [int(a < b < 10 <= b + 8)]


def test_python_values_short_circuit():
    def f(a: Int32, no: Any = False, yes: Any = True):
        return no and boom(), yes or boom(), yes and a, no or a, Int32(0) and boom()

    def boom() -> Any:
        raise AssertionError

    result = trace_values(f, Int32).result
    assert result[:2] == (False, True)
    assert result[2] is result[3]
    assert int(result[4]) == 0


@pytest.mark.parametrize("expression", ["None or a", "a or None", "a and None"])
def test_none_in_logic_is_refused(expression: str):
    f = define(f"def f(a):\n    return {expression}\n")
    with pytest.raises(DSLValueError, match="got None"):
        trace_values(f, Int32)


def test_hooks_of_user_types():
    class Logical:
        def __dsl_bool__(self) -> Any:
            return Boolean(True)

        def __dsl_and__(self, other: Any) -> Any:
            return ("and", other)

        def __dsl_or__(self, other: Any) -> Any:
            return ("or", other)

        def __dsl_not__(self) -> Any:
            return "not"

    def f(x: Any):
        return x and 1, x or 2, not x, 3 if x else 4

    assert rewrite_function(f).function(Logical()) == (("and", 1), ("or", 2), "not", 3)


def test_raw_ir_values():
    def f(a: Int32, b: Int32):
        raw = (a < b).ir_value()
        count = a.ir_value()
        out = b.ir_value()
        if raw and not (a > 100).ir_value():
            out = count
        n = 0
        for i in range(count):
            n = n + i
        return Int32(out), n

    traced = trace_values(f, Int32, Int32)
    assert run(traced, 3, 4) == [3, 3]
    assert run(traced, 4, 3) == [3, 6]


# --- after an error -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "if a < 3:\n        x = x + 1\n        boom()",
        "if a < 3:\n        x = x + 1\n    else:\n        boom()",
        "for i in range(a):\n        x = x + i\n        boom()",
        "while x < a:\n        x = x + 1\n        boom()",
        "y = x + 1 if a < 3 else boom()",
    ],
)
def test_a_failing_body_leaves_the_tracer_usable(tracer: Tracer, statement: str):
    source = f"def f(a):\n    x = a\n    {statement}\n"
    f = define(source, boom=boom_key)
    rewritten = rewrite_function(f).function
    a = runtime(tracer, Int32)
    block = tracer.block
    with pytest.raises(KeyError):
        rewritten(a)
    assert tracer.block is block
    uses = [u.operation for u in a.ir_value().uses]
    assert all(op.parent is block for op in uses), "a detached block still uses the value"
    assert (a + 1).ir_value().owner.parent is block


def boom_key() -> Any:
    raise KeyError("boom")


def test_variables_are_put_back_after_an_error():
    def f(a: Int32):
        x = [a]
        try:
            for i in range(a):
                x[0] = x[0] + i
                boom_key()
        except KeyError:
            pass
        return x

    traced = trace_values(f, Int32)
    assert traced.result[0].ir_value() is traced.block.args[0]


def test_importing_control_flow_does_not_load_the_compiler():
    loaded = "sorted(m for m in sys.modules if m.split('.')[0] == 'xdsl')"
    code = f"import sys, flydsl.expr.control.control_flow; print({loaded})"
    path = [p for p in sys.path if p.endswith("src")]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{code}"], capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_ops_are_located_at_the_statement():
    def f(a: Int32):
        x = a
        if a < 3:
            x = a + 1
        for i in range(a):
            x = x + i
        return x

    traced = trace_values(f, Int32)
    first = f.__code__.co_firstlineno
    for cls, line in ((scf.IfOp, 2), (scf.ForOp, 4)):
        location = traced.one(cls).location
        while not hasattr(location, "filename"):
            location = location.callee
        assert location.filename.data == __file__
        assert location.line.data == first + line


# --- random programs ----------------------------------------------------------------------------------------------


class Program:
    """A random function of two integers, made of what the rewriter supports. Values stay small: every one is masked."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.fresh = itertools.count()

    def source(self) -> str:
        self.lines = ["def f(a, b):", "    x, y, z = a, 5, b & 7", "    data = [a & 15, 3]"]
        self.lines += [
            "    def bump(k):",
            "        nonlocal z",
            "        z = (z + k) & 255",
            "        data[1] = (data[1] ^ k) & 255",
        ]
        self.lines += ["    peek = lambda: (x + y) & 255"]
        self.block(1, 3, ["x", "y", "z"])
        self.lines += ["    return x, y, z, data[0], data[1]"]
        return "\n".join(self.lines) + "\n"

    def atom(self, names: list[str]) -> str:
        pick = self.random.choice
        return pick([pick(names), pick(names), "a", "b", "data[0]", "data[1]", "peek()", str(self.random.randrange(8))])

    def value(self, names: list[str]) -> str:
        r = self.random
        if r.random() < 0.2:
            return f"(({self.value(names)}) if {self.condition(names)} else ({self.value(names)}))"
        op = r.choice(["+", "-", "*", "^", "|"])
        return f"(({self.atom(names)} {op} {self.atom(names)}) & 255)"

    def condition(self, names: list[str], depth: int = 0) -> str:
        r = self.random
        kind = r.randrange(6 if depth < 2 else 2)
        compare = ["<", "<=", "==", "!=", ">"]
        if kind < 2:
            return f"{self.atom(names)} {r.choice(compare)} {self.atom(names)}"
        if kind == 2:
            return f"{self.atom(names)} {r.choice(compare)} {self.value(names)} {r.choice(compare)} {self.atom(names)}"
        if kind == 3:
            return f"not ({self.condition(names, depth + 1)})"
        word = r.choice([" and ", " or "])
        return "(" + word.join(self.condition(names, depth + 1) for _ in range(r.choice([2, 2, 3]))) + ")"

    def block(self, indent: int, depth: int, names: list[str]) -> None:
        pad, r = "    " * indent, self.random
        names = list(names)
        for _ in range(r.randrange(1, 4)):
            kind = r.randrange(10 if depth else 5)
            if kind < 2:
                self.lines.append(f"{pad}{r.choice(['x', 'y', 'z'])} = {self.value(names)}")
            elif kind == 2:
                self.lines.append(f"{pad}data[{r.randrange(2)}] = {self.value(names)}")
            elif kind == 3:
                self.lines.append(f"{pad}bump({self.atom(names)})")
            elif kind == 4:
                name = f"t{next(self.fresh)}" if r.random() < 0.7 else "t"
                self.lines.append(f"{pad}{name} = {self.value(names)}")
                names.append(name)
            elif kind < 7:
                self.lines.append(f"{pad}if {self.condition(names)}:")
                self.block(indent + 1, depth - 1, names)
                if r.random() < 0.3:
                    self.lines.append(f"{pad}elif {self.condition(names)}:")
                    self.block(indent + 1, depth - 1, names)
                if r.random() < 0.5:
                    self.lines.append(f"{pad}else:")
                    self.block(indent + 1, depth - 1, names)
            elif kind < 9:
                target = r.choice(["i", f"i{next(self.fresh)}", "x"])
                stop = r.choice([f"({self.atom(names)} & 3)", "3"])
                kind_of = r.choice(["range", "range", "range", "fx.range_constexpr"])
                if kind_of != "range":
                    stop = "2"
                self.lines.append(f"{pad}for {target} in {kind_of}({stop}):")
                self.block(indent + 1, depth - 1, [*names, target])
            else:
                counter = f"w{next(self.fresh)}"
                self.lines.append(f"{pad}{counter} = 0")
                self.lines.append(f"{pad}while {counter} < 4 and {self.condition(names)}:")
                self.block(indent + 1, depth - 1, names)
                self.lines.append(f"{pad}    {counter} += 1")


@pytest.mark.parametrize("group", some_of(range(10), 4))
def test_random_programs_compute_what_python_does(group: int):
    for seed in range(group * 20, group * 20 + 20):
        source = Program(seed).source()
        f = define(source)
        plain = rewrite_function(f).function
        traced = trace_values(f, Int32, Int32)
        for a, b in ((0, 0), (3, 9), (-5, 2), (200, 77)):
            expected = list(f(a, b))
            assert list(plain(a, b)) == expected, source
            assert run(traced, a, b) == expected, source


@pytest.mark.parametrize("group", some_of(range(10), 4))
def test_random_statements_do_what_python_says(group: int):
    for seed in range(group * 12, group * 12 + 12):
        found = wrong(random.Random(seed), define, lambda f: trace_values(f, Int32, Int32), run)
        assert found is None, found


def test_nothing_warns_on_ordinary_programs():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace_values(define("def f(a):\n    x = 0\n    for i in range(a):\n        x = x + i\n    return x\n"), Int32)
