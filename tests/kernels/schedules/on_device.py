"""A seeded kernel on a GPU, as a process that can be ended: `python on_device.py NAME BUG`.

The mended kernel runs first, and `mended` is said at its end; then `launched` and, should it come to that, `done`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch

from schedules import TEMPLATES  # pyright: ignore[reportMissingImports]


def main(name: str, bug: int) -> None:
    template = TEMPLATES[name]
    for number in (0, bug):
        x, y, _ = template.arguments(number)
        there = [torch.from_numpy(a.copy()).cuda() for a in (x, y)]
        template.launch(*there, number)
        if number:
            print("launched", flush=True)
        torch.cuda.synchronize()
        if not number and template.expected is not None:
            np.testing.assert_array_equal(there[1].cpu().numpy(), template.expected(x))
        print("done" if number else "mended", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
