#!/usr/bin/env python3
"""Writes `llms.txt` and `AGENTS.md` from the documentation: what a program that helps people write kernels should read.

`llms.txt` lists the pages with what each is about, in the form of llmstxt.org; `AGENTS.md` has the rules of
the language that are got wrong most often, taken from the pages. `python scripts/assistant_files.py --check` says
whether they are current.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST = ["limits.md", "debugging.md", "cpu-stack.md", "jit.md", "cuda.md", "rocm.md"]


def about(page: Path) -> tuple[str, str]:
    """Title and first sentence of a page."""
    text = page.read_text(encoding="utf-8")
    title = re.search(r"^# (.+)$", text, re.M)
    body = text[title.end() :] if title else text
    paragraph = next((p for p in re.split(r"\n\s*\n", body) if re.match(r"(?!```)[A-Z`*\[\"]", p.strip())), "")
    sentence = re.split(r"(?<=[.:])\s", " ".join(paragraph.split()))[0]
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence).replace("**", "").rstrip(":")
    return (title[1] if title else page.stem), plain


def entry(page: Path) -> str:
    title, what = about(page)
    return f"- [{title}]({page.relative_to(ROOT)}): {what}\n"


def intro() -> str:
    """The first paragraph of the README."""
    return " ".join(re.split(r"\n\s*\n", (ROOT / "README.md").read_text(encoding="utf-8"))[1].split())


def llms() -> str:
    tutorial = sorted((ROOT / "docs/tutorial").glob("[0-9]*.md"))
    language = sorted((ROOT / "docs/reference").glob("[!R]*.md"))
    pages = [page for page in (ROOT / "docs").glob("*.md") if page.name != "index.md"]
    pages.sort(key=lambda p: (p.name not in FIRST, p.name))
    examples = sorted((ROOT / "examples").glob("*.py"))
    text = f"# FlyDSL\n\n> {intro()}\n\n## Tutorial\n\n{''.join(entry(p) for p in tutorial)}"
    text += f"\n## Language\n\n{''.join(entry(p) for p in language)}"
    text += f"\n## Reference\n\n{''.join(entry(p) for p in pages)}\n## Examples\n\n"
    for example in examples:
        first = re.match(r'"""(.+?)(?:\n|""")', example.read_text(encoding="utf-8"))
        text += f"- [{example.name}](examples/{example.name}){': ' + first[1] if first else ''}\n"
    return text


def first_program() -> str:
    """The program at the top of the README."""
    found = re.search(r"```python\n(.+?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    assert found is not None
    return found[1].rstrip()


def mistakes() -> list[str]:
    """The mistakes that have messages of their own, with what to write instead, from the tests of the messages."""
    text = (ROOT / "tests/unit/messages/messages.txt").read_text(encoding="utf-8")
    rows: list[str] = []
    for name, shown in re.findall(r"^=+ (.+)\n((?:(?!====).*\n)+)", text, re.M):
        # What was found wrong, then what to do: behind its first semicolon or full stop, or a line of its own.
        lines = re.sub(r"DSL Traceback.*", "", shown, flags=re.S).splitlines()
        first = next(i for i, line in enumerate(lines) if re.match(r"[\w.]+(?:Error|Exception): ", line))
        advice = (
            lines[first + 1] if len(lines) > first + 1 else re.split(r"; |\. (?=[A-Z])", lines[first], maxsplit=1)[1:]
        )
        if advice:
            told = "".join(advice).strip().replace("|", "\\|")
            rows.append(f"| {name} | {told} |\n")
    return rows


def agents() -> str:
    return f"""# Writing kernels with FlyDSL

{intro()}

This file is for coding assistants, and made from the documentation (`scripts/assistant_files.py`). `llms.txt` lists all
pages.

## A program

```python
{first_program()}
```

## How it works

- A `@flyc.jit` function is host code, a `@flyc.kernel` function device code for one thread. Both are traced: Python
  runs them once, and operations on DSL values are recorded.
- `if`, `for ... in range(...)` and `while` on run-time values become branches and loops. A condition that is known
  while tracing is decided by Python. `fx.range_constexpr` unrolls.
- What a run-time region defines does not exist after it: give a variable its value, with its type, before.
- A tensor is a pointer and a layout. `x[i, j]` is an element, `x[None, j]` a view, `fx.flat_divide(x, tile)` cuts
  tiles.
- Test on the cpu stack, which needs no GPU: `FLYDSL_COMPILE_BACKEND=cpu`; `FLYDSL_CPU_CHECK=1` finds accesses out of
  bounds, races and missing barriers, with the line. `FLYDSL_COMPILE_ARCH=gfx942` emulates an architecture.
- `flyc.evaluate(function, *args)` shows what an expression does inside a kernel. `help(fx.name)` has an example.
- Compile for a GPU that is not there: `flyc.compile(f, *args, target="rocm:gfx942").artifact.asm`.

## Mistakes and what to write

| mistake | instead |
|---|---|
{"".join(mistakes())}
## Working on this repository

Read `CONTRIBUTING.md`: it has a table of the files that an addition touches, and the commands
(`./scripts/test --changed` for the parts you touched, `./scripts/test` for everything).
"""


FILES = {"llms.txt": llms, "AGENTS.md": agents}


def main() -> int:
    stale = [name for name, make in FILES.items() if not (ROOT / name).exists() or (ROOT / name).read_text() != make()]
    if "--check" in sys.argv:
        sys.stdout.write("".join(f"{name} is not current: run scripts/assistant_files.py\n" for name in stale))
        return bool(stale)
    for name in stale:
        (ROOT / name).write_text(FILES[name]())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
