"""Which directories can hold the cache: created, owned and writable by the right people."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from flydsl import config
from flydsl.compiler.cache.files import SCHEMA, make_directories
from flydsl.compiler.cache.stats import why
from flydsl.trusted_files import Trust, UntrustedError, check_parents, open_folder


class UnusableError(Exception):
    """Why a directory cannot be a root; `untrusted` if others may have put something there."""

    def __init__(self, reason: str, *, untrusted: bool = False):
        super().__init__(reason)
        self.untrusted = untrusted


def check_root(root: Path, trust: Trust, *, readonly: bool) -> bool:
    """Make a root ready; whether it can be written to. Raises `UnusableError`."""
    try:
        check_parents(root, trust)
        if not readonly:
            make_directories(root)
        info = root.stat()
        if not stat.S_ISDIR(info.st_mode):
            raise UnusableError("it is not a directory")
        trust.check(root, info)
    except UntrustedError as error:
        raise UnusableError(f"{error.reason}; {error.remedy}", untrusted=True) from None
    except OSError as error:
        raise UnusableError(why(error)) from None
    version = root / f"v{SCHEMA}"
    reason = "it cannot be read"
    if not readonly:
        try:
            with open_folder(root, (version.name,), trust, make=True):
                pass
            if os.access(root, os.W_OK | os.X_OK) and os.access(version, os.W_OK | os.X_OK):
                return True
            reason = "it cannot be written to"
        except UntrustedError as error:
            raise UnusableError(f"{version}: {error.reason}; {error.remedy}", untrusted=True) from None
        except OSError as error:
            reason = why(error)
    # What cannot be entered is no folder to read from either; a missing one may appear later.
    if os.access(version, os.R_OK | os.X_OK) or (readonly and os.access(root, os.R_OK | os.X_OK)):
        return False
    raise UnusableError(reason)


def check_private(path: Path) -> None:
    """Refuse a directory below the shared temporary one that someone else could have put there."""
    try:
        path.mkdir(0o700, exist_ok=True)
        info = path.lstat()
    except OSError as error:
        raise UnusableError(why(error)) from None
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o022:
        raise UnusableError("it belongs to someone else, or others may write to it")


def fallback_roots() -> Iterator[tuple[Path, bool]]:
    """Roots to try when the default one cannot be used, and whether others could tamper with the place."""
    try:
        if (xdg := config.system.xdg_cache_home) is not None:
            yield xdg / "flydsl", False
    except RuntimeError:  # a `~` in it, and no home
        pass
    import tempfile

    yield Path(tempfile.gettempdir()) / f"flydsl-{os.geteuid()}", True
