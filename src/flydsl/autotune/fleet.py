"""Winners of other machines: fetched, published and leased through the store that all of them share."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

from .. import config
from ..compiler.cache.remote import SCHEMA, SharedStore, sealed, shared_store, unsealed
from .key import TuningKey
from .winners import Entry

POLL_S = 0.5


def _store() -> SharedStore | None:
    url = config.runtime.cache_remote
    return shared_store(url) if url else None


def _name(key: TuningKey) -> str:
    return f"{SCHEMA}/winners/{key.digest[:2]}/{key.digest}.json"


def fetch(key: TuningKey) -> Entry | None:
    """The entry of a key in the shared store, if it is whole and has the form of one."""
    store = _store()
    data = None if store is None else store.read(_name(key))
    body = None if data is None else unsealed(data)
    if body is None:
        return None
    try:
        entry: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    fields = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
    return fields if isinstance(fields.get("config"), dict) and fields.get("key") == key.digest else None


def publish(key: TuningKey, entry: Entry) -> None:
    """Put an entry into the shared store, now: others wait for it."""
    store = _store()
    if store is not None and not config.runtime.cache_readonly:
        store.write(_name(key), sealed(json.dumps({**entry, "key": key.digest}).encode()))


@contextmanager
def lease(key: TuningKey) -> Generator[Entry | None]:
    """Held while a key is searched, so that of a fleet one machine does it.

    Gives the entry of the machine that did, if that was another one. A lease that is not given back expires.
    """
    store = _store()
    if store is None or config.autotune.force or config.runtime.cache_readonly:
        yield None
        return
    end = time.monotonic() + config.runtime.lock_timeout
    while not (held := store.take_lease(key.digest)):
        found = fetch(key)
        if found is not None:
            yield found
            return
        if time.monotonic() >= end:
            break
        time.sleep(POLL_S)
    try:
        yield fetch(key)  # its holder may have finished just before
    finally:
        if held:
            store.drop_lease(key.digest)
