"""Calls like one before: what was decided for plain torch tensors, found by one native look at the next ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

from flydsl.config import environment_version

from .matmul.arrays import TorchArray, is_strided
from .rows.arrays import Given

if TYPE_CHECKING:
    from flydsl.compiler.call.relaunch import Relaunch
    from flydsl.compiler.jit_function import JitFunction

_MOST = 4096

_Call: TypeAlias = Callable[..., Given]
Known: TypeAlias = tuple[Callable[..., bool], int, int, _Call, object]
"""A native look at tensors and its table, the environment's version, the call, and what lives as long as the look."""
_calls: dict[object, Known] = {}
latest: dict[object, Known] = {}
"""By operation and constants, what served last: `read(table, 0, *tensors)` says whether these are like its own."""
OFTEN = 8
"""Calls like each other."""
_examples: dict[object, Given] = {}
"""A number of each type on each device."""
_plain: set[type] = set()
"""Classes of tensors that are memory and nothing more."""


def call_key(op: str, more: object, *tensors: object) -> object:
    """What a whole call of plain torch tensors depends on, their addresses apart; None where one is something else."""
    if not _plain and not _find_plain():
        return None
    key: list[object] = [op, more, environment_version()]
    for x in tensors:
        if x is None:
            key.append(None)
        elif type(x) in _plain and is_strided(cast("TorchArray", x)):
            tensor = cast("TorchArray", x)
            address = tensor.data_ptr()
            if not address and 0 not in tensor.shape:
                return None  # its storage was freed: a launch like one before would not ask
            key += (type(x), tensor.shape, tensor.stride(), tensor.dtype, tensor.device, address & 15)
        else:
            return None
    return tuple(key)


def _find_plain() -> bool:
    torch = sys.modules.get("torch")
    if torch is not None:
        _plain.update((torch.Tensor, torch.nn.Parameter))
    return bool(_plain)


def again(op: str, more: object, *tensors: object) -> Given:
    """What the last call of an operation would make of tensors like its own; None if these are others."""
    known = latest.get((op, more))
    if known is None:
        return None
    read, table, version, call, _ = known
    return call(*tensors) if version == environment_version() and read(table, 0, *tensors) else None


def repeated(op: str, more: object, *tensors: object) -> tuple[object, Given]:
    """The key of a call, and what it makes, if there was one like it: see `again`."""
    made = again(op, more, *tensors)
    if made is not None:
        return None, made
    key = call_key(op, more, *tensors)
    call = known_call(key, op, more, tensors)
    return key, None if call is None else call(*tensors)


def known_call(key: object, op: str, more: object, tensors: Sequence[object]) -> _Call | None:
    """What such a call came to: a function of the tensors that asks nothing of them, and gives None if it cannot."""
    known = _calls.get(key) if key is not None else None
    if known is None:
        return None
    if isinstance(known[4], int):
        known = _calls[key] = _with_look(known, tensors) if known[4] >= OFTEN else (*known[:4], known[4] + 1)
    if len(latest) >= _MOST:
        latest.clear()
    latest[op, more] = known
    return known[3]


def remember_call(key: object, call: _Call) -> None:
    """Its look takes longer to make than several calls: it is made of those that come often, which are counted."""
    if key is not None:
        if len(_calls) >= _MOST:
            _calls.clear()
            latest.clear()
        _calls[key] = (_differs, 0, environment_version(), call, 1)


def forget_calls(op: str) -> None:
    """No call of an operation is like one before: what it would come to may have changed."""
    for known in [key for key in _calls if cast("tuple[object, ...]", key)[0] == op]:
        del _calls[known]
    for known in [key for key in latest if cast("tuple[object, ...]", key)[0] == op]:
        del latest[known]


def _with_look(known: Known, tensors: Sequence[object]) -> Known:
    from flydsl.compiler.call.alike import likeness

    found = likeness(tensors)
    return (*known[:4], None) if found is None else (found.read, found.table, *known[2:4], found.kept)


def _differs(*_: object) -> bool:
    """The look where there is none: the key decides."""
    return False


def relaunch(
    function: JitFunction, arrange: Callable[..., tuple[object, ...]], sources: Sequence[int], *, fresh: int
) -> Relaunch:
    """Launches of a call that is repeated: `now(*tensors)` says whether it has launched; see `Relaunch`."""
    from flydsl.compiler.call.relaunch import Relaunch

    return Relaunch(function, arrange, sources, fresh=fresh, after=OFTEN)


def fresh_like(x: Given) -> Callable[[Given], Given]:
    """What makes a fresh tensor in one piece for others like this one."""
    torch = sys.modules["torch"]
    return torch.empty_like if x.is_contiguous() else partial(torch.empty_like, memory_format=torch.contiguous_format)


def fresh_as(x: Given, shape: tuple[int, ...], dtype: object) -> Callable[[], Given]:
    """What makes fresh tensors of this shape and type where `x` is: `empty_like` is quicker than all that name them."""
    torch, kind = sys.modules["torch"], (x.device, dtype)
    if kind not in _examples:
        _examples[kind] = x.new_empty((), dtype=dtype)
    return partial(torch.empty_like, _examples[kind].expand(shape), memory_format=torch.contiguous_format)


__all__ = [
    "again",
    "call_key",
    "forget_calls",
    "fresh_as",
    "fresh_like",
    "known_call",
    "latest",
    "relaunch",
    "remember_call",
    "repeated",
]
