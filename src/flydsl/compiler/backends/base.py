"""`BaseBackend`: the whole contract between the compiler driver and a target, and the values that pass between them.

Only the members FlyDSL made abstract are abstract here; everything newer has a default.
"""

from __future__ import annotations

import hashlib
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from flydsl.compiler.backends import _hints
from flydsl.compiler.backends._hints import Options
from flydsl.target import GPUTarget, TargetCaps, caps_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from flydsl.llvm.codegen import Compiler

PIPELINE_SCHEMA = 1
"""Raised when the same pipeline text starts to mean something else; part of every built-in's hash."""

Hints = Mapping[str, object]

_find_supporters: list[Callable[[GPUTarget], str]] = []
_find_helper: list[Callable[[BaseBackend], BaseBackend | None]] = []


def set_supporter_finder(finder: Callable[[GPUTarget], str]) -> None:
    """Let error messages name the backends that support a target; the registry knows them."""
    _find_supporters[:] = [finder]


def set_helper_finder(finder: Callable[[BaseBackend], BaseBackend | None]) -> None:
    """Let a backend that writes no code itself find the built-in one whose dialect its pipeline ends in."""
    _find_helper[:] = [finder]


@dataclass(frozen=True, slots=True)
class Tool:
    """An external tool that shapes the binary: identity for the cache key and artifact metadata."""

    name: str
    version: str
    digest: str
    """SHA-256 of its content; where it is installed does not matter."""


class DeviceBinary:
    """What a backend makes of one device module's LLVM IR."""

    def __init__(
        self,
        sections: dict[str, bytes],
        *,
        chip: str,
        asm: Callable[[], str],
        optimized_ir: Callable[[], str],
        resources: list[dict[str, Any]],
        times: dict[str, float],
        notes: dict[str, str] | None = None,
    ):
        self.sections = sections
        """Content by extension, such as `hsaco` and `o`."""
        self.chip = chip
        """The processor code was generated for; may carry a suffix the target lacks (sm_90 -> sm_90a)."""
        self.resources = resources
        """Per kernel: `name` and what is known of `registers`, `spills`, `shared`, `scratch`, ..."""
        self.times = times
        """Seconds per stage: parse, optimize, emit, link, assemble."""
        self.notes = notes or {}
        """How it was made, such as the linker used."""
        self._make_asm = asm
        self._make_ir = optimized_ir

    @cached_property
    def _asm_text(self) -> str:
        return self._make_asm()

    def asm(self) -> str:
        """Assembly text (for NVIDIA: PTX), made at the first call."""
        return self._asm_text

    @cached_property
    def optimized_ir(self) -> str:
        """LLVM IR text after the middle end, made at the first access."""
        return self._make_ir()


class BaseBackend(ABC):
    """Compiles traced modules for one target. Subclass it and `register_backend` to add a target.

    ::

        @register_backend("mine")
        class MyBackend(BaseBackend):
            ...

    >>> from flydsl.compiler.backends import get_backend
    >>> backend = get_backend("cuda", arch="sm_90")
    >>> isinstance(backend, BaseBackend), backend.binary_ext, backend.runtime_kind or backend.name
    (True, 'ptx', 'cuda')
    """

    runtime_kind: ClassVar[str] = ""
    """Device-runtime kind that runs the code; empty: the name the backend is registered by."""

    experimental: ClassVar[bool] = True
    """Whether the first use warns; a class may make it a property, which is asked once there is an instance."""

    binary_ext: ClassVar[str] = "bin"
    """The section of a `DeviceBinary` that the runtime loads."""

    VERSION: ClassVar[int] = 1
    """Raise it when the backend starts to produce other code for the same input."""

    hint_names: ClassVar[frozenset[str]] = frozenset()
    """Hints beyond the common ones that this backend understands."""

    def __init__(self, target: GPUTarget) -> None:
        if not isinstance(target, GPUTarget):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{type(self).__name__} needs a GPUTarget, got {target!r}")
        if not self.supports_target(target):
            others = _find_supporters[0](target) if _find_supporters else "unknown"
            raise TypeError(f"{type(self).__name__} does not support target {target.key()}; backends that do: {others}")
        self.target = target
        self.name = target.backend
        """The name the backend is registered by; the registry sets it."""

    # -- target ----------------------------------------------------------------------------------------

    @staticmethod
    @abstractmethod
    def supports_target(target: GPUTarget) -> bool:
        """Whether this backend can compile for a target: a pure predicate, no I/O."""
        ...

    @staticmethod
    @abstractmethod
    def detect_target() -> GPUTarget:
        """The target of the environment, else of the current device; no driver is touched if the former answers."""
        ...

    @classmethod
    def make_target(cls, arch: str) -> GPUTarget:
        """The target of an explicit architecture. Override it: the default keeps the detected warp size."""
        return replace(cls.detect_target(), arch=arch, features=())

    @classmethod
    def target_caps(cls, target: GPUTarget) -> TargetCaps:
        """Limits that hold without a device."""
        return caps_of(target.arch, target.warp_size)

    @classmethod
    def llvm_address_space(cls, address_space: object) -> int:
        """LLVM's number of an address space, given by name or as an enum member; unknown ones raise `ValueError`."""
        raise NotImplementedError(f"{cls.__name__} does not map fly address spaces to LLVM's")

    # -- pipeline --------------------------------------------------------------------------------------

    @abstractmethod
    def pipeline_fragments(self, *, compile_hints: Hints) -> list[str]:
        """Pass specs in order, in MLIR's textual form; the last one makes the binary."""
        ...

    def external_binary_pipeline_fragments(self, *, compile_hints: Hints) -> tuple[list[str], str]:
        """`pipeline_fragments` split before its last element."""
        fragments = self.pipeline_fragments(compile_hints=compile_hints)
        return fragments[:-1], fragments[-1]

    def tells_lines(self, module: ModuleOp, options: Options) -> bool:
        """Whether the code of a traced module has lines of the source in it: then dumps must have them, too."""
        return bool(getattr(options, "debug_info", False))

    def checks_accesses(self, options: Options) -> bool:
        """Whether code compares addresses with the bounds of tensors: then kernels get those of their pointers, too."""
        return False

    def lower_compile_hints(self, module: ModuleOp, *, compile_hints: Hints) -> None:
        """Put hints as attributes on the kernels of a traced module, before the pipeline runs.

        By default as the built-in backend does whose dialect the pipeline ends in.
        """
        helper = _find_helper[0](self) if _find_helper else None
        if helper is not None:
            helper.lower_compile_hints(module, compile_hints=compile_hints)

    @abstractmethod
    def gpu_module_targets(self) -> list[str]:
        """Target attributes of the device module, as MLIR text: `#rocdl.target<chip = "gfx942">`."""
        ...

    def parse_options(self, hints: Hints | None) -> Options:
        """Validated, hashable options; unknown hints warn, or raise under FLYDSL_COMPILE_STRICT=1."""
        return _hints.parse_hints(hints, extra=self.hint_names)

    # -- code ------------------------------------------------------------------------------------------

    def device_ir(self, module: object) -> str:
        """LLVM IR text of a lowered `gpu.module`: what the pipeline leaves, written for this target.

        By default as the built-in backend writes it whose dialect the pipeline ends in.
        """
        return self._helper("device_ir", "it cannot write LLVM IR of a device module").device_ir(module)

    def make_device_code(self, llvm_ir: str, *, options: Options, compiler: Compiler | None = None) -> DeviceBinary:
        """Device code of one module of LLVM IR text: optimise, emit, link.

        `compiler` takes the place of `codegen.compile_device`: that is how passes of the user get in.
        The last pass of the pipeline stands for this. The default is that of `device_ir`.
        """
        helper = self._helper("make_device_code", "it must implement that method")
        return helper.make_device_code(llvm_ir, options=options, compiler=compiler)

    def loadable(self, sections: Mapping[str, bytes]) -> bytes:
        """The section of a `DeviceBinary` to hand to `DeviceRuntime.module_load`."""
        if self.binary_ext in sections:
            return sections[self.binary_ext]
        helper = _find_helper[0](self) if _find_helper else None
        if helper is None:
            raise ValueError(f"no section {self.binary_ext!r}; there are: {', '.join(sections)}")
        return helper.loadable(sections)

    def _helper(self, member: str, otherwise: str) -> BaseBackend:
        """The built-in backend that knows the dialect of this one's pipeline."""
        helper = _find_helper[0](self) if _find_helper else None
        if helper is None:
            raise NotImplementedError(
                f"{type(self).__name__} has no {member}(), and its pipeline ends in no dialect of ours: {otherwise}"
            )
        return helper

    def launched_with(self, resources: list[dict[str, Any]], dynamic: Mapping[str, int]) -> list[dict[str, Any]]:
        """What kernels use once launches have added dynamic shared memory; `dynamic` are bytes by kernel."""
        return [{**r, "dynamic_smem": dynamic[r["name"]]} if dynamic.get(r["name"]) else r for r in resources]

    def device_libs(self, symbols: Iterable[str]) -> list[Path]:
        """Bitcode files that define `symbols`, which the module leaves undefined."""
        wanted = sorted(set(symbols))
        if wanted:
            raise NotImplementedError(f"{type(self).__name__} has no device library for {', '.join(wanted)}")
        return []

    def with_libraries(self, llvm_ir: str) -> str:
        """LLVM IR that code of others was linked into: it must say of that code what `device_ir` says of ours."""
        helper = _find_helper[0](self) if _find_helper else None
        return llvm_ir if helper is None else helper.with_libraries(llvm_ir)

    # -- identity --------------------------------------------------------------------------------------

    def hash(self) -> str:
        """Text that changes with anything here that can change a binary; part of every cache key."""
        return self.target.key()

    def toolchain(self) -> list[Tool]:
        """External tools that would be used for this target."""
        return []

    @abstractmethod
    def native_lib_patterns(self) -> list[str]:
        """Globs of native files whose content counts for the key of what is compiled."""
        ...

    @abstractmethod
    def jit_runtime_lib_basenames(self) -> list[str]:
        """Shared libraries that are loaded with the host code of what is compiled."""
        ...

    # -- launch ----------------------------------------------------------------------------------------

    @staticmethod
    def reserved_launch_param_names() -> frozenset[str]:
        """Kernel parameter names this backend's launches take for themselves."""
        return frozenset()


class BuiltinBackend(BaseBackend):
    """What the three built-in backends share."""

    experimental: ClassVar[bool] = False
    address_spaces: ClassVar[Mapping[str, int]] = {}
    """LLVM's number by name of the address space."""

    def with_libraries(self, llvm_ir: str) -> str:
        return llvm_ir

    @classmethod
    def llvm_address_space(cls, address_space: object) -> int:
        name = str(getattr(address_space, "name", address_space)).lower()
        try:
            return cls.address_spaces[name]
        except KeyError:
            known = ", ".join(cls.address_spaces)
            raise ValueError(f"{cls.__name__} has no LLVM address space for {name!r}; known: {known}") from None

    def _pipeline_parts(self, *, compile_hints: Hints | None = None) -> tuple[list[str], list[str], str]:
        """The stages `pre_binary`, `binary_prep` and `binary` as pass specs."""
        raise NotImplementedError

    def pipeline_fragments(self, *, compile_hints: Hints) -> list[str]:
        pre, prep, binary = self._pipeline_parts(compile_hints=compile_hints)
        return [*pre, *prep, binary]

    def native_lib_patterns(self) -> list[str]:
        return []

    def jit_runtime_lib_basenames(self) -> list[str]:
        return []

    def hash(self) -> str:
        """Digest over backend, target, LLVM and tools; not over paths, devices or processes."""
        parts = [self.name, f"{type(self).__module__}.{type(self).__qualname__}", str(self.VERSION), self.target.key()]
        parts += [f"llvmlite {_llvmlite_version()}", f"pipeline {PIPELINE_SCHEMA}"]
        parts += [f"{tool.name}|{tool.version}|{tool.digest}" for tool in self.toolchain()]
        parts += self._hash_extras()
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _hash_extras(self) -> list[str]:
        return []


def common_passes(convert: str) -> list[str]:
    """The passes of every built-in pipeline before code generation; `convert` takes fly ops to the target's dialect."""
    return [
        "fly-rewrite-func-signature",
        "fly-canonicalize",
        "fly-layout-lowering",
        "fly-int-swizzle-simplify",
        "canonicalize",
        "fly-convert-atom-call-to-ssa-form",
        "fly-promote-regmem-to-vectorssa",
        convert,
        "canonicalize",
    ]


def to_llvm_passes(attach_target: str, debug_info: str) -> list[str]:
    """The passes from the upper dialects to `llvm`, for host and device; `debug_info` may name one more."""
    return [
        attach_target,
        "convert-scf-to-cf",
        "convert-cf-to-llvm",
        "gpu-to-llvm{use-bare-pointers-for-host=true use-bare-pointers-for-kernels=true}",
        "convert-vector-to-llvm",
        "convert-arith-to-llvm",
        "convert-func-to-llvm",
        "reconcile-unrealized-casts",
        *([debug_info] if debug_info else []),
    ]


BINARY_PASS = "gpu-module-to-binary{format=fatbin}"

_versions: dict[str, str] = {}


def _llvmlite_version() -> str:
    """llvmlite's version, which fixes that of its LLVM; the package alone loads no native library."""
    if "llvmlite" not in _versions:
        _versions["llvmlite"] = importlib.import_module("llvmlite").__version__
    return _versions["llvmlite"]


__all__ = [
    "BINARY_PASS", "PIPELINE_SCHEMA", "BaseBackend", "BuiltinBackend", "DeviceBinary", "GPUTarget", "Hints", "Options",
    "TargetCaps", "Tool", "common_passes", "set_helper_finder", "set_supporter_finder", "to_llvm_passes",
]  # fmt: skip
