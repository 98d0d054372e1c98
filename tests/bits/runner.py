"""Programs in child processes: one that faults or hangs is a row of the result, and the others run all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import arithmetic, copies, matrices, warps
from .program import Bits, Call, Program, digest, run

ROOT = Path(__file__).resolve().parents[2]


class Result(NamedTuple):
    """What became of a program: the bits of its outputs, or why there are none."""

    digest: int
    outputs: tuple[Bits, ...]
    error: str | None = None


def programs() -> Iterator[Program]:
    for module in (matrices, arithmetic, warps, copies):
        yield from module.programs()


def environment(device: str) -> dict[str, str]:
    """Variables of a process that runs programs."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    found = {**os.environ, "FLYDSL_COMPILE_BACKEND": device, "PYTHONPATH": path}
    found.pop("FLYDSL_COMPILE_ARCH", None)
    if device == "cpu":
        found["FLYDSL_COMPILE_ARCH"] = "sm_90a"
    return found


def attempt(program: Program, device: str) -> tuple[Call | None, Result]:
    """One program here and now."""
    try:
        call = program.make()
        return call, Result(digest(call), tuple(run(call, device)))
    except Exception as error:  # noqa: BLE001
        return None, Result(0, (), f"{type(error).__name__}: {error}"[:400])


def _save(path: Path, result: Result) -> None:
    head = json.dumps({"digest": result.digest, "error": result.error})
    part = path.with_suffix(".part.npz")
    arrays: dict[str, Any] = {f"o{i}": x for i, x in enumerate(result.outputs)}
    np.savez(part, head=np.array(head), **arrays)
    part.rename(path)


def _load(path: Path) -> Result:
    with np.load(path) as file:
        head = json.loads(str(file["head"]))
        return Result(head["digest"], tuple(file[f"o{i}"] for i in range(len(file.files) - 1)), head["error"])


def work(device: str, folder: Path, numbers: Sequence[int]) -> None:
    """A child: programs by their numbers, each into a file of its own; after an error of the GPU no other."""
    every = list(programs())
    for number in numbers:
        (folder / f"{number}.started").touch()
        _, result = attempt(every[number], device)
        _save(folder / f"{number}.npz", result)
        if device == "cuda" and result.error is not None and "cuda" in result.error.lower():
            return


def _share(device: str, folder: Path, numbers: Sequence[int], limit: float) -> None:
    """Children one after the other until all of these are done; the time limit is that of one program."""
    left = list(numbers)
    while left:
        command = [sys.executable, "-m", "tests.bits", "work", device, str(folder), *map(str, left)]
        with tempfile.TemporaryFile() as errors:
            child = subprocess.Popen(command, env=environment(device), stderr=errors, cwd=ROOT)
            try:
                late = _watch(child, folder, left, limit)
            finally:
                child.kill()
                child.wait()
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()[-300:]
        before = len(left)
        left = [n for n in left if not (folder / f"{n}.npz").exists()]
        started = [n for n in left if (folder / f"{n}.started").exists()]
        if started:
            reason = f"did not end within {limit:.0f} s" if late else f"the process ended: {said}"
            _save(folder / f"{started[0]}.npz", Result(0, (), reason))
            left.remove(started[0])
        elif len(left) == before:
            raise RuntimeError(f"a child could not start: {said}")


def _watch(child: subprocess.Popen[bytes], folder: Path, numbers: Sequence[int], limit: float) -> bool:
    """Wait for a child as long as it makes progress; whether it did not."""
    done, since = -1, time.monotonic()
    while True:
        try:
            child.wait(timeout=0.5)
            return False
        except subprocess.TimeoutExpired:
            now = sum((folder / f"{n}.npz").exists() for n in numbers)
            if now != done:
                done, since = now, time.monotonic()
            # The first has the start of the process in front of it.
            if time.monotonic() - since > limit + (60 if done <= 0 else 0):
                return True


def results(device: str, chosen: Iterable[tuple[int, Program]], workers: int, limit: float) -> Mapping[str, Result]:
    """All programs, shared out among as many processes."""
    numbered = list(chosen)
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(workers) as pool:
        folder = Path(name)
        shares = [[n for n, _ in numbered[i::workers]] for i in range(workers)]
        for future in [pool.submit(_share, device, folder, share, limit) for share in shares if share]:
            future.result()
        return {program.name: _load(folder / f"{n}.npz") for n, program in numbered}


def write(path: Path, found: Mapping[str, Result], about: Mapping[str, str]) -> None:
    """Results as one file."""
    index = [{"name": name, "digest": r.digest, "error": r.error, "count": len(r.outputs)} for name, r in found.items()]
    arrays: dict[str, Any] = {f"{i}_{j}": x for i, r in enumerate(found.values()) for j, x in enumerate(r.outputs)}
    head = np.frombuffer(json.dumps({"about": dict(about), "programs": index}).encode(), np.uint8)
    np.savez_compressed(path, head=head, **arrays)


def read(path: Path) -> tuple[dict[str, str], dict[str, Result]]:
    """A file of results: what it says of itself, and the results by their names."""
    with np.load(path) as file:
        head = json.loads(file["head"].tobytes().decode())
        found = {
            entry["name"]: Result(
                entry["digest"], tuple(file[f"{i}_{j}"] for j in range(entry["count"])), entry["error"]
            )
            for i, entry in enumerate(head["programs"])
        }
    return head["about"], found


__all__ = ["Result", "attempt", "environment", "programs", "read", "results", "work", "write"]
