"""Building everything a manifest asks for, in parallel worker processes, into a folder that serves as a cache.

Workers are spawned, never forked. One that LLVM or the system ended costs the build it was at and is replaced; one that
has made many is replaced as well, because LLVM keeps some memory of each.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ... import __version__, config
from ...errors import DSLCompileError, DSLValueError
from ...llvm.worker_process import WorkerDied, WorkerProcess, WorkerTimeout
from ...trusted_files import Trust
from ..build.artifact import atomic_write
from .manifest import Build
from .records import NewRecord

RECYCLE = 100
"""Builds a worker does."""
INDEX = "index.json"


@dataclass(slots=True)
class Built:
    """What became of one build."""

    build: Build
    key: str = ""
    size: int = 0
    """Bytes of its entry."""
    seconds: float = 0.0
    known: bool = False
    """Whether the folder had it already."""
    kernels: Sequence[str] = ()
    error: str = ""
    """Why there is no code; empty: there is."""
    same_as: Build | None = None
    """An earlier build with the same code."""


def run_builds(
    builds: Sequence[Build],
    out: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    check: bool = False,
    done: Callable[[Built], None] = lambda _: None,
) -> list[Built]:
    """Compile every build into the folder (or only `check` that it is there); `done` is called after each.

    Failures are results: nothing a build does ends the others.
    """
    folder = Path(out).resolve()
    if not check:
        folder.mkdir(0o755, parents=True, exist_ok=True)
        _check_folder(folder)
    env = {
        "FLYDSL_RUNTIME_CACHE_DIR": str(folder),
        "FLYDSL_RUNTIME_ENABLE_CACHE": "1",
        "FLYDSL_RUNTIME_CACHE_READONLY": "1" if check else "0",
        "FLYDSL_RUNTIME_CACHE_MAX_BYTES": "0",
        "FLYDSL_RUNTIME_CACHE_PATH": "",
        "FLYDSL_RUNTIME_CACHE_STORE": "",
        "FLYDSL_RUNTIME_RUN_ONLY": "0",
        "FLYDSL_COMPILE_ONLY": "1",
    }
    results: list[Built | None] = [None] * len(builds)
    pending: queue.SimpleQueue[int] = queue.SimpleQueue()
    for i in range(len(builds)):
        pending.put(i)
    guard = threading.Lock()
    stop = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        worker: WorkerProcess | None = None
        try:
            while not stop.is_set():
                try:
                    i = pending.get_nowait()
                except queue.Empty:
                    return
                if worker is None or worker.served >= RECYCLE:
                    if worker is not None:
                        worker.close()
                    worker = WorkerProcess("flydsl.compiler.ship.aot_worker", env)
                result, alive = _ask(worker, builds[i], check)
                worker = worker if alive else None
                with guard:
                    results[i] = result
                    done(result)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            failures.append(error)
            stop.set()
        finally:
            if worker is not None:
                worker.close()

    count = max(1, min(config.compile.jobs if jobs is None else jobs, len(builds)))
    threads = [threading.Thread(target=work, name=f"flydsl-aot-{i}") for i in range(count)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        stop.set()  # Control-C: what is being compiled is finished, nothing more is started
        for thread in threads:
            thread.join()
        raise
    if failures:
        raise failures[0]
    if not check:
        _share(folder)
    finished = [result for result in results if result is not None]
    _mark_same(finished)
    return finished


def _check_folder(folder: Path) -> None:
    """Refuse a folder whose entries nobody would use, before anything is compiled."""
    from ..cache.roots import UnusableError, check_root

    try:
        check_root(folder, Trust.of(config.runtime.cache_trusted_owners), readonly=False)
    except UnusableError as error:
        raise DSLValueError(f"{folder} cannot hold compiled code: {error}") from None


def _share(folder: Path) -> None:
    """Let others read what was built: folders of a cache are private to its user, those of a build are not."""
    umask = os.umask(0)
    os.umask(umask)
    for path in folder.glob("v*"):
        for each in (path, *(p for p in path.iterdir() if p.is_dir())):
            each.chmod(0o755 & ~umask)  # never writable for others: nobody would use what lies there


def sign_entries(results: Sequence[Built], out: str | os.PathLike[str], key: str | os.PathLike[str]) -> int:
    """Sign the entries of these builds with a private key; how many there are."""
    from ..build import signing
    from ..cache import DiskCache, Settings

    private = signing.read_private_key(key)
    cache = DiskCache(Settings(Path(out).resolve(), trusted_owners=config.runtime.cache_trusted_owners))
    names = {result.key for result in results if not result.error}
    for name in sorted(names):
        path = cache.path_of(name)
        if path is None:
            raise DSLValueError(f"{out} cannot be written to, so its entries are not signed")
        atomic_write(path, signing.sign(cache.read_bytes(path)[0], private))
    return len(names)


def _ask(worker: WorkerProcess, build: Build, check: bool) -> tuple[Built, bool]:
    """The result of one build, and whether the worker is still there."""
    request = {"do": "check" if check else "build", "build": build.as_dict()}
    timeout = config.compile.llvm_timeout
    try:
        reply, _ = worker.ask(request, timeout=timeout)
    except WorkerDied as death:
        said = "".join(f"\n  | {line}" for line in death.output.splitlines()[-8:])
        return Built(build, error=f"the process that compiled it {death.how()}{said}"), False
    except WorkerTimeout:
        limit = f"{timeout} s; FLYDSL_COMPILE_LLVM_TIMEOUT sets the limit"
        return Built(build, error=f"it did not finish within {limit}"), False
    except DSLCompileError as error:
        return Built(build, error=str(error)), False
    if "error" in reply:
        return Built(build, error=f"{reply['error']}: {reply['text']}" if reply["error"] else reply["text"]), True
    if check:
        error = "" if reply["there"] else f"no valid entry {reply['key'][:16]}"
        return Built(build, key=reply["key"], known=reply["there"], error=error), True
    return Built(build, reply["key"], reply["size"], reply["seconds"], reply["known"], reply["kernels"]), True


def _mark_same(results: Sequence[Built]) -> None:
    first: dict[str, Built] = {}
    for result in results:
        if not result.error:
            other = first.setdefault(result.key, result)
            if other is not result:
                result.same_as = other.build


def write_index(results: Sequence[Built], out: str | os.PathLike[str]) -> Path:
    """`index.json`: what is in the folder, by key, with everything that leads to it."""
    entries: NewRecord = {}
    for result in results:
        if result.error:
            continue
        entry = entries.setdefault(
            result.key, {"key": result.key, "size": result.size, "kernels": list(result.kernels), "builds": []}
        )
        build = result.build.as_dict()
        # Where the file of a function lies says nothing elsewhere.
        build["function"] = Path(build["function"]).name if ".py:" in build["function"] else build["function"]
        entry["builds"].append(build)
    path = Path(out, INDEX)
    text = json.dumps({"version": 1, "product_version": __version__, "entries": list(entries.values())}, indent=1)
    atomic_write(path, text.encode())
    return path
