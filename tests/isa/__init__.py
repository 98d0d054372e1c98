"""An executor of AMD machine code: what our code objects do on the hardware, told from their bytes alone.

The file that a driver would load is disassembled, its kernel descriptor says what registers hold at the start, and the
host code that a user's call runs launches it, through a HIP library of callbacks. Nothing here reads the compiler's own
tables of instructions, operand layouts or emulation: they are what is checked.

Results of memory instructions come as late as a counter allows, waves of a block alternate at random, and every access
is held against the arrays that were handed over.
"""
