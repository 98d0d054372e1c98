"""Whose code something is, seen from the function whose key is made."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import cast

from flydsl import config
from flydsl.compiler.key import origin as origins
from flydsl.compiler.key.origin import below, origin_of
from flydsl.compiler.key.product import EXTRA_SOURCE_DIRS


class Ownership:
    """Tells the user's code, which counts by itself, from that of libraries, which counts by version."""

    def __init__(self, function: FunctionType, depends_on: tuple[object, ...]):
        # Below an installed root file its folder counts. Elsewhere the tree may hold a virtual environment, and what is
        # not installed is the user's anyway.
        root = function.__code__.co_filename
        folder = os.path.dirname(os.path.realpath(root)) if origin_of(root) == "installed" else ""
        self.user_dirs = [folder] if below(folder, origins.library_dirs()[0]) else []
        self.user_dirs += [os.path.realpath(p) for p in (*config.compile.extra_source_dirs, *EXTRA_SOURCE_DIRS)]
        self.packages = {function.__module__.partition(".")[0], *origins.decorated_packages}
        self.prefixes = {
            str(getattr(item, "__name__", item)) for item in depends_on if isinstance(item, str | ModuleType)
        }

    def is_user(self, filename: str, module: str) -> bool:
        """The author's own code, and what belongs to no installed package: nothing else would notice its changes."""
        origin = origin_of(filename)
        if origin in ("product", "standard"):
            return False
        if origin == "user" or module.partition(".")[0] in self.packages:
            return True
        if any(module == prefix or module.startswith(prefix + ".") for prefix in self.prefixes):
            return True
        return below(os.path.realpath(filename), self.user_dirs)

    def of_module(self, module: ModuleType) -> str:
        name = module.__name__
        if name.partition(".")[0] == "flydsl" and not (name + ".").startswith("flydsl.kernels."):
            return "product"
        file = getattr(module, "__file__", None)
        if not file:
            paths = list(cast("Iterable[str]", getattr(module, "__path__", ())))
            file = os.path.join(paths[0], "__init__.py") if paths else "<frozen builtin>"
            if name == "__main__" or (name not in sys.builtin_module_names and not paths):
                file = "<main>"  # a notebook, or made by hand
        return "user" if self.is_user(str(file), name) else origin_of(str(file))

    def of_class(self, cls: type) -> str:
        module = cls.__module__
        if not isinstance(module, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a class may say anything
            return "user"
        if module.partition(".")[0] == "flydsl" and not (module + ".").startswith("flydsl.kernels."):
            return "product"
        file = getattr(sys.modules.get(module), "__file__", None) or ("<main>" if module == "__main__" else "<class>")
        if module in sys.builtin_module_names or not self.is_user(file, module):
            return "external"
        return "user"
