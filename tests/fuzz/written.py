"""Text of a module as a module: the language looks for the lines of a kernel in its file."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def written(text: str, path: Path) -> ModuleType:
    """The module that a text makes, in a file."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
