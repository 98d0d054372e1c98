"""Calling an artifact: arguments, placement, launch."""
