"""ROCm's device libraries: which files of bitcode define a symbol, for a target.

`ocml` is mathematics, `ockl` what kernels need of a run time; both read constants that the `oclc_*` files define, one
file per option and value. An installation of ROCm has them in `amdgcn/bitcode`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from flydsl import config
from flydsl.target import GPUTarget

ABI_VERSION = 600
_OWNERS = {"__ocml_": "ocml", "__ockl_": "ockl", "__oclc_": "oclc"}


def folders() -> Iterator[Path]:
    """Where the libraries may be: as the environment says, or in an installation."""
    if config.compile.device_libs is not None:
        yield config.compile.device_libs
        return
    for root in (os.environ.get("ROCM_PATH"), "/opt/rocm"):
        if root:
            yield Path(root, "amdgcn", "bitcode")


def folder() -> Path | None:
    """The first that is there."""
    return next((place for place in folders() if place.is_dir()), None)


def owners(symbols: Iterable[str]) -> set[str]:
    """The libraries that define symbols, by their names."""
    return {library for symbol in symbols for start, library in _OWNERS.items() if symbol.startswith(start)}


def option_files(target: GPUTarget) -> list[str]:
    """The files that fix the options of a target."""
    version = re.sub(r"^gfx", "", target.arch.split(":")[0])
    wave64 = "on" if target.warp_size == 64 else "off"
    return [
        f"oclc_isa_version_{version}",
        f"oclc_wavefrontsize64_{wave64}",
        f"oclc_abi_version_{ABI_VERSION}",
        "oclc_unsafe_math_off",
        "oclc_finite_only_off",
        "oclc_daz_opt_off",
        "oclc_correctly_rounded_sqrt_on",
    ]


def _file(place: Path, name: str) -> Path | None:
    """A library by its name; older installations have another ending."""
    return next((p for p in (place / f"{name}.bc", place / f"{name}.amdgcn.bc") if p.is_file()), None)


def device_libs(target: GPUTarget, symbols: Iterable[str]) -> list[Path]:
    """The files to link for symbols; `FileNotFoundError` says what is missing where."""
    wanted = owners(symbols)
    if not wanted:
        return []
    place = folder()
    if place is None:
        tried = ", ".join(map(str, folders())) or "nowhere"
        raise FileNotFoundError(
            f"{', '.join(sorted(symbols))} is defined by ROCm's device libraries, which are not here (looked at "
            f"{tried}); set FLYDSL_COMPILE_DEVICE_LIBS to the folder with ocml.bc and ockl.bc"
        )
    found: list[Path] = []
    # `ockl` calls `ocml`; what nobody calls is dropped again.
    for name in [n for n in ("ockl", "ocml") if n in wanted or (n == "ocml" and "ockl" in wanted)]:
        path = _file(place, name)
        if path is None and name in wanted:
            raise FileNotFoundError(f"{place} has no {name}.bc, which defines {', '.join(sorted(symbols))}")
        found += [] if path is None else [path]
    found += [path for name in option_files(target) if (path := _file(place, name)) is not None]
    return found
