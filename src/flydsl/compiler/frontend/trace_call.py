"""The step from a host function and the arguments of a call to a module of IR."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from ... import config
from ...expr.scalars.fastmath import set_default as set_default_fastmath
from ..backends import traced_for
from ..build.collector import collector_off
from ..build.ir_errors import unverified
from ..extern_link import Externs
from ..key.outside import OutsideReads, outside_reads
from .ast_rewriter import building
from .tracing import trace_host

if TYPE_CHECKING:
    from ...expr.annotations import FastMathLike
    from ..backends.base import BaseBackend
    from ..key.function_key import FunctionKey


class Traced(NamedTuple):
    """A traced host function with the kernels it launches."""

    name: str
    module: ModuleOp
    kernels: list[str]
    """In order of their handles."""
    externs: Externs
    known: dict[str, object]
    """What the metadata says of the function."""
    times: dict[str, object]
    outside: OutsideReads
    """What was read from outside the program."""


def trace_call(
    name: str,
    function: Callable[..., object],
    arguments: Mapping[str, object],
    backend: BaseBackend,
    *,
    hints: Mapping[str, object] | None = None,
    known: Mapping[str, object] | None = None,
    key: FunctionKey | None = None,
) -> Traced:
    """Trace a host function with everything it launches; `key` is what is known of what it reads."""
    externs = Externs()
    built = building.seconds
    start = time.perf_counter()
    with collector_off():
        with set_default_fastmath(_default_flags(hints or {})), outside_reads() as outside:
            target = traced_for.set(backend.target)
            try:
                bounded = backend.checks_accesses(backend.parse_options(dict(hints or {})))
                settled = partial(_settled, key, outside)
                module, kernels, walked = trace_host(
                    name, function, dict(arguments), backend.target, externs, bounded, settled
                )
            finally:
                traced_for.reset(target)
        try:
            module.verify() if config.debug.enable_verifier else None
        except VerifyException as error:
            raise unverified(module, "the traced IR does not verify", error) from error
    rewriting = building.seconds - built
    times: dict[str, object] = {"rewrite": rewriting, "trace": time.perf_counter() - start - rewriting}
    about = {"module": getattr(function, "__module__", ""), "qualname": getattr(function, "__qualname__", name)}
    reads = [[*read, held] for read, held in outside.found.items()]
    found = {"stores": [list(each) for each in walked.stores], "loops": walked.loops, "reads": reads}
    facts = {**about, "signature": [], "components": [], **(known or {}), **found}
    return Traced(name, module, kernels, externs, facts, times, outside)


def _settled(key: FunctionKey | None, outside: OutsideReads, kernel: object) -> bool:
    """Whether all that a kernel reads beside its arguments is known and as it was when its key was made."""
    outside.look_at_memos()
    if key is None or key.problems or outside.found or outside.unrepeatable:
        return False
    return id(kernel) in key.now.seen and key.unchanged()


_UNSAFE = "reassoc,nsz,arcp,contract,afn"
"""What `unsafe_fp_math` allows: other results than written, but NaN and infinity keep their meaning."""


def _default_flags(hints: Mapping[str, object]) -> FastMathLike:
    """Float flags the hints ask for, or None."""
    explicit = hints.get("fastmath")
    if explicit is not None:
        return cast("FastMathLike", explicit)
    if hints.get("fast_fp_math"):
        return "fast"
    return _UNSAFE if hints.get("unsafe_fp_math") else None
