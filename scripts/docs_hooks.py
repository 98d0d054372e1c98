"""For MkDocs: what pages link to outside `docs/` is not part of the site, and is named instead."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)\s]*)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Links to files of the repository become the name of the file."""
    folder = posixpath.dirname(page.file.src_uri)

    def named(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, found[2].partition("#")[0]))
        if path.startswith("docs/"):
            return found[0]
        return found[1] if found[1].strip("`") == path else f"{found[1]} (`{path}`)"

    return _LINK.sub(named, markdown)
