"""Raw exports for embedders: what a program in C needs to launch a jit function without Python.

The host function goes along as native code: it computes grids and kernel arguments from the arguments of the call and
calls the driver's launch entry. On the cpu stack a static library holds kernels, host function and launcher; for GPUs
the device binary lies beside an object with the host function, which is given the loaded kernels and the launch call.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ... import __version__
from ...cpu.runtime import native as cpu_native
from ...cpu.runtime import reports as cpu_reports
from ...cpu.runtime.launcher_ir import FLAG_CLUSTERS, launcher_ir
from ...cpu.runtime.native import KernelDescriptor
from ...errors import DSLTypeError, NotSupportedError
from ...llvm import binding, codegen, host_jit
from ...llvm.objects.archive import write_archive
from ...llvm.stub_abi import EXTENDED_LAUNCH_SYMBOL, FAILURE_BYTES, LAUNCH_SYMBOL, SIDE_BUFFER_SYMBOL
from ...target import on_host
from ..build.artifact import CompiledArtifact, atomic_write
from ..call.dispatch import TENSOR_MAP_SYMBOL
from ..compiled_function import compile
from ..jit_function import JitFunction
from . import c_header
from .records import NewRecord, Record

SCHEMA = 1


def export_raw(
    fn: JitFunction,
    folder: str | os.PathLike[str],
    *,
    args: Sequence[object],
    target: str | None = None,
    name: str | None = None,
) -> dict[str, Path]:
    """Write header, code and metadata of `fn` for arguments like these; gives the files by what they are.

    `name` (default: the function's) is the prefix of every C name; the files are `name.h`, `name.json` and, by target,
    `libname.a` (cpu), or the device binary with `name.o`.

    >>> import tempfile
    >>> from flydsl.kernels.vector_add import vector_add
    >>> x = flyc.TensorSpec((1024,), "float32")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = flyc.export_raw(vector_add, folder, args=(x, x, x), target="rocm:gfx942")
    >>> sorted(path.name for path in files.values())
    ['vector_add.h', 'vector_add.hsaco', 'vector_add.json', 'vector_add.o']
    """
    if not isinstance(fn, JitFunction):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"flyc.export_raw expects a @flyc.jit function, got {fn!r}")
    call = fn.bind_given(args)
    artifact: CompiledArtifact = compile(fn, *args, target=target).artifact
    about = artifact.metadata
    if about.get("load_hooks") or artifact.load_hooks:
        raise NotSupportedError(
            about["backend"], "raw export of a function with load hooks", "a C program runs no Python"
        )
    if SIDE_BUFFER_SYMBOL.encode() in artifact.sections["host"]:
        raise NotSupportedError(
            about["backend"],
            "raw export of a kernel that prints or records a trace",
            "its launches add memory and read it in Python; use flyc.export, or leave fx.printf and ktrace out",
        )
    prefix = c_header.identifier(name or fn.__name__)
    arguments = [c_header.describe_argument(n, a) for n, a in call.adapted.items()]
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    files = {"header": f"{prefix}.h", "metadata": f"{prefix}.json"}
    content: dict[str, bytes] = {}
    storages = sum(len(a["storages"]) for a in arguments) + all(a["kind"] != "stream" for a in arguments)
    if on_host(about["backend"]):
        files["library"] = f"lib{prefix}.a"
        content["library"] = _cpu_library(prefix, artifact, storages)
    else:
        files |= {"device": f"{prefix}.{about['binary_ext']}", "host": f"{prefix}.o"}
        content |= {"device": artifact.binary(), "host": _compile_host(_gpu_host_ir(prefix, artifact, storages))}
    metadata = {
        "schema": SCHEMA,
        "kind": "raw",
        "name": prefix,
        "qualname": about["qualname"],
        "product_version": __version__,
        "backend": about["backend"],
        "target": about["target"],
        "chip": about["chip"],
        "host_triple": binding.host_triple(),
        "files": files,
        "entry": f"{prefix}_launch",
        "arguments": arguments,
        "constants": {n: repr(v) for n, v in call.arguments.items() if n not in call.adapted},
        "kernels": [_kernel(k) for k in artifact.kernels],
    }
    content["metadata"] = (json.dumps(metadata, indent=1) + "\n").encode()
    content["header"] = c_header.header(prefix, metadata).encode()
    for kind, data in content.items():
        atomic_write(out / files[kind], data)
    return {kind: out / file for kind, file in files.items()}


def _kernel(about: Record) -> NewRecord:
    """What a launch that goes past the host function needs."""
    known = ("name", "block", "shared_static", "parameters", "registers", "spills", "kernarg_size", "max_threads")
    return {key: about[key] for key in known if key in about}


def _compile_host(ir: str) -> bytes:
    """Position-independent code for any processor of this machine's family."""
    target = replace(codegen.DeviceTarget.host(), cpu="", features="")
    return codegen.compile_device(ir, target, 2).object


# --- LLVM IR --------------------------------------------------------------------------------------------------------

_LAUNCH_PARAMETERS = ", ".join(
    [
        "ptr %fn",
        *(f"i32 %{d}" for d in ("gx", "gy", "gz", "bx", "by", "bz", "smem")),
        "ptr %stream, ptr %params, ptr %extra",
    ]
)
_LAUNCH_ARGUMENTS = _LAUNCH_PARAMETERS.removeprefix("ptr %fn, ")


def _host_function(artifact: CompiledArtifact) -> str:
    """The host function under a name of its own that no linker sees."""
    name = artifact.metadata["name"]
    text = artifact.sections["host"].decode()
    found = text.replace(f"define i32 @{name}(ptr %slots)", "define internal i32 @host_function(ptr %slots)")
    assert found != text, "the host function is not where it was"
    return found


def _entry(prefix: str, storages: int, parameters: str, prepare: str, table: str) -> str:
    """`prefix_launch`: table and record in front of the caller's storages, then the host function."""
    copies = "\n".join(
        f"  %from.{i} = getelementptr ptr, ptr %storages, i32 {i}\n"
        f"  %storage.{i} = load ptr, ptr %from.{i}\n"
        f"  %to.{i} = getelementptr ptr, ptr %slots, i32 {i + 2}\n"
        f"  store ptr %storage.{i}, ptr %to.{i}"
        for i in range(storages)
    )
    return f"""
define i32 @{prefix}_launch({parameters}ptr %storages, ptr %failure) {{
entry:
  %record = alloca [{FAILURE_BYTES} x i8], align 8
  %slots = alloca [{storages + 2} x ptr], align 8
{prepare}
  store ptr {table}, ptr %slots
  %asked = icmp ne ptr %failure, null
  %where = select i1 %asked, ptr %failure, ptr %record
  %second = getelementptr ptr, ptr %slots, i32 1
  store ptr %where, ptr %second
{copies}
  %status = call i32 @host_function(ptr %slots)
  ret i32 %status
}}
"""


def _gpu_host_ir(prefix: str, artifact: CompiledArtifact, storages: int) -> str:
    """Each handle travels with the launch call as a pair, so that no state is shared between calls."""
    for symbol, what in ((EXTENDED_LAUNCH_SYMBOL, "a launch with attributes"), (TENSOR_MAP_SYMBOL, "a tensor map")):
        if symbol.encode() in artifact.sections["host"]:
            raise NotSupportedError(artifact.metadata["backend"], f"raw export of {what}", "use flyc.export for it")
    count = len(artifact.kernels)
    prepare = [f"  %pairs = alloca [{2 * count} x ptr], align 8", f"  %table = alloca [{count + 1} x ptr], align 8"]
    for i in range(count):
        prepare += [
            f"  %handle.at.{i} = getelementptr ptr, ptr %handles, i32 {i}",
            f"  %handle.{i} = load ptr, ptr %handle.at.{i}",
            f"  %pair.{i} = getelementptr ptr, ptr %pairs, i32 {2 * i}",
            f"  %pair.fn.{i} = getelementptr ptr, ptr %pairs, i32 {2 * i + 1}",
            f"  store ptr %launch, ptr %pair.{i}",
            f"  store ptr %handle.{i}, ptr %pair.fn.{i}",
            f"  %table.{i} = getelementptr ptr, ptr %table, i32 {i}",
            f"  store ptr %pair.{i}, ptr %table.{i}",
        ]
    declared = next(line for line in _host_function(artifact).splitlines() if line.startswith(_DECLARE))
    launch = f"""
define internal i32 @{LAUNCH_SYMBOL}({_LAUNCH_PARAMETERS}) {{
  %call = load ptr, ptr %fn
  %handle.at = getelementptr ptr, ptr %fn, i32 1
  %handle = load ptr, ptr %handle.at
  %status = call i32 %call(ptr %handle, {_LAUNCH_ARGUMENTS})
  ret i32 %status
}}
"""
    text = _host_function(artifact).replace(declared, launch)
    return text + _entry(prefix, storages, "ptr %handles, ptr %launch, ", "\n".join(prepare), "%table")


_DECLARE = f"declare i32 @{LAUNCH_SYMBOL}("


def _cpu_library(prefix: str, artifact: CompiledArtifact, storages: int) -> bytes:
    """Kernels, host function and launcher; the latter is a member of its own, which two libraries can share."""
    descriptors, reports = _descriptors(artifact)
    entries = ", ".join(f"ptr @descriptor.{i}" for i in range(len(descriptors)))
    lines = [
        f"@descriptor.{i} = internal global {{ ptr, i64, i64, ptr, [3 x i32] }} "
        f"{{ ptr @{name}, i64 {d.shared_static_bytes}, i64 {d.flags}, ptr null, "
        f"[3 x i32] [{', '.join(f'i32 {n}' for n in d.cluster)}] }}\n"
        f"declare void @{name}(ptr, ptr, ptr, i64, i64)"
        for i, (name, d) in enumerate(descriptors.items())
    ]
    lines.append(f"@table = internal constant [{len(descriptors)} x ptr] [{entries}]")
    prepare: list[str] = []
    if reports:
        # Kernels whose threads meet report when they cannot go on; the launcher looks there.
        lines.append(f"declare ptr @{cpu_reports.SYMBOL}(i1 zeroext)")
        prepare.append(f"  %reports = call ptr @{cpu_reports.SYMBOL}(i1 zeroext false)")
        for i in range(len(descriptors)):
            prepare.append(f"  %reports.at.{i} = getelementptr i8, ptr @descriptor.{i}, i64 {_REPORTS}")
            prepare.append(f"  store ptr %reports, ptr %reports.at.{i}")
    entry = _entry(prefix, storages, "", "\n".join(prepare), "@table")
    host = _host_function(artifact) + "\n".join(lines) + entry
    launcher = launcher_ir() + _CPU_NAMES
    return write_archive(
        {"host.o": _compile_host(host), "kernels.o": artifact.binary("o"), "flydsl_cpu.o": _compile_host(launcher)}
    )


_MAP_TYPES = "ptr, i32, i32, ptr, ptr, ptr, ptr, ptr, i32, i32, i32, i32"
_CPU_NAMES = f"""
@{LAUNCH_SYMBOL} = alias i32 (ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr), ptr @flydsl_cpu_launch
@{EXTENDED_LAUNCH_SYMBOL} = alias i32 (ptr, ptr, ptr, ptr), ptr @flydsl_cpu_launch_ex
@{TENSOR_MAP_SYMBOL} = alias i32 ({_MAP_TYPES}), ptr @flydsl_cpu_tensor_map
"""
_REPORTS = KernelDescriptor.reports.offset


def _descriptors(artifact: CompiledArtifact) -> tuple[dict[str, KernelDescriptor], bool]:
    """What the cpu runtime knows of each kernel once it is loaded, and whether they have anything to report."""
    library = host_jit.load_object(artifact.binary("o"), name="raw-export")
    with library:
        found: dict[str, KernelDescriptor] = {}
        for kernel in artifact.kernels:
            cluster = cpu_native.cluster_of(library, kernel["name"])
            flags = FLAG_CLUSTERS if any(cluster) else 0
            found[kernel["name"]] = KernelDescriptor(None, kernel.get("shared_static", 0), flags, None, cluster)
        return found, cpu_reports.SYMBOL in library.symbols
