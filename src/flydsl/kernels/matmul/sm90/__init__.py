"""Parts of the Hopper kernel, which other kernels for sm_90a share."""
