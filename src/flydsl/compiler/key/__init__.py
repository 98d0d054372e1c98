"""What a function's compiled code depends on: everything its code can read.

`walk.function_key` walks from a function over globals, closure cells, defaults, attributes of modules, classes and
objects, and the code that all of these bring, and numbers what it finds in the order of the code, so recursion ends by
itself. Values count by content, code of the user by itself, other packages by their version. The result knows how to
tell, in a few hundred nanoseconds, whether all of it still is what it was.
"""
