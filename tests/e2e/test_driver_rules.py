"""The driver's rules one by one: binding, keys in memory, modes, compiled functions, exports."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.backends import parse_target
from flydsl.compiler.ship.aot_checks import choose
from flydsl.errors import ArtifactMismatchError
from flydsl.runtime import Stream
from flydsl.tools import fly


@flyc.kernel
def scale_kernel(x: fx.Tensor, n: fx.Int32, by: fx.Constexpr[int]):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        x[i] = x[i] * by


@flyc.jit
def scale(x: fx.Tensor, n: fx.Int32, by: fx.Constexpr[int] = 2, stream: fx.Stream = fx.Stream(None)):
    scale_kernel(x, n, by).launch(grid=fx.ceildiv(n, 64), block=64, stream=stream)


SPEC = flyc.TensorSpec((10,), "int32")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def data(n: int = 130) -> np.ndarray:
    return np.random.default_rng().integers(-1000, 1000, n).astype(np.int32)


def key(*args: Any, fn: Any = scale) -> Any:
    return fn.bind(args, {}).key


# --- arguments ----------------------------------------------------------------------------------------------------


def test_c1_string_annotations_are_evaluated_and_unknown_ones_warn_once():
    @flyc.jit
    def known(x: fx.Tensor, by: fx.Constexpr[int]):
        pass

    kinds = {name: p.kind for name, p in known.signature.parameters.items()}
    assert kinds == {"x": "value", "by": "constexpr"}

    @flyc.jit
    def unknown(x: fx.Tensor, by: NoSuchType):  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
        pass

    with pytest.warns(UserWarning, match="unknown: cannot resolve the annotation of 'by'"):
        _ = unknown.signature
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _ = unknown.signature


def test_c2_constexprs_and_types_are_part_of_the_key():
    @flyc.jit
    def typed(x: fx.Tensor, dtype: type[fx.Float32], size: fx.Constexpr[tuple]):
        pass

    def of(dtype: Any, size: Any) -> Any:
        return key(SPEC, dtype, size, fn=typed)

    assert len({of(fx.Float32, (1, 2)), of(fx.Float16, (1, 2)), of(fx.Float32, (1, 3)), of(fx.Float32, (1, 2.0))}) == 4
    with pytest.raises(TypeError, match="parameter 'dtype' expects a class"):
        of(3, (1,))


def test_c3_numbers_and_what_has_no_adapter():
    @flyc.jit
    def free(a, b, c):
        pass

    assert [type(a).__name__ for a in free.bind((True, 3, 2.5), {}).adapted.values()] == ["ScalarArgument"] * 3
    assert [a.dtype for a in free.bind((True, 3, 2.5), {}).adapted.values()] == [fx.Boolean, fx.Int32, fx.Float32]
    with pytest.raises(OverflowError, match="Int64"):
        free.bind((2**31, 1, 1), {})
    with pytest.raises(TypeError, match="parameter 'a'.*object"):
        free.bind((object(), 1, 1), {})


def test_c4_values_of_scalars_and_streams_are_not_in_the_key():
    assert key(SPEC, 3, 2) == key(SPEC, 4, 2) == key(SPEC, 4, 2, fx.Stream(7))
    assert key(SPEC, 3, 2) != key(SPEC, 3, 4)


def test_c5_markers_accumulate_and_are_checked():
    a = np.zeros((4, 6, 8), np.float32)

    def tensor() -> Any:
        return flyc.from_dlpack(a)

    assert tensor().signature() != flyc.TensorSpec((4, 6, 8), "float32").argument().signature()
    marked = tensor().mark_shape_dynamic([0, -1], divisibility=[2, 4]).mark_stride_dynamic(0, divisibility=16)
    assert (marked.shape, marked.strides) == ([None, 6, None], [None, 8, 1])
    assert marked.shape_div[0] == 2 and marked.shape_div[2] == 4 and marked.stride_div[0] == 16
    for wrong, message in (
        (lambda: tensor().mark_shape_dynamic(3), "out of range|range"),
        (lambda: tensor().mark_shape_dynamic([0, 1], divisibility=[2]), "length|divisibilit"),
        (lambda: tensor().mark_shape_dynamic(0, divisibility=3), "power of two"),
        (lambda: flyc.from_dlpack(a[:, :, ::2]).mark_layout_dynamic(), "stride 1"),
    ):
        with pytest.raises((ValueError, RuntimeError), match=message):
            wrong()


def test_c6_signatures_do_not_depend_on_the_framework():
    torch = pytest.importorskip("torch")
    a = np.zeros((3, 5), np.float32)
    assert key(a, 1) == key(torch.from_numpy(a), 1) == key(flyc.TensorSpec((9, 9), "float32"), 1)
    static = flyc.from_dlpack(a)
    assert key(static, 1) == key(flyc.from_dlpack(torch.from_numpy(a)), 1)
    broadcast = np.broadcast_to(np.zeros(5, np.float32), (3, 5))
    assert flyc.from_dlpack(broadcast).strides == [0, 1]
    with pytest.raises(ValueError, match="negative strides"):
        flyc.from_dlpack(a[::-1])


def test_c7_sizes_beyond_31_bits():
    with pytest.raises(OverflowError, match="extent 2147483648 does not fit 32 bits"):
        argument = flyc.TensorSpec((2**31,), "int8").argument()
        argument.check()
    # Only addresses are needed: 3e9 elements on top of one.
    far = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), (50_000, 60_000), (60_000, 1))
    flyc.from_dlpack(far).mark_layout_dynamic().check()
    for narrow in (flyc.from_dlpack(far), flyc.from_dlpack(far, use_32bit_stride=True).mark_layout_dynamic()):
        with pytest.raises(OverflowError, match="reaches element 2999999999, which does not fit 32 bits"):
            narrow.check()


class Filter:
    def __init__(self, by: int):
        self.by = by

    @flyc.jit
    def apply(self, x: fx.Tensor, n: fx.Int32):
        scale_kernel(x, n, self.by).launch(grid=fx.ceildiv(n, 64), block=64)


def test_c8_methods_are_compiled_per_class_and_state():
    x = data()
    for by in (3, 5):
        y = x.copy()
        Filter(by).apply(y, len(y))
        np.testing.assert_array_equal(y, x * by)
    compiled = flyc.compile(Filter(7).apply, x, len(x))
    y = x.copy()
    compiled(y, len(y))
    np.testing.assert_array_equal(y, x * 7)


def test_c9_a_value_that_contradicts_its_annotation_is_an_error():
    with pytest.raises(TypeError, match="parameter 'n' expects Int32, got 'three'"):
        scale(data(), "three")


def test_c10_a_stream_parameter_is_not_needed():
    @flyc.jit
    def plain(x: fx.Tensor, n: fx.Int32):
        scale_kernel(x, n, 3).launch(grid=fx.ceildiv(n, 64), block=64)

    x = data()
    y = x.copy()
    plain(y, len(y))
    np.testing.assert_array_equal(y, x * 3)


@fx.struct
class Line:
    slope: fx.Float32
    offset: fx.Int32
    power: fx.Constexpr[int]


@flyc.kernel
def line_kernel(x: fx.Tensor, line: Line):
    i = fx.thread_idx.x
    x[i] = x[i] * line.slope + fx.Float32(line.offset) * line.power


@flyc.jit
def along(x: fx.Tensor, line: Line):
    line_kernel(x, line).launch(grid=1, block=8)


def test_c56_structs_of_numbers_are_served_by_the_generated_call(monkeypatch: pytest.MonkeyPatch):
    def check(slope: float, offset: int, power: int) -> None:
        x = np.random.default_rng().standard_normal(8).astype(np.float32)
        y = x.copy()
        along(y, Line(slope, offset, power))
        np.testing.assert_allclose(y, x.astype(np.float64) * slope + offset * power, rtol=1e-5, atol=1e-5)

    check(2.0, 3, 1)
    check(-2.0, 1, 1)  # makes the generated call
    with monkeypatch.context() as patch:
        patch.setattr(flyc.JitFunction, "bind", lambda *_: pytest.fail("not served by the generated call"))
        for slope, offset in ((0.5, -7), (3.25, 2**30), (-1.0, 0)):
            check(slope, offset, 1)
    check(2.0, 3, 5)  # another class: compiled for it
    check(2.5, 4, 1)
    with pytest.raises(TypeError, match="expects Line"):
        along(np.zeros(8, np.float32), 3)


# --- memory -------------------------------------------------------------------------------------------------------


def test_c16_nested_jit_functions_are_inlined_and_count_for_the_key():
    @flyc.jit
    def outer(x: fx.Tensor, n: fx.Int32):
        scale(x, n, 3)
        scale(x, n, 5)

    x = data()
    y = x.copy()
    outer(y, len(y))
    np.testing.assert_array_equal(y, x * 15)


def test_c17_source_that_is_not_there(tmp_path: Path):
    scope: dict[str, Any] = {"flyc": flyc, "fx": fx}
    with pytest.raises(OSError, match="source"):
        exec("@flyc.jit\ndef f(x: fx.Tensor):\n    pass\n", scope)


def test_c18_editing_the_file_after_import_changes_nothing(tmp_path: Path):
    path = tmp_path / "edited.py"
    text = (
        "import sys, numpy as np, flydsl.compiler as flyc, flydsl.expr as fx\n"
        "@flyc.kernel\n"
        "def k(x: fx.Tensor):\n"
        "    x[0] = x[0] * 3\n"
        "@flyc.jit\n"
        "def f(x: fx.Tensor):\n"
        "    k(x).launch(grid=1, block=1)\n"
    )
    path.write_text(text)
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import edited, numpy as np\n"
        f"open({str(path)!r}, 'w').write(\"raise SystemExit('edited')\\n\" * 40)\n"
        "x = np.array([5], np.int32); edited.f(x); assert x[0] == 15\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_c23_invalidate(cache: Path):
    flyc.compile(scale, SPEC, 10, 31, target="cuda:sm_90")
    assert scale.cache_info().currsize > 0
    scale.invalidate()
    assert scale.cache_info().currsize == 0
    flyc.compile(scale, SPEC, 10, 31, target="cuda:sm_90")
    flyc.invalidate_all()
    assert scale.cache_info().currsize == 0
    assert len(list(cache.rglob("*.fly"))) == 1


def test_c24_memory_is_bounded_when_asked(monkeypatch: pytest.MonkeyPatch):
    scale.invalidate()
    monkeypatch.setenv("FLYDSL_RUNTIME_MEM_CACHE_ENTRIES", "2")
    x = data()
    for by in (2, 3, 2, 4):
        y = x.copy()
        flyc.compile(scale, y, len(y), by, run=False)
        scale(y, len(y), by)
        np.testing.assert_array_equal(y, x * by)
    assert scale.cache_info().currsize == 2
    misses = scale.cache_info().misses
    flyc.compile(scale, x, len(x), 2, run=False)  # used more recently than 3, so still there
    assert scale.cache_info().misses == misses
    flyc.compile(scale, x, len(x), 3, run=False)
    assert scale.cache_info().misses == misses + 1


def test_c24_artifacts_live_without_a_disk_cache(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    scale.invalidate()
    x = data()
    y = x.copy()
    for _ in range(3):
        scale(y, len(y), 2)
    np.testing.assert_array_equal(y, x * 8)
    info = scale.cache_info()
    assert info.currsize == 1 and info.disk_size is None


def test_c26_counters(cache: Path):
    before = scale.cache_stats()
    flyc.compile(scale, SPEC, 10, 41, target="cuda:sm_90")
    scale.invalidate()
    flyc.compile(scale, SPEC, 10, 41, target="cuda:sm_90")
    after = scale.cache_stats()
    more = {name: after[name] - before[name] for name in after}
    assert (more["hits"], more["misses"] > 0, more["writes"], more["compilations"]) == (1, True, 1, 1)
    assert more["compile_seconds"] > 0 and more["bytes_read"] == more["bytes_written"] > 1000
    assert scale.cache_info()._fields == ("hits", "misses", "currsize", "disk_size")


def test_c40_show_an_entry(cache: Path, capsys: pytest.CaptureFixture[str]):
    made = flyc.compile(scale, SPEC, 10, 43, target="rocm:gfx942").artifact
    assert fly.main(["cache", "show", made.key[:10]]) == 0
    shown = capsys.readouterr().out
    assert made.key in shown and '"scale"' in shown and "section   hsaco" in shown
    assert fly.main(["cache", "show", "zz"]) == 1
    assert "0 entries match 'zz'" in capsys.readouterr().err


# --- modes ----------------------------------------------------------------------------------------------------------


def test_c43_compile_only_takes_specs_and_returns_none(cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COMPILE_ONLY", "1")
    assert scale(SPEC, flyc.ScalarSpec(fx.Int32), 47) is None
    x = data()
    assert scale(x.copy(), len(x), 47) is None
    assert len(list(cache.rglob("*.fly"))) == 1


def test_c46_always_compiles_and_overwrites(cache: Path, monkeypatch: pytest.MonkeyPatch):
    flyc.compile(scale, SPEC, 10, 53, target="cuda:sm_90")
    (entry,) = cache.rglob("*.fly")
    old = entry.stat().st_ino
    scale.invalidate()
    monkeypatch.setenv("FLYDSL_COMPILE_ALWAYS", "1")
    heard: list[bool] = []
    with flyc.compile_listener(lambda *about: heard.append(about[4])):
        flyc.compile(scale, SPEC, 10, 53, target="cuda:sm_90")
    assert heard == [False] and entry.stat().st_ino != old


# --- compile, prepare, export -----------------------------------------------------------------------------------------


def test_c47_compile_forms():
    assert flyc.compile(scale, SPEC, 10, target="rocm:gfx942").artifact.metadata["target"] == "rocm:gfx942:w64"
    hinted = flyc.compile[{"opt_level": 1}](scale, SPEC, 10, target="cuda:sm_90").artifact
    assert hinted.metadata["hints"] == {"opt_level": 1}
    with pytest.raises(TypeError, match="takes a dict of hints"):
        flyc.compile["fast"]
    with pytest.raises(TypeError, match="expects a @flyc.jit function"):
        flyc.compile(print)


def test_c48_compile_runs_once_on_real_arrays_of_the_active_target():
    x = data()
    y = x.copy()
    compiled = flyc.compile(scale, y, len(y), 59)
    np.testing.assert_array_equal(y, x * 59)
    flyc.compile(scale, y, len(y), 59)  # from the cache it runs as well
    np.testing.assert_array_equal(y, x * 59 * 59)
    z = x.copy()
    for still in (
        lambda: flyc.compile(scale, z, len(z), 59, run=False),
        lambda: flyc.compile(scale, z, len(z), 59, target="rocm:gfx942"),
        lambda: flyc.compile(scale, z, flyc.ScalarSpec("int32"), 59),
    ):
        still()
        np.testing.assert_array_equal(z, x)
    compiled(z, len(z), 59)
    np.testing.assert_array_equal(z, x * 59)
    flyc.compile(scale, flyc.TensorSpec(x.shape, "float32"), len(x), 59)
    with pytest.raises(TypeError, match="leave target= out"):
        flyc.compile(scale, z, len(z), 59, target="rocm:gfx942", run=True)


def test_c48_compile_takes_keywords():
    x = data()
    y = x.copy()
    flyc.compile(scale, x=y, n=len(y), by=59)
    np.testing.assert_array_equal(y, x * 59)


def test_c49_compile_in_compile_only_mode(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COMPILE_ONLY", "1")
    x = data()
    compiled = flyc.compile(scale, x, len(x), 61)
    assert len(compiled.artifact.binary()) > 100
    with pytest.raises(RuntimeError, match="compile-only mode"):
        compiled(x, len(x), 61)


def test_c51_what_an_artifact_offers(tmp_path: Path):
    made = flyc.compile(scale, SPEC, 10, target="rocm:gfx942").artifact
    assert made.binary() == made.binary("hsaco") and made.binary()[:4] == b"\x7fELF"
    with pytest.raises(ValueError, match="hsaco"):
        made.binary("cubin")
    assert "s_endpgm" in made.asm and "amdgpu_kernel void @scale_kernel_0" in made.llvm_ir
    assert "gpu.module" in made.source_ir
    assert made.kernels[0]["name"] == "scale_kernel_0" and made.metadata["llvm_version"].startswith("22.")
    made.save(tmp_path / "scale.fly")
    assert flyc.CompiledArtifact.load(tmp_path / "scale.fly").binary() == made.binary()


def test_c52_what_an_export_includes(tmp_path: Path):
    path = tmp_path / "scale.flyaot"
    flyc.export(scale, path, args=(SPEC, 10), targets=["rocm:gfx942"], include=("device", "host", "fly", "asm"))
    artifact = flyc.load(path).artifact("rocm:gfx942")
    assert {"hsaco", "host", "fly", "asm"} <= set(artifact.sections) and "llvm" not in artifact.sections
    flyc.export(scale, path, args=(SPEC, 10), targets=["rocm:gfx942"], include=("device", "host"))
    assert "fly" not in flyc.load(path).artifact("rocm:gfx942").sections
    for wrong in (("device",), ("device", "host", "lyrics")):
        with pytest.raises(ValueError, match="include takes 'device', 'host'"):
            flyc.export(scale, path, args=(SPEC, 10), targets=["rocm:gfx942"], include=wrong)


@pytest.mark.parametrize(
    ("exported", "wanted", "result"),
    [
        (["rocm:gfx942", "cuda:sm_80"], "rocm:gfx942", 0),
        (["rocm:gfx942"], "rocm:gfx950", "target"),
        (["rocm:gfx942:sramecc+"], "rocm:gfx942", "features"),
        (["rocm:gfx942:sramecc-"], "rocm:gfx942:sramecc+:xnack-", "features"),
        (["rocm:gfx942"], "rocm:gfx942:sramecc+:xnack-", 0),
        (["rocm:gfx942", "rocm:gfx942:xnack-", "rocm:gfx942:xnack+"], "rocm:gfx942:sramecc+:xnack-", 1),
        (["rocm:gfx942"], "cuda:sm_90", "backend"),
        (["cuda:sm_80", "cuda:sm_86", "cuda:sm_120"], "cuda:sm_90", 1),
        (["cuda:sm_90a"], "cuda:sm_100", "target"),
        (["cuda:sm_90a"], "cuda:sm_90", 0),
        (["cuda:sm_90"], "cuda:sm_80", "target"),
        (["cpu:gfx942"], "cpu:native", "target"),
    ],
)
def test_c53_targets_that_fit(exported: list[str], wanted: str, result: Any):
    groups = [{"target": parse_target(t).key(), "backend": t.split(":")[0]} for t in exported]
    parts = [frozenset({"ptx"})] * len(groups)
    if isinstance(result, int):
        assert choose(groups, parse_target(wanted), parts) == result
    else:
        with pytest.raises(ArtifactMismatchError) as caught:
            choose(groups, parse_target(wanted), parts)
        assert caught.value.field == result


def test_c53_cubins_stay_within_their_major_version():
    groups = [{"target": parse_target("cuda:sm_80").key(), "backend": "cuda"}]
    assert choose(groups, parse_target("cuda:sm_86"), [frozenset({"cubin"})]) == 0
    with pytest.raises(ArtifactMismatchError):
        choose(groups, parse_target("cuda:sm_90"), [frozenset({"cubin"})])


def edit_header(path: Path, **changes: Any) -> None:
    from flydsl.compiler.build.artifact import pack, unpack

    header, sections = unpack(path.read_bytes())
    for name, value in changes.items():
        (header["targets"][0] if name in header["targets"][0] else header)[name] = value
    path.write_bytes(pack({k: v for k, v in header.items() if k not in ("schema", "sections")}, sections))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"host": {"triple": "aarch64-unknown-linux-gnu", "cpu": "x"}}, "host triple"),
        ({"host": None}, "host cpu"),
        ({"runtime_kind": "cuda"}, "runtime_kind"),
    ],
)
def test_c53_strict_checks(change: dict[str, Any], field: str, tmp_path: Path):
    path = tmp_path / "scale.flyaot"
    flyc.export(scale, path, args=(SPEC, 10))
    if change.get("host", 0) is None:
        from flydsl.llvm import binding

        change = {"host": {"triple": binding.host_triple(), "cpu": "another"}}
    edit_header(path, **change)
    with pytest.raises(ArtifactMismatchError) as caught:
        flyc.load(path)(data(), 10)
    assert caught.value.field == field


def test_c53_another_product_version(tmp_path: Path):
    from flydsl.compiler.build.artifact import pack, unpack

    path = tmp_path / "scale.flyaot"
    flyc.export(scale, path, args=(SPEC, 10))
    header, sections = unpack(path.read_bytes())
    header = {k: v for k, v in header.items() if k not in ("schema", "sections")}
    path.write_bytes(pack({**header, "product_version": "99.1.0"}, sections))
    with pytest.raises(ArtifactMismatchError) as caught:
        flyc.load(path)
    assert caught.value.field == "product_version"
    with pytest.warns(UserWarning, match="exported by version 99.1.0"):
        loaded = flyc.load(path, strict=False)
    x = data()
    y = x.copy()
    loaded(y, len(y))
    np.testing.assert_array_equal(y, x * 2)


def test_c55b_fly_compile(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        "import flydsl.compiler as flyc, flydsl.expr as fx, numpy as np\n"
        "@flyc.kernel\n"
        "def k(x: fx.Tensor):\n"
        "    x[0] = x[0] * 3\n"
        "@flyc.jit\n"
        "def f(x: fx.Tensor):\n"
        "    k(x).launch(grid=1, block=1)\n"
        "f(np.zeros(3, np.int32))\n"
    )
    command = [sys.executable, "-m", "flydsl.tools.fly", "compile", str(script), "-o", str(tmp_path / "out")]
    subprocess.run([*command, "--target", "rocm:gfx942", "--target", "cuda:sm_90"], check=True, capture_output=True)
    assert {p.suffix for p in (tmp_path / "out").iterdir()} >= {".hsaco", ".ptx", ".s"}
    script.write_text("pass\n")
    assert subprocess.run([*command, "--target", "rocm:gfx942"], capture_output=True).returncode == 1


def test_c64_prepared_launches_take_new_arguments():
    x, other = data(), data(70)
    y, z = x.copy(), other.copy()
    prepared = flyc.compile(scale, y, len(y), 3, run=False).prepare(y, len(y), 3)
    prepared.launch()
    np.testing.assert_array_equal(y, x * 3)
    prepared.update(x=z, n=70)
    prepared.launch()
    np.testing.assert_array_equal(z, other * 3)
    np.testing.assert_array_equal(y, x * 3)
    prepared.update(n=0)
    prepared.launch()
    np.testing.assert_array_equal(z, other * 3)
    prepared.launch(y, len(y))
    prepared.launch(y, len(y))
    np.testing.assert_array_equal(y, x * 27)
    del y
    for wrong, message in (
        ({"x": z.astype(np.float32)}, "argument 'x' was prepared as"),
        ({"x": np.zeros((2, 2), np.int32)}, "compile for it and prepare again"),
        ({"by": 4}, "parameter 'by' is compiled in as 3, got 4"),
        ({"q": 4}, "no run-time argument 'q'"),
        ({"n": "many"}, "parameter 'n' expects Int32"),
    ):
        with pytest.raises(TypeError, match=message):
            prepared.update(**wrong)
    prepared.update(by=3)
    with pytest.raises(TypeError, match="takes 4 arguments"):
        prepared.launch(z, 70, 3, None, 5)
    prepared.launch(z, 70, 3)
    np.testing.assert_array_equal(z, other * 9)
    with pytest.raises(TypeError, match="needs n as well"):
        prepared.launch(z)
    # What was replaced by name in between is not what was given last.
    first, second = data(70), data(70)
    expected = first * 9, second * 3
    prepared.launch(first, 70)
    prepared.update(x=second)
    prepared.launch()
    prepared.launch(first, 70)
    np.testing.assert_array_equal(first, expected[0])
    np.testing.assert_array_equal(second, expected[1])


class Scaling:
    def __init__(self, by: int):
        self.by = by

    @flyc.jit
    def scale(self, x: fx.Tensor, n: fx.Int32):
        scale_kernel(x, n, self.by).launch(grid=fx.ceildiv(n, 64), block=64)


def test_c64_prepared_methods_take_new_arguments():
    x, y = data(), data()
    expected = x * 5, y * 5
    prepared = flyc.compile(Scaling(5).scale, x, len(x), run=False).prepare(x, len(x))
    prepared.launch()
    prepared.launch(y, len(y))
    np.testing.assert_array_equal(x, expected[0])
    np.testing.assert_array_equal(y, expected[1])


def test_c64_prepared_launches_on_a_stream_keep_what_is_queued():
    stream = Stream()
    arrays = [data() for _ in range(6)]
    before = [a.copy() for a in arrays]
    prepared = flyc.compile(scale, arrays[0], 130, 3, run=False).prepare(arrays[0], 130, 3, stream=stream)
    for a in arrays:
        prepared.launch(a, len(a))
    stream.synchronize()
    for a, b in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(a, b * 3)


def test_c72_launch_hooks():
    x = data()
    y = x.copy()
    scale(y, len(y), 2)
    scale(y, len(y), 2)  # warm
    compiled = flyc.compile(scale, y, len(y), 2, run=False)
    compiled(y, len(y), 2)
    compiled(y, len(y), 2)
    heard: list[str] = []
    hooks = flyc.launch_hooks(
        enter=lambda artifact: heard.append(f"enter {artifact.name}"),
        exit=lambda artifact: heard.append(f"exit {artifact.name}"),
    )
    with hooks:
        scale(y, len(y), 2)
        scale(y, len(y), 2)
        compiled(y, len(y), 2)
    assert heard == ["enter scale", "exit scale"] * 3
    scale(y, len(y), 2)
    assert len(heard) == 6
    np.testing.assert_array_equal(y, x * np.int32(2**8))
    with pytest.raises(TypeError, match="takes functions"):
        flyc.launch_hooks(enter=3)  # pyright: ignore[reportArgumentType]


def test_c64_an_array_that_is_given_again_is_read_again():
    torch = pytest.importorskip("torch")
    x = torch.ones(4, dtype=torch.int32)
    prepared = flyc.compile(scale, x, 4, 3, run=False).prepare(x, 4, 3)
    prepared.launch(x, 4, 3)
    before = x.data
    x.data = torch.full((4,), 5, dtype=torch.int32)
    prepared.launch(x, 4, 3)
    assert x.tolist() == [15] * 4
    assert before.tolist() == [3] * 4
