"""Every public name of FlyDSL is here, with its parameters in its order and by its names.

`flydsl_names.json` holds the facts, written by scripts/flydsl_names.py from an installed FlyDSL. What differs is in
`DIFFERENCES`, each with its reason, and on the page docs/coming-from-flydsl.md.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
FACTS = json.loads((HERE / "flydsl_names.json").read_text())
PAGE = HERE.parents[2] / "docs" / "coming-from-flydsl.md"

_WRAPS_A_VALUE = "made by the functions of the language; called, it takes what it wraps by position"
_COMPILER = "part of how FlyDSL's own compiler is written"
_KTRACE = "launches bring the memory of a trace by themselves: there is no buffer to manage"
_AOT = "code is shipped with flyc.export and flyc.export_raw"
DIFFERENCES: dict[str, str] = {
    **dict.fromkeys(
        (
            "ComposedLayout()",
            "CopyAtom()",
            "IntTuple()",
            "Layout()",
            "Swizzle()",
            "Tensor()",
            "ThrCopy()",
            "ThrMma()",
            "Tile()",
            "TiledCopy()",
            "TiledMma()",
            "Tuple3D()",
        ),
        _WRAPS_A_VALUE,
    ),
    "Boolean()": "the number is called x, as in the other scalar classes",
    "Numeric()": "abstract",
    "NumericMeta()": "scalar classes take their properties as keywords of the class statement",
    "Struct()": "fx.struct is the decorator, fx.Struct[...] the inline form",
    "Union()": "fx.union is the decorator, fx.Union[...] the inline form",
    "CompiledFunction()": "made by flyc.compile",
    "KernelLauncher()": "made by calling a kernel",
    "BoundExternFunction()": "takes what ffi(...) or link_extern(...) gives, and the function that prepares arguments",
    **dict.fromkeys(
        (
            "DLTensorJitArg",
            "MemRefJitArg",
            "MemRefSpec",
            "PointerJitArg",
            "TorchTensorJitArg",
            "convert_to_jit_arguments",
            "is_type_param_annotation",
            "resolve_signature",
            "torch_dtype_to_mlir_type",
        ),
        "adapters are made by from_dlpack, from_torch_tensor and from_c_void_p",
    ),
    "flydsl.compiler.jit_function.EXTRA_SOURCE_DIRS": "dependencies are recorded while tracing",
    **dict.fromkeys(
        (
            "flydsl.compiler.jit_function.FileLock",
            "flydsl.compiler.jit_function.JitCacheManager",
            "flydsl.compiler.jit_function.PipelineConfig",
            "flydsl.compiler.kernel_function.KernelFunction.get_current",
            "flydsl.compiler.kernel_function.KernelFunction.register_shared_allocator",
            "flydsl.compiler.kernel_function.create_gpu_func",
            "flydsl.compiler.kernel_function.create_gpu_module",
            "flydsl.compiler.kernel_function.effective_fastmath_hint",
            "flydsl.compiler.kernel_function.func_def_location",
            "flydsl.compiler.kernel_function.get_gpu_module_body",
            "flydsl.compiler.diagnostics.diag_records_from_mlir_error",
            "flydsl.compiler.diagnostics.dsl_ir_diagnostics",
            "flydsl.compiler.diagnostics.warn_annotation_value_mismatch",
            "flydsl.compiler.diagnostics.warn_invalid_annotations",
            *("append_load_on_create_dialect", "get_dialect_registry", "get_load_on_create_dialects"),
            *("get_ops_of_type", "get_parent_of_type", "loc_tracebacks", "register_attribute_builder"),
        ),
        _COMPILER,
    ),
    **dict.fromkeys(
        ("aot_object_index", "aot_runtime_config", "AOTRuntimeConfig", "export_to_c"),
        _AOT,
    ),
    **dict.fromkeys(("ktrace_backend", "KtraceBackend", "get_ktrace_backend"), _KTRACE),
    **dict.fromkeys(
        (
            f"flydsl.expr.ktrace.{name}"
            for name in "collection_lock invalidate_records require_compatible_buffer restore_names".split()
        ),
        _KTRACE,
    ),
    "RangeToken()": "tokens are made by range_start and inactive_token",
    "flydsl.expr.utils.print_typst": "the function of this name is in flydsl.expr.utils",
}
"""What differs, and why; the page says the same. A path, with all under it; a name anywhere; `Name()`, its call."""


def differs(path: str) -> bool:
    last = path.rpartition(".")[2]
    return last in DIFFERENCES or any(path == known or path.startswith(f"{known}.") for known in DIFFERENCES)


def own_parameters(value: object, skip: int = 0) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(value).parameters.values())[skip:]  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        return None


def parameter_gaps(call: str | None, own: list[inspect.Parameter] | None) -> Iterator[str]:
    """What of `(a, b=, *, c)` could not be passed to ours."""
    if call is None or own is None:
        return
    taken = {p.name for p in own if p.kind is not p.POSITIONAL_ONLY}
    any_keyword = any(p.kind is p.VAR_KEYWORD for p in own)
    any_position = any(p.kind is p.VAR_POSITIONAL for p in own)
    places = [p.name for p in own if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    words = [w for w in call[1:-1].split(", ") if w]
    only_position = words[: words.index("/")] if "/" in words else []
    by_position = True
    at = 0
    for word in words:
        if word.startswith("**"):
            continue
        if word.startswith("*"):
            by_position = False
            continue
        if word == "/":
            continue
        name = word.rstrip("=")
        if word not in only_position and name not in taken and not any_keyword:
            yield f"no parameter {name!r}"
        elif by_position and at < len(places) and word not in only_position and name in places and places[at] != name:
            yield f"{name!r} is not at position {at}"
        if by_position and at >= len(places) and not any_position:
            yield f"{name!r} cannot be passed by position"
        at += by_position
    required = [p.name for p in own if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    given = {w.rstrip("=") for w in words}
    positions = sum(
        1 for w in words[: next((i for i, w in enumerate(words) if w.startswith("*")), len(words))] if w != "/"
    )
    for i, name in enumerate(required):
        if name not in given and not (name in places and places.index(name) < positions):
            yield f"{name!r} is required here"
        del i


def gaps(path: str, known: dict[str, Any], value: Any) -> Iterator[str]:
    """What is missing under one name."""
    # Of classes made by a metaclass or subscription the signature is that of `object`: it says nothing.
    told = known["kind"] == "function" or (known["kind"] == "class" and known["call"] != "()")
    if told and not differs(f"{path}()"):
        yield from (f"{path}{known['call']}: {gap}" for gap in parameter_gaps(known["call"], own_parameters(value)))
    for name in known.get("members", ()):
        where = f"{path}.{name}"
        if differs(where):
            continue
        try:
            raw = inspect.getattr_static(value, name)
        except AttributeError:
            if not hasattr(value, name):
                yield f"{where} is missing"
            continue
        call = known["members"][name] if known["kind"] == "class" else None
        if isinstance(raw, staticmethod):
            own = own_parameters(raw.__func__)
        elif isinstance(raw, classmethod):
            own = own_parameters(raw.__func__, 1)
        elif inspect.isfunction(raw):
            own = own_parameters(raw, 1)
        else:
            continue
        yield from (f"{where}{call}: {gap}" for gap in parameter_gaps(call, own))


def module_gaps(module: str, names: dict[str, dict[str, Any]]) -> list[str]:
    if differs(module):
        return []
    try:
        loaded = import_module(module)
    except ModuleNotFoundError as error:
        return [f"{module}: {error}"]
    found: list[str] = []
    for name, known in names.items():
        path = f"{module}.{name}"
        if differs(path):
            continue
        try:
            value = getattr(loaded, name)
        except AttributeError:
            found.append(f"{path} is missing")
            continue
        found += gaps(path, known, value)
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("module", FACTS["names"])
def test_names_and_parameters(module: str):
    found = module_gaps(module, FACTS["names"][module])
    assert not found, f"{len(found)} gaps:\n  " + "\n  ".join(found)


@pytest.mark.skipif(find_spec("flydsl._mlir") is None, reason="the bindings are not part of this build")
@pytest.mark.parametrize("module", FACTS["raw"])
def test_raw_instructions_are_reached_through_the_language(module: str):
    loaded = import_module(module)
    missing = [name for name in FACTS["raw"][module] if not differs(f"{module}.{name}") and not hasattr(loaded, name)]
    assert not missing


def test_a_gap_is_seen():
    """The comparison itself: another name, another order, a missing keyword, a missing member."""

    def ours(b: int, a: int, *, c: int = 0) -> None: ...

    own = own_parameters(ours)
    assert list(parameter_gaps("(a, b)", own)) == ["'a' is not at position 0", "'b' is not at position 1"]
    assert list(parameter_gaps("(b, a, *, c=)", own)) == []
    assert list(parameter_gaps("(b, a, *, d=)", own)) == ["no parameter 'd'"]
    assert list(parameter_gaps("(b, a, c)", own)) == ["'c' cannot be passed by position"]
    assert list(parameter_gaps("(b)", own)) == ["'a' is required here"]
    assert module_gaps("flydsl.nowhere", {})
    assert module_gaps("flydsl.errors", {"NoSuchName": {"kind": "value"}}) == ["flydsl.errors.NoSuchName is missing"]


def test_the_page_names_every_difference():
    page = PAGE.read_text()
    said = set(re.findall(r"`([\w.()]+)`", page))
    missing = [path for path in DIFFERENCES if path not in said]
    assert not missing
    assert all(DIFFERENCES.values())
