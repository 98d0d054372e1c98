"""What the page shows, as plain data: a script's functions, for each target the text of every stage, line by line.

Source lines are numbered once for the whole page (`sources`); each text has for every line the number of its source
line, or 0. A stage that changed nothing has no text of its own.
"""

from __future__ import annotations

import linecache
import os
import re
from pathlib import Path
from typing import TypeAlias, TypeVar

from xdsl.dialects.builtin import ModuleOp

from flydsl import __version__
from flydsl.compiler.listeners import watching_calls
from flydsl.llvm.text.source_lines import AsmLine, SourceLine, assembly_lines
from flydsl.llvm.text.source_lines import ir_lines as llvm_lines
from flydsl.tools.explore.costs import Costs
from flydsl.tools.explore.drawings import Drawing, drawings
from flydsl.tools.explore.ir_text import Lines, ir_lines
from flydsl.tools.explore.page import Data
from flydsl.tools.script_runs import Compiled, compiled_by, environment

L = TypeVar("L", bound=tuple[str, SourceLine | None])
Stage: TypeAlias = tuple[Lines, list[Drawing]]
"""A stage as text, and the layouts of the first one as pictures."""

_ATTACHED = re.compile(r", !dbg !\d+")
_METADATA = re.compile(r"!\d|!llvm\.dbg")


class Pictures:
    """Pictures, each once: targets mostly share them."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, svg: str) -> int:
        """Its place in the page's list."""
        return self.numbers.setdefault(svg, len(self.numbers))


class Sources:
    """Numbers of source lines, from 1."""

    def __init__(self) -> None:
        self.numbers: dict[SourceLine, int] = {}

    def number(self, line: SourceLine | None) -> int:
        """The number of a line; 0 for none."""
        if line is None:
            return 0
        if not line.filename.startswith("<"):
            line = SourceLine(os.path.abspath(line.filename), line.line)
        return self.numbers.setdefault(line, len(self.numbers) + 1)

    def text(self, lines: Lines | list[AsmLine]) -> Data:
        """Lines as one text and the numbers beside it."""
        return {"text": "\n".join(t for t, _ in lines), "map": [self.number(s) for _, s in lines]}

    def files(self) -> list[Data]:
        """The files the lines are in, whole."""
        names = dict.fromkeys(line.filename for line in self.numbers)
        return [
            {"name": name, "short": os.path.basename(name), "text": "".join(linecache.getlines(name)).rstrip("\n")}
            for name in names
        ]

    def table(self, files: list[Data]) -> list[list[int]]:
        """File and line of each number."""
        index = {file["name"]: i for i, file in enumerate(files)}
        return [[index[line.filename], line.line] for line in self.numbers]


def collect(script: Path, targets: list[str] | None) -> Data:
    """Compile what a script calls for each target (the active one where none is given)."""
    sources, pictures = Sources(), Pictures()
    functions: dict[str, Data] = {}

    def watch(name: str, module: ModuleOp) -> Stage:
        return ir_lines(module), drawings(module) if name == "origin" else []

    costs = Costs()
    with environment(FLYDSL_DEBUG_ENABLE_DEBUG_INFO="1"), watching_calls(costs.watch):
        for target in targets or [None]:
            seen: dict[str, int] = {}
            for made in compiled_by(script, target, watch=watch):
                name = made.artifact.name
                count = seen[name] = seen.get(name, 0) + 1
                title = name if count == 1 else f"{name} ({count})"
                entry = functions.setdefault(title, {"name": title, "targets": []})
                entry["targets"].append(_compiled(made, sources, pictures, costs))
    files = sources.files()
    return {
        "title": script.name,
        "label": script.name,
        "version": __version__,
        "files": files,
        "sources": sources.table(files),
        "pictures": list(pictures.numbers),
        "functions": list(functions.values()),
    }


def _compiled(made: Compiled[Stage], sources: Sources, pictures: Pictures, costs: Costs) -> Data:
    """One function for one target."""
    artifact = made.artifact
    stages: list[Data] = []
    last: Lines = []
    for name, (lines, _) in made.stages:
        same = bool(stages) and lines == last
        stages.append({"name": name, "same": True} if same else {"name": name, **sources.text(lines)})
        last = lines
    kernels = [{"name": name, **facts} for name, facts in artifact.resources.items()]
    drawn = made.stages[0][1][1] if made.stages else []
    return {
        "target": artifact.target.key(),
        "short": f"{artifact.target.backend}:{artifact.target.arch}",
        "stages": stages,
        "llvm": [
            {"name": "LLVM IR", **sources.text(_llvm(artifact.llvm_ir))},
            {"name": "optimised", **sources.text(_llvm(artifact.optimized_ir))},
        ],
        "asm": sources.text(_trim(assembly_lines(artifact.asm))),
        "binary": {"ext": artifact.metadata["binary_ext"], "size": len(artifact.binary())},
        "kernels": kernels,
        "cost": costs.data(artifact, sources.number),
        "times": artifact.metadata["times"],
        "signature": artifact.metadata.get("signature") or [],
        "drawings": [
            {"title": p.title, "picture": pictures.number(p.svg), "source": sources.number(_line(p.source))}
            for p in drawn
        ],
    }


def _line(where: tuple[str, int] | None) -> SourceLine | None:
    return None if where is None else SourceLine(*where)


def _llvm(text: str) -> Lines:
    """LLVM IR without the metadata that holds its lines."""
    lines = [
        (_ATTACHED.sub("", line), source)
        for line, source in zip(text.split("\n"), llvm_lines(text), strict=True)
        if not _METADATA.match(line)
    ]
    return _trim([(_without_subprogram(line), source) for line, source in lines])


def _without_subprogram(line: str) -> str:
    """A function's head without its debug node."""
    head, mark, tail = line.partition(" !dbg !")
    return head + tail.lstrip("0123456789") if mark and line.startswith("define") else line


def _trim(lines: list[L]) -> list[L]:
    """Without empty lines at the end."""
    while lines and not lines[-1][0].strip():
        lines.pop()
    return lines
