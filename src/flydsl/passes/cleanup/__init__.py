"""`canonicalize` and `cse`."""
