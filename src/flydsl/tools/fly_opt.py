"""`fly-opt`: run passes on `.mlir` files.

fly-opt --fly-canonicalize in.mlir
fly-opt --pass-pipeline='builtin.module(fly-canonicalize,fly-layout-lowering)' -
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from flydsl.tools.console import failed

from .. import config
from ..errors import FlyDSLError
from ..passes import PASSES, pass_class
from .console import run_command
from .diagnostics import Diagnostic, Expectations, show

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..passes.base import Pass
    from ..passes.pipeline import PassSpec

R = TypeVar("R")

USAGE = """usage: fly-opt [options] [FILE | -]

Fly Optimizer Driver: reads a module (standard input without a file), verifies it, runs the passes in the order given
and prints the result. Options may be written with one dash or two.

options:
  -o FILE                       write there instead of standard output
  --PASS[{key=value ...}]       run a pass; may be repeated (also --PASS='key=value ...')
  --pass-pipeline=TEXT          run a pipeline, e.g. 'builtin.module(a,b{x=1})'
  --split-input-file            treat the parts between '// -----' lines as separate modules
  --verify-diagnostics          check errors against '// expected-error {{...}}' comments
  --mlir-print-op-generic       print in generic form
  --mlir-print-debuginfo        print locations
  --print-names                 call values as in the input instead of %0, %1, ...
  --mlir-print-ir-after-all     print the module to standard error after each pass
  --mlir-timing                 print the time of each step to standard error
  --allow-unregistered-dialect  accept ops of unknown dialects
  --help                        this text
  --version                     the version of this package

passes:
"""
FLAGS = {
    "split-input-file": "split",
    "verify-diagnostics": "verify_diagnostics",
    "mlir-print-op-generic": "generic",
    "mlir-print-debuginfo": "debuginfo",
    "print-names": "names",
    "mlir-print-ir-after-all": "print_after",
    "mlir-timing": "timing",
    "allow-unregistered-dialect": "unregistered",
}
_SPLIT = re.compile(r"^[ \t]*// -----.*$", re.MULTILINE)


class UsageError(Exception):
    """The command line makes no sense."""


class Options:
    """The command line, read in order."""

    def __init__(self, argv: list[str]):
        self.file = "-"
        self.output = "-"
        self.split = self.verify_diagnostics = self.generic = self.debuginfo = self.names = False
        self.print_after = self.timing = self.unregistered = self.help = self.version = False
        self.specs: list[PassSpec] = []
        self.passes: list[Pass] = []
        rest = iter(argv)
        seen_file = False
        for word in rest:
            if word == "-o":
                self.output = next(rest, "")
                if not self.output:
                    raise UsageError("-o needs a file name")
            elif word == "-" or not word.startswith("-"):
                if seen_file:
                    raise UsageError(f"more than one input file: {self.file}, {word}")
                self.file, seen_file = word, True
            else:
                self._flag(word.lstrip("-"))
        self._make_passes()

    def _make_passes(self) -> None:
        from ..errors import DSLValueError
        from ..passes.order import check_order

        try:
            check_order(self.specs, traced=False)
            self.passes = [spec.make() for spec in self.specs]
        except (DSLValueError, ValueError) as error:
            raise UsageError(str(error)) from None

    def _flag(self, name: str) -> None:
        from ..passes.pipeline import parse_specs

        if name in ("help", "h", "version"):
            self.help, self.version = name != "version", name == "version"
            return
        if name in FLAGS:
            setattr(self, FLAGS[name], True)
            return
        try:
            if name.startswith("pass-pipeline="):
                self.specs += parse_specs(name.removeprefix("pass-pipeline="))
                return
            base = re.split(r"[={]", name, maxsplit=1)[0]
            if base not in PASSES:
                raise UsageError(_unknown(base))
            body = name[len(base) :].removeprefix("=")
            if body and not body.startswith("{"):
                body = f"{{{body}}}"
            self.specs += parse_specs(base + body)
        except ValueError as error:
            raise UsageError(str(error)) from None


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, [*PASSES, *FLAGS, "pass-pipeline", "help"], 1)
    hint = f"; did you mean --{close[0]}?" if close else ""
    return f"unknown option --{name}{hint} --help lists all"


class Run:
    """One module on its way from text to text."""

    def __init__(self, text: str, name: str, first_line: int, options: Options):
        self.text, self.name, self.first_line, self.options = text, name, first_line, options
        self.errors: list[Diagnostic] = []

    def process(self) -> str | None:
        """Parse, verify, run the passes, print; None when there were errors."""
        module = self.timed("parse", self.parse)
        if module is None or self.errors:
            return None
        self.timed("verify", partial(self.verify, module))
        for p in self.options.passes:
            if self.errors:
                return None
            module = self.timed(p.name, partial(self.apply, p, module))
            if module is None:
                return None
            self.timed("verify", partial(self.verify, module))
            if self.options.print_after:
                print(f"// -----// IR Dump After {p.name} //----- //\n{self.render(module)}", file=sys.stderr)
        return None if self.errors else self.timed("print", partial(self.render, module))

    def timed(self, what: str, step: Callable[[], R]) -> R:
        """Run a step; say how long it took if asked to."""
        start = time.perf_counter()
        result = step()
        if self.options.timing:
            print(f"{(time.perf_counter() - start) * 1e3:9.3f} ms  {what}", file=sys.stderr)
        return result

    def parse(self) -> ModuleOp | None:
        """The module in the text."""
        from xdsl.utils.exceptions import ParseError

        from ..ir.parser import LocatedParser
        from ..ir.registry import make_context

        context = make_context(allow_unregistered=self.options.unregistered)
        parser = LocatedParser(context, self.text, self.name, self.first_line)
        try:
            return parser.parse_module()
        except ParseError as error:
            place = parser.position(error.span.start)
            self.errors += [Diagnostic(*place, line) for line in error.msg.strip().split("\n")]
            return None

    def verify(self, module: ModuleOp) -> None:
        """Check the module; what is wrong becomes diagnostics."""
        from ..passes.verifier import failures

        for failure in failures(module):
            self.report(failure.op.location, failure.message)

    def apply(self, p: Pass, module: ModuleOp) -> ModuleOp | None:
        """Run a pass; a failure becomes a diagnostic."""
        from xdsl.utils.exceptions import VerifyException

        from ..lowering.rebuild import location_of

        try:
            return p.run(module)
        except (FlyDSLError, VerifyException, NotImplementedError) as error:
            self.report(location_of(error), str(error).strip() or f"pass '{p.name}' failed")
        except Exception as error:
            # A mistake of the pass, or an op of a form it did not expect: the place is what helps.
            if config.debug.show_stacktrace:
                raise
            what = f"{type(error).__name__}: {error}".replace("\n", " ")
            hint = "FLYDSL_DEBUG_SHOW_STACKTRACE=1 shows where"
            self.report(location_of(error), f"pass '{p.name}' failed here with {what}; {hint}")
        return None

    def report(self, location: object, message: str) -> None:
        """Remember an error; each line of the message is one."""
        from xdsl.dialects.builtin import FileLineColLoc

        place = (self.first_line, 1)
        if isinstance(location, FileLineColLoc):
            place = (location.line.data, location.column.data)
        self.errors += [Diagnostic(*place, text) for text in message.split("\n") if text]

    def render(self, module: ModuleOp) -> str:
        """The module as text."""
        from ..ir.printer import print_ir

        options = self.options
        return print_ir(module, generic=options.generic, debuginfo=options.debuginfo, hints=options.names)


def print_help() -> None:
    """The options and every pass with one line."""
    rows = (f"  --{name:<38} {(pass_class(name).__doc__ or '').splitlines()[0]}" for name in sorted(PASSES))
    print(USAGE + "\n".join(rows))


def main(argv: list[str] | None = None) -> int:
    """Entry point of `fly-opt`."""
    return run_command("fly-opt", lambda: _main(argv))


def _main(argv: list[str] | None) -> int:
    try:
        options = Options(sys.argv[1:] if argv is None else argv)
    except UsageError as error:
        return failed(f"fly-opt: {error}")
    if options.version:
        from flydsl import __version__

        print(f"fly-opt {__version__}")
        return 0
    if options.help:
        print_help()
        return 0
    try:
        text = sys.stdin.read() if options.file == "-" else Path(options.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        return failed(f"fly-opt: cannot read {options.file}: {reason}")
    name = "<stdin>" if options.file == "-" else options.file
    results: list[str] = []
    good = True
    first_line = 1
    for chunk in _SPLIT.split(text) if options.split else [text]:
        run = Run(chunk, name, first_line, options)
        result = run.process()
        if options.verify_diagnostics:
            good &= Expectations(chunk, first_line).check(name, run.errors)
        elif result is None:
            for error in run.errors:
                show(text, name, error)
            good = False
        if result is not None:
            results.append(result)
        first_line += chunk.count("\n")
    if not options.verify_diagnostics:
        output = "// -----\n".join(results)
        if options.output == "-":
            sys.stdout.write(output)
        else:
            Path(options.output).write_text(output, encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
