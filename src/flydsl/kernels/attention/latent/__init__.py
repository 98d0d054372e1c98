"""Attention with latent keys, as decoding has it: one row for each key, whose first columns are the value."""
