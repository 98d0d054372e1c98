"""Functions built on the primitives, under the path other FlyDSL code imports them from.

Names resolve through `flydsl.expr`.
"""

from .aliases import name_of_language

__getattr__ = name_of_language
