"""The check list for a first hour, typed as it stands: every program saved, every command run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "checklist.md"
SHOWN = (
    "axpy is right", "MFMA without an AMD GPU", "reversed", "an operator with a gradient", "served without compiling",
    "no divisions in axpy", "ported",
)  # fmt: skip


def tasks() -> list[str]:
    return re.split(r"^## \d+\. ", PAGE.read_text(), flags=re.MULTILINE)[1:]


def test_every_task_goes_through(tmp_path: Path):
    assert len(tasks()) == 10
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": search, "PYTHONPATH": str(ROOT / "src")}
    shown = ""
    for task in tasks():
        title = task.splitlines()[0]
        for kind, text in re.findall(r"^```(\w+)\n(.*?)^```", task, re.MULTILINE | re.DOTALL):
            if name := re.match(r"# file: (\S+)\n", text):
                (tmp_path / name[1]).write_text(text)
            elif kind == "bash":
                done = subprocess.run(
                    ["bash", "-eo", "pipefail", "-c", text],
                    capture_output=True,
                    text=True,
                    cwd=tmp_path,
                    env=environment,
                )
                assert done.returncode == 0, f"{title}\n{text}\n{done.stdout}\n{done.stderr}"
                shown += done.stdout
    for words in SHOWN:
        assert words in shown, f"{words}\n{shown}"
    assert "global_store_dword" in shown and "race.py:11" in shown
    assert len(re.findall(r"\bwidth=(64|128|256)\b", shown)) >= 3, shown
