"""What notebooks show: pictures where there is something to see, nothing where there is not, text always escaped."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import markup
from flydsl.autotune import Config
from flydsl.autotune.bench import Timing
from flydsl.autotune.report import Report, Trial
from flydsl.compiler.build.artifact import CompiledArtifact
from flydsl.cpu.schedules.findings import Finding, ScheduleReport
from flydsl.cpu.schedules.timeline import Entry, Timeline
from flydsl.layout import ComposedLayout, Dyn, Layout, Swizzle

SVG = "{http://www.w3.org/2000/svg}"


def cells(svg: str | None) -> int:
    assert svg is not None
    return len(ET.fromstring(svg).findall(f"{SVG}rect"))


@pytest.mark.parametrize(
    ("layout", "count"),
    [
        (Layout(8, 1), 8),
        (Layout((3, (2, 5)), (1, (3, 6))), 30),
        (Layout((2, 3, 4), (12, 4, 1)), 24),
        (ComposedLayout(Swizzle(1, 0, 2), 0, Layout((4, 4), (4, 1))), 16),
        (fx.make_layout((4, 4), (4, 1)), 16),
    ],
)
def test_layouts_draw_themselves(layout: Layout, count: int):
    assert cells(layout._repr_svg_()) == count


def test_what_cannot_be_looked_at_is_text():
    assert Layout((1024, 1024), (1024, 1))._repr_svg_() is None
    assert Layout((4, Dyn.get(32, 1)), (1, 4))._repr_svg_() is None
    assert flyc.TensorSpec((512, 512), "float32")._repr_html_() is None
    assert flyc.TensorSpec((), "float32")._repr_html_() is None


def test_a_title_is_never_cut():
    """The picture of one column is as wide as the words above it."""
    layout = Layout(((2, 2), 1), ((1, 2), 1000000))
    svg = ET.fromstring(layout._repr_svg_() or "")
    assert float(svg.get("width", "0")) > 7 * len(str(layout))


def test_reports():
    trials = [Trial(Config(BLOCK=64), "ok", timing=Timing((0.5,), "wall")), Trial(Config(BLOCK=1), "failed", "<bad>")]
    html = Report("scale", trials=trials, winner=Config(BLOCK=64))._repr_html_()
    assert "<svg" in html and "&lt;bad&gt;" in html and "<bad>" not in html
    assert "<svg" not in Report("scale")._repr_html_()
    timeline = Timeline([Entry("b0.w0", "wait for <x>", "k.py:3", True)])
    finding = Finding("deadlock", "no thread can go on:\n  k.py:3", "s1:0", timeline)
    html = ScheduleReport((finding,), 1, 1, 1, True, 0, 0.1, ("nothing",))._repr_html_()
    assert "deadlock" in html and "wait for &lt;x&gt;" in html and html.count("<circle") == 1


def test_an_artifact_without_texts():
    """As stored without IR: what is there is shown."""
    html = CompiledArtifact({"name": "k<1>", "binary_ext": "ptx"}, {"ptx": b"12"})._repr_html_()
    assert "k&lt;1&gt;" in html and "ptx 2 B" in html and "<details" not in html


def test_text_is_escaped():
    made = markup.heading("<a>") + markup.code("<b>") + markup.folded("<c>", "") + markup.table(["<d>"], [["<e>"]])
    made += markup.figures([("<f>", "<svg/>")])
    assert not any(f"<{c}>" in made for c in "acdef") and "<pre" in made and "&lt;b&gt;" in made
