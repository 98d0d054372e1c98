"""Tools of LLVM and plugins built from source, for the tests of custom passes.

Building takes seconds, so results are kept in the system's temporary folder under a hash of their sources.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from flydsl.errors import ToolNotFoundError
from flydsl.llvm import tools
from flydsl.tools import build_llc

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "tools" / "fly-llc" / "include"


def _kept(name: str, sources: list[Path], make: Callable[[Path], None]) -> Path:
    """A file made once per content of its sources, by one process at a time."""
    content = hashlib.sha256()
    for source in sources:
        content.update(source.read_bytes())
    folder = Path(tempfile.gettempdir()) / f"flydsl-tests-{os.getuid()}"
    place = folder / content.hexdigest()[:16]
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / name).exists():
            make(place)
    return place / name


def require_tool(name: str) -> tools.Tool:
    """The tool; a missing one skips, a wrong version is an error."""
    try:
        return tools.find_tool(name)
    except ToolNotFoundError:
        pytest.skip(f"{name} of LLVM {tools.LLVM_MAJOR} is not installed")


@pytest.fixture(scope="session")
def opt() -> tools.Tool:
    return require_tool("opt")


@pytest.fixture(scope="session")
def llc() -> tools.Tool:
    return require_tool("llc")


@pytest.fixture(scope="session")
def toolchain() -> tuple[Path, Path]:
    """llvm-config and a C++ compiler."""
    try:
        found = build_llc.find_llvm_config(None), build_llc.find_compiler()
    except ToolNotFoundError as error:
        pytest.skip(str(error).splitlines()[0])
    headers = subprocess.run([str(found[0]), "--includedir"], capture_output=True, text=True, check=True).stdout.strip()
    if not Path(headers, "llvm/Passes/PassBuilder.h").is_file():
        pytest.skip(f"the headers of LLVM {tools.LLVM_MAJOR} are not installed")
    return found


@pytest.fixture(scope="session")
def build_plugin(toolchain: tuple[Path, Path]) -> Callable[[Path], Path]:
    """Builds a plugin from one source file."""
    llvm_config, compiler = toolchain

    def build(source: Path) -> Path:
        def make(folder: Path) -> None:
            flags = [f for f in build_llc.plugin_flags(llvm_config) if f != "-O2"]
            command = [str(compiler), "-shared", *flags, f"-I{INCLUDE}", str(source), "-o"]
            subprocess.run([*command, str(folder / "new.so")], check=True, capture_output=True)
            os.replace(folder / "new.so", folder / f"{source.stem}.so")

        return _kept(f"{source.stem}.so", [source, INCLUDE / "fly_mir.h"], make)

    return build


@pytest.fixture(scope="session")
def ir_plugin(build_plugin: Callable[[Path], Path]) -> Path:
    return build_plugin(ROOT / "examples/custom_passes/ir_plugin.cpp")


@pytest.fixture(scope="session")
def machine_plugin(build_plugin: Callable[[Path], Path]) -> Path:
    return build_plugin(ROOT / "examples/custom_passes/machine_pass.cpp")


@pytest.fixture(scope="session")
def broken_ir(build_plugin: Callable[[Path], Path]) -> Path:
    return build_plugin(ROOT / "tests/e2e/plugins/broken_ir.cpp")


@pytest.fixture(scope="session")
def broken_machine(build_plugin: Callable[[Path], Path]) -> Path:
    return build_plugin(ROOT / "tests/e2e/plugins/broken_machine.cpp")


@pytest.fixture(scope="session")
def wrong_api(build_plugin: Callable[[Path], Path]) -> Path:
    return build_plugin(ROOT / "tests/e2e/plugins/wrong_api.cpp")


@pytest.fixture(scope="session")
def built_fly_llc(toolchain: tuple[Path, Path]) -> Path:
    """fly-llc, built as `fly build-llc` builds it."""
    sources = [*sorted((ROOT / "tools/fly-llc/src").iterdir()), ROOT / "tools/fly-llc/CMakeLists.txt"]

    def make(folder: Path) -> None:
        build_llc.build(folder)

    return _kept("fly-llc", sources, make)


@pytest.fixture
def fly_llc(built_fly_llc: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """fly-llc, found by the compiler."""
    monkeypatch.setenv("FLYDSL_COMPILE_FLY_LLC", str(built_fly_llc))
    return built_fly_llc


@pytest.fixture
def disassemble() -> Callable[[bytes, Path], list[str]]:
    """The instructions of an object, one text each."""
    objdump = require_tool("llvm-objdump")

    def run(obj: bytes, folder: Path) -> list[str]:
        path = folder / "code.o"
        path.write_bytes(obj)
        command = [str(objdump.path), "-d", "--no-show-raw-insn", "--no-leading-addr", str(path)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        lines = (re.split(r"//| # ", line)[0].strip() for line in text.splitlines() if line.startswith(("\t", " ")))
        return [" ".join(line.split()) for line in lines if line]

    return run
