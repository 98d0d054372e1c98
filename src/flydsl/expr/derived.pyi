"""`flydsl.expr.derived`, for type checkers.

Written by scripts/type_stubs.py; change the tables of the package and run it again.
"""

from flydsl.expr import *
