"""Arithmetic of the scalar classes."""
