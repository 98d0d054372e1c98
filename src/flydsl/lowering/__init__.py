"""How ops become simpler ones: the rules, by theme, and the walk that applies them."""
