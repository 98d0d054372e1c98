"""docs/pipeline.md has the table the registry makes, and every pass says what it does."""

from pathlib import Path

import pytest

from flydsl.passes import PASSES, pass_class
from flydsl.passes.pipeline import make_pass, pass_names
from flydsl.tools.pages.pass_table import STACKS, pipeline_of, with_table

PAGE = Path(__file__).resolve().parents[3] / "docs" / "pipeline.md"


def test_page_is_up_to_date():
    text = PAGE.read_text()
    assert with_table(text) == text, "run: python -m flydsl.tools.pages.pass_table docs/pipeline.md"


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_has_a_name_and_a_line(name):
    cls = pass_class(name)
    assert cls.name == name
    assert cls.__doc__ and cls.__doc__.splitlines()[0].endswith(".")
    assert make_pass(name).name == name


@pytest.mark.parametrize("stack", STACKS)
def test_pipelines_name_known_passes(stack):
    assert set(pipeline_of(stack)) <= set(PASSES)


def test_pass_names():
    assert pass_names('a,builtin.module(b{x=1 y="z"},gpu.module(c))') == ["a", "b", "c"]
