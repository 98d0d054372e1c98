"""The native look at several tensors says what a comparison of their properties says."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from flydsl.compiler.call.alike import likeness  # noqa: E402
from flydsl.compiler.call.native_reader import can_read  # noqa: E402

pytestmark = pytest.mark.skipif(
    not can_read(torch.ones(1)), reason="this Python's or torch's objects are laid out otherwise"
)


class Marked(torch.Tensor):
    pass


def beside(x: Any, elements: int) -> Any:
    """The same tensor so many elements behind a boundary."""
    return torch.cat((x.new_zeros(elements), x.flatten()))[elements:].view(x.shape)


X = torch.randn(4, 8)
OTHERS = {
    "nothing": None,
    "a number": 3,
    "a parameter": torch.nn.Parameter(X),
    "a class": X.as_subclass(Marked),
    "a type": X.to(torch.int32),
    "wide": X.double(),
    "half": X.half(),
    "a place": X.to("meta"),
    "more rows": torch.randn(5, 8),
    "more columns": torch.randn(4, 9),
    "more directions": torch.randn(4, 8, 1),
    "a vector": torch.randn(32),
    "turned": torch.randn(8, 4).T,
    "gaps": torch.randn(4, 16)[:, :8],
    "one row": torch.randn(8).expand(4, 8),
    "unaligned": beside(X, 1),
    "sparse": X.to_sparse(),
    "numpy": X.numpy(),
    "negated": torch.imag(torch.randn(4, 8, dtype=torch.complex64).conj()),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_refused(name: str):
    look = likeness((X, None, X))
    assert look is not None
    other = OTHERS[name]
    assert not look.read(look.table, 0, other, None, X)
    assert not look.read(look.table, 0, X, None, other)
    if other is not None:
        assert not look.read(look.table, 0, X, other, X)
    assert look.read(look.table, 0, X, None, torch.randn(4, 8))


def test_what_is_alike():
    look = likeness((beside(X, 2), None, X.bfloat16(), torch.arange(3)))
    assert look is not None
    given = (beside(torch.randn(4, 8), 6), None, torch.randn(4, 8).bfloat16(), torch.arange(3))
    assert look.read(look.table, 0, *given)
    grad = (given[0].requires_grad_(), *given[1:])
    assert look.read(look.table, 0, *grad)
    assert not look.read(look.table, 0, beside(X, 1), *given[1:])


def test_bytes_are_not_told_apart():
    """torch describes several types of 8 bits as the same."""
    assert likeness((X.to(torch.int8),)) is None


def test_it_holds_no_tensor():
    x = torch.randn(4, 8)
    look, gone = likeness((x,)), weakref.ref(x)
    assert look is not None
    del x
    gc.collect()
    assert gone() is None and look.read(look.table, 0, X)
