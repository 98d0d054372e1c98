"""The demo: compile, run and check the example kernels on this machine's stack, and cross-compile them for GPUs."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flydsl.target import USUAL

CROSS_TARGETS = tuple(f"{stack}:{arch}" for stack, arch in USUAL.items())
CASES: dict[str, tuple[int, ...]] = {
    "vector_add": (100_003,),
    "predicated_add": (129, 67),
    "tiled_mma": (96, 64, 40),
}
"""Example module and the sizes to run it with."""
COLUMNS = ("kernel", "target", "compile", "size", "registers", "result")


def load_example(name: str) -> Any:
    """An example as a module, from the checkout this package is installed from."""
    path = Path(__file__).resolve().parents[3] / "examples" / f"{name}.py"
    if not path.exists():
        raise SystemExit(f"the demo runs from a checkout of the repository: {path.name} is not beside the package")
    spec = importlib.util.spec_from_file_location(f"flydsl_demo_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _registers(kernels: list[dict[str, Any]]) -> str:
    known = [k for k in kernels if k.get("registers") is not None]
    if not known:
        return "-"
    text = str(max(k["registers"] for k in known))
    spills = sum(k.get("spills") or 0 for k in known)
    return f"{text} ({spills} spilled)" if spills else text


def run_case(name: str, sizes: tuple[int, ...], seed: int) -> Iterator[tuple[str, ...]]:
    """Table rows of one example: run here, then cross-compiled."""
    import numpy as np

    import flydsl.compiler as flyc

    module = load_example(name)
    function: Any = getattr(module, name)
    args, out, expected = module.make_args(*sizes, np.random.default_rng(seed))
    start = time.perf_counter()
    compiled = flyc.compile(function, *args, run=False)
    seconds = time.perf_counter() - start
    compiled(*args)
    error = float(np.max(np.abs(out - expected)))
    good = bool(np.allclose(out, expected, rtol=1e-4, atol=1e-4))
    artifact = compiled.artifact
    result = f"correct (error {error:.1e})" if good else f"WRONG (error {error:.1e})"
    yield _row(name, artifact, seconds, result)
    for target in CROSS_TARGETS:
        start = time.perf_counter()
        artifact = flyc.compile(function, *args, target=target).artifact
        yield _row(name, artifact, time.perf_counter() - start, "compiled")


def _row(name: str, artifact: Any, seconds: float, result: str) -> tuple[str, ...]:
    size = len(artifact.binary())
    ext = artifact.metadata["binary_ext"]
    target = ":".join(artifact.metadata["target"].split(":")[:2])
    return name, target, f"{seconds * 1e3:.0f} ms", f"{size} B {ext}", _registers(artifact.kernels), result


@contextmanager
def _table(total: int) -> Generator[Callable[[tuple[str, ...]], None]]:
    """Show rows as they come: live with rich on a terminal, else as plain lines."""
    if importlib.util.find_spec("rich") is None or not sys.stdout.isatty():
        widths = (15, 13, 9, 14, 11, 28)
        print("  ".join(c.ljust(w) for c, w in zip(COLUMNS, widths, strict=True)))
        yield lambda row: print("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)), flush=True)
        return
    from rich.live import Live
    from rich.progress import Progress
    from rich.table import Table

    table = Table(*COLUMNS, title="FlyDSL demo")
    progress = Progress(transient=True)
    task = progress.add_task("compiling", total=total)
    with Live(table, refresh_per_second=8), progress:

        def show(row: tuple[str, ...]) -> None:
            style = "red" if "WRONG" in row[-1] else "green" if "correct" in row[-1] else None
            table.add_row(*row, style=style)
            progress.advance(task)

        yield show


def main(argv: list[str] | None = None) -> int:
    """Run the demo; the exit status says whether every result was correct."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="seed of the random inputs (default: fresh)")
    options = parser.parse_args(argv)
    seed = time.time_ns() if options.seed is None else options.seed
    from flydsl import __version__
    from flydsl.compiler.backends import current_target

    print(f"flydsl {__version__}, active target {current_target().key()}, inputs seeded with {seed}")
    start = time.perf_counter()
    rows: list[tuple[str, ...]] = []
    with _table(len(CASES) * (1 + len(CROSS_TARGETS))) as show:
        for name, sizes in CASES.items():
            for row in run_case(name, sizes, seed):
                rows.append(row)
                show(row)
    wrong = [row for row in rows if "WRONG" in row[-1]]
    verdict = f"{len(wrong)} WRONG" if wrong else "all correct"
    print(f"{len(rows)} compilations in {time.perf_counter() - start:.1f} s, {verdict}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
