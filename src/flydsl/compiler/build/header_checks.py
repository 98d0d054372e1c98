"""What the header of an artifact must look like before any of it is used.

A header that passes has no value of a type, range or encoding that later code does not expect. What it says can still
be a lie: an artifact is code, and running one trusts whoever made it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NoReturn, cast

from flydsl.errors import FlyDSLError, TargetError
from flydsl.target import GPUTarget

MAX_DEPTH = 32
MAX_INT = (1 << 63) - 1
MAX_SHARED = 1 << 24
"""Bytes of static shared memory; no device has as much."""

Check = Callable[[object, str], None]


class ArtifactFormatError(FlyDSLError, ValueError):
    """A container is damaged, or is none. `field` says which part of it, as `checksum` or `kernels[0].name`."""

    def __init__(self, field: str, message: str, *, expected: object = None, found: object = None):
        self.field = field
        self.expected = expected
        self.found = found
        super().__init__(f"not a usable artifact: {message}")


def _bad(field: str, expected: str, found: object) -> NoReturn:
    shown = repr(found)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    raise ArtifactFormatError(field, f"{field} must be {expected}, found {shown}", expected=expected, found=found)


def check_plain(header: object) -> None:
    """Bounded nesting, numbers of 64 bits, texts that can be encoded: whatever the fields mean."""
    pending: list[tuple[object, str, int]] = [(header, "", 0)]
    while pending:
        value, field, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise ArtifactFormatError("header", f"the header is nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, str):
            _check_text(value, field)
        elif isinstance(value, int):
            if not -MAX_INT <= value <= MAX_INT:
                raise ArtifactFormatError(
                    field or "header", f"{field or 'the header'} is a number of more than 64 bits"
                )
        elif isinstance(value, dict):
            for key, item in cast("dict[str, object]", value).items():
                if not key.isascii():
                    _check_text(key, "header")
                # Most are plain; only what needs a look, and so a name, is put off.
                if not (item.isascii() if isinstance(item, str) else item is None or type(item) is float):
                    pending.append((item, f"{field}.{key}" if field else key, depth + 1))
        elif isinstance(value, list):
            for i, item in enumerate(cast("list[object]", value)):
                if not (item.isascii() if isinstance(item, str) else item is None or type(item) is float):
                    pending.append((item, f"{field}[{i}]", depth + 1))


def _check_text(value: str, field: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        name = field or "header"
        raise ArtifactFormatError(name, f"{name} is no text: it has half of a surrogate pair") from None


# -- forms of values ---------------------------------------------------------------------------------


def text(value: object, field: str) -> None:
    if not isinstance(value, str) or "\0" in value:
        _bad(field, "text", value)


def pattern(form: str, words: str) -> Check:
    compiled = re.compile(form)

    def check(value: object, field: str) -> None:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            _bad(field, words, value)

    return check


def integer(low: int, high: int = MAX_INT) -> Check:
    def check(value: object, field: str) -> None:
        if type(value) is not int or not low <= value <= high:
            _bad(field, f"an integer from {low} to {high}", value)

    return check


def number(value: object, field: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        _bad(field, "a number of at least 0", value)


def optional(check: Check) -> Check:
    return lambda value, field: None if value is None else check(value, field)


def sequence(check: Check, *, least: int = 0, most: int | None = None) -> Check:
    def checked(value: object, field: str) -> None:
        if not isinstance(value, list):
            _bad(field, "a list", value)
        items = cast("list[object]", value)
        if len(items) < least or (most is not None and len(items) > most):
            _bad(field, f"a list of {least} to {'any number of' if most is None else most} items", items)
        for i, item in enumerate(items):
            check(item, f"{field}[{i}]")

    return checked


def mapping(check: Check) -> Check:
    def checked(value: object, field: str) -> None:
        if not isinstance(value, dict):
            _bad(field, "an object", value)
        for key, item in cast("dict[str, object]", value).items():
            check(item, f"{field}.{key}")

    return checked


def anything(value: object, field: str) -> None:
    """Already checked to be plain."""


def record(fields: Mapping[str, Check], required: frozenset[str] = frozenset()) -> Check:
    """An object with these fields; those that are not listed are for whoever reads them."""

    def checked(value: object, field: str) -> None:
        if not isinstance(value, dict):
            _bad(field, "an object", value)
        found = cast("dict[str, object]", value)
        prefix = f"{field}." if field and field != "header" else ""
        for name in sorted(required - found.keys()):
            raise ArtifactFormatError(f"{prefix}{name}", f"{prefix}{name} is missing")
        for name, check in fields.items():
            if name in found:
                check(found[name], f"{prefix}{name}")

    return checked


def _times(value: object, field: str) -> None:
    if isinstance(value, dict):
        mapping(_times)(cast("dict[str, object]", value), field)
    else:
        number(value, field)


def _target_text(value: object, field: str) -> None:
    text(value, field)
    try:
        GPUTarget.parse(cast(str, value))
    except TargetError as error:
        raise ArtifactFormatError(field, f"{field} is no target: {error}", found=value) from None


_target_record = record(
    {"backend": text, "arch": text, "warp_size": integer(1, 1024), "features": sequence(text)},
    frozenset(("backend", "arch", "warp_size")),
)


def _target(value: object, field: str) -> None:
    if isinstance(value, dict):
        return _target_record(cast("dict[str, object]", value), field)
    return optional(_target_text)(value, field)


def _argument(value: object, field: str) -> None:
    sequence(anything, least=2, most=2)(value, field)
    text(cast("list[object]", value)[0], f"{field}[0]")


def _store(value: object, field: str) -> None:
    sequence(anything, least=2, most=2)(value, field)
    position, name = cast("list[object]", value)
    integer(0, 1 << 16)(position, f"{field}[0]")
    text(name, f"{field}[1]")


# -- headers -----------------------------------------------------------------------------------------

_VERSION = pattern(r"\d+(\.\w+)+([-+.]\w+)*", "a version")
_NAME = pattern(r"[^\s\"@\0]+", "a name")
_HOOK = pattern(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*", "module:function")
_COUNT = optional(integer(0))
_KERNEL = record(
    {
        **dict.fromkeys(("name", "symbol"), _NAME),
        **dict.fromkeys(("arguments", "kernarg_size", "max_threads", "registers", "vgprs", "sgprs", "agprs"), _COUNT),
        **dict.fromkeys(("spills", "scratch", "stack", "shared", "static_smem", "dynamic_smem", "code_size"), _COUNT),
        "shared_static": integer(0, MAX_SHARED),
        "block": optional(sequence(integer(0, 1 << 31), least=1, most=3)),
        "parameters": sequence(record({**dict.fromkeys(("align", "offset", "size"), integer(0)), "type": text})),
        "source": optional(sequence(anything, least=2, most=2)),
        "side_buffers": sequence(record({"kind": text}, frozenset(("kind",)))),
        "resources": optional(mapping(anything)),
    }
)
_FIELDS: dict[str, Check] = {
    **dict.fromkeys(("module", "qualname", "python", "backend_hash", "chip", "llvm_version", "llvmlite_version"), text),
    **dict.fromkeys(("backend", "runtime_kind", "kind", "product_version"), text),
    "name": optional(_NAME),
    "key": optional(pattern(r"([0-9a-f]{64})?", "64 hex digits")),
    "binary_ext": optional(pattern(r"\w*", "the extension of a file")),
    "target": _target,
    "created": optional(number),
    "host": record({"triple": text, "cpu": text}),
    "hints": mapping(anything),
    "notes": mapping(anything),
    "signature": sequence(_argument),
    "components": sequence(sequence(text, least=3, most=3)),
    "reads": sequence(sequence(text, least=3, most=3)),
    "kernels": optional(sequence(_KERNEL)),
    "stores": sequence(_store),
    "loops": mapping(sequence(text)),
    "resources": optional(sequence(record({"name": text}, frozenset(("name",))))),
    "load_hooks": optional(sequence(_HOOK)),
    "host_libraries": optional(sequence(text)),
    "times": mapping(_times),
}
_ARTIFACT = record(_FIELDS)
_GROUP = record(
    {
        **_FIELDS,
        "target": _target_text,
        "name": _NAME,
        "kernels": sequence(record({"name": _NAME}, frozenset(("name",)))),
    },
    frozenset(("backend", "binary_ext", "host", "kernels", "name", "runtime_kind", "signature", "target")),
)


def _parameter(value: object, field: str) -> None:
    record({"name": text, "kind": text}, frozenset(("name", "kind")))(value, field)
    found = cast("dict[str, object]", value)
    form = {"tensor": "signature", "scalar": "dtype", "stream": None}
    kind = found["kind"]
    if kind not in form:
        _bad(f"{field}.kind", "tensor, scalar or stream", kind)
    detail = form[cast(str, kind)]
    if detail is not None:
        record({detail: text}, frozenset((detail,)))(value, field)
    if extra := found.keys() - {"name", "kind", detail}:
        _bad(f"{field}.{min(extra)}", "absent", found[min(extra)])


_EXPORT = record(
    {
        **dict.fromkeys(("module", "qualname"), text),
        "name": _NAME,
        "product_version": _VERSION,
        "parameters": sequence(_parameter),
        "constants": mapping(text),
        "targets": sequence(_GROUP, least=1),
    },
    frozenset(("name", "module", "qualname", "product_version", "parameters", "targets")),
)


def check_artifact(header: Mapping[str, object]) -> None:
    """The header of one compiled artifact; fields may be missing."""
    _ARTIFACT(header, "header")


def check_export(header: Mapping[str, object], sections: Mapping[str, bytes]) -> None:
    """The header of an exported function, and that each target has its sections."""
    _EXPORT(header, "header")
    groups = cast("list[dict[str, object]]", header["targets"])
    for name in sections:
        index, dot, rest = name.partition(".")
        if not dot or not rest or not index.isdecimal() or str(int(index)) != index or int(index) >= len(groups):
            raise ArtifactFormatError("sections", f"section {name!r} belongs to none of the {len(groups)} targets")
    names = [each["name"] for each in cast("list[dict[str, object]]", header["parameters"])]
    constants = cast("dict[str, str]", header.get("constants", {}))
    for i, group in enumerate(groups):
        _ARTIFACT(group, f"targets[{i}]")
        backend = GPUTarget.parse(cast(str, group["target"])).backend
        if group["backend"] != backend:
            _bad(f"targets[{i}].backend", f"that of its target, {backend}", group["backend"])
        signature = [each[0] for each in cast("list[list[object]]", group["signature"])]
        if [name for name in signature if name not in constants] != names:
            _bad("parameters", f"those that targets[{i}] was compiled for ({signature})", names)
        own = {name.removeprefix(f"{i}."): data for name, data in sections.items() if name.startswith(f"{i}.")}
        check_runnable(group, own, f"targets[{i}].")


# A file may be wrong or forged, and its header with it: what runs is the host code, so that is asked for the kernels it
# launches. To parse it as IR would take longer than all the rest of loading.
_LAUNCH = re.compile(rb"call i32 @[\w.]*launch[\w.]*\(ptr %slots, i32 (\d{1,9}),")


def check_runnable(header: Mapping[str, object], sections: Mapping[str, bytes], prefix: str = "") -> None:
    """What loading relies on: a host function of the right name, and every kernel that it launches in the binary."""
    host = sections.get("host")
    if host is None:
        raise ArtifactFormatError("sections", f"{prefix}host: there is no such section")
    try:
        host.decode("utf-8")
    except UnicodeDecodeError:
        raise ArtifactFormatError("sections", f"{prefix}host: the section is no UTF-8") from None
    name = header.get("name")
    forms = (f"define i32 @{name}(ptr %slots)", f'define i32 @"{name}"(ptr %slots)')
    if not isinstance(name, str) or not any(form.encode() in host for form in forms):
        _bad(f"{prefix}name", "the name of the host function", name)
    binaries = [data for key, data in sections.items() if key == header.get("binary_ext") or key == "device"]
    binaries += [data for key, data in sections.items() if key in ("cubin", "ptx", "hsaco", "o")]
    if not binaries:
        _bad(f"{prefix}binary_ext", "the name of a section", header.get("binary_ext"))
    kernels = cast("list[dict[str, object]]", header.get("kernels") or [])
    for i, kernel in enumerate(kernels):
        symbol = kernel.get("name")
        if not isinstance(symbol, str) or not any(symbol.encode() in data for data in binaries):
            _bad(f"{prefix}kernels[{i}].name", "a kernel of the binary", symbol)
    launched = max((int(index) for index in _LAUNCH.findall(host)), default=-1)
    if launched >= len(kernels):
        _bad(f"{prefix}kernels", f"a list of at least {launched + 1} kernels", [kernel["name"] for kernel in kernels])
