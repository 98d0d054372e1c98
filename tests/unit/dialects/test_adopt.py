"""Ops of xDSL's own classes, in modules a user's pass has changed, become ops of ours; xDSL itself stays as it is."""

import subprocess
import sys
from pathlib import Path

import pytest
from xdsl.dialects import arith as xarith
from xdsl.dialects import scf as xscf
from xdsl.dialects.builtin import ModuleOp, f32, i32, i64
from xdsl.ir import Block, Operation

import flydsl
from flydsl.dialects.upstream import scf
from flydsl.dialects.upstream.adopt import adopt
from flydsl.ir import arith

ROOT = Path(flydsl.__file__).parent


def test_every_class_of_ours_is_adopted_where_it_stands():
    one = xarith.ConstantOp.from_int_and_width(1, i32)
    index = [xarith.ConstantOp.from_int_and_width(n, i32) for n in (0, 8, 2)]
    wide = xarith.ExtSIOp(one, i64)
    wide.results[0].name_hint = "wide"
    wide.attributes["note"] = f32
    same = xarith.CmpiOp(wide, wide, "eq")
    body = Block(arg_types=[i32])
    body.add_ops([xarith.ExtUIOp(body.args[0], i64), xscf.YieldOp()])
    loop = xscf.ForOp(*index, [], body)
    module = ModuleOp([one, *index, wide, same, loop])
    adopt(module)
    module.verify()
    ops = [op for op in module.walk() if type(op).__module__.startswith("flydsl")]
    assert [type(op) for op in ops] == [arith.ExtSIOp, arith.CmpiOp, scf.ForOp, arith.ExtUIOp]
    made, compared = ops[:2]
    assert made.results[0].name_hint == "wide"
    assert made.attributes == {"note": f32}
    assert set(compared.operands) == {made.results[0]}
    before = list(module.walk())
    adopt(module)
    assert list(module.walk()) == before, "there is nothing left to adopt"


@pytest.mark.parametrize("theirs", [*arith.WIDENED, *scf.WIDENED], ids=lambda cls: cls.name)
def test_ours_are_theirs_too(theirs: type[Operation]):
    ours = {**arith.WIDENED, **scf.WIDENED}[theirs]
    assert issubclass(ours, theirs)
    assert ours.name == theirs.name
    their, our = theirs.get_irdl_definition(), ours.get_irdl_definition()
    for part in ("operands", "results", "regions", "successors"):
        assert [name for name, _ in getattr(our, part)] == [name for name, _ in getattr(their, part)]
    assert their.properties.keys() <= our.properties.keys()
    assert {type(t) for t in theirs.traits} <= {type(t) for t in ours.traits}


_CHANGED = """
import importlib, pkgutil, sys
import xdsl
from xdsl.ir import Attribute

for found in pkgutil.walk_packages(xdsl.__path__, "xdsl."):
    if found.name.split(".")[1] in ("dialects", "ir", "irdl", "parser", "utils", "transforms", "traits", "printer"):
        try:
            importlib.import_module(found.name)
        except ImportError:
            pass  # asks for what is not installed

def of_xdsl():
    modules = [(n, m) for n, m in sys.modules.items() if n == "xdsl" or n.startswith("xdsl.")]
    for name, module in modules:
        yield name, module
        for where, value in list(vars(module).items()):
            if isinstance(value, type) and value.__module__.startswith("xdsl") or isinstance(value, Attribute):
                yield f"{name}.{where}", value

before = [(name, thing, dict(vars(thing))) for name, thing in of_xdsl()]

def changes():
    for name, thing, fields in before:
        now = vars(thing)
        for field in fields.keys() | now.keys():
            submodule = sys.modules.get(f"{name}.{field}")
            if now.get(field) is not fields.get(field) and (submodule is None or now.get(field) is not submodule):
                yield f"{name}.{field}"

import flydsl
for found in pkgutil.walk_packages(flydsl.__path__, "flydsl."):
    if found.name.split(".")[1] != "__main__":
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            if error.name.partition(".")[0] in ("flydsl", "xdsl"):
                raise
print("imported:", *sorted(set(changes())))

from flydsl._mlir import ir
from flydsl._mlir.dialects import arith
from flydsl._mlir.extras import types as T

module = ir.Module.create()
with ir.InsertionPoint(module.body):
    one = arith.constant(T.i32(), 1)
    total = 2 + one.ir_value() * 3
    attr = total.owner.attributes
v = T.vector(4, T.f32())
assert v.shape == [4] and v.rank == 1 and v.element_type.width == 32 == total.type.width == one.ir_value().type.width
print("used:", *sorted(set(changes())))
"""


def test_nothing_of_xdsl_is_changed():
    """No class, module or shared attribute of xDSL's has another field, once everything is imported and used.

    In a process of its own, since others may have loaded anything before."""
    done = subprocess.run([sys.executable, "-c", _CHANGED], capture_output=True, text=True, check=False)
    assert done.stdout == "imported:\nused:\n", done.stderr
    # What definitions allow is data, and would not show above.
    assert "fastmath" not in xarith.ExtFOp.get_irdl_definition().properties
    assert scf.UNSIGNED not in xscf.ForOp.get_irdl_definition().properties


def test_nobody_takes_these_dialects_from_xdsl():
    """A class of xDSL's in a table of a pass would never be met."""
    allowed = {
        "ir/arith.py",
        "dialects/upstream/arith.py",
        "dialects/upstream/scf.py",
        "dialects/upstream/extra_math.py",
        "ir/forms.py",  # below the dialects; takes `scf.while`, which is xDSL's own
    }
    wrong: list[str] = []
    for path in ROOT.rglob("*.py"):
        if path.relative_to(ROOT).as_posix() in allowed:
            continue
        for line in path.read_text().splitlines():
            taken = line.partition("from xdsl.dialects import ")[2].replace(",", " ").split()
            if {"arith", "scf"} & set(taken) or (
                line.startswith(("from xdsl.dialects.arith import ", "from xdsl.dialects.scf import "))
                and any(word.endswith("Op") for word in line.replace(",", " ").split())
            ):
                wrong.append(f"{path.relative_to(ROOT)}: {line}")
    assert wrong == []
