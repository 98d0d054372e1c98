"""`fly aot build` and `fly aot keygen`: compiling ahead of time from the command line. What is built is code."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flydsl.tools.console import failed

if TYPE_CHECKING:
    from flydsl.compiler.ship.aot_build import Built


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `fly aot`."""
    parser.description = "What is built is code: whoever can change the folder can change what programs run. Sign it."
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="compile everything a manifest lists into a folder")
    build.add_argument("manifest", type=Path)
    build.add_argument("--out", type=Path, required=True, help="the folder: a cache for FLYDSL_RUNTIME_CACHE_PATH")
    build.add_argument("--jobs", type=_positive, help="worker processes (default: FLYDSL_COMPILE_JOBS)")
    build.add_argument("--check", action="store_true", help="compile nothing; say whether the folder has it all")
    build.add_argument("--sign", type=Path, metavar="KEY", help="sign every entry with this private key")
    build.set_defaults(run=run_build)
    keygen = commands.add_parser("keygen", help="make a key pair for signing: KEY and KEY.pub")
    keygen.add_argument("key", type=Path, metavar="KEY")
    keygen.set_defaults(run=run_keygen)


def run_keygen(options: argparse.Namespace) -> int:
    """Make a key pair."""
    from flydsl.compiler.build.signing import KEYS_VARIABLE, generate
    from flydsl.errors import FlyDSLError

    try:
        private, public = generate(options.key)
    except (FlyDSLError, OSError) as error:
        return failed(f"fly aot: {error}")
    print(f"{private}: the private key; keep it secret, and give it to `fly aot build --sign`")
    print(
        f"{public}: the public key; {KEYS_VARIABLE}={public} accepts what was signed with the other, and nothing else"
    )
    return 0


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def run_build(options: argparse.Namespace) -> int:
    """Build or check; 0 only if every build has its code."""
    from flydsl.compiler.build.signing import read_private_key
    from flydsl.compiler.ship.aot_build import run_builds, sign_entries, write_index
    from flydsl.compiler.ship.manifest import read_manifest
    from flydsl.errors import FlyDSLError, ManifestError
    from flydsl.tools.progress import Progress

    if options.sign is not None:
        if options.check:
            return failed("fly aot: --check compiles nothing, so there is nothing to --sign")
        try:
            read_private_key(options.sign)  # before hours of compilation, not after
        except FlyDSLError as error:
            return failed(f"fly aot: {error}")
    try:
        builds = read_manifest(options.manifest)
    except ManifestError as error:
        return failed(f"fly aot: {error}")
    if options.check and not options.out.is_dir():
        return failed(f"fly aot: there is no folder {options.out}", 1)
    progress = Progress(len(builds), sys.stderr)
    start = time.monotonic()

    def done(result: Built) -> None:
        progress.advance(f"{result.build.name} {result.build.target}", failed=bool(result.error))

    progress.start()
    try:
        results = run_builds(builds, options.out, jobs=options.jobs, check=options.check, done=done)
    except KeyboardInterrupt:
        progress.finish()
        return failed("fly aot: interrupted; what was compiled is in the folder", 130)
    except FlyDSLError as error:
        progress.finish()
        return failed(f"fly aot: {error}")
    progress.finish()
    if not options.check:
        if options.sign is not None:
            try:
                sign_entries(results, options.out, options.sign)
            except (FlyDSLError, OSError) as error:
                return failed(f"fly aot: the entries are not signed: {error}", 1)
        write_index(results, options.out)
    _report(results, time.monotonic() - start, options.check)
    return 1 if any(result.error for result in results) else 0


def _report(results: Sequence[Built], seconds: float, check: bool) -> None:
    from flydsl.tools.progress import table

    rows: list[tuple[str, ...]] = [("function", "target", "result", "key", "bytes", "seconds")]
    for result in results:
        if result.error:
            what = "missing" if check and result.key else "FAILED"
        elif check:
            what = "there"
        elif result.same_as is not None:
            what = f"as {result.same_as.name}" if result.same_as.name != result.build.name else "same code"
        else:
            what = "was there" if result.known else "compiled"
        size = str(result.size) if result.size else ""
        spent = f"{result.seconds:.2f}" if result.seconds else ""
        rows.append((result.build.name, result.build.target, what, result.key[:16], size, spent))
    print(table(rows))
    failed = [result for result in results if result.error]
    for result in failed:
        print(f"\n{result.build.where}: {result.build.name} for {result.build.target}: {result.error}", file=sys.stderr)
    entries = len({result.key for result in results if not result.error})
    print(f"\n{len(results) - len(failed)} of {len(results)} builds, {entries} entries, {seconds:.1f} s")
