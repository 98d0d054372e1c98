"""`fly-opt`: run passes on `.mlir` files.

fly-opt --fly-canonicalize in.mlir
fly-opt --pass-pipeline='builtin.module(fly-canonicalize,fly-layout-lowering)' -
"""

from __future__ import annotations

import io
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FlyDSLError
from ..passes import PASSES, pass_class

if TYPE_CHECKING:
    from ..passes.base import Pass

USAGE = """usage: fly-opt [options] [FILE | -]

Reads a module (standard input without a file), verifies it, runs the passes in the order given, prints the result.

options:
  -o FILE                       write there instead of standard output
  --PASS[{key=value ...}]       run a pass; may be repeated
  --pass-pipeline=TEXT          run a pipeline, e.g. 'builtin.module(a,b{x=1})'
  --split-input-file            treat the parts between '// -----' lines as separate modules
  --verify-diagnostics          check errors against '// expected-error {{...}}' comments
  --mlir-print-op-generic       print in generic form
  --mlir-print-ir-after-all     print the module to standard error after each pass
  --mlir-timing                 print the time of each pass to standard error
  --allow-unregistered-dialect  accept ops of unknown dialects
  --help                        this text

passes:
"""
_SPLIT = re.compile(r"^\s*// -----.*$", re.MULTILINE)
_EXPECTED = re.compile(r"//\s*expected-error\s*(?:@([+-]\d+|above|below)\s*)?\{\{(.*?)\}\}")


class UsageError(Exception):
    """The command line makes no sense."""


class Diagnostic(Exception):
    """An error at a place of the input."""

    def __init__(self, line: int, column: int, message: str):
        super().__init__(message)
        self.line = line
        self.column = column
        self.message = message


class Options:
    """The command line, read in order."""

    def __init__(self, argv: list[str]):
        self.file = "-"
        self.output = "-"
        self.split = self.verify_diagnostics = self.generic = self.print_after = self.timing = self.unregistered = False
        self.passes: list[Pass] = []
        rest = iter(argv)
        seen_file = False
        for word in rest:
            if word in ("--help", "-h"):
                raise UsageError("")
            if word == "-o":
                self.output = next(rest, "")
                if not self.output:
                    raise UsageError("-o needs a file name")
            elif word == "-" or not word.startswith("-"):
                if seen_file:
                    raise UsageError(f"more than one input file: {self.file}, {word}")
                self.file, seen_file = word, True
            else:
                self._flag(word)

    def _flag(self, word: str) -> None:
        from ..passes.pipeline import parse_pipeline

        flags = {
            "--split-input-file": "split",
            "--verify-diagnostics": "verify_diagnostics",
            "--mlir-print-op-generic": "generic",
            "--mlir-print-ir-after-all": "print_after",
            "--mlir-timing": "timing",
            "--allow-unregistered-dialect": "unregistered",
        }
        if word in flags:
            setattr(self, flags[word], True)
            return
        name = word.lstrip("-")
        try:
            if name.startswith("pass-pipeline="):
                self.passes += parse_pipeline(name.removeprefix("pass-pipeline="))
                return
            base, sep, body = name.partition("{") if "{" in name else name.partition("=")
            if base not in PASSES:
                raise UsageError(f"unknown option {word}; --help lists the passes")
            text = base if not sep else f"{base}{{{body.rstrip('}')}}}"
            self.passes += parse_pipeline(text)
        except ValueError as error:
            raise UsageError(str(error)) from None


def parse_text(text: str, name: str, unregistered: bool) -> Any:
    """A module from text; errors become diagnostics."""
    from xdsl.parser import Parser
    from xdsl.utils.exceptions import ParseError, VerifyException

    from ..dialects.registry import make_context

    context = make_context(allow_unregistered=unregistered)
    try:
        module = Parser(context, text, name).parse_module()
    except ParseError as error:
        line = text.count("\n", 0, error.span.start) + 1
        column = error.span.start - (text.rfind("\n", 0, error.span.start) + 1) + 1
        raise Diagnostic(line, column, error.msg) from error
    try:
        module.verify()
    except VerifyException as error:
        raise Diagnostic(1, 1, str(error).strip()) from error
    return module


def process(text: str, name: str, options: Options) -> str:
    """Parse, run the passes, print."""
    from xdsl.utils.exceptions import VerifyException

    module = parse_text(text, name, options.unregistered)
    for p in options.passes:
        start = time.perf_counter()
        try:
            module = p.run(module)
            module.verify()
        except (FlyDSLError, VerifyException, NotImplementedError) as error:
            raise Diagnostic(1, 1, f"pass '{p.name}': {error}") from error
        if options.timing:
            print(f"{(time.perf_counter() - start) * 1e3:9.3f} ms  {p.name}", file=sys.stderr)
        if options.print_after:
            print(f"// -----// IR Dump After {p.name} //----- //\n{render(module, options)}", file=sys.stderr)
    return render(module, options)


def render(module: Any, options: Options) -> str:
    """The module as text."""
    from xdsl.printer import Printer

    out = io.StringIO()
    Printer(out, print_generic_format=options.generic).print_op(module)
    return out.getvalue() + "\n"


def show(text: str, name: str, first_line: int, error: Diagnostic) -> None:
    """`file:line:col: error: message` with the line and a caret."""
    print(f"{name}:{first_line + error.line - 1}:{error.column}: error: {error.message}", file=sys.stderr)
    lines = text.splitlines()
    if 0 < error.line <= len(lines):
        print(f"{lines[error.line - 1]}\n{' ' * (error.column - 1)}^", file=sys.stderr)


def check_expected(text: str, name: str, first_line: int, error: Diagnostic | None) -> bool:
    """Compare an error with the comments that announce it."""
    expected: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        for where, message in _EXPECTED.findall(line):
            offset = {"above": -1, "below": 1, "": 0}.get(where)
            expected.append((number + (int(where) if offset is None else offset), message))
    if error is None:
        for line, message in expected:
            print(f"{name}:{first_line + line - 1}: error: expected error was not produced: {message}", file=sys.stderr)
        return not expected
    if any(message in error.message for _, message in expected):
        return True
    show(text, name, first_line, error)
    return False


def main(argv: list[str] | None = None) -> int:
    """Entry point of `fly-opt`."""
    try:
        options = Options(sys.argv[1:] if argv is None else argv)
    except UsageError as error:
        if str(error):
            print(f"fly-opt: {error}", file=sys.stderr)
            return 2
        rows = (f"  --{name:<34}{(pass_class(name).__doc__ or '').splitlines()[0]}" for name in PASSES)
        print(USAGE + "\n".join(rows))
        return 0
    try:
        text = sys.stdin.read() if options.file == "-" else Path(options.file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        print(f"fly-opt: cannot read {options.file}: {error}", file=sys.stderr)
        return 1
    name = "<stdin>" if options.file == "-" else options.file
    results: list[str] = []
    good = True
    first_line = 1
    for chunk in _SPLIT.split(text) if options.split else [text]:
        failure: Diagnostic | None = None
        try:
            results.append(process(chunk, name, options))
        except Diagnostic as error:
            failure = error
        if options.verify_diagnostics:
            good &= check_expected(chunk, name, first_line, failure)
        elif failure is not None:
            show(chunk, name, first_line, failure)
            good = False
        first_line += chunk.count("\n")
    if not options.verify_diagnostics:
        output = "// -----\n".join(results)
        if options.output == "-":
            sys.stdout.write(output)
        else:
            Path(options.output).write_text(output)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
