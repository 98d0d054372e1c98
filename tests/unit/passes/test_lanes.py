"""A vector under way: whatever was put where, reads give what a list would, and so does the vector as a whole."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Block

from flydsl.dialects.upstream import gpu
from flydsl.ir.types import i32, vector_type
from flydsl.lowering.folding import FoldingBuilder
from flydsl.lowering.lanes import Lanes

from .arithmetic import run

COUNT = 8
WIDTHS = [None, 1, 2, 3, 5, COUNT]
"""Of what is put: None is a scalar."""

steps = st.lists(
    st.tuples(st.sampled_from(["put", "put", "put", "element", "slice"]), st.sampled_from(WIDTHS), st.integers(0, 7)),
    min_size=1,
    max_size=12,
)


@given(steps, st.booleans())
def test_reads_give_what_was_written(plan: list[tuple[str, int | None, int]], blank: bool):
    types: list[Any] = [vector_type(i32, COUNT), *(i32 if n is None else vector_type(i32, n) for _, n, _ in plan)]
    block = Block(arg_types=types)
    inputs: list[Any] = [list(range(100, 100 + COUNT))]
    inputs += [1000 * k if n is None else [1000 * k + i for i in range(n)] for k, (_, n, _) in enumerate(plan, 1)]
    b = FoldingBuilder(block)
    reads: list[Any] = []
    expected: list[Any] = []
    with b.open_function(block):
        lanes = Lanes.blank(types[0], block) if blank else Lanes.of(block.args[0], block)
        model: list[int | None] = [None] * COUNT if blank else inputs[0].copy()
        for k, (what, width, at) in enumerate(plan, 1):
            count = width or 1
            at = min(at, COUNT - count)
            if what == "put":
                lanes = lanes.put(b, block.args[k], at)
                model[at : at + count] = inputs[k] if width else [inputs[k]]
            elif what == "element":
                reads.append(lanes.element(b, at))
                expected.append([model[at]])
            else:
                reads.append(lanes.slice(b, at, count))
                expected.append(model[at : at + count])
        reads.append(lanes.value(b))
        expected.append(model)
    block.add_op(gpu.ReturnOp.create(operands=reads))
    for value, got, wanted in zip(reads, run(block, inputs), expected, strict=True):
        assert isinstance(value.type, VectorType) or len(wanted) == 1
        found = got if isinstance(value.type, VectorType) else [got]
        for have, want in zip(found or [None] * len(wanted), wanted, strict=True):
            assert want is None or have == want
