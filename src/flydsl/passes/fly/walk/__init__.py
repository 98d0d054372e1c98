"""What passes bring to a walk they share: one class a file, named by the `part` of its pass (see `passes/fuse.py`)."""
