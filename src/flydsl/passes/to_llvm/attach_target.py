"""What `rocdl-attach-target` and `nvvm-attach-target` share: add a target to device modules whose name matches."""

from __future__ import annotations

import re

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, UnitAttr

from ...dialects.upstream import gpu
from ...dialects.upstream.target_attr import TargetAttr


def attach(module: ModuleOp, pattern: str, target: TargetAttr) -> ModuleOp:
    """Append a target to the list of every device module matched, unless it is there.

    One that says the chip alone, as traced modules have it, is the same said with less: this one takes its place, and
    code is made once.
    """
    plain = type(target).of(**{name: target.field(name) for name in ("triple", "chip", "features")})
    for op in module.ops:
        if isinstance(op, gpu.ModuleOp) and (not pattern or re.search(pattern, op.sym_name.data)):
            known = tuple(op.targets.data) if op.targets is not None else ()
            if target not in known:
                told = tuple(target if each == plain else each for each in known)
                op.properties["targets"] = ArrayAttr(told if target in told else (*told, target))
    return module


def flag_set(flags: dict[str, bool]) -> DictionaryAttr | None:
    """The flags that hold, or None."""
    held = sorted(name for name, holds in flags.items() if holds)
    return DictionaryAttr({name: UnitAttr() for name in held}) if held else None


def links(text: str) -> ArrayAttr[StringAttr] | None:
    """Bitcode files separated by commas."""
    return ArrayAttr([StringAttr(part) for part in text.split(",")]) if text else None


def check_level(level: int) -> None:
    """Optimisation levels are 0 to 3."""
    if level not in (0, 1, 2, 3):
        raise ValueError(f"option 'O' is 0 to 3, got {level}")
