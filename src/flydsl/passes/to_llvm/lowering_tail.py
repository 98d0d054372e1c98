"""The end of a pipeline that takes a module from `arith`, `scf`, `vector`, `gpu` to `llvm`.

A compilation applies the rules of these passes to a sink that writes LLVM IR (`llvm/text/structured.py`): the text is
the same and made several times faster. They run when somebody wants to see the IR between them, hooks a pass of theirs
to one of them, or asks for them with `fly-opt`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..pipeline import pass_names

LOWERING = frozenset(
    {
        "convert-scf-to-cf",
        "cse",
        "convert-gpu-to-rocdl",
        "convert-gpu-to-nvvm",
        "fly-rocdl-cluster-attr",
        "rocdl-attach-target",
        "nvvm-attach-target",
        "convert-cf-to-llvm",
        "gpu-to-llvm",
        "convert-vector-to-llvm",
        "convert-arith-to-llvm",
        "convert-math-to-llvm",
        "convert-func-to-llvm",
        "reconcile-unrealized-casts",
        "ensure-debug-info-scope-on-llvm-func",
    }
)
"""Passes whose effect on the code the direct translation has too."""


def split_lowering(fragments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The pipeline up to the upper dialects, and the rest if that is nothing but the whole way to `llvm`.

    Works on the text: the modules of passes that do not run are not imported.
    """
    names = [pass_names(fragment) for fragment in fragments]
    at = next((i for i, found in enumerate(names) if found and found[-1].startswith("convert-fly-to-")), None)
    if at is None:
        return list(fragments), []
    end = at + 2 if names[at + 1 : at + 2] == [["canonicalize"]] else at + 1
    rest = {name for found in names[end:] for name in found}
    whole = "gpu-to-llvm" in rest and rest & {"convert-gpu-to-rocdl", "convert-gpu-to-nvvm"}
    if not whole or not rest <= LOWERING:
        return list(fragments), []
    return list(fragments[:end]), list(fragments[end:])


__all__ = ["LOWERING", "split_lowering"]
