"""What the host stub and its callers agree on. Kept apart from the code that writes the stub, which needs xDSL."""

from __future__ import annotations

LAUNCH_SYMBOL = "fly_launch_kernel"
"""External function the stub calls: the signature of `cuLaunchKernel`, the same on every stack."""

EXTENDED_LAUNCH_SYMBOL = "fly_launch_extended"
"""The same for launches with attributes: the signature of `cuLaunchKernelEx`."""

SIDE_BUFFER_SYMBOL = "fly_side_buffer"
"""External function that gives the memory of a hidden argument: `i32(i32 kernel, i32 which, i64 grid x y z, i64 block
x y z, ptr stream, ptr out)`. Only stubs of kernels that declare such memory call it."""

SIDE_BUFFERS_DONE_SYMBOL = "fly_launched_with_side_buffers"
"""Called after the launch of such a kernel: `i32(i32 kernel, ptr stream)`."""

SIDE_BUFFERS_ATTRIBUTE = "fly.side_buffers"
"""Attribute of a `gpu.func` that declares side buffers, one text of JSON each, and of its launches."""

CLUSTER_ATTRIBUTE = "fly.cluster"
"""Attribute of a launch whose driver has to be told of clusters: HIP's. CUDA's goes by what the code says."""

FAILURE_BYTES = 64
"""The failure record: kernel index, grid x y z, block x y z, shared bytes, 64 bits each."""

BAD_GEOMETRY = -1
"""Status of a launch whose grid, block or shared size is negative or beyond 32 bits."""

SIDE_BUFFER_FAILED = -2
"""Status of a launch whose side buffer could not be made or read."""
