"""Pages of the documentation, and parts of them, that are made from the code."""
