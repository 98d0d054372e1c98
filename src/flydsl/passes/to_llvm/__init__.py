"""Passes from the upper dialects to `llvm`, one a file, and what they share."""
