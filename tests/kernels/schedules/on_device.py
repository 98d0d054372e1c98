"""One seeded kernel on a GPU, as a process that can be ended: `python on_device.py NAME BUG` says `done` at its end."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from schedules import TEMPLATES  # pyright: ignore[reportMissingImports]


def main(name: str, bug: int) -> None:
    template = TEMPLATES[name]
    x, y, _ = template.arguments(bug)
    there = [torch.from_numpy(a.copy()).cuda() for a in (x, y)]
    print("launched", flush=True)
    template.launch(*there, bug)
    torch.cuda.synchronize()
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
