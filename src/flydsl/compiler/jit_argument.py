"""Adapters of host arguments, at FlyDSL's path."""

from __future__ import annotations

from .call.arguments import JitArgumentRegistry, from_c_void_p
from .call.tensor_argument import from_dlpack, from_torch_tensor

__all__ = ["JitArgumentRegistry", "from_c_void_p", "from_dlpack", "from_torch_tensor"]
