"""A user's script as a program of its own: its arguments, its import path, its environment. Light to import."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def environment(**variables: str) -> Generator[None]:
    """Set variables for a block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def as_program(script: Path, arguments: Sequence[str]) -> Generator[None]:
    """`sys.argv` and the import path a script expects."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path


def run_program(script: Path, arguments: Sequence[str]) -> int:
    """Run a script; its exit status. What it raises goes on to the caller."""
    with as_program(script, arguments):
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as stop:
            if stop.code is not None and not isinstance(stop.code, int):
                sys.stderr.write(f"{stop.code}\n")
                return 1
            return stop.code or 0
    return 0


def cpu_variables(arch: str | None) -> dict[str, str]:
    """The variables that choose the cpu stack, playing an architecture; none leave the active one."""
    found = arch or os.environ.get("FLYDSL_COMPILE_ARCH") or "native"
    return {"FLYDSL_COMPILE_BACKEND": "cpu", "FLYDSL_COMPILE_ARCH": found}
