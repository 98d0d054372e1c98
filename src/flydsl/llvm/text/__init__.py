"""LLVM IR as text: from ops, and functions written by hand."""
