"""Runs programs of the grammar in this process and prints what became of each change, as lines of JSON.

    python -m tests.stale.worker FOLDER NUMBER [--changes] [--every] [--only SLICE] [--chains N --seed S] [--plant]

Every program is called until it is warm and compared with plain Python; with `--changes` again after each change. With
`--plant` the key does not look at attributes, which must be found.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from .chains import chains
from .corners import CORNERS
from .specials import SPECIALS
from .ways import Program, programs


def write(folder: Path, number: int, made: list[Program], only: slice) -> list[tuple[int, Program]]:
    """The modules of the programs on disk, with a number in place of `@V@`."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = list(enumerate(made))[only]
    for index, each in chosen:
        for name, text in ((f"stale_p{index}", each.source), (f"stale_d{index}", each.dep)):
            (folder / f"{name}.py").write_text(
                text.replace("@V@", str(number)).replace("@FOLDER@", str(folder.parent)).replace("@I@", str(index))
            )
    return chosen


class Run:
    """One program in this process."""

    def __init__(self, index: int, made: Program):
        self.made = made
        self.module: Any = importlib.import_module(f"stale_p{index}")
        dep = importlib.import_module(f"stale_d{index}") if made.dep else None
        self.changed: Any = dep if made.where == "dep" else self.module
        space = {"__builtins__": __builtins__}
        self.call = eval(f"lambda m, x: {_in_module(made.call)}", space)
        self.oracle = eval(f"lambda m: {_in_module(made.oracle)}", space)

    def stored(self) -> int:
        x = np.full(2, -12345, np.int32)
        self.call(self.module, x)
        return int(x[0])

    def compare(self) -> str:
        """`same`, or what is wrong: the second and third call go other ways than the first."""
        expected = int(self.oracle(self.module))
        got = [self.stored() for _ in range(3)]
        return "same" if got == [expected] * 3 else f"stale: {got} instead of {expected}"


def _in_module(call: str) -> str:
    for name in ("OBJ", "RUNNER", "run(", "plain("):
        call = call.replace(name, f"m.{name}")
    return call.replace("m.RUNNER.m.", "m.RUNNER.").replace("m.OBJ", "getattr(m, 'dep', m).OBJ")


def plant_a_hole() -> None:
    """Let objects count by their class alone."""
    from flydsl.compiler.key import holders

    plain = holders.Holder.expand

    def blind(self: Any, walk: Any) -> None:
        if self.kind != "object":
            plain(self, walk)

    holders.Holder.expand = blind  # type: ignore[method-assign]
    holders._object_probe = lambda obj, names: lambda: True  # type: ignore[assignment]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("number", type=int)
    parser.add_argument("--changes", action="store_true")
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--plant", action="store_true")
    parser.add_argument("--only", default="::", help="a slice of the programs")
    parser.add_argument("--chains", type=int, default=0, help="so many random programs instead")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.plant:
        plant_a_hole()
    os.environ["STALE_NUMBER"] = str(options.number)
    (options.folder.parent / "number.txt").write_text(str(options.number))
    only = slice(*(int(part) if part else None for part in options.only.split(":")))
    every = [*programs(options.every), *SPECIALS, *CORNERS]
    made = chains(options.chains, options.seed) if options.chains else every
    chosen = write(options.folder, options.number, made, only)
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(options.folder))

    for index, made in chosen:
        _program(index, made, options.changes, options.number)
    from flydsl.compiler.cache import totals

    print(json.dumps({"cache": totals.as_dict()}), flush=True)


def _program(index: int, made: Program, changes: bool, number: int) -> None:
    def tell(change: str, result: str, effective: bool = True) -> None:
        line = {"family": made.family, "program": made.name, "index": index, "change": change, "result": result}
        print(json.dumps({**line, "effective": effective}), flush=True)

    try:
        run = Run(index, made)
        tell("", run.compare())
    except Exception as error:  # noqa: BLE001 - whatever happens is told
        tell("", f"error: {type(error).__name__}: {error}")
        return
    for change in made.changes if changes else ():
        try:
            before = run.oracle(run.module)
            exec(change.replace("@V@", str(number)).replace("@I@", str(index)), vars(run.changed))
            after = run.oracle(run.module)
            tell(change, run.compare(), effective=(type(before), before) != (type(after), after))
        except Exception as error:  # noqa: BLE001 - whatever happens is told
            tell(change, f"error: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
