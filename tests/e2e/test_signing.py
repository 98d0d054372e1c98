"""Signed artifacts and load hooks: whose code a process runs."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import trusted_files
from flydsl.compiler.build import signing
from flydsl.compiler.build.artifact import ArtifactFormatError, CompiledArtifact
from flydsl.compiler.cache import DiskCache, Settings, stats
from flydsl.errors import (
    ArtifactHookError,
    ArtifactSignatureError,
    CacheWarning,
    ConfigError,
    DSLValueError,
    MissingPackageError,
)
from flydsl.tools.fly import main as fly

K = "ab" * 32


@flyc.kernel
def shift_kernel(x: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 32 + fx.thread_idx.x
    if i < n:
        x[i] = x[i] + 3


@flyc.jit
def shift(x: fx.Tensor, n: fx.Int32):
    shift_kernel(x, n).launch(grid=fx.ceildiv(n, 32), block=32)


def arguments() -> tuple[Any, ...]:
    return np.arange(41, dtype=np.int32), 41


def works(loaded: Any) -> None:
    x, n = arguments()
    loaded(x, n)
    np.testing.assert_array_equal(x, np.arange(41) + 3)


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    pytest.importorskip("cryptography", reason="signing needs the package cryptography (extra `sign`)")
    return signing.generate(tmp_path / "key")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "warned", set())
    monkeypatch.setattr(trusted_files, "_warned", set())


# --- exported functions ---------------------------------------------------------------------------------------------


def test_signed_and_unsigned(tmp_path: Path, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    private, public = keys
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    signed, plain = tmp_path / "signed.fly", tmp_path / "plain.fly"
    flyc.export(shift, signed, args=arguments(), sign=private)
    flyc.export(shift, plain, args=arguments())
    for path in (signed, plain):  # a signature hinders nobody who does not ask for it
        works(flyc.load(path))
    monkeypatch.setenv("FLYDSL_AOT_TRUSTED_KEYS", str(public))
    works(flyc.load(signed))
    with pytest.raises(ArtifactSignatureError, match="plain.fly is refused: it is not signed"):
        flyc.load(plain)
    other = signing.generate(tmp_path / "other")[1]
    monkeypatch.setenv("FLYDSL_AOT_TRUSTED_KEYS", str(other))
    with pytest.raises(ArtifactSignatureError, match="not signed with one of the 1 keys"):
        flyc.load(signed)
    folder = tmp_path / "trusted"
    folder.mkdir()
    monkeypatch.setenv("FLYDSL_AOT_TRUSTED_KEYS", str(folder))
    with pytest.raises(ArtifactSignatureError, match="there are none"):
        flyc.load(signed)
    for path in (public, other):
        (folder / path.name).write_bytes(path.read_bytes())
    works(flyc.load(signed))


def test_every_change_breaks_the_signature(
    tmp_path: Path, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    private, public = keys
    path = tmp_path / "x.fly"
    flyc.export(shift, path, args=arguments(), sign=private)
    data = path.read_bytes()
    container, block = signing.split(data)
    assert len(block) == signing.SIZE and signing.split(container)[1] == b""
    monkeypatch.setenv("FLYDSL_AOT_TRUSTED_KEYS", str(public))
    rng = np.random.default_rng()
    for at in (*rng.integers(0, len(data), 40), len(data) - 1, len(container), len(container) + 9):
        changed = bytearray(data)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises((ArtifactSignatureError, ArtifactFormatError)):
            flyc.load(path)
    # Someone else's container behind a good block.
    flyc.export(shift, path, args=arguments(), include=("device", "host"))
    path.write_bytes(path.read_bytes() + block)
    with pytest.raises(ArtifactSignatureError, match="changed after signing"):
        flyc.load(path)
    path.write_bytes(data)
    works(flyc.load(path))


def test_bad_keys(tmp_path: Path, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    private, public = keys
    out = tmp_path / "x.fly"
    public.chmod(0o600)
    with pytest.raises(DSLValueError, match="is there already"):
        signing.generate(private)
    with pytest.raises(DSLValueError, match="no private key"):
        flyc.export(shift, out, args=arguments(), sign=public)
    private.chmod(0o640)
    with pytest.raises(DSLValueError, match="others have access .*chmod 600"):
        flyc.export(shift, out, args=arguments(), sign=private)
    with pytest.raises(DSLValueError, match="cannot be read: No such file"):
        flyc.export(shift, out, args=arguments(), sign=tmp_path / "missing")
    curve = tmp_path / "curve"
    text = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    curve.write_bytes(text)
    curve.chmod(0o600)
    with pytest.raises(DSLValueError, match="not an Ed25519 key"):
        flyc.export(shift, out, args=arguments(), sign=curve)
    assert not out.exists()
    flyc.export(shift, out, args=arguments())
    for place, match in ((tmp_path / "missing", "cannot be read"), (curve, "no public key")):
        monkeypatch.setenv("FLYDSL_AOT_TRUSTED_KEYS", str(place))
        with pytest.raises(ConfigError, match=match):
            flyc.load(out)


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.fly"
    flyc.export(shift, path, args=arguments())
    for name in [m for m in sys.modules if m.split(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    works(flyc.load(path))
    with pytest.raises(MissingPackageError, match=r"need the package cryptography: install flydsl\[sign\]"):
        flyc.export(shift, tmp_path / "y.fly", args=arguments(), sign=tmp_path / "key")
    monkeypatch.setenv("FLYDSL_AOT_TRUSTED_KEYS", str(tmp_path))
    with pytest.raises(MissingPackageError, match=r"flydsl\[sign\]"):
        flyc.load(path)
    assert fly(["aot", "keygen", str(tmp_path / "key")]) == 2


# --- caches ---------------------------------------------------------------------------------------------------------


def test_caches_that_were_made_elsewhere(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    private, public = keys
    root = tmp_path / "shipped"
    writer = DiskCache(root)
    writer.put(K, CompiledArtifact({"name": "gemm"}, {"o": b"x"}))
    settings = Settings(tmp_path / "own", read_roots=(root,), trusted_keys=(public,))
    with pytest.warns(CacheWarning, match="is ignored: .*it is not signed"):
        assert DiskCache(settings).get(K) is None
    path = writer.path_of(K)
    assert path is not None
    path.write_bytes(signing.sign(path.read_bytes(), signing.read_private_key(private)))
    found = DiskCache(settings).get(K)
    assert found is not None and found.name == "gemm"
    # What this process compiles itself, it trusts.
    own = DiskCache(settings)
    assert own.put("cd" * 32, CompiledArtifact({"name": "mine"}, {"o": b"x"})) and own.get("cd" * 32) is not None


MODULE = """
import flydsl.compiler as flyc, flydsl.expr as fx
@flyc.kernel
def add_kernel(x: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 32 + fx.thread_idx.x
    if i < n:
        x[i] = x[i] + 5
@flyc.jit
def add(x: fx.Tensor, n: fx.Int32):
    add_kernel(x, n).launch(grid=fx.ceildiv(n, 32), block=32)
"""
MANIFEST = {
    "version": 1,
    "targets": ["cpu:native"],
    "kernels": [
        {
            "function": "mod.py:add",
            "arguments": {"x": {"tensor": [37], "dtype": "int32"}, "n": {"scalar": "Int32"}},
        }
    ],
}


def test_built_and_signed_from_the_command_line(tmp_path: Path, keys: tuple[Path, Path], capsys: Any) -> None:
    private, public = tmp_path / "ci", tmp_path / "ci.pub"
    assert fly(["aot", "keygen", str(private)]) == 0 and public.is_file()
    assert f"FLYDSL_AOT_TRUSTED_KEYS={public}" in capsys.readouterr().out
    assert fly(["aot", "keygen", str(private)]) == 2
    (tmp_path / "mod.py").write_text(MODULE)
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps(MANIFEST))
    out = tmp_path / "out"
    assert fly(["aot", "build", str(manifest), "--out", str(out), "--sign", str(tmp_path / "nokey")]) == 2
    assert not out.exists()
    assert fly(["aot", "build", str(manifest), "--out", str(out), "--sign", str(private), "--check"]) == 2
    assert fly(["aot", "build", str(manifest), "--out", str(out), "--sign", str(private)]) == 0
    (entry,) = out.rglob("*.fly")
    assert signing.split(entry.read_bytes())[1]
    code = """
    import sys, warnings, numpy as np
    sys.path.insert(0, sys.argv[1])
    warnings.simplefilter("error")
    import mod
    from flydsl.compiler.cache import totals
    x = np.zeros(37, np.int32)
    mod.add(x, 37)
    assert (x == 5).all()
    print(totals.compilations)
    """

    def start(**env: str) -> subprocess.CompletedProcess[str]:
        names = {"FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path / "own"), "FLYDSL_RUNTIME_CACHE_PATH": str(out), **env}
        words = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
        return subprocess.run(words, env={**os.environ, **names}, capture_output=True, text=True)

    done = start(FLYDSL_AOT_TRUSTED_KEYS=str(public))
    assert (done.stdout, done.stderr) == ("0\n", "")
    assert "it is not signed with" in start(FLYDSL_AOT_TRUSTED_KEYS=str(keys[1])).stderr
    assert json.loads((out / "index.json").read_text())["entries"]


# --- load hooks -----------------------------------------------------------------------------------------------------


@pytest.fixture
def hooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An exported file that names a hook of a module which nobody imported."""
    (tmp_path / "hook_module.py").write_text("seen = []\ndef hook(handle):\n    seen.append(handle)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "hook_module", raising=False)
    path = tmp_path / "x.fly"
    flyc.export(shift, path, args=arguments())
    from flydsl.compiler.build.artifact import pack, unpack

    header, sections = unpack(path.read_bytes())
    for group in header["targets"]:
        group["load_hooks"] = ["hook_module:hook"]
    path.write_bytes(pack(header, sections))
    return path


def test_a_file_does_not_choose_what_is_imported(hooked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArtifactHookError, match=r"hook hook_module:hook.*not imported.*hook_modules=\['hook_module'\]"):
        flyc.load(hooked)
    assert "hook_module" not in sys.modules
    works(flyc.load(hooked, hook_modules=["hook_module"]))
    assert len(sys.modules["hook_module"].seen) == 1
    works(flyc.load(hooked))  # imported by now
    assert len(sys.modules["hook_module"].seen) == 2
    monkeypatch.delitem(sys.modules, "hook_module")
    monkeypatch.setenv("FLYDSL_AOT_HOOK_MODULES", "hook_module")
    works(flyc.load(hooked))
    assert len(sys.modules["hook_module"].seen) == 1
    monkeypatch.delitem(sys.modules, "hook_module")


def test_an_entry_with_an_unknown_hook_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache.put(K, CompiledArtifact({"name": "gemm", "load_hooks": ["never_imported_module:hook"]}, {"o": b"x"}))
    assert cache.get(K) is None and "never_imported_module" not in sys.modules
    monkeypatch.setenv("FLYDSL_AOT_HOOK_MODULES", "never_imported_module")
    assert cache.get(K) is not None
