"""Layouts, tensors in memory, tiled copies and products."""
