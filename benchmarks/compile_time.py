"""Cold compile times of four example kernels and the pipelined matrix product, stage by stage, and the time to import
the compiler.

    python benchmarks/compile_time.py                     # ours, for rocm:gfx942
    python benchmarks/compile_time.py --passes            # with the time of every pass
    python benchmarks/compile_time.py --peer              # also FlyDSL's times for the same kernels, and the ratios
    python benchmarks/compile_time.py --processor-time    # on a busy machine: processor time, the least of all

Cold means: an empty cache, in a fresh process that has compiled one other kernel before, so that imports and other
one-time work are counted apart. Every number is the median over several such processes; ours and the peer's take turns.

`--peer` installs FlyDSL from the package index into a virtual environment of its own (kept in `.bench-peer/`). FlyDSL
links with ROCm's ld.lld; a folder that holds nothing but a link to an lld of version 19 or newer serves.
"""

import argparse
import importlib.util
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PEER_SOURCE = ROOT / "benchmarks" / "peer"
PEER_HOME = ROOT / ".bench-peer"
PEER_REQUIREMENTS = ("flydsl", "torch==2.13.0", "numpy")
PEER_ARCH = "gfx942"
OLDEST_LLD = 19

EXAMPLES = ("vector_add", "predicated_add", "tiled_copy", "tiled_mma")
KERNELS = (*EXAMPLES, "preshuffle_gemm")
WARM_UP = "warm_up"
STAGES = ("trace", "passes", "llvm", "link")
TRACE_BUDGET_US = 60
"""What tracing may cost for each op it emits, on average over the kernels."""

Times = dict[str, float]
"""Stage -> milliseconds; "total" is the wall time of `flyc.compile`, "pass:NAME" that of one pass."""


class BenchmarkError(Exception):
    """Something the benchmark needs is missing; the text says what, and what to do."""


# One measurement, in a process of its own.


def load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.exists():
        raise BenchmarkError(f"{file.relative_to(ROOT)} does not exist")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def host_array(*shape: int, column_major: bool = False, half: bool = False) -> Any:
    import numpy

    return numpy.zeros(shape, numpy.float16 if half else numpy.float32, order="F" if column_major else "C")


def case(kernel: str, source: str) -> tuple[Any, tuple[Any, ...]]:
    """The jit function and its arguments, from `examples/` or from the source the peer compiles."""
    if source == "peer" or kernel not in EXAMPLES:
        return load(PEER_SOURCE / "kernels.py").cases(host_array)[kernel]
    return load(ROOT / "examples" / f"{kernel}.py").compile_args()


def stage_times(reported: Mapping[str, Any]) -> Times:
    """The compiler's own account in milliseconds: a time for each of STAGES, "pass:NAME", and what else it reports.

    A stage may come as one number, as a mapping of its parts, or as keys such as `passes/NAME` or `llvm.emit`.
    """
    times: Times = {}
    sums: Times = {}

    def add(key: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for name, part in value.items():
                add(f"{key}/{name}", part)
            return
        head, *rest = re.split("[/:.]", key, maxsplit=1)
        head = "passes" if head == "pass" else head
        milliseconds = float(value) * 1e3
        if not rest:
            times[head] = milliseconds
            return
        sums[head] = sums.get(head, 0.0) + milliseconds
        times[f"pass:{rest[0]}" if head == "passes" else key] = milliseconds

    for key, value in reported.items():
        add(key, value)
    return {**sums, **times}


def measure(kernel: str, warm_up: str, source: str, target: str) -> dict[str, Any]:
    """Compiles `warm_up`, then times `kernel`. Both are loaded first, as the peer's: imports are counted apart."""
    import flydsl.compiler as flyc

    before, its_arguments = case(warm_up, source)
    function, arguments = case(kernel, source)
    flyc.compile(before, *its_arguments, target=target)
    with tracing_clock() as clock:
        begin = time.perf_counter()
        compiled = flyc.compile(function, *arguments, target=target)
        total = (time.perf_counter() - begin) * 1e3
    metadata = getattr(getattr(compiled, "artifact", None), "metadata", None)
    reported = metadata.get("times", {}) if isinstance(metadata, Mapping) else {}
    times = {**stage_times(reported), "total": total}
    tracing = clock[0] * 1e6 - times.get("rewrite", 0.0) * 1e3
    ops = count_ops(compiled.artifact.source_ir)
    return {**times, "traced_ops": ops, "trace_us_per_op": tracing / ops}


@contextmanager
def tracing_clock() -> Iterator[list[float]]:
    """Processor time of tracing, in seconds: what it costs, however busy the machine is."""
    from flydsl.compiler.frontend import trace_call

    trace, spent = trace_call.trace_host, [0.0]

    def timed(*args: Any, **options: Any) -> Any:
        begin = time.thread_time()
        try:
            return trace(*args, **options)
        finally:
            spent[0] += time.thread_time() - begin

    trace_call.trace_host = timed
    try:
        yield spent
    finally:
        trace_call.trace_host = trace


_OP = re.compile(r"^\s*(?:%[^=]*= )?\"?[a-z_]+\.\w", re.MULTILINE)


def count_ops(ir: str) -> int:
    """Ops of a module, from its text: one begins a line, after the values it gives."""
    return len(_OP.findall(ir))


# The parent: starts the processes and gathers what they say.


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(command: Sequence[str | Path], environment: Mapping[str, str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=dict(environment), stdin=subprocess.DEVNULL)
    if done.returncode:
        raise BenchmarkError(f"{' '.join(map(str, command))} failed:\n{done.stderr.strip()[-4000:]}")
    return done.stdout


def clean_environment() -> dict[str, str]:
    """The caller's environment without anything that steers either compiler."""
    steering = re.compile("FLYDSL_.*|PYTHON.*|ARCH|COMPILE_ONLY|ROCM_PATH")
    return {name: value for name, value in os.environ.items() if not steering.fullmatch(name)}


class Subject:
    """One of the two compilers: how to time a kernel and an import with it."""

    def __init__(self, name: str, python: Path, environment: Mapping[str, str], command: Callable[[str], list[str]]):
        self.name = name
        self.python = python
        self.environment = {**clean_environment(), **environment}
        self.command = command
        """Kernel -> arguments of the interpreter that times it."""

    def compile_times(self, kernel: str) -> Times:
        with tempfile.TemporaryDirectory(prefix="flydsl-bench-") as cache:
            environment = {**self.environment, "FLYDSL_RUNTIME_CACHE_DIR": cache}
            lines = run([self.python, *self.command(kernel)], environment).strip().splitlines()
        answer = json.loads(lines[-1])
        return {"total": answer["total_ms"]} if "total_ms" in answer else answer

    def wall_ms(self, statement: str) -> float:
        begin = time.perf_counter()
        run([self.python, "-c", statement], self.environment)
        return (time.perf_counter() - begin) * 1e3

    def import_ms(self, repeat: int) -> float:
        """Wall time of a process that imports the compiler, less that of one that does nothing."""
        self.wall_ms("import flydsl.compiler")  # Writes the byte code.
        loaded = statistics.median(self.wall_ms("import flydsl.compiler") for _ in range(repeat))
        return loaded - statistics.median(self.wall_ms("pass") for _ in range(repeat))

    def import_after_torch_ms(self, repeat: int) -> float:
        """The same where the process has loaded torch already."""
        probe = "import torch, time; t = time.perf_counter(); import flydsl.compiler; print(time.perf_counter() - t)"
        outputs = [run([self.python, "-W", "ignore", "-c", probe], self.environment) for _ in range(repeat)]
        return statistics.median(float(text) * 1e3 for text in outputs)


def other_than(kernel: str, warm_up: str) -> str:
    """The kernel to compile before `kernel`: never itself, which would be found in memory."""
    return WARM_UP if kernel == warm_up else warm_up


def our_python() -> Path:
    """This interpreter, or that of `.venv` where this one lacks the dependencies."""
    if importlib.util.find_spec("llvmlite") and importlib.util.find_spec("xdsl"):
        return Path(sys.executable)
    python = ROOT / ".venv" / "bin" / "python"
    if not python.exists():
        raise BenchmarkError("xdsl and llvmlite are not installed here; run scripts/demo once, it creates .venv")
    return python


def ours(arguments: argparse.Namespace) -> Subject:
    def command(kernel: str) -> list[str]:
        options = ["--source", arguments.source, "--target", arguments.target]
        options += ["--processor-time"] * arguments.processor_time
        warm_up = other_than(kernel, arguments.warm_up)
        return [str(Path(__file__).resolve()), "--measure", kernel, "--warm-up", warm_up, *options]

    return Subject("ours", our_python(), {"PYTHONPATH": str(ROOT / "src")}, command)


def find_lld() -> Path:
    """An ld.lld that is new enough for the code objects of today."""
    versioned = (f"ld.lld-{number}" for number in range(30, OLDEST_LLD - 1, -1))
    for name in filter(None, (os.environ.get("FLYDSL_COMPILE_LLD"), "ld.lld", *versioned)):
        path = shutil.which(name)
        if path is None:
            continue
        version = re.search(r"LLD (\d+)", subprocess.run([path, "--version"], capture_output=True, text=True).stdout)
        if version and int(version[1]) >= OLDEST_LLD:
            return Path(path)
    raise BenchmarkError(
        f"--peer needs an ld.lld of version {OLDEST_LLD} or newer on PATH; on Debian: apt-get install lld-22"
    )


def peer(arguments: argparse.Namespace) -> Subject:
    """Sets FlyDSL up in `.bench-peer/`, once."""
    rocm = PEER_HOME / "rocm"
    link = rocm / "llvm" / "bin" / "ld.lld"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(find_lld())

    python = arguments.peer_python
    if python is None:
        python = PEER_HOME / "venv" / "bin" / "python"
        stamp = PEER_HOME / "venv" / ".installed"
        wanted = " ".join(PEER_REQUIREMENTS)
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
            say(f"installing {wanted} into {PEER_HOME.relative_to(ROOT)}/venv ...")
            venv.create(PEER_HOME / "venv", with_pip=True, clear=True)
            run([python, "-m", "pip", "install", "--quiet", *PEER_REQUIREMENTS], clean_environment())
            stamp.write_text(wanted, encoding="utf-8")
    environment = {"COMPILE_ONLY": "1", "ARCH": PEER_ARCH, "ROCM_PATH": str(rocm)}

    def command(kernel: str) -> list[str]:
        clock = ["--processor-time"] * arguments.processor_time
        return [str(PEER_SOURCE / "measure.py"), kernel, other_than(kernel, arguments.warm_up), *clock]

    subject = Subject("peer", python, environment, command)
    version = "import importlib.metadata as m; print(m.version('flydsl'))"
    subject.name = f"FlyDSL {run([python, '-c', version], subject.environment).strip()}"
    return subject


def typical_times(samples: Iterable[Times], least: bool) -> Times:
    """For each key the median of all samples, or the least of them."""
    samples = list(samples)
    keys = dict.fromkeys(key for sample in samples for key in sample)
    choose = min if least else statistics.median
    return {key: choose([sample.get(key, 0.0) for sample in samples]) for key in keys}


def collect(
    subjects: Sequence[Subject], kernels: Sequence[str], repeat: int, least: bool
) -> dict[str, dict[str, Times]]:
    """Subject -> kernel -> typical times. The subjects take turns, so that a busy moment hits both."""
    samples: dict[str, dict[str, list[Times]]] = {s.name: {k: [] for k in kernels} for s in subjects}
    for turn in range(repeat):
        for kernel in kernels:
            say(f"round {turn + 1} of {repeat}: {kernel}")
            for subject in subjects:
                samples[subject.name][kernel].append(subject.compile_times(kernel))
    return {name: {k: typical_times(v, least) for k, v in by_kernel.items()} for name, by_kernel in samples.items()}


# The report.


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines: list[str] = []
    for row in (header, ["-" * width for width in widths], *rows):
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join([first.strip().ljust(widths[0]), *others]))
    return "\n".join(lines)


def number(times: Times, key: str) -> str:
    return f"{times[key]:.1f}" if key in times else "-"


def print_report(report: Mapping[str, Any], with_passes: bool) -> None:
    mine, theirs = report["ours"], report.get("peer")
    header = ["kernel", *(f"{stage} ms" for stage in STAGES), "total ms", "trace us/op"]
    if theirs:
        header += [f"{theirs['name']} ms", "ratio"]
    rows: list[list[str]] = []
    for kernel, times in mine["compile"].items():
        row = [kernel, *(number(times, key) for key in (*STAGES, "total", "trace_us_per_op"))]
        if theirs:
            other = theirs["compile"][kernel]["total"]
            row += [f"{other:.1f}", f"{times['total'] / other:.2f}"]
        rows.append(row)
    kind = "least processor time" if report["processor_time"] else "median"
    print(f"Cold compile for {report['target']}, {kind} of {report['repeat']} processes\n")
    print(table(header, rows))
    each = [(times["traced_ops"], times["trace_us_per_op"]) for times in mine["compile"].values()]
    average = sum(ops * cost for ops, cost in each) / sum(ops for ops, _ in each)
    print(f"\ntracing: {average:.1f} us of processor time per emitted op on average (budget {TRACE_BUDGET_US})")

    if with_passes:
        passes = dict.fromkeys(k for times in mine["compile"].values() for k in times if k.startswith("pass:"))
        rest = dict.fromkeys(
            k
            for times in mine["compile"].values()
            for k in times
            if k not in (*STAGES, "total", "traced_ops", "trace_us_per_op") and k not in passes
        )
        rows = [[k.removeprefix("pass:"), *(number(t, k) for t in mine["compile"].values())] for k in (*passes, *rest)]
        print("\nBy pass, in ms\n")
        print(table(["pass", *mine["compile"]], rows) if rows else "(the compiler reports no times by pass)")

    print(f"\nimport flydsl.compiler: {mine['import_ms']:.0f} ms")
    if theirs:
        ratio = mine["import_ms"] / theirs["import_ms"]
        print(
            f"  {theirs['name']}: {theirs['import_ms']:.0f} ms (ratio {ratio:.2f}); "
            f"{theirs['import_after_torch_ms']:.0f} ms where torch is loaded already"
        )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Times cold compiles of the example kernels, stage by stage.")
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"of {', '.join(KERNELS)}; all if none is given")
    parser.add_argument("--repeat", type=int, default=5, help="processes per kernel (default: 5)")
    parser.add_argument("--target", default=f"rocm:{PEER_ARCH}", help="target of ours (default: rocm:gfx942)")
    parser.add_argument("--passes", action="store_true", help="also print the time of every pass")
    parser.add_argument("--peer", action="store_true", help="also time FlyDSL, and print ratios")
    parser.add_argument(
        "--peer-python", type=Path, metavar="FILE", help="interpreter of a ready environment with FlyDSL"
    )
    parser.add_argument("--peer-only", action="store_true", help="time only FlyDSL")
    parser.add_argument(
        "--source",
        choices=("examples", "peer"),
        default="examples",
        help="where ours come from: examples/, or benchmarks/peer/kernels.py, the source that FlyDSL compiles",
    )
    parser.add_argument("--warm-up", default=WARM_UP, choices=(WARM_UP, *KERNELS), help="the kernel compiled before")
    parser.add_argument(
        "--max-ratio", type=float, metavar="X", help="fail if a kernel takes more than X of FlyDSL's time"
    )
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="processor time instead of that on the wall, and the least of the processes instead of their median",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything to FILE")
    parser.add_argument("--measure", metavar="KERNEL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for kernel in arguments.kernels:
        if kernel not in KERNELS:
            parser.error(f"unknown kernel '{kernel}'; expected one of {', '.join(KERNELS)}")
    if arguments.repeat < 1:
        parser.error("--repeat must be at least 1")
    if arguments.peer and arguments.target != f"rocm:{PEER_ARCH}":
        parser.error(f"--peer compares for rocm:{PEER_ARCH} only")
    return arguments


def print_peer_only(result: Mapping[str, Any]) -> None:
    rows = [[kernel, number(times, "total")] for kernel, times in result["compile"].items()]
    print(table(["kernel", f"{result['name']} ms"], rows))
    print(
        f"\nimport flydsl.compiler: {result['import_ms']:.0f} ms; {result['import_after_torch_ms']:.0f} ms after torch"
    )


def main() -> int:
    arguments = parse_arguments()
    if arguments.measure:
        if arguments.processor_time:
            time.perf_counter = time.process_time  # the compiler's own account of its stages, too
        print(json.dumps(measure(arguments.measure, arguments.warm_up, arguments.source, arguments.target)))
        return 0

    kernels = arguments.kernels or KERNELS
    me = None if arguments.peer_only else ours(arguments)
    other = peer(arguments) if arguments.peer or arguments.peer_only else None
    subjects = [s for s in (me, other) if s is not None]
    compiled = collect(subjects, kernels, arguments.repeat, arguments.processor_time)
    report: dict[str, Any] = {
        "target": arguments.target,
        "repeat": arguments.repeat,
        "processor_time": arguments.processor_time,
        "warm_up": arguments.warm_up,
        "source": arguments.source,
        "machine": {"system": platform.platform(), "python": platform.python_version(), "cores": os.cpu_count()},
    }
    say("import times")
    if me:
        report["ours"] = {"compile": compiled[me.name], "import_ms": me.import_ms(arguments.repeat)}
    if other:
        report["peer"] = {
            "name": other.name,
            "compile": compiled[other.name],
            "import_ms": other.import_ms(arguments.repeat),
            "import_after_torch_ms": other.import_after_torch_ms(arguments.repeat),
        }
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if not me:
        print_peer_only(report["peer"])
        return 0
    print_report(report, arguments.passes)
    if other and arguments.max_ratio is not None:
        theirs = report["peer"]["compile"]
        slow = [
            k for k, t in report["ours"]["compile"].items() if t["total"] > arguments.max_ratio * theirs[k]["total"]
        ]
        if slow:
            print(f"\nover {arguments.max_ratio} of FlyDSL's time: {', '.join(slow)}")
            return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchmarkError as error:
        sys.exit(f"error: {error}")
