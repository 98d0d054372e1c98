"""Which passes of the user are in effect for a call: values, precedence, checks, identity for the cache key."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from flydsl import config as env
from flydsl.compiler.backends._fingerprint import file_digest
from flydsl.compiler.build.pass_options import external_codegen
from flydsl.compiler.build.user_passes import POINTS, Activation, IRPass, activate, enabled, split_activations
from flydsl.compiler.key.cache_key import digest
from flydsl.compiler.key.function_key import FunctionKey
from flydsl.compiler.key.walk import function_key
from flydsl.errors import (
    CacheWarning,
    DSLRuntimeError,
    DSLTypeError,
    DSLValueError,
    FlyDSLWarning,
    ToolNotFoundError,
    ToolVersionError,
)
from flydsl.llvm import external, pass_pipeline, tools
from flydsl.llvm.external import CodegenPass

SCHEMA = 1
"""Raised when the same configuration starts to mean something else."""

DEFAULT_PIPELINE = "default<O2>"
"""What plugins run in when no pipeline is given: they may act at its extension points."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A shared object with passes; `extra_files` are others it depends on, which count for the cache key too."""

    path: Path
    extra_files: tuple[Path, ...] = ()

    def identity(self) -> list[str]:
        """Hashes of the content; where the files are does not matter."""
        return [file_digest(path) for path in (self.path, *self.extra_files)]


@dataclass(frozen=True, slots=True)
class PassConfig:
    """The passes in effect for one call."""

    pipeline: str | None = None
    plugins: tuple[Plugin, ...] = ()
    codegen_passes: tuple[CodegenPass, ...] = ()
    codegen_plugins: tuple[Plugin, ...] = ()
    ir_passes: tuple[Activation, ...] = ()
    external: bool = False
    """Whether LLVM's programs do the middle end and code generation even where no pass asks for them."""

    @property
    def only_in_opt(self) -> list[str]:
        """The passes of the pipeline that llvmlite does not offer."""
        return [] if self.pipeline is None else pass_pipeline.not_in_process(pass_pipeline.parse(self.pipeline))

    @property
    def needs_opt(self) -> bool:
        """Whether the pipeline runs in LLVM's `opt` rather than in process."""
        if self.pipeline is None or self.external:
            return self.external
        return bool(self.plugins or env.compile.opt is not None or self.only_in_opt)

    def at(self, stage: str, backend: str) -> list[Activation]:
        """The Python passes of a stage, in the order they run."""
        found = [each for each in self.ir_passes if each.applies(stage, backend)]
        return sorted(found, key=lambda each: each.what.order)

    def mir_passes(self, backend: str) -> list[tuple[str, Activation]]:
        return [(point, each) for point in POINTS for each in self.at(f"mir:{point}", backend)]

    def tools(self) -> list[str]:
        """The programs this needs."""
        names = ["opt"] if self.needs_opt else []
        if self.codegen_passes:
            names.append("llc" if external.forced_llc() else "fly-llc")
        elif self.external:
            names.append("llc")
        if any(each.what.stage.startswith("mir:") for each in self.ir_passes):
            names.append("llc")
        if any(each.what.stage == "asm" for each in self.ir_passes):
            names.append("llvm-mc")
        return list(dict.fromkeys(names))

    @property
    def cacheable(self) -> bool:
        """Whether every Python pass could be identified by its source."""
        return all(_python_identity(each.what) is not None for each in self.ir_passes)

    def fingerprint(self) -> str:
        """Changes with anything that can change the result: texts, contents of plugins, tools, sources of passes."""
        parts = (
            SCHEMA,
            self.pipeline,
            [plugin.identity() for plugin in self.plugins],
            [str(each) for each in self.codegen_passes],
            [plugin.identity() for plugin in self.codegen_plugins],
            [_tool_identity(name) for name in self.tools()],
            [_activation_identity(each) for each in self.ir_passes],
            self.external,
        )
        return digest(parts)


def _tool_identity(name: str) -> list[str]:
    """Version and content of a tool and of the LLVM library it loads."""
    try:
        tool = tools.find_tool(name)
    except (ToolNotFoundError, ToolVersionError):
        # The compilation will say so, unless it may go on without the pass.
        return [name, "missing"]
    files = (tool.path, *external.libraries_of(tool.path))
    return [name, ".".join(map(str, tool.version)), *(file_digest(path) for path in files)]


_keys: dict[IRPass, FunctionKey] = {}


def _python_identity(what: IRPass) -> str | None:
    """The key of a pass's code, closure and helpers; None if it reaches something that has no key."""
    key = _keys.get(what)
    try:
        if key is None or not key.check(environment=False):
            key = _keys[what] = function_key(what.function, environment=False)
    except DSLRuntimeError:
        # A global it reads has changed: unlike a kernel, a pass is simply another one then.
        key = _keys[what] = function_key(what.function, environment=False)
    except (OSError, TypeError) as error:
        env.warn(f"results of pass '{what.name}' are not kept on disk: {error}", CacheWarning, stacklevel=5)
        return None
    return key.digest


def _activation_identity(each: Activation) -> tuple[object, ...]:
    what = each.what
    source = _python_identity(what) or f"unknown {id(what.function)}"
    return (what.name, str(what.version), source, each.values, what.stage, what.order)


# --- resolution ---------------------------------------------------------------------------------------


def resolve(
    decorator_options: Mapping[str, object] | None,
    hints: Mapping[str, object] | None,
    environment: env.CompileEnv | None = None,
) -> PassConfig | None:
    """The passes in effect: hints of the call, else what the decorator says, else the environment; None if none.

    An empty value switches lower levels off. Mistakes in form raise here; files and tools are looked at when used,
    except that a plugin must exist.
    """
    levels = (hints or {}, decorator_options or {}, _environment_options(environment or env.compile))

    def first(name: str) -> object:
        return next((level[name] for level in levels if level.get(name) is not None), None)

    pipeline = _pipeline(first("llvm_pass_pipeline"))
    plugins = _plugins("llvm_pass_plugins", first("llvm_pass_plugins"))
    codegen_passes = _codegen_passes(first("llvm_codegen_passes"))
    codegen_plugins = _plugins("llvm_codegen_plugins", first("llvm_codegen_plugins"))
    ir_passes = _ir_passes(first("ir_passes"))
    if pipeline == "":
        # Switched off on purpose; plugins of a lower level go with it.
        pipeline, plugins = None, ()
    elif pipeline is None and plugins:
        env.warn(
            f"llvm_pass_plugins without llvm_pass_pipeline: the plugins are loaded into '{DEFAULT_PIPELINE}'",
            FlyDSLWarning,
        )
        pipeline = DEFAULT_PIPELINE
    if codegen_plugins and not codegen_passes:
        if first("llvm_codegen_passes") is None:
            raise DSLValueError(
                "llvm_codegen_plugins without llvm_codegen_passes: say which of their passes run, and where"
            )
        codegen_plugins = ()
    external.check_plugins([plugin.path for plugin in (*plugins, *codegen_plugins)])
    if pipeline is not None:
        pass_pipeline.parse(pipeline)
    outside = external_codegen(environment or env.compile, hints)
    found = PassConfig(pipeline, plugins, codegen_passes, codegen_plugins, ir_passes, outside)
    return None if found == PassConfig() else found


def _environment_options(environment: env.CompileEnv) -> dict[str, object]:
    """What the environment asks for; an unset or empty variable is no request."""
    for name in environment.ir_pass_modules:
        importlib.import_module(name)
    return {
        "llvm_pass_pipeline": environment.llvm_pass_pipeline or None,
        "llvm_pass_plugins": environment.llvm_pass_plugins or None,
        "llvm_codegen_passes": environment.llvm_codegen_passes or None,
        "llvm_codegen_plugins": environment.llvm_codegen_plugins or None,
        # Commas inside `{...}` belong to the parameters of a pass.
        "ir_passes": split_activations(",".join(environment.ir_passes)) or None,
    }


def _pipeline(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value.strip() if value is not None else None
    raise DSLTypeError(f"llvm_pass_pipeline must be a string, got {value!r}")


def _items(name: str, value: object, what: str) -> list[object]:
    if isinstance(value, str | os.PathLike):
        return [value] if value != "" else []
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise DSLTypeError(f"{name} must be a sequence of {what}, got {value!r}")
    return list(cast("Iterable[object]", value))


def _plugins(name: str, value: object) -> tuple[Plugin, ...]:
    if value is None:
        return ()
    if isinstance(value, Mapping):
        value = [cast("object", value)]
    found: list[Plugin] = []
    for item in _items(name, value, "paths"):
        if isinstance(item, Plugin):
            found.append(item)
        elif isinstance(item, Mapping):
            entry = cast("Mapping[str, Any]", item)
            unknown = sorted(set(entry) - {"path", "extra_files"})
            if unknown or "path" not in entry:
                raise DSLValueError(f"an entry of {name} has 'path' and perhaps 'extra_files', got {item!r}")
            extra = tuple(Path(each).expanduser() for each in entry.get("extra_files", ()))
            found.append(Plugin(Path(entry["path"]).expanduser(), extra))
        elif isinstance(item, str | os.PathLike):
            found.append(Plugin(Path(cast("str", item)).expanduser()))
        else:
            raise DSLTypeError(f"{name} must be a sequence of paths, got {item!r} in it")
    return tuple(found)


def _codegen_passes(value: object) -> tuple[CodegenPass, ...]:
    if value is None:
        return ()
    if isinstance(value, Mapping):
        specs: list[object] = []
        for point, names in cast("Mapping[object, object]", value).items():
            specs += [f"{point}:{name}" for name in _items("llvm_codegen_passes", names, "strings")]
    else:
        specs = _items("llvm_codegen_passes", value, "strings")
    for spec in specs:
        if not isinstance(spec, str):
            raise DSLTypeError(f"llvm_codegen_passes must be strings such as 'pre-emit:my-pass', got {spec!r}")
    return tuple(external.parse_codegen_pass(cast("str", spec)) for spec in specs)


def _ir_passes(value: object) -> tuple[Activation, ...]:
    if value is None:
        return enabled()
    if isinstance(value, IRPass | Activation):
        value = [value]
    elif isinstance(value, str):
        value = split_activations(value)
    given = [activate(item) for item in _items("ir_passes", value, "passes or names")]
    if not given:
        return ()
    names = {each.what.name for each in given}
    return (*(each for each in enabled() if each.what.name not in names), *given)
