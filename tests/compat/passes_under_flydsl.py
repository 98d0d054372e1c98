"""Read files of IR with an installed FlyDSL and run the rest of its passes on them; say what failed.

    python passes_under_flydsl.py results.jsonl file.mlir:first-pass ...

Run it with the Python of an environment that has FlyDSL. A file is named with the number of the first pass to run.
"""

from __future__ import annotations

import json
import sys

PASSES = [
    "fly-rewrite-func-signature", "fly-canonicalize", "fly-rocdl-expand-ops", "fly-layout-lowering",
    "fly-int-swizzle-simplify", "canonicalize", "fly-convert-atom-call-to-ssa-form", "fly-promote-regmem-to-vectorssa",
    "convert-fly-to-rocdl", "canonicalize",
]  # fmt: skip
"""Both compilers' passes down to LLVM's dialect."""


def failure(path: str, first: int) -> str:
    from flydsl._mlir.passmanager import PassManager  # pyright: ignore

    import flydsl._mlir.dialects.fly  # noqa: F401
    import flydsl._mlir.dialects.fly_rocdl  # noqa: F401
    from flydsl._mlir import ir

    with ir.Context() as context, open(path, encoding="utf-8") as file:  # pyright: ignore
        context.emit_error_diagnostics = False
        try:
            module = ir.Module.parse(file.read())  # pyright: ignore
            PassManager.parse(f"builtin.module({','.join(PASSES[first:])})").run(module.operation)  # pyright: ignore
        except Exception as error:  # noqa: BLE001  (whatever it was, it is the result)
            return str(error)[:2000]
    return ""


def main(results: str, *files: str) -> None:
    with open(results, "w", encoding="utf-8") as out:
        for item in files:
            path, _, first = item.rpartition(":")
            out.write(json.dumps([path, failure(path, int(first))]) + "\n")
            out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
