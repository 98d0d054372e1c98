"""The dialect `func`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects import func as ours
from xdsl.dialects.builtin import FunctionType, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Region

from ...errors import DSLTypeError
from ...expr.emit.facade import Made
from ..build import results_of
from ..functions import FunctionLike
from ..insertion import InsertionPoint, emit
from ..operations import OpView
from ..signature import by_op
from ..values import unwrap
from .generated import module

_SIGNATURES = by_op("func")


class FuncOp(FunctionLike):
    """`func.func`: by its name and its type, a function type or lists of inputs and results."""

    OPERATION_NAME = "func.func"
    SIGNATURE = _SIGNATURES["func.func"]

    def __init__(
        self,
        name: str,
        type: object,
        *,
        visibility: str | None = None,
        body_builder: Callable[[FuncOp], object] | None = None,
        loc: object = None,
        ip: object = None,
    ):
        if isinstance(type, Sequence):
            inputs, outputs = cast("tuple[Sequence[Attribute], Sequence[Attribute]]", type)
            type = FunctionType.from_lists(list(inputs), list(outputs))
        if not isinstance(type, FunctionType):
            raise DSLTypeError(f"'func.func': expected a function type, got {type!r}")
        self.raw = ours.FuncOp(
            str(getattr(name, "data", name)), type, Region(), None if visibility is None else StringAttr(visibility)
        )
        emit(self.raw, loc, ip)
        if body_builder is not None:
            with InsertionPoint(self.add_entry_block()):
                body_builder(self)

    @property
    def name(self) -> Made:
        """Its name in the module."""
        return self.attributes["sym_name"]

    @property
    def visibility(self) -> Made:
        """Who may call it; there must be such an attribute."""
        return self.attributes["sym_visibility"]


class CallOp(OpView):
    """`func.call`: `CallOp(function, arguments)` or `CallOp(result types, name, arguments)`."""

    OPERATION_NAME = "func.call"
    SIGNATURE = _SIGNATURES["func.call"]

    def __init__(
        self,
        calleeOrResults: FuncOp | Sequence[Attribute],
        argumentsOrCallee: object,
        arguments: Sequence[object] | None = None,
        *,
        loc: object = None,
        ip: object = None,
    ):
        if isinstance(calleeOrResults, FuncOp):
            callee = cast(ours.FuncOp, calleeOrResults.raw)
            name, types = callee.sym_name.data, list(callee.function_type.outputs.data)
            arguments = cast("Sequence[object]", argumentsOrCallee)
        else:
            name, types = _name_of(argumentsOrCallee), list(calleeOrResults)
        values = [unwrap(v, f"an argument of @{name}") for v in arguments or ()]
        self.raw = ours.CallOp(name, values, types)
        emit(self.raw, loc, ip)


def _name_of(callee: object) -> str:
    return callee.string_value() if isinstance(callee, SymbolRefAttr) else str(getattr(callee, "data", callee))


def call(*args: object, loc: object = None, ip: object = None) -> Made:
    """The results of `CallOp(...)`."""
    return results_of(cast("Callable[..., OpView]", CallOp)(*args, loc=loc, ip=ip))


__getattr__, __dir__ = module("func", globals())
