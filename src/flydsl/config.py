"""Every environment variable of the product, in typed groups (`compile`, `debug`, `runtime`, `cpu`, ...).

Values are read at access, never at import, and a value that cannot be used raises an error naming the variable, its
text and what is accepted. Whether a variable takes part in the cache key is data of its declaration.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, MutableMapping
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TextIO, TypeVar, cast, overload

from flydsl.errors import ConfigError, UnknownVariableWarning

T = TypeVar("T")
C = TypeVar("C", bound=str)

_TRUE = frozenset(("1", "true", "yes", "on"))
_FALSE = frozenset(("0", "false", "no", "off", ""))


class KeyRole(Enum):
    """How a variable reaches the cache key."""

    NONE = ""
    """Not at all."""
    VALUE = "value"
    """By its value."""
    TARGET = "target"
    """Through the resolved target."""
    CONTENT = "content"
    """By the content of the files it names; their paths do not count."""
    DEBUG_INFO = "value with debug info"
    """By its value, when debug info is on."""


def usable_cores() -> int:
    """The number of CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return max(len(os.sched_getaffinity(0)), 1)
    return os.cpu_count() or 1


# `os.environ.get` decodes and raises internally (2 us); its backing dict is ten times faster but private.
_data = cast("MutableMapping[object, object] | None", getattr(os.environ, "_data", None))
_encode = cast("Callable[[str], object]", getattr(os.environ, "encodekey", str))
if not isinstance(_data, dict):
    _data = None


class Var(Generic[T]):
    """One environment variable: a descriptor whose value is parsed from the environment at each access."""

    kind: ClassVar[str] = "str"

    def __init__(
        self,
        default: T | Callable[[], T],
        doc: str,
        *,
        name: str | tuple[str, ...] = (),
        key: KeyRole = KeyRole.NONE,
        default_text: str | None = None,
    ):
        self._default = default
        self.doc = doc
        self.names: tuple[str, ...] = (name,) if isinstance(name, str) else name
        """The names looked up, in this order."""
        self.key = key
        self.attribute = ""
        self._default_text = default_text
        self._memo: tuple[str, T] | None = None

    def __set_name__(self, owner: type[EnvGroup], name: str) -> None:
        self.attribute = name
        if not self.names:
            self.names = (f"{owner.prefix}{name.upper()}",)
        self._encoded = tuple(_encode(n) for n in self.names)

    @property
    def name(self) -> str:
        """The variable's preferred name."""
        return self.names[0]

    @property
    def default(self) -> T:
        default = self._default
        return cast("T", default()) if callable(default) else default

    @property
    def default_text(self) -> str:
        if self._default_text is not None:
            return self._default_text
        default: object = self.default
        if default is None or default == () or default == "":
            return "unset"
        return str(int(default)) if isinstance(default, bool) else str(default)

    def accepts(self) -> str:
        """The accepted values, in words."""
        return "any text"

    def parse(self, text: str) -> T:
        """The value of `text`, which is not empty; raises ValueError with the reason."""
        raise NotImplementedError

    def parse_empty(self) -> T:
        """The value of a variable that is set to nothing: as if unset."""
        return self.default

    def raw(self) -> tuple[str, str] | None:
        """The name that is set and its text, or None."""
        for name, encoded in zip(self.names, self._encoded, strict=True):
            if (_data is None or encoded in _data) and (text := os.environ.get(name)) is not None:
                return name, text
        return None

    def read(self) -> T:
        """The value now."""
        if (found := self.raw()) is None:
            return self.default
        name, raw = found
        text = raw.strip()
        if not text:
            return self.parse_empty()
        memo = self._memo
        if memo is not None and memo[0] == text:
            return memo[1]
        try:
            value = self.parse(text)
        except ValueError as error:
            reason = f" ({error})" if str(error) else ""
            shown = repr(raw if len(raw) <= _SHOWN else f"{raw[:_SHOWN]}...")
            raise ConfigError(f"{name}={shown} cannot be used: expected {self.accepts()}{reason}") from None
        self._memo = (text, value)
        return value

    @overload
    def __get__(self, obj: None, owner: type[EnvGroup]) -> Var[T]: ...
    @overload
    def __get__(self, obj: EnvGroup, owner: type[EnvGroup]) -> T: ...
    def __get__(self, obj: EnvGroup | None, owner: type[EnvGroup]) -> Var[T] | T:
        if obj is None:
            return self
        # Nearly all variables are unset, and a compilation asks for a hundred.
        if _data is not None and self._encoded[0] not in _data and (len(self._encoded) == 1 or self.raw() is None):
            return self.default
        return self.read()


_SHOWN = 200
"""Characters of a value that a message shows."""


class Bool(Var[bool]):
    kind = "bool"

    def accepts(self) -> str:
        return "1, true, yes, on or 0, false, no, off"

    def parse_empty(self) -> bool:
        return False

    def parse(self, text: str) -> bool:
        word = text.lower()
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
        raise ValueError


class Int(Var[int]):
    kind = "int"

    def __init__(
        self,
        default: int | Callable[[], int],
        doc: str,
        *,
        low: int | None = None,
        high: int | None = None,
        allowed: tuple[int, ...] = (),
        name: str | tuple[str, ...] = (),
        key: KeyRole = KeyRole.NONE,
        default_text: str | None = None,
    ):
        super().__init__(default, doc, name=name, key=key, default_text=default_text)
        self.low = low
        self.high = high
        self.allowed = allowed

    def accepts(self) -> str:
        if self.allowed:
            return f"one of {', '.join(map(str, self.allowed))}"
        if self.low is not None and self.high is not None:
            return f"an integer from {self.low} to {self.high}"
        return f"an integer of at least {self.low}" if self.low is not None else "an integer"

    def parse(self, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError from None
        low = self.low is not None and value < self.low
        if low or (self.high is not None and value > self.high) or (self.allowed and value not in self.allowed):
            raise ValueError
        return value


class Str(Var[str]):
    def parse(self, text: str) -> str:
        return text


class Name(Var[str]):
    """A case-insensitive identifier; the value is lower case."""

    kind = "name"

    def parse(self, text: str) -> str:
        return text.lower()


class Choice(Var[C]):
    """One of a few words, in any case."""

    kind = "choice"

    def __init__(
        self,
        choices: tuple[C, ...],
        default: C,
        doc: str,
        *,
        name: str | tuple[str, ...] = (),
        key: KeyRole = KeyRole.NONE,
        default_text: str | None = None,
    ):
        super().__init__(default, doc, name=name, key=key, default_text=default_text)
        self.choices = choices

    def accepts(self) -> str:
        return " or ".join(c for c in self.choices if c)

    def parse(self, text: str) -> C:
        word = text.lower()
        for choice in self.choices:
            if choice and word == choice.lower():
                return choice
        close = difflib.get_close_matches(word, [c.lower() for c in self.choices if c], 1)
        raise ValueError(f"did you mean {close[0]}?" if close else "")


def _path(text: str) -> Path:
    """The path a text names, with `~` replaced; ValueError for what names no path of any file system."""
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:  # `~nobody`
        raise ValueError(str(error)) from None
    try:
        path.lstat()
    except OSError as error:
        # Whoever looks for it later would get this error, raw, from where no one knows the variable.
        if error.errno == errno.ENAMETOOLONG:
            raise ValueError("it is longer than a path may be") from None
    return path


class FilePath(Var[Path]):
    """A path that has a default."""

    kind = "path"

    def accepts(self) -> str:
        return "a path"

    def parse(self, text: str) -> Path:
        return _path(text)


class OptionalPath(Var["Path | None"]):
    """A path, or None."""

    kind = "path"

    def accepts(self) -> str:
        return "a path"

    def parse(self, text: str) -> Path | None:
        path = _path(text)
        try:
            path.exists()
        except OSError as error:
            raise ValueError(f"it cannot be looked at: {error.strerror}") from None
        return path


class OptionalFolder(OptionalPath):
    """A folder that must be there, or None."""

    def accepts(self) -> str:
        return "a folder that exists"

    def parse(self, text: str) -> Path | None:
        path = super().parse(text)
        if path is None or not path.is_dir():
            raise ValueError("there is no such folder")
        return path


def _split(text: str) -> tuple[str, ...]:
    pattern = "," if os.pathsep == "," else rf"[,{re.escape(os.pathsep)}]"
    return tuple(part.strip() for part in re.split(pattern, text) if part.strip())


class PathList(Var[tuple[Path, ...]]):
    """Paths separated by a comma or the platform's path separator."""

    kind = "path list"

    def accepts(self) -> str:
        return f"paths separated by ',' or '{os.pathsep}'"

    def parse(self, text: str) -> tuple[Path, ...]:
        return tuple(_path(part) for part in _split(text))


class StrList(Var[tuple[str, ...]]):
    """Words separated by commas."""

    kind = "list"

    def accepts(self) -> str:
        return "words separated by ','"

    def parse(self, text: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in text.split(",") if part.strip())


class Regex(Var["re.Pattern[str] | None"]):
    kind = "regex"

    def accepts(self) -> str:
        return "a regular expression"

    def parse(self, text: str) -> re.Pattern[str] | None:
        try:
            return re.compile(text)
        except re.error as error:
            raise ValueError(str(error)) from None


class BoolOrJson(Var["bool | Literal['json']"]):
    kind = "bool or json"

    def accepts(self) -> str:
        return "1, true, yes, on, json or 0, false, no, off"

    def parse_empty(self) -> bool:
        return False

    def parse(self, text: str) -> bool | Literal["json"]:
        word = text.lower()
        if word == "json":
            return "json"
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
        raise ValueError


class ModuleClass(Var[str]):
    kind = "module:Class"

    def accepts(self) -> str:
        return "module:Class"

    def parse(self, text: str) -> str:
        if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", text):
            raise ValueError
        return text


class EnvGroup:
    """A group of variables; attribute access reads the environment."""

    prefix: ClassVar[str] = "FLYDSL_"

    @classmethod
    def variables(cls) -> dict[str, Var[object]]:
        """The group's variables by attribute name, in order of declaration."""
        return {name: var for name, var in vars(cls).items() if isinstance(var, Var)}

    def to_dict(self) -> dict[str, object]:
        """The current value of every variable by attribute name."""
        return {name: var.read() for name, var in self.variables().items()}

    @classmethod
    def help(cls) -> str:
        """A readable table of the group: name, type, default, meaning."""
        lines: list[str] = []
        for attribute, var in cls.variables().items():
            key = f"; cache key: {var.key.value}" if var.key is not KeyRole.NONE else ""
            lines.append(f"{', '.join(var.names)} [{attribute}]")
            lines.append(f"    {var.doc}")
            lines.append(f"    {var.kind}: {var.accepts()}; default: {var.default_text}{key}")
        return "\n".join(lines)


def _no_path() -> Path | None:
    return None


def _half_of_cores() -> int:
    return max(usable_cores() // 2, 1)


def _home(*parts: str) -> Callable[[], Path]:
    return lambda: Path("~").expanduser().joinpath(".flydsl", *parts)


class CompileEnv(EnvGroup):
    """What is compiled, for which target, with which tools."""

    prefix = "FLYDSL_COMPILE_"

    backend = Name("auto", "Compile backend id, or auto: the first stack present on this machine.", key=KeyRole.TARGET)
    arch = Str("", "Target architecture, such as gfx942, sm_90a or native.", key=KeyRole.TARGET)
    arch_alias = Str(
        "", "Deprecated alias of FLYDSL_COMPILE_ARCH; ignored unless it parses.", name="ARCH", key=KeyRole.TARGET
    )
    gpu_arch = Str("", "Overrides what detection reports.", name="FLYDSL_GPU_ARCH", key=KeyRole.TARGET)
    hsa_override_gfx_version = Str(
        "", "rocm: overrides detection, as 9.4.2.", name="HSA_OVERRIDE_GFX_VERSION", key=KeyRole.TARGET
    )
    rocm_agent_timeout = Int(300, "Seconds to wait for rocm_agent_enumerator.", low=1, name="FLYDSL_ROCM_AGENT_TIMEOUT")
    backends_in_tree = Bool(False, "Skip backends of other distributions.", name="FLYDSL_BACKENDS_IN_TREE")
    opt_level = Int(2, "LLVM optimisation level.", low=0, high=3, key=KeyRole.VALUE)
    compile_only = Bool(False, "Compile and store, never launch.", name=("FLYDSL_COMPILE_ONLY", "COMPILE_ONLY"))
    always = Bool(False, "Ignore stored results and compile again.")
    strict = Bool(False, "Unknown compile hints are errors.")
    globals: Choice[Literal["error", "recompile"]] = Choice(
        ("error", "recompile"), "error", "What a changed global variable of a compiled kernel causes."
    )
    isolate: Choice[Literal["auto", "always", "never"]] = Choice(
        ("auto", "always", "never"),
        "auto",
        "Generate code in a worker process, which LLVM may abort; auto: of kernels with unchecked text.",
    )
    jobs = Int(_half_of_cores, "Parallel compile workers.", low=1, default_text="cores/2")
    override_dir = OptionalPath(_no_path, "Files here replace dumped stages of the same name.", key=KeyRole.CONTENT)
    extra_source_dirs = PathList(
        (), "More Python sources the key depends on.", name="FLYDSL_EXTRA_SOURCE_DIRS", key=KeyRole.VALUE
    )
    llvm_dir = OptionalFolder(_no_path, "Prefix of an external LLVM.", key=KeyRole.VALUE)
    codegen: Choice[Literal["auto", "internal", "external"]] = Choice(
        ("auto", "internal", "external"), "auto", "Which code generator emits device code.", key=KeyRole.VALUE
    )
    llvm_pass_pipeline = Str("", "LLVM pass pipeline that replaces the default one.", key=KeyRole.VALUE)
    llvm_pass_plugins = PathList((), "Plugins with LLVM IR passes.", key=KeyRole.CONTENT)
    llvm_codegen_passes = StrList((), "Machine passes as point:pass.", key=KeyRole.VALUE)
    llvm_codegen_plugins = PathList((), "Plugins with machine passes.", key=KeyRole.CONTENT)
    lld = OptionalPath(_no_path, "ld.lld to use.", key=KeyRole.CONTENT, default_text="search")
    fly_llc = OptionalPath(_no_path, "fly-llc to use.", key=KeyRole.CONTENT, default_text="search")
    opt = OptionalPath(_no_path, "LLVM's opt to use.", key=KeyRole.CONTENT, default_text="search")
    llc = OptionalPath(_no_path, "LLVM's llc to use.", key=KeyRole.CONTENT, default_text="search")
    ptxas = OptionalPath(_no_path, "NVIDIA's ptxas to use.", key=KeyRole.CONTENT, default_text="search")
    linker: Choice[Literal["auto", "lld", "internal"]] = Choice(
        ("auto", "lld", "internal"), "auto", "Linker of AMD code objects.", key=KeyRole.VALUE
    )
    device_libs = OptionalFolder(
        _no_path,
        "Folder with ROCm's device libraries (ocml.bc, ockl.bc, oclc_*.bc).",
        key=KeyRole.VALUE,
        default_text="of an installation of ROCm",
    )
    llvm_timeout = Int(600, "Seconds an external tool may take.", low=1)
    llvm_allow_mismatch = Bool(False, "Accept external tools of another LLVM major.", key=KeyRole.VALUE)
    llvm_fallback: Choice[Literal["error", "warn"]] = Choice(
        ("error", "warn"), "error", "What a custom pass that cannot run causes."
    )
    ir_passes = StrList((), "Python passes to run.", key=KeyRole.VALUE)
    ir_pass_modules = StrList((), "Modules that register Python passes.", key=KeyRole.VALUE)


class RuntimeEnv(EnvGroup):
    """Device runtime, launches and the disk cache."""

    prefix = "FLYDSL_RUNTIME_"

    kind = Name("", "Device runtime kind.", default_text="that of the compile backend")
    hip_library = OptionalPath(_no_path, "HIP library to load.", name="FLYDSL_HIP_LIBRARY", default_text="search")
    cuda_library = OptionalPath(
        _no_path, "CUDA driver library to load.", name="FLYDSL_CUDA_LIBRARY", default_text="search"
    )
    cache_dir = FilePath(_home("cache"), "Root of the disk cache.", default_text="~/.flydsl/cache")
    cache_path = PathList((), "More roots, only read.")
    cache_trusted_owners = StrList(
        (), "Users, and groups as `@group`, whose cache files are used beside yours and root's."
    )
    cache_max_entry_bytes = Int(1 << 30, "Size above which an entry or artifact is not read.", low=0)
    enable_cache = Bool(True, "Use the disk cache.")
    cache_readonly = Bool(False, "Never write to the disk cache.")
    cache_max_bytes = Int(8 << 30, "Size above which old entries go.", low=0)
    cache_binary_only = Bool(False, "Leave IR out of entries.")
    cache_store = ModuleClass("", "Remote store of entries.")
    cache_remote = Str(
        "", "Shared store of compiled code and tuning winners, as a URL of fsspec.", name="FLYDSL_CACHE_REMOTE"
    )
    lock_timeout = Int(600, "Seconds to wait for another process's compilation.", low=0)
    mem_cache_entries = Int(0, "Artifacts kept in memory per function; 0 is no bound.", low=0)
    run_only = Bool(False, "Never compile; a miss is an error.")
    cpu_schedules = Int(
        0, "Seconds to explore the schedules of a call on the cpu stack before it is made.", low=0, key=KeyRole.VALUE
    )
    stream_policy: Choice[Literal["framework", "default"]] = Choice(
        ("framework", "default"), "framework", "Stream of a launch that names none."
    )
    capture_compile: Choice[Literal["", "warn", "error"]] = Choice(
        ("", "warn", "error"),
        "",
        "What compiling while a stream is captured causes.",
        default_text="warn, on rocm error",
    )
    printf_bytes = Int(
        1 << 20, "rocm: bytes for what the threads of a launch print; what comes after is lost.", low=4096
    )
    launch_blocking = Bool(False, "Wait for each launch and report its errors there.")
    check_args = Bool(False, "Check arguments on the warm path too.")
    read_in_place = Bool(
        True, "Repeated calls look into objects of Python, numpy and torch; 0 asks their Python interfaces instead."
    )


class CpuEnv(EnvGroup):
    """The cpu stack."""

    prefix = "FLYDSL_CPU_"

    threads = Int(
        usable_cores, "Threads that run blocks; 1 runs them in order.", low=1, high=1024, default_text="cores"
    )
    warp_size = Int(32, "Warp width of the target native.", allowed=(1, 2, 4, 8, 16, 32, 64), key=KeyRole.TARGET)
    check = Bool(False, "Checked mode: races, bounds, divergent barriers.", key=KeyRole.VALUE)
    check_buffers = Bool(
        False, "Checked mode reports accesses that an AMD buffer descriptor leaves out.", key=KeyRole.VALUE
    )
    profile = Bool(False, "Count how often each source line of a kernel runs.", key=KeyRole.VALUE)
    coverage = Bool(False, "Count the lines and branches of kernels that run, for coverage.py.", key=KeyRole.VALUE)
    coverage_file = FilePath(
        lambda: Path(".coverage.kernels"),
        "Data file of coverage.py that a process with FLYDSL_CPU_COVERAGE writes when it ends; its name gets a suffix.",
        default_text=".coverage.kernels",
    )
    debug = Bool(False, "Mark the lines of kernels for the debugger; `fly debug` sets it.", key=KeyRole.VALUE)


class KtraceEnv(EnvGroup):
    """What kernels record of their own run (`fx.ktrace`)."""

    prefix = "FLYDSL_KTRACE_"

    enable = Bool(
        False,
        "Compile the ranges and marks of `fx.ktrace` in.",
        name=("FLYDSL_KTRACE_ENABLE", "FLYDSL_KTRACE"),
        key=KeyRole.VALUE,
    )
    events = Int(256, "Events kept of a warp, with tracing on.", low=4, high=1 << 20, key=KeyRole.VALUE)
    buffer_bytes = Int(
        1 << 26,
        "Memory a launch may record into; blocks beyond it are not recorded, but one is.",
        low=1 << 12,
        high=1 << 36,
    )
    blocks = Str("", "Blocks to record: `x,y,z` for one, `first:last` or a number for the first so many; default all.")
    dump_dir = OptionalPath(_no_path, "Folder for exported traces.", default_text="the current one")
    launches = Int(256, "Launches that are kept; of more, the oldest are dropped.", low=1)
    file = OptionalPath(_no_path, "Trace to write when the process ends, with tracing on (.perfetto-trace or .json).")


class DebugEnv(EnvGroup):
    """Dumps, printing, logging, reports."""

    prefix = "FLYDSL_DEBUG_"

    dump_ir = Bool(False, "Write the IR after every pass.", name="FLYDSL_DUMP_IR")
    dump_dir = FilePath(_home("debug"), "Where dumps go.", name="FLYDSL_DUMP_DIR", default_text="~/.flydsl/debug")
    dump_asm = Bool(False, "Write the final assembly.")
    ast_diff = Bool(False, "Log what the AST rewriters change.")
    print_origin_ir = Bool(False, "Print the traced IR.")
    print_after_all = Bool(False, "Print the IR after every pass.")
    print_after = Regex(None, "Print the IR after passes with a matching name.")
    print_kernel = Regex(None, "Print only kernels with a matching name.")
    print_changed = Bool(False, "Print only what a pass changed.")
    enable_debug_info = Bool(False, "Emit line tables.", key=KeyRole.VALUE)
    enable_verifier = Bool(False, "Verify the IR after every pass.")
    show_stacktrace = Bool(False, "Show internal frames in tracebacks.")
    max_loc_depth = Int(5, "User frames kept per location.", low=1, key=KeyRole.DEBUG_INFO)
    log_level: Choice[Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]] = Choice(
        ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"), "WARNING", "Level of the flydsl logger."
    )
    log_to_file = OptionalPath(_no_path, "File the log goes to.")
    log_to_console = Bool(False, "Log to the console.")
    timing = BoolOrJson(False, "Report compile times.")
    resources = Bool(False, "Report registers, spills, shared memory.")
    ignore_warnings = StrList((), "Warning categories to silence.", name="FLYDSL_IGNORE_WARNINGS")


class AutotuneEnv(EnvGroup):
    """The search for the best configuration of a kernel."""

    prefix = "FLYDSL_AUTOTUNE_"

    force = Bool(False, "Search again, whatever is known already.", name="FLYDSL_AUTOTUNE")
    cache_dir = FilePath(_home("autotune"), "Where winners are kept.", default_text="~/.flydsl/autotune")
    config_dir = OptionalPath(_no_path, "Folder of named configurations, which forced searches write.")
    jobs = Int(_half_of_cores, "Processes that compile candidates.", low=1, default_text="cores/2")
    budget_s = Int(0, "Seconds a search may take; 0 is no bound.", low=0)
    timeout_s = Int(0, "Seconds a candidate may take in a process of its own; 0 times it in this one.", low=0)
    print = Bool(False, "Print the report of each search.")


class AotEnv(EnvGroup):
    """Code compiled ahead of time."""

    prefix = "FLYDSL_AOT_"

    trusted_keys = PathList((), "Public keys, or folders of `.pub` files; code made elsewhere must then be signed.")
    hook_modules = StrList((), "Modules that load hooks of artifacts may be imported from.")


class SystemEnv(EnvGroup):
    """Variables of other products that say where their files are."""

    prefix = ""

    rocm_path = OptionalPath(_no_path, "ROCm installation.")
    hip_path = OptionalPath(_no_path, "HIP installation.")
    cuda_home = OptionalPath(_no_path, "CUDA toolkit.", name=("CUDA_HOME", "CUDA_PATH"))
    xdg_cache_home = OptionalPath(_no_path, "The user's cache directory.")


compile = CompileEnv()
debug = DebugEnv()
runtime = RuntimeEnv()
cpu = CpuEnv()
ktrace = KtraceEnv()
autotune = AutotuneEnv()
aot = AotEnv()
system = SystemEnv()

GROUPS: dict[str, EnvGroup] = {
    "compile": compile,
    "debug": debug,
    "runtime": runtime,
    "cpu": cpu,
    "ktrace": ktrace,
    "autotune": autotune,
    "aot": aot,
    "system": system,
}


def all_variables() -> Iterator[tuple[str, Var[object]]]:
    """Every (group name, variable), in order."""
    for group_name, group in GROUPS.items():
        for var in group.variables().values():
            yield group_name, var


def _vars_of(role: KeyRole) -> tuple[Var[object], ...]:
    return tuple(var for _, var in all_variables() if var.key is role)


_VALUE_VARS = _vars_of(KeyRole.VALUE)
_DEBUG_INFO_VARS = _vars_of(KeyRole.DEBUG_INFO)
_CONTENT_VARS = _vars_of(KeyRole.CONTENT)
# What decides the key, the target or the stack, and so must be the same for a warm call to stay valid.
_WATCHED = (
    *dict.fromkeys(name for _, var in all_variables() if var.key is not KeyRole.NONE for name in var.names),
    *runtime.variables()["kind"].names,
    *runtime.variables()["launch_blocking"].names,
    *runtime.variables()["check_args"].names,
    *runtime.variables()["read_in_place"].names,
    *runtime.variables()["stream_policy"].names,
    *compile.variables()["compile_only"].names,
    *compile.variables()["always"].names,
    *autotune.variables()["force"].names,
    *autotune.variables()["cache_dir"].names,
    *autotune.variables()["config_dir"].names,
)
_WATCHED_ENCODED = tuple(_encode(name) for name in _WATCHED)


def keeps_places() -> bool:
    """Whether compiled code knows the files and lines it comes from: then they are part of its key."""
    return debug.enable_debug_info or cpu.profile or cpu.coverage or cpu.debug


def _key_text(value: object) -> str | tuple[str, ...]:
    if isinstance(value, tuple):
        return tuple(str(item) for item in cast("tuple[object, ...]", value))
    return "" if value is None else str(value)


def cache_relevant_env() -> tuple[tuple[str, str | tuple[str, ...]], ...]:
    """Name and value of every variable whose value is part of the cache key, in a fixed order.

    Two spellings of one value (`1`, `true`) give the same result.
    """
    chosen = _VALUE_VARS + _DEBUG_INFO_VARS if debug.enable_debug_info else _VALUE_VARS
    return tuple((var.name, _key_text(var.read())) for var in chosen)


def content_relevant_env() -> tuple[tuple[str, tuple[Path, ...]], ...]:
    """Name and files of every set variable that enters the cache key by the content of those files."""
    found: list[tuple[str, tuple[Path, ...]]] = []
    for var in _CONTENT_VARS:
        value = var.read()
        paths = cast("tuple[Path, ...]", value if isinstance(value, tuple) else (value,) if value else ())
        if paths:
            found.append((var.name, paths))
    return tuple(found)


_generation = 0


def settings_changed() -> None:
    """Something outside the environment that shapes code has changed: make every earlier snapshot differ."""
    global _generation
    _generation += 1


def whole_environment() -> dict[object, object]:
    """A copy of all variables: as long as another one is equal, nothing has changed. About 2 us."""
    return cast("dict[object, object]", dict(os.environ if _data is None else _data))


def environment_snapshot() -> tuple[object, ...]:
    """The raw text of every variable a compiled kernel's validity depends on; two equal snapshots mean no change.

    Unparsed and in no documented form: compare, do not read. About 2 us.
    """
    if _data is not None:
        return (*map(_data.get, _WATCHED_ENCODED), _generation)
    return (*map(os.environ.get, _WATCHED), _generation)


class _Copy:
    """Stands for a dict's version where Python counts none: equal as long as the content is."""

    @property
    def value(self) -> dict[object, object] | None:
        return None if _data is None else dict(_data)


_tag: Any = None
_versions = count(1)
_seen: tuple[object, int, tuple[object, ...], int] = (None, -1, (), 0)
"""What `environment_version` saw last and called it; replaced as a whole, since threads ask at any time."""


def _make_tag() -> Any:
    """What tells whether the environment is as it was."""
    if _data is None or not runtime.read_in_place:
        return _Copy()
    from flydsl.dict_version import version_of  # ctypes takes a while to import

    return version_of(cast("dict[Any, Any]", _data)) or _Copy()


def environment_version() -> int:
    """A number that changes whenever `environment_snapshot()` does; 0.1 us while the environment stays as it is."""
    global _seen, _tag
    if _tag is None:
        _tag = _make_tag()
    tag, seen = _tag.value, _seen
    if tag == seen[0] and tag is not None and _generation == seen[1]:
        return seen[3]
    generation, snapshot = _generation, environment_snapshot()
    version = seen[3]
    if snapshot != seen[2]:
        version, _tag = next(_versions), None  # how changes are noticed may have been changed as well
    _seen = (tag, generation, snapshot, version)
    return version


def describe() -> list[tuple[str, str, str, str]]:
    """Rows (name, value, default, source) of every variable, for `fly env`; source is `default` or the name set."""
    rows: list[tuple[str, str, str, str]] = []
    for _, var in all_variables():
        found = var.raw()
        try:
            value: object = var.read()
        except ConfigError as error:
            value = f"error: {error}"
        rows.append((var.name, str(value), var.default_text, found[0] if found else "default"))
    return rows


def unknown_variables() -> list[str]:
    """Names in the environment that start with FLYDSL_ but belong to no variable."""
    known = {name for _, var in all_variables() for name in var.names}
    return sorted(name for name in os.environ if name.startswith("FLYDSL_") and name not in known)


_warned_unknown: set[str] = set()


def warn_unknown_variables() -> None:
    """Warn once per process about each unknown FLYDSL_ name, with the closest known one."""
    known = [name for _, var in all_variables() for name in var.names]
    for name in unknown_variables():
        if name in _warned_unknown:
            continue
        _warned_unknown.add(name)
        close = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        warn(f"the environment variable {name} is not known and has no effect{hint}", UnknownVariableWarning)


def warn(message: str, category: type[Warning], *, stacklevel: int = 2) -> None:
    """Emit a warning unless FLYDSL_IGNORE_WARNINGS names its category."""
    if category.__name__ not in debug.ignore_warnings:
        warnings.warn(message, category, stacklevel=stacklevel + 1)


def say(text: str) -> None:
    """Write what somebody asked to see to the console.

    Where that cannot be (no console, a pipe that nobody reads any more, a full disk) there is nobody to tell, and the
    program goes on: looking at it changes nothing.
    """
    stream: TextIO | None = sys.stderr
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        try:
            stream.write(text)
        except UnicodeEncodeError:
            stream.write(text.encode("ascii", "backslashreplace").decode())
