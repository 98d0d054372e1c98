"""Formats of ops that are read on first use: the same text as at once, and nothing changes for others."""

from __future__ import annotations

import io
import threading

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, i32
from xdsl.dialects.test import Test
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import PyRDLOpDefinitionError

from flydsl.ir.format_on_use import formats_on_use

TEXT = '%x = "test.op"() : () -> i32\n%y = mine.twice %x\n'


def define(text: str = "$value attr-dict"):
    @irdl_op_definition
    class Twice(IRDLOperation):
        name = "mine.twice"
        value = operand_def(i32)
        result = result_def(i32)
        assembly_format = text

    return Twice


def printed(op: type[IRDLOperation]) -> str:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Test)
    context.load_dialect(Dialect("mine", [op]))
    module = Parser(context, TEXT).parse_module()
    module.verify()
    out = io.StringIO()
    Printer(out).print_op(module)
    return out.getvalue()


def test_the_same_text_as_at_once():
    with formats_on_use():
        later = define()
    assert printed(later) == printed(define())
    assert "mine.twice %x" in printed(later)


def test_a_mistake_in_a_format_is_found_at_once_outside_and_on_use_inside():
    with formats_on_use():
        wrong = define("$nothing")
        found: list[BaseException] = []

        def elsewhere() -> None:
            try:
                define("$nothing")
            except PyRDLOpDefinitionError as error:
                found.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert len(found) == 1  # another thread is not inside
    with pytest.raises(PyRDLOpDefinitionError):
        define("$nothing")
    with pytest.raises(Exception, match="expected variable to refer to"):
        printed(wrong)
    assert FormatProgram.from_str("$value attr-dict", define().get_irdl_definition()).stmts
