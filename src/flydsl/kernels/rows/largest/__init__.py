"""The largest elements of rows."""

from .entry import argmax, gate, top_k

__all__ = ["argmax", "gate", "top_k"]
