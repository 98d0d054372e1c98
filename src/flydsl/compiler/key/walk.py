"""The walk from a function over everything its code can reach by name."""

from __future__ import annotations

import builtins
import functools
import importlib
import importlib.util
import inspect
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Protocol, cast

from flydsl import config
from flydsl.compiler.guard import Guard
from flydsl.compiler.key import origin as origins
from flydsl.compiler.key.cache_key import digest, encode, qualified_name
from flydsl.compiler.key.component import MISSING, Component
from flydsl.compiler.key.function_key import Container, FunctionKey, Watch, contents
from flydsl.compiler.key.names import Chain, all_codes, code_record, used_names
from flydsl.compiler.key.origin import below, origin_of, package_version
from flydsl.compiler.key.product import EXTRA_SOURCE_DIRS, environment_components
from flydsl.errors import UntrackedGlobalWarning


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
    return _Walk(function, owner, options, tuple(depends_on), extra or {}, environment).run()


def class_digest(cls: type) -> str:
    """What a class contributes that is an argument: its bases, its members and what they reach."""
    return function_key(_nothing, depends_on=(cls,), environment=False).digest


def _nothing() -> None:
    """A function that reaches nothing."""


class _Rewritten(Protocol):
    """What is known of a decorated function."""

    @property
    def original(self) -> FunctionType: ...
    @property
    def source(self) -> str: ...


class _Decorated(Protocol):
    __fly_function__: _Rewritten


def _rewritten(obj: object) -> _Rewritten | None:
    """The RewrittenFunction-like of a decorated function, or None."""
    if isinstance(obj, type):
        return None
    found = inspect.getattr_static(type(obj), "__fly_function__", None)
    if found is None and "__fly_function__" not in getattr(obj, "__dict__", {}):
        return None
    return cast("_Decorated", obj).__fly_function__


class _Walk:
    """One computation of a key: the components found so far and the functions still to look into."""

    def __init__(
        self,
        function: object,
        owner: type | None,
        options: object,
        depends_on: tuple[object, ...],
        extra: Mapping[str, object],
        environment: bool,
    ):
        self.decorated = function if _rewritten(function) is not None else None
        record = _rewritten(function) or function
        original: object = getattr(record, "original", record)
        if not isinstance(original, FunctionType):
            raise TypeError(f"a function is needed, got {type(function).__name__}")
        self.function = original
        self.source: str | None = getattr(record, "source", None)
        self.owner = owner
        self.options = options
        self.depends_on = depends_on
        self.extra = extra
        self.environment = environment
        self.positions = config.debug.enable_debug_info
        self.components: list[Component | None] = []
        self.seen: dict[tuple[int, int], int] = {}
        self.alive: list[object] = []
        """Objects in `seen`, which must keep their identity."""
        self.pending: deque[Callable[[], None]] = deque()
        self.watches: dict[tuple[int, str], Watch] = {}
        self.namespaces: dict[type, Mapping[str, object]] = {}
        self.codes: dict[int, tuple[FunctionType, CodeType]] = {}
        # Below an installed root file its folder counts. Elsewhere the tree may hold a virtual environment, and what is
        # not installed is the user's anyway.
        root = self.function.__code__.co_filename
        folder = os.path.dirname(os.path.realpath(root)) if origin_of(root) == "installed" else ""
        self.user_dirs = [folder] if below(folder, origins.library_dirs()[0]) else []
        self.user_dirs += [os.path.realpath(p) for p in (*config.compile.extra_source_dirs, *EXTRA_SOURCE_DIRS)]
        self.packages = {self.function.__module__.partition(".")[0], *origins.decorated_packages}
        self.prefixes = {
            str(getattr(item, "__name__", item)) for item in depends_on if isinstance(item, str | ModuleType)
        }

    def run(self) -> FunctionKey:
        fn = self.function
        self.add_function(fn, self.owner, "source", source=self.source)
        named: list[tuple[str, str, object]] = [
            ("name", "source", (fn.__module__, fn.__qualname__)),
            ("options", "options", self.options),
        ]
        if self.owner is not None:
            named.append(("class", "class", qualified_name(self.owner)))
        for name, value in self.extra.items():
            named.append((name, "extra", value))
        for name, kind, value in named:
            self.components.append(Component(name, kind, digest(value, resolve=self.reference)))
        for item in self.depends_on:
            if not isinstance(item, str | ModuleType):
                self.leaf(item, f"depends_on {getattr(item, '__qualname__', type(item).__name__)}")
        while self.pending:
            self.pending.popleft()()
        found = cast("list[Component]", self.components)
        ours = environment_components() if self.environment else ()
        return FunctionKey(
            (*ours, *found),
            tuple(self.watches.values()),
            tuple(self.codes.values()),
            debug_info=self.positions,
            source_missing=not self.source,
        )

    # -- whose code --------------------------------------------------------------------------------------

    def is_user(self, filename: str, module: str) -> bool:
        """The author's own code, and what belongs to no installed package: nothing else would notice its changes."""
        origin = origin_of(filename)
        if origin in ("product", "standard"):
            return False
        if origin == "user" or module.partition(".")[0] in self.packages:
            return True
        if any(module == prefix or module.startswith(prefix + ".") for prefix in self.prefixes):
            return True
        return below(os.path.realpath(filename), self.user_dirs)

    def module_origin(self, module: ModuleType) -> str:
        name = module.__name__
        if name.partition(".")[0] == "flydsl" and not (name + ".").startswith("flydsl.kernels."):
            return "product"
        file = getattr(module, "__file__", None)
        if not file:
            paths = list(cast("Iterable[str]", getattr(module, "__path__", ())))
            file = os.path.join(paths[0], "__init__.py") if paths else "<frozen builtin>"
            if name == "__main__":
                file = "<main>"
        return "user" if self.is_user(str(file), name) else origin_of(str(file))

    # -- components --------------------------------------------------------------------------------------

    def reserve(self, obj: object, owner: object = None) -> tuple[int, bool]:
        """The number of an object, and whether it is new."""
        key = (id(obj), id(owner))
        if key in self.seen:
            return self.seen[key], False
        self.alive.append(obj)
        self.seen[key] = len(self.components)
        self.components.append(None)
        return self.seen[key], True

    def simple(self, name: str, kind: str, value: object) -> int:
        """The number of a component that is complete at once; equal ones are one."""
        made = Component(name, kind, digest(value, resolve=self.reference))
        if made in self.components:
            return self.components.index(made)
        self.components.append(made)
        return len(self.components) - 1

    def reference(self, obj: object) -> object:
        """How a function, class or other non-value stands inside an encoded value: by its component's number."""
        found = self.named_object(obj, getattr(obj, "__qualname__", type(obj).__name__), None)
        return NotImplemented if found is None else ("component", found)

    def leaf(self, value: object, name: str, owner: type | None = None) -> tuple[int, str]:
        """The component of whatever a name refers to, and its kind."""
        found = self.named_object(value, name, owner)
        if found is not None:
            return found, "object"
        try:
            return self.simple(name, "value", value), "value"
        except TypeError:
            self.warn_untracked(value, name)
            return self.simple(name, "untracked", qualified_name(type(value))), "untracked"

    def named_object(self, value: object, name: str, owner: type | None) -> int | None:
        """The component of a function, class, module or callable; None for a value."""
        if value is MISSING:
            return self.simple(name, "missing", None)
        record = _rewritten(value)
        if record is not None:
            options = getattr(value, "__fly_options__", None)
            self.packages.add(record.original.__module__.partition(".")[0])
            return self.add_function(record.original, owner, "kernel", source=record.source, options=options)
        if isinstance(value, ModuleType):
            return self.simple(name, "module", value.__name__)
        if isinstance(value, FunctionType):
            return self.add_helper(value, owner)
        if isinstance(value, MethodType):
            bound: object = value.__self__
            return self.leaf(value.__func__, name, bound if isinstance(bound, type) else type(bound))[0]
        if isinstance(value, type):
            return self.add_class(value)
        if isinstance(value, staticmethod | classmethod):
            return self.leaf(cast("staticmethod[..., object]", value).__func__, name, owner)[0]
        if isinstance(value, property) or type(value) is functools.cached_property:
            parts = (
                (value.fget,)
                if isinstance(value, property)
                else (cast("functools.cached_property[object]", value).func,)
            )
            return self.simple(name, "property", tuple(self.leaf(p, name, owner)[0] for p in parts if p))
        if isinstance(value, functools.partial):
            made = cast("functools.partial[object]", value)
            return self.simple(name, "partial", (self.leaf(made.func, name)[0], made.args, made.keywords))
        if isinstance(inner := getattr(value, "__wrapped__", None), FunctionType) and callable(value):
            return self.leaf(inner, name, owner)[0]
        if isinstance(value, BuiltinFunctionType):
            return self.external(value.__module__ or "builtins", value.__qualname__)
        return None

    def external(self, module: str, name: str) -> int:
        """A component for code that is not the user's: which, and of which version."""
        top = module.partition(".")[0]
        version = "" if top in sys.stdlib_module_names else package_version(top)
        return self.simple(f"{module}:{name}", "external", (module, name, version))

    def add_helper(self, fn: FunctionType, owner: type | None) -> int | None:
        module = fn.__module__ or ""
        if self.is_user(fn.__code__.co_filename, module):
            return self.add_function(fn, owner, "function")
        if origin_of(fn.__code__.co_filename) == "product":  # its sources are part of every key
            return self.simple(f"{module}:{fn.__qualname__}", "product", (module, fn.__qualname__))
        return self.external(module, fn.__qualname__)

    def add_function(
        self, fn: FunctionType, owner: type | None, kind: str, *, source: str | None = None, options: object = None
    ) -> int:
        """A function whose code counts: reserve its number now, look into it later."""
        number, new = self.reserve(fn, owner)
        if new:
            self.pending.append(lambda: self.fill_function(number, fn, owner, kind, source, options))
        return number

    def fill_function(
        self, number: int, fn: FunctionType, owner: type | None, kind: str, source: str | None, options: object
    ) -> None:
        code = fn.__code__
        self.codes[id(fn)] = (fn, code)
        label = f"{fn.__module__}:{fn.__qualname__}"
        # The text may have changed on disk since a helper was imported; its code is what runs. The text of decorated
        # functions was read when they were decorated.
        body: object = source if source else code_record(code, positions=False)
        place = code_record(code, positions=True) if self.positions else None
        defaults = [self.leaf(v, f"{label} default {i}")[0] for i, v in enumerate(fn.__defaults__ or ())]
        named = cast("dict[str, object]", fn.__kwdefaults__ or {})
        keywords = [(n, self.leaf(v, f"{label} default {n}")[0]) for n, v in sorted(named.items())]
        references = [(chain, self.resolve(chain, fn, owner)) for chain in used_names(code)]
        content = (body, place, defaults, keywords, [(tuple(c), r) for c, r in references if r is not None], options)
        self.components[number] = Component(label, kind, digest(content, resolve=self.reference))
        if owner is not None and "__class__" in code.co_freevars:
            self.follow_super(code, owner)

    def follow_super(self, code: CodeType, owner: type) -> None:
        """`super().name()` can reach any definition of a name used in the code."""
        for name in sorted({name for c in all_codes(code) for name in c.co_names}):
            for base in owner.__mro__:
                member = vars(base).get(name)
                if isinstance(member, FunctionType | staticmethod | classmethod | property):
                    self.leaf(cast(object, member), f"{qualified_name(base)}.{name}", owner)

    def add_class(self, cls: type) -> int:
        module = cls.__module__
        file = getattr(sys.modules.get(module), "__file__", None) or ("<main>" if module == "__main__" else "<class>")
        if module in sys.builtin_module_names or not self.is_user(file, module):
            if module.partition(".")[0] == "flydsl":
                return self.simple(qualified_name(cls), "product", encode(cls))
            return self.external(module, cls.__qualname__)
        number, new = self.reserve(cls)
        if new:
            self.pending.append(lambda: self.fill_class(number, cls))
        return number

    def fill_class(self, number: int, cls: type) -> None:
        """A class of the user counts with its bases, the code of its members and their values."""
        label = qualified_name(cls)
        members: list[tuple[str, int]] = []
        content: dict[str, object] = dict(vars(cls))
        members_of_enum: Mapping[str, Enum] = getattr(cls, "__members__", {}) if _is_enum(cls) else {}
        content.update((name, member.value) for name, member in members_of_enum.items())
        for name, member in sorted(content.items()):
            if name in _CLASS_NOISE or isinstance(member, _DESCRIPTORS):
                continue
            if (known := self.named_object(member, f"{label}.{name}", cls)) is not None:
                members.append((name, known))
                continue
            try:
                members.append((name, self.simple(f"{label}.{name}", "value", member)))
            except TypeError:  # registries, locks and the like: only their presence counts
                members.append((name, -1))
        bases = [self.add_class(base) for base in cls.__bases__]
        self.components[number] = Component(label, "class", digest((label, bases, members)))

    def warn_untracked(self, value: object, name: str) -> None:
        kind = type(value)
        if kind.__module__.partition(".")[0] == "flydsl":
            last = name.rpartition(".")[2]
            modules = [m for n, m in sys.modules.copy().items() if n.partition(".")[0] == "flydsl"]
            if any(getattr(m, "__dict__", {}).get(last) is value for m in modules):
                return  # one of our own objects, imported by its name
        with _guard:
            if name in _warned:
                return
            _warned.add(name)
        config.warn(
            f"{name} is a {qualified_name(kind)}, whose content a cache key cannot hold: a kernel that uses it is not "
            f"compiled again when it changes. Pass it as an argument, or give {kind.__name__} a method "
            "__fly_cache_key__()",
            UntrackedGlobalWarning,
            stacklevel=3,
        )

    # -- names ---------------------------------------------------------------------------------------------

    def resolve(self, chain: Chain, fn: FunctionType, owner: type | None) -> int | None:
        """The component a chain refers to; None if it needs none."""
        first, *rest = chain.names
        module = fn.__module__ or "?"
        if chain.root == "local":
            return self.through_owner(chain, fn, owner)
        if chain.root == "import":
            return self.through_import(first, rest, fn)
        if chain.root == "cell":
            cell = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)).get(first)
            if cell is None or first == "__class__":
                return None
            value, place = contents(cell), (cell, "cell")
            label = f"{module}:{fn.__qualname__}.{first}"
        else:
            label = f"{module}.{first}"
            value, place = fn.__globals__.get(first, MISSING), (fn.__globals__, first)
            if value is MISSING and hasattr(builtins, first):
                return None
        return self.follow(value, place, first, rest, label, module)

    def through_owner(self, chain: Chain, fn: FunctionType, owner: type | None) -> int | None:
        """A member used through `self` or `cls`, if the class has it."""
        if owner is None or chain.names[0] not in fn.__code__.co_varnames[:1]:
            return None
        return self.step(owner, chain.names[0], list(chain.names[1:]), qualified_name(owner), owner.__module__, owner)

    def through_import(self, name: str, rest: list[str], fn: FunctionType) -> int | None:
        """A module imported inside the function. The user's own are loaded: tracing is about to do the same."""
        level = len(name) - len(name.lstrip("."))
        package = fn.__globals__.get("__package__") or ""
        try:
            full = importlib.util.resolve_name(name, package).rstrip(".") if level else name
            if full.partition(".")[0] in sys.stdlib_module_names:
                return None
            module = sys.modules.get(full)
            spec = module.__spec__ if module is not None else importlib.util.find_spec(full)
            if module is None and (spec is None or not spec.origin or not self.is_user(spec.origin, full)):
                return self.external(full, ".".join(rest))
            loaded = module if module is not None else importlib.import_module(full)
        except (ImportError, ValueError):
            return self.simple(name, "missing", None)
        if rest and rest[0] not in vars(loaded) and hasattr(loaded, "__path__"):
            inner = f"{full}.{rest[0]}"  # `from package import module`
            if inner in sys.modules or importlib.util.find_spec(inner) is not None:
                return self.through_import(inner, rest[1:], fn)
        return self.step(loaded, full, rest, full, full, None)

    def watch(self, place: tuple[Container, str], value: object, kind: str, name: str, module: str) -> None:
        container, key = place
        if (id(container), key) not in self.watches:
            made = Watch(container, key, value, kind, module)
            if isinstance(container, CellType):
                made.name = name
            self.watches[id(container), key] = made

    def follow(
        self,
        value: object,
        place: tuple[Container, str] | None,
        name: str,
        rest: list[str],
        label: str,
        module: str,
        owner: type | None = None,
    ) -> int | None:
        """The component of `value.rest...`, found at a place that is watched from now on."""
        if isinstance(value, ModuleType) and self.module_origin(value) == "product":
            return None
        if rest and _rewritten(value) is None and _is_namespace(value):
            if place is not None:
                self.watch(place, value, "namespace", name, module)
            return self.step(value, name, rest, label, module, owner)
        number, kind = self.leaf(value, label, owner)
        if place is not None and kind != "untracked":
            self.watch(place, value, kind, name, module)
        return number

    def step(
        self, holder: object, name: str, rest: list[str], label: str, module: str, owner: type | None
    ) -> int | None:
        """Take the first attribute of `rest` from a namespace."""
        if not rest:
            return self.leaf(holder, label, owner)[0]
        attribute, *more = rest
        label = f"{label}.{attribute}"
        if isinstance(holder, ModuleType):
            origin = self.module_origin(holder)
            if origin == "product":
                return None
            if origin != "user":
                return self.external(holder.__name__, ".".join(rest))
            if attribute not in vars(holder) and "__getattr__" in vars(holder):
                return self.follow(getattr(holder, attribute, MISSING), None, attribute, more, label, holder.__name__)
            value = vars(holder).get(attribute, MISSING)
            return self.follow(value, (vars(holder), attribute), attribute, more, label, holder.__name__)
        if not isinstance(holder, type):
            own = cast("dict[str, object]", getattr(holder, "__dict__", {}))
            if attribute in own:
                return self.follow(own[attribute], (own, attribute), attribute, more, label, module)
        cls: type = holder if isinstance(holder, type) else type(holder)
        members: Mapping[str, object] = getattr(cls, "__members__", {}) if _is_enum(holder) else {}
        if attribute in members:
            return self.leaf(members[attribute], label)[0]  # they cannot be assigned to: nothing to watch
        for base in cls.__mro__:
            if attribute in vars(base):
                member = vars(base)[attribute]
                if isinstance(member, _DESCRIPTORS) or base is object:
                    break
                if base.__module__.partition(".")[0] == "flydsl":
                    return None
                place = (self.namespaces.setdefault(base, vars(base)), attribute)
                return self.follow(member, place, attribute, more, label, base.__module__, cls)
        if owner is not None:  # an attribute of the instance, unknown here
            return None
        value = getattr(holder, attribute, MISSING)
        return self.follow(value, None, attribute, more, label, module)


_DESCRIPTORS = (MemberDescriptorType, GetSetDescriptorType)
_CLASS_NOISE = frozenset(
    (
        *("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__firstlineno__", "__annotations__"),
        *("__annotate__", "__annotate_func__", "__annotations_cache__", "__static_attributes__", "__abstractmethods__"),
        *("_abc_impl", "__parameters__", "__orig_bases__", "__hash__", "__match_args__", "__dataclass_params__"),
        *("__dataclass_fields__", "_member_map_", "_value2member_map_", "_hashable_values_", "_unhashable_values_"),
        *("_unhashable_values_map_", "_member_type_", "_generate_next_value_", "_new_member_", "_use_args_"),
        *("_use_default_", "_value_repr_", "__new_member__"),
    )
)
_warned: set[str] = set()
_guard = Guard()


def _is_namespace(value: object) -> bool:
    """Whether attributes of a value count one by one, and not the value as a whole."""
    if isinstance(value, ModuleType | type | SimpleNamespace):
        return True
    module = type(value).__module__
    if (
        callable(value)
        or module == "builtins"
        or module.partition(".")[0] == "flydsl"
        or not hasattr(value, "__dict__")
    ):
        return False
    try:
        encode(value, resolve=lambda obj: None if callable(obj) else NotImplemented)
    except TypeError:
        return True
    return False


def _is_enum(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Enum)
