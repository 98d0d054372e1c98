"""Manifests: which functions to compile ahead of time, for which arguments and targets, as a JSON file.

A manifest is read and checked here without importing what it names; `arguments_of` then makes the arguments of a call.
"""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ...errors import ManifestError
from ...target import EXAMPLE
from .records import NewRecord, Record

VERSION = 1
_TOP = ("version", "targets", "kernels")
_ENTRY = ("function", "arguments", "constexprs", "sweep", "hints", "targets")
_TENSOR = ("tensor", "dtype", "strides", "align", "dynamic")


@dataclass(frozen=True, slots=True)
class Build:
    """One compilation a manifest asks for, as plain data that can be sent to another process."""

    function: str
    """`package.module:name`, or `path/to/file.py:name` with an absolute path."""
    arguments: Record
    constexprs: Record
    hints: Record
    target: str
    where: str = field(compare=False, default="")
    """Its place in the manifest."""

    @property
    def name(self) -> str:
        """The function's name with its compile-time values."""
        values = ", ".join(f"{key}={value}" for key, value in self.constexprs.items())
        return self.function.rpartition(":")[2] + (f"[{values}]" if values else "")

    def as_dict(self) -> NewRecord:
        """For a JSON text."""
        return {
            "function": self.function,
            "arguments": dict(self.arguments),
            "constexprs": dict(self.constexprs),
            "hints": dict(self.hints),
            "target": self.target,
        }


class _Reader:
    """Checks with the place in the file in every message."""

    def __init__(self, path: Path):
        self.path = path

    def fail(self, where: str, expected: str, found: object) -> ManifestError:
        text = json.dumps(found)
        return ManifestError(f"{self.path}: {where or 'the manifest'} must be {expected}, got {text[:80]}")

    def mapping(self, value: object, where: str, known: tuple[str, ...] | None = None) -> NewRecord:
        if not isinstance(value, dict):
            raise self.fail(where, "an object", value)
        found = cast("NewRecord", value)
        for key in found if known is not None else ():
            if known is not None and key not in known:
                what = where or "the manifest"
                raise ManifestError(f"{self.path}: {what} has the unknown key '{key}'; known: {', '.join(known)}")
        return found

    def items(self, value: object, where: str) -> list[object]:
        if not isinstance(value, list) or not value:
            raise self.fail(where, "a list that is not empty", cast(object, value))
        return cast("list[object]", value)

    def targets(self, value: object, where: str) -> list[str]:
        from ..backends import parse_target

        found: list[str] = []
        for i, text in enumerate(self.items(value, where)):
            if not isinstance(text, str):
                raise self.fail(f"{where}[{i}]", f"a target such as '{EXAMPLE}'", text)
            try:
                found.append(parse_target(text).key())
            except ValueError as error:
                raise ManifestError(f"{self.path}: {where}[{i}]: {error}") from error
        return found

    def function(self, value: object, where: str) -> str:
        if not isinstance(value, str) or not value.rpartition(":")[0] or not value.rpartition(":")[2].isidentifier():
            raise self.fail(where, "'package.module:name' or 'path/to/file.py:name'", value)
        module, _, name = value.rpartition(":")
        if not module.endswith(".py"):
            return value
        file = (self.path.parent / module).resolve()
        if not file.is_file():
            raise ManifestError(f"{self.path}: {where}: there is no file {file}")
        return f"{file}:{name}"

    def argument(self, value: object, where: str) -> object:
        if value is None or isinstance(value, (int, float, bool)):
            return value
        spec = self.mapping(value, where)
        if "scalar" in spec:
            self.mapping(value, where, ("scalar",))
            if not isinstance(spec["scalar"], str):
                raise self.fail(f"{where}.scalar", "the name of a type such as 'Int32'", spec["scalar"])
        elif "tensor" in spec:
            self.mapping(value, where, _TENSOR)
            for key in ("tensor", *(("strides",) if spec.get("strides") is not None else ())):
                numbers: object = spec[key]
                sizes = cast("list[object]", numbers) if isinstance(numbers, list) else [None]
                if not all(type(n) is int and n >= 0 for n in sizes):
                    raise self.fail(f"{where}.{key}", "a list of sizes", spec[key])
            if not isinstance(spec.get("dtype"), str):
                raise self.fail(f"{where}.dtype", "the name of a type such as 'float16'", spec.get("dtype"))
        else:
            raise self.fail(where, "a number, {'tensor': shape, 'dtype': ...} or {'scalar': type}", value)
        return spec

    def entry(self, value: object, where: str, targets: object) -> list[Build]:
        entry = self.mapping(value, where, _ENTRY)
        if "function" not in entry:
            raise ManifestError(f"{self.path}: {where} names no function")
        function = self.function(entry["function"], f"{where}.function")
        arguments = {
            name: self.argument(each, f"{where}.arguments.{name}")
            for name, each in self.mapping(entry.get("arguments", {}), f"{where}.arguments").items()
        }
        constants = self.mapping(entry.get("constexprs", {}), f"{where}.constexprs")
        sweep = self.mapping(entry.get("sweep", {}), f"{where}.sweep")
        axes = [[(name, v) for v in self.items(values, f"{where}.sweep.{name}")] for name, values in sweep.items()]
        hints = self.mapping(entry.get("hints", {}), f"{where}.hints")
        mine = entry.get("targets", targets)
        if mine is None:
            raise ManifestError(f"{self.path}: {where} has no targets, and the manifest has none for all")
        chosen = self.targets(mine, f"{where}.targets" if "targets" in entry else "targets")
        return [
            Build(function, arguments, {**constants, **dict(point)}, hints, target, where)
            for point in itertools.product(*axes)
            for target in chosen
        ]


def read_manifest(path: str | os.PathLike[str]) -> list[Build]:
    """Every compilation a manifest asks for, each once."""
    file = Path(path).resolve()
    reader = _Reader(file)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ManifestError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ManifestError(f"{file}: is no JSON: {error}") from error
    top = reader.mapping(content, "", _TOP)
    if top.get("version", VERSION) != VERSION:
        raise reader.fail("version", str(VERSION), top["version"])
    builds: list[Build] = []
    for i, entry in enumerate(reader.items(top.get("kernels"), "kernels")):
        builds += [b for b in reader.entry(entry, f"kernels[{i}]", top.get("targets")) if b not in builds]
    return builds


# --- making arguments -----------------------------------------------------------------------------------------------


def arguments_of(build: Record, parameters: Record) -> NewRecord:
    """The arguments of a call by name: specs for arrays and numbers, Python values for constexprs and types."""
    given: NewRecord = {}
    for name, value in {**build["arguments"], **build["constexprs"]}.items():
        if name not in parameters:
            raise ManifestError(
                f"{build['function']} has no parameter '{name}'; it has {', '.join(parameters) or 'none'}"
            )
        compile_time = parameters[name].kind != "value"
        if compile_time != (name in build["constexprs"]):
            place, other = ("constexprs", "arguments") if compile_time else ("arguments", "constexprs")
            raise ManifestError(f"{build['function']}: parameter '{name}' belongs under {place}, not {other}")
        given[name] = _constant(value) if compile_time else _argument(value)
    return given


def _constant(value: object) -> object:
    """JSON as a compile-time value: lists are tuples, `{"type": "Float16"}` is a class of the language."""
    if isinstance(value, list):
        return tuple(_constant(v) for v in cast("list[object]", value))
    if isinstance(value, dict):
        fields = cast("NewRecord", value)
        if list(fields) != ["type"]:
            raise ManifestError(
                f"a compile-time value is JSON, or {{'type': name}} for a class; got {json.dumps(value)}"
            )
        return _type(fields["type"])
    return value


def _argument(value: object) -> object:
    from ..call.specs import ScalarSpec, TensorSpec

    if not isinstance(value, dict):
        return value
    fields = cast("NewRecord", value)
    if "scalar" in fields:
        return ScalarSpec(_type(fields["scalar"]))
    options = {name: fields[name] for name in ("align", "dynamic") if fields.get(name) is not None}
    return TensorSpec(fields["tensor"], fields["dtype"], fields.get("strides"), **options)


def _type(name: str) -> Any:
    from ...expr.numeric import CLASSES
    from ..call.host_arrays import element_class

    return CLASSES[name] if name in CLASSES else element_class(name)
