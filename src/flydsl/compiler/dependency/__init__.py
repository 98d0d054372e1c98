"""The parts of `flydsl.compiler.dependencies`."""
