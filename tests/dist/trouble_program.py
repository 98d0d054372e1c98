"""Ranks that do not do what they should."""

from __future__ import annotations

import os
import time

from flydsl.dist import World


def trouble(world: World, how: str) -> int:
    """The second rank raises, ends or hangs, the others meet."""
    if world.rank == 1:
        if how == "raises":
            raise ValueError("rank one cannot")
        if how == "ends":
            os._exit(3)
        time.sleep(60)
    world.barrier()
    return world.rank
