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
import flydsl
for found in pkgutil.walk_packages(flydsl.__path__, "flydsl."):
    if found.name.split(".")[1] not in ("kernels", "extension", "torch", "jax", "_mlir", "__main__"):
        importlib.import_module(found.name)

def is_ours(value):
    function = getattr(value, "__func__", value)
    return str(getattr(getattr(function, "fget", function), "__module__", "")).startswith("flydsl")

for name, module in list(sys.modules.items()):
    if name == "xdsl" or name.startswith("xdsl."):
        for where, value in vars(module).items():
            if isinstance(value, type) and value.__module__.startswith("xdsl"):
                for field, inner in vars(value).items():
                    if is_ours(inner):
                        print(f"{name}.{where}.{field}")
"""


def test_no_class_or_module_of_xdsl_is_changed():
    """Neither a method nor a field of a definition of xDSL's is ours once everything is imported.

    But for MLIR's bindings, which give numbers in types and attributes Python's operators (`_mlir/numbers.py`), and
    which nothing else loads: so this is looked at in a process of its own.
    """
    done = subprocess.run([sys.executable, "-c", _CHANGED], capture_output=True, text=True, check=True)
    assert done.stdout == ""
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
