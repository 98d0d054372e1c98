"""Winners on disk and named artifacts: kept whole, shared, and never trusted blindly (T-10, T-11)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flydsl.autotune import Autotuner, Config, autotune
from flydsl.autotune import artifacts as artifact_files
from flydsl.autotune.key import DeviceIdentity, TuningKey
from flydsl.autotune.winners import SCHEMA, WinnerFile, make_entry
from flydsl.compiler.cache import stats
from flydsl.errors import CacheWarning, DSLValueError

CONFIGS = [Config(B=1), Config(B=2), Config(B=3)]


@pytest.fixture(autouse=True)
def warn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "warned", set[str]())


def tuned(best: int = 2, configs: object = None, **options: Any) -> tuple[Autotuner, list[int]]:
    searched: list[int] = []
    last: list[int] = []

    def work(x: Any, n: int, B: int = 0) -> int:
        last[:] = [B]
        return B

    def bench(fn: Callable[[], object], **_: object) -> float:
        fn()
        searched.append(last[0])
        return 1.0 if last[0] == best else 2.0

    return autotune(CONFIGS if configs is None else configs, key=["n"], do_bench=bench, **options)(work), searched


def key(text: str) -> TuningKey:
    return TuningKey(text * 64, {"declared": {"n": 1}, "device": None})


def entry(k: TuningKey, b: int) -> dict[str, object]:
    made = make_entry(k, Config(B=b), [{"config": f"B={b}", "ms": 1.0}], complete=True)
    assert made is not None
    return made


def test_the_file_is_schema_versioned_and_holds_the_timings(own_folders: Path):
    tuner, _ = tuned()
    tuner(None, 4)
    (file,) = own_folders.glob("*.json")
    body = json.loads(file.read_text())
    assert body["version"] == SCHEMA and body["qualname"].endswith("work") and body["module"] == __name__
    (kept,) = body["entries"].values()
    assert kept["config"] == {"B": 2} and kept["declared"] == {"n": 4} and kept["complete"]
    assert [t["ms"] for t in kept["timings"]] == [2.0, 1.0, 2.0]
    assert kept["device"]["compute_units"] >= 1
    assert not [f for f in own_folders.iterdir() if f.suffix != ".json"]  # no locks, no leftovers
    tuner(None, 5)
    assert len(json.loads(file.read_text())["entries"]) == 2


def test_functions_of_one_name_have_files_of_their_own():
    assert len({WinnerFile(m, q).name for m in ("a", "b") for q in ("f", "C.f", "<locals>.f")}) == 6
    assert all("/" not in WinnerFile("m", q).name for q in ("../x", "a/b", "", "ü" * 300))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"version": 99, "entries": {}}', '{"version": 1}', '{"version": 1, "entries": [1]}', "\x00" * 50],
)
def test_damaged_files_are_replaced(own_folders: Path, text: str):
    tuner, _ = tuned()
    tuner(None, 4)
    (file,) = own_folders.glob("*.json")
    file.write_text(text)
    again, searched = tuned()
    with pytest.warns(CacheWarning, match="no file of winners that this version reads"):
        assert again(None, 4) == 2
    assert searched
    third, searched = tuned()
    assert third(None, 4) == 2 and not searched


@pytest.mark.parametrize("config", ['{"B": 1, "nope": 2}', '{"num_warps": -1}'])
def test_an_entry_that_does_not_fit_is_no_winner(own_folders: Path, config: str):
    tuner, _ = tuned()
    tuner(None, 4)
    (file,) = own_folders.glob("*.json")
    body = json.loads(file.read_text())
    for each in body["entries"].values():
        each["config"] = json.loads(config)
    file.write_text(json.dumps(body))
    again, searched = tuned()
    with pytest.warns(CacheWarning, match="is ignored"):
        assert again(None, 4) == 2
    assert searched


def test_what_others_can_write_is_not_used(own_folders: Path):
    tuner, _ = tuned()
    tuner(None, 4)
    (file,) = own_folders.glob("*.json")
    file.chmod(0o666)
    again, searched = tuned()
    with pytest.warns(CacheWarning, match="everyone may write to it"):
        again(None, 4)
    assert searched


def test_a_folder_that_cannot_be_written_costs_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("FLYDSL_AUTOTUNE_CACHE_DIR", str(blocked / "below"))
    tuner, searched = tuned()
    with pytest.warns(CacheWarning, match="is kept in memory only.*FLYDSL_AUTOTUNE_CACHE_DIR"):
        assert tuner(None, 4) == 2
    assert tuner(None, 4) == 2 and len(searched) == 3


def test_a_full_disk_costs_a_warning(monkeypatch: pytest.MonkeyPatch):
    import errno

    from flydsl.autotune import winners

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(winners, "atomic_write", full)
    tuner, _ = tuned()
    with pytest.warns(CacheWarning, match="No space left on device"):
        assert tuner(None, 4) == 2
    assert tuner(None, 4) == 2


def test_writers_at_once_lose_nothing(own_folders: Path):
    file = WinnerFile("m", "f")
    keys = [key(f"{i:x}") for i in range(8)]
    threads = [threading.Thread(target=file.put, args=(k, entry(k, i))) for i, k in enumerate(keys)]
    code = (
        "import sys; from flydsl.autotune.winners import WinnerFile; from flydsl.autotune.key import TuningKey\n"
        "for i in range(8, 16): WinnerFile('m', 'f').put(TuningKey(f'{i:x}' * 64, {}), {'config': {'B': i}})"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as other:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert other.returncode == 0
    for i in range(16):
        found = file.get(key(f"{i:x}"))
        assert found is not None and found[0] == Config(B=i)
    assert json.loads(file.path.read_text())["version"] == SCHEMA


def test_two_processes_search_a_key_once(own_folders: Path, tmp_path: Path):
    script = tmp_path / "prog.py"
    script.write_text(
        "import time, sys\nfrom flydsl.autotune import Config, autotune\nran = []\n"
        "def bench(fn, **_):\n    ran.append(1); time.sleep(0.3); return 1.0\n"
        "@autotune([Config(B=1), Config(B=2)], do_bench=bench)\n"
        "def work(x, B=0): pass\n"
        "work(3)\nprint(len(ran))\n"
    )
    both = [subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(process.communicate()[0].strip() for process in both)
    assert said == ["0", "2"]


# --- artifacts ----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLYDSL_AUTOTUNE_CONFIG_DIR", str(tmp_path / "configs"))
    return tmp_path / "configs"


def emitted(folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Path:
    """A forced search writes an artifact; the winners are forgotten."""
    with monkeypatch.context() as patch:
        patch.setenv("FLYDSL_AUTOTUNE", "1")
        patch.setenv("FLYDSL_AUTOTUNE_CACHE_DIR", str(folder / "elsewhere"))
        tuner, _ = tuned(artifact_name="mine", **options)
        tuner(None, 4)
    (file,) = folder.glob("*.json")
    return file


def test_life_of_an_artifact(folder: Path, monkeypatch: pytest.MonkeyPatch):
    plain, _ = tuned(artifact_name="mine")
    plain(None, 9)
    assert not folder.exists()  # only a forced search writes one
    file = emitted(folder, monkeypatch)
    body = json.loads(file.read_text())
    assert body["version"] == 1 and body["config"] == {"B": 2}
    assert body["identity"]["name"] == "mine" and body["identity"]["key"] == {"n": 4}
    assert set(body["identity"]["device"]) == {"name", "arch", "compute_units"}
    assert file.name == artifact_files.path_of(folder, "mine", body["identity"]).name
    tuner, searched = tuned(best=1, artifact_name="mine", default=lambda *a: Config(B=3))
    assert tuner(None, 4) == 2 and not searched  # before the default, without a search
    assert tuner(None, 5) == 3  # another key: the default
    file.unlink()
    assert tuner(None, 4) == 3  # looked at again with each call
    unnamed, _ = tuned(best=1)
    assert unnamed(None, 4) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("not json", "Expecting value"),
        ("[1]", "no JSON object"),
        ({"version": 2}, "it has the version 2"),
        ({"identity": {}}, "another name, key or device"),
        ({"config": None}, "no configuration"),
        ({"config": {"C": 1}}, "it gives C, which the function does not have"),
        ({"config": {"n": 1}}, "it would override n"),
        ({"config": {"x": 1}}, "it would override x"),
        ({"config": {"num_warps": "many"}}, "num_warps is a positive integer"),
    ],
)
def test_an_invalid_artifact_is_ignored(folder: Path, monkeypatch: pytest.MonkeyPatch, change: Any, said: str):
    file = emitted(folder, monkeypatch)
    body = json.loads(file.read_text())
    file.write_text(change if isinstance(change, str) else json.dumps({**body, **change}))
    tuner, searched = tuned(best=1, artifact_name="mine")
    with pytest.warns(CacheWarning, match=f"is ignored: .*{said}"):
        assert tuner(None, 4) == 1
    assert searched


def test_errors_after_acceptance_are_the_callers(folder: Path, monkeypatch: pytest.MonkeyPatch):
    file = emitted(folder, monkeypatch)
    body = json.loads(file.read_text())
    file.write_text(json.dumps({**body, "config": {"B": 0}}))

    def work(x: Any, n: int, B: int = 1) -> float:
        return 1 / B

    tuner = autotune(CONFIGS, key=["n"], artifact_name="mine")(work)
    with pytest.raises(ZeroDivisionError):
        tuner(None, 4)


def test_hooks_and_odd_values_are_not_written(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_AUTOTUNE", "1")
    hooked, _ = tuned(configs=[Config(B=2, pre_hook=lambda named: None)], artifact_name="mine")
    with pytest.warns(CacheWarning, match="it has a pre_hook"):
        hooked(None, 4)
    odd, _ = tuned(configs=[Config(B=(2, 3))], artifact_name="mine")
    with pytest.warns(CacheWarning, match="do not survive JSON"):
        odd(None, 4)
    assert not list(folder.glob("*.json"))


def test_without_a_known_device_nothing_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch, own_folders: Path):
    from flydsl.autotune import tuner as module

    monkeypatch.setattr(module, "device_identity", lambda: DeviceIdentity("", "", 0))
    tuner, searched = tuned(artifact_name="mine")
    assert tuner(None, 4) == 2
    monkeypatch.setenv("FLYDSL_AUTOTUNE", "1")
    forced, searched = tuned(artifact_name="mine")
    with pytest.raises(ValueError, match="name, architecture or number of compute units is not known"):
        forced(None, 5)
    assert not searched and not folder.exists()
    (file,) = own_folders.glob("*.json")
    assert len(json.loads(file.read_text())["entries"]) == 1


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 65, "ü", 3])
def test_bad_names(name: Any):
    with pytest.raises(DSLValueError, match="1 to 64 letters"):
        autotune(CONFIGS, artifact_name=name)(lambda x, B: x)


def test_good_names():
    with warnings.catch_warnings():
        for name in ("a", "A.b_c-9", "x" * 64):
            assert autotune(CONFIGS, artifact_name=name)(lambda x, B: x).artifact_name == name
    assert np.zeros(1).size == 1
