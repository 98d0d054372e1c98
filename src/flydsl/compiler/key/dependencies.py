"""What a function's compiled code depends on: everything its code can read.

`function_key` walks from a function over globals, closure cells, defaults, attributes of modules, classes and objects,
and the code that all of these bring, and numbers what it finds in the order of the code, so recursion ends by itself.
Values count by content, code of the user by itself, other packages by their version. The result knows how to tell, in a
few hundred nanoseconds, whether all of it still is what it was.
"""

from __future__ import annotations

from flydsl.compiler.key.component import Component
from flydsl.compiler.key.function_key import FunctionKey, Problem, changed_components, warn_untracked
from flydsl.compiler.key.origin import distribution_version, note_decorated
from flydsl.compiler.key.product import (
    EXTRA_SOURCE_DIRS,
    KEY_SCHEMA,
    environment_components,
    product_digest,
    tree_digest,
)
from flydsl.compiler.key.walk import function_key

__all__ = [
    "EXTRA_SOURCE_DIRS",
    "KEY_SCHEMA",
    "Component",
    "FunctionKey",
    "Problem",
    "changed_components",
    "distribution_version",
    "environment_components",
    "function_key",
    "note_decorated",
    "product_digest",
    "tree_digest",
    "warn_untracked",
]
