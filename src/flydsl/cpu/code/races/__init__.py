"""Races in checked mode: accesses compared with earlier ones to the same byte of shared or word of global memory.

What orders two accesses is known to `shadow.py`, `order.py` and `places.py` of the folder above.
"""
