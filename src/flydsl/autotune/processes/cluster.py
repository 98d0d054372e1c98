"""Searches on a Dask cluster: candidates compile on any worker, and are timed on those that have the right device.

A task is one candidate, done in a child of its worker, so a candidate takes down nothing but itself. A worker that dies
costs a retry elsewhere; what a task gives is taken once, by the process that searches, which alone writes it down.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pickle
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, cast

from ...compiler.active_backend import resolve_backend
from ...compiler.build.artifact import CompiledArtifact
from ...compiler.cache import default_cache
from ...errors import DSLValueError, FlyDSLError, MissingPackageError
from ..bench import Timing
from ..candidate import Config
from ..runner import WrongResult
from .images import CallImage, FunctionPlace, code_place, image_of, place_of
from .isolate import CandidateFailed, ChildLost, Isolation, pack_config

RETRIES = 3
"""Times a task is tried again on another worker after one died."""
RESOURCES = {"cuda": "GPU", "rocm": "GPU"}
"""What a worker must have (`dask worker --resources GPU=1`) to time candidates of a stack."""
PASSED_ON = (
    "FLYDSL_COMPILE_BACKEND",
    "FLYDSL_COMPILE_ARCH",
    "FLYDSL_COMPILE_OPT_LEVEL",
    "FLYDSL_DEBUG_ENABLE_DEBUG_INFO",
)
"""Settings of the searching process that decide code."""


class _Future(Protocol):
    def result(self) -> Any: ...
    def cancel(self) -> object: ...


class _Client(Protocol):
    def submit(self, function: Callable[..., object], *args: object, **options: object) -> _Future: ...
    def close(self) -> object: ...


class Cluster:
    """A scheduler and what is asked of it."""

    def __init__(self, client: _Client):
        self.client = client

    def submit(self, function: Callable[..., object], *args: object, device: bool = False) -> _Future:
        """A task; with `device`, on a worker that has one like ours."""
        need = RESOURCES.get(resolve_backend(None).name) if device else None
        options: dict[str, object] = {"retries": RETRIES, "pure": False}
        if need is not None:
            options["resources"] = {need: 1}
        return self.client.submit(function, *args, **options)

    def compile(
        self,
        owner: object,
        call: tuple[object, ...],
        named: Mapping[str, object],
        configs: Sequence[Config],
        timeout: float,
        enough: Callable[[], bool],
    ) -> dict[int, dict[str, Any]]:
        """Compile candidates on the workers; their code comes into the cache of this machine."""
        place, image = code_place(owner), image_of(call, named, data=False)
        env = _environment()
        tasks = [self.submit(compile_task, place, image, pack_config(c), env, timeout) for c in configs]
        found: dict[int, dict[str, Any]] = {}
        for i, task in enumerate(tasks):
            if enough():
                task.cancel()
                continue
            try:
                reply, data = task.result()
            except Exception as error:  # noqa: BLE001 - Dask has classes of its own for lost workers
                found[i] = {"error": f"the cluster gave up: {error}"}
                continue
            found[i] = reply
            if data is not None:
                _store(str(reply["key"]), data)
        return found


def _store(key: str, data: bytes) -> None:
    """Put what a worker compiled into the disk cache, if it is what it says."""
    try:
        artifact = CompiledArtifact.from_bytes(data)
    except FlyDSLError:
        return
    if artifact.key == key:
        default_cache().put(key, artifact)


def _environment() -> dict[str, str]:
    target = resolve_backend(None).target
    here = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {**here, "FLYDSL_COMPILE_BACKEND": target.backend, "FLYDSL_COMPILE_ARCH": target.arch}


class ClusterTiming:
    """Times candidates on workers; several at once, where several have the device."""

    def __init__(
        self, cluster: Cluster, owner: object, call: tuple[object, ...], named: Mapping[str, object], timeout: float
    ):
        self.cluster = cluster
        self.place = place_of(owner)
        self.image = image_of(call, named, data=True)
        self.timeout = timeout
        self.reference: Config | None = None
        self._tasks: dict[Config, _Future] = {}

    def expect(self, configs: Sequence[Config]) -> None:
        """Start them all; the first stands for right results where no default does."""
        if self.reference is None and configs:
            self.reference = configs[0]
        for config in configs:
            self._tasks[config] = self._submit(config)

    def _submit(self, config: Config, *, compare: bool = True) -> _Future:
        reference = pack_config(self.reference) if self.reference is not None and compare else b""
        args = (self.place, self.image, pack_config(config), reference, self.timeout)
        return self.cluster.submit(time_task, *args, device=True)

    def time(self, config: Config, *, compare: bool) -> Timing:
        """Times of a candidate; raises what became of it instead."""
        task = self._tasks.pop(config, None) or self._submit(config, compare=compare)
        try:
            status, value = task.result()
        except Exception as error:  # noqa: BLE001 - Dask has classes of its own for lost workers
            raise ChildLost(f"the cluster gave up: {error}") from None
        if status == "wrong":
            raise WrongResult(value)
        if status == "failed":
            raise CandidateFailed(value)
        return Timing(tuple(value[0]), value[1])

    def close(self) -> None:
        """Nobody waits for the rest."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()


# --- what workers do ----------------------------------------------------------------------------------------------


_idle: dict[str, list[Isolation]] = {}
"""Children of this worker that nobody uses, by what they know: the next candidate of a call takes one over."""


@contextmanager
def _child_for(place: FunctionPlace, image: CallImage, timeout: float, env: Mapping[str, str]) -> Generator[Isolation]:
    parts = (repr(place), repr(sorted(env.items())), image.payload, *image.blobs)
    key = hashlib.sha256(b"\0".join(p if isinstance(p, bytes) else p.encode() for p in parts)).hexdigest()
    for known in [k for k in _idle if k != key]:  # one call at a time: what others left is not kept
        for old in _idle.pop(known):
            old.close()
    held = _idle.get(key) or []
    isolation = held.pop() if held else Isolation(place, image, timeout, env)
    try:
        yield isolation
    except BaseException:
        isolation.close()
        raise
    _idle.setdefault(key, []).append(isolation)


def compile_task(
    place: FunctionPlace, image: CallImage, config: bytes, env: Mapping[str, str], timeout: float
) -> tuple[dict[str, Any], bytes | None]:
    """Compile one candidate in a child of this worker; its code as bytes."""
    with _child_for(place, image, timeout, {**env, "FLYDSL_COMPILE_ONLY": "1"}) as isolation:
        try:
            reply, blobs = isolation.running().ask_all({"do": "compile", "send": True}, [config], timeout)
            return reply, blobs[0] if blobs else None
        except (ChildLost, CandidateFailed) as error:
            return {"error": str(error)}, None


def time_task(
    place: FunctionPlace, image: CallImage, config: bytes, reference: bytes, timeout: float
) -> tuple[str, Any]:
    """Time one candidate in a child of this worker."""
    with _child_for(place, image, timeout, {}) as isolation:
        if reference and isolation.reference is None:
            isolation.reference = cast(Config, pickle.loads(reference))
        try:
            timing = isolation.time(cast(Config, pickle.loads(config)), compare=bool(reference))
            return "ok", (list(timing.times), timing.method)
        except WrongResult as error:
            return "wrong", str(error)
        except (ChildLost, CandidateFailed) as error:
            return "failed", str(error)


# --- which cluster ------------------------------------------------------------------------------------------------

_current: ContextVar[Cluster | None] = ContextVar("flydsl_cluster", default=None)


def current_cluster() -> Cluster | None:
    """The cluster of the block around."""
    return _current.get()


@contextmanager
def on_cluster(address: str | None) -> Generator[Cluster | None]:
    """Searches inside the block use the scheduler at an address (`tcp://...`), or one started here (`local`)."""
    if address is None:
        yield None
        return
    if address != "local" and "://" not in address:
        raise DSLValueError(
            f"a cluster is `local` or the address of a scheduler, such as tcp://host:8786; got {address!r}"
        )
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise MissingPackageError("sweeps on a cluster", "distributed", "cluster") from None
    own = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, resources={"GPU": 1}) if (
        address == "local"
    ) else None  # fmt: skip
    client = distributed.Client(own if own is not None else address)
    cluster = Cluster(cast(_Client, client))
    token = _current.set(cluster)
    try:
        yield cluster
    finally:
        _current.reset(token)
        client.close()
        if own is not None:
            own.close()
