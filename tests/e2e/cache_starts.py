"""Starts processes that call one kernel, many times over, and kills some: run by `test_cache_starts.py`.

`python cache_starts.py SEED ROUNDS LOG`. A start is a process forked off this one, which has imported what a user's
program imports and called nothing: its kernels, keys and locks are its own. Every fifteenth is a new interpreter.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.cache import default_cache

VARIANTS = 6
ELEMENTS = 259


@flyc.kernel
def variant_kernel(x: fx.Tensor, n: fx.Int32, factor: fx.Constexpr[int]):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        x[i] = x[i] * factor + (factor - 3)


@flyc.jit
def variant(x: fx.Tensor, n: fx.Int32, factor: fx.Constexpr[int]):
    variant_kernel(x, n, factor).launch(grid=fx.ceildiv(n, 64), block=64)


class Log:
    """Lines appended to one file by all processes; each is one write, so none is torn."""

    def __init__(self, path: str):
        self.handle = os.open(path, os.O_WRONLY | os.O_APPEND)

    def __call__(self, what: str, factor: int, **more: object) -> None:
        line = json.dumps({"what": what, "factor": factor, "pid": os.getpid(), **more})
        os.write(self.handle, line.encode() + b"\n")


def call(factor: int, log: Log) -> None:
    """One start: call the kernel, check the result, say what happened."""
    compiled = flyc.JitFunction.compile

    def logged(self, key, *args):
        log("compiling", factor, key=key)
        return compiled(self, key, *args)

    flyc.JitFunction.compile = logged
    publish = type(default_cache()).put

    def published(self, key, *args, **kwargs):
        done = publish(self, key, *args, **kwargs)
        log("published", factor, key=key)
        return done

    type(default_cache()).put = published
    rng = np.random.default_rng()
    x = rng.integers(-1000, 1000, ELEMENTS).astype(np.int32)
    y = x.copy()
    variant(y, ELEMENTS, factor)
    right = bool((y == x * factor + (factor - 3)).all())
    log("right" if right else "WRONG", factor)


def start(factor: int, fresh: bool, log: Log, log_path: str) -> int:
    """The process id of a start."""
    if fresh:
        command = [sys.executable, __file__, "one", str(factor), log_path]
        return subprocess.Popen(command).pid
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        call(factor, log)
        status = 0
    except BaseException as error:
        log("ERROR", factor, text=repr(error))
        raise
    finally:
        os._exit(status)


def main() -> None:
    if sys.argv[1] == "one":
        call(int(sys.argv[2]), Log(sys.argv[3]))
        return
    seed, rounds, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    for module in (
        "compiler.build.driver",
        "compiler.call.dispatch",
        "compiler.backends.cpu",
        "cpu.runtime",
        "llvm.host_jit",
    ):
        importlib.import_module(f"flydsl.{module}")  # so that starts need not, each for itself
    importlib.import_module("llvmlite.binding")
    choose = random.Random(seed)
    log = Log(path)
    for number in range(rounds):
        factor = number * VARIANTS // rounds + 2
        fresh = number % 15 == 14
        pid = start(factor, fresh, log, path)
        first = number == 0 or factor != (number - 1) * VARIANTS // rounds + 2
        if choose.random() < (0.6 if first else 0.25):
            time.sleep(choose.random() * (0.7 if fresh else 0.12))
            # It may be gone already; it is not waited for yet, so the id is still its own.
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        log("killed" if os.WIFSIGNALED(status) else "ended", factor, status=status, fresh=fresh)


if __name__ == "__main__":
    main()
