"""The container of compiled artifacts: round trips, and every kind of damage."""

import hashlib
import io
import json
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flydsl.compiler.build.artifact import (
    ALIGNMENT,
    MAGIC,
    ArtifactFormatError,
    CompiledArtifact,
    atomic_write,
    canonical_json,
    pack,
    read_header,
    unpack,
)
from flydsl.errors import FlyDSLError
from flydsl.target import GPUTarget

TARGET = GPUTarget("rocm", "gfx942", 64, ("+sramecc",))
META: dict[str, Any] = {
    "name": "gemm",
    "module": "m",
    "qualname": "gemm",
    "key": "a" * 64,
    "backend": "rocm",
    "target": TARGET,
    "binary_ext": "hsaco",
    "times": {"trace": 0.1, "passes": {"canonicalize": 0.01}, "llvm": {"emit": 1.5}, "link": 0.25},
    "kernels": [{"symbol": "gemm_0", "registers": 96, "spills": 0, "args": [(0, 8)]}],
    "resources": [{"name": "gemm_0", "scratch": 16}],
}
SECTIONS = {"hsaco": b"\x7fELF" + bytes(100), "o": b"obj", "host": b"BC", "llvm": b"; ir\n", "fly": "µ".encode()}


def make(**lazy: Any) -> CompiledArtifact:
    return CompiledArtifact(META, SECTIONS, lazy=lazy)


def resealed(data: bytes | bytearray) -> bytes:
    """The data with a checksum that holds, so that only the check behind it can object."""
    body = bytes(data[:-32])
    return body + hashlib.sha256(body).digest()


def with_header(edit: Any) -> bytes:
    """A container whose header was edited; checksum and lengths hold."""
    data = make().to_bytes()
    size = struct.unpack_from("<I", data, 8)[0]
    header = json.loads(data[12 : 12 + size])
    text = canonical_json(header)
    result = edit(header)
    text = result if isinstance(result, bytes) else canonical_json(header)
    start = -(-(12 + size) // 64) * 64
    out = MAGIC + struct.pack("<I", len(text)) + text
    out += bytes(-len(out) % 64) + data[start:]
    return resealed(out)


def test_round_trip() -> None:
    artifact = make()
    again = CompiledArtifact.from_bytes(artifact.to_bytes())
    assert again.metadata == artifact.metadata
    assert dict(again.sections) == SECTIONS
    assert again.target == TARGET
    assert again.to_bytes() == artifact.to_bytes()
    assert again.metadata["kernels"][0]["args"] == [[0, 8]]


def test_contents() -> None:
    artifact = make()
    assert artifact.binary() == SECTIONS["hsaco"]
    assert artifact.binary("o") == artifact.binary(".o") == b"obj"
    assert artifact.llvm_ir == "; ir\n"
    assert artifact.source_ir == artifact.ir == "µ"
    assert artifact.host == b"BC"
    assert artifact.key == "a" * 64
    assert artifact.resources == {"gemm_0": {"registers": 96, "spills": 0, "scratch": 16}}
    with pytest.raises(ValueError, match="no binary 'cubin'; there are: hsaco, o"):
        artifact.binary("cubin")
    with pytest.raises(ValueError, match="no section 'asm'; there are: fly, host, hsaco, llvm, o"):
        _ = artifact.asm


def test_device_section_is_the_binary() -> None:
    artifact = CompiledArtifact({"binary_ext": "ptx"}, {"device": b"ptx", "device.cubin": b"c"})
    assert artifact.binary() == artifact.binary("ptx") == b"ptx"
    assert artifact.binary("cubin") == b"c"


def test_target_as_text() -> None:
    artifact = CompiledArtifact({"target": TARGET.key()}, {})
    assert artifact.target == TARGET and artifact.metadata["target"] == TARGET.key()
    with pytest.raises(ValueError, match="does not say"):
        _ = CompiledArtifact({}, {}).target


def test_lazy_texts_are_made_once_and_not_for_storing() -> None:
    calls: list[int] = []

    def asm() -> str:
        calls.append(1)
        return "s_endpgm"

    artifact = make(asm=asm)
    assert "asm" not in CompiledArtifact.from_bytes(artifact.to_bytes()).sections
    assert not calls
    assert artifact.asm == artifact.asm == "s_endpgm" and len(calls) == 1
    assert CompiledArtifact.from_bytes(artifact.to_bytes()).asm == "s_endpgm"
    loaded = CompiledArtifact.from_bytes(make().to_bytes()).with_lazy(asm=lambda: b"late")
    assert loaded.asm == "late"


def test_binary_only_leaves_texts_out() -> None:
    data = make().to_bytes(binary_only=True)
    again = CompiledArtifact.from_bytes(data)
    assert set(again.sections) == {"hsaco", "o", "host"}
    with pytest.raises(ValueError, match="CACHE_BINARY_ONLY"):
        _ = again.source_ir


def test_immutable_and_checked() -> None:
    artifact = make()
    with pytest.raises(TypeError):
        artifact.sections["o"] = b""  # type: ignore[index]
    with pytest.raises(AttributeError):
        artifact.metadata = {}  # type: ignore[misc]
    with pytest.raises(TypeError, match="plain JSON"):
        CompiledArtifact({"x": object()}, {})
    with pytest.raises(TypeError, match="plain JSON"):
        CompiledArtifact({"x": float("nan")}, {})
    with pytest.raises(TypeError, match="must be bytes"):
        CompiledArtifact({}, {"o": "text"})  # type: ignore[dict-item]


def test_repr_and_dump() -> None:
    text = repr(make())
    assert "gemm" in text and "rocm:gfx942:w64" in text and "1 kernel;" in text and "hsaco 104 B" in text
    assert repr(CompiledArtifact({}, {})) == "<CompiledArtifact artifact: 0 kernels; empty>"
    out = io.StringIO()
    make().dump(out)
    make().dump(out, compiled=True)
    assert out.getvalue() == "µ\n; ir\n"


def test_save_and_load(tmp_path: Path) -> None:
    path = tmp_path / "x.flyaot"
    make().save(path)
    assert CompiledArtifact.load(path).metadata == make().metadata
    assert read_header(path)["name"] == "gemm"
    assert {entry["name"] for entry in read_header(path)["sections"]} == set(SECTIONS)
    assert [p.name for p in tmp_path.iterdir()] == ["x.flyaot"]


def test_layout_of_the_file() -> None:
    data = make().to_bytes()
    assert data.startswith(b"FLYART01")
    size = struct.unpack_from("<I", data, 8)[0]
    header = json.loads(data[12 : 12 + size])
    assert canonical_json(header) == data[12 : 12 + size]
    assert header["schema"] == 1 and header["kind"] == "jit"
    base = -(-(12 + size) // ALIGNMENT) * ALIGNMENT
    for entry in header["sections"]:
        start = base + entry["offset"]
        assert start % ALIGNMENT == 0
        assert data[start : start + entry["size"]] == SECTIONS[entry["name"]]
    assert hashlib.sha256(data[:-32]).digest() == data[-32:]


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.binary(max_size=200), max_size=5))
def test_any_sections(sections: dict[str, bytes]) -> None:
    header, found = unpack(pack({"a": 1}, sections))
    assert found == sections and header == {"a": 1, "schema": 1}


def test_every_truncation_is_found() -> None:
    data = make().to_bytes()
    for size in range(len(data)):
        with pytest.raises(ArtifactFormatError):
            CompiledArtifact.from_bytes(data[:size])
    for tail in (b"\0", b"x" * 64):
        with pytest.raises(ArtifactFormatError):
            CompiledArtifact.from_bytes(data + tail)


def test_every_flipped_byte_is_found() -> None:
    data = bytearray(make().to_bytes())
    for at in range(len(data)):
        data[at] ^= 1 << (at % 8)
        with pytest.raises(ArtifactFormatError):
            CompiledArtifact.from_bytes(bytes(data))
        data[at] ^= 1 << (at % 8)


@given(st.binary(max_size=200))
def test_foreign_bytes(data: bytes) -> None:
    for text in (data, MAGIC + data, resealed(MAGIC + data + bytes(32))):
        with pytest.raises(ArtifactFormatError):
            CompiledArtifact.from_bytes(text)


def _first(header: dict[str, Any], **changes: Any) -> None:
    header["sections"][0].update(changes)


@pytest.mark.parametrize(
    ("field", "edit"),
    [
        ("schema", lambda h: h.update(schema=2)),
        ("schema", lambda h: h.pop("schema")),
        ("sections", lambda h: h.pop("sections")),
        ("sections", lambda h: h.update(sections=[3])),
        ("sections", lambda h: _first(h, offset=1 << 40)),
        ("sections", lambda h: _first(h, offset=1)),
        ("sections", lambda h: _first(h, offset=-64)),
        ("sections", lambda h: _first(h, size=True)),
        ("sections", lambda h: _first(h, name=3)),
        ("sections", lambda h: _first(h, name="o")),
        ("codec", lambda h: _first(h, codec="pickle")),
        ("checksum", lambda h: _first(h, sha256="0" * 64)),
        ("length", lambda h: h["sections"].pop()),
        ("header", lambda h: b"[1]"),
        ("header", lambda h: b"{"),
        ("header", lambda h: b'{"a": NaN}'),
        ("header", lambda h: json.dumps(h).encode()),
        ("header", lambda h: b"[" * 100_000),
        ("header", lambda h: b"\xff\xfe"),
    ],
)
def test_damage_behind_a_good_checksum(field: str, edit: Any) -> None:
    with pytest.raises(ArtifactFormatError) as caught:
        CompiledArtifact.from_bytes(with_header(edit))
    assert caught.value.field == field
    assert isinstance(caught.value, FlyDSLError) and isinstance(caught.value, ValueError)


def test_header_longer_than_the_file(tmp_path: Path) -> None:
    data = resealed(MAGIC + struct.pack("<I", 2**32 - 1) + b"{}" + bytes(32))
    with pytest.raises(ArtifactFormatError, match="longer"):
        CompiledArtifact.from_bytes(data)
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(ArtifactFormatError, match="longer"):
        read_header(tmp_path / "f")
    (tmp_path / "f").write_bytes(b"nothing")
    with pytest.raises(ArtifactFormatError, match="magic|start"):
        read_header(tmp_path / "f")


def test_no_code_is_executed_on_load(tmp_path: Path) -> None:
    """A pickle that would create a file stays bytes, wherever it stands in the container."""
    mark = tmp_path / "executed"

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (mark,))

    evil = pickle.dumps(Evil())
    for data in (evil, MAGIC + evil, pack({"name": evil.hex()}, {"hsaco": evil, "__reduce__": evil})):
        try:
            CompiledArtifact.from_bytes(data)
        except ArtifactFormatError:
            continue
    assert not mark.exists()


def test_atomic_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    atomic_write(path, b"old")

    def fail(*args: object) -> None:
        raise OSError(5, "broken")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="broken"):
        atomic_write(path, b"new")
    assert path.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_light_import() -> None:
    code = (
        "import sys, flydsl.compiler.build.artifact, flydsl.compiler.cache, flydsl.compiler.key.cache_key, "
        "flydsl.compiler.key.walk as d\nd.function_key(d.function_key)\n"
        "bad = {'xdsl', 'llvmlite', 'numpy', 'torch', 'pickle'} & set(sys.modules)\nassert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
