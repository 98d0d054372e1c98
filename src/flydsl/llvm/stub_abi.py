"""What the host stub and its callers agree on. Kept apart from the code that writes the stub, which needs xDSL."""

from __future__ import annotations

LAUNCH_SYMBOL = "fly_launch_kernel"
"""External function the stub calls: the signature of `cuLaunchKernel`, the same on every stack."""

EXTENDED_LAUNCH_SYMBOL = "fly_launch_extended"
"""The same for launches with attributes: the signature of `cuLaunchKernelEx`."""

FAILURE_BYTES = 64
"""The failure record: kernel index, grid x y z, block x y z, shared bytes, 64 bits each."""

BAD_GEOMETRY = -1
"""Status of a launch whose grid, block or shared size is negative or beyond 32 bits."""
