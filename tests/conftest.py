"""What every test shares: a hermetic environment and the rules for skipping device tests."""

import gc
import hashlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from flydsl.llvm import codegen

from .covering import mark_the_rest

# Wall-clock deadlines only measure how busy the machine is.
settings.register_profile("flydsl", deadline=None, print_blob=True)
settings.load_profile("flydsl")

# Who starts the tests in the background of a shell may have them ignore it, and so would the processes that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

DEVICE_NODES = {"rocm": Path("/dev/kfd"), "cuda": Path("/dev/nvidiactl")}
"""Marker -> the file that the kernel driver of such a GPU provides."""

LEAKS = (
    "ARCH",
    "COMPILE_ONLY",
    "FLYDSL_AUTOTUNE",
    "FLYDSL_AUTOTUNE_CONFIG_DIR",
    "FLYDSL_CACHE_REMOTE",
    "FLYDSL_COMPILE_ARCH",
    "FLYDSL_COMPILE_BACKEND",
    "FLYDSL_COMPILE_ONLY",
    "FLYDSL_CPU_CHECK",
    "FLYDSL_CPU_COVERAGE",
    "FLYDSL_CPU_DEBUG",
    "FLYDSL_CPU_PROFILE",
    "FLYDSL_GPU_ARCH",
    "FLYDSL_KTRACE",
    "FLYDSL_KTRACE_ENABLE",
    "FLYDSL_RUNTIME_CACHE_PATH",
    "FLYDSL_RUNTIME_KIND",
    "FLYDSL_RUNTIME_RUN_ONLY",
)
"""Variables of the caller's shell that would change what a test means."""


@pytest.fixture(scope="session", autouse=True)
def hermetic_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Caches and dumps go to a folder of this session (and xdist worker); the IR is verified after every pass."""
    home = tmp_path_factory.mktemp("flydsl")
    with pytest.MonkeyPatch.context() as patch:
        for name in LEAKS:
            patch.delenv(name, raising=False)
        patch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(home / "cache"))
        patch.setenv("FLYDSL_AUTOTUNE_CACHE_DIR", str(home / "autotune"))
        patch.setenv("FLYDSL_DUMP_DIR", str(home / "debug"))
        patch.setenv("FLYDSL_DEBUG_ENABLE_VERIFIER", "1")
        from flydsl.compiler.build import isolation

        # Tests compile thousands of kernels in a process: what they see must not depend on how many came before.
        patch.setattr(isolation, "IN_PROCESS", 1 << 30)
        yield


UNVERIFIED = ("autotune", "dist", "e2e", "isa", "jax", "torch")
"""Folders of tests whose kernels, or their like, are compiled elsewhere too."""


@pytest.fixture(autouse=True)
def verified_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verifying the IR after each pass takes an eighth of the time: it is done where the passes are tested."""
    if request.path.relative_to(Path(__file__).parent).parts[0] in UNVERIFIED:
        monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_VERIFIER", "0")


QUICK = ("kernels", "coop", "unit/cpu", "unit/expr", "unit/extension")
"""Folders of tests whose kernels for the cpu stack are compiled without LLVM's optimisations."""
KEPT = 100
_made: dict[object, codegen.DeviceCode] = {}


@pytest.fixture(scope="module", autouse=True)
def quick_host_code(request: pytest.FixtureRequest) -> Iterator[None]:
    """Two thirds of the time of tests on the cpu stack went to LLVM's optimisations: most are done without them, and
    equal texts once.

    Other tests compile for the cpu stack as users do: examples, ports, torch's operators, bits, debugging, ranks. So
    do these in `scripts/test --all`, at O1.
    """
    place = request.path.relative_to(Path(__file__).parent).as_posix()
    if not place.startswith(tuple(f"{folder}/" for folder in QUICK)):
        yield
        return
    least = 1 if os.environ.get("TEST_ALL") else 0
    compile_device, host = codegen.compile_device, codegen.DeviceTarget.host().triple

    def quick(text: str, target: codegen.DeviceTarget, level: int = 2, **more: Any) -> codegen.DeviceCode:
        if target.triple != host:
            return compile_device(text, target, level, **more)
        level = min(level, least)
        key = hashlib.sha256(text.encode()).digest(), target, level, tuple(sorted(more.items()))
        if key not in _made:
            if len(_made) >= KEPT:
                del _made[next(iter(_made))]
            _made[key] = compile_device(text, target, level, **more)
        return _made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codegen, "compile_device", quick)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In front of the choice by `-m`."""
    mark_the_rest(items, DEVICE_NODES)


# Next to nothing of what is parsed, rewritten and imported to collect tests is garbage.
gc.disable()


def pytest_collection_finish() -> None:
    """What was imported and collected stays: looking through it at every full collection takes seconds in all."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, node in DEVICE_NODES.items():
        if item.get_closest_marker(marker) and not node.exists():
            pytest.skip(f"no {marker} device here ({node} does not exist)")
