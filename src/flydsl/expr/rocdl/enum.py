"""Scopes and address spaces of AMD GPUs."""

from __future__ import annotations

from ...ir.enums import AddressSpace
from .atoms import SyncScope
from .buffers import BufferDesc


class _TargetAddressSpace:
    """Address spaces that only AMD GPUs have.

    >>> fx.rocdl.TargetAddressSpace.BufferDesc
    BufferDesc
    """

    BufferDesc = BufferDesc


TargetAddressSpace = _TargetAddressSpace()

__all__ = ["AddressSpace", "SyncScope", "TargetAddressSpace"]
