"""Runs a notebook and prints, as JSON, what each code cell shows: by a real kernel, or here where there is none.

python notebook_runner.py notebook.ipynb [--kernel]

Without a kernel the cells run as IPython runs them: in one namespace, their sources in linecache.
"""

from __future__ import annotations

import ast
import json
import linecache
import os
import sys
import tempfile
from pathlib import Path


def shown(value: object) -> dict[str, str]:
    """What a notebook would show of a value."""
    found = {"text/plain": repr(value)}
    for name, kind in (("_repr_html_", "text/html"), ("_repr_svg_", "image/svg+xml")):
        method = getattr(value, name, None)
        made = None if method is None else method()
        if made is not None:
            found[kind] = made
    return found


def run(path: Path) -> list[dict[str, str]]:
    """The result of each code cell."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    results: list[dict[str, str]] = []
    cells = [c for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
    for number, cell in enumerate(cells):
        source = "".join(cell["source"])
        name = os.path.join(tempfile.gettempdir(), f"cells_{os.getpid()}", f"{number}.py")  # no such file, as there
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        tree = ast.parse(source, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), namespace)
        value = None
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
        results.append({} if value is None else shown(value))
    return results


def run_in_kernel(path: Path) -> list[dict[str, str]]:
    """The result of each code cell, as a notebook server would store it."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    results: list[dict[str, str]] = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            shows = [out.data for out in cell.outputs if out.output_type == "execute_result"]
            results.append(dict(shows[0]) if shows else {})
    return results


if __name__ == "__main__":
    out = sys.stdout
    sys.stdout = sys.stderr
    json.dump((run_in_kernel if "--kernel" in sys.argv else run)(Path(sys.argv[1])), out)
