"""The upstream ops the compiler reads and prints, in upstream's text form: MLIR's own tool understands every line."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).resolve().parents[2] / "filecheck" / "dialects" / "upstream").glob("*.mlir"))
MLIR_OPT = shutil.which("mlir-opt-22")


def run(command, text):
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)


@pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt-22 is not installed")
@pytest.mark.parametrize("form", [[], ["--mlir-print-op-generic"]], ids=["custom", "generic"])
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_upstream_reads_what_we_print(path, form):
    ours = run([sys.executable, "-m", "flydsl.tools.fly_opt", *form], path.read_text())
    assert ours.returncode == 0, ours.stderr
    theirs, again = run([MLIR_OPT], path.read_text()), run([MLIR_OPT], ours.stdout)
    assert again.returncode == 0, again.stderr
    assert again.stdout == theirs.stdout
