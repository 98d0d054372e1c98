"""Products of float32 by the multiprocessors' own multipliers, for NVIDIA GPUs."""
