"""Passes on the `fly` dialects, one a file, and what they share."""
