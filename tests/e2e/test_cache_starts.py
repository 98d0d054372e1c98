"""Processes start many times each on one cache directory, and many are killed at random moments."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from flydsl.compiler.cache import DiskCache, Settings, verify

KNOWN = ("README", "CACHEDIR.TAG", "toolhash.json", "producthash.json")


@pytest.mark.parametrize(("processes", "rounds"), [(4, 15), pytest.param(8, 30, marks=pytest.mark.slow)])
def test_c30_c31_c34_many_starts_on_one_cache_with_kills(tmp_path: Path, processes: int, rounds: int):
    cache, log = tmp_path / "cache", tmp_path / "log"
    log.touch()
    env = {
        **os.environ,
        "FLYDSL_RUNTIME_CACHE_DIR": str(cache),
        "FLYDSL_COMPILE_BACKEND": "cpu",
        "FLYDSL_CPU_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    script = str(Path(__file__).with_name("cache_starts.py"))
    drivers = [
        subprocess.Popen(
            [sys.executable, script, str(seed + i), str(rounds), str(log)], env=env, stderr=subprocess.PIPE
        )
        for i in range(processes)
    ]
    errors = [driver.communicate()[1].decode() for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0] * processes, "\n".join(errors)

    events = [json.loads(line) for line in log.read_text().splitlines()]
    count = Counter(event["what"] for event in events)
    print(dict(count))
    assert count["WRONG"] == 0 and count["ERROR"] == 0, [e for e in events if e["what"] in ("WRONG", "ERROR")]
    assert count["killed"] + count["ended"] == processes * rounds
    assert all(event["status"] == 0 for event in events if event["what"] == "ended")
    # A process killed late may have finished its work before.
    assert count["right"] >= count["ended"] and count["killed"] >= rounds // 3

    kills = Counter(event["factor"] for event in events if event["what"] == "killed")
    keys = {event["key"]: event["factor"] for event in events if event["what"] == "compiling"}
    started = Counter(event["key"] for event in events if event["what"] == "compiling")
    published = Counter(event["key"] for event in events if event["what"] == "published")
    for key, factor in keys.items():
        # Whoever compiles holds the lock of the key; only a killed compilation is done again.
        assert started[key] <= 1 + kills[factor], (factor, started[key], kills[factor])
        assert published[key] <= 2, (factor, published[key])
    assert verify(cache=DiskCache(Settings(root=cache, explicit=True))) == []
    entries = {path.stem for path in cache.rglob("*.fly")}
    assert entries >= set(published) and len(entries) == len(keys)
    # What a killed writer leaves is never taken for an entry.
    kept = ("locks", "host")
    others = [p.name for p in cache.rglob("*") if p.is_file() and p.suffix != ".fly" and p.parent.name not in kept]
    assert all(name in KNOWN or name.endswith(".tmp") for name in others), others
    for code in (cache / "host").glob("*.o"):
        data = code.read_bytes()
        assert hashlib.sha256(data[32:]).digest() == data[:32], f"{code.name} is torn"
