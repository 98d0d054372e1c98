"""What decides how a `DiskCache` works, and the environment's choice of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from flydsl import config
from flydsl.trusted_files import OWNERS_KNOWN


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that decides what a `DiskCache` does."""

    root: Path | None = None
    """The root to use; None: no disk."""
    explicit: bool = True
    """Whether the user chose the root. If not, other places are tried when it cannot be used."""
    read_roots: tuple[Path, ...] = ()
    readonly: bool = False
    max_bytes: int = 0
    binary_only: bool = False
    lock_timeout: float = 600
    store: str = ""
    trusted_owners: tuple[str, ...] = ()
    """Users and `@groups` whose files are used beside this user's and root's."""
    trusted_keys: tuple[Path, ...] = ()
    """Public keys; with some, what this process does not write itself must be signed with one of them."""
    max_entry_bytes: int = 1 << 30


_last: list[tuple[dict[object, object], str, Settings]] = []
"""An environment, a working folder, and the settings they gave."""


def current_settings() -> Settings:
    """The settings of the environment as it is now."""
    try:
        now = (config.whole_environment(), os.getcwd())
    except FileNotFoundError:  # the folder was removed
        return _read_settings()
    known = _last[0] if _last else None
    if known is None or known[:2] != now:
        known = (*now, _read_settings())
        _last[:] = [known]
    return known[2]


def _read_settings() -> Settings:
    env = config.runtime
    reading = (env.enable_cache or env.run_only) and OWNERS_KNOWN
    if not reading:
        return Settings(lock_timeout=env.lock_timeout)
    explicit = config.RuntimeEnv.cache_dir.raw() is not None
    try:
        root = env.cache_dir.absolute()
    except RuntimeError:  # "~" and nobody knows the home directory
        root = Path("~") if explicit else None
    return Settings(
        root=root,
        explicit=explicit,
        read_roots=tuple(path.absolute() for path in env.cache_path),
        readonly=env.cache_readonly or not env.enable_cache,
        max_bytes=env.cache_max_bytes,
        binary_only=env.cache_binary_only,
        lock_timeout=env.lock_timeout,
        store=env.cache_store or env.cache_remote,
        trusted_owners=env.cache_trusted_owners,
        trusted_keys=tuple(path.absolute() for path in config.aot.trusted_keys),
        max_entry_bytes=env.cache_max_entry_bytes,
    )
