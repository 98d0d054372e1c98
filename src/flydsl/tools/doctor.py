"""`fly doctor`: what this machine has, what works, what is missing and how to get it.

A process can use one stack only, and a broken driver may crash, so each stack is examined in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from flydsl import config
from flydsl.tools.console import size_text

PACKAGES = ("xdsl", "llvmlite", "numpy", "torch", "cupy", "rich")
TOOLS = {
    "ld.lld": "links AMD code objects; a linker of our own does without. apt-get install lld",
    "opt": "custom IR pipelines. apt-get install llvm-22",
    "llc": "external code generation. apt-get install llvm-22",
    "fly-llc": "machine passes of your own. fly build-llc",
    "llvm-mc": "AMD kernels with inline assembly. apt-get install llvm-22",
    "ptxas": "cubin instead of PTX, which the driver compiles. Part of the CUDA toolkit; set FLYDSL_COMPILE_PTXAS",
    "llvm-objdump": "disassembly. apt-get install llvm-22",
}
"""Optional tools: what each is for and where to get it."""

_NODES = {
    "rocm": ("/dev/kfd", "the amdgpu kernel driver; in a container: --device=/dev/kfd --device=/dev/dri"),
    "cuda": ("/dev/nvidiactl", "the NVIDIA kernel driver; in a container: --gpus=all"),
}
_LIBRARIES = {
    "rocm": "HIP: ROCm's packages, apt-get install libamdhip64-5 (Debian), or FLYDSL_HIP_LIBRARY=/path/libamdhip64.so",
    "cuda": "libcuda.so.1: part of the NVIDIA driver, or FLYDSL_CUDA_LIBRARY=/path/libcuda.so.1",
}


@dataclass
class StackReport:
    """What one stack's own process found."""

    name: str
    library: str = ""
    driver_version: int | None = None
    target: str = ""
    devices: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    smoke: str = ""
    """`ok`, or why the kernel did not run."""
    error: str = ""

    @property
    def usable(self) -> bool:
        """Whether a kernel ran."""
        return self.smoke == "ok"


# --- one stack, in its own process ----------------------------------------------------------------------------------


def probe(name: str) -> StackReport:
    """Examine the stack this process was started for."""
    from flydsl.compiler.backends import current_target
    from flydsl.errors import FlyDSLError, NotSupportedError
    from flydsl.runtime import get_device_runtime

    report = StackReport(name)
    try:
        runtime = get_device_runtime()
        count = runtime.device_count()
        try:
            report.library, report.driver_version = runtime.library_path(), runtime.driver_version()
        except NotSupportedError:
            pass
        for ordinal in range(count):
            device = runtime.device(ordinal)
            free, total = runtime.memory_info(ordinal)
            report.devices.append(
                {"ordinal": ordinal, "name": device.name, "arch": device.arch, "free": free, "total": total}
            )
        if not count:
            report.error = "the library loads, but there is no device"
            return report
        report.target = current_target().key()
    except (FlyDSLError, ImportError, ValueError, NotImplementedError) as error:
        report.error = f"{type(error).__name__}: {error}"
        return report
    from flydsl.tools import smoke

    try:
        smoke.run(runtime)
        report.smoke = "ok"
    except Exception as error:  # noqa: BLE001 - whatever fails is what the user has to see
        report.smoke = f"{type(error).__name__}: {error}"
    return report


def _start(name: str, active: bool) -> subprocess.Popen[str]:
    env = {**os.environ, "FLYDSL_COMPILE_BACKEND": name, "FLYDSL_IGNORE_WARNINGS": "ExperimentalBackendWarning"}
    # These settings are about the active stack; the others are looked at as they would be by themselves.
    for variable in () if active else ("FLYDSL_RUNTIME_KIND", "FLYDSL_COMPILE_ARCH", "FLYDSL_GPU_ARCH", "ARCH"):
        env.pop(variable, None)
    for variable in ("FLYDSL_COMPILE_ONLY", "COMPILE_ONLY", "FLYDSL_RUNTIME_RUN_ONLY"):
        env.pop(variable, None)
    env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-m", "flydsl.tools.doctor", "--probe", name]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def examine(names: Iterable[str], active: str = "", timeout: float = 120) -> list[StackReport]:
    """Reports of several stacks, each made in a process of its own, all at once."""
    started = [(name, _start(name, name == active)) for name in names]
    reports: list[StackReport] = []
    for name, process in started:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            reports.append(StackReport(name, error=f"no answer within {timeout:.0f} s"))
            continue
        try:
            reports.append(StackReport(**cast("dict[str, Any]", json.loads(out.splitlines()[-1]))))
        except (ValueError, IndexError, TypeError):
            tail = "\n".join(err.strip().splitlines()[-3:])
            reports.append(StackReport(name, error=f"the process ended with status {process.returncode}: {tail}"))
    return reports


# --- the report -----------------------------------------------------------------------------------------------------


def _versions() -> None:
    from importlib.metadata import packages_distributions, version

    from flydsl import __version__

    print(f"flydsl    {__version__}")
    print(f"python    {sys.version.split()[0]}  {sys.executable}")
    distributions = packages_distributions()  # CuPy's, for one, is named after the CUDA it was built for
    for package in PACKAGES:
        found = distributions.get(package)
        print(f"{package:<9} {version(found[0]) if found else 'not installed'}")


def _stack(report: StackReport, origin: str, active: bool) -> None:
    mark = "usable" if report.usable else "not usable"
    print(f"  {report.name:<8} {mark}{', active' if active else ''}  ({origin})")
    if report.library:
        print(f"           library {report.library}, version {report.driver_version}")
    for device in report.devices:
        memory = f"{size_text(device['free'])} free of {size_text(device['total'])}"
        print(f"           device {device['ordinal']}: {device['name']}, {device['arch']}, {memory}")
    if report.target:
        print(f"           target {report.target}")
    if report.smoke:
        print(f"           smoke test: {report.smoke}")
    for line in report.error.splitlines():
        print(f"           {line}")


def _stacks(missing: list[str]) -> bool:
    """Print every stack; whether the active one works."""
    from flydsl.compiler.backends import backend_info, compile_backend_name, list_backends

    problem = ""
    try:
        active = compile_backend_name()
        if active not in list_backends():
            problem = f"Unknown compile backend '{active}'; there are: {', '.join(list_backends())}"
    except ValueError as error:
        active, problem = "", str(error)
    known = backend_info()
    reports = {report.name: report for report in examine((info.name for info in known), active)}
    print(f"\nstacks (active: {active or 'none'})")
    for info in known:
        _stack(reports[info.name], info.origin, info.name == active)
        if not reports[info.name].usable:
            missing.extend(_why_not(info.name, reports[info.name]))
    if problem:
        print(f"  {problem}")
        return False
    return reports[active].usable


def _why_not(name: str, report: StackReport) -> list[str]:
    if name not in _NODES:
        return []
    found: list[str] = []
    node, how = _NODES[name]
    if not os.path.exists(node):
        found.append(f"{name}: no {node}: {how}")
    if "LibraryNotFoundError" in report.error:
        found.append(f"{name}: {_LIBRARIES[name]}")
    return found


def _tools(missing: list[str]) -> None:
    from flydsl.errors import ExternalLLVMError
    from flydsl.llvm import tools
    from flydsl.tools.tool_trials import trial

    print("\ntools (all optional)")
    for name, purpose in TOOLS.items():
        try:
            found = tools.try_find_tool(name)
        except ExternalLLVMError as error:
            print(f"  {name:<13}{error}")
            continue
        print(f"  {name:<13}" + (f"{found.path}  {found.version_text}: {trial(found)}" if found else "not found"))
        if found is None:
            missing.append(f"{name}: {purpose}")


def _cache() -> None:
    from flydsl.compiler import cache

    found = cache.info()
    limit = size_text(found.max_bytes) if found.max_bytes else "no limit"
    used = f"{found.entries} entries, {size_text(found.size)} of {limit}"
    print(f"\ncache     {found.root or 'none'} ({found.mode}), {used}")


def _environment() -> bool:
    """Print what differs from the defaults; whether every value can be used."""
    print("\nenvironment")
    good = True
    rows = [row for row in config.describe() if row[3] != "default"]
    for name, value, default, source in rows:
        alias = "" if source == name else f" (set by {source})"
        print(f"  {name} = {value}  [default: {default}]{alias}")
        good &= not value.startswith("error: ")
    for name in config.unknown_variables():
        print(f"  {name}: unknown, has no effect")
    if not rows and not config.unknown_variables():
        print("  all defaults")
    return good


def run(_: argparse.Namespace | None = None) -> int:
    """Print the report; 0 unless the active stack fails or a setting cannot be used."""
    missing: list[str] = []
    _versions()
    good = _environment()
    if good:
        good = _stacks(missing)
        _cache()
        _tools(missing)
    else:
        print("\nstacks, cache and tools are not examined before these settings are mended")
    if missing:
        print("\nnot here, and how to get it")
        for line in missing:
            print(f"  {line}")
    print("\nthe active stack works" if good else "\nthe active stack does not work")
    return 0 if good else 1


def main(argv: list[str] | None = None) -> int:
    """Entry point of the processes that examine one stack."""
    parser = argparse.ArgumentParser(prog="python -m flydsl.tools.doctor", description=__doc__)
    parser.add_argument("--probe", metavar="STACK", help="examine one stack and print JSON")
    options = parser.parse_args(argv)
    if options.probe is None:
        return run()
    print(json.dumps(vars(probe(options.probe))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
