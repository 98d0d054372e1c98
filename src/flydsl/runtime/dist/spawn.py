"""`spawn`: run a function once for every rank."""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from typing import TYPE_CHECKING, TypeVar

from flydsl.errors import DSLValueError, FlyRuntimeError, KernelDeadlockError
from flydsl.runtime.device_runtime import get_device_runtime
from flydsl.runtime.dist.meeting import Board, ThreadMeeting
from flydsl.runtime.dist.world import TIMEOUT, World, connect
from flydsl.runtime.objects import launches_by_device

if TYPE_CHECKING:
    from flydsl.runtime.base import DeviceRuntime

R = TypeVar("R")
_GRACE = 10.0
"""Seconds for the others to end after one has failed."""


def spawn(
    function: Callable[..., R],
    world: int,
    *args: object,
    processes: bool | None = None,
    timeout: float | None = None,
    **kwargs: object,
) -> list[R]:
    """Call `function(world, *args, **kwargs)` in every rank; their results, by rank.

    Ranks are threads of this process on the cpu stack, and processes (which import the function by its name) on others
    or where `processes` is set. When one fails the others are stopped, and its error is raised. With a `timeout`, ranks
    that run longer than so many seconds are stopped, which raises `KernelDeadlockError` with their numbers.

    >>> from flydsl.dist import spawn
    >>> spawn(lambda world: world.rank * 10, 3)
    [0, 10, 20]
    """
    if type(world) is not int or world < 1:
        raise DSLValueError(f"a world has one or more ranks, got {world!r}")
    if processes is None:
        processes = not get_device_runtime().pageable_host
    limit = TIMEOUT if timeout is None else timeout
    if processes:
        return _in_processes(function, args, kwargs, world, limit, timed=timeout is not None)
    return _in_threads(lambda one: function(one, *args, **kwargs), world, limit, timed=timeout is not None)


def _too_late(ranks: Sequence[int], limit: float) -> KernelDeadlockError:
    numbers = ", ".join(map(str, ranks))
    return KernelDeadlockError(f"after {limit:g} s these ranks had not ended: {numbers}")


# --- threads ------------------------------------------------------------------------------------------------------


def _in_threads(call: Callable[[World], R], size: int, limit: float, timed: bool) -> list[R]:
    runtime = get_device_runtime()
    board = Board(size, limit, runtime.ranks_meet)
    results: dict[int, R] = {}
    failures: dict[int, BaseException] = {}
    changed = threading.Condition()

    def run(rank: int) -> None:
        try:
            one = World(ThreadMeeting(rank, size, board), runtime)
            runtime.set_device(one.device)
            with launches_by_device() if runtime.pageable_host else nullcontext():
                results[rank] = call(one)
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            failures[rank] = error
            board.barrier.abort()
        finally:
            with changed:
                changed.notify_all()

    runtime.enter_ranks(size)
    try:
        threads = [threading.Thread(target=run, args=(r,), name=f"rank-{r}", daemon=True) for r in range(size)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + limit
        try:
            with changed:
                while len(results) + len(failures) < size and not failures:
                    changed.wait(0.2)
                    if timed and time.monotonic() > end:
                        break
            # What failed first is the reason for what others say.
            first = next(iter(failures.items()), None)
            late = [] if first or len(results) == size else [r for r in range(size) if r not in results]
        finally:
            _stop(runtime, board, threads)
        if late:
            raise _too_late(late, limit)
        if first is not None:
            first[1].add_note(f"in rank {first[0]} of {size}")
            raise first[1]
        return [results[rank] for rank in range(size)]
    finally:
        runtime.leave_ranks()


def _stop(runtime: DeviceRuntime, board: Board, threads: Sequence[threading.Thread]) -> None:
    """Wait for threads that are done, and end those that are not: their kernels wait for ranks that are gone."""
    if not any(thread.is_alive() for thread in threads):
        return
    end = time.monotonic() + _GRACE
    patience = time.monotonic() + 0.2
    while time.monotonic() < end and any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(0.01)
        if time.monotonic() > patience:
            board.barrier.abort()
            if not runtime.stop_kernels():
                return


# --- processes ----------------------------------------------------------------------------------------------------


def _rank_process(rank: int, size: int, folder: str, limit: float, link: Connection) -> None:
    """The main function of a rank's process."""
    try:
        function, args, kwargs = link.recv()
        world = connect(rank, size, folder, timeout=limit)
        try:
            answer = function(world, *args, **kwargs)
            world.barrier()
        finally:
            world.close()
        link.send((True, answer))
    except BaseException:  # noqa: BLE001 - the parent raises it
        link.send((False, traceback.format_exc()))
    link.close()


def _in_processes(
    function: Callable[..., R],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    size: int,
    limit: float,
    timed: bool,
) -> list[R]:
    context = multiprocessing.get_context("spawn")
    results: dict[int, R] = {}
    with tempfile.TemporaryDirectory(prefix="flydsl-world-") as folder:
        pipes = [context.Pipe() for _ in range(size)]
        made = [
            context.Process(target=_rank_process, args=(r, size, folder, limit, pipes[r][1]), daemon=True)
            for r in range(size)
        ]
        try:
            for process, (ours, theirs) in zip(made, pipes, strict=True):
                process.start()
                theirs.close()
                ours.send((function, args, kwargs))
            links = {pipes[r][0]: r for r in range(size)}
            end = time.monotonic() + limit
            while links:
                ready = wait_for(list(links), 0.5)
                for link in ready:
                    assert isinstance(link, Connection)
                    rank = links.pop(link)
                    try:
                        fine, answer = link.recv()
                    except EOFError:
                        made[rank].join(_GRACE)
                        raise FlyRuntimeError(
                            f"the process of rank {rank} of {size} ended with status {made[rank].exitcode}"
                        ) from None
                    if not fine:
                        raise FlyRuntimeError(f"rank {rank} of {size} failed:\n{answer}")
                    results[rank] = answer
                if timed and links and time.monotonic() > end:
                    raise _too_late(sorted(links.values()), limit)
            for process in made:
                process.join(_GRACE)
        finally:
            for process in made:
                if process.is_alive():
                    process.terminate()
                    process.join(_GRACE)
            for ours, _ in pipes:
                ours.close()
    return [results[rank] for rank in range(size)]
