"""`ensure-debug-info-scope-on-llvm-func`: a debug scope for every function, so that its lines are told."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePath

from xdsl.dialects.builtin import ArrayAttr, FusedLoc, ModuleOp
from xdsl.ir import Operation

from ...dialects.upstream.llvm.debug import (
    EMISSIONS,
    CompileUnitAttr,
    Distinct,
    FileAttr,
    SubprogramAttr,
    SubroutineTypeAttr,
    Word,
)
from ...dialects.upstream.llvm.function import FuncOp
from ...ir.locations import frames_of
from ..base import Pass


@dataclass(frozen=True)
class EnsureDebugInfoScopeOnLlvmFuncPass(Pass):
    """Give each llvm function without a debug scope one, from its location."""

    name = "ensure-debug-info-scope-on-llvm-func"
    needs = "functions of `llvm` (`convert-func-to-llvm`)"
    emission_kind: str = "LineTablesOnly"

    def __post_init__(self) -> None:
        if self.emission_kind not in EMISSIONS:
            raise ValueError(f"option 'emission-kind' is one of {', '.join(EMISSIONS)}, got {self.emission_kind!r}")

    def run(self, module: ModuleOp) -> ModuleOp:
        units: dict[FileAttr, CompileUnitAttr] = {}
        count = 0
        for op in module.walk():
            if isinstance(op, FuncOp) and not _has_scope(op):
                count += 1
                op.location = _scoped(op, units, count, self.emission_kind)
        return module


def _has_scope(op: Operation) -> bool:
    return isinstance(op.location, FusedLoc) and isinstance(op.location.metadata, SubprogramAttr)


def _scoped(op: FuncOp, units: dict[FileAttr, CompileUnitAttr], number: int, emission: str) -> FusedLoc:
    frames = frames_of(op.location)
    if not frames:
        # The ops of a kernel know their lines even where the function does not.
        frames = next((found for inner in op.walk() if (found := frames_of(inner.location))), frames)
    name, line = (frames[0].filename.data, frames[0].line.data) if frames else ("<unknown>", 1)
    path = PurePath(name if name.startswith("<") else os.path.abspath(name))
    file = FileAttr((path.name, str(path.parent)))
    if file not in units:
        fields: tuple[object, ...] = (
            ("id", Distinct(2 * len(units))),
            ("sourceLanguage", Word("DW_LANG_Python")),
            ("file", file),
            ("producer", "flydsl"),
            ("isOptimized", Word("true")),
            ("emissionKind", Word(emission)),
        )
        units[file] = CompileUnitAttr(fields)
    symbol = op.sym_name.data
    scope = SubprogramAttr(
        (
            ("id", Distinct(2 * number + 1)),
            ("compileUnit", units[file]),
            ("scope", file),
            ("name", symbol),
            ("linkageName", symbol),
            ("file", file),
            ("line", line),
            ("scopeLine", line),
            ("subprogramFlags", "Definition|Optimized"),
            ("type", SubroutineTypeAttr((("callingConvention", Word("DW_CC_normal")),))),
        )
    )
    return FusedLoc(ArrayAttr([op.location]), scope)
