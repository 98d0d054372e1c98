"""Showing what the compiler does: IR after every pass, assembly, times, as files or on the console.

Nothing here runs unless a variable asks for it: FLYDSL_DUMP_IR, FLYDSL_DEBUG_DUMP_ASM, FLYDSL_DEBUG_PRINT_*,
FLYDSL_DEBUG_TIMING, FLYDSL_DEBUG_RESOURCES.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from .. import config

_used: set[Path] = set()


def wanted() -> bool:
    """Whether the IR between passes must be there to be seen."""
    d = config.debug
    return bool(d.dump_ir or d.print_origin_ir or d.print_after_all or d.print_after or d.print_changed)


def label_of(name: str) -> str:
    """A pass name as part of a file name."""
    return re.sub(r"[^A-Za-z0-9]", "_", name).lower()


class Dumper:
    """Follows one compilation."""

    def __init__(self, name: str, kernels: list[str], key: str, render: Callable[[Any], str]):
        self._render = render
        self._number = 0
        self._last = ""
        self._title = kernels[0] if len(kernels) == 1 else name
        self._folder: Path | None = None
        if config.debug.dump_ir or config.debug.dump_asm:
            safe = re.sub(r"[^A-Za-z0-9_.-]", "_", self._title)
            folder = Path(config.debug.dump_dir) / safe
            if folder in _used:
                # Another signature of the same kernel must not overwrite the first.
                folder = folder.with_name(f"{safe}.{key[:8]}")
            _used.add(folder)
            folder.mkdir(parents=True, exist_ok=True)
            self._folder = folder

    def work_folder(self) -> Path | None:
        """Where external tools leave their files, if they are to be kept."""
        return self._folder / "passes" if self._folder is not None and config.debug.dump_ir else None

    def origin(self, module: Any) -> None:
        """The traced module."""
        if not wanted():
            return
        text = self._render(module)
        self._last = text
        if config.debug.print_origin_ir and self._prints():
            self._show("origin", text)
        self._write("origin", "mlir", text)

    def after(self, name: str, module: Any) -> None:
        """The module after a pass."""
        if not wanted():
            return
        text = self._render(module)
        pattern = config.debug.print_after
        if self._prints() and (config.debug.print_after_all or (pattern is not None and pattern.search(name))):
            self._show(f"after {name}", text)
        elif self._prints() and config.debug.print_changed and text != self._last:
            diff = difflib.unified_diff(
                self._last.splitlines(), text.splitlines(), "before", f"after {name}", lineterm=""
            )
            self._show(f"changed by {name}", "\n".join(diff))
        self._last = text
        self._write(label_of(name), "mlir", text)

    def code(self, llvm_ir: str, optimized: Callable[[], str], asm: Callable[[], str]) -> None:
        """LLVM IR and assembly."""
        if config.debug.dump_ir:
            self._write("llvm_ir", "ll", llvm_ir)
            self._write("llvm_opt", "ll", optimized())
        if self._folder is not None:
            self._write("final_isa", "s", asm())

    def finish(self, metadata: dict[str, Any]) -> None:
        """Metadata, times and resources."""
        if self._folder is not None and config.debug.dump_ir:
            (self._folder / "meta.json").write_text(json.dumps(metadata, indent=1, default=str))
            (self._folder / "times.json").write_text(json.dumps(metadata["times"], indent=1))
        report(metadata)

    def _prints(self) -> bool:
        pattern = config.debug.print_kernel
        return pattern is None or pattern.search(self._title) is not None

    def _show(self, what: str, text: str) -> None:
        sys.stderr.write(f"// -----// {self._title}: {what} //----- //\n{text}\n")

    def _write(self, label: str, extension: str, text: str) -> None:
        if self._folder is None or not (config.debug.dump_ir or extension == "s"):
            return
        path = self._folder / f"{self._number:02d}_{label}.{extension}"
        self._number += 1
        path.write_text(text)
        sys.stderr.write(f"[flydsl.compile] dump {label} -> {path}\n")


def report(metadata: dict[str, Any]) -> None:
    """Tables of times and resources, if asked for."""
    timing = config.debug.timing
    if timing == "json":
        sys.stderr.write(json.dumps({"name": metadata["name"], "times": metadata["times"]}) + "\n")
    elif timing:
        sys.stderr.write(f"[flydsl.compile] {metadata['name']} for {metadata['target']}\n")
        for name, seconds in _flat(metadata["times"]):
            sys.stderr.write(f"{seconds * 1e3:10.3f} ms  {name}\n")
    if config.debug.resources:
        for kernel in metadata["kernels"]:
            facts = ", ".join(f"{k} {v}" for k, v in kernel.items() if k != "name" and v is not None)
            sys.stderr.write(f"[flydsl.compile] {kernel['name']}: {facts}\n")


def _flat(times: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    rows: list[tuple[str, float]] = []
    for name, value in times.items():
        rows += _flat(cast(Any, value), f"{prefix}{name}/") if isinstance(value, dict) else [(prefix + name, value)]
    return rows
