"""Collectives over symmetric memory, and products fused with them. `Communicator` keeps what they need."""

from __future__ import annotations

from .communicator import Communicator, Experts

__all__ = ["Communicator", "Experts"]
