"""What becomes of sums on their way out: scales, a bias, an activation, and the type of the result."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from ...activations import activated
from ...epilogue import narrowed


def finished(
    values: list[Any],
    extras: Any,
    names: tuple[str, ...],
    activation: str,
    row: Any,
    column: Any,
    m: Any,
    n: Any,
    dtype: Any,
    group: Any = 0,
) -> list[Any]:
    """Neighbouring sums of a row with scales, bias and activation, as `dtype`; `names` are those of the last extras.

    Of a scale with ":group" behind its name a group has one value, with ":groups" a row of them.
    """
    if dtype is fx.Int32:
        return values
    others = extras[len(extras) - len(names) :]
    given = {name.partition(":")[0]: (name.partition(":")[2], x) for name, x in zip(names, others, strict=True)}
    made = [fx.Float32(x) for x in values]
    at_row = fx.min(row, m - 1)
    columns = [fx.min(column + e, n - 1) for e in range(len(values))]
    for name, along_rows in (("scale_a", True), ("scale_b", False)):
        if name in given:
            kind, x = given[name]
            if kind.startswith("group"):
                factors = [x[group, at] for at in columns] if kind == "groups" else [x[group, 0]] * len(made)
                made = [value * factor for value, factor in zip(made, factors, strict=True)]
            elif kind == "one" or along_rows:
                factor = x[0] if kind == "one" else x[at_row]
                made = [value * factor for value in made]
            else:
                made = [value * x[at] for value, at in zip(made, columns, strict=True)]
    if "bias" in given:
        kind, x = given["bias"]
        added = [fx.Float32(x[at_row])] * len(made) if kind == "rows" else [fx.Float32(x[at]) for at in columns]
        made = [value + more for value, more in zip(made, added, strict=True)]
    if activation != "none":
        made = [activated(activation, value) for value in made]
    if "scale_out" in given:
        made = [value / given["scale_out"][1][0] for value in made]
    return [narrowed(value, dtype) for value in made]


__all__ = ["finished"]
