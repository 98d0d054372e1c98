"""Where tools are looked for, and which versions are taken."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from flydsl.llvm import tools


def fake(folder: Path, name: str, says: str, *, executable: bool = True) -> Path:
    """A script that answers --version."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755 if executable else 0o644)
    return path


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No tools anywhere but under tmp_path."""
    monkeypatch.setattr(tools, "_LLVM_PREFIXES", (str(tmp_path / "prefix"),))
    for name in [n for n in os.environ if n.startswith("FLYDSL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path1'}{os.pathsep}{tmp_path / 'path2'}")
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "rocm"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))


def test_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Each better place, once there, wins over the worse ones."""
    places = [
        fake(tmp_path / "prefix/bin", "ld.lld", "LLD 22.1.0"),
        fake(tmp_path / "path1", "ld.lld-20", "LLD 20.1.0"),
        fake(tmp_path / "path2", "ld.lld-23", "LLD 23.0.0"),
        fake(tmp_path / "path2", "ld.lld", "Debian LLD 19.1.7 (compatible with GNU linkers)"),
        fake(tmp_path / "path2", "ld.lld-22", "LLD 22.1.8"),
        fake(tmp_path / "rocm/llvm/bin", "ld.lld", "AMD LLD 20.0.0 (roc-7.0)"),
        fake(tmp_path / "mine/bin", "ld.lld", "LLD 21.0.0"),
        fake(tmp_path / "own", "linker", "LLD 22.0.0"),
    ]
    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_DIR", str(tmp_path / "mine"))
    monkeypatch.setenv("FLYDSL_COMPILE_LLD", str(places[-1]))
    assert tools.find_tool("ld.lld").path == places[-1]
    monkeypatch.delenv("FLYDSL_COMPILE_LLD")
    for path in reversed(places[:-1]):
        assert tools.find_tool("ld.lld").path == path
        path.unlink()
    with pytest.raises(tools.ToolNotFoundError):
        tools.find_tool("ld.lld")


def test_old_linkers_are_passed_over(tmp_path: Path):
    fake(tmp_path / "path1", "ld.lld", "LLD 14.0.6")
    with pytest.raises(tools.ToolVersionError, match="14.0.6.*19 or newer"):
        tools.find_tool("ld.lld")
    assert tools.try_find_tool("ld.lld") is None
    good = fake(tmp_path / "path2", "ld.lld-19", "LLD 19.1.7")
    tool = tools.find_tool("ld.lld")
    assert tool.path == good and tool.version == (19, 1, 7)


def test_explicit_old_linker_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    old = fake(tmp_path, "old", "LLD 14.0.6")
    fake(tmp_path / "path1", "ld.lld", "LLD 22.1.8")
    monkeypatch.setenv("FLYDSL_COMPILE_LLD", str(old))
    for find in (tools.find_tool, tools.try_find_tool):
        with pytest.raises(tools.ToolVersionError, match="FLYDSL_COMPILE_LLD.*14.0.6"):
            find("ld.lld")
    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_ALLOW_MISMATCH", "1")
    assert tools.find_tool("ld.lld").path == old


def test_llvm_tools_need_the_same_major(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    fake(tmp_path / "path1", "opt", "LLVM version 19.1.7")
    with pytest.raises(tools.ToolVersionError, match="19.1.7.*LLVM 22"):
        tools.find_tool("opt")
    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_ALLOW_MISMATCH", "1")
    assert tools.find_tool("opt").version == (19, 1, 7)
    monkeypatch.delenv("FLYDSL_COMPILE_LLVM_ALLOW_MISMATCH")
    good = fake(tmp_path / "path2", "opt-22", "Ubuntu LLVM version 22.1.8")
    assert tools.find_tool("opt").path == good


def test_prefix_tool_of_wrong_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    fake(tmp_path / "mine/bin", "llc", "LLVM version 21.0.0")
    fake(tmp_path / "path1", "llc-22", "LLVM version 22.1.8")
    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_DIR", str(tmp_path / "mine"))
    with pytest.raises(tools.ToolVersionError, match="21.0.0"):
        tools.try_find_tool("llc")


def test_missing_lists_candidates(tmp_path: Path):
    with pytest.raises(tools.ToolNotFoundError) as caught:
        tools.find_tool("llc")
    text = str(caught.value)
    assert str(tmp_path / "path1/llc-22") in text and str(tmp_path / "prefix/bin/llc") in text
    assert "FLYDSL_COMPILE_LLC" in text


def test_not_executable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    path = fake(tmp_path / "path1", "llc", "LLVM version 22.1.0", executable=False)
    with pytest.raises(tools.ToolNotFoundError, match="llc \\(not executable\\)"):
        tools.find_tool("llc")
    monkeypatch.setenv("FLYDSL_COMPILE_LLC", str(path))
    with pytest.raises(tools.ToolNotFoundError, match="is there but is not executable"):
        tools.find_tool("llc")
    monkeypatch.setenv("FLYDSL_COMPILE_LLC", str(tmp_path / "absent"))
    with pytest.raises(tools.ToolNotFoundError, match="no such file"):
        tools.try_find_tool("llc")


def test_version_is_asked_once_per_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    path = fake(tmp_path / "path1", "ld.lld", "LLD 20.0.0")
    calls: list[object] = []
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: (calls.append(a), run(*a, **k))[1])
    assert tools.find_tool("ld.lld").version == (20, 0, 0)
    assert tools.find_tool("ld.lld").version == (20, 0, 0)
    assert len(calls) == 1
    path.write_text("#!/bin/sh\necho 'LLD 21.10.0'\n")
    assert tools.find_tool("ld.lld").version == (21, 10, 0)
    assert len(calls) == 2


def test_ptxas(tmp_path: Path):
    path = fake(tmp_path / "cuda/bin", "ptxas", "Cuda compilation tools, release 13.0, V13.0.88")
    assert tools.find_tool("ptxas").path == path
    assert tools.find_tool("ptxas").version == (13, 0)


def test_unknown_tool():
    with pytest.raises(tools.ToolNotFoundError, match="unknown tool 'clang'"):
        tools.try_find_tool("clang")


def script(tmp_path: Path, body: str) -> tools.Tool:
    path = tmp_path / "tool"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return tools.Tool("tool", path, (1,), "tool 1")


def test_failures_name_command_and_output(tmp_path: Path):
    with pytest.raises(tools.ToolRunError) as caught:
        tools.run_tool(script(tmp_path, "echo out; echo err >&2; exit 3"), ["-x"], cwd=tmp_path)
    text = str(caught.value)
    for part in ("status 3", "tool 1", "-x", f"directory: {tmp_path}", "stdout:\nout", "stderr:\nerr"):
        assert part in text
    with pytest.raises(tools.ToolRunError, match="killed by SIGABRT"):
        tools.run_tool(script(tmp_path, "kill -ABRT $$"), [])


def test_timeout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_TIMEOUT", "0.1")
    with pytest.raises(tools.ToolRunError, match="within 0.1 s"):
        tools.run_tool(script(tmp_path, "exec /bin/sleep 5"), [])
    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_TIMEOUT", "soon")
    with pytest.raises(tools.ExternalLLVMError, match="number of seconds"):
        tools.tool_timeout()


def test_prefix_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    prefix = tmp_path / "mine"
    path = fake(prefix / "bin", "llc", "$PATH $LD_LIBRARY_PATH")
    path.write_text('#!/bin/sh\necho "$PATH $LD_LIBRARY_PATH"\n')
    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_DIR", str(prefix))
    done = tools.run_tool(tools.Tool("llc", path, (22,), ""), [])
    assert done.stdout.startswith(f"{prefix}/bin{os.pathsep}") and f"{prefix}/lib" in done.stdout
