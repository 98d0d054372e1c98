"""From LLVM IR text to code: llvmlite binding, code generation, linking, assembling, host loading.

Importing this package loads neither llvmlite nor any tool; both wait for the first use.
"""
