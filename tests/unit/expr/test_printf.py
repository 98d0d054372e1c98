"""printf: what becomes text while tracing, and what is left for run time."""

import re

import pytest

import flydsl.expr as fx


@pytest.fixture
def printed(in_kernel):
    """Format and operand types of the prints in a kernel body."""

    def run(body):
        text = in_kernel(body)
        return re.findall(r'fly\.print\(.*?\) \{format = "(.*?)"\} : \((.*?)\) -> \(\)', text)

    return run


def run_time(p, cls):
    return fx.recast_iter(cls, p).load()


def test_static_parts_are_inlined(printed):
    def body(p):
        fx.printf("n = {}, x = {}, {} {}", 3, 2.5, "text", fx.Float32)
        fx.printf("{} {} {}", fx.Int32(4), fx.Float32(2.5), fx.Boolean(True))
        fx.printf("plain")

    assert printed(body) == [("n = 3, x = 2.5, text Float32", ""), ("4 2.50 1", ""), ("plain", "")]


@pytest.mark.parametrize(
    ("cls", "type_"),
    [
        (fx.Int8, "i32"),
        (fx.Uint8, "i32"),
        (fx.Int32, "i32"),
        (fx.Uint32, "i64"),
        (fx.Int64, "i64"),
        (fx.Float16, "f32"),
        (fx.Float32, "f32"),
        (fx.Float64, "f64"),
        (fx.Boolean, "i32"),
    ],
)
def test_run_time_scalars(printed, cls, type_):
    assert printed(lambda p: fx.printf("{}!", run_time(p, cls))) == [("{}!", type_)]


def test_booleans_print_as_one(in_kernel):
    text = in_kernel(lambda p: fx.printf("{}", p[0] > 1.0))
    assert "arith.extui" in text and "extsi" not in text


def test_vectors_tuples_and_layouts(printed):
    def body(p):
        t = fx.thread_idx.x
        fx.printf("{}", p.load(fx.Float32x2))
        fx.printf("{}", fx.make_shape(4, (8, 2)))
        fx.printf("{}", fx.make_shape(4, (t, 2)))
        fx.printf("{} {}", fx.make_layout((4, 8), (1, 4)), fx.make_layout((4, t), (t, 1)))
        fx.printf("{}", fx.make_int_tuple(t))

    assert printed(body) == [
        ("[{}, {}]", "f32, f32"),
        ("(4,(8,2))", ""),
        ("(4,({},2))", "i32"),
        ("(4,8):(1,4) (4,{}):({},1)", "i32, i32"),
        ("{}", "i32"),
    ]


def test_without_a_format(printed):
    def body(p):
        fx.printf(p[0], 3, fx.thread_idx.x)

    assert printed(body) == [("{} 3 {}", "f32, i32")]


def test_percent_and_braces(printed):
    def body(p):
        fx.printf("100 % of {{}} {}", "{}")

    # `fly.print` reads {} as a value and doubled braces as text; % is plain text.
    assert printed(body) == [("100 % of {{}} {{}}", "")]


def test_structs_of_one_value(printed):
    def body(p):
        fx.printf("{}", fx.Struct["a" : fx.Float32, "n" : fx.Constexpr[int]](p[0], 3))
        fx.printf("{}", p)

    assert printed(body) == [("{}", "f32"), ("{}", "i64")]


@pytest.mark.parametrize("bad", [(1, 2), None, [3], {"a": 1}, object()])
def test_refuses_other_objects(in_kernel, bad):
    def body(p):
        with pytest.raises(ValueError, match="cannot print"):
            fx.printf("{}", bad)

    in_kernel(body)


def test_refuses_structs_of_many_values(in_kernel):
    def body(p):
        with pytest.raises(ValueError, match="cannot print"):
            fx.printf("{}", fx.Struct[fx.Float32, fx.Float32](1.0, 2.0))

    in_kernel(body)


@pytest.mark.parametrize(
    ("fmt", "args", "text"),
    [
        ("{} {}", (1,), "2 placeholders for 1"),
        ("a", (1,), "0 placeholders"),
        ("{0}", (1,), "no names"),
        ("{", (), "no placeholder"),
    ],
)
def test_format_errors(in_kernel, fmt, args, text):
    def body(p):
        with pytest.raises(ValueError, match=text):
            fx.printf(fmt, *args)

    in_kernel(body)
