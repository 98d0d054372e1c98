"""What xDSL lacks of MLIR's own dialects, with upstream's text forms."""
