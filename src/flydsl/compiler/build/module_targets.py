"""The target attributes of a device module, from what a backend says they are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, Dialect
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from ...dialects.upstream.gpu import ModuleOp
from ...dialects.upstream.target_attr import NvvmTargetAttr, RocdlTargetAttr, TargetAttr
from ...errors import DSLCompileError
from ...ir.registry import make_context
from ..backends.base import BaseBackend


@cache
def _parsed(text: str) -> Attribute:
    # The two usual ones are read without the hundreds of ops of their dialects.
    dialect = text.removeprefix("#").partition(".")[0]
    usual = {attr.name.partition(".")[0]: attr for attr in (RocdlTargetAttr, NvvmTargetAttr)}
    if dialect in usual:
        context = Context()
        for name, attr in usual.items():
            context.load_dialect(Dialect(name, [], [attr]))
    else:
        context = make_context()
    parser = Parser(context, text)
    found = parser.parse_attribute()
    if parser.pos < len(text.rstrip()):
        parser.raise_error("expected one attribute")
    return found


def _target(backend: BaseBackend, text: object) -> Attribute:
    what = f"{type(backend).__name__}.gpu_module_targets()"
    if not isinstance(text, str):
        raise DSLCompileError(f"{what} must give target attributes as text, got {text!r}")
    try:
        found = _parsed(text)
    except (ParseError, TypeError, ValueError) as error:
        reason = str(getattr(error, "msg", error)).strip().splitlines()[0]
        raise DSLCompileError(f"{what} gives {text!r}, which is no attribute: {reason}") from error
    if not isinstance(found, TargetAttr):
        raise DSLCompileError(
            f"{what} gives {text!r}, which is no target: expected an attribute such as #rocdl.target or #nvvm.target"
        )
    return found


def attach_targets(device: ModuleOp, backend: BaseBackend) -> None:
    """Put the targets of a backend on a device module; text that is no target is refused."""
    texts: Sequence[str] = backend.gpu_module_targets()
    if isinstance(texts, str):
        raise DSLCompileError(f"{type(backend).__name__}.gpu_module_targets() must give a list of texts, got {texts!r}")
    if texts:
        device.properties["targets"] = ArrayAttr([_target(backend, text) for text in texts])
