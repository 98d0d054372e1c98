"""Environment variables: parsing, errors, what enters the cache key, help."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flydsl import config
from flydsl.config import KeyRole, all_variables, cache_relevant_env, content_relevant_env, environment_snapshot
from flydsl.errors import ConfigError, ExperimentalBackendWarning, UnknownVariableWarning
from flydsl.utils import env

SPEC_NAMES = """
FLYDSL_COMPILE_BACKEND FLYDSL_COMPILE_ARCH ARCH FLYDSL_GPU_ARCH HSA_OVERRIDE_GFX_VERSION FLYDSL_ROCM_AGENT_TIMEOUT
FLYDSL_BACKENDS_IN_TREE FLYDSL_COMPILE_OPT_LEVEL COMPILE_ONLY FLYDSL_COMPILE_ONLY FLYDSL_COMPILE_ALWAYS
FLYDSL_COMPILE_STRICT FLYDSL_COMPILE_GLOBALS FLYDSL_COMPILE_ISOLATE FLYDSL_COMPILE_JOBS FLYDSL_COMPILE_OVERRIDE_DIR
FLYDSL_EXTRA_SOURCE_DIRS FLYDSL_COMPILE_LLVM_DIR FLYDSL_COMPILE_CODEGEN FLYDSL_COMPILE_LLVM_PASS_PIPELINE
FLYDSL_COMPILE_LLVM_PASS_PLUGINS FLYDSL_COMPILE_LLVM_CODEGEN_PASSES FLYDSL_COMPILE_LLVM_CODEGEN_PLUGINS
FLYDSL_COMPILE_LLD FLYDSL_COMPILE_FLY_LLC FLYDSL_COMPILE_OPT FLYDSL_COMPILE_LLC FLYDSL_COMPILE_PTXAS
FLYDSL_COMPILE_LINKER FLYDSL_COMPILE_LLVM_TIMEOUT FLYDSL_COMPILE_LLVM_ALLOW_MISMATCH FLYDSL_COMPILE_LLVM_FALLBACK
FLYDSL_COMPILE_IR_PASSES FLYDSL_COMPILE_IR_PASS_MODULES FLYDSL_RUNTIME_KIND FLYDSL_HIP_LIBRARY FLYDSL_CUDA_LIBRARY
FLYDSL_RUNTIME_CACHE_DIR FLYDSL_RUNTIME_CACHE_PATH FLYDSL_RUNTIME_ENABLE_CACHE FLYDSL_RUNTIME_CACHE_READONLY
FLYDSL_RUNTIME_CACHE_MAX_BYTES FLYDSL_RUNTIME_CACHE_BINARY_ONLY FLYDSL_RUNTIME_CACHE_STORE FLYDSL_RUNTIME_LOCK_TIMEOUT
FLYDSL_RUNTIME_MEM_CACHE_ENTRIES FLYDSL_RUNTIME_RUN_ONLY FLYDSL_RUNTIME_STREAM_POLICY FLYDSL_RUNTIME_CAPTURE_COMPILE
FLYDSL_RUNTIME_LAUNCH_BLOCKING FLYDSL_RUNTIME_CHECK_ARGS FLYDSL_CPU_THREADS FLYDSL_CPU_WARP_SIZE FLYDSL_CPU_CHECK
FLYDSL_DUMP_IR FLYDSL_DUMP_DIR FLYDSL_DEBUG_DUMP_ASM FLYDSL_DEBUG_AST_DIFF FLYDSL_DEBUG_PRINT_ORIGIN_IR
FLYDSL_DEBUG_PRINT_AFTER_ALL FLYDSL_DEBUG_PRINT_AFTER FLYDSL_DEBUG_PRINT_KERNEL FLYDSL_DEBUG_PRINT_CHANGED
FLYDSL_DEBUG_ENABLE_DEBUG_INFO FLYDSL_DEBUG_ENABLE_VERIFIER FLYDSL_DEBUG_SHOW_STACKTRACE FLYDSL_DEBUG_MAX_LOC_DEPTH
FLYDSL_DEBUG_LOG_LEVEL FLYDSL_DEBUG_LOG_TO_FILE FLYDSL_DEBUG_LOG_TO_CONSOLE FLYDSL_DEBUG_TIMING FLYDSL_DEBUG_RESOURCES
FLYDSL_IGNORE_WARNINGS FLYDSL_AUTOTUNE FLYDSL_AUTOTUNE_CACHE_DIR FLYDSL_AUTOTUNE_CONFIG_DIR FLYDSL_AUTOTUNE_JOBS
FLYDSL_AUTOTUNE_BUDGET_S FLYDSL_AUTOTUNE_PRINT
""".split()
OWN_NAMES = {
    "FLYDSL_AOT_HOOK_MODULES",
    "FLYDSL_AOT_TRUSTED_KEYS",
    "FLYDSL_AUTOTUNE_TIMEOUT_S",
    "FLYDSL_CACHE_REMOTE",
    "FLYDSL_COMPILE_DEVICE_LIBS",
    "FLYDSL_CPU_CHECK_BUFFERS",
    "FLYDSL_CPU_COVERAGE",
    "FLYDSL_CPU_COVERAGE_FILE",
    "FLYDSL_CPU_DEBUG",
    "FLYDSL_CPU_PROFILE",
    "FLYDSL_KTRACE",
    "FLYDSL_KTRACE_BLOCKS",
    "FLYDSL_KTRACE_BUFFER_BYTES",
    "FLYDSL_KTRACE_DUMP_DIR",
    "FLYDSL_KTRACE_ENABLE",
    "FLYDSL_KTRACE_EVENTS",
    "FLYDSL_KTRACE_FILE",
    "FLYDSL_KTRACE_LAUNCHES",
    "FLYDSL_RUNTIME_CACHE_MAX_ENTRY_BYTES",
    "FLYDSL_RUNTIME_CACHE_TRUSTED_OWNERS",
    "FLYDSL_RUNTIME_CPU_SCHEDULES",
    "FLYDSL_RUNTIME_PRINTF_BYTES",
    "FLYDSL_RUNTIME_READ_IN_PLACE",
}
"""Those the specification does not have."""


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for _, var in all_variables():
        for name in var.names:
            monkeypatch.delenv(name, raising=False)


def test_every_variable_is_read_somewhere():
    package = Path(config.__file__).parent
    text = "".join(path.read_text() for path in package.rglob("*.py") if path.name != "config.py")
    text += (package / "config.py").read_text().partition("GROUPS: dict")[2]
    text += (package / "compiler" / "build" / "custom_passes" / "config.py").read_text()

    attributes = set(re.findall(r"\b(\w+)\.(?=(\w+))", text))

    def is_read(group: str, attribute: str, names: tuple[str, ...]) -> bool:
        # By attribute (of the group's object, of a local name for it, or of its class), or by the variable's name.
        owners = (group, "environment", "env", f"{group.capitalize()}Env")
        return any((x, attribute) in attributes for x in owners) or any(f'"{name}"' in text for name in names)

    unread = [
        var.name
        for name, group in config.GROUPS.items()
        for attribute, var in group.variables().items()
        if not is_read(name, attribute, var.names)
    ]
    assert unread == []


def test_every_variable_of_the_spec_exists_once():
    names = [name for _, var in all_variables() for name in var.names]
    assert len(names) == len(set(names))
    assert set(SPEC_NAMES) <= set(names)
    assert {n for n in names if n.startswith("FLYDSL_")} <= set(SPEC_NAMES) | OWN_NAMES


@pytest.mark.parametrize("text", ["1", "true", "YES", "On", " 1 "])
def test_true(monkeypatch: pytest.MonkeyPatch, text: str):
    monkeypatch.setenv("FLYDSL_COMPILE_STRICT", text)
    assert config.compile.strict is True


@pytest.mark.parametrize("text", ["0", "False", "no", "OFF", ""])
def test_false_even_where_the_default_is_true(monkeypatch: pytest.MonkeyPatch, text: str):
    assert config.runtime.enable_cache is True
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", text)
    assert config.runtime.enable_cache is False


@pytest.mark.parametrize(
    ("name", "group", "attribute", "bad", "accepted"),
    [
        ("FLYDSL_COMPILE_STRICT", "compile", "strict", "ture", "1, true, yes, on or 0, false, no, off"),
        ("FLYDSL_COMPILE_OPT_LEVEL", "compile", "opt_level", "4", "an integer from 0 to 3"),
        ("FLYDSL_COMPILE_OPT_LEVEL", "compile", "opt_level", "two", "an integer from 0 to 3"),
        ("FLYDSL_COMPILE_LINKER", "compile", "linker", "ldd", "auto or lld or internal (did you mean lld?)"),
        ("FLYDSL_CPU_WARP_SIZE", "cpu", "warp_size", "33", "one of 1, 2, 4, 8, 16, 32, 64"),
        ("FLYDSL_DEBUG_PRINT_AFTER", "debug", "print_after", "(", "a regular expression"),
        ("FLYDSL_RUNTIME_CACHE_STORE", "runtime", "cache_store", "no colon", "module:Class"),
        ("FLYDSL_DEBUG_TIMING", "debug", "timing", "xml", "json"),
        ("FLYDSL_DEBUG_MAX_LOC_DEPTH", "debug", "max_loc_depth", "0", "an integer of at least 1"),
    ],
)
def test_bad_value_names_variable_text_and_accepted(
    monkeypatch: pytest.MonkeyPatch, name: str, group: str, attribute: str, bad: str, accepted: str
):
    monkeypatch.setenv(name, bad)
    with pytest.raises(ValueError, match=re.escape(f"{name}={bad!r}")) as caught:
        getattr(config.GROUPS[group], attribute)
    assert accepted in str(caught.value)
    assert isinstance(caught.value, ConfigError)


@pytest.mark.parametrize("variable", [v for _, v in config.all_variables() if "path" in v.kind], ids=lambda v: v.name)
@pytest.mark.parametrize("bad", ["a" * 5000, "/tmp/" + "b" * 300, "~nobody-has-this-name/x"])
def test_what_names_no_path(monkeypatch: pytest.MonkeyPatch, variable: config.Var[object], bad: str):
    monkeypatch.setenv(variable.name, bad)
    with pytest.raises(ConfigError, match=re.escape(variable.name)) as caught:
        variable.read()
    assert len(str(caught.value)) < 500


def test_read_at_access(monkeypatch: pytest.MonkeyPatch):
    assert config.compile.opt_level == 2
    monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "3")
    assert config.compile.opt_level == 3
    monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "1")
    assert config.compile.opt_level == 1
    monkeypatch.delenv("FLYDSL_COMPILE_OPT_LEVEL")
    assert config.compile.opt_level == 2


def test_aliases_and_empty_text(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COMPILE_ONLY", "1")
    assert config.compile.compile_only
    monkeypatch.setenv("FLYDSL_COMPILE_ONLY", "0")
    assert not config.compile.compile_only
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "")
    assert config.compile.backend == "auto"
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", " ROCm ")
    assert config.compile.backend == "rocm"


def test_lists_and_paths(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_PASS_PLUGINS", "/a.so,/b.so:/c.so")
    assert config.compile.llvm_pass_plugins == (Path("/a.so"), Path("/b.so"), Path("/c.so"))
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", "~/x")
    assert config.runtime.cache_dir == Path.home() / "x"
    monkeypatch.setenv("FLYDSL_COMPILE_IR_PASSES", "a, b,,c")
    assert config.compile.ir_passes == ("a", "b", "c")


def test_key_follows_values_not_spellings(monkeypatch: pytest.MonkeyPatch):
    before = cache_relevant_env()
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    changed = cache_relevant_env()
    assert changed != before
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "true")
    assert cache_relevant_env() == changed
    monkeypatch.setenv("FLYDSL_COMPILE_STRICT", "1")
    assert cache_relevant_env() == changed
    assert hash(changed) is not None


def test_location_depth_counts_only_with_debug_info(monkeypatch: pytest.MonkeyPatch):
    before = cache_relevant_env()
    monkeypatch.setenv("FLYDSL_DEBUG_MAX_LOC_DEPTH", "7")
    assert cache_relevant_env() == before
    monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_DEBUG_INFO", "1")
    assert ("FLYDSL_DEBUG_MAX_LOC_DEPTH", "7") in cache_relevant_env()


def test_content_variables_give_files(monkeypatch: pytest.MonkeyPatch):
    assert content_relevant_env() == ()
    monkeypatch.setenv("FLYDSL_COMPILE_PTXAS", "/usr/bin/ptxas")
    assert content_relevant_env() == (("FLYDSL_COMPILE_PTXAS", (Path("/usr/bin/ptxas"),)),)


@pytest.mark.parametrize("name", ["FLYDSL_COMPILE_ARCH", "ARCH", "FLYDSL_CPU_CHECK", "FLYDSL_RUNTIME_KIND"])
def test_snapshot_changes_with_what_matters(monkeypatch: pytest.MonkeyPatch, name: str):
    before = environment_snapshot()
    assert environment_snapshot() == before
    monkeypatch.setenv("FLYDSL_DEBUG_LOG_LEVEL", "INFO")
    assert environment_snapshot() == before
    monkeypatch.setenv(name, "x")
    assert environment_snapshot() != before


def test_to_dict_help_describe(monkeypatch: pytest.MonkeyPatch):
    assert config.compile.to_dict()["opt_level"] == 2
    text = config.compile.help()
    assert "FLYDSL_COMPILE_OPT_LEVEL" in text and "an integer from 0 to 3" in text and "cache key: value" in text
    monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "9")
    row = next(row for row in config.describe() if row[0] == "FLYDSL_COMPILE_OPT_LEVEL")
    assert row[1].startswith("error:") and row[2:] == ("2", "FLYDSL_COMPILE_OPT_LEVEL")


def test_every_variable_is_documented():
    assert all(var.doc and var.accepts() for _, var in all_variables())
    assert any(var.key is KeyRole.TARGET for _, var in all_variables())


def test_unknown_variables_warn_once_with_a_hint(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKENDS", "x")
    assert config.unknown_variables() == ["FLYDSL_COMPILE_BACKENDS"]
    with pytest.warns(UnknownVariableWarning, match="did you mean FLYDSL_COMPILE_BACKEND"):
        config.warn_unknown_variables()
    config.warn_unknown_variables()


def test_ignored_warning_categories(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_IGNORE_WARNINGS", "ExperimentalBackendWarning")
    config.warn("silent", ExperimentalBackendWarning)
    monkeypatch.delenv("FLYDSL_IGNORE_WARNINGS")
    with pytest.warns(ExperimentalBackendWarning):
        config.warn("heard", ExperimentalBackendWarning)


def test_public_alias_is_the_same_object():
    assert env.compile is config.compile and env.cpu is config.cpu
