"""The upstream ops the compiler reads and prints, in upstream's text form: MLIR's own tool understands every line."""

import shutil
import subprocess
from pathlib import Path

import pytest

from flydsl.ir.parser import LocatedParser
from flydsl.ir.printer import print_ir
from flydsl.ir.registry import make_context

FILES = sorted((Path(__file__).resolve().parents[2] / "filecheck" / "dialects" / "upstream").glob("*.mlir"))
MLIR_OPT = shutil.which("mlir-opt-22")


def upstream(text: str) -> str:
    done = subprocess.run([str(MLIR_OPT)], input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt-22 is not installed")
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_upstream_reads_what_we_print(path: Path):
    text = path.read_text()
    module = LocatedParser(make_context(), text, path.name).parse_module()
    theirs = upstream(text)
    for generic in (False, True):
        assert upstream(print_ir(module, generic=generic)) == theirs
