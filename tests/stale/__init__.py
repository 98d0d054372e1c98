"""A grammar of kernels and of ways to change what they depend on, with plain Python as the oracle."""
