"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, mode: str, encoding: str | None = None) -> Generator[IO[Any]]:
    """A file to write in place of `path`, which it replaces when the block ends; after an error nothing has changed.

    Folders that are missing are made. Other processes see the old file or the new one, never a part of it.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_write(folder / "new" / "x.txt", mode="w") as file:
    ...     _ = file.write("text")
    >>> (folder / "new" / "x.txt").read_text()
    'text'
    """
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with open(handle, mode, encoding=encoding) as file:
            yield file
        os.replace(aside, place)
    except BaseException:
        os.unlink(aside)
        raise


__all__ = ["atomic_write"]
