"""Arguments of a kernel call: whether they are what the parameters say, and the IR values they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...errors import DSLOverflowError, DSLTypeError, DSLValueError
from ...expr.numeric import Numeric, as_numeric, scalar_or_none
from ...expr.protocol import extract_to_ir_values
from ...expr.scalars.constants import constant as constant_of
from ...expr.tensors.leaf_numbers import scalar_of

if TYPE_CHECKING:
    from xdsl.ir import SSAValue


def _number(name: str, key: str, value: object, cls: type[Numeric]) -> object:
    """A Python number, or an integer tuple of one integer, for a parameter that is annotated with a scalar class."""
    value = scalar_of(value)
    found = scalar_or_none(value)
    if found is None or not found.is_static():
        return value if found is None else found
    try:
        return constant_of(cls, found.value)
    except (DSLValueError, DSLOverflowError) as error:
        raise type(error)(f"kernel '{name}', parameter '{key}': {error}") from None


def check_tensor(kernel: str, name: str, annotation: object, value: object) -> None:
    """Refuse a number for a tensor, and a tensor for a number."""
    wants, got = getattr(annotation, "is_tensor", False), getattr(value, "is_tensor", False)
    if wants and not got and scalar_or_none(scalar_of(value)) is not None:
        raise DSLTypeError(
            f"kernel '{kernel}', parameter '{name}' expects a tensor (fx.Tensor), got the number {value!r}"
        )
    if got and isinstance(annotation, type) and issubclass(annotation, Numeric):
        raise DSLTypeError(
            f"kernel '{kernel}', parameter '{name}' expects {annotation}, got a tensor; take one element of it, "
            "as in x[i]"
        )


def flatten_kernel_arguments(
    name: str, arguments: dict[str, object], constant: set[str], numbers: Mapping[str, type[Numeric]]
) -> dict[str, list[SSAValue]]:
    """IR values of each run-time argument of a kernel call.

    `numbers` are the parameters annotated with scalar classes; what stands for a number is replaced in `arguments`.
    """
    flat: dict[str, list[SSAValue]] = {}
    for key, value in arguments.items():
        if key in constant:
            continue
        if value is None:
            raise DSLTypeError(
                f"kernel '{name}', parameter '{key}' got None; where it may be left out, annotate it so "
                "(fx.Tensor | None) or let None be its default"
            )
        if isinstance(value, str) or (isinstance(value, (bool, int, float)) and key not in numbers):
            kind = "fx.Constexpr" if isinstance(value, str) else f"fx.{type(as_numeric(value))} or fx.Constexpr"
            raise DSLTypeError(
                f"kernel '{name}', parameter '{key}': Cannot derive IR types of {value!r}; annotate the parameter "
                f"with {kind}"
            )
        if key in numbers and not isinstance(value, Numeric):
            arguments[key] = value = _number(name, key, value, numbers[key])
        try:
            flat[key] = extract_to_ir_values(value)
        except TypeError as error:
            raise DSLTypeError(f"kernel '{name}', parameter '{key}': {error}") from error
    return flat
