"""`python -m tests.fuzz SECONDS [SUBJECT ...]`, or `--subject NAME --seed N` for one batch here."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter

LIMIT = 240
"""Seconds for a batch: more is a hang."""


def batch(name: str, seed: int) -> int:
    """Run the inputs of a seed; each finding is a line of JSON."""
    from .subjects import SUBJECTS

    subject, count = SUBJECTS[name]
    for number in range(count):
        # Known before it runs, in case it ends the process.
        print(json.dumps({"input": number}), flush=True)
        try:
            wrong = subject(random.Random(f"{name} {seed} {number}"))
        except Exception as error:  # noqa: BLE001 - what a subject does not expect is what is looked for
            import traceback

            wrong = f"{type(error).__name__}: {error}\n{''.join(traceback.format_tb(error.__traceback__)[-4:])}"
        if wrong is not None:
            print(json.dumps({"input": number, "wrong": wrong}), flush=True)
    print(json.dumps({"done": count}), flush=True)
    return 0


def worker(name: str, seed: int) -> tuple[int, list[str]]:
    """Inputs a batch got through, and what it found."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz", "--subject", name, "--seed", str(seed)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        out, ending = done.stdout, f"ended by signal {-done.returncode}" if done.returncode < 0 else ""
        if done.returncode > 0:
            ending = f"ended with {done.returncode}: {done.stderr[-800:]}"
    except subprocess.TimeoutExpired as error:
        out = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        ending = f"still running after {LIMIT} s"
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    found = [f"{name} seed {seed} input {row['input']}: {row['wrong']}" for row in rows if "wrong" in row]
    last = max((row["input"] for row in rows if "input" in row), default=-1)
    if ending:
        found.append(f"{name} seed {seed} input {last}: {ending}")
    return last + 1, found


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description="Fuzz the package for some seconds.")
    parser.add_argument("seconds", type=float, nargs="?", default=60.0)
    parser.add_argument("subjects", nargs="*")
    parser.add_argument("--subject", help="run one batch of this subject here")
    parser.add_argument("--seed", type=int, help="of that batch; without it, the first of a run")
    options = parser.parse_args()
    if options.subject:
        return batch(options.subject, options.seed or 0)
    from .subjects import SUBJECTS

    unknown = set(options.subjects) - SUBJECTS.keys()
    if unknown:
        parser.error(f"no subject {', '.join(sorted(unknown))}; there are {', '.join(SUBJECTS)}")
    names = options.subjects or list(SUBJECTS)
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(3), "little")
    end = time.monotonic() + options.seconds
    counts: Counter[str] = Counter()
    findings: list[str] = []
    while time.monotonic() < end or not counts:
        for name in names:
            count, found = worker(name, seed)
            counts[name] += count
            findings += found
            for each in found:
                print(each, flush=True)
            if time.monotonic() >= end and counts.keys() >= set(names):
                break
        seed += 1
    print("inputs: " + ", ".join(f"{name} {counts[name]}" for name in names))
    print(f"findings: {len(findings)}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
