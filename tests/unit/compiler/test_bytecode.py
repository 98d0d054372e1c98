"""Our scan of instructions sees what `dis` sees, in all code of a few large modules."""

import argparse
import ast
import dis
import inspect
import re
import typing
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

from flydsl.compiler.key.bytecode import instructions

NAMED = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FAST",
         "LOAD_FAST_BORROW", "LOAD_FROM_DICT_OR_DEREF", "IMPORT_NAME", "IMPORT_FROM", "LOAD_CONST",
         "STORE_FAST"}  # fmt: skip


def codes(code: CodeType):
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from codes(const)


def singly(step: dis.Instruction) -> list[tuple[str, Any]]:
    """An instruction on two variables, as Python has them since 3.13, as two."""
    if not isinstance(step.argval, tuple) or step.opname.count("_FAST") != 2:
        return [(step.opname, step.argval)]
    names = re.split("_(?=LOAD|STORE)", step.opname)
    return list(zip(names, step.argval, strict=True))


@pytest.mark.parametrize("module", [argparse, ast, inspect, typing], ids=lambda m: m.__name__)
def test_the_scan_agrees_with_dis(module: ModuleType) -> None:
    file = Path(str(module.__file__))
    seen = 0
    for code in codes(compile(file.read_text(), str(file), "exec")):
        ours = [(name, value) for name, value in instructions(code) if name != "EXTENDED_ARG"]
        theirs = [each for step in dis.get_instructions(code) for each in singly(step) if each[0] != "EXTENDED_ARG"]
        assert [name for name, _ in ours] == [name for name, _ in theirs]
        assert [x for x in ours if x[0] in NAMED] == [x for x in theirs if x[0] in NAMED]
        seen += len(ours)
    assert seen > 1000
