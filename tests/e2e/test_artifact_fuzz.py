"""Exported files whose header was changed and sealed again: each is refused with the field's name, or works.

The checksum is put right after every change, so that only the checks behind it can object.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.build.artifact import MAGIC, ArtifactFormatError, CompiledArtifact, canonical_json
from flydsl.errors import ArtifactHookError, ArtifactMismatchError, DSLTypeError

MUTATIONS = 1500
ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**31, -(2**31), 2**63, -(2**64), 10**400, 1e308, -0.5, 1.5),
    *("", "x", "a:b", "\0", "\ud800", "é", "🙂", "0" * 5000, "../../etc/passwd", "%s{}", "cpu:native:w32", "os:system"),
    *([], [[]], [None], {}, {"": None}, [0] * 100, {"name": 3}, [{"name": "x"}]),
]


@flyc.kernel
def affine_kernel(x: fx.Tensor, n: fx.Int32, by: fx.Float32):
    i = fx.block_idx.x * 32 + fx.thread_idx.x
    if i < n:
        x[i] = x[i] * by + 1.0


@flyc.jit
def affine(x: fx.Tensor, n: fx.Int32, by: fx.Float32):
    affine_kernel(x, n, by).launch(grid=fx.ceildiv(n, 32), block=32)


def split(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The header, and everything behind it but the checksum."""
    size = struct.unpack_from("<I", data, len(MAGIC))[0]
    end = len(MAGIC) + 4 + size
    return json.loads(data[len(MAGIC) + 4 : end]), data[-(-end // 64) * 64 : -32]


def joined(header: Any, body: bytes) -> bytes:
    text = header if isinstance(header, bytes) else canonical_json(header)
    out = MAGIC + struct.pack("<I", len(text)) + text
    out += bytes(-len(out) % 64) + body
    return out + hashlib.sha256(out).digest()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in the header."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def nested(depth: int) -> Any:
    value: Any = 0
    for i in range(depth):
        value = [value] if i % 2 else {"a": value}
    return value


def mutate(header: dict[str, Any], rng: random.Random) -> None:
    """Change one thing: its type, its presence, its size, its place."""
    path = rng.choice(list(places(header)))
    owner: Any = header
    for key in path[:-1]:
        owner = owner[key]
    key = path[-1]
    value = owner[key]
    kind = rng.randrange(8)
    if kind == 0:
        del owner[key]
    elif kind == 1 and isinstance(owner, dict):
        owner[rng.choice(["extra", "name", "kind", "offset", "size", "load_hooks", "notes", ""])] = rng.choice(ODD)
    elif kind == 1:
        owner.insert(key, copy.deepcopy(rng.choice(owner)))
    elif kind == 2 and isinstance(value, int | float):
        owner[key] = rng.choice([value + 1, -value, value * 64, value - 1, 2**40, str(value), float(value), value + 64])
    elif kind == 2 and isinstance(value, str):
        at = rng.randrange(len(value) + 1)
        owner[key] = value[:at] + rng.choice(["", "x", "\0", ":", "\ud83d", " ", '"', "é"]) + value[at + 1 :]
    elif kind == 2 and isinstance(value, list):
        rng.shuffle(value)
        owner[key] = value * rng.randrange(3)
    elif kind == 3:
        owner[key] = nested(rng.choice([2, 20, 40, 300]))
    elif kind == 4 and isinstance(value, str):
        owner[key] = {value: value}
    elif kind == 5:
        owner[key] = [value]
    else:
        owner[key] = copy.deepcopy(rng.choice(ODD))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("aot") / "affine.fly"
    args = (np.zeros(37, np.float32), 37, 2.0)
    flyc.export(affine, path, args=args, targets=["cpu:native", "rocm:gfx942", "cuda:sm_90"])
    return path.read_bytes()


def use(data: bytes, path: Path) -> str:
    """What becomes of a file: the error's field, or `used`."""
    path.write_bytes(data)
    x = np.arange(37, dtype=np.float32)
    try:
        loaded = flyc.load(path)
        repr(loaded)
        for target in loaded.targets:
            try:
                artifact = loaded.artifact(target)
            except ArtifactMismatchError:
                continue
            repr((artifact, artifact.kernels, artifact.resources, artifact.target, artifact.binaries, artifact.key))
            artifact.text("fly") if "fly" in artifact.sections else None
        loaded(x, 37, 2.0)
    except ArtifactFormatError as error:
        assert error.field and str(error).startswith("not a usable artifact: ")
        return error.field
    except (ArtifactMismatchError, ArtifactHookError) as error:  # well formed, and not for this process
        return type(error).__name__
    except DSLTypeError:  # it asks for another kind of argument
        kinds = [parameter["kind"] for parameter in split(data)[0]["parameters"]]
        assert kinds != ["tensor", "scalar", "scalar"]
        return "other arguments"
    np.testing.assert_array_equal(x, np.arange(37, dtype=np.float32) * 2 + 1)
    return "used"


@pytest.mark.parametrize("seed", [1, None], ids=["fixed", "random"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_changed_headers(exported: bytes, tmp_path: Path, seed: int | None) -> None:
    chosen = seed if seed is not None else int.from_bytes(os.urandom(4), "little")
    rng = random.Random(chosen)
    header, body = split(exported)
    assert joined(header, body) == exported
    seen: dict[str, int] = {}
    for i in range(MUTATIONS // 2 if seed is not None else MUTATIONS // 3):
        changed = copy.deepcopy(header)
        for _ in range(rng.choice([1, 1, 1, 2])):
            mutate(changed, rng)
        try:
            data = joined(changed, body)
        except (ValueError, RecursionError):  # no JSON at all
            continue
        try:
            result = use(data, tmp_path / "x.fly")
        except Exception as error:
            raise AssertionError(f"seed {chosen}, mutation {i}: {error!r}") from error
        seen[result] = seen.get(result, 0) + 1
    assert seen["used"] > 20 and sum(seen.values()) - seen["used"] > 100, seen


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_changed_headers_of_entries(tmp_path: Path) -> None:
    """The same for an artifact of the disk cache: reading it and asking for all it offers."""
    artifact = flyc.compile(affine, np.zeros(37, np.float32), 37, 2.0).artifact
    header, body = split(artifact.to_bytes())
    rng = random.Random(2)
    good = bad = 0
    for _ in range(MUTATIONS):
        changed = copy.deepcopy(header)
        mutate(changed, rng)
        try:
            data = joined(changed, body)
        except (ValueError, RecursionError):
            continue
        try:
            found = CompiledArtifact.from_bytes(data)
            repr((found, found.kernels, found.resources, found.binaries, found.key, found.name))
            found.metadata.get("target") and found.target
            found.check_runnable()
            good += 1
        except ArtifactFormatError as error:
            assert error.field
            bad += 1
    assert good > 50 and bad > 200


@pytest.mark.parametrize(
    ("field", "edit"),
    [
        ("parameters", lambda h: h["parameters"].pop(0)),
        ("parameters", lambda h: h.update(parameters=[])),
        ("parameters[0].kind", lambda h: h["parameters"][0].update(kind="pickle")),
        ("targets", lambda h: h.update(targets=[])),
        ("targets[0].kernels", lambda h: h["targets"][0].update(kernels=[])),
        ("targets[0].kernels[0].name", lambda h: h["targets"][0]["kernels"][0].update(name="absent_kernel")),
        ("targets[0].kernels[0].shared_static", lambda h: h["targets"][0]["kernels"][0].update(shared_static=2**40)),
        ("sections", lambda h: h["targets"].reverse()),  # each with the other's code, ...
        ("kernels", lambda h: h["targets"].insert(0, h["targets"].pop(1))),  # ... which is of the same kind
        ("targets[0].name", lambda h: h["targets"][0].update(name="absent")),
        ("targets[0].target", lambda h: h["targets"][0].update(target="banana")),
        ("targets[1].host", lambda h: h["targets"][1].pop("host")),
        ("targets[0].load_hooks[0]", lambda h: h["targets"][0].update(load_hooks=["os"])),
        ("product_version", lambda h: h.update(product_version="new")),
        ("sections", lambda h: h["sections"][0].update(name="7.o")),
        ("header", lambda h: h.update(deep=nested(300))),
        ("constants.a", lambda h: h.update(constants={"a": "\ud800"})),
        ("schema", lambda h: h.update(schema=True)),
        ("many", lambda h: h.update(many=10**400)),
    ],
)
def test_single_defects(exported: bytes, tmp_path: Path, field: str, edit: Any) -> None:
    header, body = split(exported)
    edit(header)
    path = tmp_path / "x.fly"
    path.write_bytes(joined(header, body))
    x = np.arange(37, dtype=np.float32)
    with pytest.raises(ArtifactFormatError) as caught:
        flyc.load(path)(x, 37, 2.0)
    assert caught.value.field == field


def test_sections_that_overlap(exported: bytes, tmp_path: Path) -> None:
    header, body = split(exported)
    first, second = header["sections"][:2]
    second.update(offset=first["offset"], size=first["size"], sha256=first["sha256"])
    path = tmp_path / "x.fly"
    path.write_bytes(joined(header, body))
    with pytest.raises(ArtifactFormatError, match="overlap"):
        flyc.load(path)


def test_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="not a regular file"):
        flyc.load(tmp_path / "fifo")
    with pytest.raises(IsADirectoryError):
        flyc.load(tmp_path)
    (tmp_path / "big").write_bytes(b"x" * 1000)
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_MAX_ENTRY_BYTES", "999")
    with pytest.raises(OSError, match="1000 bytes, more than the limit of 999"):
        flyc.load(tmp_path / "big")
