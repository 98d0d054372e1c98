"""Code of kernels for the CPU: functions over blocks, the scheduler of their threads, the checks around accesses."""
