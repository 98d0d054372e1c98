"""Run-time control flow of traced code."""
