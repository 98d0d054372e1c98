"""The store that machines share: read behind the local cache, written later, and never trusted or waited for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.autotune import Config, autotune, fleet
from flydsl.autotune.key import TuningKey
from flydsl.compiler.cache import remote, stats
from flydsl.compiler.cache.remote import SharedStore, sealed, shared_store, unsealed
from flydsl.errors import CacheWarning

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed (extra `remote`)")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "warned", set[str]())
    monkeypatch.setattr(remote, "_stores", dict[str, SharedStore]())


@flyc.kernel
def double_kernel(x: fx.Tensor):
    x[fx.thread_idx.x] = x[fx.thread_idx.x] * 2.0


@flyc.jit
def double(x: fx.Tensor):
    double_kernel(x).launch(grid=1, block=4)


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, url: str) -> dict[str, float]:
    """A call on a machine whose local cache is this folder; what its caches did."""
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(folder))
    monkeypatch.setenv("FLYDSL_CACHE_REMOTE", url)
    double.invalidate()
    before = dict(stats.totals.as_dict())
    x = np.ones(4, "f4")
    double(x)
    assert x.tolist() == [2.0] * 4
    shared_store(url).drain()
    after = stats.totals.as_dict()
    return {name: after[name] - before[name] for name in ("compilations", "store_hits", "corrupt")}


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_one_machine_compiles_for_all(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    url = f"file://{tmp_path}/shared" if kind == "folder" else f"memory://{tmp_path.name}"
    assert run(monkeypatch, tmp_path / "a", url) == {"compilations": 1, "store_hits": 0, "corrupt": 0}
    assert run(monkeypatch, tmp_path / "b", url) == {"compilations": 0, "store_hits": 1, "corrupt": 0}
    assert run(monkeypatch, tmp_path / "b", url)["store_hits"] == 0  # now it is here
    store = shared_store(url)
    (key,) = store.list()
    assert store.contains(key) and not store.contains("0" * 64)
    data = store.get(key)
    assert data is not None
    # A lying store: other bytes, the entry of another key, half of it. Each costs a compilation.
    for i, bad in enumerate((b"junk", data[: len(data) // 2], data[:-1] + bytes([data[-1] ^ 1]))):
        assert store.write(store.name_of(key), bad)
        monkeypatch.setattr(stats, "warned", set[str]())
        with pytest.warns(CacheWarning, match="damaged"):
            found = run(monkeypatch, tmp_path / f"c{i}", url)
        assert found["compilations"] == 1 and found["store_hits"] == 0


class Misbehaving:
    """A file system that does one thing wrong."""

    protocol = "odd"

    def __init__(self, how: str):
        self.how = how

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*_: object, **__: object) -> Any:
            if self.how == "slow":
                time.sleep(30)
            if self.how == "full" and name in ("exists", "find"):
                return False
            if self.how == "full" and name == "cat_file":
                raise FileNotFoundError
            if self.how == "full":
                raise OSError(28, "No space left on device")
            if self.how == "none":
                return None
            raise ConnectionError("nobody there")

        return call


@pytest.mark.parametrize("how", ["down", "full", "slow", "none"])
def test_a_bad_store_costs_a_warning(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    url = f"odd://{how}"
    store = shared_store(url)
    monkeypatch.setattr(store, "_open", lambda: Misbehaving(how))
    monkeypatch.setattr(remote, "ANSWER_S", 0.3)
    start = time.monotonic()
    if how == "none":
        assert run(monkeypatch, tmp_path / "a", url)["compilations"] == 1
    else:
        with pytest.warns(CacheWarning, match="the store odd://") as seen:
            assert run(monkeypatch, tmp_path / "a", url)["compilations"] == 1
            deadline = time.monotonic() + 5
            while not seen.list and time.monotonic() < deadline:
                time.sleep(0.01)
        assert len(seen.list) == 1
    assert time.monotonic() - start < 15
    double.invalidate()
    double(np.ones(4, "f4"))  # from the local cache, without a word


def test_a_warm_call_never_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    url = f"memory://{tmp_path.name}"
    run(monkeypatch, tmp_path / "a", url)
    monkeypatch.setattr(SharedStore, "_answer", lambda *_: pytest.fail("the store was asked"))
    double(np.ones(4, "f4"))


def test_no_such_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.warns(CacheWarning, match="nowhere"):
        run(monkeypatch, tmp_path / "a", "nowhere://x")


# --- winners and leases -------------------------------------------------------------------------------------------


def machine(url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, best: int = 2) -> list[int]:
    """A tuned call on a machine of its own; what it measured."""
    monkeypatch.setenv("FLYDSL_CACHE_REMOTE", url)
    monkeypatch.setenv("FLYDSL_AUTOTUNE_CACHE_DIR", str(folder))
    seen: list[int] = []
    last: list[int] = []

    def work(x: Any, B: int = 0) -> int:
        last[:] = [B]
        return B

    def bench(fn: Callable[[], object], **_: object) -> float:
        fn()
        seen.append(last[0])
        return 1.0 if last[0] == best else 2.0

    assert autotune([Config(B=1), Config(B=2)], do_bench=bench)(work)(None) == 2
    return seen


def test_a_fleet_searches_a_key_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    url = f"file://{tmp_path}/shared"
    assert machine(url, tmp_path / "a", monkeypatch) == [1, 2]
    assert machine(url, tmp_path / "b", monkeypatch, best=1) == []
    (file,) = (tmp_path / "shared").glob("v1/winners/*/*.json")
    assert not list((tmp_path / "shared").glob("v1/leases/*"))
    file.write_bytes(file.read_bytes()[:-3])
    assert machine(url, tmp_path / "c", monkeypatch) == [1, 2]
    # A winner that is none of the candidates is none.
    body = unsealed(file.read_bytes())
    assert body is not None
    file.write_bytes(sealed(body.replace(b'{"B": 2}', b'{"B": 9}')))
    with pytest.warns(CacheWarning, match="none of its candidates"):
        assert machine(url, tmp_path / "d", monkeypatch) == [1, 2]


def test_who_waits_for_a_lease_takes_what_came_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CACHE_REMOTE", f"memory://{tmp_path.name}")
    monkeypatch.setattr(fleet, "POLL_S", 0.02)
    key = TuningKey("ab" * 32, {})
    other = SharedStore(f"memory://{tmp_path.name}")
    assert other.take_lease(key.digest)
    entry: dict[str, object] = {"config": {"B": 1}}

    def finish() -> None:
        time.sleep(0.3)
        fleet.publish(key, entry)
        other.drop_lease(key.digest)

    thread = threading.Thread(target=finish)
    thread.start()
    with fleet.lease(key) as found:
        assert found is not None and found["config"] == {"B": 1}
    thread.join()


def test_leases_expire_and_belong_to_one(tmp_path: Path):
    for url in (f"file://{tmp_path}/x", f"memory://{tmp_path.name}-lease"):
        a, b = SharedStore(url), SharedStore(url)
        assert a.take_lease("k") and not b.take_lease("k") and a.take_lease("k")
        b.drop_lease("k")  # not its own
        assert not b.take_lease("k")
        a.drop_lease("k")
        assert b.take_lease("k", seconds=-1)
        assert a.take_lease("k")  # its holder is gone


def test_seals():
    assert unsealed(sealed(b"x\ny")) == b"x\ny"
    assert unsealed(b"") is None and unsealed(sealed(b"abc")[:-1]) is None


def test_a_forked_child_writes_too(tmp_path: Path):
    store = shared_store(f"file://{tmp_path}/shared")
    store.put("a" * 64, b"from the parent")
    store.drain()  # its writer thread, which a child does not have, stands
    child = os.fork()
    if child == 0:
        store.put("b" * 64, b"from the child")
        store.drain()
        os._exit(0 if store.get("b" * 64) == b"from the child" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.get("b" * 64) == b"from the child"
