"""The dialect `gpu`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    StringAttr,
    UnitAttr,
    i32,
)
from xdsl.ir import Attribute, Region

from ...dialects.upstream import gpu as ours
from ...errors import DSLTypeError
from ...expr.emit.facade import Made
from ..functions import FunctionLike
from ..insertion import InsertionPoint, emit
from ..signature import by_op
from ..types import Type
from .arith import constant
from .generated import module


class AsyncTokenType:
    """`!gpu.async.token`."""

    @staticmethod
    def get(context: object = None) -> Made:
        return Type.parse("!gpu.async.token")


def gpu_async_token() -> Made:
    """The same, by its older name."""
    return AsyncTokenType.get()


class GPUFuncOp(FunctionLike):
    """`gpu.func`: by its type and name."""

    OPERATION_NAME = "gpu.func"
    SIGNATURE = by_op("gpu")["gpu.func"]

    def __init__(
        self,
        function_type: FunctionType,
        sym_name: str | StringAttr | None = None,
        arg_attrs: Sequence[Mapping[str, Attribute]] | None = None,
        res_attrs: Sequence[Mapping[str, Attribute]] | None = None,
        kernel: bool | None = None,
        *,
        known_block_size: Sequence[int] | None = None,
        known_grid_size: Sequence[int] | None = None,
        loc: object = None,
        ip: object = None,
        body_builder: Callable[[GPUFuncOp], object] | None = None,
    ):
        if not isinstance(function_type, FunctionType):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DSLTypeError(f"'gpu.func': expected a function type, got {function_type!r}")
        properties: dict[str, Attribute] = {"function_type": function_type}
        for name, sizes in (("known_block_size", known_block_size), ("known_grid_size", known_grid_size)):
            if sizes is not None:
                properties[name] = sizes if isinstance(sizes, Attribute) else DenseArrayBase.from_list(i32, list(sizes))
        for name, given in (("arg_attrs", arg_attrs), ("res_attrs", res_attrs)):
            if given is not None:
                properties[name] = ArrayAttr([DictionaryAttr(dict(each)) for each in given])
        attributes: dict[str, Attribute] = {"gpu.kernel": UnitAttr()} if kernel else {}
        if sym_name is not None:
            attributes["sym_name"] = StringAttr(sym_name) if isinstance(sym_name, str) else sym_name
        self.raw = ours.FuncOp.create(properties=properties, attributes=attributes, regions=[Region()])
        emit(self.raw, loc, ip)
        if body_builder is not None:
            with InsertionPoint(self.add_entry_block()):
                body_builder(self)

    @property
    def name(self) -> Made:
        """Its name in the module."""
        return self.attributes["sym_name"]

    @property
    def is_kernel(self) -> bool:
        """Whether the host launches it."""
        return "gpu.kernel" in self.attributes


def printf(format: str, *args: object, loc: object = None, ip: object = None) -> Made:
    """`gpu.printf`."""
    from ..build import class_of

    return class_of(by_op("gpu")["gpu.printf"])(format, list(args), loc=loc, ip=ip)  # pyright: ignore[reportCallIssue]


__getattr__, __dir__ = module("gpu", globals())

__all__ = ["AsyncTokenType", "GPUFuncOp", "constant", "gpu_async_token", "printf"]
