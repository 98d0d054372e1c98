"""What a function's compiled code depends on: its source, what its names refer to, the helpers it calls, our own code.

`function_key` walks from a function over everything its code can reach by name (globals, closure cells, attributes of
modules, classes and namespaces, members used through `self`) and numbers what it finds in the order of the code, so
recursion ends by itself. Values count by value, helpers of the user by their code, other packages by their version.
The result knows how to tell, in a few hundred nanoseconds, whether all of it still is what it was. The parts are in
`dependency/`.
"""

from __future__ import annotations

from flydsl.compiler.key.component import Component
from flydsl.compiler.key.function_key import FunctionKey, changed_components
from flydsl.compiler.key.names import used_names
from flydsl.compiler.key.origin import distribution_version, note_decorated
from flydsl.compiler.key.product import (
    EXTRA_SOURCE_DIRS,
    KEY_SCHEMA,
    environment_components,
    product_digest,
    tree_digest,
)
from flydsl.compiler.key.walk import class_digest, function_key

__all__ = [
    "EXTRA_SOURCE_DIRS",
    "KEY_SCHEMA",
    "Component",
    "FunctionKey",
    "changed_components",
    "class_digest",
    "distribution_version",
    "environment_components",
    "function_key",
    "note_decorated",
    "product_digest",
    "tree_digest",
    "used_names",
]
