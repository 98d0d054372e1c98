"""Winners on disk: one file for each tuned function, replaced as a whole under a lock, merged with what is there.

Like the cache of compiled code it is used only where nobody else can have written it, and whatever goes wrong with it
costs a search, never a failure.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from .. import config
from ..compiler.cache import locks
from ..compiler.cache.files import make_directories
from ..compiler.cache.stats import warn_once, why
from ..errors import CacheWarning
from ..trusted_files import Trust, UntrustedError, atomic_write, check_parents, open_folder, read_file
from .candidate import Config, plain_values
from .key import TuningKey

SCHEMA = 1
LIMIT = 1 << 26
"""Bytes of a file."""
_VARIABLE = "FLYDSL_AUTOTUNE_CACHE_DIR"

Entry = dict[str, object]


class WinnerFile:
    """The winners of one function, by tuning key."""

    def __init__(self, module: str, qualname: str):
        self.module = module
        self.qualname = qualname
        digest = hashlib.sha256(f"{module}\0{qualname}".encode()).hexdigest()[:24]
        stem = re.sub(r"[^A-Za-z0-9_.-]", "_", qualname.rpartition(".")[2])[:40] or "function"
        self.name = f"{stem}-{digest}.json"

    @property
    def path(self) -> Path:
        """Where the file is or would be."""
        return config.autotune.cache_dir.absolute() / self.name

    # -- read ------------------------------------------------------------------------------------------

    def get(self, key: TuningKey) -> tuple[Config, Entry] | None:
        """The winner of a key with its entry, or None."""
        entry = self._read().get(key.digest)
        if entry is None:
            return None
        try:
            return Config.from_dict(cast("dict[str, object]", entry["config"])), entry
        except (KeyError, TypeError, ValueError) as error:
            warn_once(f"winner {self.path}", f"an entry of {self.path} is ignored: {error!r}")
            return None

    def _read(self) -> dict[str, Entry]:
        path = self.path
        try:
            trust = Trust.of(config.runtime.cache_trusted_owners)
            check_parents(path.parent, trust)
            with open_folder(path.parent, (), trust) as folder:
                data, _ = read_file(path.name, LIMIT, folder=folder, trust=trust, path=str(path))
        except UntrustedError as error:
            warn_once(f"winners {path}", f"{path} is not used: {error.reason}; {error.remedy}")
            return {}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            warn_once(f"winners {path}", f"{path} cannot be read: {why(error)}; the search is made again")
            return {}
        found = parse(data)
        if found is None:
            warn_once(f"winners {path}", f"{path} is no file of winners that this version reads; it is replaced")
        return found or {}

    # -- write -----------------------------------------------------------------------------------------

    def put(self, key: TuningKey, entry: Entry) -> bool:
        """Add a winner; whether it is on disk now. Failures warn once and are no errors."""
        path = self.path
        try:
            make_directories(path.parent)
            with self._locked(path.with_suffix(".lock"), config.runtime.lock_timeout):
                entries = self._read()
                entries[key.digest] = entry
                body = {
                    "version": SCHEMA,
                    "module": self.module,
                    "qualname": self.qualname,
                    "entries": dict(sorted(entries.items())),
                }
                trust = Trust.of(config.runtime.cache_trusted_owners)
                check_parents(path.parent, trust)
                with open_folder(path.parent, (), trust) as folder:
                    atomic_write(path.name, json.dumps(body, indent=1).encode(), folder=folder)
            return True
        except UntrustedError as error:
            reason = f"{error.reason}; {error.remedy}"
        except OSError as error:
            reason = why(error)
        config.warn(
            f"the winner of {self.qualname} is kept in memory only: {path.parent} cannot be written to ({reason}); "
            f"{_VARIABLE} names another folder",
            CacheWarning,
            stacklevel=3,
        )
        return False

    # -- locks -----------------------------------------------------------------------------------------

    @contextmanager
    def searching(self, key: TuningKey) -> Generator[bool]:
        """Held while a key is searched, so that of several processes one does it; whether others are kept out."""
        path = self.path.with_name(f"{Path(self.name).stem}-{key.digest[:16]}.lock")
        with self._locked(path, config.runtime.lock_timeout) as held:
            yield held

    @contextmanager
    def _locked(self, path: Path, timeout: float) -> Generator[bool]:
        handle: int | None = None
        owner = os.getpid()
        try:
            make_directories(path.parent)
            trust = Trust.of(config.runtime.cache_trusted_owners)
            check_parents(path.parent, trust)
            with open_folder(path.parent, (), trust) as folder:
                handle = locks.acquire(path, folder, timeout, lambda: None)
        except OSError:  # said where the file is written
            handle = None
        try:
            yield handle is not None
        finally:
            if handle is not None and os.getpid() == owner:
                locks.release(handle, path, remove=True)


def parse(data: bytes) -> dict[str, Entry] | None:
    """The entries of a file, or None for anything that is not exactly one."""
    try:
        body: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    fields = cast("dict[str, object]", body) if isinstance(body, dict) else {}
    entries = fields.get("entries")
    if fields.get("version") != SCHEMA or not isinstance(entries, dict):
        return None
    found = cast("dict[str, object]", entries)
    return {
        key: cast(Entry, entry)
        for key, entry in found.items()
        if isinstance(entry, dict) and isinstance(cast("dict[str, object]", entry).get("config"), dict)
    }


def make_entry(key: TuningKey, winner: Config, timings: list[dict[str, object]], *, complete: bool) -> Entry | None:
    """What is kept of a search; None where the winner does not survive JSON."""
    values = plain_values(winner)
    if values is None or winner.pre_hook is not None:
        return None
    return {
        "config": values,
        "timings": timings,
        "complete": complete,
        "declared": key.parts["declared"],
        "device": key.parts["device"],
        "created": int(time.time()),
    }
