"""Small pipelines whose waits, barriers and commits are numbers of run time, and a model that says which are right.

`model.py` knows the hardware's rules and nothing of the compiler; `loads.py` and `stores.py` have the kernels, one for
each kind of asynchronous copy. `test_cpu_waits.py` changes the numbers one by one and compares.
"""
