"""`fly lsp` as an editor drives it: a conversation over standard input and output with a real process."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from flydsl.debug.dap.wire import read_message

if importlib.util.find_spec("pygls") is None:
    pytest.skip(
        "pygls is not installed (the extra flydsl[lsp]); there is no server to talk to", allow_module_level=True
    )

GOOD = """\
import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

# fly: target=cuda:sm_90a


@flyc.kernel
def add_kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32):
    tile = fx.make_layout((4, 8), (8, 1))
    i = fx.block_idx.x * 32 + fx.thread_idx.x
    if i < n:
        y[i] = x[i] + fx.Float32(fx.get_scalar(fx.size(tile)))


@flyc.jit
def add(x: fx.Tensor, y: fx.Tensor, n: fx.Int32):
    add_kernel(x, y, n).launch(grid=fx.ceildiv(n, 32), block=32)


# fly: args=dict(x=TensorSpec((64,), "float32"), n=64)
@flyc.jit
def twice(x: fx.Tensor, n: fx.Int32):
    add_kernel(x, x, n).launch(grid=fx.ceildiv(n, 32), block=32)


@flyc.jit
def unknown(x: fx.Tensor):
    add_kernel(x, x, 4).launch(grid=1, block=32)


if __name__ == "__main__":
    out = np.zeros(100, np.float32)
    add(np.ones(100, np.float32), out, 100)
    assert out.any()  # nothing runs, so this would fail
"""
TILE = GOOD.split("\n").index("    tile = fx.make_layout((4, 8), (8, 1))")
STORE = TILE + 3


class Editor:
    """The other side of the conversation."""

    def __init__(self, folder: Path):
        command = [sys.executable, "-m", "flydsl.tools.fly", "lsp", "--timeout", "60"]
        env = {**os.environ, "FLYDSL_RUNTIME_CACHE_DIR": str(folder / "cache")}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=folder)
        self.messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self.held: list[dict[str, Any]] = []
        self.shown: list[dict[str, Any]] = []
        self.number = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while (message := read_message(self.process.stdout)) is not None:  # pyright: ignore[reportArgumentType]
            self.messages.put(message)

    def send(self, **message: object) -> None:
        assert self.process.stdin is not None
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
        self.process.stdin.flush()

    def _next(self) -> dict[str, Any]:
        message = self.messages.get(timeout=90)
        if "method" in message and "id" in message:  # a request of the server's
            if message["method"] == "window/showDocument":
                self.shown.append(message["params"])
            self.send(id=message["id"], result={"success": True} if "show" in message["method"] else None)
        return message

    def ask(self, method: str, **params: object) -> Any:
        self.number += 1
        self.send(id=self.number, method=method, params=params)
        while True:
            message = self._next()
            if message.get("id") == self.number and "method" not in message:
                assert "error" not in message, message
                return message["result"]
            self.held.append(message)

    def diagnostics(self, uri: str) -> list[dict[str, Any]]:
        """The next ones of a file."""
        while True:
            for i, message in enumerate(self.held):
                if message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == uri:
                    return self.held.pop(i)["params"]["diagnostics"]
            self.held.append(self._next())

    def open(self, path: Path, text: str) -> str:
        path.write_text(text, encoding="utf-8")
        uri = path.as_uri()
        document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        self.send(method="textDocument/didOpen", params={"textDocument": document})
        return uri

    def save(self, path: Path, text: str, version: int) -> None:
        path.write_text(text, encoding="utf-8")
        uri = path.as_uri()
        change = {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]}
        self.send(method="textDocument/didChange", params=change)
        self.send(method="textDocument/didSave", params={"textDocument": {"uri": uri}})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("editor")


@pytest.fixture(scope="module")
def editor(folder: Path) -> Iterator[Editor]:
    made = Editor(folder)
    about = {"window": {"showDocument": {"support": True}}, "workspace": {"inlayHint": {"refreshSupport": True}}}
    offers = made.ask("initialize", processId=None, rootUri=folder.as_uri(), capabilities=about)["capabilities"]
    assert offers["inlayHintProvider"] and offers["hoverProvider"] and offers["codeLensProvider"]
    assert "fly.showLowered" in offers["executeCommandProvider"]["commands"]
    made.send(method="initialized", params={})
    yield made
    made.ask("shutdown")
    made.send(method="exit")
    assert made.process.wait(20) == 0
    for stream in (made.process.stdin, made.process.stdout):
        assert stream is not None
        stream.close()


def at(uri: str, line: int, character: int) -> dict[str, Any]:
    return {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}}


def test_a_file_without_mistakes(editor: Editor, folder: Path):
    uri = editor.open(folder / "good.py", GOOD)
    (only,) = editor.diagnostics(uri)
    # Functions with a call or a hint are compiled; the third has neither, which is said and no error.
    assert only["severity"] == 3 and "unknown is not called" in only["message"] and "# fly: args=" in only["message"]
    assert GOOD.split("\n")[only["range"]["start"]["line"]].startswith("def unknown")

    whole = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
    hints = editor.ask("textDocument/inlayHint", textDocument={"uri": uri}, range=whole)
    shown = {(h["position"]["line"], h["position"]["character"]): h["label"] for h in hints}
    assert shown[TILE, 8] == ": Layout (4,8):(8,1)" and shown[TILE + 1, 5] == ": Int32"
    assert shown[TILE - 1, GOOD.split("\n")[TILE - 1].index("x:") + 1] == ": Tensor Float32 global (?):(1)"

    hover = editor.ask("textDocument/hover", **at(uri, STORE, GOOD.split("\n")[STORE].index("tile") + 1))
    words = hover["contents"]["value"]
    assert "Layout (4,8):(8,1)" in words and " 8  9 10 11 12 13 14 15" in words
    picture = base64.b64decode(re.search(r"data:image/svg\+xml;base64,([^)]*)", words)[1]).decode()
    assert picture.startswith("<svg") and picture.count("<rect") == 32
    assert editor.ask("textDocument/hover", **at(uri, 0, 2)) is None

    lenses = editor.ask("textDocument/codeLens", textDocument={"uri": uri})
    assert len(lenses) == 12  # four stages of a kernel and of two functions
    chosen = next(lens["command"] for lens in lenses if lens["command"]["title"] == "lowered IR")
    result = editor.ask("workspace/executeCommand", command=chosen["command"], arguments=chosen["arguments"])
    text = Path(unquote(urlsplit(result["uri"]).path)).read_text()
    assert "llvm." in text and "!fly." not in text
    if not editor.shown:
        editor.held.append(editor._next())
    assert editor.shown[0]["uri"] == result["uri"]

    places = editor.ask("textDocument/implementation", **at(uri, STORE, 10))
    assert len(places) == 3
    for place, words in zip(places, ("llvm.store", "store float", "st.global"), strict=True):
        lines = Path(unquote(urlsplit(place["uri"]).path)).read_text().split("\n")
        first = place["range"]["start"]["line"]
        assert any(words in line for line in lines[first : first + 40]), (place, words)


def test_mistakes_are_told_at_their_line_and_end_nothing(editor: Editor, folder: Path):
    path = folder / "bad.py"
    # A character of two UTF-16 units stands before the mistake.
    wrong = GOOD.replace("    if i < n:", "    if i < n:  # 𝄞").replace("y[i] = x[i]", "s = '𝄞'; y[i] = nothing")
    uri = editor.open(path, wrong)
    found = editor.diagnostics(uri)
    line = wrong.split("\n")[STORE]
    errors = [d for d in found if d["severity"] == 1]
    assert errors and all("'nothing' is not defined" in d["message"] for d in errors)
    start = len(line[: line.index("nothing")].encode("utf-16-le")) // 2
    assert errors[0]["range"] == {
        "start": {"line": STORE, "character": start},
        "end": {"line": STORE, "character": start + 7},
    }
    version = 1
    for text, words, where in (
        (GOOD.replace("x[i] +", "x[i, 1, 2] +"), "does not fit the shape", STORE),
        ("import flydsl\ndef broken(:\n", "invalid syntax", 1),
        ("import flydsl.compiler as flyc\n@flyc.jit\ndef f(): pass\nimport os\nos._exit(7)\n", "status 7", 0),
        ("import flydsl.compiler as flyc\nimport absent_module\n@flyc.jit\ndef f(): pass\n", "absent_module", 1),
        (GOOD.replace("cuda:sm_90a", "cuda:sm_1"), "sm_1", 5),
    ):
        version += 1
        editor.save(path, text, version)
        found = editor.diagnostics(uri)
        assert [d for d in found if words in d["message"] and d["range"]["start"]["line"] == where], (words, found)
    # What has no kernel is not run: this would leave a file behind.
    editor.save(path, f"import flydsl\nopen({str(folder / 'ran')!r}, 'w')\n", version + 1)
    assert editor.diagnostics(uri) == [] and not (folder / "ran").exists()
    assert editor.process.poll() is None


def test_without_pygls_it_says_what_to_install(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nold = u.find_spec\n"
        "u.find_spec = lambda n, *a: None if n == 'pygls' else old(n, *a)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-m", "flydsl.tools.fly", "lsp"], capture_output=True, text=True, env=env, timeout=60
    )
    assert done.returncode == 2 and "pip install 'flydsl[lsp]'" in done.stderr
