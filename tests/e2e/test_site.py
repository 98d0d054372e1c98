"""The documentation site in a browser: light, dark and on a phone, nothing is broken and nothing sticks out.

`scripts/docs` builds the site; `SITE_PICTURES=FOLDER` keeps a picture of every view.
"""

from __future__ import annotations

import base64
import hashlib
import http.server
import os
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from browser import Browser, find_browser  # noqa: E402 - a folder of tests is no package

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "site"
PAGES = ["", "tutorial/09-one-product/", "gallery/", "history/", "attention/", "reference/copies/", "api/layout/"]
VIEWS = {"light": (1400, 900, "light"), "dark": (1400, 900, "dark"), "phone": (390, 844, "light")}


def stamp() -> str:
    """What scripts/docs writes beside the site: a digest of all it is made of."""
    files = sorted([*(p for p in (ROOT / "docs").rglob("*") if p.is_file()), ROOT / "mkdocs.yml"], key=lambda p: str(p))
    names = [str(path.relative_to(ROOT)) for path in files]
    lines = [f"{hashlib.sha256((ROOT / name).read_bytes()).hexdigest()}  {name}\n" for name in sorted(names)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    current = ROOT / "build" / "site.stamp"
    if not current.exists() or current.read_text().strip() != stamp():
        pytest.skip("the site is not built from these pages: scripts/docs builds it")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip("there is no Chromium on this machine")
    with Browser(program, tmp_path_factory.mktemp("profile")) as found:
        yield found


def visit(browser: Browser, url: str) -> None:
    browser.call("Page.navigate", url=url)
    deadline = time.monotonic() + 30
    while not browser.js(f"document.readyState === 'complete' && location.href.startsWith({url!r})"):
        assert time.monotonic() < deadline, f"{url} does not load"
        time.sleep(0.02)


@pytest.mark.parametrize("view", VIEWS)
def test_pages_look_right(view: str, address: str, browser: Browser):
    width, height, scheme = VIEWS[view]
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
    )
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    visit(browser, f"{address}/404.html")
    browser.js("localStorage.clear()")  # the choice a visitor made before
    browser.errors.clear()
    for page in PAGES if scheme == "light" else PAGES[:4]:
        visit(browser, f"{address}/{page}")
        wide = browser.js("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{page} is {wide} pixels wider than the {view} view"
        broken = browser.js("[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)")
        assert broken == [], page
        assert browser.js("document.body.dataset.mdColorScheme") == ("slate" if scheme == "dark" else "default"), page
        if folder := os.environ.get("SITE_PICTURES"):
            shot = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=False)
            name = f"{page.strip('/').replace('/', '-') or 'index'}-{view}.png"
            (Path(folder) / name).write_bytes(base64.b64decode(shot["data"]))
    assert browser.errors == []


def test_search_finds(address: str, browser: Browser):
    """A word typed into the search gives pages."""
    browser.call("Emulation.setDeviceMetricsOverride", width=1400, height=900, deviceScaleFactor=1, mobile=False)
    visit(browser, f"{address}/")
    browser.js("document.querySelector('.md-search__input').focus()")
    browser.call("Input.insertText", text="swizzle")
    deadline = time.monotonic() + 20
    while not browser.js("document.querySelectorAll('.md-search-result__item').length"):
        assert time.monotonic() < deadline, "the search finds nothing"
        time.sleep(0.05)
