"""Programs in the style of FlyDSL's users, by theme. Each file adds its own; all are in `PROGRAMS`."""

from importlib import import_module
from pathlib import Path

from .case import ALL, CDNA, PROGRAMS, WAVE32, Call, Program, instructions

__all__ = ["ALL", "CDNA", "PROGRAMS", "WAVE32", "Call", "Program", "instructions"]

for file in sorted(Path(__file__).parent.glob("*.py")):
    if file.stem not in ("__init__", "case"):
        import_module(f".{file.stem}", __name__)
