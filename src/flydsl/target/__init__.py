"""Compile targets: the frozen `GPUTarget`, the spellings of architectures and their static limits.

What the architectures are and have is the table in `architectures.py`. Pure data and text; nothing here asks a device
or a backend. An unknown architecture is refused here, because LLVM only prints a warning and goes on.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from flydsl import config
from flydsl.errors import TargetError
from flydsl.target.architectures import (
    ARCHITECTURES,
    EXAMPLE,
    FEATURES,
    KIB,
    MLIR_DEFAULTS,
    USUAL,
    Architecture,
    architecture,
    families,
    features_of,
    has,
    names_of,
    since,
    where,
)

ROCM_ARCHES: tuple[str, ...] = names_of("rocm")
"""The AMD architectures that come with the package."""
CUDA_ARCHES: tuple[str, ...] = names_of("cuda")
"""The NVIDIA architectures that come with the package."""

CPU_NATIVE = "native"


@dataclass(frozen=True, slots=True)
class TargetCaps:
    """Limits of a target that hold without a device at hand. None: not known, or no limit."""

    warp_size: int
    shared_mem_per_block: int | None
    """Bytes of shared memory (LDS) a block may use without asking."""
    shared_mem_per_block_optin: int | None
    """Bytes of shared memory a block may use at most."""
    max_threads_per_block: int = 1024
    max_block_dim: tuple[int, int, int] = (1024, 1024, 1024)
    max_grid_dim: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    clusters: bool = False
    """Whether blocks can be launched in clusters."""


def _unknown(what: str, text: str, known: tuple[str, ...]) -> NoReturn:
    close = difflib.get_close_matches(text.lower(), known, 1, 0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise TargetError(f"Unknown {what} architecture {text!r}.{hint} Known: {', '.join(known)}")


def _entry(backend: str, arch: str, text: str) -> Architecture:
    found = architecture(arch)
    if found is None or found.backend != backend:
        _unknown(backend, text, names_of(backend))
    return found


_FEATURE = re.compile(r"([+-])([a-z0-9][a-z0-9_.-]*)|([a-z0-9][a-z0-9_.-]*)([+-])")


def _parse_features(parts: list[str], text: str) -> tuple[str, ...]:
    """`sramecc+`, `+sramecc` or a comma list of them, as sorted `+name` entries."""
    found: dict[str, str] = {}
    for part in (item for chunk in parts for item in chunk.split(",")):
        word = part.strip().lower()
        if (match := _FEATURE.fullmatch(word)) is None:
            raise TargetError(f"bad feature {part!r} in {text!r}: expected +name, -name, name+ or name-")
        sign, name = (match[1], match[2]) if match[1] else (match[4], match[3])
        if found.setdefault(name, sign) != sign:
            raise TargetError(f"feature {name!r} is both on and off in {text!r}")
    return tuple(sorted(sign + name for name, sign in found.items()))


def gfx_of_version(text: str) -> str | None:
    """The architecture of a version triple: `9.4.2` is gfx942, `9.0.10` is gfx90a; None for other text."""
    if (match := re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", text.strip())) is None:
        return None
    major, minor, step = (int(group) for group in match.groups())
    return f"gfx{major}{minor:x}{step:x}" if minor < 16 and step < 16 else None


def _check_switches(entry: Architecture, features: tuple[str, ...], text: str) -> None:
    """Refuse a feature of LLVM that the architecture lacks; LLVM only warns."""
    for signed in features:
        name = signed[1:]
        if name.startswith("wavefrontsize"):
            if signed != f"+wavefrontsize{entry.warp_size}":
                raise TargetError(
                    f"{text!r}: code for {entry.name} has waves of {entry.warp_size} lanes, and no other form is made"
                )
        elif name not in entry.switches:
            raise TargetError(f"{entry.name} has no feature {name!r}, in {text!r}; it has: {', '.join(entry.switches)}")


def normalize_rocm_arch(text: str) -> tuple[str, tuple[str, ...]]:
    """Architecture and features of `gfx942`, `GFX942`, `9.4.2` or `gfx942:sramecc+:xnack-`."""
    base, *features = text.strip().split(":")
    arch = gfx_of_version(base) or base.strip().lower()
    entry = _entry("rocm", arch, base)
    found = _parse_features(features, text)
    _check_switches(entry, found, text)
    return arch, found


def normalize_cuda_arch(text: str | int) -> tuple[str, tuple[str, ...]]:
    """Architecture and features of `90`, `"90"`, `sm90`, `sm_90a` or `9.0`."""
    base, *features = str(text).strip().split(":")
    word = base.strip().lower()
    if match := re.fullmatch(r"(\d+)\.(\d)([af]?)", word):
        arch = f"sm_{match[1]}{match[2]}{match[3]}"
    elif match := re.fullmatch(r"(?:sm_?)?(\d+[af]?)", word):
        arch = f"sm_{match[1]}"
    else:
        arch = word
    _entry("cuda", arch, base)
    return arch, _parse_features(features, str(text))


def normalize_cpu_arch(text: str) -> tuple[str, tuple[str, ...]]:
    """`native`, or the normalised GPU architecture to emulate."""
    base = text.strip().split(":")[0].strip().lower()
    if base == CPU_NATIVE:
        return CPU_NATIVE, ()
    backend = gpu_backend_of_arch(base)
    if backend is None:
        _unknown("cpu", base, (CPU_NATIVE, *ARCHITECTURES))
    return _STACKS[backend].normalize(text)


def gpu_backend_of_arch(arch: str) -> str | None:
    """The backend an architecture name decides by its form: `gfx*` is rocm, `sm*` is cuda; else None."""
    word = arch.strip().lower()
    if word.startswith("gfx"):
        return "rocm"
    return "cuda" if re.match(r"sm_?\d", word) else None


def is_rdna_arch(arch: str) -> bool:
    """Whether `arch` is a chip of AMD's RDNA line.

    >>> is_rdna_arch("gfx1100"), is_rdna_arch("gfx942")
    (True, False)
    """
    return has(arch.lower(), "rdna")


def warp_size_of(arch: str) -> int:
    """Lanes per warp (wave) of a normalised architecture name."""
    entry = architecture(arch)
    if entry is not None:
        return entry.warp_size
    return config.cpu.warp_size if arch == CPU_NATIVE else 32


def caps_of(arch: str, warp_size: int | None = None) -> TargetCaps:
    """The static limits of a normalised architecture name; those of an architecture that is not ours are unknown."""
    warp = warp_size or warp_size_of(arch)
    entry = architecture(arch)
    if entry is None:
        return TargetCaps(warp, None, None)
    return TargetCaps(
        warp,
        entry.shared_mem,
        entry.shared_mem_optin,
        max_block_dim=entry.max_block_dim,
        clusters="clusters" in entry.features,
    )


def on_host(backend: str) -> bool:
    """Whether kernels of a built-in stack are host functions, run by the process itself."""
    stack = _STACKS.get(backend)
    return stack is not None and stack.on_host


@dataclass(frozen=True)
class GPUTarget:
    """What code is compiled for. Equality, hash and `key()` agree; an `arch` with features in it is split.

    >>> GPUTarget.parse("gfx942:sramecc+"), GPUTarget.parse("cuda:90").key()
    (GPUTarget(backend='rocm', arch='gfx942', warp_size=64, features=('+sramecc',)), 'cuda:sm_90:w32')
    """

    backend: str
    """Compile backend id, such as rocm."""
    arch: str
    """Architecture without features, such as gfx942, sm_90a or native."""
    warp_size: int
    """Lanes per warp (wave)."""
    features: tuple[str, ...] = ()
    """Sorted entries `+name` or `-name`."""

    def __post_init__(self) -> None:
        for name, value in (("backend", self.backend), ("arch", self.arch)):
            if not isinstance(value, str) or not value.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"GPUTarget.{name} must be a non-empty str, got {value!r}")
        size = self.warp_size
        if not isinstance(size, int) or isinstance(size, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"GPUTarget.warp_size must be an int, got {size!r}")
        if size < 1 or size & (size - 1):
            raise TargetError(f"GPUTarget.warp_size must be a positive power of two, got {size}")
        arch, *more = self.arch.strip().split(":")
        object.__setattr__(self, "backend", self.backend.strip().lower())
        object.__setattr__(self, "arch", arch)
        object.__setattr__(self, "features", _parse_features([*more, *self.features], self.arch))

    def key(self) -> str:
        """Canonical text, such as `rocm:gfx942:w64:+sramecc,-xnack`; `parse` is its inverse."""
        head = f"{self.backend}:{self.arch}:w{self.warp_size}"
        return f"{head}:{','.join(self.features)}" if self.features else head

    @property
    def caps(self) -> TargetCaps:
        """Static limits of a built-in architecture."""
        return caps_of(self.arch, self.warp_size)

    @property
    def on_host(self) -> bool:
        """Whether kernels are host functions, which emulate the architecture where it is a GPU's."""
        return on_host(self.backend)

    def has(self, feature: str) -> bool:
        """Whether the architecture, compiled for or emulated, has a feature of `FEATURES`.

        >>> GPUTarget.parse("cpu:gfx942").has("mfma"), GPUTarget.parse("sm_80").has("clusters")
        (True, False)
        """
        return has(self.arch, feature)

    @staticmethod
    def parse(text: str) -> GPUTarget:
        """The target of `backend:arch[:wN][:features]` or of a bare architecture that decides its backend.

        A backend that is not built in must give its warp width, as in `other:x1:w16`.
        """
        parts = text.strip().split(":")
        if gpu_backend_of_arch(parts[0]) or parts[0].strip().lower() == CPU_NATIVE:
            parts.insert(0, gpu_backend_of_arch(parts[0]) or "cpu")
        backend = parts[0].strip().lower()
        if not re.fullmatch(r"[a-z][a-z0-9_]*", backend):
            raise TargetError(f"cannot read target {text!r}: expected backend:arch, gfx* or sm_*")
        if len(parts) < 2 or not parts[1].strip():
            known = {"cpu": CPU_NATIVE, **USUAL}
            usual = known.get(backend)
            if usual is None and len(parts) < 2:
                such = f", such as {' or '.join(f'{name}:{arch}' for name, arch in known.items())}"
                raise TargetError(f"target {text!r} names no architecture: expected backend:arch{such}")
            such = f", such as {backend}:{usual}" if usual else ""
            raise TargetError(f"target {text!r} names no architecture: expected {backend}:arch{such}")
        width: int | None = None
        features: list[str] = []
        for part in parts[2:]:
            if match := re.fullmatch(r"w(\d+)", part.strip().lower()):
                width = int(match[1])
            elif part.strip():
                features.append(part)
        if backend in _STACKS:
            return make_builtin_target(backend, ":".join((parts[1], *features)), width)
        if width is None:
            raise TargetError(f"target {text!r} needs the warp width of backend {backend!r}, as in {text.strip()}:w32")
        return GPUTarget(backend, parts[1].strip(), width, _parse_features(features, text))


class _Stack(NamedTuple):
    """A built-in stack: how its architectures are spelled, and where its kernels run."""

    normalize: Callable[[str], tuple[str, tuple[str, ...]]]
    on_host: bool = False


_STACKS = {
    "rocm": _Stack(normalize_rocm_arch),
    "cuda": _Stack(normalize_cuda_arch),
    "cpu": _Stack(normalize_cpu_arch, on_host=True),
}

BUILTIN_STACKS = tuple(_STACKS)
"""The stacks whose targets this module can make."""


def make_builtin_target(backend: str, arch: str, warp_size: int | None = None) -> GPUTarget:
    """The target of one of the built-in stacks for any accepted spelling of `arch`."""
    name, features = _STACKS[backend].normalize(arch)
    natural = warp_size_of(name)
    if warp_size not in (None, natural) and name != CPU_NATIVE:
        raise TargetError(f"{backend}:{name} has warps of {natural} lanes, not {warp_size}")
    return GPUTarget(backend, name, warp_size or natural, features)


__all__ = [
    "ARCHITECTURES", "BUILTIN_STACKS", "CPU_NATIVE", "CUDA_ARCHES", "EXAMPLE", "FEATURES", "KIB", "MLIR_DEFAULTS",
    "ROCM_ARCHES", "USUAL", "Architecture", "GPUTarget", "TargetCaps", "architecture", "caps_of", "families",
    "features_of", "gfx_of_version", "gpu_backend_of_arch", "has", "is_rdna_arch", "make_builtin_target", "names_of",
    "normalize_cpu_arch", "normalize_cuda_arch", "normalize_rocm_arch", "on_host", "since", "warp_size_of", "where",
]  # fmt: skip
