"""`fly build-llc`: build fly-llc from `tools/fly-llc` with the LLVM of this machine, in one command.

CMake does it where there is one; else a C++ compiler is called directly. What is missing is said before anything runs.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from flydsl.errors import ExternalLLVMError, ToolNotFoundError
from flydsl.llvm import tools
from flydsl.tools.console import failed

PRODUCTS = ("fly-llc", "fly-llc-injector.so")
SOURCES = ("main.cpp", "pipeline.cpp", "points.cpp", "probe.cpp")


def source_folder() -> Path:
    """The sources: package data of an installation, `tools/fly-llc` of a checkout."""
    here = Path(__file__).resolve()
    candidates = (here.with_name("fly-llc"), here.parents[3] / "tools" / "fly-llc")
    for folder in candidates:
        if (folder / "CMakeLists.txt").is_file():
            return folder
    tried = ", ".join(map(str, candidates))
    raise ToolNotFoundError(f"the sources of fly-llc are missing (looked at {tried}): install the package anew")


def find_llvm_config(llvm_dir: str | None) -> Path:
    """`llvm-config` of the LLVM to build with: of a prefix, or of the search path."""
    prefix = llvm_dir or tools.setting("FLYDSL_COMPILE_LLVM_DIR")
    if prefix is not None:
        candidates = [Path(prefix, "bin", "llvm-config")]
    else:
        names = (f"llvm-config-{tools.LLVM_MAJOR}", "llvm-config")
        candidates = [Path(found) for name in names if (found := shutil.which(name))]
        candidates.append(Path(f"/usr/lib/llvm-{tools.LLVM_MAJOR}/bin/llvm-config"))
    tried: list[str] = []
    for path in candidates:
        if not path.is_file():
            tried.append(f"{path}: no such file")
            continue
        version = _ask(path, "--version")
        if version.split(".")[0] == str(tools.LLVM_MAJOR):
            return path
        tried.append(f"{path}: version {version}, but {tools.LLVM_MAJOR} is needed")
    raise ToolNotFoundError(
        f"fly-llc needs LLVM {tools.LLVM_MAJOR} with development files (Debian: apt-get install llvm-"
        f"{tools.LLVM_MAJOR}-dev). Looked for llvm-config:\n  " + "\n  ".join(tried)
    )


def find_compiler() -> Path:
    """A C++17 compiler: $CXX, clang++ or g++."""
    names = (os.environ.get("CXX"), f"clang++-{tools.LLVM_MAJOR}", "clang++", "g++", "c++")
    for name in names:
        if name and (found := shutil.which(name)):
            return Path(found)
    raise ToolNotFoundError(
        "fly-llc needs a C++17 compiler (Debian: apt-get install g++). Looked for $CXX, clang++, g++ and c++"
    )


def _ask(llvm_config: Path, *args: str) -> str:
    done = subprocess.run([str(llvm_config), *args], capture_output=True, text=True, check=False, timeout=60)
    return done.stdout.strip()


def _run(command: list[str], log: list[str]) -> None:
    log.append(shlex.join(command))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        commands = "\n  ".join(log)
        output = (done.stdout + done.stderr).strip()
        raise ExternalLLVMError(f"building fly-llc failed; the commands were\n  {commands}\n{output}")


def _with_cmake(cmake: str, source: Path, build: Path, llvm_config: Path, compiler: Path, log: list[str]) -> Path:
    config = _ask(llvm_config, "--cmakedir")
    if not Path(config, "LLVMConfig.cmake").is_file():
        raise ToolNotFoundError(f"{config} has no LLVMConfig.cmake: install the development files of this LLVM")
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    _run(
        [
            cmake,
            "-S",
            str(source),
            "-B",
            str(build),
            *generator,
            f"-DLLVM_DIR={config}",
            f"-DCMAKE_CXX_COMPILER={compiler}",
        ],
        log,
    )
    _run([cmake, "--build", str(build), "--parallel"], log)
    return build


def plugin_flags(llvm_config: Path) -> list[str]:
    """What the compiler is told to build a plugin for this LLVM."""
    flags = [*_ask(llvm_config, "--cxxflags").split(), "-O2", "-fPIC"]
    return flags if _ask(llvm_config, "--has-rtti") == "YES" else [*flags, "-fno-rtti"]


def _directly(source: Path, build: Path, llvm_config: Path, compiler: Path, log: list[str]) -> Path:
    flags = plugin_flags(llvm_config)
    libraries = _ask(llvm_config, "--libdir")
    if not list(Path(libraries).glob("libLLVM*.so*")):
        raise ToolNotFoundError(f"{libraries} has no shared libLLVM; fly-llc cannot use static archives")
    sources = [str(source / "src" / name) for name in SOURCES]
    link = [f"-L{libraries}", f"-lLLVM-{tools.LLVM_MAJOR}", f"-Wl,-rpath,{libraries}", "-rdynamic"]
    _run([str(compiler), *flags, *sources, "-o", str(build / PRODUCTS[0]), *link], log)
    injector = str(source / "src" / "injector.cpp")
    _run([str(compiler), *flags, "-shared", injector, "-o", str(build / PRODUCTS[1])], log)
    return build


def build(output: Path | None = None, *, llvm_dir: str | None = None, use_cmake: bool = True) -> tuple[Path, list[str]]:
    """Build fly-llc and the injector plugin into a folder; the path of fly-llc and the commands that were run."""
    source = source_folder()
    llvm_config = find_llvm_config(llvm_dir)
    compiler = find_compiler()
    if not Path(_ask(llvm_config, "--includedir"), "llvm", "Passes", "PassBuilder.h").is_file():
        raise ToolNotFoundError(
            f"{llvm_config} has no headers: install the development files (Debian: llvm-{tools.LLVM_MAJOR}-dev)"
        )
    folder = output or tools.fly_llc_folders()[1]
    folder.mkdir(parents=True, exist_ok=True)
    cmake = shutil.which("cmake") if use_cmake else None
    log: list[str] = []
    with tempfile.TemporaryDirectory(prefix="fly-llc-") as scratch:
        make = Path(scratch)
        if cmake is not None:
            _with_cmake(cmake, source, make, llvm_config, compiler, log)
        else:
            _directly(source, make, llvm_config, compiler, log)
        for name in PRODUCTS:
            # Moved into place under its final name, so that a running one is never overwritten.
            shutil.copy2(make / name, folder / f".{name}.new")
            os.replace(folder / f".{name}.new", folder / name)
    return folder / PRODUCTS[0], log


def run(options: argparse.Namespace) -> int:
    """`fly build-llc`."""
    try:
        path, log = build(
            Path(options.output) if options.output else None, llvm_dir=options.llvm_dir, use_cmake=not options.no_cmake
        )
    except ExternalLLVMError as error:
        return failed(f"fly build-llc: {error}", 1)
    if options.verbose:
        print("\n".join(log))
    print(path)
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--llvm-dir", help="prefix of the LLVM to build with; default FLYDSL_COMPILE_LLVM_DIR, then PATH"
    )
    parser.add_argument("-o", "--output", help="folder for the result, default ~/.flydsl/bin, where it is looked for")
    parser.add_argument("--no-cmake", action="store_true", help="call the compiler directly")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the commands")
    parser.set_defaults(run=run)
