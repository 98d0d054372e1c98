"""The parts of the disk cache; `flydsl.compiler.cache` is its public face."""
