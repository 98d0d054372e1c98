"""Stages replaced by files: FLYDSL_COMPILE_OVERRIDE_DIR, laid out as FLYDSL_DUMP_DIR.

Dump a kernel, copy its folder, edit a stage, point the variable at the copy: the file then stands for what the compiler
made at that stage, and the stages behind it are made from it. What the files say is part of the cache key.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from ... import config
from ...errors import DSLCompileError


def _folder() -> Path | None:
    folder = config.compile.override_dir
    if folder is not None and not folder.is_dir():
        raise DSLCompileError(f"FLYDSL_COMPILE_OVERRIDE_DIR: there is no folder {folder}")
    return folder


def fingerprint() -> str:
    """Digest of every file in the folder; empty where no folder is named."""
    folder = _folder()
    if folder is None:
        return ""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            for part in (str(path.relative_to(folder)).encode(), path.read_bytes()):
                found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()


class Overrides:
    """The files of one kernel."""

    def __init__(self, folder: Path):
        self._folder = folder

    def text(self, name: str) -> str | None:
        """What stands for a stage, by its file name; the console is told."""
        path = self._folder / name
        if not path.is_file():
            return None
        config.say(f"[flydsl.compile] override {name} <- {path}\n")
        return path.read_text(encoding="utf-8")

    def later(self) -> dict[str, bytes]:
        """Files that stand for stages behind the traced module, by name."""
        found = sorted(self._folder.glob("[0-9][0-9]_*")) if self._folder.is_dir() else []
        return {path.name: path.read_bytes() for path in found if path.is_file() and not path.name.startswith("00_")}

    def module(self, name: str) -> Any | None:
        """A module that stands for a stage."""
        text = self.text(name)
        return None if text is None else parse_module(text, str(self._folder / name))


def overrides_of(title: str) -> Overrides | None:
    """The files of a kernel, if the variable names a folder."""
    folder = _folder()
    return None if folder is None else Overrides(folder / title)


def parse_module(text: str, name: str) -> Any:
    """A module from its text; a mistake in it is shown at its line."""
    from xdsl.utils.exceptions import ParseError, VerifyException

    from ...ir.parser import LocatedParser
    from ...ir.registry import make_context

    parser = LocatedParser(make_context(), text, name)
    try:
        module = parser.parse_module()
        module.verify()
    except ParseError as error:
        line, column = parser.position(error.span.start)
        quoted = text.split("\n")[line - 1]
        raise DSLCompileError(
            f"{name}:{line}:{column}: {error.msg.strip()}\n  {quoted}\n  {' ' * (column - 1)}^"
        ) from error
    except VerifyException as error:
        raise DSLCompileError(f"{name} does not verify: {error}") from error
    return module
