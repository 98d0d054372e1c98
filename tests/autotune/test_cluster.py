"""Searches on a Dask cluster: two workers here, one of which is killed in the middle."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flydsl.autotune import Config
from flydsl.autotune.processes.cluster import on_cluster
from flydsl.errors import DSLValueError, MissingPackageError

HAVE = importlib.util.find_spec("distributed") is not None


def programs() -> Any:
    spec = importlib.util.spec_from_file_location("programs_of_the_tuner", Path(__file__).with_name("programs.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load()


def test_without_the_package_it_says_which():
    with pytest.raises(DSLValueError, match="`local` or the address of a scheduler"), on_cluster("here"):
        pass
    if not HAVE:
        with pytest.raises(MissingPackageError, match=r"distributed: install flydsl\[cluster\]"), on_cluster("local"):
            pass


@pytest.mark.skipif(not HAVE, reason="distributed is not installed (extra `cluster`)")
@pytest.mark.filterwarnings("ignore")
def test_a_sweep_survives_the_death_of_a_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    distributed: Any = importlib.import_module("distributed")

    module = programs()
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    x, y = np.arange(9, dtype="f4"), np.zeros(9, "f4")
    killed: list[int] = []
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as workers,
        on_cluster(workers.scheduler_address) as cluster,
    ):
        assert cluster is not None
        client: Any = cluster.client

        def kill() -> None:
            """The first worker that has something to do, once."""
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                busy = [who for who, tasks in client.processing().items() if tasks]
                if busy:
                    time.sleep(0.3)
                    pids = client.run(os.getpid, workers=busy[:1])
                    killed.extend(pids.values())
                    os.kill(killed[0], signal.SIGKILL)
                    return
                time.sleep(0.02)

        thread = threading.Thread(target=kill)
        before = module.add.fn.cache_stats()["compilations"]
        thread.start()
        module.add.prepare(x, y, 9)
        thread.join()
    assert killed
    report = module.add.report()
    assert report.counts() == {"ok": 3}, report.table()
    assert y.tolist() == [0.0] * 9  # workers had copies
    assert module.add.fn.cache_stats()["compilations"] == before  # their code came here
    assert report.winner in [Config(BLOCK=b) for b in (32, 64, 128)]
