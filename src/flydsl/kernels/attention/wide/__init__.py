"""Gradients of long rows, of more than 128 elements, on Hopper."""
