"""One compilation of a script in a process of its own: its imports are fresh, and what it does to itself stays there.

python -m flydsl.tools.explore.child OUT.json SCRIPT [TARGET ...]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from flydsl.tools.mistakes import mistakes_of, text_of, user_files


def main(argv: list[str]) -> int:
    """Write what came of it: `data`, or `error` with `mistakes`; and the `files` to watch."""
    out, script, *targets = argv
    from flydsl.tools.explore.collect import collect

    result: dict[str, object] = {}
    try:
        result["data"] = data = collect(Path(script), targets or None)
        if not data["functions"]:
            del result["data"]
            result["error"] = f"{script} called no jit function, so nothing was compiled"
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the script did is shown in the page
        result["error"] = text_of(error)
        result["mistakes"] = mistakes_of(error, script)
    result["files"] = user_files(script)
    Path(out).write_text(json.dumps(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
