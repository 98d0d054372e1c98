"""Every op class, builder function and enumeration of FlyDSL 0.4.1's dialect modules is here, or says why it is not.

`mlir_names.txt` holds the names as facts, a line per dialect and kind.
"""

import mmap
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import llvmlite
import pytest
from xdsl.ir import Operation

from flydsl._mlir.intrinsics import intrinsic_of
from flydsl._mlir.signature import Signature, by_op, definition, signatures, snake
from flydsl.errors import DSLValueError

NAMES = Path(__file__).with_name("mlir_names.txt").read_text().splitlines()
PAGE = Path(__file__).parents[2] / "docs" / "coming-from-flydsl.md"
BY_HAND = {
    "arith.constant", "scf.for", "scf.if", "scf.while", "scf.index_switch", "func.call", "func.func",
    "llvm.mlir.constant", "gpu.launch_func", "gpu.func", "builtin.module", "scf.reduce", "memref.dma_start",
}  # fmt: skip
"""Ops whose classes are written, or that are never built by hand in a kernel."""


def rows(kind: str) -> list[tuple[str, list[str]]]:
    return [(parts[0], parts[2:]) for line in NAMES if (parts := line.split())[1] == kind]


def module(dialect: str) -> ModuleType:
    return import_module(f"flydsl._mlir.dialects.{dialect}")


def unsupported() -> Iterator[Signature]:
    for dialect, _ in rows("classes"):
        for signature in signatures(dialect).values():
            if definition(signature.op) is None and intrinsic_of(signature.op) is None:
                yield signature


@pytest.mark.parametrize("kind", ["classes", "functions"])
def test_every_name_is_there(kind: str) -> None:
    gaps = [f"{d}.{n}" for d, names in rows(kind) for n in names if not hasattr(module(d), n)]
    assert set(gaps) <= {"gpu.launch_"}, gaps  # the decorator around the unsupported `gpu.launch`


def test_every_enumeration_is_there() -> None:
    for dialect, (name, *members) in rows("enum"):
        found = getattr(module(dialect), name)
        wanted = {m.split("=")[0]: int(m.split("=")[1]) for m in members}
        assert {k: int(v) for k, v in found.__members__.items()} == wanted


def test_what_is_not_supported_is_documented_and_names_the_op() -> None:
    missing = list(unsupported())
    text = PAGE.read_text()
    for signature in missing:
        dialect, _, rest = signature.op.partition(".")
        families = [".".join(rest.split(".")[: n + 1]) for n in range(len(rest.split(".")))]
        assert any(f"`{dialect}.{f}`" in text or f"`{dialect}.{f}.*`" in text for f in families), signature.op
    from flydsl._mlir.dialects import llvm

    with pytest.raises(DSLValueError, match=r"'llvm\.intr\.coro\.size' is not supported"):
        llvm.CoroSizeOp(None)


def test_ops_that_become_calls_are_intrinsics_of_this_llvm() -> None:
    """LLVM takes any name, and the linker misses it: LLVM's own table is in the text of its library."""
    library = next(path for path in Path(llvmlite.__file__).parent.rglob("*llvmlite*") if path.suffix in _LIBRARIES)
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        known = {found.decode() for found in re.findall(rb"llvm\.[a-z0-9][A-Za-z0-9_.]+", text)}
    families = {".".join(parts[:i]) for name in known if (parts := name.split(".")) for i in range(2, len(parts) + 1)}
    calls = {
        signature.op: intrinsic
        for dialect, _ in rows("classes")
        for signature in signatures(dialect).values()
        if definition(signature.op) is None and signature.op not in NOT_CALLED
        if (intrinsic := intrinsic_of(signature.op)) is not None
    }
    assert len(calls) > 100 and {op: name for op, name in calls.items() if name not in families} == {}


NOT_CALLED = {"rocdl.barrier"}
"""Ops whose classes make another op."""
_LIBRARIES = {".so", ".dylib", ".dll"}


def test_every_parameter_has_a_place_in_the_definition() -> None:
    """Attributes that must be given are properties of our op, results and operands are as many."""
    wrong: list[str] = []
    for dialect, _ in rows("classes"):
        for op, signature in by_op(dialect).items():
            cls: type[Operation] | None = definition(op)
            if cls is None or op in BY_HAND:
                continue
            known = definition(op).get_irdl_definition()  # pyright: ignore[reportOptionalMemberAccess]
            spelled = {snake(name) for name in known.properties}
            for p in signature.named("attribute"):
                if not p.optional and snake(p.name).rstrip("_") not in spelled:
                    wrong.append(f"{op}: {p.name}")
            counts = len(signature.named("operand")), len(known.operands)
            if counts[0] != counts[1] and counts[1] > 1:
                wrong.append(f"{op}: operands {counts}")
    assert wrong == []
