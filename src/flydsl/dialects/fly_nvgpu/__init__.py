"""NVIDIA's atoms and operations as a dialect: each type or op knows its layouts and how it becomes LLVM IR."""
