"""What the lit files of `fly` and `fly_rocdl` cover: ops, types, attributes, enum words, errors."""

import ast
import re
from pathlib import Path

import pytest

from flydsl.dialects.fly.attrs import keyword
from flydsl.dialects.fly.dialect import Fly
from flydsl.dialects.fly_rocdl.ops import FlyRocdl

ROOT = Path(__file__).resolve().parents[3]
LIT = ROOT / "tests" / "filecheck" / "dialects"
SOURCE = ROOT / "src" / "flydsl" / "dialects"
DIALECTS = {"fly": Fly, "fly_rocdl": FlyRocdl}


def files(dialect, *, good):
    """Text of the lit files of a dialect: those that only print what they read, or those of errors."""
    found = ""
    for path in sorted((LIT / dialect).glob("*.mlir")):
        text = path.read_text()
        if ("--verify-diagnostics" in text) != good and "--fly-" not in text.splitlines()[0]:
            found += text
    return found


ROUND_TRIPS = {name: files(name, good=True) for name in DIALECTS}
ERRORS = "".join(files(name, good=False) for name in DIALECTS)


@pytest.mark.parametrize("op", [op.name for d in DIALECTS.values() for op in d.operations])
def test_every_op_has_a_round_trip(op):
    text = ROUND_TRIPS[op.split(".")[0]]
    assert re.search(rf"(?<![\w.\"]){re.escape(op)}(?![\w.])", text), f"{op} is in no round trip"
    assert re.search(rf"CHECK.*{re.escape(op)}(?![\w.])", text), f"{op} is in no check"


@pytest.mark.parametrize("name", [a.name for d in DIALECTS.values() for a in d.attributes])
def test_every_type_and_attribute_has_a_round_trip(name):
    dialect, rest = name.split(".", 1)
    text = ROUND_TRIPS["fly"] + ROUND_TRIPS["fly_rocdl"]
    spellings = (rf"!{name}<", rf"#{dialect}<{rest}\b", rf"#{name}\b", rf"#{dialect}\.{rest}")
    assert any(re.search(rf"CHECK.*{s}", text) for s in spellings), f"{name} is in no check"


@pytest.mark.parametrize("attr", [a for a in Fly.attributes if hasattr(a, "enum")], ids=lambda a: a.name)
def test_every_enum_word_has_a_round_trip(attr):
    name = attr.name.removeprefix("fly.")
    checks = "\n".join(line for line in ROUND_TRIPS["fly"].splitlines() if "CHECK" in line)
    assert set(re.findall(rf"#fly<{name} (\w+)>", checks)) == {keyword(word) for word in attr.enum}


# --- errors -------------------------------------------------------------------------------------------------------

WHILE_A_PASS_RUNS = (
    "lower",
    "_padding",
    "_stride",
    "_descriptor",
    "check_arch",
    "load_fragment",
    "emulate",
    "tv_layout",
    "steps",
    "semantics.get_stride",
)
"""Functions (or `file.function`) whose errors IR alone cannot cause; they are in the lit files of the passes or in
tests of kernels."""


def messages():
    """(file, line, longest fixed piece) of every error the dialects can show for IR alone."""
    for path in sorted([*(SOURCE / "fly").glob("*.py"), *(SOURCE / "fly_rocdl").glob("*.py")]):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            if node.name in WHILE_A_PASS_RUNS or f"{path.stem}.{node.name}" in WHILE_A_PASS_RUNS:
                for inner in ast.walk(node):
                    inner.skip = True
        for node in ast.walk(tree):
            call = node.exc if isinstance(node, ast.Raise) else node
            if getattr(node, "skip", False) or not isinstance(call, ast.Call) or not call.args:
                continue
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if isinstance(node, ast.Raise) or name == "raise_error":
                piece = longest_piece(call.args[0])
                if piece is not None and name not in ("NotImplementedError", "DSLCompileError"):
                    yield pytest.param(piece, id=f"{path.parent.name}/{path.name}:{call.lineno}")


def longest_piece(node):
    """The longest stretch of a message that is always the same."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    fixed = [v.value for v in node.values if isinstance(v, ast.Constant) and isinstance(v.value, str)]
    return max((p for f in fixed for p in f.split("\n")), key=len, default="").strip()


@pytest.mark.parametrize("piece", list(messages()))
def test_every_error_is_in_an_invalid_file(piece):
    assert piece in ERRORS
