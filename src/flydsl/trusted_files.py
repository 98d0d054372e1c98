"""Files that nobody but trusted users can have written, and how to open them.

The rule is that of ssh and git: every folder from a root down, and every file, belongs to this user or to root and is
writable by no one else. An access control list that lets someone write shows in the group bits of the mode (they hold
its mask), so the mode is enough. What is checked is the open descriptor, never a name that could be changed afterwards.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flydsl import config
from flydsl.errors import CacheWarning, ConfigError

OWNERS_VARIABLE = "FLYDSL_RUNTIME_CACHE_TRUSTED_OWNERS"
READ_SIZE = 1 << 24
"""Bytes asked of the system at a time."""

_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
# A folder that may be passed through but not listed can be opened as a path only.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _CLOEXEC


OWNERS_KNOWN = hasattr(os, "geteuid") and os.open in os.supports_dir_fd
"""Whether the system says who owns a file, and opens files below an open folder. Windows does neither: there nothing is
read from disk that would be run."""


class UntrustedError(PermissionError):
    """A file or folder that is not used, why, and what to do about it."""

    def __init__(self, path: str | os.PathLike[str], reason: str, remedy: str):
        super().__init__(errno.EPERM, f"{reason}; {remedy}", os.fspath(path))
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose files are used: those of some users, and those of some groups, which may write as well."""

    owners: frozenset[int]
    groups: frozenset[int] = frozenset()

    @classmethod
    def of(cls, words: Iterable[str] = ()) -> Trust:
        """This user, root, and whoever is named: a user by name or number, a group as `@name` or `@number`."""
        if not OWNERS_KNOWN:
            raise OSError(errno.ENOTSUP, "this system does not say who may have written a file")
        owners, groups = {0, os.geteuid()}, set[int]()
        for word in words:
            if word.startswith("@"):
                groups.add(_group_number(word[1:]))
            else:
                owners.add(_user_number(word))
        return cls(frozenset(owners), frozenset(groups))

    def check(self, path: str | os.PathLike[str], info: os.stat_result) -> None:
        """Raise `UntrustedError` if someone else may have written this."""
        of_group = info.st_gid in self.groups
        if info.st_uid not in self.owners and not of_group:
            owner = _user_name(info.st_uid)
            raise UntrustedError(
                path,
                f"it belongs to {owner}, not to you",
                f"use a folder of your own (FLYDSL_RUNTIME_CACHE_DIR), or set {OWNERS_VARIABLE}={owner} if you would "
                "run any program of theirs",
            )
        if info.st_mode & stat.S_IWOTH:
            raise UntrustedError(path, "everyone may write to it", f"run `chmod go-w {os.fspath(path)}` or remove it")
        if info.st_mode & stat.S_IWGRP and not of_group:
            group = _group_name(info.st_gid)
            raise UntrustedError(
                path,
                f"the group {group} may write to it",
                f"run `chmod g-w {os.fspath(path)}`, or set {OWNERS_VARIABLE}=@{group} if you would run any program of "
                "its members",
            )


def _user_number(word: str) -> int:
    if word.isdecimal():
        return int(word)
    import pwd

    try:
        return pwd.getpwnam(word).pw_uid
    except KeyError:
        raise ConfigError(f"{OWNERS_VARIABLE} names the user {word!r}, whom this system does not know") from None


def _group_number(word: str) -> int:
    if word.isdecimal():
        return int(word)
    import grp

    try:
        return grp.getgrnam(word).gr_gid
    except KeyError:
        raise ConfigError(f"{OWNERS_VARIABLE} names the group {word!r}, which this system does not know") from None


def _user_name(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group_name(number: int) -> str:
    import grp

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def check_parents(root: str | os.PathLike[str], trust: Trust) -> None:
    """Nobody may be able to put another folder in the place of a root: raises `UntrustedError`."""
    own = Path(root).absolute()
    for path in (own, *own.parents):
        try:
            info = os.lstat(path)
        except FileNotFoundError:
            continue
        if stat.S_ISLNK(info.st_mode) and info.st_uid not in trust.owners:
            owner = _user_name(info.st_uid)
            raise UntrustedError(root, f"{path} is a link of {owner}", "use a folder of your own")
    for path in Path(os.path.realpath(own)).parents:
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            continue
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise UntrustedError(root, f"everyone may write to {path}, above it", f"run `chmod o-w {path}`")


@contextmanager
def open_folder(
    root: str | os.PathLike[str], parts: Sequence[str], trust: Trust, *, make: bool = False
) -> Generator[int]:
    """A descriptor of a folder below a root, each folder on the way checked; with `make`, missing ones are made.

    Folders below one that a group may write to are that group's too, others their owner's alone.
    """
    handle = os.open(root, _FOLDER)
    try:
        info = os.fstat(handle)
        path = os.fspath(root)
        trust.check(path, info)
        for part in parts:
            path = os.path.join(path, part)
            below = _open_child(handle, part, path, info.st_mode, make)
            handle, above = below, handle
            _close(above)
            info = os.fstat(handle)
            trust.check(path, info)
        yield handle
    finally:
        _close(handle)


def _open_child(folder: int, name: str, path: str, mode: int, make: bool) -> int:
    try:
        return os.open(name, _FOLDER | _NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            _refuse_link(folder, name, path)
        raise
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
        if mode & stat.S_IWGRP:
            os.chmod(name, 0o700 | (mode & 0o2070), dir_fd=folder)
    except FileExistsError:  # another process was faster
        pass
    return os.open(name, _FOLDER | _NOFOLLOW, dir_fd=folder)


def _refuse_link(folder: int | None, name: str, path: str) -> None:
    if stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode):
        raise UntrustedError(path, "it is a link", "remove it")


def _close(handle: int) -> None:
    try:
        os.close(handle)
    except OSError:  # nothing was written through it, and Linux has freed the descriptor
        return


def open_file(
    name: str | os.PathLike[str], flags: int, mode: int = 0, *, folder: int | None = None, path: str = ""
) -> int:
    """Open a regular file: below a folder without following a link, and never waiting for a writer of a FIFO."""
    shown = path or os.fspath(name)
    try:
        extra = _NOFOLLOW if folder is not None else 0
        handle = os.open(name, flags | extra | _NONBLOCK | _CLOEXEC, mode, dir_fd=folder)
    except OSError as error:
        if folder is not None and error.errno == errno.ELOOP:
            _refuse_link(folder, os.fspath(name), shown)
        if error.errno == errno.ENXIO:  # a FIFO or a socket
            raise UntrustedError(shown, "it is not a regular file", "remove it") from None
        raise
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), shown)
        if not stat.S_ISREG(mode):
            raise UntrustedError(shown, "it is not a regular file", "remove it")
    except BaseException:
        _close(handle)
        raise
    return handle


def read_file(
    name: str | os.PathLike[str], limit: int, *, folder: int | None = None, trust: Trust | None = None, path: str = ""
) -> tuple[bytes, os.stat_result]:
    """Content and status of a regular file of at most `limit` bytes; with `trust`, one that only they can write."""
    shown = path or os.fspath(name)
    handle = open_file(name, os.O_RDONLY, folder=folder, path=shown)
    try:
        info = os.fstat(handle)
        if trust is not None:
            trust.check(shown, info)
        return _read_all(handle, limit, shown), info
    finally:
        _close(handle)


def _read_all(handle: int, limit: int, path: str) -> bytes:
    parts: list[bytes] = []
    # A file may grow while it is read, so what counts is what came, not only the size it claims.
    size = os.fstat(handle).st_size
    while size <= limit:
        part = os.read(handle, READ_SIZE)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size = max(size, sum(map(len, parts)))
    remedy = "remove it, or raise FLYDSL_RUNTIME_CACHE_MAX_ENTRY_BYTES"
    raise UntrustedError(path, f"it has {size} bytes, more than the limit of {limit}", remedy)


def write_all(handle: int, data: bytes) -> None:
    """Write everything: the system may take less at a time."""
    view = memoryview(data)
    while view:
        taken = os.write(handle, view)
        if taken <= 0:
            raise OSError(errno.EIO, "nothing was written")
        view = view[taken:]


def atomic_write(path: str | os.PathLike[str], data: bytes, *, folder: int | None = None, mode: int = 0o644) -> None:
    """Write a file so that a reader finds the old content or all of the new one; below a folder's descriptor, if given.

    Permissions follow the umask and let nobody else write. Nothing is left behind if it fails, unless the process is
    killed: then a file with a leading dot and the suffix `.tmp` stays.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name[:40]}.{os.urandom(8).hex()}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOEXEC | _NOFOLLOW, mode, dir_fd=folder)
    try:
        try:
            write_all(handle, data)
        finally:
            os.close(handle)
        if folder is None:
            os.replace(temporary, target)
        else:
            os.replace(temporary, target, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        try:
            os.unlink(temporary, dir_fd=folder)
        except OSError:  # it never appeared, or the disk is gone: later clean-ups look for it
            pass
        raise


_warned: set[str] = set()


def warn_untrusted(root: Path, error: UntrustedError) -> None:
    """Say once per root what is not used, why and what to do: the first case shows what the others are like."""
    if str(root) not in _warned:
        _warned.add(str(root))
        message = f"{error.filename} of the disk cache is ignored: {error.reason}; {error.remedy}"
        config.warn(message, CacheWarning, stacklevel=4)


# -- files that save time ------------------------------------------------------------------------------

SIDE_FILE_LIMIT = 1 << 24


def read_side_file(path: Path) -> bytes:
    """What lies beside the entries of the cache to save time; raises `OSError` where others may have written it."""
    trust = Trust.of(config.runtime.cache_trusted_owners)
    check_parents(path.parent, trust)
    with open_folder(path.parent, (), trust) as folder:
        try:
            return read_file(path.name, SIDE_FILE_LIMIT, folder=folder, trust=trust, path=str(path))[0]
        except UntrustedError as error:  # the folder itself is the cache's to complain of
            warn_untrusted(path.parent, error)
            raise


def write_side_file(path: Path, data: bytes) -> None:
    """Write such a file where the cache is there and may be written; whatever goes wrong only costs time."""
    if config.runtime.cache_readonly:
        return
    try:
        trust = Trust.of(config.runtime.cache_trusted_owners)
        check_parents(path.parent, trust)
        with open_folder(path.parent, (), trust) as folder:
            atomic_write(path.name, data, folder=folder)
    except OSError:
        return
