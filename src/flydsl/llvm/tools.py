"""Finding and running external tools: `ld.lld`, `opt`, `llc`, `fly-llc`, `llvm-mc`, `ptxas`, `llvm-objdump`, ...

Nothing is looked for at import; a
version is asked for once per file (path, size, time of change).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flydsl import config
from flydsl.errors import ExternalLLVMError, ToolNotFoundError, ToolVersionError
from flydsl.errors import LinkError as LinkError

LLVM_MAJOR = 22
"""Major version of the LLVM in the supported llvmlite; a test holds it against `binding.llvm_version()`."""
MIN_LLD_MAJOR = 19
"""Older linkers answer "unknown abi version" to a code object v6."""


class ToolRunError(ExternalLLVMError):
    """A tool ended with an error, was killed or ran out of time."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One executable file and what it says of itself."""

    name: str
    path: Path
    version: tuple[int, ...]
    version_text: str


@dataclass(frozen=True, slots=True)
class _Spec:
    """How one tool is found and which versions are good."""

    variable: str | None
    version_pattern: str
    min_major: int | None = None
    exact_major: int | None = None
    any_suffix: bool = False
    """Take every `<tool>-NN` on the search path, newest first."""


_LLVM = r"LLVM version (\d+(?:\.\d+)*)"
_SPECS = {
    "ld.lld": _Spec("FLYDSL_COMPILE_LLD", r"LLD (\d+(?:\.\d+)*)", min_major=MIN_LLD_MAJOR, any_suffix=True),
    "opt": _Spec("FLYDSL_COMPILE_OPT", _LLVM, exact_major=LLVM_MAJOR),
    "llc": _Spec("FLYDSL_COMPILE_LLC", _LLVM, exact_major=LLVM_MAJOR),
    "fly-llc": _Spec("FLYDSL_COMPILE_FLY_LLC", _LLVM, exact_major=LLVM_MAJOR),
    "llvm-mc": _Spec(None, _LLVM, exact_major=LLVM_MAJOR),
    "llvm-objdump": _Spec(None, _LLVM, exact_major=LLVM_MAJOR),
    "llvm-readelf": _Spec(None, _LLVM, exact_major=LLVM_MAJOR),
    "ptxas": _Spec("FLYDSL_COMPILE_PTXAS", r"release (\d+(?:\.\d+)*)"),
}
_LLVM_PREFIXES = (
    f"/usr/lib/llvm-{LLVM_MAJOR}",
    f"/usr/lib/llvm{LLVM_MAJOR}",
    f"/opt/homebrew/opt/llvm@{LLVM_MAJOR}",
    f"/usr/local/opt/llvm@{LLVM_MAJOR}",
)
_SETTINGS = ("FLYDSL_COMPILE_LLVM_DIR", "FLYDSL_COMPILE_LLVM_ALLOW_MISMATCH", "ROCM_PATH", "CUDA_HOME", "PATH")

_lock = threading.Lock()
_versions: dict[tuple[str, int, int], tuple[tuple[int, ...], str]] = {}
_found: dict[tuple[str | None, ...], tuple[Tool, tuple[str, int, int]]] = {}


def setting(name: str) -> str | None:
    """An environment variable; empty counts as unset. The one place of this folder that reads the environment."""
    return os.environ.get(name) or None


def tool_timeout() -> float:
    """Seconds an external tool may take."""
    text = setting("FLYDSL_COMPILE_LLVM_TIMEOUT") or "600"
    try:
        return float(text)
    except ValueError as error:
        raise ExternalLLVMError(f"FLYDSL_COMPILE_LLVM_TIMEOUT must be a number of seconds, got {text!r}") from error


# --- candidates ---------------------------------------------------------------------------------------


def _path_dirs() -> list[Path]:
    return [Path(part) for part in (setting("PATH") or "").split(os.pathsep) if part]


def _suffixed(name: str) -> list[Path]:
    """`<name>-NN` on the search path, newest first, the preferred major excluded."""
    pattern = re.compile(re.escape(name) + r"-(\d+)")
    hits: list[tuple[int, Path]] = []
    for folder in _path_dirs():
        try:
            names = os.listdir(folder)
        except OSError:  # The search path may name folders that are not there.
            continue
        for entry in names:
            match = pattern.fullmatch(entry)
            if match and int(match[1]) != LLVM_MAJOR:
                hits.append((int(match[1]), folder / entry))
    return [path for _, path in sorted(hits, key=lambda hit: -hit[0])]


def fly_llc_folders() -> tuple[Path, Path]:
    """Where fly-llc is kept: inside the package, and where `fly build-llc` puts it."""
    return Path(__file__).parent / "bin", Path("~/.flydsl/bin").expanduser()


def _search(name: str, spec: _Spec) -> Iterator[Path]:
    """Candidates after the tool's own variable and the LLVM prefix, best first."""
    if name == "fly-llc":
        yield from (folder / name for folder in fly_llc_folders())
    if name == "ld.lld":
        for prefix in filter(None, (setting("ROCM_PATH"), "/opt/rocm")):
            yield Path(prefix, "llvm", "bin", name)
            yield Path(prefix, "lib", "llvm", "bin", name)
    if name != "ptxas":
        for folder in _path_dirs():
            yield folder / f"{name}-{LLVM_MAJOR}"
    for folder in _path_dirs():
        yield folder / name
    if spec.any_suffix:
        yield from _suffixed(name)
    if name == "ptxas":
        for prefix in filter(None, (setting("CUDA_HOME"), "/usr/local/cuda")):
            yield Path(prefix, "bin", name)
    else:
        for prefix in _LLVM_PREFIXES:
            yield Path(prefix, "bin", name)


# --- versions -----------------------------------------------------------------------------------------


def _stamp(path: Path) -> tuple[str, int, int]:
    info = path.stat()
    return str(path), info.st_size, info.st_mtime_ns


def _version_of(path: Path, spec: _Spec) -> tuple[tuple[int, ...], str]:
    """Version numbers and the line they stand in; empty numbers when the file does not answer as that tool does."""
    key = _stamp(path)
    with _lock:
        known = _versions.get(key)
    if known is not None:
        return known
    try:
        done = subprocess.run([str(path), "--version"], capture_output=True, text=True, timeout=60, check=False)
        text = done.stdout + done.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        text = str(error)
    match = re.search(spec.version_pattern, text)
    numbers = tuple(int(part) for part in match[1].split(".")) if match else ()
    line = next((line.strip() for line in text.splitlines() if match and match[0] in line), text.strip()[:200])
    with _lock:
        _versions[key] = numbers, line
    return numbers, line


def _refusal(name: str, version: tuple[int, ...], text: str, spec: _Spec) -> str | None:
    """Why a version cannot be used, or None."""
    if not version:
        return f"does not answer --version as {name} does: {text!r}"
    if config.compile.llvm_allow_mismatch:
        return None
    shown = ".".join(map(str, version))
    if spec.exact_major is not None and version[0] != spec.exact_major:
        return f"is version {shown}, but LLVM {spec.exact_major} is needed"
    if spec.min_major is not None and version[0] < spec.min_major:
        return f"is version {shown}, but {spec.min_major} or newer is needed"
    return None


# --- resolution ---------------------------------------------------------------------------------------


def _usable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _explicit(name: str, spec: _Spec, value: str) -> Tool:
    """The tool its own variable names: used, or an error; never passed over."""
    found = shutil.which(value) if os.sep not in value else value
    path = Path(found or value)
    if not path.is_file():
        raise ToolNotFoundError(f"{spec.variable}={value}: no such file")
    if not _usable(path):
        raise ToolNotFoundError(f"{spec.variable}={value}: the file is there but is not executable")
    return _gated(name, spec, path, f"{spec.variable}={value}")


def _gated(name: str, spec: _Spec, path: Path, shown: str) -> Tool:
    version, text = _version_of(path, spec)
    why = _refusal(name, version, text, spec)
    if why is not None:
        raise ToolVersionError(f"{shown} {why}; FLYDSL_COMPILE_LLVM_ALLOW_MISMATCH=1 uses it anyway")
    return Tool(name, path, version, text)


def _resolve(name: str, spec: _Spec) -> Tool:
    value = setting(spec.variable) if spec.variable else None
    if value is not None:
        return _explicit(name, spec, value)
    prefix = setting("FLYDSL_COMPILE_LLVM_DIR")
    tried: list[str] = []
    if prefix is not None and name != "ptxas":
        path = Path(prefix, "bin", name)
        if _usable(path):
            return _gated(name, spec, path, str(path))
        tried.append(f"{path} ({'not executable' if path.is_file() else 'no such file'})")
    wrong_version = False
    seen: set[Path] = set()
    for path in _search(name, spec):
        if path in seen:
            continue
        seen.add(path)
        if not path.is_file():
            tried.append(str(path))
            continue
        if not _usable(path):
            tried.append(f"{path} (not executable)")
            continue
        version, text = _version_of(path, spec)
        why = _refusal(name, version, text, spec)
        if why is None:
            return Tool(name, path, version, text)
        wrong_version = True
        tried.append(f"{path} ({why})")
    hint = f" Set {spec.variable} to a file." if spec.variable else ""
    listing = "\n  ".join(tried)
    error = ToolVersionError if wrong_version else ToolNotFoundError
    raise error(f"no usable {name} was found.{hint} Tried:\n  {listing}")


def _spec(name: str) -> _Spec:
    try:
        return _SPECS[name]
    except KeyError:
        raise ToolNotFoundError(f"unknown tool {name!r}; known: {', '.join(_SPECS)}") from None


def find_tool(name: str) -> Tool:
    """The tool to use; raises `ToolNotFoundError` or `ToolVersionError`."""
    spec = _spec(name)
    key = (name, *(setting(v) for v in (*_SETTINGS, *filter(None, (spec.variable,)))))
    with _lock:
        hit = _found.get(key)
    if hit is not None:
        tool, stamp = hit
        try:
            if _stamp(tool.path) == stamp:
                return tool
        except OSError:  # It was removed since; look again.
            pass
    tool = _resolve(name, spec)
    with _lock:
        _found[key] = tool, _stamp(tool.path)
    return tool


def try_find_tool(name: str) -> Tool | None:
    """The tool, or None where the search comes out empty; a tool the user named must be usable all the same."""
    spec = _spec(name)
    try:
        return find_tool(name)
    except (ToolNotFoundError, ToolVersionError):
        if spec.variable is not None and setting(spec.variable) is not None:
            raise
        prefix = setting("FLYDSL_COMPILE_LLVM_DIR")
        if prefix is not None and name != "ptxas" and Path(prefix, "bin", name).exists():
            raise
        return None


# --- running ------------------------------------------------------------------------------------------


def _environment(tool: Tool) -> dict[str, str]:
    """The process's environment; a tool of the user's LLVM prefix sees that prefix's programs and libraries first."""
    env = dict(os.environ)
    prefix = setting("FLYDSL_COMPILE_LLVM_DIR")
    if prefix is not None and tool.path.parent == Path(prefix, "bin"):
        for variable, folder in (("PATH", "bin"), ("LD_LIBRARY_PATH", "lib")):
            env[variable] = os.pathsep.join(filter(None, (str(Path(prefix, folder)), env.get(variable))))
    return env


def run_tool(
    tool: Tool,
    args: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    error: type[ExternalLLVMError] = ToolRunError,
    hint: str = "",
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end; anything but success raises `error` with command, status and output.

    `hint` is added to the first line of the message, `env` to the environment of the tool.
    """
    command = [str(tool.path), *args]

    def describe(what: str, stdout: str, stderr: str) -> str:
        parts = [f"{tool.name} {what}{hint}", f"tool: {tool.path} ({tool.version_text})"]
        parts += [f"command: {' '.join(command)}", f"directory: {cwd or os.getcwd()}"]
        parts.extend(f"{label}:\n{text.rstrip()}" for label, text in (("stdout", stdout), ("stderr", stderr)) if text)
        return "\n".join(parts)

    timeout = tool_timeout()
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            cwd=cwd,
            env={**_environment(tool), **(env or {})},
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        raise error(describe(f"did not finish within {timeout:g} s", "", "")) from expired
    except OSError as failure:
        raise error(describe(f"could not be started: {failure}", "", "")) from failure
    if done.returncode != 0:
        killed = done.returncode < 0
        what = (
            f"was killed by {signal.Signals(-done.returncode).name}"
            if killed
            else f"failed with status {done.returncode}"
        )
        failure = error(describe(what, done.stdout, done.stderr))
        failure.returncode, failure.stderr = done.returncode, done.stderr
        raise failure
    if done.stderr and config.debug.print_after_all:
        config.say(done.stderr)
    return done
