"""Fuzzing for as long as one likes: `scripts/fuzz SECONDS [SUBJECT ...]`.

A subject makes inputs from a seed and says what is wrong with what became of one. Inputs run in worker processes with a
time limit, so that an abort or a hang is a finding like any other. Findings are printed with the seed that repeats
them: `python -m tests.fuzz --subject NAME --seed N`.
"""
