"""`fly tune script.py`: run a script with every tuned function it calls searched, and print what was found."""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from flydsl.tools.console import failed

if TYPE_CHECKING:
    from flydsl.autotune import TuneEvent
    from flydsl.autotune.report import Report, Trial


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("file", help="the script, which calls its tuned functions")
    parser.add_argument("--budget", help='of each search: seconds ("30s"), candidates ("50"), or both ("30s,50")')
    parser.add_argument(
        "--timeout", type=float, default=30.0, help="seconds a candidate may take (default: 30); 0: any"
    )
    parser.add_argument("--out", type=Path, help="write named configurations into this folder")
    parser.add_argument("--json", type=Path, help="write the reports to this file")
    parser.add_argument("--plot", type=Path, help="draw the reports into this folder, as SVG")
    parser.add_argument("--keep", action="store_true", help="use winners that are known; search what is not")
    parser.add_argument("--cluster", help="a Dask scheduler (tcp://...), or `local`: compile candidates there")
    parser.add_argument(
        "arguments", nargs="*", help="arguments of the script; behind `--` where they look like options"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the script; 0 only if every search found something."""
    from flydsl.autotune import tune_listener
    from flydsl.autotune.processes.cluster import on_cluster
    from flydsl.autotune.search import Budget, search_defaults
    from flydsl.errors import DSLValueError, MissingPackageError
    from flydsl.tools.script_runs import as_program, environment

    script = Path(options.file)
    if not script.is_file():
        return failed(f"fly tune: there is no file {script}")
    events: list[TuneEvent] = []
    variables = {} if options.keep else {"FLYDSL_AUTOTUNE": "1"}
    if options.out is not None:
        variables["FLYDSL_AUTOTUNE_CONFIG_DIR"] = str(options.out.resolve())
    shown = _Shown()
    try:
        budget = Budget.parse(options.budget)
        with (
            environment(**variables),
            as_program(script, options.arguments),
            tune_listener(events.append),
            search_defaults(budget=budget, timeout=options.timeout, progress=shown.advance),
            on_cluster(options.cluster),
        ):
            runpy.run_path(str(script), run_name="__main__")
    except (DSLValueError, MissingPackageError) as error:
        return failed(f"fly tune: {error}")
    finally:
        shown.finish()
    if not events:
        return failed(f"fly tune: {script} searched nothing", 1)
    for event in events:
        print(event.report.table())
    _write(options, events)
    return 0


def _write(options: argparse.Namespace, events: list[TuneEvent]) -> None:
    if options.json is not None:
        options.json.write_text(json.dumps([event.report.to_dict() for event in events], indent=1))
    if options.plot is not None:
        options.plot.mkdir(parents=True, exist_ok=True)
        for event in events:
            name = event.function.rpartition(":")[2].replace("<", "").replace(">", "")
            (options.plot / f"{name}-{event.key[:12]}.svg").write_text(event.report.svg())


class _Shown:
    """Candidates done, the best so far and the time left: with rich on a terminal, else not at all."""

    def __init__(self) -> None:
        self._report: Report | None = None
        self._bar: object | None = None

    def advance(self, report: Report, trial: Trial) -> None:
        """One candidate more is done."""
        if not sys.stderr.isatty():
            return
        done = sum(t.status != "left out" for t in report.trials)
        best = f"{report.timed[0].ms:.4g} ms" if report.timed else "none yet"
        from flydsl.tools.progress import Progress

        if report is not self._report:
            self.finish()
            self._report, self._bar = report, Progress(len(report.trials), sys.stderr)
        bar = self._bar
        assert isinstance(bar, Progress)
        bar.done, bar.total = done - 1, max(len(report.trials), done)
        bar.advance(f"best {best}  {trial.config}", failed=trial.status in ("failed", "wrong"))

    def finish(self) -> None:
        from flydsl.tools.progress import Progress

        if isinstance(self._bar, Progress):
            self._bar.finish()
        self._bar = None
