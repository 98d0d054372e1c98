"""Rows in MX blocks: 32 elements of 4, 6 or 8 bits with a power of two as their scale."""
