"""Every schedule of a kernel on the cpu stack: its warps and asynchronous copies in every order that may differ.

`code.py` compiles a kernel so that its threads stop in front of every operation that others can see (`operations.py`);
`native.py` runs one schedule, asking a strategy what comes next; `search.py` has the strategy that goes through all
schedules by dynamic partial-order reduction, running the kernel again for each; `findings.py` and `timeline.py` say
what was found. `flydsl.compiler.explore_schedules` puts them together.
"""
