"""The page of `fly explore` holds any source text without being changed by it."""

import json
import re

import pytest

from flydsl.tools.explore.page import page


@pytest.mark.parametrize(
    "text", ["<!-- <script>", "</script><script>alert(1)</script>", "<![CDATA[", "a < b", "\u2028"]
)
def test_source_text_is_data(text: str) -> None:
    made = page({"title": text, "source": [text]})
    assert text not in made or "<" not in text
    found = [part for part in re.findall(r"<script[^>]*>(.*?)</script>", made, re.DOTALL) if "source" in part]
    data = next(part for part in found if part.strip().startswith("{"))
    assert json.loads(data)["source"] == [text]
