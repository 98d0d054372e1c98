"""What each op of the upper dialects is in LLVM's instructions: one rule an op, written against a sink."""
