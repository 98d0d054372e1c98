"""For MkDocs: what pages link to outside `docs/` is not part of the site, and is named instead."""

from __future__ import annotations

import re

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+(?!\w+\.md\))[^)]*|\.\./(?:CHANGELOG|CONTRIBUTING|README)\.md)\)")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Links to files of the repository become the name of the file."""

    def named(found: re.Match[str]) -> str:
        path = found[2].lstrip("./")
        return found[1] if found[1].strip("`") == path else f"{found[1]} (`{path}`)"

    return _OUTSIDE.sub(named, markdown)
