"""Products of few rows, as fast as weights come from memory: `slim` with a ring of stages, `thin` without."""
