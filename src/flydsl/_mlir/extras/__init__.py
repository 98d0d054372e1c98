"""Shorter spellings of what `flydsl._mlir.ir` has."""
