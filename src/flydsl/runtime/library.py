"""Finding and opening a vendor's driver library: explicit, already mapped, wheels, prefixes, loader.

`resolvable` answers without opening anything, so that a probe can never initialise a driver.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flydsl import config
from flydsl.config import Var
from flydsl.errors import LibraryNotFoundError


@dataclass(frozen=True, slots=True)
class LibrarySpec:
    """Where one vendor's library may be."""

    kind: str
    file_variables: tuple[Var[Path | None]]
    """The environment variable that names the file."""
    sonames: tuple[str, ...]
    wheels: tuple[tuple[str, str], ...] = ()
    """(Python package, folder in it) of wheels that bring the library."""
    prefix_variables: tuple[Var[Path | None], ...] = ()
    """Environment variables that name an installation."""
    usual_prefixes: tuple[str, ...] = ()
    prefix_folders: tuple[str, ...] = ("lib", "lib64")

    def explicit(self) -> Path | None:
        """The file the user names."""
        return self.file_variables[0].read()

    @property
    def variable(self) -> str:
        """Name of the environment variable that names the file."""
        return self.file_variables[0].name

    def prefixes(self) -> tuple[Path, ...]:
        """Installations to look into."""
        named = (variable.read() for variable in self.prefix_variables)
        return (*(path for path in named if path), *map(Path, self.usual_prefixes))


HIP = LibrarySpec(
    "rocm",
    (config.RuntimeEnv.hip_library,),
    ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"),
    wheels=(("_rocm_sdk_core", "lib"), ("torch", "lib")),
    prefix_variables=(config.SystemEnv.rocm_path, config.SystemEnv.hip_path),
    usual_prefixes=("/opt/rocm",),
)
# Not the toolkit's compat/ or lib64/stubs/: the one fits other kernel drivers only, the other does nothing.
CUDA = LibrarySpec(
    "cuda",
    (config.RuntimeEnv.cuda_library,),
    ("libcuda.so.1", "libcuda.so"),
    prefix_variables=(config.SystemEnv.cuda_home,),
)


def mapped_copies(spec: LibrarySpec) -> list[Path]:
    """Files of the library that are loaded into this process already."""
    try:
        text = Path("/proc/self/maps").read_text()
    except OSError:
        return []
    stems = tuple(name.partition(".so")[0] + ".so" for name in spec.sonames)
    found: dict[Path, None] = {}
    for line in text.splitlines():
        path = line.partition("/")
        if path[1] and os.path.basename(path[2]).startswith(stems):
            found[Path("/" + path[2])] = None
    return list(found)


def _wheel_files(spec: LibrarySpec) -> Iterator[Path]:
    for package, folder in spec.wheels:
        try:
            found = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            continue
        for base in (found.submodule_search_locations or ()) if found else ():
            for name in spec.sonames:
                path = Path(base, folder, name)
                if path.exists():
                    yield path


def _prefix_files(spec: LibrarySpec) -> Iterator[Path]:
    for prefix in spec.prefixes():
        for folder in spec.prefix_folders:
            for name in spec.sonames:
                path = prefix / folder / name
                if path.exists():
                    yield path


def candidates(spec: LibrarySpec) -> list[str]:
    """What to hand to the loader, best first: paths that exist, then bare sonames."""
    explicit = spec.explicit()
    mapped = mapped_copies(spec)
    if explicit is not None:
        if mapped and not any(_same(explicit, path) for path in mapped):
            raise LibraryNotFoundError(
                f"{spec.variable}={explicit} differs from {mapped[0]}, which this process has loaded already; "
                "two copies of a driver library must not be mixed"
            )
        return [str(explicit)]
    return [*map(str, mapped), *map(str, _wheel_files(spec)), *map(str, _prefix_files(spec)), *spec.sonames]


def _same(left: Path, right: Path) -> bool:
    return os.path.realpath(left) == os.path.realpath(right)


def open_library(spec: LibrarySpec) -> tuple[ctypes.CDLL, str]:
    """The library and the name it was opened by; raises with every candidate and why it failed."""
    tried: list[str] = []
    for name in candidates(spec):
        try:
            return ctypes.CDLL(name, mode=os.RTLD_NOW | os.RTLD_LOCAL), name
        except OSError as error:
            tried.append(f"{name}: {error}")
    listing = "\n  ".join(tried)
    raise LibraryNotFoundError(
        f"the {spec.kind} driver library was not found. Set {spec.variable} to its file, or "
        f"FLYDSL_COMPILE_BACKEND to another stack. Tried:\n  {listing}"
    )


def resolvable(spec: LibrarySpec) -> bool:
    """Whether the loader would find the library, told from files alone."""
    explicit = spec.explicit()
    if explicit is not None:
        return explicit.exists()
    if mapped_copies(spec) or any(True for _ in _wheel_files(spec)) or any(True for _ in _prefix_files(spec)):
        return True
    return any(_on_loader_path(name) for name in spec.sonames)


_LOADER_FOLDERS = (
    *("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib", "/usr/lib/wsl/lib"),
    *("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu"),
)


def _on_loader_path(soname: str) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    folders = (*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *_LOADER_FOLDERS)
    if any(folder and os.path.exists(os.path.join(folder, soname)) for folder in folders):
        return True
    try:
        # The loader's cache holds names and paths as plain NUL-terminated text.
        return b"\0" + soname.encode() + b"\0" in Path("/etc/ld.so.cache").read_bytes()
    except OSError:
        return False
