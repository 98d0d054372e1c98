"""What is counted while schedules are explored; in a file of its own, since a process that only launches reads it."""

from __future__ import annotations

SEEN = ("shared_accesses", "shared_conflicts", "global_accesses", "global_conflicts", "copies", "waits", "forgotten")
"""What is counted: accesses, those of them that collide with one of another thread unless something orders them,
asynchronous copies and products, waits for them, and how often a table was too small."""
