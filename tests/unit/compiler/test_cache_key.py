"""Cache keys: what a key must tell apart, what it must not see, and when a warm key stops to hold."""

import dataclasses
import enum
import functools
import importlib
import math
import os
import struct
import subprocess
import sys
import textwrap
import types
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flydsl import config
from flydsl.compiler.key import function_key as function_key_module
from flydsl.compiler.key import origin, product, walk
from flydsl.compiler.key.cache_key import digest, encode
from flydsl.compiler.key.function_key import changed_components, warn_untracked
from flydsl.compiler.key.names import code_reads
from flydsl.compiler.key.walk import function_key
from flydsl.errors import UntrackedGlobalWarning

# -- encoding ----------------------------------------------------------------------------------------


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


class Level(enum.IntEnum):
    ONE = 1


class Bits(enum.Flag):
    A = 1
    B = 2


@dataclasses.dataclass(frozen=True)
class Tile:
    m: int = 1
    n: int = 2


@dataclasses.dataclass(frozen=True)
class OtherTile:
    m: int = 1
    n: int = 2


Pair = namedtuple("Pair", "a b")


class Keyed:
    def __init__(self, value: object):
        self.value = value

    def __fly_cache_key__(self) -> object:
        return self.value


class Signed:
    def __cache_signature__(self) -> object:
        return ("tensor", 4)


class TypeKeyed:
    width = 4

    @classmethod
    def __fly_cache_key__(cls) -> object:
        return cls.width


DISTINCT: list[object] = [
    *(None, True, False, 0, 1, -1, 255, 256, 2**64, -(2**64), 0.0, -0.0, 1.0, math.nan, math.inf, 1j, ...),
    *(
        "",
        "1",
        "a",
        b"",
        b"a",
        (),
        [],
        {},
        set(),
        frozenset(),
        (1,),
        [1],
        {1},
        frozenset({1}),
        {1: 2},
        {2: 1},
        {"1": 2},
    ),
    *((1, (2, 3)), ((1, 2), 3), (1, 2, 3), ("ab", "c"), ("a", "bc"), [[], []], [[[]]]),
    *(Mode.FAST, Mode.SLOW, Level.ONE, Bits.A, Bits.A | Bits.B, Mode, int, float, Tile, Tile(), Tile(2), OtherTile()),
    *(Pair(1, 2), OrderedDict({1: 2}), Keyed(1), Keyed(1.0), Signed(), TypeKeyed, range(3), range(0, 3, 2)),
    *(slice(3), slice(0, 3), types.SimpleNamespace(a=1), types.SimpleNamespace(a=2), tuple[int, ...], int | None),
    *(lambda x: x, lambda x: x + 1, struct.unpack("<d", b"\1\0\0\0\0\0\xf8\x7f")[0]),
]


def test_distinct_values_have_distinct_keys() -> None:
    keys = [digest(value) for value in DISTINCT]
    assert len(set(keys)) == len(keys)
    assert all(len(key) == 64 for key in keys)


def test_order_of_dicts_and_sets_does_not_matter() -> None:
    assert encode({"a": 1, "b": 2}) == encode({"b": 2, "a": 1})
    assert encode({"x", "y", "z"}) == encode({"z", "y", "x"})
    assert encode({True: 1}) != encode({1: 1})
    assert encode(types.MappingProxyType({1: 2})) == encode({1: 2})


def test_floats_count_by_their_bits() -> None:
    quiet, payload = (struct.unpack("<d", bits)[0] for bits in (b"\0\0\0\0\0\0\xf8\x7f", b"\1\0\0\0\0\0\xf8\x7f"))
    assert encode(quiet) != encode(payload) and encode(quiet) == encode(float("nan"))
    assert encode(0.0) != encode(-0.0) and encode(0.1 + 0.2) != encode(0.3)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(values, values)
def test_equal_bytes_mean_equal_values(a: object, b: object) -> None:
    import copy

    assert encode(copy.deepcopy(a)) == encode(a)
    if encode(a) == encode(b):
        assert repr(a) == repr(b) or a == b


def test_cycles_end() -> None:
    def knot(value: int) -> list[Any]:
        made: list[Any] = [value]
        made.append({"self": made})
        return made

    assert encode(knot(1)) == encode(knot(1)) != encode(knot(2))


def test_hooks() -> None:
    assert encode(Signed()) == encode(type("Other", (), {"__cache_signature__": lambda self: ("tensor", 4)})())
    assert encode(type("Keyed2", (), {"__fly_cache_key__": lambda self: 1})()) != encode(Keyed(1))


@pytest.mark.parametrize("value", [object(), types.ModuleType("m"), iter([]), open, [object()], {1: iter("")}])
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be part of a cache key"):
        encode(value)


def test_frameworks() -> None:
    numpy = pytest.importorskip("numpy")
    kinds = [
        numpy.dtype("f4"),
        numpy.dtype("f8"),
        numpy.float32(1),
        numpy.float64(1),
        numpy.float32,
        1.0,
        numpy.int32(1),
    ]
    assert len({encode(kind) for kind in kinds}) == len(kinds)
    assert encode(numpy.dtype("f4")) == encode(numpy.dtype(numpy.float32))
    with pytest.raises(TypeError):
        encode(numpy.zeros(3))


# -- a package of the user ---------------------------------------------------------------------------

KERNELS = """
import enum, math, types
from . import cfg, ops
from .ops import direct, Base
import {pkg}.cfg as alias

TILE = 16
SCALE = 0.5
SHAPE = [1, 2, {{"k": 3}}]
ns = types.SimpleNamespace(DEPTH=2, unused=0)

class Config:
    STAGES = 3
    def size(self):
        return self.STAGES

class Mode(enum.Enum):
    A = 1
    B = 2

config = Config()

def helper(x):
    return inner(x) * TILE

def inner(x):
    return x if x else helper(x)

def simple(x, n=4, *, flag=False):
    return x + n

def uses_value(x):
    return x * TILE + SCALE

def uses_container(x):
    return [SHAPE[i] for i in range(3)]

def uses_chain(x):
    return cfg.WIDTH + alias.nested.DEEP + ns.DEPTH + Config.STAGES + config.STAGES

def uses_enum(x):
    return x if Mode.A else x

def uses_helper(x):
    return helper(x)

def uses_ops(x):
    return ops.remote(x) + direct(x)

def uses_lambda(x):
    return sorted(x, key=lambda v: v * TILE)

def uses_import(x):
    from .ops import late
    return late(x) + math.pi

def uses_class(x):
    return Config().size() + x

def uses_missing(x):
    return undefined_name + x

def factory(width, mode=None, fn=None):
    def kernel(x):
        return x + width if mode else fn(x)
    return kernel

class Method(Base):
    STEP = 8
    def __init__(self):
        self.depth = 1
    def run(self, x):
        return self.twice(x) + self.STEP + self.depth + super().common(x)
    def twice(self, x):
        return x * 2

class Child(Method):
    def twice(self, x):
        return x * 3
"""
CFG = "import types\nWIDTH = 32\nnested = types.SimpleNamespace(DEEP=1)\n"
OPS = """
OFFSET = 1
def remote(x):
    return x + OFFSET
def direct(x):
    return x
def late(x):
    return x
class Base:
    def common(self, x):
        return x
"""


class Package:
    """A package on disk that can be edited and imported again, as a new process would."""

    def __init__(self, root: Path):
        self.root = root
        self.name = f"fly_user_{root.name.replace('-', '_')}"
        self.files = {"kernels": KERNELS.format(pkg=self.name), "cfg": CFG, "ops": OPS, "__init__": ""}

    def load(self, *edits: tuple[str, str, str]) -> Any:
        files = dict(self.files)
        for file, old, new in edits:
            assert old in files[file], (file, old)
            files[file] = files[file].replace(old, new)
        folder = self.root / self.name
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        self.unload()
        importlib.invalidate_caches()
        return importlib.import_module(f"{self.name}.kernels")

    def unload(self) -> None:
        for name in [n for n in sys.modules if n.partition(".")[0] == self.name]:
            del sys.modules[name]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Package(tmp_path)
    yield made
    made.unload()


def key(fn: Any, **options: Any) -> str:
    return function_key(fn, environment=False, **options).digest


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("simple", ("kernels", "return x + n", "return x - n")),
        ("simple", ("kernels", "n=4", "n=5")),
        ("simple", ("kernels", "flag=False", "flag=True")),
        ("uses_value", ("kernels", "TILE = 16", "TILE = 17")),
        ("uses_value", ("kernels", "TILE = 16", "TILE = 16.0")),
        ("uses_value", ("kernels", "SCALE = 0.5", "SCALE = 0.25")),
        ("uses_container", ("kernels", '"k": 3', '"k": 4')),
        ("uses_chain", ("cfg", "WIDTH = 32", "WIDTH = 64")),
        ("uses_chain", ("cfg", "DEEP=1", "DEEP=2")),
        ("uses_chain", ("kernels", "DEPTH=2", "DEPTH=3")),
        ("uses_chain", ("kernels", "STAGES = 3", "STAGES = 4")),
        ("uses_enum", ("kernels", "A = 1", "A = 7")),
        ("uses_helper", ("kernels", "return x if x else", "return -x if x else")),
        ("uses_helper", ("kernels", "TILE = 16", "TILE = 17")),
        ("uses_ops", ("ops", "return x + OFFSET", "return x - OFFSET")),
        ("uses_ops", ("ops", "OFFSET = 1", "OFFSET = 2")),
        ("uses_ops", ("ops", "def direct(x):\n    return x", "def direct(x):\n    return -x")),
        ("uses_lambda", ("kernels", "TILE = 16", "TILE = 17")),
        ("uses_lambda", ("kernels", "v * TILE", "v + TILE")),
        ("uses_import", ("ops", "def late(x):\n    return x", "def late(x):\n    return -x")),
        ("uses_class", ("kernels", "return self.STAGES", "return -self.STAGES")),
        ("uses_class", ("kernels", "STAGES = 3", "STAGES = 4")),
    ],
)
def test_a_change_gives_a_new_key(package: Package, name: str, edit: tuple[str, str, str]) -> None:
    before = key(getattr(package.load(), name))
    assert key(getattr(package.load(), name)) == before
    assert key(getattr(package.load(edit), name)) != before


@pytest.mark.parametrize(
    "edit",
    [
        ("kernels", "SCALE = 0.5", "SCALE = 0.75"),  # not used by it
        ("kernels", "unused=0", "unused=1"),
        ("kernels", "\nTILE = 16", "# one more line\n\nTILE = 16"),
        ("cfg", "WIDTH = 32", "WIDTH = 32\nOTHER = 1"),
        ("kernels", "def factory", "def added():\n    pass\n\ndef factory"),
    ],
)
def test_a_change_elsewhere_keeps_the_key(package: Package, edit: tuple[str, str, str]) -> None:
    first = package.load()
    before = [key(getattr(first, name)) for name in ("uses_helper", "uses_chain", "uses_ops")]
    second = package.load(edit)
    assert [key(getattr(second, name)) for name in ("uses_helper", "uses_chain", "uses_ops")] == before


def test_options_owner_and_extra(package: Package) -> None:
    fn = package.load().simple
    keys = [
        key(fn),
        key(fn, options={"fast": True}),
        key(fn, options={"fast": False}),
        key(fn, owner=Tile),
        key(fn, extra={"backend": "a"}),
        key(fn, extra={"backend": "b"}),
        function_key(fn).digest,
    ]
    assert len(set(keys)) == len(keys)
    with pytest.raises(TypeError, match="cache key"):
        key(fn, options=object())


def test_closures(package: Package) -> None:
    module = package.load()
    make = module.factory
    keys = [
        key(make(w, m, f))
        for w, m, f in (
            *((1, None, None), (2, None, None), (1.0, None, None), (True, None, None), ([1], None, None)),
            *((1, module.Mode.A, None), (1, module.Mode.B, None), (1, None, module.helper), (1, None, module.inner)),
            *((1, None, lambda x: x), (1, None, lambda x: -x), (Tile(), None, None), (Tile(3), None, None)),
        )
    ]
    assert len(set(keys)) == len(keys)
    assert key(make(1, module.Mode.A)) == key(make(1, module.Mode.A))


def test_members_through_self(package: Package) -> None:
    module = package.load()
    before = key(module.Method.run, owner=module.Method)
    assert key(module.Child.run, owner=module.Child) != before
    for edit in (
        ("kernels", "return x * 2", "return x * 4"),
        ("kernels", "STEP = 8", "STEP = 9"),
        ("ops", "def common(self, x):\n        return x", "def common(self, x):\n        return -x"),
    ):
        changed = package.load(edit)
        assert key(changed.Method.run, owner=changed.Method) != before
    again = package.load()
    assert key(again.Method.run, owner=again.Method) == before


class Decorated:
    """What `@jit` and `@kernel` make, as far as the key is concerned."""

    def __init__(self, fn: Callable[..., Any], source: str, options: object = None):
        self.__fly_function__ = types.SimpleNamespace(original=fn, source=source)
        self.__fly_options__ = options


def test_nested_kernels(package: Package) -> None:
    module = package.load()
    make = module.factory

    def launcher(kernel: object) -> str:
        return key(Decorated(make(1, None, kernel), "def launcher(): ..."))

    keys = [
        launcher(Decorated(module.simple, "one")),
        launcher(Decorated(module.simple, "two")),
        launcher(Decorated(module.simple, "one", {"known_block_size": 64})),
        launcher(Decorated(module.uses_value, "one")),
        launcher(module.simple),
    ]
    assert len(set(keys)) == len(keys)
    assert launcher(Decorated(module.simple, "one")) == keys[0]


def test_source_is_that_of_decoration(package: Package) -> None:
    module = package.load()
    before = key(Decorated(module.simple, "def simple(): 1"))
    package.load(("kernels", "return x + n", "return x - n"))  # rewrites the file
    assert key(Decorated(module.simple, "def simple(): 1")) == before
    helper = key(module.uses_helper)
    (package.root / package.name / "kernels.py").write_text("garbage (")
    assert key(module.uses_helper) == helper  # helpers are read off their code, not off the file


def test_recursion_ends(package: Package) -> None:
    module = package.load()
    record = function_key(module.uses_helper, environment=False)
    names = [component.name for component in record.components]
    assert f"{module.__name__}:helper" in names and f"{module.__name__}:inner" in names
    assert len(names) == len(set(names))


def test_exec_without_source() -> None:
    space: dict[str, Any] = {"__name__": "made"}
    exec("T = 3\ndef f(x):\n    return x + T", space)
    record = function_key(space["f"], environment=False)
    assert record.source_missing
    other: dict[str, Any] = {"__name__": "made"}
    exec("T = 3\ndef f(x):\n    return x - T", other)
    assert key(other["f"]) != record.digest


def test_positions_count_only_with_debug_info(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = ("kernels", "\nTILE = 16", "\n\n\nTILE = 16")
    record = function_key(package.load().simple, environment=False)
    assert key(package.load(moved).simple) == record.digest
    monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_DEBUG_INFO", "1")
    assert not record.check() and record.check(environment=False)
    with_lines = key(package.load().simple)
    assert with_lines != record.digest
    assert key(package.load(moved).simple) != with_lines


def test_wrapped_helpers(package: Package) -> None:
    module = package.load()
    make = module.factory

    def variants(m: Any) -> list[str]:
        cached = functools.lru_cache(m.helper)
        made = (cached, functools.partial(m.helper, 1), functools.partial(m.helper, 2), m.config.size)
        return [key(make(1, None, fn)) for fn in made]

    before = variants(module)
    assert len(set(before)) == len(before)
    changed = variants(package.load(("kernels", "inner(x) * TILE", "inner(x) + TILE")))
    assert all(a != b for a, b in zip(before[:3], changed[:3], strict=True))


def test_used_names() -> None:
    def outer(self: Any, x: Any) -> Any:
        def inside():  # type: ignore[no-untyped-def]
            return os.path.sep + self.deep.name + captured.real

        return [math.floor(v) for v in inside() if x.shape]

    captured = 3
    reads = code_reads(outer.__code__)
    assert reads.attributes == {"path", "sep", "deep", "name", "real", "floor", "shape"}
    chains = {(c.root, ".".join(c.names)) for c in reads.chains}
    assert chains == {
        ("global", "os.path.sep"),
        ("cell", "captured.real"),
        ("global", "math.floor"),
    }


def test_used_names_of_instructions_on_two_variables() -> None:
    """Python 3.13 and later store one variable and load the next in one instruction."""

    def method(self: Any, items: Any) -> Any:
        import os.path as paths

        first, second = [self.factor for _ in items], paths.sep
        return second, first, self.offset

    chains = {(c.root, ".".join(c.names)) for c in code_reads(method.__code__).chains}
    assert chains == {
        ("import", "os.path"),
        ("import", "os.path.sep"),
    }


# -- whose code --------------------------------------------------------------------------------------


def test_other_packages_count_by_version(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of installed packages is not followed, unless it is asked for."""
    standard = origin.library_dirs()[1]
    monkeypatch.setattr(origin, "library_dirs", lambda: ((str(package.root),), standard))
    origin.origin_of.cache_clear()
    try:
        helper = package.load().helper

        def kernel(x: Any) -> Any:
            return helper(x)

        def kind(**options: Any) -> str:
            record = function_key(kernel, environment=False, **options)
            return next(c.kind for c in record.components if c.name == f"{package.name}.kernels:helper")

        before = key(kernel)
        assert kind() == "external"
        with monkeypatch.context() as patch:
            patch.setattr(walk, "package_version", lambda top: "99")
            assert key(kernel) != before
        assert kind(depends_on=[package.name]) == kind(depends_on=[sys.modules[package.name]]) == "function"
        with monkeypatch.context() as patch:
            patch.setenv("FLYDSL_EXTRA_SOURCE_DIRS", str(package.root))
            assert kind() == "function"
        with monkeypatch.context() as patch:
            patch.setattr(origin, "decorated_packages", set())
            origin.note_decorated(helper.__module__)
            assert kind() == "function"
        root = sys.modules[f"{package.name}.kernels"].uses_ops  # its own package is followed
        kinds = {c.name: c.kind for c in function_key(root, environment=False).components}
        assert kinds[f"{package.name}.ops:remote"] == "function"
    finally:
        origin.origin_of.cache_clear()


def test_depends_on_is_followed_without_being_used(package: Package) -> None:
    def kernel(x: Any) -> Any:
        return x

    module = package.load()
    before = key(kernel, depends_on=[module.helper])
    assert before != key(kernel)
    edited = package.load(("kernels", "inner(x) * TILE", "inner(x) + TILE"))
    assert key(kernel, depends_on=[edited.helper]) != before


IMPORTS = [
    "from . import cfg",
    "from .cfg import WIDTH",
    "import {pkg}.cfg",
    "import {pkg}.cfg as c",
    "from {pkg} import cfg as c",
]


@pytest.mark.parametrize("statement", IMPORTS)
def test_imports_inside_a_function(package: Package, statement: str) -> None:
    text = statement.format(pkg=package.name)
    use = {"c": "c.WIDTH", "WIDTH": "WIDTH", "cfg": "cfg.WIDTH"}.get(text.split()[-1], f"{package.name}.cfg.WIDTH")
    package.files["kernels"] = f"def kernel(x):\n    {text}\n    return x + {use}\n"
    before = key(package.load().kernel)
    assert key(package.load().kernel) == before
    assert key(package.load(("cfg", "WIDTH = 32", "WIDTH = 64")).kernel) != before


def test_product_and_standard_library_are_not_followed() -> None:
    def kernel(x: Any) -> Any:
        return textwrap.dedent(x), encode(x), config.runtime, math.floor(x), len(x)

    kinds = {component.kind for component in function_key(kernel, environment=False).components}
    assert kinds <= {"source", "options", "external", "product", "module"}


def test_environment_components(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {component.name: component.digest for component in product.environment_components()}
    assert {"flydsl version", "flydsl sources", "xdsl version", "llvmlite version", "llvmlite library"} <= set(names)
    for attribute, name in (("product_digest", "flydsl sources"), ("llvm_library_digest", "llvmlite library")):
        with monkeypatch.context() as patch:
            patch.setattr(product, attribute, lambda: "other")
            changed = product.environment_components()
        assert changed_components(changed, product.environment_components()) == [(name, "environment")]
    with monkeypatch.context() as patch:
        patch.setattr(product, "distribution_version", lambda name: "0")
        assert len(changed_components(product.environment_components(), list(names.items()) and [])) == len(names)
    (tmp_path / "a.py").write_text("x = 1")
    monkeypatch.setenv("FLYDSL_EXTRA_SOURCE_DIRS", str(tmp_path))
    first = {component.name: component.digest for component in product.environment_components()}
    assert first["extra sources"] != names["extra sources"]
    (tmp_path / "a.py").write_text("x = 2")
    assert product.environment_components()[-1].digest != first["extra sources"]


def test_product_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "flydsl"
    (package / "kernels").mkdir(parents=True)
    (package / "a.py").write_text("1")
    (package / "kernels" / "k.py").write_text("1")
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(product, "PRODUCT", package)
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))

    def now() -> str:
        monkeypatch.setattr(product, "_product", [])
        return product.product_digest()

    before = now()
    assert (tmp_path / "cache" / "producthash.json").is_file()
    with monkeypatch.context() as patch:
        patch.setattr(product, "content_digest", lambda files: pytest.fail("read the files again"))
        assert product.product_digest() == before
    (package / "kernels" / "k.py").write_text("22")
    assert now() == before
    (package / "a.py").write_text("22")
    changed = now()
    assert changed != before
    (package / "b.py").write_text("")
    assert now() not in (before, changed)
    for rubbish in ("{", "[]", '{"x": 3}', "{}"):
        (tmp_path / "cache" / "producthash.json").write_text(rubbish)
        (package / "b.py").unlink(missing_ok=True)
        assert now() == changed
    moved = tmp_path / "elsewhere"
    package.rename(moved)
    monkeypatch.setattr(product, "PRODUCT", moved)
    assert now() == changed


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import {pkg}.kernels as k
from flydsl.compiler.key.walk import function_key
from flydsl.compiler.key.cache_key import digest
fns = [k.simple, k.uses_value, k.uses_container, k.uses_chain, k.uses_enum, k.uses_helper, k.uses_ops, k.uses_lambda,
       k.uses_import, k.uses_class, k.factory({{"a", "b", "c"}}, k.Mode.B, k.helper), k.Method.run]
print([function_key(f, owner=k.Method if f is k.Method.run else None).digest for f in fns])
print(digest([{{"x", "yy", "zzz"}}, {{"p": 1, "q": 2}}, frozenset("hello"), k.Mode.A, k.helper, 0.1]))
"""


def test_equal_keys_in_every_process(package: Package, tmp_path: Path) -> None:
    """Different hash seeds, working directories, install paths, order of the environment."""
    package.load()
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    (copy / package.name).symlink_to(tmp_path / package.name)
    import shutil

    shutil.copytree(tmp_path / package.name, copy / "real" / package.name)
    outputs: set[str] = set()
    for seed, cwd, place in (("0", tmp_path, tmp_path), ("1", Path("/"), copy / "real"), ("77", copy, tmp_path)):
        env = dict(reversed(list(os.environ.items()))) if seed == "1" else dict(os.environ)
        env |= {"PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(product.PRODUCT.parent)}
        command = [sys.executable, "-c", SCRIPT.format(pkg=package.name), str(place)]
        outputs.add(subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True, text=True).stdout)
    assert len(outputs) == 1 and "\n" in outputs.pop()


# -- drift -------------------------------------------------------------------------------------------


def test_value_drift_raises(package: Package) -> None:
    module = package.load()
    record = function_key(module.uses_value, environment=False)
    assert record.check()
    module.TILE = 32
    with pytest.raises(RuntimeError, match=rf"'TILE' of {module.__name__} has changed .* it was 16, now it is 32"):
        record.check()
    with pytest.raises(RuntimeError):
        record.check()
    module.TILE = 16
    assert record.check()
    module.TILE = 16.0
    with pytest.raises(RuntimeError, match="now it is 16.0"):
        record.check()
    del module.TILE
    with pytest.raises(RuntimeError, match="now it is nothing"):
        record.check()


def test_equal_values_are_no_drift(package: Package) -> None:
    module = package.load()
    module.SCALE, module.TILE = 1e10, 10**30
    record = function_key(module.uses_value, environment=False)
    module.SCALE, module.TILE = float("1e10"), int("1" + "0" * 30)
    assert record.check() and record.check()
    module.SCALE = -0.0
    with pytest.raises(RuntimeError):
        record.check()


def test_drift_may_recompile(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    module = package.load()
    record = function_key(module.uses_value, environment=False)
    monkeypatch.setenv("FLYDSL_COMPILE_GLOBALS", "recompile")
    module.TILE = 32
    assert not record.check()
    again = function_key(module.uses_value, environment=False)
    assert again.digest != record.digest and again.check()
    assert changed_components(again.components, record.components) == [(f"{module.__name__}.TILE", "value")]


def test_container_drift(package: Package) -> None:
    module = package.load()
    record = function_key(module.uses_container, environment=False)
    module.SHAPE[2]["k"] = True
    with pytest.raises(RuntimeError, match="'SHAPE'"):
        record.check()
    module.SHAPE[2]["k"] = 3
    assert record.check()
    module.SHAPE = [1, 2, {"k": 3}]
    assert record.check()
    module.SHAPE.append(1)
    with pytest.raises(RuntimeError):
        record.check()


@pytest.mark.parametrize("place", ["cfg.WIDTH", "cfg.nested.DEEP", "ns.DEPTH", "Config.STAGES"])
def test_attribute_drift(package: Package, place: str) -> None:
    module = package.load()
    record = function_key(module.uses_chain, environment=False)
    holder: Any = module
    *path, name = place.split(".")
    for part in path:
        holder = getattr(holder, part)
    setattr(holder, name, 77)
    with pytest.raises(RuntimeError, match=f"'{name}'.*77"):
        record.check()


def test_closure_drift() -> None:
    width = 4

    def kernel(x: Any) -> Any:
        return x + width

    record = function_key(kernel, environment=False)
    assert record.check()
    width = 5
    with pytest.raises(RuntimeError, match="'width' .*it was 4, now it is 5"):
        record.check()


@pytest.mark.parametrize("how", ["rebind", "code", "deep", "module"])
def test_callable_drift_recomputes(package: Package, how: str) -> None:
    module = package.load()
    record = function_key(module.uses_ops if how == "module" else module.uses_helper, environment=False)
    assert record.check()
    if how == "rebind":
        module.helper = lambda x: x
    elif how == "code":
        module.helper.__code__ = (lambda x: x + 3).__code__
    elif how == "deep":
        module.inner = module.simple
    else:
        module.ops.remote = module.simple
    assert record.check() is False
    again = function_key(module.uses_ops if how == "module" else module.uses_helper, environment=False)
    assert again.digest != record.digest and again.check()


def test_functions_in_containers(package: Package) -> None:
    module = package.load()
    table = {"op": module.helper, "n": 1}

    def kernel(x: Any) -> Any:
        return table["op"](x)

    record = function_key(kernel, environment=False)
    assert record.check()
    table["op"] = module.simple
    assert record.check() is False
    assert key(kernel) != record.digest
    record = function_key(kernel, environment=False)
    table["n"] = 2
    with pytest.raises(RuntimeError, match="'table'"):
        record.check()


def test_undefined_name_appears(package: Package) -> None:
    module = package.load()
    record = function_key(module.uses_missing, environment=False)
    assert record.check()
    module.undefined_name = 3
    assert record.check() is False


def test_baselines_are_per_owner(package: Package) -> None:
    module = package.load()
    parent = function_key(module.Method.run, owner=module.Method, environment=False)
    child = function_key(module.Child.run, owner=module.Child, environment=False)
    module.Child.twice = lambda self, x: x
    assert parent.check() and child.check() is False


def test_untracked_objects_warn_once(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    module = package.load()
    monkeypatch.setattr(function_key_module, "_warned", set())
    thing = (n for n in range(3))

    def kernel(x: Any) -> Any:
        return x + next(thing) + module.TILE

    problems = function_key(kernel, environment=False).problems
    assert [problem.kind for problem in problems] == [types.GeneratorType]
    with pytest.warns(UntrackedGlobalWarning, match="thing is a .*generator.*traced at every call.*__fly_cache_key__"):
        warn_untracked(problems, "kernel")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_untracked(problems, "kernel")


def test_component_diff() -> None:
    left = [("a", "value", "1"), ("b", "value", "2")]
    assert changed_components(left, left) == []
    assert changed_components(left, [["a", "value", "1"], ["b", "value", "3"], ["c", "x", "1"]]) == [
        ("b", "value"),
        ("c", "x"),
    ]


def test_refuses_what_is_no_function() -> None:
    with pytest.raises(TypeError, match="a function is needed, got int"):
        function_key(3)
