"""Expressions over MLIR's bindings, each with the text of its value: `mlir_expressions.txt`, run here and under FlyDSL.

    python mlir_expressions.py results.json

A line is `statements ;; expression => text`, or `=> raises Class`. What it may name is in `names()`: a small module,
its function `f` with the ops `a`, `b` and `ret`, inside `with ir.InsertionPoint(b)`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_suffix(".txt")
MODULE = """func.func @f(%x: i32, %y: i32) -> i32 {
  %a = arith.addi %x, %y overflow<nsw> : i32
  %b = arith.muli %a, %y : i32
  return %b : i32
}
func.func private @o()
"""
MODULES = "arith func llvm scf vector memref gpu math cf rocdl"


def rows() -> list[tuple[str, str]]:
    """Expressions with the texts that are expected."""
    lines = [line for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    return [(left, right) for left, _, right in (line.rpartition(" => ") for line in lines)]


def shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    return " | ".join(line.rstrip() for line in str(value).strip().splitlines())


def names() -> dict[str, Any]:
    from importlib import import_module

    ir = import_module("flydsl._mlir.ir")
    dialects = {name: import_module(f"flydsl._mlir.dialects.{name}") for name in MODULES.split()}
    module = ir.Module.parse(MODULE)
    f, other = list(module.body.operations)
    block = f.regions[0].blocks[0]
    a, b, ret = list(block.operations)
    return {
        "ir": ir, "T": import_module("flydsl._mlir.extras.types"), **dialects, "module": module, "f": f, "other": other,
        "block": block, "region": f.regions[0], "a": a, "b": b, "ret": ret, "names": [],
    }  # fmt: skip


def evaluate(line: str) -> str:
    from flydsl._mlir import ir

    try:
        with ir.Context() as context, ir.Location.unknown():
            found = {**names(), "ctx": context}
            *statements, expression = line.split(" ;; ")
            with ir.InsertionPoint(found["b"]):
                for statement in statements:
                    exec(statement, found)
                return shown(eval(expression, found))
    except Exception as error:  # noqa: BLE001  (whatever it was, it is the result)
        classes = {c.__name__: c for c in type(error).__mro__ if c.__module__ == "builtins" or c is ir.MLIRError}
        return f"raises {' '.join(classes)}"


def alone(line: str) -> str:
    """The same in a process of its own: MLIR ends one for some mistakes, also when it is over."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.write(write, evaluate(line).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return text if status == 0 else "aborts"


def agrees(got: str, wanted: str) -> bool:
    """Whether a text is the one expected; of an exception, one of its classes is named."""
    if wanted.startswith("raises "):
        return got.startswith("raises ") and wanted.split()[1] in got.split()[1:]
    return got == wanted


if __name__ == "__main__":
    evaluate("1")  # modules are loaded once, not in each child
    Path(sys.argv[1]).write_text(json.dumps({line: alone(line) for line, _ in rows()}))
