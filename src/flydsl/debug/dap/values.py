"""Values of a kernel as the protocol's variables, with numbers by which the client asks for their parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ...errors import DSLValueError, FlyDSLError
from ..variables import Cell, TensorView
from .wire import Message

Parts = Callable[[], Sequence[tuple[str, Any, Cell | None]]]


class References:
    """Numbers for values that have parts; they hold until the launch goes on."""

    def __init__(self) -> None:
        self._parts: dict[int, Parts] = {}
        self._cells: dict[tuple[int, str], Cell] = {}

    def clear(self) -> None:
        self._parts.clear()
        self._cells.clear()

    def add(self, parts: Parts) -> int:
        self._parts[len(self._parts) + 1] = parts
        return len(self._parts)

    def variables(self, number: int, start: int = 0, count: int = 0) -> list[Message]:
        """The parts of a value."""
        if number not in self._parts:
            raise DSLValueError(f"variablesReference {number} is unknown, or of an earlier stop")
        found = self._parts[number]()
        found = found[start : start + count if count else None]
        made: list[Message] = []
        for name, value, cell in found:
            if cell is not None:
                self._cells[number, name] = cell
            made.append(self.variable(name, value))
        return made

    def cell(self, number: int, name: str) -> Cell | None:
        """The memory of a part that was shown."""
        return self._cells.get((number, name))

    def variable(self, name: str, value: Any) -> Message:
        """A variable of the protocol."""
        made: Message = {"name": name, "evaluateName": name, **self.described(value)}
        if name.startswith("["):
            del made["evaluateName"]
        return made

    def described(self, value: Any) -> Message:
        """`value`, `type` and the reference to its parts."""
        try:
            return self._described(value)
        except FlyDSLError as error:
            return {"value": str(error), "type": type(value).__name__, "variablesReference": 0}

    def _described(self, value: Any) -> Message:
        if isinstance(value, TensorView):
            tensor = value
            return {
                "value": str(tensor),
                "type": "Tensor",
                "memoryReference": f"{tensor.address:#x}",
                "indexedVariables": min(tensor.count, 4096),
                "variablesReference": self.add(lambda: _elements(tensor)),
            }
        if isinstance(value, np.ndarray):
            array = cast("np.ndarray[Any, Any]", value)
            return {
                "value": np.array2string(array, threshold=16, max_line_width=200).replace("\n", ""),
                "type": f"Vector {array.dtype}{list(array.shape)}",
                "indexedVariables": array.size,
                "variablesReference": self.add(lambda: _items(array)),
            }
        if isinstance(value, dict):
            group = cast("dict[str, Any]", value)
            return {
                "value": f"{len(group)} parts",
                "type": "group",
                "namedVariables": len(group),
                "variablesReference": self.add(lambda: [(k, v, None) for k, v in group.items()]),
            }
        return {"value": shown(value), "type": type(value).__name__, "variablesReference": 0}


def shown(value: Any) -> str:
    """A value in a line."""
    return str(cast(object, value)) if isinstance(value, np.floating) else repr(value)


def _elements(tensor: TensorView) -> list[tuple[str, Any, Cell | None]]:
    found: list[tuple[str, Any, Cell | None]] = []
    for at in tensor.coordinates():
        key = at if len(at) != 1 else at[0]
        found.append((f"[{', '.join(map(str, at))}]", tensor.at(key), tensor.cell(key)))
    return found


def _items(array: np.ndarray[Any, Any]) -> list[tuple[str, Any, Cell | None]]:
    return [(f"[{', '.join(map(str, at))}]", array[at], None) for at in np.ndindex(*array.shape)]
