"""Which blocks a trace keeps, as a variable of the environment says it."""

from __future__ import annotations

import pytest

from flydsl.errors import DSLValueError
from flydsl.runtime.ktrace.recorder import parse_blocks


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("", None), ("  ", None), ("4", range(4)), ("0", range(0)), ("2:5", range(2, 5)), (" 2 : 5 ", range(2, 5)),
        ("1,0,0", (1, 0, 0)), ("3, 2, 1", (3, 2, 1)),
    ],
)  # fmt: skip
def test_blocks(text: str, blocks: object):
    assert parse_blocks(text) == blocks


@pytest.mark.parametrize("text", ["1,2", "1,2,3,4", "-1", "1,-2,0", "1:2:3", ":", "2:", "x", "1.5", "1,,2", ","])
def test_what_names_no_blocks(text: str):
    with pytest.raises(DSLValueError, match="blocks of a trace are"):
        parse_blocks(text)
