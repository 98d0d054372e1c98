"""`CompiledArtifact`, the immutable result of a compilation, and the container file it is stored in.

The container is data only: a magic, a canonical JSON header, aligned sections with their SHA-256, a SHA-256 over all of
it. Reading one runs no code of the file; whatever is wrong with it raises `ArtifactFormatError`.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn, TextIO, cast

from flydsl import config
from flydsl.compiler.build import signing
from flydsl.compiler.build.header_checks import ArtifactFormatError, check_artifact, check_plain, check_runnable
from flydsl.errors import DSLValueError
from flydsl.target import GPUTarget
from flydsl.trusted_files import atomic_write, open_file, read_file

MAGIC = b"FLYART01"
SCHEMA = 1
"""Number of the header's form; a file of another one is not read."""
ALIGNMENT = 64
OPTIONAL_SECTIONS = frozenset(("fly", "llvm", "llvm_opt", "asm"))
"""Sections for people. The code runs without them."""

MAX_HEADER = 1 << 26
"""Bytes of a header."""

_LENGTH = struct.Struct("<I")
_HEAD = len(MAGIC) + _LENGTH.size
_DIGEST_SIZE = 32
_NOT_BINARIES = OPTIONAL_SECTIONS | {"host"}
_RESOURCES = (
    *("registers", "vgprs", "sgprs", "agprs", "spills", "scratch", "stack", "shared", "static_smem", "dynamic_smem"),
    *("occupancy", "occupancy_limit", "block_size", "cluster", "code_size"),
)

Lazy = Callable[[], "str | bytes"]


# -- the container -----------------------------------------------------------------------------------


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def canonical_json(value: object) -> bytes:
    """JSON with sorted keys, no blanks, ASCII only and no NaN: one text per value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def pack(header: Mapping[str, Any], sections: Mapping[str, bytes]) -> bytes:
    """A container. The header gets `schema` and the table `sections`, whose offsets count from the first section."""
    table: list[dict[str, Any]] = []
    offset = 0
    for name, data in sections.items():
        digest = hashlib.sha256(data).hexdigest()
        table.append({"name": name, "offset": offset, "size": len(data), "sha256": digest, "codec": "none"})
        offset = _aligned(offset + len(data))
    text = canonical_json({**header, "schema": SCHEMA, "sections": table})
    out = bytearray(MAGIC + _LENGTH.pack(len(text)) + text)
    for data in sections.values():
        out.extend(bytes(_aligned(len(out)) - len(out)))
        out.extend(data)
    out.extend(hashlib.sha256(out).digest())
    return bytes(out)


def _bad(field: str, message: str, **details: object) -> NoReturn:
    raise ArtifactFormatError(field, message, **details)


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def _parse_header(text: bytes) -> dict[str, Any]:
    if len(text) > MAX_HEADER:
        _bad("length", f"the header has {len(text)} bytes, more than {MAX_HEADER}")
    try:
        value = json.loads(text.decode("ascii"), parse_constant=_constant)
        same = canonical_json(value) == text
    except (ValueError, RecursionError) as error:
        raise ArtifactFormatError("header", f"the header is no JSON ({error})") from error
    if not isinstance(value, dict):
        _bad("header", "the header is no JSON object")
    header = cast("dict[str, Any]", value)
    if not same:
        _bad("header", "the header is not canonical JSON")
    check_plain(header)
    found = header.get("schema")
    if type(found) is not int or found != SCHEMA:
        _bad("schema", f"schema {found!r}, this version reads {SCHEMA}", expected=SCHEMA, found=found)
    return header


def _offset(entry: object) -> int:
    offset: object = cast("dict[str, object]", entry).get("offset") if isinstance(entry, dict) else 0
    return offset if type(offset) is int else 0


def _section(entry: Any, data: memoryview, base: int, end: int) -> tuple[str, bytes, int]:
    """Name, content and end of one section."""
    fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    name, offset, size, digest = (fields.get(key) for key in ("name", "offset", "size", "sha256"))
    numbers = type(offset) is int and type(size) is int and offset >= 0 and size >= 0
    if not isinstance(name, str) or not name or not isinstance(digest, str) or not numbers:
        _bad("sections", f"bad entry {entry!r} in the section table")
    if fields.get("codec") != "none":
        _bad("codec", f"section {name!r} has the unknown codec {fields.get('codec')!r}")
    start = base + cast(int, offset)
    stop = start + cast(int, size)
    if start % ALIGNMENT or stop > end:
        _bad("sections", f"section {name!r} lies outside the file or is not aligned")
    content = bytes(data[start:stop])
    if hashlib.sha256(content).hexdigest() != digest:
        _bad("checksum", f"the checksum of section {name!r} does not hold")
    return name, content, stop


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Header (without its section table) and sections of a container; every defect raises `ArtifactFormatError`.

    A signature is passed over: who asks for one checks it.
    """
    data, _ = signing.split(data)
    if data[: len(MAGIC)] != MAGIC:
        found = bytes(data[: len(MAGIC)])
        _bad("magic", f"it starts with {found!r}, not {MAGIC!r}", expected=MAGIC, found=found)
    end = len(data) - _DIGEST_SIZE
    if end < _HEAD:
        _bad("length", f"it ends after {len(data)} bytes")
    view = memoryview(data)
    if hashlib.sha256(view[:end]).digest() != data[end:]:
        _bad("checksum", "the checksum does not hold: the file is truncated or changed")
    header_end = _HEAD + _LENGTH.unpack_from(data, len(MAGIC))[0]
    if header_end > end:
        _bad("length", "the header is longer than the file")
    header = _parse_header(data[_HEAD:header_end])
    table = header.pop("sections", None)
    if not isinstance(table, list):
        _bad("sections", "there is no section table")
    sections: dict[str, bytes] = {}
    last = header_end
    for entry in sorted(cast("list[Any]", table), key=_offset):
        if _offset(entry) + _aligned(header_end) < last:
            _bad("sections", "two sections overlap")
        name, content, stop = _section(entry, view, _aligned(header_end), end)
        if name in sections:
            _bad("sections", f"there are two sections {name!r}")
        sections[name] = content
        last = max(last, stop)
    if last != end:
        _bad("length", f"{end - last} bytes belong to no section")
    return header, sections


def read_header(source: str | os.PathLike[str] | int) -> dict[str, Any]:
    """The header of a file, section table included. Only the header is read, and no checksum checked: for listings."""
    handle = source if isinstance(source, int) else open_file(source, os.O_RDONLY)
    with open(handle, "rb", closefd=handle is not source) as file:
        head = file.read(_HEAD)
        if len(head) < _HEAD or head[: len(MAGIC)] != MAGIC:
            _bad("magic", f"it does not start with {MAGIC!r}")
        size = _LENGTH.unpack_from(head, len(MAGIC))[0]
        if size > os.fstat(file.fileno()).st_size:
            _bad("length", "the header is longer than the file")
        return _parse_header(file.read(size))


# -- the artifact ------------------------------------------------------------------------------------


def _target_fields(target: object) -> object:
    if not isinstance(target, GPUTarget):
        return target
    return {
        "backend": target.backend,
        "arch": target.arch,
        "warp_size": target.warp_size,
        "features": list(target.features),
    }


def _text(data: str | bytes) -> str:
    try:
        return data if isinstance(data, str) else data.decode("utf-8")
    except UnicodeDecodeError:
        raise ArtifactFormatError("sections", "a text section is no UTF-8") from None


def _size(count: int) -> str:
    return (
        f"{count} B" if count < 1024 else f"{count / 1024:.1f} KiB" if count < 1 << 20 else f"{count / 2**20:.1f} MiB"
    )


class CompiledArtifact:
    """What a compilation made: binaries, host stub, IR texts, and the metadata that describes them.

    A binary is a section named by its extension (`hsaco`), or `device`, whose extension the metadata gives as
    `binary_ext`. `host` is the host stub's bitcode; `fly`, `llvm`, `llvm_opt` and `asm` are texts and may be missing;
    `lazy` can make them when they are first asked for.

    >>> @flyc.kernel
    ... def scale_kernel(x: fx.Tensor, by: fx.Float32):
    ...     x[fx.thread_idx.x] = x[fx.thread_idx.x] * by
    >>> @flyc.jit
    ... def scale(x: fx.Tensor, by: fx.Float32):
    ...     scale_kernel(x, by).launch(grid=1, block=4)
    >>> artifact = flyc.compile(scale, np.zeros(4, "f4"), 2.0, target="rocm:gfx942").artifact
    >>> artifact.name, artifact.kernels[0]["name"], artifact.binary("hsaco")[1:4]
    ('scale', 'scale_kernel_0', b'ELF')
    """

    __slots__ = ("_lazy", "_lock", "_made", "_metadata", "_sections", "load_hooks")

    def __init__(
        self,
        metadata: Mapping[str, Any],
        sections: Mapping[str, bytes],
        *,
        lazy: Mapping[str, Lazy] | None = None,
        load_hooks: Sequence[Callable[[int], Any]] = (),
    ):
        self.load_hooks = tuple(load_hooks)
        """What to call with a module loaded from this artifact, in the process that compiled it."""
        header = {key: value for key, value in metadata.items() if key != "sections"}
        header["target"] = _target_fields(header.get("target"))
        header.setdefault("kind", "jit")
        header.setdefault("created", int(time.time()))
        header["schema"] = SCHEMA
        try:
            # A copy that is equal to what is read back: tuples are lists, keys are text.
            self._metadata: dict[str, Any] = json.loads(canonical_json(header))
        except (TypeError, ValueError) as error:
            raise TypeError(f"the metadata of an artifact must be plain JSON data: {error}") from error
        for name, data in sections.items():
            if not isinstance(data, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"section {name!r} must be bytes, got {type(data).__name__}")
        self._sections = dict(sections)
        self._lazy = dict(lazy or {})
        self._made: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def metadata(self) -> dict[str, Any]:
        """The header: names, versions, target, signature, kernels, times. Do not change it."""
        return self._metadata

    @property
    def sections(self) -> Mapping[str, bytes]:
        """Content by section name."""
        return MappingProxyType(self._sections)

    # -- content ---------------------------------------------------------------------------------------

    @property
    def binaries(self) -> dict[str, bytes]:
        """Device binaries by extension."""
        own = str(self._metadata.get("binary_ext") or "bin")
        return {
            own if name == "device" else name.removeprefix("device."): data
            for name, data in self._sections.items()
            if name not in _NOT_BINARIES
        }

    def binary(self, ext: str | None = None) -> bytes:
        """The device binary of an extension; without one, that which the runtime loads."""
        wanted = ext or str(self._metadata.get("binary_ext") or "bin")
        binaries = self.binaries
        try:
            return binaries[wanted.removeprefix(".")]
        except KeyError:
            there = ", ".join(sorted(binaries)) or "none"
            raise DSLValueError(f"{self.name} has no binary {wanted!r}; there are: {there}") from None

    def text(self, name: str) -> str:
        """A text section, from the file or made now."""
        if (data := self._sections.get(name)) is not None:
            return _text(data)
        with self._lock:
            if name not in self._made:
                if name not in self._lazy:
                    there = ", ".join(sorted((*self._sections, *self._lazy))) or "none"
                    raise DSLValueError(
                        f"{self.name} has no section {name!r}; there are: {there} (IR is left out of stored artifacts "
                        "under FLYDSL_RUNTIME_CACHE_BINARY_ONLY=1)"
                    )
                self._made[name] = _text(self._lazy[name]())
            return self._made[name]

    @property
    def asm(self) -> str:
        """Assembly: ISA, PTX or that of the host."""
        return self.text("asm")

    def annotated_asm(self) -> str:
        """Assembly with each stretch under the source line it comes from; needs code with line tables."""
        from flydsl.llvm.text.source_lines import annotate_assembly

        made = annotate_assembly(self.asm)
        if made is None:
            raise DSLValueError(
                f"{self.name} was compiled without line tables, so its assembly cannot be annotated: compile it with "
                'flyc.compile[{"debug_info": True}](...) or under FLYDSL_DEBUG_ENABLE_DEBUG_INFO=1'
            )
        return made

    @property
    def llvm_ir(self) -> str:
        """LLVM IR of the device code before optimisation."""
        return self.text("llvm")

    @property
    def optimized_ir(self) -> str:
        """LLVM IR of the device code after optimisation."""
        return self.text("llvm_opt")

    @property
    def source_ir(self) -> str:
        """The traced IR, before any pass."""
        return self.text("fly")

    ir = source_ir

    @property
    def host(self) -> bytes | None:
        """Bitcode of the host stub."""
        return self._sections.get("host")

    def with_lazy(self, **lazy: Lazy) -> CompiledArtifact:
        """The same artifact, able to make more texts when they are asked for."""
        return CompiledArtifact(self._metadata, self._sections, lazy={**self._lazy, **lazy}, load_hooks=self.load_hooks)

    # -- description -----------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        """The disk key, or an empty text."""
        return str(self._metadata.get("key") or "")

    @property
    def name(self) -> str:
        """What was compiled."""
        return str(self._metadata.get("name") or "artifact")

    @property
    def target(self) -> GPUTarget:
        """What it was compiled for."""
        fields: Any = self._metadata.get("target")
        if isinstance(fields, str):
            return GPUTarget.parse(fields)
        if not isinstance(fields, dict):
            raise DSLValueError(f"{self.name} does not say for which target it was compiled")
        entry = cast("dict[str, Any]", fields)
        return GPUTarget(entry["backend"], entry["arch"], entry["warp_size"], tuple(entry.get("features", ())))

    @property
    def kernels(self) -> list[dict[str, Any]]:
        """Per kernel: symbol, argument layout, block size, shared memory, registers, ..."""
        return list(self._metadata.get("kernels") or ())

    @property
    def resources(self) -> dict[str, dict[str, Any]]:
        """What each kernel uses, by symbol: registers, spills, shared, scratch, ..., as far as known."""
        found: dict[str, dict[str, Any]] = {}
        for kernel in self.kernels:
            own = {name: kernel[name] for name in _RESOURCES if kernel.get(name) is not None}
            found[str(kernel.get("symbol") or kernel.get("name"))] = {**own, **(kernel.get("resources") or {})}
        for entry in self._metadata.get("resources") or ():
            rest = {name: value for name, value in entry.items() if name != "name"}
            found.setdefault(str(entry.get("name")), {}).update(rest)
        return found

    def dump(self, file: TextIO | None = None, *, compiled: bool = False) -> None:
        """Print the traced IR, or the LLVM IR if `compiled`, to a stream (standard output)."""
        stream = file or sys.stdout
        stream.write((self.llvm_ir if compiled else self.source_ir).rstrip("\n") + "\n")

    def __repr__(self) -> str:
        fields: Any = self._metadata.get("target")
        target = f" for {self.target.key()}" if fields else ""
        kernels = len(self.kernels)
        parts = ", ".join(f"{name} {_size(len(data))}" for name, data in self._sections.items())
        key = f", key {self.key[:12]}" if self.key else ""
        return f"<CompiledArtifact {self.name}{target}: {kernels} kernel{'s'[: kernels != 1]}; {parts or 'empty'}{key}>"

    def _repr_html_(self) -> str:
        from .artifact_html import artifact_html

        return artifact_html(self)

    # -- storage ---------------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[object, ...]:
        """With all texts: what makes them stays behind."""
        for name in self._lazy:
            self.text(name)
        return CompiledArtifact.from_bytes, (self.to_bytes(),)

    def to_bytes(self, *, key: str | None = None, binary_only: bool = False) -> bytes:
        """The container. Texts that were not made yet are not made for it; `binary_only` leaves all texts out."""
        sections = dict(self._sections)
        sections.update((name, text.encode("utf-8")) for name, text in self._made.copy().items())
        if binary_only:
            sections = {name: data for name, data in sections.items() if name not in OPTIONAL_SECTIONS}
        header = self._metadata if key is None else {**self._metadata, "key": key}
        return pack(header, sections)

    @classmethod
    def from_bytes(cls, data: bytes) -> CompiledArtifact:
        """The artifact of a container; raises `ArtifactFormatError` for anything that is not exactly one."""
        header, sections = unpack(data)
        check_artifact(header)
        made = cls({}, sections)
        # It was just read from canonical JSON, so nothing is left to make plain; the rest is what `cls` would add.
        made._metadata = {"kind": "jit", "created": int(time.time()), "target": None, **header}
        return made

    def check_runnable(self) -> None:
        """Raise `ArtifactFormatError` if something that loading relies on is not there."""
        check_runnable(self._metadata, self._sections)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the container to a file."""
        atomic_write(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CompiledArtifact:
        """Read what `save` wrote."""
        return cls.from_bytes(read_file(path, config.runtime.cache_max_entry_bytes)[0])
