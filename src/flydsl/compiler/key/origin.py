"""Whose code it is: the product's, the standard library's, another package's or the user's."""

from __future__ import annotations

import functools
import glob
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from pathlib import Path

PRODUCT = Path(__file__).resolve().parents[2]
"""The folder of this package."""


@functools.lru_cache(maxsize=1)
def library_dirs() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Directories of installed packages, and of the standard library."""
    # What `sysconfig.get_paths` says, without the build settings that it loads for it: they take 8 ms.
    version, kinds = f"python{sys.version_info[0]}.{sys.version_info[1]}", {"lib", sys.platlibdir}
    libraries = {
        os.path.join(prefix, kind, version)
        for prefix in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
        for kind in kinds
    }
    installed = {os.path.join(library, "site-packages") for library in libraries}
    installed |= {path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")}
    standard = {*libraries, os.path.dirname(os.__file__)}  # a virtual environment shares the last one
    return tuple(sorted(map(os.path.realpath, installed))), tuple(sorted(map(os.path.realpath, standard)))


def below(path: str, directories: Iterable[str]) -> bool:
    return any(path.startswith(directory + os.sep) for directory in directories)


@functools.lru_cache(maxsize=4096)
def origin_of(filename: str) -> str:
    """`product`, `standard`, `installed` or `user`."""
    if filename.startswith("<frozen "):
        return "standard"
    if filename.startswith("<"):
        return "user"
    path = os.path.realpath(filename)
    product = str(PRODUCT)
    if below(path, (product,)) and not below(path, (os.path.join(product, "kernels"),)):
        return "product"
    installed, standard = library_dirs()
    if below(path, installed):
        return "installed"
    return "standard" if below(path, standard) else "user"


decorated_packages: set[str] = set()


def note_decorated(module: str) -> None:
    """Tell that a module holds a decorated function: helpers of its package then count as user code."""
    decorated_packages.add(module.partition(".")[0])


@functools.lru_cache(maxsize=512)
def package_version(top: str) -> str:
    """Version of the distribution that offers a top-level package; empty if there is none."""
    version: object = getattr(sys.modules.get(top), "__version__", None)
    if isinstance(version, str):
        return str(version)
    return distribution_version(top)


@functools.lru_cache(maxsize=64)
def distribution_version(name: str) -> str:
    """Version of an installed distribution, which is not imported for it; empty if there is none.

    The folder beside the package is named after it. Asking `importlib.metadata` takes 20 ms of every process.
    """
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # a script, a notebook or a module made by hand: there is no distribution to ask for
        return ""
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        found = glob.glob(os.path.join(glob.escape(os.path.dirname(place)), f"{name}-*.dist-info"))
        if len(found) == 1:
            return os.path.basename(found[0])[len(name) + 1 : -len(".dist-info")]
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
