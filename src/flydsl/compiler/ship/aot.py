"""Compiling ahead of time: one file with the code of a jit function for several targets, loaded without a compiler."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ... import __version__, config
from ...errors import ArtifactHookError, ArtifactMismatchError, DSLTypeError, DSLValueError
from ...expr.gpu import Stream
from ...expr.numeric import CLASSES
from ...trusted_files import read_file
from ..active_backend import resolve_backend
from ..build import signing
from ..build.artifact import OPTIONAL_SECTIONS, ArtifactFormatError, CompiledArtifact, atomic_write, pack, unpack
from ..build.header_checks import check_export
from ..build.load_hooks import check_hooks
from ..call.arguments import Argument, ScalarArgument, StreamArgument, TensorArgument, adapt
from ..compiled_function import compile
from ..jit_function import JitFunction
from .aot_checks import check_host, check_slots, choose
from .records import NewRecord

if TYPE_CHECKING:
    from ...runtime.base import DeviceRuntime
    from ..call.dispatch import LoadedFunction


def _describe(name: str, argument: object) -> NewRecord:
    """A run-time parameter as plain data."""
    if isinstance(argument, TensorArgument):
        return {"name": name, "kind": "tensor", "signature": repr(argument.signature())}
    if isinstance(argument, ScalarArgument):
        return {"name": name, "kind": "scalar", "dtype": argument.dtype.__name__}
    if isinstance(argument, StreamArgument):
        return {"name": name, "kind": "stream"}
    raise DSLTypeError(f"parameter '{name}': {argument!r} cannot be exported yet; export tensors, scalars and streams")


def export(
    fn: JitFunction,
    path: str | os.PathLike[str],
    *,
    args: Sequence[object],
    targets: Sequence[str] | None = None,
    include: Sequence[str] = ("device", "host", "fly"),
    sign: str | os.PathLike[str] | None = None,
) -> None:
    """Compile `fn` for arguments like these and write the code for every target to one file.

    `include` says what goes along beside the code: `fly`, `llvm`, `llvm_opt`, `asm` are texts for people. `sign` is the
    file of a private key (`fly aot keygen`): who loads the file can then tell that it comes from its owner.

    >>> @flyc.kernel
    ... def scale_kernel(x: fx.Tensor, by: fx.Float32):
    ...     x[fx.thread_idx.x] = x[fx.thread_idx.x] * by
    >>> @flyc.jit
    ... def scale(x: fx.Tensor, by: fx.Float32):
    ...     scale_kernel(x, by).launch(grid=1, block=4)
    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "scale.fly")
    >>> flyc.export(scale, path, args=(np.zeros(4, "f4"), 2.0), targets=["rocm:gfx942", "cuda:sm_90"])
    >>> flyc.load(path).targets
    ['rocm:gfx942:w64', 'cuda:sm_90:w32']
    >>> folder.cleanup()
    """
    if not isinstance(fn, JitFunction):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"flyc.export expects a @flyc.jit function, got {fn!r}")
    call = fn.bind_given(args)
    chosen = list(targets) if targets is not None else [resolve_backend(None).target.key()]
    if not chosen:
        raise DSLValueError("flyc.export needs at least one target")
    known = {"device", "host", *OPTIONAL_SECTIONS}
    if not {"device", "host"} <= set(include) <= known:
        raise DSLValueError(
            f"include takes 'device', 'host' and any of {', '.join(sorted(OPTIONAL_SECTIONS))}, got {tuple(include)}"
        )
    key = None if sign is None else signing.read_private_key(sign)
    groups: list[NewRecord] = []
    sections: dict[str, bytes] = {}
    for i, target in enumerate(chosen):
        artifact: CompiledArtifact = compile(fn, *args, target=target).artifact
        if (reason := artifact.metadata.get("notes", {}).get("memory_only")) is not None:
            raise DSLTypeError(f"{fn.__qualname__} cannot be exported: {reason}")
        groups.append({**artifact.metadata, "components": []})
        for name, data in artifact.sections.items():
            if name not in OPTIONAL_SECTIONS:
                sections[f"{i}.{name}"] = data
        for name in OPTIONAL_SECTIONS.intersection(include):
            sections[f"{i}.{name}"] = artifact.text(name).encode()
    header = {
        "kind": "aot",
        "name": fn.__name__,
        "module": fn.__module__,
        "qualname": fn.__qualname__,
        "product_version": __version__,
        "parameters": [_describe(name, a) for name, a in call.adapted.items()],
        "constants": {n: repr(v) for n, v in call.arguments.items() if n not in call.adapted},
        "targets": groups,
    }
    data = pack(header, sections)
    atomic_write(path, data if key is None else signing.sign(data, key))


class LoadedExport:
    """An exported function; call it with the run-time arguments it was exported for."""

    def __init__(self, header: NewRecord, sections: dict[str, bytes], hook_modules: Sequence[str] = ()):
        self.header = header
        self._hook_modules = tuple(hook_modules)
        self._sections = sections
        self._loaded: dict[tuple[int, int], LoadedFunction] = {}
        """By runtime and device."""

    @property
    def targets(self) -> list[str]:
        """Targets the file holds code for."""
        return [group["target"] for group in self.header["targets"]]

    def artifact(self, target: str | None = None) -> CompiledArtifact:
        """The artifact of a target (default: the active one)."""
        groups = self.header["targets"]
        parts = [self._part(i) for i in range(len(groups))]
        i = choose(groups, resolve_backend(target).target, [frozenset(part) for part in parts])
        return CompiledArtifact(groups[i], parts[i])

    def _part(self, i: int) -> dict[str, bytes]:
        prefix = f"{i}."
        return {n.removeprefix(prefix): d for n, d in self._sections.items() if n.startswith(prefix)}

    def __call__(self, *args: object) -> None:
        from ...runtime.device_runtime import get_device_runtime
        from ..call.placement import check_places, launch_device

        arguments = self._bind(args)
        named = {p["name"]: a for p, a in zip(self.header["parameters"], arguments, strict=True)}
        runtime = get_device_runtime()
        ordinal = launch_device(named, runtime)
        check_places(named, runtime)
        loaded = self._loaded.get((id(runtime), ordinal))
        if loaded is None:
            with runtime.device(ordinal):
                loaded = self._loaded[id(runtime), ordinal] = self._load(runtime, arguments)
        loaded.call(arguments)

    def _load(self, runtime: DeviceRuntime, arguments: Sequence[Argument]) -> LoadedFunction:
        """The code for the current device, loaded there."""
        from ..call.dispatch import LoadedFunction

        backend = resolve_backend(None)
        artifact = self.artifact()
        check_host(artifact.metadata)
        kind = artifact.metadata["runtime_kind"]
        if runtime.kind != kind:
            raise ArtifactMismatchError("runtime_kind", runtime.kind, kind)
        check_slots(artifact.sections["host"], arguments)
        names = artifact.metadata.get("load_hooks") or ()
        check_hooks(self.header["qualname"], names, self._hook_modules)
        for name in names:
            try:
                importlib.import_module(name.partition(":")[0])
            except ImportError as error:
                raise ArtifactHookError(f"the load hook {name} cannot be imported: {error}") from error
        try:
            code = backend.loadable(artifact.sections)
        except (KeyError, ValueError) as error:
            raise ArtifactFormatError("sections", f"they have no code for {artifact.target}: {error}") from error
        return LoadedFunction(artifact, runtime, code)

    def _bind(self, args: tuple[object, ...]) -> list[Argument]:
        parameters = self.header["parameters"]
        required = [p for p in parameters if p["kind"] != "stream"]
        if not len(required) <= len(args) <= len(parameters):
            raise DSLTypeError(
                f"{self.header['qualname']} takes {len(required)} to {len(parameters)} run-time arguments "
                f"({', '.join(p['name'] for p in parameters)}), got {len(args)}"
            )
        bound: list[Argument] = []
        for i, parameter in enumerate(parameters):
            name, kind = parameter["name"], parameter["kind"]
            value = args[i] if i < len(args) else Stream(None)
            annotation: Any = Stream if kind == "stream" else CLASSES.get(parameter.get("dtype", ""))
            argument = adapt(name, value, annotation)
            argument.check()
            found = _describe(name, argument)
            if found != parameter:
                raise ArtifactMismatchError(f"argument '{name}'", parameter, found)
            bound.append(argument)
        return bound

    def __repr__(self) -> str:
        return f"<exported {self.header['qualname']} for {', '.join(self.targets)}>"


def load(path: str | os.PathLike[str], *, strict: bool = True, hook_modules: Sequence[str] = ()) -> LoadedExport:
    """Read an exported function. `strict=False` accepts a file of another product version with a warning.

    An artifact is code: calling what was loaded runs machine code of the file with all rights of this process, so load
    none that you would not run as a program. Under FLYDSL_AOT_TRUSTED_KEYS a file must be signed with one of the keys.
    Functions the file names to be called with the loaded module (load hooks) are imported only from modules that the
    program has imported already or names in `hook_modules`.

    >>> @flyc.kernel
    ... def scale_kernel(x: fx.Tensor, by: fx.Float32):
    ...     x[fx.thread_idx.x] = x[fx.thread_idx.x] * by
    >>> @flyc.jit
    ... def scale(x: fx.Tensor, by: fx.Float32):
    ...     scale_kernel(x, by).launch(grid=1, block=4)
    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "scale.fly")
    >>> flyc.export(scale, path, args=(np.zeros(4, "f4"), 2.0))
    >>> x = np.arange(4, dtype="f4")
    >>> flyc.load(path)(x, 2.0)
    >>> x
    array([0., 2., 4., 6.], dtype=float32)
    >>> folder.cleanup()
    """
    data, _ = read_file(path, config.runtime.cache_max_entry_bytes)
    signing.SignatureCheck(config.aot.trusted_keys).check(data, path)
    header, sections = unpack(data)
    if header.get("kind") != "aot":
        raise ArtifactFormatError(
            "header", f"{os.fspath(path)} is not an exported function", expected="aot", found=header.get("kind")
        )
    check_export(header, sections)
    for group in header["targets"]:
        check_hooks(os.fspath(path), group.get("load_hooks") or (), hook_modules)
    ours, theirs = __version__.split(".")[:2], str(header.get("product_version")).split(".")[:2]
    if ours != theirs:
        if strict:
            raise ArtifactMismatchError("product_version", __version__, header.get("product_version"))
        config.warn(
            f"{os.fspath(path)} was exported by version {header.get('product_version')}, this is {__version__}",
            UserWarning,
        )
    return LoadedExport(header, sections, hook_modules)
