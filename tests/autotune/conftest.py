"""What the tests of the tuner share: folders of their own, and one small kernel with a knob."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Winners go to a folder of this test; nothing of the caller's shell decides."""
    for name in ("", "_CONFIG_DIR", "_BUDGET_S", "_TIMEOUT_S", "_PRINT"):
        monkeypatch.delenv(f"FLYDSL_AUTOTUNE{name}", raising=False)
    monkeypatch.delenv("FLYDSL_CACHE_REMOTE", raising=False)
    monkeypatch.setenv("FLYDSL_AUTOTUNE_JOBS", "1")
    folder = tmp_path / "winners"
    monkeypatch.setenv("FLYDSL_AUTOTUNE_CACHE_DIR", str(folder))
    return folder
