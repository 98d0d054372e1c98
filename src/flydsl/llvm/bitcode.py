"""Linking libraries of LLVM bitcode into a device module, before it is optimised.

A library is a `.bc` file, or the same as text. Its functions become internal to the module, so the optimiser inlines
them and drops what nobody calls. LLVM's own linker trusts declarations and would join a call of one type with a
function of another; so types, targets and names are compared first, with errors that name the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from flydsl.errors import DSLCompileError, FlyDSLError, LinkError
from flydsl.llvm import binding
from flydsl.llvm.binding import ModuleRef

Finder = Callable[[Sequence[str]], "Sequence[tuple[str, bytes]]"]
"""Undefined names to more libraries (path and content) that may define them."""

_DRIVER_FUNCTIONS = frozenset(("vprintf", "malloc", "free", "__assertfail"))
"""Functions NVIDIA's driver provides when it loads PTX."""

# A library is compiled for the processor of the module it is linked into, whatever it was made for.
_PROCESSOR = re.compile(r' ?"(?:target-cpu|tune-cpu|target-features)"="[^"]*"')
# GPU code is compiled freestanding, which marks it so that it is never inlined into code that is not; there is no C
# library there that a function of the same name could be mistaken for.
_FREESTANDING = re.compile(r' ?"no-builtins"')
_CPU = re.compile(r'"target-cpu"="([^"]*)"')
_GROUP = re.compile(r"^attributes #\d+ = \{.*\}$", re.MULTILINE)
# Promises about hidden arguments, made of kernels that call nothing; what a library reads is not known here.
_PROMISES = re.compile(r' ?"amdgpu-no-[a-z-]+"')


@dataclass(frozen=True, slots=True)
class Signature:
    """Types of a function, as LLVM writes them."""

    result: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.result} ({', '.join(self.arguments)})"


def link_libraries(
    ir_text: str,
    libraries: Sequence[tuple[str, bytes]],
    *,
    chip: str = "",
    keep_variables: bool = False,
    find: Finder | None = None,
) -> str:
    """LLVM IR text of a device module joined with libraries, each a path and its content.

    `find` is asked once for names that are still undefined. On GPUs every name must be defined in the end; host code
    may take the rest from the C library. `keep_variables` leaves global variables visible, for a host function that
    looks them up in the loaded module.
    """
    module = binding.parse(_without_promises(ir_text))
    wanted = signatures(module, declared=True)
    own = {*signatures(module, declared=False), *_variables(module)}
    owners: dict[str, str] = {}
    _link_all(module, libraries, chip, wanted, own, owners)
    missing = undefined(module)
    if missing and find is not None:
        _link_all(module, find(missing), chip, wanted, own, owners)
        missing = undefined(module)
    if missing and module.triple.startswith(("amdgcn", "nvptx")):
        raise DSLCompileError(_missing_message(missing, wanted, [path for path, _ in libraries]))
    binding.make_internal(module, [name for name in owners if name not in own], variables=not keep_variables)
    binding.drop_unused(module)
    return str(module)


def _link_all(
    module: ModuleRef,
    libraries: Iterable[tuple[str, bytes]],
    chip: str,
    wanted: dict[str, Signature],
    own: set[str],
    owners: dict[str, str],
) -> None:
    for path, content in libraries:
        library = _read(path, content, module, chip)
        try:
            _check_names(path, library, wanted, own, owners)
            owners.update(dict.fromkeys(_variables(library), path))
            binding.link_in(module, library)
        except RuntimeError as error:
            if isinstance(error, FlyDSLError):
                raise
            raise LinkError(f"{path} cannot be linked: {str(error).strip()}") from error
        finally:
            library.close()  # It shares the module's context, which it must not outlive.


def _check_names(
    path: str, library: ModuleRef, wanted: dict[str, Signature], own: set[str], owners: dict[str, str]
) -> None:
    for name, found in signatures(library, declared=False).items():
        if name in owners or name in own:
            raise LinkError(f"'{name}' is defined twice: in {owners.get(name, 'the kernels')} and in {path}")
        owners[name] = path
        if name in wanted and found != wanted[name]:
            raise DSLCompileError(
                f"extern function '{name}' is declared as {wanted[name]}, but {path} defines it as {found}"
            )


def _read(path: str, content: bytes, module: ModuleRef, chip: str) -> ModuleRef:
    """A library for the target of `module`, in its context."""
    try:
        made = binding.parse_bitcode(content) if content[:4] in _MAGICS else binding.parse(content.decode())
    except (DSLCompileError, UnicodeDecodeError) as error:
        raise LinkError(f"{path} is not LLVM bitcode or IR this LLVM can read: {error}") from error
    text = str(made)
    ours, theirs = module.triple, made.triple
    if theirs and _architecture(theirs) != _architecture(ours):
        raise LinkError(f"{path} is for the target {theirs}, the kernel is for {ours}; compile it with --target={ours}")
    if ours.startswith("amdgcn"):
        for cpu in dict.fromkeys(_CPU.findall(text)):
            if chip and cpu and cpu != chip:
                raise LinkError(
                    f"{path} is for the processor {cpu}, the kernel is for {chip}; compile it with -mcpu={chip}, or "
                    "without -mcpu for all"
                )
    text = _GROUP.sub(lambda match: _PROCESSOR.sub("", match[0]), text)
    if ours.startswith(("amdgcn", "nvptx")):
        text = _GROUP.sub(lambda match: _FREESTANDING.sub("", match[0]), text)
    library = binding.parse_beside(text, module)
    library.triple, library.data_layout = module.triple, module.data_layout
    return library


_MAGICS = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
"""Bitcode, and bitcode in the wrapper that some systems put around it."""


def _architecture(triple: str) -> str:
    name = triple.split("-")[0]
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def _without_promises(ir_text: str) -> str:
    if "amdgcn" not in ir_text:
        return ir_text
    return _GROUP.sub(lambda match: _PROMISES.sub("", match[0]), ir_text)


def signatures(module: ModuleRef, *, declared: bool) -> dict[str, Signature]:
    """Functions of a module that only are declared, or those with a body that others can see."""
    found: dict[str, Signature] = {}
    for function in cast(Any, module).functions:
        if bool(function.is_declaration) is not declared or function.name.startswith("llvm."):
            continue
        if not declared and function.linkage.name in ("internal", "private"):
            continue
        result, _, arguments = str(function.global_value_type).partition("(")
        parts = arguments.rstrip(")").split(", ") if arguments != ")" else []
        found[function.name] = Signature(result.strip(), tuple(parts))
    return found


def _variables(module: ModuleRef) -> list[str]:
    return [
        v.name
        for v in cast(Any, module).global_variables
        if not v.is_declaration and v.linkage.name not in ("internal", "private", "appending")
    ]


def undefined(module: ModuleRef) -> list[str]:
    """Functions and variables the module refers to and nobody has defined, but for those the loader knows."""
    known: Any = module
    names = [f.name for f in known.functions if f.is_declaration and not f.name.startswith("llvm.")]
    if module.triple.startswith("nvptx"):
        names = [name for name in names if name not in _DRIVER_FUNCTIONS]
    # Dynamic shared memory is an external variable too, and is the launch's.
    return names + [v.name for v in known.global_variables if v.is_declaration and v.name != "__dynamic_shared_0"]


def _missing_message(missing: Sequence[str], wanted: dict[str, Signature], paths: Sequence[str]) -> str:
    where = f"; linked were {', '.join(paths)}" if paths else ""
    called = [name for name in missing if name in wanted]
    if not called:
        return f"{', '.join(missing)}, which the linked libraries refer to, is defined nowhere{where}"
    return (
        f"extern function {', '.join(map(repr, called))} is defined nowhere{where}. Give the bitcode that defines it: "
        "link_extern(ffi(...), bitcode_path=...), or register_extern_resolver"
    )
