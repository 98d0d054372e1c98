"""What a compiled function depends on, as a key."""
