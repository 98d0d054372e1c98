"""Which load hooks of an artifact may run: a file does not choose what a program imports."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from flydsl import config
from flydsl.errors import ArtifactHookError


def foreign_hook(names: Iterable[str], modules: Iterable[str] = ()) -> str | None:
    """The first hook of a module that the program has neither imported nor named."""
    allowed = {*modules, *config.aot.hook_modules}
    for name in names:
        module = name.partition(":")[0]
        if module not in sys.modules and module not in allowed:
            return name
    return None


def check_hooks(artifact: str, names: Iterable[str], modules: Iterable[str] = ()) -> None:
    """Raise `ArtifactHookError` for such a hook."""
    name = foreign_hook(names, modules)
    if name is not None:
        module = name.partition(":")[0]
        raise ArtifactHookError(
            f"{artifact} has the load hook {name}, of a module that this program has not imported: import {module} "
            f"first if you trust it, or name it (flyc.load(path, hook_modules=[{module!r}]), or "
            f"FLYDSL_AOT_HOOK_MODULES={module})"
        )
