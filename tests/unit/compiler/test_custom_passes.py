"""Which passes are in effect, what identifies them, and how a Python pass is written and named."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import flydsl.compiler as flyc
from flydsl.compiler.build import custom_passes, pass_options, user_passes
from flydsl.compiler.build.custom_passes import PassConfig, PassHooks, resolve
from flydsl.compiler.build.custom_passes.flow import visible_functions
from flydsl.errors import (
    CodegenPassError,
    DSLTypeError,
    DSLValueError,
    FlyDSLWarning,
    PassPipelineError,
    PluginLoadError,
)
from flydsl.llvm import binding

PREFIX = "FLYDSL_COMPILE_"


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Passes registered or enabled by a test are gone after it."""
    monkeypatch.setattr(user_passes, "_registry", {})
    monkeypatch.setattr(user_passes, "_enabled", {})
    yield


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    path = tmp_path / "plugin.so"
    path.write_bytes(b"one")
    return path


# --- precedence -----------------------------------------------------------------------------------------------


def test_nothing_asked_for():
    assert resolve({}, {}) is None and resolve(None, None) is None
    assert not pass_options.requested({}, {"waves_per_eu": 2})


def test_precedence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(PREFIX + "LLVM_PASS_PIPELINE", "dce")
    assert resolve({}, {}) == PassConfig("dce")
    assert resolve({"llvm_pass_pipeline": "adce"}, {}) == PassConfig("adce")
    assert resolve({"llvm_pass_pipeline": "adce"}, {"llvm_pass_pipeline": "sroa"}) == PassConfig("sroa")
    assert resolve({"llvm_pass_pipeline": None}, {"llvm_pass_pipeline": None}) == PassConfig("dce")


def test_empty_switches_lower_levels_off(monkeypatch: pytest.MonkeyPatch, plugin: Path):
    monkeypatch.setenv(PREFIX + "LLVM_PASS_PIPELINE", "dce")
    monkeypatch.setenv(PREFIX + "LLVM_PASS_PLUGINS", str(plugin))
    monkeypatch.setenv(PREFIX + "LLVM_CODEGEN_PASSES", "post-ra:x")
    monkeypatch.setenv(PREFIX + "LLVM_CODEGEN_PLUGINS", str(plugin))
    assert resolve({"llvm_pass_pipeline": "", "llvm_codegen_passes": []}, {}) is None
    assert resolve({"llvm_codegen_passes": ["a"]}, {"llvm_pass_pipeline": "", "llvm_codegen_passes": []}) is None
    kept = resolve({"llvm_codegen_plugins": []}, {})
    assert kept is not None and kept.pipeline == "dce" and len(kept.codegen_passes) == 1 and not kept.codegen_plugins


def test_lists_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    paths = [tmp_path / "a.so", tmp_path / "b.so"]
    for path in paths:
        path.touch()
    monkeypatch.setenv(PREFIX + "LLVM_CODEGEN_PASSES", "post-ra:x, before=machine-cse#2:y")
    monkeypatch.setenv(PREFIX + "LLVM_CODEGEN_PLUGINS", os.pathsep.join(map(str, paths)))
    found = resolve(None, None)
    assert found is not None
    assert [str(p) for p in found.codegen_passes] == ["post-ra:x", "before=machine-cse#2:y"]
    assert [p.path for p in found.codegen_plugins] == paths


def test_python_passes_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "my_env_passes.py").write_text(
        textwrap.dedent("""
            import flydsl.compiler as flyc

            @flyc.ir_pass(stage="llvm-pre-opt")
            def first(module, *, a: int = 0, b: int = 0): ...

            @flyc.ir_pass(stage="asm")
            def second(text): ...
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(PREFIX + "IR_PASS_MODULES", "my_env_passes")
    monkeypatch.setenv(PREFIX + "IR_PASSES", "first{a=1,b=2},second")
    found = resolve(None, None)
    assert found is not None and [str(p) for p in found.ir_passes] == ["first{a=1,b=2}", "second"]
    sys.modules.pop("my_env_passes")


def test_mapping_of_points():
    found = resolve({"llvm_codegen_passes": {"post-ra": ["a", "b"], "pre-emit": "c"}}, None)
    assert found is not None
    assert [str(p) for p in found.codegen_passes] == ["post-ra:a", "post-ra:b", "pre-emit:c"]


def test_the_value_is_frozen_and_hashable(plugin: Path):
    options = {"llvm_pass_pipeline": "dce", "llvm_pass_plugins": [plugin], "llvm_codegen_passes": ["x"]}
    first, second = resolve(options, None), resolve(options, None)
    assert first == second and hash(first) == hash(second)
    with pytest.raises(AttributeError):
        first.pipeline = "adce"  # pyright: ignore


# --- what is refused ------------------------------------------------------------------------------------------


def test_plugins_without_passes(plugin: Path):
    with pytest.raises(ValueError, match="llvm_codegen_plugins without llvm_codegen_passes"):
        resolve({"llvm_codegen_plugins": [plugin]}, None)
    with pytest.warns(FlyDSLWarning, match="default<O2>"):
        found = resolve({"llvm_pass_plugins": [plugin]}, None)
    assert found is not None and found.pipeline == "default<O2>" and found.needs_opt


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"llvm_pass_pipeline": 3}, DSLTypeError, "llvm_pass_pipeline must be a string"),
        ({"llvm_pass_pipeline": "a("}, PassPipelineError, "cannot be read"),
        ({"llvm_pass_pipeline": "a", "llvm_pass_plugins": 3}, DSLTypeError, "sequence of paths"),
        ({"llvm_pass_pipeline": "a", "llvm_pass_plugins": [{"pth": "x"}]}, DSLValueError, "'path'"),
        ({"llvm_pass_pipeline": "a", "llvm_pass_plugins": ["/no/such.so"]}, PluginLoadError, "such.so does not exist"),
        ({"llvm_codegen_passes": [3]}, DSLTypeError, "must be strings"),
        ({"llvm_codegen_passes": ["nowhere:x"]}, CodegenPassError, "unknown point"),
        ({"ir_passes": ["nothing"]}, DSLValueError, "no Python pass 'nothing'"),
        ({"ir_passes": [3]}, DSLTypeError, "passes or their names"),
    ],
)
def test_mistakes(options: dict[str, object], error: type[Exception], text: str):
    with pytest.raises(error, match=text):
        resolve(options, None)


# --- fingerprints ---------------------------------------------------------------------------------------------


def fingerprint(**options: object) -> str:
    found = resolve(options, None)
    assert found is not None
    return found.fingerprint()


def test_a_fingerprint_follows_content_not_path(tmp_path: Path, plugin: Path):
    other = tmp_path / "elsewhere" / "copy.so"
    other.parent.mkdir()
    other.write_bytes(b"one")
    base = fingerprint(llvm_pass_pipeline="dce", llvm_pass_plugins=[plugin])
    assert base == fingerprint(llvm_pass_pipeline="dce", llvm_pass_plugins=[other])
    plugin.write_bytes(b"two")
    assert base != fingerprint(llvm_pass_pipeline="dce", llvm_pass_plugins=[plugin])
    plugin.write_bytes(b"one")
    assert base == fingerprint(llvm_pass_pipeline="dce", llvm_pass_plugins=[plugin])


def test_everything_is_in_the_fingerprint(tmp_path: Path, plugin: Path):
    extra = tmp_path / "helper.so"
    extra.write_bytes(b"three")
    second = tmp_path / "second.so"
    second.write_bytes(b"two")

    @flyc.ir_pass(stage="asm")
    def mine(text, *, n=1): ...

    found = [
        fingerprint(llvm_pass_pipeline="dce"),
        fingerprint(llvm_pass_pipeline="adce"),
        fingerprint(llvm_pass_pipeline="dce", llvm_pass_plugins=[plugin]),
        fingerprint(llvm_pass_pipeline="dce", llvm_pass_plugins=[{"path": plugin, "extra_files": [extra]}]),
        fingerprint(llvm_pass_pipeline="dce", llvm_pass_plugins=[plugin, second]),
        fingerprint(llvm_pass_pipeline="dce", llvm_pass_plugins=[second, plugin]),
        fingerprint(llvm_codegen_passes=["post-ra:x", "post-ra:y"]),
        fingerprint(llvm_codegen_passes=["post-ra:y", "post-ra:x"]),
        fingerprint(llvm_codegen_passes=["post-ra:x", "post-ra:y"], llvm_codegen_plugins=[plugin]),
        fingerprint(ir_passes=["mine"]),
        fingerprint(ir_passes=["mine{n=2}"]),
    ]
    assert len(set(found)) == len(found)


def test_tools_are_in_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    script = "#!/bin/sh\necho 'LLVM version 22.1.{}'\n"
    tool = tmp_path / "opt"
    found: list[str] = []
    for number in (1, 2):
        tool.write_text(script.format(number))
        tool.chmod(0o755)
        monkeypatch.setenv(PREFIX + "OPT", str(tool))
        found.append(fingerprint(llvm_pass_pipeline="dce"))
    monkeypatch.delenv(PREFIX + "OPT")
    found.append(fingerprint(llvm_pass_pipeline="dce"))
    assert len(set(found)) == 3


def test_source_of_a_python_pass_is_in_the_fingerprint():
    def make(constant: int):
        user_passes._registry.clear()

        @flyc.ir_pass(stage="asm", name="edited")
        def edited(text):
            return text + str(constant)

        return edited

    one = fingerprint(ir_passes=[make(1)])
    assert one == fingerprint(ir_passes=[make(1)])
    assert one != fingerprint(ir_passes=[make(2)])


def test_version_stage_and_order_of_a_python_pass_are_in_the_fingerprint():
    def make(**options: object) -> str:
        user_passes._registry.clear()

        def edited(text): ...

        return fingerprint(ir_passes=[flyc.ir_pass(**{"stage": "asm", **options})(edited)])

    assert len({make(), make(version=2), make(order=1), make(stage="llvm-pre-opt"), make(name="other")}) == 5


def test_fingerprints_agree_between_processes(tmp_path: Path, plugin: Path):
    code = textwrap.dedent(f"""
        import flydsl.compiler as flyc
        from flydsl.compiler.build.custom_passes import resolve
        found = resolve({{"llvm_pass_pipeline": "dce", "llvm_pass_plugins": [{str(plugin)!r}]}}, None)
        print(found.fingerprint())
    """)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "FLYDSL_RUNTIME_ENABLE_CACHE": "0"}
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**env, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {fingerprint(llvm_pass_pipeline="dce", llvm_pass_plugins=[plugin]) + "\n"}


# --- Python passes --------------------------------------------------------------------------------------------


def test_registration():
    @flyc.ir_pass(stage="llvm-pre-opt", version=3, backends=["cpu"], order=5)
    def count_loads(module, context, *, limit: int = 10): ...

    assert isinstance(count_loads, flyc.IRPass)
    assert (count_loads.name, count_loads.order, count_loads.takes_context) == ("count-loads", 5, True)
    assert user_passes.activate("count-loads{limit=0x10}").values == (("limit", 16),)
    assert user_passes.activate(count_loads).values == ()
    assert str(count_loads.with_parameters(limit=3)) == "count-loads{limit=3}"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("p{n=x}", "must be int"),
        ("p{m=1}", "has no parameter 'm'; it has: n, flag"),
        ("p{n}", "key=value"),
        ("p{n=1", "cannot read"),
        ("q", "did you mean"),
    ],
)
def test_bad_activations(text: str, complaint: str):
    @flyc.ir_pass(stage="asm", name="p")
    def p(text, *, n: int = 0, flag: bool = False): ...

    @flyc.ir_pass(stage="asm", name="qq")
    def qq(text): ...

    with pytest.raises(DSLValueError, match=complaint):
        user_passes.activate(text)


def test_required_parameter():
    @flyc.ir_pass(stage="asm")
    def needs(text, *, n: int): ...

    with pytest.raises(DSLValueError, match="needs its parameter n"):
        resolve({"ir_passes": ["needs"]}, None)


def test_bad_registrations():
    with pytest.raises(DSLValueError, match="unknown stage 'llvm'"):
        flyc.ir_pass(stage="llvm")
    with pytest.raises(DSLValueError, match="unknown stage 'mir:nowhere'"):
        flyc.ir_pass(stage="mir:nowhere")
    with pytest.raises(DSLTypeError, match="needs a stage"):
        flyc.ir_pass(lambda m: m)
    with pytest.raises(DSLTypeError, match="3 positional"):
        flyc.ir_pass(stage="asm", name="z")(lambda a, b, c: None)

    @flyc.ir_pass(stage="asm", name="twice")
    def one(text): ...

    with pytest.raises(DSLValueError, match="registered already"):

        @flyc.ir_pass(stage="asm", name="twice")
        def two(text): ...


def test_order_and_backends():
    made = {}
    for name, order, backends in (("a", 2, None), ("b", 0, None), ("c", 2, None), ("d", 1, ["rocm"])):
        made[name] = flyc.ir_pass(stage="asm", name=name, order=order, backends=backends)(lambda text: None)
        # One function may be registered under several names.
    found = resolve({"ir_passes": ["c", "a", "d", "b"]}, None)
    assert found is not None
    assert [p.what.name for p in found.at("asm", "cpu")] == ["b", "c", "a"]
    assert [p.what.name for p in found.at("asm", "rocm")] == ["b", "d", "c", "a"]


def test_enable_pass():
    @flyc.ir_pass(stage="asm")
    def everywhere(text): ...

    @flyc.ir_pass(stage="asm")
    def here(text): ...

    flyc.enable_pass("everywhere")
    assert pass_options.requested({}, {})
    found = resolve({"ir_passes": [here]}, None)
    assert found is not None and [str(p) for p in found.ir_passes] == ["everywhere", "here"]
    assert resolve({"ir_passes": []}, None) is None
    flyc.disable_pass("everywhere")
    assert resolve(None, None) is None


def test_a_place_that_does_not_exist_is_an_error():
    @flyc.ir_pass(stage="fly:after:no-such-pass")
    def lost(module): ...

    @flyc.ir_pass(stage="fly:after:no-such-pass", backends=["rocm"])
    def elsewhere(module): ...

    backend = flyc.get_backend("cpu", arch="native")
    config = resolve({"ir_passes": [lost]}, None)
    assert config is not None
    with pytest.raises(DSLValueError, match="pipeline of cpu has no such pass; it has: a, b"):
        PassHooks(config, backend, {}, ["a", "b"])
    config = resolve({"ir_passes": [elsewhere]}, None)
    assert config is not None
    PassHooks(config, backend, {}, ["a", "b"])


def test_kernels_must_stay():
    before = {"k": ("ptr", "i32"), "l": ()}
    custom_passes.check_kernels(before, {**before, "helper": ()})
    with pytest.raises(PassPipelineError, match=r"kernel k is gone \(new: m\)"):
        custom_passes.check_kernels(before, {"l": (), "m": ()})
    with pytest.raises(PassPipelineError, match=r"arguments of kernel k were \(ptr, i32\), now \(ptr\)"):
        custom_passes.check_kernels(before, {"k": ("ptr",), "l": ()})


def test_functions_that_code_can_be_asked_for():
    """By their linkage: a kernel that a pass made internal is as good as gone."""
    module = binding.parse("""
        define amdgpu_kernel void @"a kernel"(ptr %x, i32 %n) { ret void }
        define protected void @helper() { ret void }
        define internal amdgpu_kernel void @hidden() { ret void }
        define private void @own() { ret void }
        declare void @elsewhere()
    """)
    assert visible_functions(module) == {"a kernel": ("ptr", "i32"), "helper": ()}
    with pytest.raises(PassPipelineError, match=r"kernel hidden is gone \(new: helper\)"):
        custom_passes.check_kernels({"hidden": ()}, visible_functions(module), ["a kernel"])


def test_the_subsystem_is_not_imported_when_unused():
    code = textwrap.dedent("""
        import sys
        import numpy as np
        import flydsl.compiler as flyc, flydsl.expr as fx
        sys.argv = ["x"]
        sys.path.insert(0, "examples")
        import vector_add
        function, args = vector_add.compile_args()
        flyc.compile(function, *args, target="cpu:native")
        print([m for m in sys.modules if "custom_passes" in m or "user_passes" in m or m.endswith("llvm.external")])
    """)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_upstream_names(plugin: Path, monkeypatch: pytest.MonkeyPatch):
    from flydsl.compiler import external_llvm

    monkeypatch.setenv(PREFIX + "LLVM_CODEGEN_PASSES", "post-ra:x")
    first = external_llvm.llvm_opt_fingerprint("dce", [plugin])
    assert first == fingerprint(llvm_pass_pipeline="dce", llvm_pass_plugins=[plugin], llvm_codegen_passes=[])
    assert external_llvm.llvm_opt_fingerprint("") == "" == external_llvm.fly_llc_codegen_fingerprint([])
    assert external_llvm.fly_llc_codegen_fingerprint(["a"]) != external_llvm.fly_llc_codegen_fingerprint(["b"])
    backend = flyc.get_backend("cpu", arch="native")
    ir = "define void @k(ptr %p, ptr %g, ptr %s, i64 %a, i64 %b) {\n  ret void\n}\n"
    assert external_llvm.run_llvm_opt_then_binary(ir, backend, pipeline="default<O1>").sections["o"]
