"""What people see when they make a mistake: the line, the cause and what to write instead.

The texts are in `messages.txt`, so that a change of one is seen; `python tests/unit/messages/test_messages.py` writes
them anew.
"""

from __future__ import annotations

import importlib.util
import re
import tempfile
import traceback
import warnings
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
SNAPSHOT = HERE / "messages.txt"
RULE = "=" * 20


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MISTAKES: dict[str, str] = load(HERE / "mistakes.py", "mistakes").MISTAKES


def message(source: str, folder: Path) -> tuple[str, str]:
    """What running a program shows: all of it from its own first frame on, and the error by itself."""
    path = folder / "kernel.py"
    path.write_text(source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load(path, "kernel")
    except Exception as error:  # noqa: BLE001  (any class may be a user's mistake)
        parts = traceback.format_exception(error), traceback.format_exception_only(error)
    else:
        raise AssertionError("the mistake went unnoticed")
    whole, alone = ("".join(part).replace(str(path), "kernel.py").rstrip() + "\n" for part in parts)
    return whole[whole.index("kernel.py") :], alone


def snapshots() -> dict[str, str]:
    parts = re.split(rf"{RULE} (.*)\n", SNAPSHOT.read_text())
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_its_message(name: str, tmp_path: Path):
    source = MISTAKES[name]
    shown, alone = message(source, tmp_path)
    line = next(n for n, text in enumerate(source.splitlines(), 1) if text.endswith("# here"))
    assert re.search(rf'kernel.py", line {line}\b', shown), "the line is named"
    assert "^" in shown, "and pointed at"
    assert "/src/flydsl/" not in shown and "/lib/python" not in shown, "nobody else's frames are shown"
    assert as_before(alone) == as_before(snapshots()[name])


def as_before(text: str) -> str:
    """A message without what Pythons show in their own ways: what a word may mean (from 3.13 on), and where carets are
    below a loop (from 3.14 on) and an f-string (from 3.12 on)."""
    text = re.sub(r"\. Did you mean '\w+'\?$", "", text, flags=re.MULTILINE)
    return re.sub(r"(\n +(?:for |print\(f').*\n) +\^+", r"\1^", text)


def test_every_message_belongs_to_a_mistake():
    assert set(snapshots()) == set(MISTAKES) and len(MISTAKES) >= 20


def write() -> None:
    texts: list[str] = []
    for name, source in MISTAKES.items():
        with tempfile.TemporaryDirectory() as folder:
            texts.append(f"{RULE} {name}\n{message(source, Path(folder))[1]}")
    SNAPSHOT.write_text("".join(texts))


if __name__ == "__main__":
    write()
