"""Kernels that start before the one in front of them in the stream has ended, and what they touch before they wait."""

from __future__ import annotations

import re
from collections.abc import Iterator

WAIT = "griddepcontrol.wait"
_LAUNCH = re.compile(r"gpu\.launch_func\b.*@(\w+)::@(\w+) ")
_ENTRY = re.compile(r"\.entry (\w+)\(")
_BRANCH = re.compile(r"(@!?%\w+\s+)?bra(?:\.uni)?\s+(\$\w+);")
_TOUCHES = re.compile(r"\.global\b|\.tensor\.")
_NO_ACCESS = (".", "cvta.", "fence.")


def start_early(ir: str) -> set[str]:
    """Kernels that a module launches so."""
    return {found[2] for line in ir.splitlines() if "fly.pdl" in line and (found := _LAUNCH.search(line))}


def touched_early(ptx: str) -> dict[str, list[str]]:
    """Kernel -> what looks at global memory and is reached on some way that does not wait."""
    return {name: list(_touched(lines)) for name, lines in _kernels(ptx)}


def _kernels(ptx: str) -> Iterator[tuple[str, list[str]]]:
    for text in re.split(r"(?=\.entry )", ptx)[1:]:
        found = _ENTRY.match(text)
        assert found is not None
        body = text[text.index("{") + 1 :]
        yield found[1], [line.partition("//")[0].strip() for line in body.splitlines()]


def _touched(lines: list[str]) -> Iterator[str]:
    """A walk over the ways through a kernel, each of which ends where it waits."""
    labels = {line[:-1]: at for at, line in enumerate(lines) if line.startswith("$") and line.endswith(":")}
    unknown = [line for line in lines if re.search(r"\b(bra|brx|call)\b", line) and not _BRANCH.match(line)]
    assert not unknown, f"ways that are not followed: {unknown}"
    seen, ahead = set[int](), [0]
    while ahead:
        at = ahead.pop()
        while at < len(lines) and at not in seen:
            seen.add(at)
            line = lines[at]
            at += 1
            branch = _BRANCH.match(line)
            if branch is not None:
                ahead.append(labels[branch[2]])
                if branch[1] is None:
                    break
            elif line.startswith((WAIT, "ret;", "exit;")):
                break
            elif _TOUCHES.search(line) and not line.startswith(_NO_ACCESS):
                yield line


__all__ = ["WAIT", "start_early", "touched_early"]
