"""The parts of the language server that need no protocol: hints in comments, where names stand, columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flydsl.tools.lsp.analysis import Analysis, main
from flydsl.tools.lsp.document import Document, column_of, units
from flydsl.tools.lsp.source import hint_of, parse

TEXT = """\
from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

# fly: target=rocm:gfx942


@flyc.kernel
def move_kernel(
    x: fx.Tensor,
    n: fx.Int32,
):
    ünit = fx.make_layout(
        (4, 2),
        (2, 1),
    ); z = fx.make_layout(8, 1)
    for k in range(n):
        x[k] = fx.Float32(fx.get_scalar(fx.size(ünit)) + fx.get_scalar(fx.size(z)))


# A comment of another kind.
# fly: target=cuda:sm_90a, args=dict(x=TensorSpec((8,), "float32"), n=(1 + 3))
# And one more.
@flyc.jit
def move(x: fx.Tensor, n: fx.Int32):
    move_kernel(x, n).launch(grid=1, block=1)


class Holder:
    @flyc.jit
    def method(self, n: fx.Int32):
        pass
"""


def test_hints():
    assert hint_of(1, "x = 1  # fly: target=a") is None and hint_of(1, "# flying: target=a") is None
    hint = hint_of(2, "    #fly: args=(f(target=3), 2)")
    assert hint is not None and hint.target is None and hint.arguments == "(f(target=3), 2)"
    source = parse(TEXT)
    assert source.target == "rocm:gfx942"
    kernel, move, method = source.functions
    assert (kernel.name, kernel.kind, kernel.hint, kernel.level) == ("move_kernel", "kernel", None, 0)
    assert move.hint is not None and move.hint.target == "cuda:sm_90a" and move.hint.arguments.startswith("dict(")
    assert "move_kernel" in source.inlined and "move" not in source.inlined
    assert method.level == 1 and source.at(method.last) == method and source.at(1) is None


def test_where_names_stand():
    source = parse(TEXT)
    lines = TEXT.split("\n")
    line = 1 + next(i for i, text in enumerate(lines) if "ünit =" in text)
    for at in range(line, line + 3):  # any line of the statement
        name = source.names[at, "ünit"]
        assert (name.line, lines[name.line - 1][name.start : name.end]) == (line, "ünit")
    for each in ("x", "n", "k", "z"):
        assert any(
            lines[found.line - 1][found.start : found.end] == each
            for (_, known), found in source.names.items()
            if known == each
        )


@given(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])), st.integers(0, 40))
def test_columns(text: str, column: int):
    """UTF-16 units and back; what lies inside a character belongs to it."""
    column = min(column, len(text))
    assert column_of(text, units(text, column)) == column
    assert units(text, len(text)) == len(text.encode("utf-16-le")) // 2


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> Document:
    folder = tmp_path_factory.mktemp("lsp")
    script, out = folder / "s.py", folder / "out.json"
    script.write_text(TEXT, encoding="utf-8")
    assert main([str(out), str(script)]) == 0
    document = Document(str(script), TEXT)
    document.take(TEXT, json.loads(out.read_text(encoding="utf-8")))
    return document


def test_a_function_is_compiled_from_its_hint(analysed: Document):
    assert analysed.diagnostics() == []
    (made,) = analysed.found["made"]
    assert made["target"].startswith("cuda:sm_90a") and made["function"] == "move"
    labels = {hint.text for hint in analysed.inlay_hints(0, 99)}
    assert {": Layout (4,2):(2,1)", ": Layout 8:1", ": Int32", ": Tensor Float32 global (?):(1)"} <= labels


def test_lines_that_were_edited_have_no_hints(analysed: Document):
    before = len(analysed.inlay_hints(0, 99))
    analysed.change(TEXT.replace("z = fx.make", "zz = fx.make"))
    assert len(analysed.inlay_hints(0, 99)) == before - 1
    analysed.change("")
    assert analysed.inlay_hints(0, 99) == [] and analysed.hover(50, 3) is None
    analysed.change(TEXT)


def test_from_a_line_to_what_it_became(analysed: Document):
    line = next(i for i, text in enumerate(TEXT.split("\n")) if "x[k] =" in text)
    found = analysed.lowered(None, "assembly", line)
    assert found is not None and found.name.endswith(".assembly.s") and found.line > 0
    assert analysed.lowered("nothing", "assembly") is None and analysed.lowered(None, "assembly", 0) is None


def test_a_file_of_a_package_imports_its_neighbours(tmp_path: Path):
    for name in ("outer", "outer/inner"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "outer" / "sizes.py").write_text("ROWS = 4\n")
    script = tmp_path / "outer" / "inner" / "s.py"
    script.write_text("from ..sizes import ROWS\n" + TEXT.partition("\n")[2].replace("(4, 2)", "(ROWS, 2)"))
    found = Analysis(str(script), None).run()
    assert found["mistakes"] == [] and "Layout (4,2):(2,1)" in [value["text"] for value in found["values"]]


def test_a_hint_that_cannot_be_evaluated(tmp_path: Path):
    script = tmp_path / "s.py"
    script.write_text(TEXT.replace('dict(x=TensorSpec((8,), "float32"), n=(1 + 3))', "(absent,)"), encoding="utf-8")
    (mistake,) = Analysis(str(script), None).run()["mistakes"]
    assert "the hint cannot be evaluated: NameError" in mistake["message"] and mistake["severity"] == 1
    assert TEXT.split("\n")[mistake["line"] - 1].startswith("# fly: target=cuda")
