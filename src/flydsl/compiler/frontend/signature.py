"""Parameters of decorated functions: what each annotation means, and binding of a call."""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import types
import typing
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from ...errors import DSLTypeError
from ...expr.constexpr import Constexpr, ConstexprType
from ...expr.gpu import Stream
from ...expr.numeric import Boolean, Float32, Int32, Numeric


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its annotation, resolved."""

    name: str
    annotation: Any
    kind: str
    """`constexpr`, `type` or `value`."""
    optional: bool = False
    """Whether None may be passed for a value: `x: fx.Tensor | None`, or a default of None. It is None in the code."""


class Signature:
    """The parameters of a function; `bind` gives the arguments of a call by name, defaults filled in."""

    def __init__(self, function: FunctionType):
        self.function = function
        self.inspected = inspect.signature(function)
        self._defaults = function.__defaults__, dict(function.__kwdefaults__ or {})
        hints = _hints(function)
        self.parameters: dict[str, Parameter] = {}
        for name, p in self.inspected.parameters.items():
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise DSLTypeError(
                    f"{function.__qualname__}: *{name} is not supported; write the parameters out, "
                    "compiled code has a fixed signature"
                )
            annotation, optional = without_none(hints.get(name))
            if isinstance(annotation, types.ModuleType):
                word = annotation.__name__.rpartition(".")[2]
                raise DSLTypeError(
                    f"{function.__qualname__}: parameter '{name}' is annotated with the module {annotation.__name__}, "
                    f"not with a type; did you mean fx.{word.title()}?"
                )
            annotation = _PYTHON_NUMBERS.get(annotation, annotation) if isinstance(annotation, type) else annotation
            kind = _kind(annotation)
            # A stream that is not given is the current one.
            optional = kind == "value" and annotation is not Stream and (optional or p.default is None)
            self.parameters[name] = Parameter(name, annotation, kind, optional)
        self.numbers: dict[str, type[Numeric]] = {
            p.name: p.annotation
            for p in self.parameters.values()
            if isinstance(p.annotation, type) and issubclass(p.annotation, Numeric)
        }
        """Parameters that are scalars, with their classes."""

    def is_current(self) -> bool:
        """Whether the function has the defaults it had."""
        positional, named = self._defaults
        now: dict[str, object] = self.function.__kwdefaults__ or {}
        same = now.keys() == named.keys() and all(now[name] is named[name] for name in named)
        return same and self.function.__defaults__ is positional

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Arguments by parameter name."""
        try:
            bound = self.inspected.bind(*args, **kwargs)
        except TypeError as error:
            raise DSLTypeError(
                f"{self.function.__qualname__}({self._written()}): {self._mismatch(kwargs, error)}"
            ) from None
        bound.apply_defaults()
        return bound.arguments

    def _written(self) -> str:
        """The parameters as their author would write them."""
        return ", ".join(
            name if p.annotation is None else f"{name}: {_type_text(p.annotation)}"
            for name, p in self.parameters.items()
        )

    def _mismatch(self, kwargs: Mapping[str, object], error: TypeError) -> str:
        """Why a call does not fit: a keyword that is no parameter is told before the parameter that it left out."""
        from difflib import get_close_matches  # which calls that fit never need

        for name in kwargs:
            if name not in self.parameters:
                close = get_close_matches(name, self.parameters, 1)
                return f"got an unexpected keyword argument '{name}'" + (
                    f"; did you mean {close[0]}=?" if close else ""
                )
        return str(error)

    def text(self, scope: dict[str, Any]) -> str:
        """The parameters as a generated function lists them; their defaults go into its scope, under `_default_`."""
        heads: list[str] = []
        before: Any = None
        for name, p in self.inspected.parameters.items():
            if before is p.POSITIONAL_ONLY and p.kind is not before:
                heads.append("/")
            if p.kind is p.KEYWORD_ONLY and p.kind is not before:
                heads.append("*")
            before = p.kind
            if p.default is not p.empty:
                scope[f"_default_{name}"] = p.default
            heads.append(name if p.default is p.empty else f"{name}=_default_{name}")
        return ", ".join([*heads, "/"] if before is inspect.Parameter.POSITIONAL_ONLY else heads)


_PYTHON_NUMBERS: dict[type, type[Numeric]] = {int: Int32, float: Float32, bool: Boolean}
"""What a Python class of numbers means as an annotation: what a number of it becomes without one."""


def _type_text(annotation: object) -> str:
    module = getattr(annotation, "__module__", "")
    if isinstance(annotation, type):
        return f"fx.{annotation.__name__}" if module.startswith("flydsl.expr") else annotation.__name__
    return f"fx.{annotation}" if module.startswith("flydsl.expr") else str(annotation)


def without_none(annotation: object) -> tuple[object, bool]:
    """An annotation, and whether it was one that also allows None: `fx.Tensor | None`, `Optional[fx.Tensor]`."""
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation, False
    kept = [x for x in typing.get_args(annotation) if x is not types.NoneType]
    if len(kept) == len(typing.get_args(annotation)):
        return annotation, False
    return (kept[0] if len(kept) == 1 else typing.Union[tuple(kept)]), True  # noqa: UP007


def _kind(annotation: object) -> str:
    if isinstance(annotation, ConstexprType) or annotation is Constexpr:
        return "constexpr"
    if annotation is type or typing.get_origin(annotation) is type:
        return "type"
    return "value"


_LOCALS = "__fly_annotation_locals__"


def remember_locals(function: FunctionType) -> None:
    """Keep what string annotations name of the functions around this one; called when it is decorated.

    Under `from __future__ import annotations` an annotation is text, and a name it mentions is no closure variable: by
    the first call, a function that did `import flydsl.expr as fx` for itself has returned and taken `fx` with it.
    """
    texts = [a for a in function.__annotations__.values() if isinstance(a, str)]
    if not texts:
        return
    known = {*function.__globals__, *vars(builtins), *function.__code__.co_freevars}
    missing = {name for text in texts for name in _names(text)} - known
    if not missing:
        return
    kept: dict[str, object] = {}
    inner, frame = function.__code__, sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and missing:
        if any(constant is inner for constant in frame.f_code.co_consts):
            here = frame.f_locals
            kept.update({name: here[name] for name in missing if name in here})
            missing -= set(kept)
            inner = frame.f_code
        frame = frame.f_back
    if kept:
        setattr(function, _LOCALS, kept)


def _names(text: str) -> set[str]:
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:  # Told when the annotation is resolved.
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _hints(function: FunctionType) -> dict[str, object]:
    """Annotations with strings evaluated in the function's own scope."""
    raw = dict(function.__annotations__)
    scope: dict[str, object] = {**function.__globals__, **getattr(function, _LOCALS, {})}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            scope[name] = cell.cell_contents
        except ValueError:
            continue
    found: dict[str, object] = {}
    for name, annotation in raw.items():
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, scope)
            except (NameError, AttributeError, SyntaxError, TypeError) as error:
                warnings.warn(
                    f"{function.__qualname__}: cannot resolve the annotation of '{name}' ({annotation!r}): {error}",
                    stacklevel=4,
                )
                annotation = None
        found[name] = annotation
    return found
