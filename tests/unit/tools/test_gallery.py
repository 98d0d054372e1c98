"""The gallery is what the library draws, and its matrix instructions are what the atoms say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.layout import Layout, parse_layout
from flydsl.tools.pages import gallery

DOCS = Path(__file__).resolve().parents[3] / "docs"
AGAIN = "run python -m flydsl.tools.pages.gallery docs/gallery.md docs/img/gallery"
PICTURES = [picture for pictures in gallery.SECTIONS.values() for picture in pictures]


def test_page_and_pictures_are_current():
    assert (DOCS / "gallery.md").read_text(encoding="utf-8") == gallery.page(), AGAIN
    drawn = {f"{picture.name}.svg": picture.draw() for picture in PICTURES}
    assert len(drawn) == len(PICTURES)
    found = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "img" / "gallery").iterdir()}
    assert found == drawn, AGAIN


def test_instructions_are_the_atoms(monkeypatch: pytest.MonkeyPatch):
    shown = {picture.name: parse_layout(picture.layout) for picture in PICTURES if picture.tile is not None}
    told: dict[str, str] = {}

    def nvidia():
        atom = fx.make_mma_atom(fx.nvgpu.MMA(16, 8, 16, fx.Float16))
        told.update({"mma-a": str(atom.layout_A_tv), "mma-b": str(atom.layout_B_tv), "mma-c": str(atom.layout_C_tv)})
        return fx.Int32(0)

    def cdna():
        atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16))
        told.update({"mfma-a": str(atom.layout_A_tv), "mfma-c": str(atom.layout_C_tv)})
        return fx.Int32(0)

    def rdna():
        told["wmma-c"] = str(fx.make_mma_atom(fx.rocdl.WMMA(16, 16, 16, fx.Float16)).layout_C_tv)
        return fx.Int32(0)

    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    for arch, ask in (("sm_90a", nvidia), ("gfx942", cdna), ("gfx1201", rdna)):
        monkeypatch.setitem(os.environ, "FLYDSL_COMPILE_ARCH", arch)
        flyc.evaluate(ask)
    for name, text in told.items():
        layout = parse_layout(text.removeprefix("Layout<").removesuffix(">"))
        assert isinstance(layout, Layout) and layout == shown[name], name
    assert len(told) == len(gallery.SECTIONS["Matrix instructions"])
