"""Command-line tools: `fly-opt`, `fly` and the demo."""
