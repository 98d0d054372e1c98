"""Remote stores of entries, a URL or brought by the user: whatever one raises only means that it did not help."""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from flydsl.compiler.cache.remote import shared_store
from flydsl.compiler.cache.stats import warn_once

_logger = logging.getLogger("flydsl.cache")


class Store(Protocol):
    """A remote store of entries (`FLYDSL_RUNTIME_CACHE_STORE=module:Class`), made without arguments."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, data: bytes) -> None: ...

    def contains(self, key: str) -> bool: ...

    def list(self) -> Iterator[str]: ...


class RemoteStore:
    """The store that `module:Class` or a URL names, made when it is first asked."""

    def __init__(self, text: str):
        self._text = text
        self._store: Store | None = None
        self._tried = False

    def __bool__(self) -> bool:
        return bool(self._text)

    def ask(self, what: str, ask: Callable[[Store], Any]) -> Any:
        """Call the store; None where it fails."""
        try:
            if not self._tried:
                self._tried = True
                self._store = self._made()
            return ask(self._store) if self._store is not None else None
        except Exception as error:
            _logger.debug("cache store %s: %s failed", self._text, what, exc_info=True)
            warn_once(
                f"store {self._text}",
                f"the cache store {self._text} failed ({what}: {error!r}); going on with the local cache",
            )
            return None

    def _made(self) -> Store:
        if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", self._text):
            return shared_store(self._text)
        module, _, name = self._text.partition(":")
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found()
