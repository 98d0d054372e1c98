"""Machine code of host functions beside the disk cache: made once, checked, and never needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from flydsl.compiler.cache import clear, default_cache
from flydsl.compiler.cache.host_code import host_code
from flydsl.llvm import host_jit

TEXT = "define i64 @f(i64 %x) { %r = mul i64 %x, 3 ret i64 %r }"
PASSES = ("add_sroa_pass",)


@pytest.fixture(autouse=True)
def _root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o700)


def files(root: Path) -> list[Path]:
    return sorted((root / "cache" / "host").glob("*"))


def test_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = host_code(TEXT, PASSES)
    (file,) = files(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(host_jit, "compile_portable", None)
        assert host_code(TEXT, PASSES) == made
    # Another text, or other passes, are other code.
    assert host_code(TEXT.replace("3", "5"), PASSES) != made
    host_code(TEXT, ("add_sroa_pass", "add_simplify_cfg_pass"))
    assert len(files(tmp_path)) == 3
    # What is damaged is made again.
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert host_code(TEXT, PASSES) == made
    with monkeypatch.context() as patch:
        patch.setattr(host_jit, "compile_portable", None)
        assert host_code(TEXT, PASSES) == made


def test_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
        assert host_code(TEXT, PASSES)
    with monkeypatch.context() as patch:
        patch.setenv("FLYDSL_RUNTIME_CACHE_READONLY", "1")
        assert host_code(TEXT, PASSES)
    assert files(tmp_path) == []


def test_others_cannot_put_it_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = host_code(TEXT, PASSES)
    (file,) = files(tmp_path)
    file.chmod(0o666)
    with monkeypatch.context() as patch:
        patch.setattr(host_jit, "compile_portable", lambda *_: b"made again")
        with pytest.warns(UserWarning, match="ignored"):
            assert host_code(TEXT, PASSES) == b"made again" != made


def test_cleared_with_the_cache(tmp_path: Path):
    host_code(TEXT, PASSES)
    clear(cache=default_cache())
    assert files(tmp_path) == []
