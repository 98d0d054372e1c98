"""What CONTRIBUTING's table "To add ..., touch these files" asks for: a test per row that tells what was forgotten."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation

import flydsl.compiler as flyc
import flydsl.dialects
import flydsl.expr as fx
import flydsl.kernels
import flydsl.passes
from flydsl.compiler.jit_function import JitFunction
from flydsl.config import GROUPS
from flydsl.dialects.fly.atoms import CopyOpType, MmaOpType
from flydsl.dialects.fly_nvgpu.ops import AsmOp, NvOp
from flydsl.expr import numeric
from flydsl.ir import registry
from flydsl.ir.fold import FORMATS
from flydsl.passes import PASSES, pass_class
from flydsl.passes.base import Pass
from flydsl.target import ARCHITECTURES, FEATURES, USUAL, families

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src" / "flydsl"
TARGETS = [*(f"{stack}:{arch}" for stack, arch in USUAL.items()), "cpu:native"]


@cache
def text_of(*folders: str) -> str:
    """All tests or pages below some folders of the repository, as one text."""
    files = [f for folder in folders for f in sorted((ROOT / folder).rglob("*")) if f.suffix in (".py", ".mlir", ".md")]
    return "\n".join(f.read_text(encoding="utf-8") for f in files if f != Path(__file__))


def mentions(name: str, *folders: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?![\w])", text_of(*folders)) is not None


def modules(package: ModuleType) -> Iterator[ModuleType]:
    """Every module of a package, loaded."""
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        yield importlib.import_module(found.name)


def classes(package: ModuleType, base: type) -> list[type]:
    """The classes below `base` that a package defines."""
    found = {
        cls
        for module in modules(package)
        for cls in vars(module).values()
        if isinstance(cls, type) and cls.__module__ == module.__name__ and issubclass(cls, base)
    }
    return sorted(found, key=lambda cls: (cls.__module__, cls.__name__))


@cache
def source_words() -> tuple[set[str], set[str]]:
    """Every string constant of the source but for the table of architectures, and every attribute."""
    strings: set[str] = set()
    attributes: set[str] = set()
    for file in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                attributes.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and file.name != "architectures.py":
                strings.add(node.value)
    return strings, attributes


# --- an architecture ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feature", FEATURES)
def test_every_feature_is_had_by_some_and_asked_for(feature: str):
    assert families(feature), f"no architecture has {feature}"
    assert feature in source_words()[0], f"nobody asks for {feature}"


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_entries_are_complete(name: str):
    entry = ARCHITECTURES[name]
    assert entry.shared_mem is not None and entry.warp_size in (32, 64)
    if "amd" in entry.features:
        assert entry.simd is not None and entry.shared_mem_optin == entry.shared_mem and entry.ptx is None
        assert {"mfma", "dpp_wave"} & entry.features == set() or entry.warp_size == 64
    else:
        assert "nvidia" in entry.features and entry.ptx is not None and entry.simd is None


def test_every_family_with_matrix_instructions_is_compiled_for():
    tree = ast.parse((ROOT / "tests" / "kernels" / "library" / "case.py").read_text(encoding="utf-8"))
    names = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    tested = {ARCHITECTURES[arch].family for arch in names & set(ARCHITECTURES)}
    wanted = {family for feature in ("mfma", "wmma_v1", "wmma_v2", "wmma_v3") for family in families(feature)}
    assert wanted <= tested


# --- an atom, an op -----------------------------------------------------------------------------------------------


def dialect(name: str) -> Dialect:
    where, attribute = registry.DIALECTS[name].split(":")
    return getattr(importlib.import_module(where), attribute)


ATOMS = [
    cls
    for base in (CopyOpType, MmaOpType)
    for cls in classes(flydsl.dialects, base)
    if "name" in vars(cls) and cls.__module__ != base.__module__ or cls.__name__.startswith("Universal")
]


@pytest.mark.parametrize("cls", ATOMS, ids=lambda cls: cls.__name__)
def test_every_atom_is_whole(cls: type):
    name: str = vars(cls)["name"]
    assert cls in list(dialect(name.split(".")[0]).attributes), f"{cls.__name__} is not in its dialect"
    assert not inspect.isabstract(cls)
    for method in ("lower", "emulate"):
        rule = getattr(cls, method)
        assert not getattr(rule, "__isabstractmethod__", False), f"{cls.__name__} has no {method}"
    assert mentions("!" + name, "tests/filecheck", "tests/unit/dialects"), f"no test reads and prints !{name}"
    assert f"`!{name}<" in text_of("docs"), f"docs/dialect.md has no row for !{name}"


OPS = [cls for cls in classes(flydsl.dialects, IRDLOperation) if isinstance(vars(cls).get("name"), str)]


@pytest.mark.parametrize("cls", OPS, ids=lambda cls: vars(cls)["name"])
def test_every_op_is_in_its_dialect(cls: type):
    name: str = vars(cls)["name"]
    assert cls in list(dialect(name.split(".")[0]).operations)


@pytest.mark.parametrize("cls", [c for c in OPS if issubclass(c, NvOp)], ids=lambda cls: cls.__name__)
def test_ops_of_nvidia_lower_and_are_emulated(cls: type[NvOp]):
    if cls is AsmOp:
        return  # What others lower to.
    assert cls.lower is not NvOp.lower and cls.emulate is not NvOp.emulate


OURS = ("fly.", "fly_rocdl.", "fly_nvgpu.", "fly_ktrace.")


@pytest.mark.parametrize("cls", [c for c in OPS if vars(c)["name"].startswith(OURS)], ids=lambda cls: vars(cls)["name"])
def test_every_op_of_ours_is_read_and_printed(cls: type):
    name: str = vars(cls)["name"]
    assert re.search(rf"CHECK.*{re.escape(name)}(?![\w.])", text_of("tests/filecheck/dialects")), (
        f"{name} is in no check"
    )


# --- a pass -------------------------------------------------------------------------------------------------------


def test_every_pass_is_registered():
    # Passes lie in the folders; what runs them lies beside those.
    found = {cls for cls in classes(flydsl.passes, Pass) if cls.__module__.count(".") > 2 and "name" in vars(cls)}
    missing = {cls.__name__ for cls in found - {pass_class(name) for name in PASSES}}
    # The walk that joins others is a composition, not a pass of its own.
    assert missing <= {"FlyToLlvmPass"}, f"not in flydsl.passes.PASSES: {missing}"


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_has_its_file_and_a_test(name: str):
    assert PASSES[name].split(":")[0].split(".")[-1] == name.replace("-", "_")
    assert f"--{name}" in text_of("tests/filecheck") or name in text_of("tests/unit/passes"), f"no test runs {name}"


# --- a function of math -------------------------------------------------------------------------------------------

INTEGERS = {"absi", "ctlz", "ctpop", "cttz"}
BINARY = {"atan2", "copysign", "powf"}


def call(name: str):
    """A function of `fx.math` on operands of its kind."""
    x, n = fx.Float32(0.5), fx.Int32(3)
    special = {
        "fma": (x, x, x),
        "clampf": (x, x, x),
        "fpowi": (x, n),
        "ipowi": (n, n),
    }
    args = special.get(name) or ((n,) if name in INTEGERS else (x, x) if name in BINARY else (x,))
    return getattr(fx.math, name)(*args)


@pytest.mark.parametrize("target", TARGETS)
def test_every_function_of_math_lowers_on_every_target(target: str):
    @flyc.kernel
    def kernel(out: fx.Tensor):
        for i, name in enumerate(fx.math.__all__):
            made = call(name)
            for value in made if isinstance(made, tuple) else (made,):
                out[i] = fx.Float32(value)

    @flyc.jit
    def run(out: fx.Tensor):
        kernel(out).launch(grid=1, block=1)

    import numpy as np

    artifact = flyc.compile(run, np.zeros(len(fx.math.__all__), np.float32), target=target).artifact
    assert artifact.binary()


@pytest.mark.parametrize("name", fx.math.__all__)
def test_every_function_of_math_has_numbers(name: str):
    assert re.search(rf"\b{name}\b", text_of("tests/kernels")), f"no test of kernels computes {name}"
    assert getattr(fx.math, name).__doc__


# --- a type of elements -------------------------------------------------------------------------------------------

CLASSES = {name: cls for name, cls in vars(numeric).items() if isinstance(cls, type) and getattr(cls, "ir_name", "")}


@pytest.mark.parametrize("target", TARGETS)
def test_every_element_type_converts_on_every_target(target: str):
    @flyc.kernel
    def kernel(out: fx.Tensor, one: fx.Int32):
        for i, cls in enumerate(CLASSES.values()):
            # Integers stay integers on the way: no GPU turns 128 bits into a float.
            out[i] = fx.Float32(fx.Int32(cls(one)) if cls.is_integer else cls(fx.Float32(one)))

    @flyc.jit
    def run(out: fx.Tensor, one: fx.Int32):
        kernel(out, one).launch(grid=1, block=1)

    import numpy as np

    out = np.full(len(CLASSES), np.nan, np.float32)
    assert flyc.compile(run, out, 1, target=target).artifact.binary()
    if target.startswith("cpu"):
        run(out, 1)
        wrong = [name for name, value in zip(CLASSES, out, strict=True) if abs(value) != 1.0]
        assert not wrong


@pytest.mark.parametrize("name", CLASSES)
def test_every_element_type_is_complete(name: str):
    cls = CLASSES[name]
    assert getattr(fx, name) is cls
    assert cls.ir_type is not None
    if cls.is_float and cls.width < 16:
        assert cls.ir_name in FORMATS, f"{name} has no entry in flydsl.ir.fold.FORMATS"


# --- an environment variable --------------------------------------------------------------------------------------


VARIABLES = [(var.names[0], name) for group in GROUPS.values() for name, var in group.variables().items()]


@pytest.mark.parametrize(("name", "attribute"), VARIABLES)
def test_every_environment_variable_is_read_and_documented(name: str, attribute: str):
    assert f"`{name}`" in (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    strings, attributes = source_words()
    read = attribute in attributes or attribute.replace("_", "-") in strings
    assert read, f"nothing reads {name}"


# --- a kernel of the library --------------------------------------------------------------------------------------

KERNELS = sorted(
    {
        (name, module.__name__.rpartition(".")[2])
        for module in modules(flydsl.kernels)
        if not module.__name__.endswith("_kernel")  # parts of another, which is called
        for name, value in vars(module).items()
        if isinstance(value, JitFunction) and value.__module__ == module.__name__
        if "stream" in inspect.signature(value).parameters
    }
)


@pytest.mark.parametrize(("name", "module"), KERNELS)
def test_every_kernel_of_the_library_is_tested_and_documented(name: str, module: str):
    assert mentions(name, "tests/kernels"), f"no test of kernels calls {name}"
    page = text_of("docs") + (ROOT / "README.md").read_text(encoding="utf-8")
    assert name in page or module in page, f"no page names {name} of flydsl.kernels.{module}"


# --- the table itself ---------------------------------------------------------------------------------------------


def test_the_table_names_files_that_exist():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.split("## To add something, touch these files", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 9
    missing = [
        path
        for path in re.findall(r"`((?:src|tests|docs)/[\w./<>-]+)`", section)
        if "<" not in path and not (ROOT / path).exists()
    ]
    assert not missing
