"""The dialect `gpu`."""

from __future__ import annotations

from ...expr.emit.facade import Made
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


def printf(format: str, *args: object, loc: object = None, ip: object = None) -> Made:
    """`gpu.printf`."""
    from ..build import class_of
    from ..signature import by_op

    return class_of(by_op("gpu")["gpu.printf"])(format, list(args), loc=loc, ip=ip)  # pyright: ignore[reportCallIssue]


__getattr__, __dir__ = module("gpu", globals())

__all__ = ["AsyncTokenType", "constant", "gpu_async_token", "printf"]
