"""`write`: pieces of an op's text in a row."""

from io import StringIO

from xdsl.dialects.builtin import StringAttr, f32, i32
from xdsl.ir import Block
from xdsl.printer import Printer

from flydsl.ir.op_text import write


def test_pieces_are_printed_by_what_they_are():
    values = Block(arg_types=[i32, f32]).args
    out = StringIO()
    write(Printer(out), " ", values, {"a": StringAttr("b")}, " : ", [v.type for v in values], " to ", i32, "!", {}, [])
    assert out.getvalue() == ' %0, %1 {a = "b"} : i32, f32 to i32!'
