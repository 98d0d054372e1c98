"""Compile targets: the frozen `GPUTarget`, the known architectures, their spellings and their static limits.

Pure data and text; nothing here asks a device or a backend. An unknown architecture is refused here, because LLVM
only prints a warning and goes on.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import NoReturn

from flydsl import config
from flydsl.errors import TargetError

KIB = 1024

ROCM_ARCHES: tuple[str, ...] = tuple(
    f"gfx{suffix}"
    for suffix in (
        *("900", "902", "904", "906", "908", "909", "90a", "90c", "942", "950"),
        *("1010", "1011", "1012", "1013", "1030", "1031", "1032", "1033", "1034", "1035", "1036"),
        *("1100", "1101", "1102", "1103", "1150", "1151", "1152", "1153"),
        *("1200", "1201", "1250", "1251"),
    )
)
"""AMD processors that LLVM 22 can emit HSA code objects for, from gfx9 on."""

_CUDA_NUMBERS = (70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121)
CUDA_ARCHES: tuple[str, ...] = tuple(
    f"sm_{number}{suffix}"
    for number in _CUDA_NUMBERS
    for suffix in ("", *(("a",) if number >= 90 else ()), *(("f",) if number >= 100 else ()))
)
"""NVIDIA processors that LLVM 22 can emit PTX for, from Volta on."""

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


def _unknown(what: str, text: str, known: tuple[str, ...], extra: str = "") -> NoReturn:
    close = difflib.get_close_matches(text.lower(), known, 1, 0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise TargetError(f"Unknown {what} architecture {text!r}.{hint} Known: {', '.join(known)}{extra}")


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


_ROCM_FEATURES: dict[str, tuple[str, ...]] = {
    "sramecc": ("gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx125"),
    "xnack": ("gfx9", "gfx101", "gfx125"),
    "tgsplit": ("gfx90a", "gfx942", "gfx950"),
    "cumode": ("gfx10", "gfx11", "gfx12"),
}
"""Feature -> prefixes of the architectures that have it; of any other LLVM only warns."""


def _check_rocm_features(arch: str, features: tuple[str, ...], text: str) -> None:
    for entry in features:
        name = entry[1:]
        if name.startswith("wavefrontsize"):
            lanes = warp_size_of(arch)
            if entry != f"+wavefrontsize{lanes}":
                raise TargetError(f"{text!r}: code for {arch} has waves of {lanes} lanes, and no other form is made")
            continue
        prefixes = _ROCM_FEATURES.get(name, ())
        if not arch.startswith(prefixes or "none"):
            has = ", ".join(known for known, where in _ROCM_FEATURES.items() if arch.startswith(where))
            raise TargetError(f"{arch} has no feature {name!r}, in {text!r}; it has: {has}")


def normalize_rocm_arch(text: str) -> tuple[str, tuple[str, ...]]:
    """Architecture and features of `gfx942`, `GFX942`, `9.4.2` or `gfx942:sramecc+:xnack-`."""
    base, *features = text.strip().split(":")
    arch = gfx_of_version(base) or base.strip().lower()
    if arch not in ROCM_ARCHES:
        _unknown("rocm", base, ROCM_ARCHES)
    found = _parse_features(features, text)
    _check_rocm_features(arch, found, text)
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
    if arch not in CUDA_ARCHES:
        _unknown("cuda", base, CUDA_ARCHES)
    return arch, _parse_features(features, str(text))


def normalize_cpu_arch(text: str) -> tuple[str, tuple[str, ...]]:
    """`native`, or the normalised GPU architecture to emulate."""
    base = text.strip().split(":")[0].strip().lower()
    if base == CPU_NATIVE:
        return CPU_NATIVE, ()
    backend = gpu_backend_of_arch(base)
    if backend is None:
        _unknown("cpu", base, (CPU_NATIVE, *ROCM_ARCHES, *CUDA_ARCHES))
    return normalize_rocm_arch(text) if backend == "rocm" else normalize_cuda_arch(text)


def gpu_backend_of_arch(arch: str) -> str | None:
    """The backend an architecture name decides by its form: `gfx*` is rocm, `sm*` is cuda; else None."""
    word = arch.strip().lower()
    if word.startswith("gfx"):
        return "rocm"
    return "cuda" if re.match(r"sm_?\d", word) else None


def is_rdna_arch(arch: str) -> bool:
    """Whether `arch` is an RDNA chip: gfx10*, gfx11*, gfx120* (gfx125* has 32-wide waves but is not RDNA)."""
    return arch.lower().startswith(("gfx10", "gfx11", "gfx120"))


def warp_size_of(arch: str) -> int:
    """Lanes per warp (wave) of a normalised architecture name."""
    if arch == CPU_NATIVE:
        return config.cpu.warp_size
    if arch.startswith("gfx"):
        return 32 if arch.startswith(("gfx10", "gfx11", "gfx12")) else 64
    return 32


_LDS_LIMITS = {"gfx950": 160 * KIB, "gfx1250": 320 * KIB, "gfx1251": 320 * KIB}
_SHARED_OPTIN = {70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 110: 227}


def caps_of(arch: str, warp_size: int | None = None) -> TargetCaps:
    """The static limits of a normalised architecture name; those of an architecture that is not ours are unknown."""
    warp = warp_size or warp_size_of(arch)
    if arch == CPU_NATIVE or gpu_backend_of_arch(arch) is None:
        return TargetCaps(warp, None, None)
    if arch.startswith("gfx"):
        limit = _LDS_LIMITS.get(arch, 64 * KIB)
        return TargetCaps(warp, limit, limit, clusters=arch.startswith("gfx125"))
    number = int(re.sub(r"\D", "", arch))
    if number in _SHARED_OPTIN:
        optin: int | None = _SHARED_OPTIN[number] * KIB
    else:
        optin = 227 * KIB if 100 <= number < 110 else 99 * KIB if 120 <= number < 130 else None
    return TargetCaps(warp, 48 * KIB, optin, max_block_dim=(1024, 1024, 64), clusters=number >= 90)


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
            raise TargetError(f"target {text!r} names no architecture: expected {backend}:arch")
        width: int | None = None
        features: list[str] = []
        for part in parts[2:]:
            if match := re.fullmatch(r"w(\d+)", part.strip().lower()):
                width = int(match[1])
            elif part.strip():
                features.append(part)
        if backend in _NORMALIZERS:
            return make_builtin_target(backend, ":".join((parts[1], *features)), width)
        if width is None:
            raise TargetError(f"target {text!r} needs the warp width of backend {backend!r}, as in {text.strip()}:w32")
        return GPUTarget(backend, parts[1].strip(), width, _parse_features(features, text))


_NORMALIZERS = {"rocm": normalize_rocm_arch, "cuda": normalize_cuda_arch, "cpu": normalize_cpu_arch}


def make_builtin_target(backend: str, arch: str, warp_size: int | None = None) -> GPUTarget:
    """The target of one of the built-in stacks for any accepted spelling of `arch`."""
    name, features = _NORMALIZERS[backend](arch)
    natural = warp_size_of(name)
    if warp_size not in (None, natural) and not (backend == "cpu" and name == CPU_NATIVE):
        raise TargetError(f"{backend}:{name} has warps of {natural} lanes, not {warp_size}")
    return GPUTarget(backend, name, warp_size or natural, features)
