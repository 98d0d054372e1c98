"""Showing what the compiler does: IR after every pass, assembly, times, as files or on the console.

Nothing here runs unless a variable asks for it: FLYDSL_DUMP_IR, FLYDSL_DEBUG_DUMP_ASM, FLYDSL_DEBUG_PRINT_*,
FLYDSL_DEBUG_TIMING, FLYDSL_DEBUG_RESOURCES.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ... import config
from ...errors import DSLCompileError, LostOutputWarning
from .overrides import overrides_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

_used: set[Path] = set()

Watcher = Callable[[str, "ModuleOp"], None]
"""Is told the name of each stage (`origin`, then the passes) and the module, which it must not change."""
_watcher: ContextVar[Watcher | None] = ContextVar("flydsl_stage_watcher", default=None)


@contextmanager
def watching(watcher: Watcher) -> Generator[None]:
    """Let somebody see the module after every pass of the compilations in a block."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def wanted() -> bool:
    """Whether the IR between passes must be there to be seen."""
    return _watcher.get() is not None or config.compile.override_dir is not None or _as_text()


def _as_text() -> bool:
    d = config.debug
    return bool(d.dump_ir or d.print_origin_ir or d.print_after_all or d.print_after or d.print_changed)


def label_of(name: str) -> str:
    """A pass name as part of a file name."""
    return re.sub(r"[^A-Za-z0-9]", "_", name).lower()


def folder_of(title: str) -> str:
    """What the folder of a kernel is called: its name, of a very long one the start and what sets it apart."""
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", title)
    return safe if len(safe) <= 200 else f"{safe[:180]}.{hashlib.sha256(title.encode()).hexdigest()[:12]}"


class Dumper:
    """Follows one compilation."""

    def __init__(self, name: str, kernels: list[str], key: str, render: Callable[[Any], str]):
        self._render = render
        self._number = 0
        self._last = ""
        self._title = kernels[0] if len(kernels) == 1 else name
        self._folder: Path | None = None
        safe = folder_of(self._title)
        self._overrides = overrides_of(safe)
        if config.debug.dump_ir or config.debug.dump_asm:
            folder = Path(config.debug.dump_dir) / safe
            if folder in _used:
                # Another signature of the same kernel must not overwrite the first.
                folder = folder.with_name(f"{safe}.{key[:8]}")
            _used.add(folder)
            self._folder = self._made(folder)

    def _made(self, folder: Path) -> Path | None:
        """A folder for files, if it can be had."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._lost(folder, error)
            return None
        return folder

    def _lost(self, path: Path, error: OSError) -> None:
        """Nothing more is written: a program runs as it does when nobody looks."""
        self._folder = None
        message = f"the stages of {self._title[:80]} are not dumped, {path} cannot be written: {error}"
        config.warn(message, LostOutputWarning)

    def _put(self, name: str, data: bytes) -> Path | None:
        """Write a file, if there is a folder for it; its path."""
        if self._folder is None:
            return None
        path = self._folder / name
        try:
            path.write_bytes(data)
        except OSError as error:
            self._lost(path, error)
            return None
        return path

    def work_folder(self) -> Path | None:
        """Where external tools leave their files, if they are to be kept."""
        return self._made(self._folder / "passes") if self._folder is not None and config.debug.dump_ir else None

    def origin(self, module: Any, repro: Callable[[Any], str] | None = None) -> Any:
        """The traced module, or the one that stands for it; `repro` gives the script that compiles that again."""
        name = self._name("origin", "mlir")
        module = self._replaced(name, module)
        if not self._seen("origin", module):
            return module
        text = self._render(module)
        self._last = text
        if config.debug.print_origin_ir and self._prints():
            self._show("origin", text)
        self._write("origin", name, text)
        if repro is not None and self._folder is not None and config.debug.dump_ir:
            script = self._put("repro.sh", repro(module).encode("utf-8", "surrogateescape"))
            if script is not None:
                script.chmod(0o755)
        return module

    def keep_overrides(self) -> bool:
        """Copy the files that stand for stages into the dump, so that they do so again; whether there are any."""
        files = self._overrides.later() if self._overrides is not None else {}
        folder = self._made(self._folder / "overrides" / folder_of(self._title)) if files and self._folder else None
        if folder is not None:
            for name, data in files.items():
                self._put(str(folder.relative_to(cast(Path, self._folder)) / name), data)
        return bool(files)

    def after(self, name: str, module: Any) -> Any:
        """The module after a pass, or the one that stands for it."""
        file = self._name(label_of(name), "mlir")
        module = self._replaced(file, module)
        if not self._seen(name, module):
            return module
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
        self._write(label_of(name), file, text)
        return module

    def llvm_ir(self, text: str) -> str:
        """LLVM IR as it goes to LLVM, or the one that stands for it."""
        name = self._name("llvm_ir", "ll")
        replaced = self._overrides.text(name) if self._overrides is not None else None
        self._write("llvm_ir", name, replaced or text)
        return replaced or text

    def optimized_ir(self) -> str | None:
        """What stands for the optimised LLVM IR, if anything does."""
        self._optimized = self._name("llvm_opt", "ll")
        return self._overrides.text(self._optimized) if self._overrides is not None else None

    def code(self, optimized: Callable[[], str], asm: Callable[[], str], extension: str, binary: bytes) -> None:
        """Optimised LLVM IR, assembly and the binary."""
        if config.debug.dump_ir:
            self._write("llvm_opt", self._optimized, optimized())
        name = self._name("final_isa", "s")
        replaced = self._overrides.text(name) if self._overrides is not None else None
        if replaced is not None and replaced != asm():
            raise DSLCompileError(f"{name} cannot replace the assembly: replace {self._optimized} or an earlier stage")
        if self._folder is not None:
            self._write("final_isa", name, asm())
        if config.debug.dump_ir:
            self._put(self._name("binary", extension), binary)

    def finish(self, metadata: dict[str, object], binary_size: int = 0) -> None:
        """Metadata, times and resources."""
        if self._folder is not None and config.debug.dump_ir:
            self._put("meta.json", json.dumps(metadata, indent=1, default=str).encode())
            self._put("times.json", json.dumps(metadata["times"], indent=1).encode())
        report(metadata, binary_size)

    def _seen(self, name: str, module: ModuleOp) -> bool:
        """Tell the watcher; whether the module is wanted as text."""
        watcher = _watcher.get()
        if watcher is not None:
            watcher(name, module)
        return _as_text()

    def _prints(self) -> bool:
        pattern = config.debug.print_kernel
        return pattern is None or pattern.search(self._title) is not None

    def _show(self, what: str, text: str) -> None:
        config.say(f"// -----// {self._title}: {what} //----- //\n{text}\n")

    def _name(self, label: str, extension: str) -> str:
        """The file of the next stage. Stages are counted whether they are written or not."""
        self._number += 1
        return f"{self._number - 1:02d}_{label}.{extension}"

    def _replaced(self, name: str, module: ModuleOp) -> object:
        other = self._overrides.module(name) if self._overrides is not None else None
        return module if other is None else other

    def _write(self, label: str, name: str, text: str) -> None:
        if self._folder is None or not (config.debug.dump_ir or name.endswith(".s")):
            return
        path = self._put(name, text.encode("utf-8", "surrogateescape"))
        if path is not None:
            config.say(f"[flydsl.compile] dump {label} -> {path}\n")


def report(metadata: dict[str, Any], binary_size: int = 0) -> None:
    """Tables of times and resources, if asked for."""
    timing = config.debug.timing
    if timing == "json":
        config.say(json.dumps({"name": metadata["name"], "times": metadata["times"]}) + "\n")
    elif timing:
        config.say(f"[flydsl.compile] {metadata['name']} for {metadata['target']}\n")
        for name, seconds in _flat(metadata["times"]):
            config.say(f"{seconds * 1e3:10.3f} ms  {name}\n")
    if config.debug.resources:
        for kernel in metadata["kernels"]:
            known = {k: v for k, v in kernel.items() if isinstance(v, int | float | str) and k != "name"}
            facts = ", ".join(f"{k} {v}" for k, v in known.items())
            size = f", binary {binary_size} bytes" if binary_size else ""
            config.say(f"[flydsl.compile] {kernel['name']}: {facts}{size}\n")
            if known.get("spills"):
                config.say(
                    f"[flydsl.compile] warning: {kernel['name']} spills {known['spills']} registers to memory: give it "
                    "smaller tiles, fewer stages, or more registers (waves_per_eu, maxnreg)\n"
                )


def _flat(times: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    rows: list[tuple[str, float]] = []
    for name, value in times.items():
        rows += _flat(cast(Any, value), f"{prefix}{name}/") if isinstance(value, dict) else [(prefix + name, value)]
    return rows
