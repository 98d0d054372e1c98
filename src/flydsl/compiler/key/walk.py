"""The walk from a function over everything its code can read.

Names lead from code to values, and values hold objects whose classes bring more code: the walk goes on until neither
brings anything new. Objects, classes and modules count with the attributes that some code of the walk names, all of
them where code computes names.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import reprlib
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Protocol, cast

from flydsl import config
from flydsl.compiler.key import holders, libraries
from flydsl.compiler.key.cache_key import digest, qualified_name
from flydsl.compiler.key.component import MISSING, Component
from flydsl.compiler.key.function_key import FunctionKey, Names, Problem, Walked
from flydsl.compiler.key.holders import Holder
from flydsl.compiler.key.images import SCALARS, Images, dict_of, is_snapshot
from flydsl.compiler.key.names import Chain, code_reads, code_record
from flydsl.compiler.key.origin import origin_of, package_version
from flydsl.compiler.key.ownership import Ownership
from flydsl.compiler.key.product import environment_components
from flydsl.compiler.key.states import Ask, note_state


def function_key(
    function: object,
    *,
    owner: type | None = None,
    options: object = None,
    depends_on: Iterable[object] = (),
    extra: Mapping[str, object] | None = None,
    environment: bool = True,
) -> FunctionKey:
    """The key of a function, a `RewrittenFunction` or an object with one as `__fly_function__`.

    `owner` is the class a method is called on, `options` what the decorator was given, `depends_on` functions, classes,
    modules or names of packages that count as the user's, `extra` more named parts such as the backend's hash.
    `environment` adds what does not depend on the function.
    """

    def walk(values: Mapping[str, object], known: Walked | None) -> Walked:
        made = Walk(function, tuple(depends_on), known)
        return made.run(owner, options, extra or {}, environment, values)

    return FunctionKey(walk)


class Rewritten(Protocol):
    """What is known of a decorated function."""

    @property
    def original(self) -> FunctionType: ...
    @property
    def source(self) -> str: ...


class _Decorated(Protocol):
    __fly_function__: Rewritten


def rewritten(obj: object) -> Rewritten | None:
    """The RewrittenFunction-like of a decorated function, or None."""
    kind = type(obj)
    if kind is FunctionType or kind in SCALARS or isinstance(obj, type | ModuleType):
        return None
    if not hasattr(kind, "__fly_function__") and "__fly_function__" not in (dict_of(obj) or ()):
        return None
    return cast("_Decorated", obj).__fly_function__


class Walk(Images):
    """One computation of a key: the components found so far and the functions still to look into."""

    def __init__(self, function: object, depends_on: tuple[object, ...], known: Walked | None = None):
        super().__init__()
        record = rewritten(function) or function
        original: object = getattr(record, "original", record)
        if not isinstance(original, FunctionType):
            raise TypeError(f"a function is needed, got {type(function).__name__}")
        self.root = function
        self.function = original
        self.source: str | None = getattr(record, "source", None)
        self.depends_on = depends_on
        self.positions = config.keeps_places()
        self.components: list[Component | None] = []
        self.seen: dict[int, int] = {}
        """Numbers of components by the identity of what they are of."""
        self.simple_ones: dict[Component, int] = {}
        self.pending: deque[Callable[[], None]] = deque()
        self.holders: list[Holder] = []
        self.read: set[str] = set()
        """Every attribute that some code names."""
        self.computed = False
        """Whether some code computes names of attributes."""
        self.names: dict[tuple[int, str], Names] = {}
        self.cells: list[tuple[types.CellType, object]] = []
        self.functions: list[tuple[FunctionType, types.CodeType, object, object]] = []
        self.options: list[tuple[object, object]] = []
        """Decorated functions and what their decorators were given."""
        self.facts: set[tuple[int, str]] = set()
        self.values: dict[str, tuple[object, str]] = {}
        self.problems: list[Problem] = []
        self.asked: set[Ask] = set()
        """Of states of libraries."""
        self.quiet = 0
        """Inside objects of libraries what cannot be told counts by its class alone."""
        self.known = known
        self.offset = 0
        if known is not None:
            self.seen = dict(known.seen)
            self.offset = len(known.components)
            self.read, self.computed = set(known.read), known.computed
        self.whose = Ownership(self.function, depends_on)

    def run(
        self,
        owner: type | None,
        options: object,
        extra: Mapping[str, object],
        environment: bool,
        values: Mapping[str, object],
    ) -> Walked:
        fn = self.function
        ours: tuple[Component, ...] = ()
        if self.known is None:
            self.add_function(fn, "source", source=self.source)
            self.options.append((self.root, getattr(self.root, "__fly_options__", None)))
            named: list[tuple[str, str, object]] = [("name", "source", (fn.__module__, fn.__qualname__))]
            named.append(("options", "options", options))
            if owner is not None:
                self.reference(owner, qualified_name(owner))
                named.append(("class", "class", qualified_name(owner)))
            named += [(name, "extra", value) for name, value in extra.items()]
            for name, kind, value in named:
                self.components.append(Component(name, kind, digest(value)))
            for item in self.depends_on:
                if not isinstance(item, str | ModuleType):
                    self.place(item, f"depends_on {getattr(item, '__qualname__', type(item).__name__)}")
            ours = environment_components() if environment else ()
        roots = [(name, self.place(value, name)) for name, value in values.items()]
        self.settle()
        for holder in self.holders:
            self.components[holder.number - self.offset] = holder.component()
        holders.watch(self)
        if roots:
            self.components.append(Component("arguments", "arguments", digest(roots)))
        return Walked(self, (*ours, *cast("list[Component]", self.components)))

    def settle(self) -> None:
        """Go on until nothing new is found."""
        while True:
            while self.pending:
                self.pending.popleft()()
            known = (len(self.read), self.computed, len(self.components))
            for holder in list(self.holders):
                holder.expand(self)
            self.add_facts()
            if not self.pending and known == (len(self.read), self.computed, len(self.components)):
                return

    # -- components --------------------------------------------------------------------------------------

    def reserve(self, obj: object) -> tuple[int, bool]:
        """The number of an object, and whether it is new."""
        found = self.seen.get(id(obj))
        if found is not None:
            return found, False
        self.alive.append(obj)
        number = self.seen[id(obj)] = self.offset + len(self.components)
        self.components.append(None)
        return number, True

    def simple(self, name: str, kind: str, value: object) -> int:
        """The number of a component that is complete at once; equal ones are one."""
        made = Component(name, kind, digest(value))
        found = self.simple_ones.get(made)
        if found is None:
            found = self.simple_ones[made] = self.offset + len(self.components)
            self.components.append(made)
        return found

    def place(self, value: object, label: str, kind: str = "value") -> int:
        """The component of whatever a name refers to."""
        known = self.reference(value, label)
        if known is not None:
            return known
        before = len(self.problems)
        image = self.image(value, label)
        if len(self.problems) > before:
            return self.simple(label, "untracked", qualified_name(type(value)))
        self.values[label] = (image, reprlib.repr(value))
        return self.simple(label, "snapshot" if is_snapshot(value) else kind, image)

    def untracked(self, value: object, label: str, why: str = "") -> None:
        if not self.quiet:
            self.problems.append(Problem(label, type(value), why))

    def reference(self, value: object, label: str) -> int | None:
        """The component of a function, class, module, callable or object of the user; None for a value."""
        if type(value) in SCALARS:
            return None
        if value is MISSING:
            return self.simple(label, "missing", None)
        found = self.seen.get(id(value))
        if found is not None:
            return found
        record = rewritten(value)
        if record is not None:
            return self.decorated(value, record, label)
        if isinstance(value, FunctionType):
            return self.add_helper(value)
        if isinstance(value, type):
            return self.add_class(value)
        if isinstance(value, ModuleType):
            return self.add_module(value)
        if isinstance(value, MethodType):
            parts = (self.place(value.__func__, label), self.image(value.__self__, label))
            return self.simple(label, "method", parts)
        if (parts := libraries.callable_parts(self, value, label)) is not None:
            return parts if isinstance(parts, int) else self.simple(label, "callable", parts)
        kind = type(value)
        if kind is types.SimpleNamespace or (
            self.whose.of_class(kind) == "user" and not hasattr(kind, "__fly_cache_key__")
        ):
            return holders.add_object(self, value, label)
        if kind.__module__ == "decimal":  # what numbers give depends on their context
            note_state(self, "decimal", "Decimal")
        return None

    def decorated(self, value: object, record: Rewritten, label: str) -> int:
        options = getattr(value, "__fly_options__", None)
        self.options.append((value, options))
        self.whose.packages.add(record.original.__module__.partition(".")[0])
        number = self.add_function(record.original, "kernel", source=record.source, options=options)
        held = dict_of(value) or {}
        owner = held.get("owner", held.get("_owner"))
        return number if owner is None else self.simple(label, "method", (number, self.image(owner, label)))

    def external(self, module: str, name: str, more: object = None) -> int:
        """A component for code that is not the user's: which, and of which version."""
        top = module.partition(".")[0]
        version = "" if top in sys.stdlib_module_names else package_version(top)
        note_state(self, module, name)
        return self.simple(f"{module}:{name}", "external", (module, name, version, more))

    # -- functions ---------------------------------------------------------------------------------------

    def add_helper(self, fn: FunctionType) -> int:
        module = fn.__module__ or ""
        if self.whose.is_user(fn.__code__.co_filename, module):
            return self.add_function(fn, "function")
        if origin_of(fn.__code__.co_filename) == "product":  # its sources are part of every key
            return self.simple(f"{module}:{fn.__qualname__}", "product", (module, fn.__qualname__))
        return libraries.add_library_function(self, fn)

    def add_function(self, fn: FunctionType, kind: str, *, source: str | None = None, options: object = None) -> int:
        """A function whose code counts: reserve its number now, look into it later."""
        number, new = self.reserve(fn)
        if new:
            self.pending.append(lambda: self.fill_function(number, fn, kind, source, options))
        return number

    def fill_function(self, number: int, fn: FunctionType, kind: str, source: str | None, options: object) -> None:
        code = fn.__code__
        self.functions.append((fn, code, fn.__defaults__, fn.__kwdefaults__))
        label = f"{fn.__module__}:{fn.__qualname__}"
        reads = code_reads(code)
        self.read |= reads.attributes
        self.computed = self.computed or reads.computed
        # The text may have changed on disk since a helper was imported; its code is what runs. The text of decorated
        # functions was read when they were decorated.
        body: object = source if source else code_record(code, positions=False)
        place = code_record(code, positions=True) if self.positions else None
        defaults = [self.place(v, f"{label} default {i}", "default") for i, v in enumerate(fn.__defaults__ or ())]
        named = cast("dict[str, object]", fn.__kwdefaults__ or {})
        keywords = [(n, self.place(v, f"{label} default {n}", "default")) for n, v in named.items()]
        if named:
            self.image(named, label)  # for its probe: it can be changed in place
        references: list[tuple[object, int | None]]
        references = [("\0".join((chain.root, *chain.names)), self.resolve(chain, fn)) for chain in reads.chains]
        if reads.whole:
            references += [
                (("global", n), self.place(v, f"{fn.__module__}.{n}"))
                for n, v in sorted(fn.__globals__.items())
                if n != "__builtins__"
            ]
            self.probes.append(holders.same_names(fn.__globals__))
        held = [self.simple(label, "attributes", self.image(fn.__dict__, label))] if fn.__dict__ else []
        content = (body, place, defaults, keywords, [(c, r) for c, r in references if r is not None], options, held)
        self.components[number - self.offset] = Component(label, kind, digest(content))

    def add_facts(self) -> None:
        """What code reads of functions beside calling them, where it names it."""
        for fn, *_ in self.functions if self.computed else ():
            if (id(fn), "__dict__") not in self.facts:  # also where there is nothing in it yet
                self.facts.add((id(fn), "__dict__"))
                self.image(fn.__dict__, fn.__qualname__)
        for name in sorted(libraries.FACTS & self.read):
            for fn, *_ in list(self.functions):
                if (id(fn), name) not in self.facts:
                    self.facts.add((id(fn), name))
                    value: object = getattr(fn, name)
                    self.probes.append(lambda fn=fn, name=name, value=value: getattr(fn, name) is value)
                    self.place(value, f"{fn.__module__}:{fn.__qualname__}.{name}", "fact")

    def resolve(self, chain: Chain, fn: FunctionType) -> int | None:
        """The component a chain refers to; None if it needs none."""
        first, *rest = chain.names
        module = fn.__module__ or "?"
        if chain.root == "import":
            return self.through_import(first, rest, fn)
        if chain.root == "cell":
            cell = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)).get(first)
            if cell is None:
                return None
            value = contents(cell)
            self.cells.append((cell, value))
            return self.follow(value, rest, f"{module}:{fn.__qualname__}.{first}")
        value = self.look_up(fn.__globals__, first)
        if value is MISSING:
            value = self.look_up(vars(builtins), first)
            if isinstance(value, type) and value.__module__ == "builtins":
                return None
            module = module if value is MISSING else "builtins"
        return self.follow(value, rest, f"{module}.{first}")

    def look_up(self, space: Mapping[str, object], name: str) -> object:
        """What a namespace says of a name, which is watched from now on."""
        value = space.get(name, MISSING)
        self.names.setdefault((id(space), name), (space.get, name, value))
        self.alive.append(space)
        return value

    def through_import(self, name: str, rest: list[str], fn: FunctionType) -> int | None:
        """A module imported inside the function. The user's own are loaded: tracing is about to do the same."""
        level = len(name) - len(name.lstrip("."))
        package = fn.__globals__.get("__package__") or ""
        try:
            full = importlib.util.resolve_name(name, package).rstrip(".") if level else name
            module = sys.modules.get(full)
            spec = module.__spec__ if module is not None else importlib.util.find_spec(full)
            if module is None and (spec is None or not spec.origin or not self.whose.is_user(spec.origin, full)):
                ours = spec is not None and origin_of(spec.origin or "") == "product"
                return None if ours else self.external(full, ".".join(rest))
            loaded = module if module is not None else importlib.import_module(full)
        except (ImportError, ValueError):
            return self.simple(name, "missing", None)
        if rest and rest[0] not in vars(loaded) and hasattr(loaded, "__path__"):
            inner = f"{full}.{rest[0]}"  # `from package import module`
            if inner in sys.modules or importlib.util.find_spec(inner) is not None:
                return self.through_import(inner, rest[1:], fn)
        self.look_up(sys.modules, full)
        return self.follow(loaded, rest, full)

    def follow(self, value: object, rest: list[str], label: str) -> int | None:
        """The component of `value.rest...`: through modules attribute by attribute, other values as a whole."""
        while isinstance(value, ModuleType):
            origin = self.whose.of_module(value)
            if origin == "product" or (not rest and origin != "user"):
                return None if origin == "product" else self.external(value.__name__, "")
            if not rest:
                break
            attribute, *rest = rest
            space, name = vars(value), value.__name__
            label = f"{name}.{attribute}"
            if attribute in space:
                value = self.look_up(space, attribute)
                if origin != "user" and not isinstance(value, ModuleType):
                    return libraries.add_attribute(self, value, name, attribute, label)
                continue
            self.look_up(space, attribute)
            if origin != "user":
                return self.external(name, attribute)
            if isinstance(hook := space.get("__getattr__"), FunctionType):
                self.place(hook, f"{name}.__getattr__")
            value = getattr(value, attribute, MISSING)
        return self.place(value, label)

    # -- classes and modules -----------------------------------------------------------------------------

    def add_class(self, cls: type) -> int:
        origin = self.whose.of_class(cls)
        if origin == "product":
            return self.simple(qualified_name(cls), "product", digest(cls))
        if origin == "external":
            return libraries.add_library_class(self, cls)
        return holders.add_class(self, cls)

    def add_module(self, module: ModuleType) -> int:
        """A module that is used as a value: what its attributes are called is seen elsewhere."""
        origin = self.whose.of_module(module)
        if origin == "product":
            return self.simple(module.__name__, "product", module.__name__)
        if origin != "user":
            return libraries.add_library_module(self, module)
        return holders.add_module(self, module)


def contents(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return MISSING
