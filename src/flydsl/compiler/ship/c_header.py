"""C headers of raw exports: argument types, the typed call, the tables a launch needs."""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Sequence

from ...errors import DSLTypeError
from ...expr.scalars.scalar_abi import c_abi_slot
from ...target import on_host
from ..call.arguments import ScalarArgument, StreamArgument, TensorArgument
from .records import NewRecord, Record

_C_TYPES: dict[object, str] = {
    ctypes.c_bool: "bool",
    ctypes.c_float: "float",
    ctypes.c_double: "double",
    **{getattr(ctypes, f"c_{u}int{n}"): f"{u}int{n}_t" for n in (8, 16, 32, 64) for u in ("", "u")},
}


def describe_argument(name: str, argument: object) -> NewRecord:
    """A run-time parameter of the host call as plain data: what a caller must put into its storages."""
    if isinstance(argument, StreamArgument):
        return {"name": name, "kind": "stream", "storages": [{"kind": "pointer", "size": 8}]}
    if isinstance(argument, ScalarArgument):
        ctype = c_abi_slot(argument.dtype)[0]
        storage = {"kind": "value", "size": ctypes.sizeof(ctype), "c_type": _C_TYPES[ctype]}
        return {"name": name, "kind": "scalar", "dtype": argument.dtype.__name__, "storages": [storage]}
    if isinstance(argument, TensorArgument):
        return _describe_tensor(name, argument)
    raise DSLTypeError(f"parameter '{name}': {argument!r} cannot be exported yet; export tensors, scalars and streams")


def _describe_tensor(name: str, argument: TensorArgument) -> NewRecord:
    """Pointer, then, where anything is run-time, one packed record of extents and strides."""
    fields: list[NewRecord] = []
    offset = 0
    for kind, values, size in (("extent", argument.shape, 4), ("stride", argument.strides, argument.stride_width // 8)):
        for i, value in enumerate(values):
            if value is None:
                fields.append({"kind": kind, "dimension": i, "offset": offset, "size": size})
                offset += size
    storages: list[NewRecord] = [{"kind": "pointer", "size": 8}]
    if fields:
        storages.append({"kind": "layout", "size": offset, "fields": fields})
    return {
        "name": name,
        "kind": "tensor",
        "dtype": argument.dtype.__name__,
        "align": argument.align,
        "shape": list(argument.shape),
        "strides": list(argument.strides),
        "shape_divisibility": list(argument.shape_div),
        "stride_divisibility": list(argument.stride_div),
        "storages": storages,
    }


def identifier(text: str) -> str:
    """A C identifier made of any text."""
    made = re.sub(r"\W", "_", text, flags=re.ASCII)
    return made if not made[:1].isdigit() else f"_{made}"


_COMMON = """#ifndef FLYDSL_EXPORT
#define FLYDSL_EXPORT
/* What a failed launch reports: which kernel, with which grid, block and bytes of dynamic shared memory. */
typedef struct { int64_t kernel, grid[3], block[3], shared; } flydsl_failure;
/* The launch call every stack has, with the signature of cuLaunchKernel and hipModuleLaunchKernel. */
typedef int32_t (*flydsl_launch)(void *function, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z, uint32_t block_x,
                                 uint32_t block_y, uint32_t block_z, uint32_t shared, void *stream, void **params,
                                 void **extra);
#endif
"""


def _tensor_struct(prefix: str, about: Record) -> str:
    def codes(values: Sequence[int | None]) -> str:
        return "(" + ", ".join("?" if v is None else str(v) for v in values) + ")"

    lines = [f"/* {about['name']}: {about['dtype']}, shape {codes(about['shape'])}, strides {codes(about['strides'])}"]
    lines[-1] += f", at a multiple of {about['align']} bytes. */"
    members = ["void *data;"]
    for field in _fields(about):
        width = field["size"] * 8
        members.append(f"int{width}_t {field['kind']}{field['dimension']};")
    return "\n".join([*lines, f"typedef struct {{ {' '.join(members)} }} {prefix}_{about['name']};"])


def _fields(about: Record) -> list[NewRecord]:
    return [field for storage in about["storages"] for field in storage.get("fields", ())]


def _parameter(prefix: str, about: Record) -> str:
    if about["kind"] == "tensor":
        return f"{prefix}_{about['name']} {about['name']}"
    if about["kind"] == "scalar":
        return f"{about['storages'][0]['c_type']} {about['name']}"
    return f"void *{about['name']}"


def _call(prefix: str, arguments: Sequence[Record], has_stream: bool, own_handles: bool) -> str:
    """The typed call: storages on the stack, then the native entry."""
    parameters = [] if own_handles else ["void *const *handles", "flydsl_launch launch"]
    parameters += [_parameter(prefix, about) for about in arguments]
    parameters += [] if has_stream else ["void *stream"]
    body: list[str] = []
    storages: list[str] = []
    for about in arguments:
        name = about["name"]
        if about["kind"] != "tensor":
            storages.append(f"&{name}")
            continue
        storages.append(f"&{name}.data")
        fields = _fields(about)
        if fields:
            body.append(f"  unsigned char {name}_layout[{about['storages'][1]['size']}];")
            for field in fields:
                member = f"{name}.{field['kind']}{field['dimension']}"
                body.append(f"  memcpy({name}_layout + {field['offset']}, &{member}, {field['size']});")
            storages.append(f"{name}_layout")
    if not has_stream:
        storages.append("&stream")
    first = "" if own_handles else "handles, launch, "
    return "\n".join(
        [
            f"static inline int32_t {prefix}({', '.join([*parameters, 'flydsl_failure *failure'])}) {{",
            *body,
            f"  void *storages[] = {{{', '.join(f'(void *){s}' for s in storages)}}};",
            f"  return {prefix}_launch({first}storages, failure);",
            "}",
        ]
    )


def header(prefix: str, about: Record) -> str:
    """The header of an export whose metadata is `about`."""
    own_handles = on_host(about["backend"])
    arguments = about["arguments"]
    has_stream = any(a["kind"] == "stream" for a in arguments)
    names = ", ".join(json.dumps(k["name"]) for k in about["kernels"])
    guard = f"FLYDSL_EXPORT_{prefix.upper()}"
    kernels = [f" *   {i}: {k['name']}" for i, k in enumerate(about["kernels"])]
    table = (
        "Kernels and launcher are linked in."
        if own_handles
        else f"`handles` are the functions of {about['files']['device']} loaded with the driver, in this order:"
    )
    handles = "" if own_handles else "void *const *handles, flydsl_launch launch, "
    return "\n".join(
        [
            f"/* {about['qualname']} for {about['target']}, exported by FlyDSL {about['product_version']}.",
            " *",
            f" * {table}",
            *kernels,
            " * A call gives 0, or the driver's status with `failure` filled in (it may be NULL). */",
            f"#ifndef {guard}",
            f"#define {guard}",
            "#include <stdbool.h>",
            "#include <stdint.h>",
            "#include <string.h>",
            _COMMON,
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            f"#define {prefix.upper()}_KERNELS {len(about['kernels'])}",
            f"static const char *const {prefix}_kernels[] = {{{names}}};",
            *(_tensor_struct(prefix, a) for a in arguments if a["kind"] == "tensor"),
            f"/* The untyped entry: `storages` are the addresses of {_count(arguments, has_stream)} values. */",
            *(
                ["/* How many threads a launch may use; 1 until it is set. */", "extern int32_t flydsl_cpu_threads;"]
                * own_handles
            ),
            f"int32_t {prefix}_launch({handles}void *const *storages, flydsl_failure *failure);",
            _call(prefix, arguments, has_stream, own_handles),
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "#endif",
            "",
        ]
    )


def _count(arguments: Sequence[Record], has_stream: bool) -> int:
    return sum(len(a["storages"]) for a in arguments) + (not has_stream)
