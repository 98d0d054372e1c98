"""The worker process of manifest builds: imports a function and compiles it into the cache it was started with."""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from typing import Any

from ...errors import ManifestError
from ...llvm.worker_process import Frame, Header, serve
from ..key.origin import below, origin_of

_entered: list[str] = []
"""The folder of the file that was asked for last."""
_before: set[str] = set()
"""Modules there were before it."""


def _enter(folder: str) -> None:
    """Put a folder first on the path. What another one's files are called is forgotten: here it may mean others."""
    if folder in _entered:
        return
    if _entered:
        last = _entered.pop()
        if last in sys.path:  # unless the files themselves took it away
            sys.path.remove(last)
        for name in sys.modules.keys() - _before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and below(file, [last]) and origin_of(file) == "user":
                del sys.modules[name]
    _entered.append(folder)
    _before.clear()
    _before.update(sys.modules)
    sys.path.insert(0, folder)
    importlib.invalidate_caches()


def find_function(text: str) -> Any:
    """The jit function `module:name` or `file.py:name`; a file is imported as if its folder were on the path."""
    from ..jit_function import JitFunction

    module, _, name = text.rpartition(":")
    path = Path(module) if module.endswith(".py") else None
    if path is not None:
        _enter(str(path.parent))
        module = path.stem
    loaded = importlib.import_module(module)
    file: str | None = getattr(loaded, "__file__", None)
    if path is not None and (file is None or not path.samefile(file)):
        raise ManifestError(f"{path} cannot be imported: {file or 'Python itself'} has the name '{module}' already")
    found = getattr(loaded, name, None)
    if not isinstance(found, JitFunction):
        known = [n for n, value in vars(loaded).items() if isinstance(value, JitFunction)]
        what = "is no @flyc.jit function" if hasattr(loaded, name) else "is not there"
        raise ManifestError(f"'{name}' {what}; {loaded.__name__} has {', '.join(known) or 'none'}")
    return found


def answer(request: Header, _: list[bytes]) -> Frame:
    """Compile, or (`check`) only say under which key the code would be."""
    from ..active_backend import resolve_backend
    from ..cache import default_cache
    from ..listeners import compile_listener
    from .manifest import arguments_of

    start = time.perf_counter()
    build = request["build"]
    function = find_function(build["function"])
    call = function.bind((), arguments_of(build, function.signature.parameters))
    backend = resolve_backend(build["target"])
    key = function.wanted(call, backend, build["hints"]).key
    cache = default_cache()
    if request["do"] == "check":
        found = cache.get(key)
        return {"key": key, "there": found is not None}, []
    hits: list[bool] = []

    def note(name: str, key: str, target: str, times: object, cache_hit: bool, artifact: object) -> None:
        hits.append(cache_hit)

    with compile_listener(note):
        artifact = function.artifact(call, backend, build["hints"])
    path = cache.path_of(key)
    reply = {
        "key": key,
        "known": all(hits),
        "size": path.stat().st_size if path is not None and path.exists() else 0,
        "binary": len(artifact.binary()),
        "kernels": [k["name"] for k in artifact.kernels],
        "seconds": time.perf_counter() - start,
    }
    return reply, []


def main() -> None:
    """Entry point of the child."""
    serve(answer)
