"""`fly explore --serve`: who may ask, what is compiled again, and the page clicked through while its file changes."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from browser import Browser, find_browser  # noqa: E402

SCRIPT = """\
import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
from padding import PAD

TILE, ROWS = 32, 8


@flyc.kernel
def turn_kernel(src: fx.Tensor, dst: fx.Tensor):
    lds = fx.SharedAllocator().allocate(fx.Array[src.dtype, TILE * (TILE + PAD), 16]).peek()
    tile = lds.view(fx.make_layout((TILE, TILE), (TILE + PAD, 1)))
    x, y = fx.thread_idx.x % TILE, fx.thread_idx.x // TILE
    for j in fx.range_constexpr(TILE // ROWS):
        tile[y + j * ROWS, x] = src[y + j * ROWS, x]
    fx.barrier()
    for j in fx.range_constexpr(TILE // ROWS):
        dst[y + j * ROWS, x] = tile[x, y + j * ROWS]


@flyc.jit
def turn(src: fx.Tensor, dst: fx.Tensor):
    turn_kernel(src, dst).launch(grid=4096, block=TILE * ROWS)


turn(np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32))
"""
READ = 1 + SCRIPT.split("\n").index("        dst[y + j * ROWS, x] = tile[x, y + j * ROWS]")


class Served:
    """A server on a script of its own."""

    def __init__(self, folder: Path):
        self.script = folder / "turn.py"
        self.padding = folder / "padding.py"
        self.script.write_text(SCRIPT)
        self.padding.write_text("PAD = 0\n")
        command = [sys.executable, "-m", "flydsl.tools.fly", "explore", "turn.py", "--serve"]
        command += ["--target", "cuda:sm_90a", "--target", "rocm:gfx942"]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().removeprefix("fly explore: ").strip()
        parts = urlsplit(self.url)
        assert parts.hostname == "127.0.0.1" and parts.port
        self.port = parts.port
        self.token = parse_qs(parts.query)["token"][0]

    def get(self, path: str, host: str | None = None, method: str = "GET") -> tuple[int, str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, headers={"Host": host or f"127.0.0.1:{self.port}"})
        answer = connection.getresponse()
        found = answer.status, answer.read().decode(), answer.headers
        connection.close()
        return found

    def news(self, seen: int) -> dict[str, Any]:
        status, body, _ = self.get(f"/news?token={self.token}&seen={seen}")
        assert status == 200
        return json.loads(body)

    def settled(self, seen: int = -1) -> dict[str, Any]:
        """The next state in which nothing is being compiled."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            news = self.news(seen)
            if not news["busy"] and news["number"] != seen:
                return news
            seen = news["number"]
        raise TimeoutError

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = Served(tmp_path_factory.mktemp("served"))
    yield made
    made.close()


def cost_of_the_read(data: dict[str, Any], target: str) -> dict[str, Any]:
    entry = next(t for t in data["functions"][0]["targets"] if t["short"] == target)
    (launch,) = entry["cost"]["launches"]
    (line,) = [each for each in launch["lines"] if data["sources"][each["source"] - 1][1] == READ]
    return {**line, "launch": launch}


def test_who_may_ask(served: Served):
    token = f"?token={served.token}"
    assert served.get("/" + token)[0] == 200
    assert served.get("/" + token, host=f"localhost:{served.port}")[0] == 200
    for path in ("/", "/?token=", "/?token=guess", f"/?token={served.token[:-1]}", "/news?seen=0", "/turn.py"):
        status, body, _ = served.get(path)
        assert status == 403 and "turn_kernel" not in body, path
    # A name of somebody else's that was made to point to this machine is sent along by the browser.
    for host in ("evil.example", f"evil.example:{served.port}", f"127.0.0.1:{served.port + 1}", "127.0.0.1"):
        assert served.get("/" + token, host=host)[0] == 403, host
    assert served.get("/etc/passwd" + token)[0] == 404
    for method in ("POST", "HEAD", "OPTIONS"):
        assert served.get("/" + token, method=method)[0] == 405 and served.get("/", method=method)[0] == 403
    _, _, headers = served.get("/" + token)
    assert "default-src 'none'" in headers["Content-Security-Policy"] and headers["Cache-Control"] == "no-store"


def test_what_is_saved_is_compiled_again_and_mistakes_are_told(served: Served):
    first = served.settled()
    assert not first["error"]
    for target, factor in (("cuda:sm_90a", 32), ("rocm:gfx942", 32)):
        cost = cost_of_the_read(first["data"], target)
        assert cost["limiter"] == "shared memory" == cost["launch"]["limiter"]
        shared = [a for a in cost["accesses"] if a["space"] == "shared"]
        assert shared and all(a["factor"] == factor and a["known"] for a in shared)
        assert all(a["factor"] == 1 for a in cost["accesses"] if a["space"] == "global")
    served.padding.write_text("PAD = 1\n")  # a module that the script imports
    second = served.settled(first["number"])
    cost = cost_of_the_read(second["data"], "cuda:sm_90a")
    assert all(a["factor"] == 1 for a in cost["accesses"])
    served.script.write_text(SCRIPT.replace("tile[x, y + j", "tile[x, nothing + j"))
    third = served.settled(second["number"])
    assert "nothing" in third["error"] and third["data"]["saved"] == second["data"]["saved"]
    served.script.write_text("import os\nos._exit(3)\n")
    fourth = served.settled(third["number"])
    assert "status 3" in fourth["error"]
    served.padding.write_text("PAD = 0\n")
    served.script.write_text(SCRIPT)
    fifth = served.settled(fourth["number"])
    assert not fifth["error"] and fifth["data"]["saved"] != second["data"]["saved"]


def test_the_page_while_its_file_changes(served: Served, tmp_path: Path):
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium here (Debian: chromium-headless-shell); the page is not opened")
    number = served.settled()["number"]

    with Browser(program, tmp_path / "profile") as browser:

        def text(selector: str) -> str:
            return browser.js(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")

        def until(condition: str) -> None:
            deadline = time.monotonic() + 60
            while not browser.js(condition):
                assert time.monotonic() < deadline and not browser.errors, (condition, browser.errors)
                time.sleep(0.05)

        def choose(selector: str, value: str) -> None:
            found = f"document.querySelector('{selector}')"
            browser.js(f"{found}.value = '{value}'; {found}.onchange()")

        browser.call("Page.navigate", url=served.url)
        until("document.documentElement?.dataset.ready === 'true' && document.querySelector('#live').className === ''")

        # The conflict shows at its line and in the table of costs.
        assert "32-way conflict" in text("#pane-source .code")
        browser.click("#tab-costs")
        assert "occupancy" in text("#occupancy") and "blocks of 256 threads" in text("#occupancy")
        row = text("#line-costs tr[data-s]")
        assert f"turn.py:{READ}" in row and "32-way bank conflict" in row and "shared memory" in row
        browser.click("#line-costs tr[data-s]")
        assert browser.js("document.querySelectorAll('#pane-asm .ln.pin').length") >= 1

        # Beside the version before: aligned, with what is gone and what came.
        choose("#compare", "v0")
        browser.click("#tab-compared")
        assert browser.js("document.querySelectorAll('#pane-asm .ln.add').length") > 0
        assert browser.js("document.querySelectorAll('#pane-other .ln.del').length") > 0
        rows = "document.querySelectorAll('#pane-{0} .ln').length"
        assert browser.js(rows.format("asm")) == browser.js(rows.format("other"))
        assert re.search(r"predicted, µs.*%", text("#compared")) and "bank conflicts" in text("#compared")
        assert browser.js("document.querySelector('#pane-llvm').offsetWidth") == 0

        # Beside the other target: plain texts, linked by their source lines.
        choose("#compare", "trocm:gfx942:w64")
        assert "s_load_dword" in text("#pane-other .code") and ".visible .entry" in text("#pane-asm .code")
        browser.click("#pane-other .ln[data-s]")
        assert browser.js("document.querySelectorAll('#pane-other .ln.pin').length") >= 1
        choose("#kind", "ir")
        assert "!fly." in text("#pane-other .code") and "!fly." in text("#pane-ir .code")

        # A mistake is told above the panes, which keep what they had; put right, it goes away.
        served.script.write_text(SCRIPT.replace("tile[x, y + j", "tile[x, nothing + j"))
        until("!document.querySelector('#trouble').hidden")
        assert "nothing" in text("#trouble") and "!fly." in text("#pane-other .code")
        served.padding.write_text("PAD = 1\n")
        served.script.write_text(SCRIPT)
        until("document.querySelector('#trouble').hidden && document.querySelector('#live').className === ''")
        assert "conflict" not in text("#pane-source .code") and "!fly." in text("#pane-other .code")
        choose("#compare", "")
        assert browser.js("document.querySelector('#pane-llvm').offsetWidth") > 90
        assert browser.js("document.documentElement.scrollWidth <= innerWidth")
        assert browser.errors == []
        if folder := os.environ.get("FLY_SCREENSHOTS"):
            browser.screenshot(Path(folder) / "live.png")
    assert served.settled(number)["number"] > number
