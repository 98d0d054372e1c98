"""The same programs on a GPU and on the cpu stack that emulates it, compared bit by bit.

`python -m tests.bits record --out FILE` runs them on a machine with a GPU, `python -m tests.bits compare FILE` on the
cpu stack of any machine, which says what differs and by how much.
"""
