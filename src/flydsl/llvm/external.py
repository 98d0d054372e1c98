"""LLVM's programs on a kernel: `opt` with a pipeline, `fly-llc` or `llc` with machine passes, `llvm-mc`.

Each failure becomes the exception that says what the user can do about it; the tool's command and output are in its
message. Nothing here falls back to something else.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from flydsl.errors import CodegenPassError, ExternalLLVMError, PassPipelineError, PluginLoadError, ToolNotFoundError
from flydsl.llvm import mir, tools
from flydsl.llvm.codegen import DeviceTarget

Emit = Literal["obj", "asm"]

# --- what is asked of the code generator --------------------------------------------------------------

_SIDES = ("before", "after", "replace", "disable")


@dataclass(frozen=True, slots=True)
class CodegenPass:
    """One machine pass and where it runs."""

    name: str
    """The pass to run; empty for `disable`."""
    kind: str = "inject"
    """`inject` at a point, `before` or `after` a pass, `replace` or `disable` one."""
    where: str = "pre-emit2"
    """The point, or the pass with `#n` if it is the n-th of that name."""

    @property
    def argument(self) -> str:
        """As an option of fly-llc."""
        return f"--{self.kind}={self.where}:{self.name}" if self.name else f"--{self.kind}={self.where}"

    def __str__(self) -> str:
        spec = self.where if self.kind == "inject" else f"{self.kind}={self.where}"
        return f"{spec}:{self.name}" if self.name else spec


def parse_codegen_pass(text: str) -> CodegenPass:
    """`pass`, `point:pass`, `before=<anchor>[#n]:pass`, `after=...`, `replace=...` or `disable=<anchor>`."""
    text = text.strip()
    where, colon, name = text.partition(":")
    side, equals, anchor = where.partition("=")
    side, anchor, name = side.strip(), anchor.strip(), name.strip()
    if equals:
        if side not in _SIDES:
            raise _bad_spec(text, f"'{side}' is none of {', '.join(_SIDES)}")
        if not anchor or bool(name) is (side == "disable"):
            raise _bad_spec(text, f"it should be {side}=<pass>" + ("" if side == "disable" else ":<mine>"))
        return CodegenPass(name, side, anchor)
    if not colon:
        if not text:
            raise _bad_spec(text, "it is empty")
        return CodegenPass(text)
    if not name or not where.strip():
        raise _bad_spec(text, "it should be <point>:<pass>")
    if where.strip() not in mir.POINTS:
        raise CodegenPassError(f"unknown point {where.strip()!r} in {text!r}; there are: {', '.join(mir.POINTS)}")
    return CodegenPass(name, "inject", where.strip())


def _bad_spec(text: str, why: str) -> CodegenPassError:
    forms = "'pass', 'point:pass', 'before=<anchor>[#n]:pass', 'after=<anchor>[#n]:pass'"
    return CodegenPassError(f"codegen pass {text!r} cannot be read: {why}. Accepted: {forms}")


# --- plugins ------------------------------------------------------------------------------------------


def check_plugins(plugins: Sequence[Path]) -> None:
    """Every plugin must be a file; asked before any tool is looked for."""
    for plugin in plugins:
        if not plugin.is_file():
            what = "is not a file" if plugin.exists() else "does not exist"
            raise PluginLoadError(f"plugin {plugin} {what}")


# --- IR -----------------------------------------------------------------------------------------------


def opt_arguments(pipeline: str, plugins: Sequence[Path], target: DeviceTarget, source: str, out: str) -> list[str]:
    """The command line of `opt`; the pipeline is one element of it, whatever characters it holds."""
    args = ["-S", *(f"--load-pass-plugin={plugin.resolve()}" for plugin in plugins), f"--passes={pipeline}"]
    args += [f"-mtriple={target.triple}", f"-mcpu={target.cpu}"]
    if target.features:
        args.append(f"-mattr={target.features}")
    return [*args, source, "-o", out]


def run_opt(
    ir_text: str, pipeline: str, plugins: Sequence[Path], target: DeviceTarget, folder: Path, flags: Sequence[str] = ()
) -> str:
    """IR text after a pipeline of `opt`; `flags` are more options of LLVM."""
    check_plugins(plugins)
    source, out = folder / "llvm_in.ll", folder / "llvm_out.ll"
    source.write_text(ir_text, encoding="utf-8")
    args = [*flags, *opt_arguments(pipeline, plugins, target, str(source), str(out))]
    try:
        tools.run_tool(tools.find_tool("opt"), args, cwd=folder, hint=f" on the pipeline '{pipeline}'")
    except tools.ToolRunError as error:
        raise classify_opt(error, pipeline) from None
    return out.read_text(encoding="utf-8")


_UNKNOWN_PASS = re.compile(r"unknown (?:\w+ )?pass(?: name)? '([^']*)'")
_NOT_LOADED = re.compile(r"(?:Could not load library|Failed to load passes from|cannot be loaded|Error opening) ?(.*)")
_WRONG_API = re.compile(r"Wrong API version on plugin|Wrong interface version|API version", re.IGNORECASE)
_CRASHED_IN = re.compile(r'Running pass "?\'?([^"\'\n]+)"?\'? on')
_VERIFIER = re.compile(r"Bad machine code: (.*)|machine verifier: (.*)|Found \d+ machine code errors")


def _classified(error: ExternalLLVMError, kind: type[ExternalLLVMError], what: str) -> ExternalLLVMError:
    made = kind(f"{what}\n{error}")
    made.returncode, made.stderr = error.returncode, error.stderr
    return made


def _crash(error: ExternalLLVMError) -> str | None:
    """In which pass a tool crashed, in words; None if it did not."""
    if (error.returncode or 0) >= 0 and "PLEASE submit a bug report" not in error.stderr:
        return None
    passes = _CRASHED_IN.findall(error.stderr)
    return f"pass '{passes[-1]}' crashed" if passes else "a pass crashed"


def unknown_option(error: ExternalLLVMError) -> ExternalLLVMError | None:
    """The error for an option LLVM does not have, if that is what went wrong."""
    match = re.search(r"Unknown command line argument '-*([^'=]+)[^']*'", error.stderr)
    return None if match is None else _classified(error, CodegenPassError, f"Unknown LLVM option {match[1]!r}")


def classify_opt(error: ExternalLLVMError, pipeline: str) -> ExternalLLVMError:
    """What a failure of `opt` means."""
    text = error.stderr
    if (option := unknown_option(error)) is not None:
        return option
    if (match := _UNKNOWN_PASS.search(text)) is not None:
        return _classified(
            error,
            PassPipelineError,
            f"unknown pass {match[1]!r}: no plugin that was loaded registers it, nor has LLVM it",
        )
    if _WRONG_API.search(text) and "plugin" in text.lower():
        what = "a plugin was built for another LLVM: its API version does not match; build it with this LLVM's headers"
        return _classified(error, PluginLoadError, what)
    if _NOT_LOADED.search(text):
        return _classified(error, PluginLoadError, "a pass plugin cannot be loaded")
    if (crash := _crash(error)) is not None:
        return _classified(error, PassPipelineError, f"{crash} while running the pipeline '{pipeline}'")
    return _classified(error, PassPipelineError, f"the pipeline '{pipeline}' failed")


# --- machine code -------------------------------------------------------------------------------------

_FLY_LLC_EXITS: dict[int, tuple[type[ExternalLLVMError], str]] = {
    1: (CodegenPassError, "fly-llc was called in a way it does not know"),
    2: (PluginLoadError, "a codegen plugin cannot be loaded"),
    3: (CodegenPassError, "fly-llc cannot read the module"),
    4: (CodegenPassError, "fly-llc's LLVM does not have this target"),
    5: (CodegenPassError, "unknown machine pass"),
    6: (CodegenPassError, "unknown point"),
    7: (CodegenPassError, "this pipeline has no such place"),
    8: (CodegenPassError, "code generation failed"),
    9: (CodegenPassError, "a machine pass broke a function"),
    10: (CodegenPassError, "fly-llc cannot read or write a file"),
}


def forced_llc() -> bool:
    """Whether FLYDSL_COMPILE_FLY_LLC=llc asks for stock llc with the injector plugin."""
    return tools.setting("FLYDSL_COMPILE_FLY_LLC") == "llc"


def find_fly_llc() -> tools.Tool:
    """fly-llc; where it was not built yet, the error says how to."""
    try:
        return tools.find_tool("fly-llc")
    except ToolNotFoundError as error:
        raise ToolNotFoundError(
            f"machine passes need the tool fly-llc, which is built once with `fly build-llc`.\n{error}"
        ) from None


def fly_llc_arguments(
    passes: Sequence[CodegenPass],
    plugins: Sequence[Path],
    target: DeviceTarget,
    level: int,
    emit: Emit,
    source: str,
    out: str,
) -> list[str]:
    """The command line of `fly-llc`."""
    args = [*mir.target_arguments(target, level), f"--emit={emit}"]
    args += [f"--plugin={plugin.resolve()}" for plugin in plugins]
    args += [each.argument for each in passes]
    return [*args, source, "-o", out]


def run_fly_llc(
    source: Path,
    passes: Sequence[CodegenPass],
    plugins: Sequence[Path],
    target: DeviceTarget,
    level: int,
    *,
    emit: Emit,
    flags: Sequence[str] = (),
) -> bytes:
    """An object or assembly of an IR file, with machine passes."""
    check_plugins(plugins)
    out = source.parent / f"codegen.{'o' if emit == 'obj' else 's'}"
    if forced_llc():
        _run_injector(source, passes, plugins, target, level, emit, out)
        return out.read_bytes()
    args = fly_llc_arguments(passes, plugins, target, level, emit, str(source), str(out))
    args += [f"--llvm-arg={flag}" for flag in flags]
    shown = ", ".join(map(str, passes))
    try:
        tools.run_tool(find_fly_llc(), args, cwd=source.parent, hint=f" on the machine passes {shown}")
    except tools.ToolRunError as error:
        raise classify_codegen(error) from None
    return out.read_bytes()


def classify_codegen(error: ExternalLLVMError) -> ExternalLLVMError:
    """What a failure of `fly-llc` means."""
    if (crash := _crash(error)) is not None:
        return _classified(error, CodegenPassError, crash)
    if (option := unknown_option(error)) is not None:
        return option
    kind, what = _FLY_LLC_EXITS.get(error.returncode or 0, (CodegenPassError, "code generation failed"))
    line = next((line for line in error.stderr.splitlines() if line.startswith("fly-llc: error: ")), "")
    detail = line.removeprefix("fly-llc: error: ")
    if not detail and (match := _VERIFIER.search(error.stderr)):
        detail = match[0]
    return _classified(error, kind, f"{what}: {detail}" if detail else what)


def injector_path() -> Path:
    """The injector plugin of stock llc; it lies beside fly-llc."""
    tried = [folder / "fly-llc-injector.so" for folder in tools.fly_llc_folders()]
    for path in tried:
        if path.is_file():
            return path
    raise ToolNotFoundError(
        "stock llc needs the injector plugin, which `fly build-llc` builds. Tried:\n  " + "\n  ".join(map(str, tried))
    )


def injector_anchors(passes: Sequence[CodegenPass], target: DeviceTarget, level: int) -> list[tuple[str, str]]:
    """(anchor, pass) for stock llc, which can only add a pass after another one."""
    found: list[tuple[str, str]] = []
    for each in passes:
        if each.kind == "inject":
            place = mir.require_anchor(each.where, target.triple, level)
            if place.side == "after":
                found.append((place.name, each.name))
                continue
        elif each.kind == "after" and "#" not in each.where:
            found.append((each.where, each.name))
            continue
        raise CodegenPassError(
            f"'{each}' needs fly-llc: stock llc can only add a pass after another one. Build it with `fly build-llc`"
        )
    return found


def _run_injector(
    source: Path,
    passes: Sequence[CodegenPass],
    plugins: Sequence[Path],
    target: DeviceTarget,
    level: int,
    emit: Emit,
    out: Path,
) -> None:
    pairs = injector_anchors(passes, target, level)
    base = mir.target_arguments(target, level)
    loads = [f"-load={plugin.resolve()}" for plugin in (*plugins, injector_path())]
    env = {"FLY_LLC_INJECT": ";".join(f"{anchor}:{name}" for anchor, name in pairs)}
    try:
        done = tools.run_tool(
            tools.find_tool("llc"),
            [*loads, *base, f"-filetype={emit}", "-debug-pass=Structure", str(source), "-o", str(out)],
            cwd=source.parent,
            env=env,
        )
    except tools.ToolRunError as error:
        raise classify_codegen(error) from None
    _check_injected(done, pairs)


def _check_injected(done: subprocess.CompletedProcess[str], pairs: Sequence[tuple[str, str]]) -> None:
    """llc says nothing when an anchor is not in its pipeline; its list of arguments tells."""
    ran = {word.lstrip("-") for word in done.stderr.split()}
    for anchor, name in pairs:
        if f"-{name}" not in done.stderr and name not in ran:
            raise CodegenPassError(f"pass {name!r} did not run: llc's pipeline has no {anchor!r}")


def assemble(asm: str, target: DeviceTarget, folder: Path) -> bytes:
    """An object of assembly text, by `llvm-mc`."""
    source, out = folder / "edited.s", folder / "edited.o"
    source.write_text(asm, encoding="utf-8")
    args = ["-filetype=obj", f"-triple={target.triple}", f"-mcpu={target.cpu}"]
    if target.features:
        args.append(f"-mattr={target.features}")
    if target.reloc == "pic":
        args.append("-position-independent")
    args += [str(source), "-o", str(out)]
    tools.run_tool(tools.find_tool("llvm-mc"), args, cwd=folder, error=CodegenPassError)
    return out.read_bytes()


# --- identity -----------------------------------------------------------------------------------------

_libraries: dict[tuple[str, int, int], tuple[Path, ...]] = {}


def libraries_of(tool: Path) -> tuple[Path, ...]:
    """The shared LLVM libraries a tool loads: a distribution's tools are small front ends of one of those."""
    info = tool.stat()
    key = (str(tool), info.st_size, info.st_mtime_ns)
    known = _libraries.get(key)
    if known is None:
        known = _libraries[key] = tuple(sorted(_loaded(tool)))
    return known


def _loaded(tool: Path) -> set[Path]:
    if sys.platform.startswith("linux"):
        try:
            done = subprocess.run(["ldd", str(tool)], capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired):  # No ldd here: look beside the tool instead.
            done = None
        if done is not None and done.returncode == 0:
            paths = re.findall(r"=> (\S*/lib(?:LLVM|lld|LTO)\S*)", done.stdout)
            return {Path(path).resolve() for path in paths}
    folder = tool.resolve().parent.parent / "lib"
    return {path.resolve() for path in (*folder.glob("libLLVM*.so*"), *folder.glob("libLLVM*.dylib"))}
