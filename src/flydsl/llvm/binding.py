"""The only place that talks to llvmlite; everything it hands out is typed here.

llvmlite ships no types and costs about 0.1 s to import, so it is loaded by the first call that needs it.
Every module gets an LLVM context of its own: parsing one text twice must give the same names both times.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Protocol, cast

from flydsl.errors import DSLCompileError

Reloc = Literal["default", "static", "pic", "dynamicnopic"]
CodeModel = Literal["default", "jitdefault", "small", "kernel", "medium", "large"]


class FunctionRef(Protocol):
    """What is used of `llvmlite.binding.ValueRef` where it is a function."""

    @property
    def is_declaration(self) -> bool: ...
    def add_function_attribute(self, attr: str) -> None: ...


class ModuleRef(Protocol):
    """What is used of `llvmlite.binding.ModuleRef`."""

    triple: str
    data_layout: str

    @property
    def functions(self) -> Iterable[FunctionRef]: ...
    def as_bitcode(self) -> bytes: ...
    def verify(self) -> None: ...
    def close(self) -> None: ...


class TargetMachine(Protocol):
    """What is used of `llvmlite.binding.TargetMachine`."""

    @property
    def triple(self) -> str: ...
    @property
    def target_data(self) -> object: ...
    def emit_object(self, module: ModuleRef) -> bytes: ...
    def emit_assembly(self, module: ModuleRef) -> str: ...


class JitEngine(Protocol):
    """What is used of `llvmlite.binding.LLJIT`."""

    def close(self) -> None: ...


class JitTracker(Protocol):
    """What is used of `llvmlite.binding.ResourceTracker`; closing it unloads the library."""

    def __getitem__(self, name: str) -> int: ...
    def close(self) -> None: ...


_lock = threading.RLock()
_loaded: list[Any] = []


def _llvm() -> Any:
    """`llvmlite.binding`, imported and with every target registered."""
    if _loaded:
        return _loaded[0]
    with _lock:
        if not _loaded:
            llvm = cast(Any, importlib.import_module("llvmlite.binding"))
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
            # Host inline assembly needs it; the wheel has no parser for the GPU targets.
            llvm.initialize_native_asmparser()
            _keep_freed_memory()
            _loaded.append(llvm)
    return _loaded[0]


def _keep_freed_memory() -> None:
    """Let malloc keep what a code generation frees for the next one.

    Each has tables of some hundred kB, which glibc fetches from the kernel anew, page by page: a quarter of the time of
    a small kernel. Once a block of 16 MB has been freed, as by any process with large arrays, it no longer does. The
    block is not touched: a bytes object would have its pages fetched and cleared.
    """
    allocate, free = ctypes.pythonapi.PyMem_RawMalloc, ctypes.pythonapi.PyMem_RawFree
    allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    free(allocate(16 << 20))


def llvm_version() -> tuple[int, int, int]:
    """Version of the LLVM inside llvmlite."""
    return cast("tuple[int, int, int]", tuple(_llvm().llvm_version_info))


def llvmlite_version() -> str:
    return cast(str, cast(Any, importlib.import_module("llvmlite")).__version__)


# --- modules ------------------------------------------------------------------------------------------


_PARSE_ERROR = re.compile(r"^<string>:(\d+):(\d+): error: (.*)$", re.MULTILINE)


def _own(parsed: Any, context: Any) -> ModuleRef:
    """Tie the life of a context to its module's.

    Left alone, each frees itself when collected, and the garbage collector may take the context of a module caught
    in a reference cycle (an exception's traceback is enough) first, which crashes. So one finaliser frees both.
    """
    lib, module_pointer, context_pointer = parsed._capi, parsed._ptr, context._ptr
    context.detach()

    def dispose() -> None:
        lib.LLVMPY_DisposeModule(module_pointer)
        lib.LLVMPY_ContextDispose(context_pointer)

    parsed._dispose = dispose
    parsed._own_context = context_pointer
    return cast(ModuleRef, parsed)


def parse(ir_text: str, *, verify: bool = True) -> ModuleRef:
    """Parse and verify LLVM IR text; a mistake in it raises `DSLCompileError` quoting the line."""
    llvm = _llvm()
    context = llvm.create_context()
    try:
        module = _own(llvm.parse_assembly(ir_text, context), context)
    except RuntimeError as error:
        raise DSLCompileError(_parse_message(str(error), ir_text)) from error
    if verify:
        verify_module(module, ir_text)
    return module


def parse_bitcode(bitcode: bytes) -> ModuleRef:
    """A fresh module from bitcode that came from `as_bitcode`."""
    llvm = _llvm()
    context = llvm.create_context()
    try:
        return _own(llvm.parse_bitcode(bitcode, context), context)
    except RuntimeError as error:
        raise DSLCompileError(f"LLVM bitcode cannot be read: {str(error).strip()}") from error


def parse_beside(ir_text: str, other: ModuleRef) -> ModuleRef:
    """Parse IR text in the context of another module, to be linked into that one; close it if it is not."""
    llvm = _llvm()
    context = llvm.ContextRef(cast(Any, other)._own_context)
    context._owned = True  # by the other module
    try:
        return cast(ModuleRef, llvm.parse_assembly(ir_text, context))
    except RuntimeError as error:
        raise DSLCompileError(_parse_message(str(error), ir_text)) from error


def link_in(module: ModuleRef, library: ModuleRef) -> None:
    """Move all of a library into a module of the same context; the library is gone. Conflicts: `RuntimeError`."""
    cast(Any, module).link_in(library)


def make_internal(module: ModuleRef, names: Sequence[str], *, variables: bool) -> None:
    """Make functions, and global variables if `variables`, invisible outside of the module."""
    known: Any = module
    wanted = set(names)
    for value in (*known.functions, *(known.global_variables if variables else ())):
        if value.name in wanted and not value.is_declaration:
            value.visibility = "default"
            value.linkage = "internal"


def drop_unused(module: ModuleRef) -> None:
    """Remove internal functions and variables nobody refers to, and declarations nobody calls."""
    methods = ("add_global_dead_code_eliminate_pass", "add_strip_dead_prototype_pass")
    run_named_passes(module, target_machine(module.triple), methods)


def verify_module(module: ModuleRef, ir_text: str | None = None) -> None:
    """Run LLVM's verifier; the offending instruction is looked up in `ir_text` (printed anew if not given)."""
    try:
        module.verify()
    except RuntimeError as error:
        raise DSLCompileError(_verify_message(str(error), ir_text or str(module))) from error


def quote(lines: Sequence[str], number: int, col: int | None = None) -> str:
    """Lines around line `number` (from 1), the line itself marked."""
    parts: list[str] = []
    for n in range(max(number - 2, 1), min(number + 1, len(lines)) + 1):
        mark = ">" if n == number else " "
        parts.append(f"{mark} {n:5d} | {lines[n - 1]}")
        if n == number and col is not None:
            parts.append(f"  {'':5} | {' ' * max(col - 1, 0)}^")
    return "\n".join(parts)


def _parse_message(text: str, ir_text: str) -> str:
    match = _PARSE_ERROR.search(text)
    if match is None:
        return f"LLVM IR cannot be parsed: {text.strip()}"
    line, col, what = int(match[1]), int(match[2]), match[3]
    return f"LLVM IR cannot be parsed: line {line}, column {col}: {what}\n{quote(ir_text.split(chr(10)), line, col)}"


def _verify_message(text: str, ir_text: str) -> str:
    head = f"LLVM IR does not verify: {text.strip()}"
    lines = ir_text.split("\n")
    stripped = [line.strip() for line in lines]
    for wanted in (line.strip() for line in text.splitlines()[1:]):
        if wanted and wanted in stripped:
            return f"{head}\n{quote(lines, stripped.index(wanted) + 1)}"
    return head


# --- targets ------------------------------------------------------------------------------------------


@cache
def host_triple() -> str:
    return cast(str, _llvm().get_process_triple())


@cache
def host_cpu() -> str:
    return cast(str, _llvm().get_host_cpu_name())


@cache
def host_features() -> str:
    """Feature string of the CPU this process runs on, such as `+avx2,-avx512f`; empty where unknown."""
    try:
        return cast(str, _llvm().get_host_cpu_features().flatten())
    except RuntimeError:  # LLVM cannot tell on this platform; the CPU name alone then decides.
        return ""


_machines: dict[tuple[object, ...], TargetMachine] = {}


def target_machine(
    triple: str,
    cpu: str = "",
    features: str = "",
    *,
    opt_level: int = 2,
    reloc: Reloc = "default",
    codemodel: CodeModel = "default",
) -> TargetMachine:
    """The target machine for these options.

    Machines are kept: they hold no state of a module, and llvmlite runs one native call at a time.
    """
    key = (triple, cpu, features, opt_level, reloc, codemodel)
    machine = _machines.get(key)
    if machine is not None:
        return machine
    llvm = _llvm()
    with _lock:
        if key not in _machines:
            try:
                target = llvm.Target.from_triple(triple)
                _machines[key] = target.create_target_machine(
                    cpu=cpu, features=features, opt=opt_level, reloc=reloc, codemodel=codemodel
                )
            except RuntimeError as error:
                raise DSLCompileError(f"LLVM has no target for {triple!r}: {str(error).strip()}") from error
        return _machines[key]


@cache
def data_layout(triple: str, cpu: str = "", features: str = "") -> str:
    """LLVM's data layout string for a target."""
    return str(target_machine(triple, cpu, features).target_data)


# --- optimisation -------------------------------------------------------------------------------------


def run_default_pipeline(
    module: ModuleRef, machine: TargetMachine, level: int, *, loop_vectorize: bool, slp_vectorize: bool, unroll: bool
) -> None:
    """LLVM's default per-module pipeline at O`level`."""
    llvm = _llvm()
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = loop_vectorize
    tuning.loop_interleaving = loop_vectorize
    tuning.slp_vectorization = slp_vectorize
    tuning.loop_unrolling = unroll
    builder = llvm.create_pass_builder(machine, tuning)
    # Built anew each time: running one manager on a second module aborts the process.
    manager = builder.getModulePassManager()
    manager.run(module, builder)
    for owned in (manager, builder, tuning):
        owned.close()


def run_named_passes(module: ModuleRef, machine: TargetMachine, methods: Sequence[str]) -> None:
    """Run passes of LLVM on a module in place, each named by the method of llvmlite's pass manager that adds it."""
    llvm = _llvm()
    tuning = llvm.create_pipeline_tuning_options()
    builder = llvm.create_pass_builder(machine, tuning)
    manager = llvm.create_new_module_pass_manager()
    for method in methods:
        getattr(manager, method)()
    manager.run(module, builder)
    for owned in (manager, builder, tuning):
        owned.close()


def defined_functions(module: ModuleRef) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Every function with a body: its linkage and the types of its arguments."""
    return {
        function.name: (function.linkage.name, tuple(str(argument.type) for argument in function.arguments))
        for function in cast(Any, module).functions
        if not function.is_declaration
    }


# --- host JIT -----------------------------------------------------------------------------------------


def create_jit(machine: TargetMachine) -> JitEngine:
    """An ORC engine using JITLink, which places all sections of an object side by side."""
    return cast(JitEngine, _llvm().create_lljit_compiler(machine, use_jit_link=True))


def link_jit_library(
    engine: JitEngine, name: str, code: bytes, *, exports: Sequence[str], imports: Mapping[str, int], process: bool
) -> JitTracker:
    """Load one object file under a library name never used before; unresolved names raise `RuntimeError`."""
    builder = _llvm().JITLibraryBuilder()
    builder.add_object_img(code)
    for symbol in exports:
        builder.export_symbol(symbol)
    for symbol, address in imports.items():
        builder.import_symbol(symbol, address)
    if process:
        builder.add_current_process()
    link = cast("Callable[[JitEngine, str], JitTracker]", builder.link)
    return link(engine, name)
