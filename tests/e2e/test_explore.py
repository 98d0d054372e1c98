"""`fly explore`: what is on the page, and the page in a real browser."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from browser import Browser, find_browser  # noqa: E402

SCRIPT = """\
import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx


def scaled(x, by):
    return x * by


@flyc.kernel
def saxpy_kernel(a: fx.Tensor, b: fx.Tensor, n: fx.Int32):
    tile = fx.make_layout((8, 4), (4, 1))
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        total = fx.Float32(0.0)
        for j in range(n):
            total = total + scaled(a[j], 3.0)
        b[i] = total + fx.Float32(fx.get_scalar(fx.size(tile)))


@flyc.jit
def saxpy(a: fx.Tensor, b: fx.Tensor, n: fx.Int32):
    saxpy_kernel(a, b, n).launch(grid=fx.ceildiv(n, 64), block=64)


@flyc.kernel
def fill_kernel(a: fx.Tensor, tile: fx.Layout):
    a[fx.thread_idx.x, 0] = fx.Float32(fx.get_scalar(fx.crd2idx((fx.thread_idx.x, 0), tile)))


@flyc.jit
def fill(a: fx.Tensor):
    fill_kernel(a, fx.make_layout((8, 4), (4, 1))).launch(grid=1, block=8)


out = np.zeros(100, np.float32)
saxpy(np.zeros(100, np.float32), out, 100)
fill(np.zeros((8, 4), np.float32))
print(1 / int(out.any()))
"""
LOOP_LINE = 1 + SCRIPT.split("\n").index("            total = total + scaled(a[j], 3.0)")
HELPER_LINE = 1 + SCRIPT.split("\n").index("    return x * by")


def explore(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flydsl.tools.fly", "explore", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=dict(os.environ), timeout=300)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two functions for two targets."""
    folder = tmp_path_factory.mktemp("explore")
    (folder / "kernels.py").write_text(SCRIPT)
    done = explore("kernels.py", "--target", "rocm:gfx942", "--target", "cuda:sm_90a", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "stopped after compiling: ZeroDivisionError" in done.stderr
    assert "saxpy for rocm:gfx942:w64, cuda:sm_90a:w32" in done.stdout
    return folder / "kernels.html"


@pytest.fixture(scope="module")
def data(written: Path):
    """What the page shows."""
    return json.loads(re.search(r'id="data">(.*?)</script>', written.read_text(), re.DOTALL)[1].replace("<\\/", "</"))


def numbers_of(data, line: int) -> set[int]:
    return {i for i, (_, n) in enumerate(data["sources"], 1) if n == line}


def lines_from(text, numbers: set[int]) -> list[str]:
    return [t for t, s in zip(text["text"].split("\n"), text["map"], strict=True) if s in numbers]


def test_the_page_is_self_contained(written: Path):
    text = written.read_text()
    assert not re.search(r"""(?:src|href)=|@import|url\(|fetch\(|XMLHttpRequest""", text)
    assert set(re.findall(r"https?://[^\s\"'\\]+", text)) <= {"http://www.w3.org/2000/svg"}


def test_lines_are_linked_through_all_stages(data):
    assert [f["name"] for f in data["functions"]] == ["saxpy", "fill"]
    helper = numbers_of(data, HELPER_LINE)
    assert len(helper) == 1
    multiply = {"rocm": r"v_(?:pk_)?(?:mul|fma|fmac)_f32", "cuda": r"(?:mul|fma)\.rn\.f32"}
    for target in data["functions"][0]["targets"]:
        for stage in target["stages"]:
            if "text" in stage:
                assert any(re.search("mulf|fmul", line) for line in lines_from(stage, helper)), stage["name"]
        for stage in target["llvm"]:
            found = lines_from(stage, helper)
            assert found and all("fmul" in line for line in found), stage["name"]
            assert "!dbg" not in stage["text"]
        found = lines_from(target["asm"], helper)
        assert any(re.search(multiply[target["target"].split(":")[0]], line) for line in found), found
        assert ".loc" not in target["asm"]["text"] and ".debug_" not in target["asm"]["text"]


def test_resources_and_drawings(data):
    rocm, cuda = data["functions"][0]["targets"]
    (kernel,) = rocm["kernels"]
    assert kernel["name"] == "saxpy_kernel_0" and kernel["registers"] > 0 and kernel["spills"] == 0
    assert cuda["binary"]["ext"] == "ptx" and cuda["binary"]["size"] > 100
    pictures = data["functions"][1]["targets"][0]["drawings"]
    assert any("(8,4):(4,1)" in p["title"] and data["pictures"][p["picture"]].count("<rect") == 32 for p in pictures)


def test_a_script_that_compiles_nothing(tmp_path: Path):
    (tmp_path / "empty.py").write_text("print('nothing')\n")
    done = explore("empty.py", cwd=tmp_path)
    assert done.returncode == 1 and "called no jit function" in done.stderr
    assert explore("absent.py", cwd=tmp_path).returncode == 2
    (tmp_path / "k.py").write_text(SCRIPT)
    done = explore("k.py", "--target", "rocm:gfx9999", cwd=tmp_path)
    assert done.returncode == 1 and "gfx9999" in done.stderr and "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def browser(written: Path, tmp_path_factory: pytest.TempPathFactory):
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium here (Debian: chromium-headless-shell); the page is not opened")
    with Browser(program, tmp_path_factory.mktemp("profile")) as browser:
        browser.open(written)
        yield browser


def count(browser: Browser, selector: str) -> int:
    return browser.js(f"document.querySelectorAll({json.dumps(selector)}).length")


def text_of(browser: Browser, selector: str) -> str:
    return browser.js(f"document.querySelector({json.dumps(selector)}).textContent")


def test_clicking_through_the_page(browser: Browser, data, tmp_path: Path):
    """A visit: hover, keep a line, pick passes, look at differences, search, change target, function and theme."""
    panes = ("source", "ir", "llvm", "asm")
    (number,) = numbers_of(data, LOOP_LINE)

    # Hovering shows the line in every pane, and nothing else.
    browser.move(f'#pane-source .ln[data-s="{number}"]')
    for pane in panes:
        assert count(browser, f"#pane-{pane} .ln.hov") >= 1, pane
    assert count(browser, ".ln.hov") == count(browser, f'.ln[data-s="{number}"]')
    assert f"kernels.py:{LOOP_LINE}" in text_of(browser, "#where")

    # A click keeps it, and the others scroll to it; Escape lets go.
    browser.click(f'#pane-asm .ln[data-s="{number}"]')
    assert count(browser, "#pane-source .ln.pin") == 1 and count(browser, "#pane-llvm .ln.pin") >= 1
    place = "document.querySelector('#pane-{0} .ln.pin').getBoundingClientRect().top"
    for pane in panes:
        box = browser.js(f"document.querySelector('#pane-{pane} .code').getBoundingClientRect().toJSON()")
        assert box["top"] <= browser.js(place.format(pane)) <= box["bottom"], pane
    assert count(browser, "#pane-asm .ruler i") >= 1
    browser.key("Escape")
    assert count(browser, ".ln.pin") == 0

    # Passes: the traced IR has layouts, the last stage has none; [ and ] step.
    assert "!fly." in text_of(browser, "#pane-ir .code")
    stages = count(browser, ".stage[data-stage]")
    assert stages == len(data["functions"][0]["targets"][0]["stages"]) > 5
    browser.click(f'.stage[data-stage="{stages - 1}"]')
    assert "!fly." not in text_of(browser, "#pane-ir .code") and "llvm." in text_of(browser, "#pane-ir .code")
    browser.key("[")
    assert browser.js("document.querySelector('#stage').value") == str(stages - 2)
    browser.key("]")

    # Differences of a pass: what was there is red, what came is green, and nothing is lost.
    lowering = next(
        i for i, s in enumerate(data["functions"][0]["targets"][0]["stages"]) if s["name"].startswith("convert-")
    )
    browser.click(f'.stage[data-stage="{lowering}"]')
    whole = browser.js("document.querySelectorAll('#pane-ir .ln').length")
    browser.click("#diff")
    assert count(browser, "#pane-ir .ln.add") > 0 and count(browser, "#pane-ir .ln.del") > 0
    assert browser.js("document.querySelectorAll('#pane-ir .ln:not(.del)').length") == whole
    browser.click("#diff")
    assert count(browser, "#pane-ir .ln.add") == 0

    # Search in all panes at once.
    browser.key("/")
    browser.type("thread_idx")
    hits = int(re.match(r"\d+", text_of(browser, "#found"))[0])
    assert hits == count(browser, ".ln.hit") > 0
    browser.key("Enter")
    assert count(browser, ".ln.now") == 1 and text_of(browser, "#found") == f"1 of {hits}"
    browser.key("Escape")
    assert count(browser, ".ln.hit") == 0

    # Targets, then the other function with its picture.
    assert "s_load_dword" in text_of(browser, "#pane-asm .code")
    browser.click("#targets button:nth-child(2)")
    assert ".visible .entry" in text_of(browser, "#pane-asm .code")
    assert "kernel" in text_of(browser, "#resources") and count(browser, "#resources tr.on") == 1
    browser.js("const s = document.querySelector('#function'); s.value = 1; s.onchange()")
    assert "fill_kernel" in text_of(browser, "#pane-llvm .code")
    browser.click("#tab-layouts")
    assert count(browser, ".card svg") >= 1
    browser.click(".card button")
    assert count(browser, "dialog[open] svg rect") == 32
    browser.key("Escape")
    browser.js("document.querySelector('dialog')?.close()")
    browser.click("#tab-times")
    assert "fly-layout-lowering" in text_of(browser, "#sheet")

    # Dark and light; panes come and go; the page is never wider than the window.
    before = browser.js("getComputedStyle(document.body).backgroundColor")
    browser.click("#theme")
    assert browser.js("getComputedStyle(document.body).backgroundColor") != before
    browser.click("#toggle-llvm")
    assert browser.js("document.querySelector('#pane-llvm').offsetWidth") == 0
    browser.click("#toggle-llvm")
    assert browser.js("document.querySelector('#pane-llvm').offsetWidth") > 90
    assert browser.js("document.documentElement.scrollWidth <= innerWidth")
    browser.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 20_000
    assert browser.errors == []
