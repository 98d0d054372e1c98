"""Host code: compiling LLVM IR for this CPU and loading objects into this process.

One ORC engine serves the process. A library's code lives until its `HostLibrary` is closed or collected, so whoever
keeps an address keeps the library.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType

from flydsl.errors import DSLCompileError, LibraryNotFoundError
from flydsl.llvm import binding, codegen
from flydsl.llvm.binding import JitEngine, JitTracker
from flydsl.llvm.objects import plain_image
from flydsl.llvm.objects.code_object import SHN_UNDEF, STB_LOCAL, STT_FUNC, ElfFile

_lock = threading.Lock()
_engines: list[JitEngine] = []
_numbers = itertools.count()
_system_libraries: list[ctypes.CDLL] = []
_backends_libraries: list[ctypes.CDLL] = []
_opened: set[str] = set()


def compile_host(ir_text: str, opt_level: int = 2) -> bytes:
    """Object code for the CPU this process runs on, using all its vector extensions."""
    return codegen.compile_device(ir_text, codegen.DeviceTarget.host(), opt_level).object


class HostLibrary:
    """Code loaded into this process; usable as a context manager."""

    def __init__(self, name: str, tracker: JitTracker, addresses: Mapping[str, int]):
        self.name = name
        self._tracker: JitTracker | None = tracker
        self._addresses = dict(addresses)

    @property
    def symbols(self) -> Sequence[str]:
        """Names `address` knows."""
        return tuple(self._addresses)

    @property
    def closed(self) -> bool:
        return self._tracker is None

    def address(self, name: str) -> int:
        """Address of an exported function or variable."""
        if self._tracker is None:
            raise DSLCompileError(f"host library {self.name} is closed")
        try:
            return self._addresses[name]
        except KeyError:
            known = ", ".join(self._addresses) or "nothing"
            raise DSLCompileError(f"host library {self.name} does not export {name!r}; it exports {known}") from None

    def close(self) -> None:
        """Unload the code; its addresses are dangling afterwards."""
        with _lock:
            tracker, self._tracker = self._tracker, None
        if tracker is not None:
            tracker.close()

    def __enter__(self) -> HostLibrary:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _engine() -> JitEngine:
    with _lock:
        if not _engines:
            _engines.append(binding.create_jit(codegen.DeviceTarget.host().machine(2)))
        return _engines[0]


def compile_portable(ir_text: str, passes: Sequence[str]) -> bytes:
    """Object code for every CPU of this kind, by these passes of `binding.run_named_passes` alone."""
    target = codegen.DeviceTarget(binding.host_triple(), "", reloc="pic")
    module, machine = codegen.load_module(ir_text, target), target.machine(1)
    binding.run_named_passes(module, machine, passes)
    return codegen.emit_object(module, machine)


def load_ir(
    ir_text: str,
    *,
    opt_level: int = 2,
    exports: Iterable[str] | None = None,
    imports: Mapping[str, int] | None = None,
    name: str = "host",
) -> HostLibrary:
    """Compile LLVM IR for this CPU and load it."""
    return load_object(compile_host(ir_text, opt_level), exports=exports, imports=imports, name=name)


def load_object(
    code: bytes,
    *,
    exports: Iterable[str] | None = None,
    imports: Mapping[str, int] | None = None,
    name: str = "host",
    plain: bool = False,
) -> HostLibrary:
    """Load a host object file.

    `exports` names what `address` must know (default: every global function; only ELF objects can be asked).
    `imports` binds undefined names to addresses; others come from this process, libm or the compiler's run time.
    One that is `plain`, functions that nobody unwinds through, is loaded without LLVM where that can be done.
    """
    wanted, resolved = _resolve(code, exports, dict(imports or {}))
    library = f"{name}#{next(_numbers)}"
    image = plain_image.load(code, resolved) if plain else None
    if image is not None:
        return HostLibrary(library, image, {symbol: image[symbol] for symbol in wanted})
    try:
        tracker = binding.link_jit_library(
            _engine(), library, code, exports=wanted, imports=resolved, process=not _is_elf(code)
        )
    except RuntimeError as error:
        raise DSLCompileError(f"host library {library} cannot be loaded: {str(error).strip()}") from error
    return HostLibrary(library, tracker, {symbol: tracker[symbol] for symbol in wanted})


def _is_elf(code: bytes) -> bool:
    return code[:4] == b"\x7fELF"


def _resolve(code: bytes, exports: Iterable[str] | None, imports: dict[str, int]) -> tuple[list[str], dict[str, int]]:
    """What to export and the address of every undefined name, checked before ORC sees them.

    ORC would print to stderr and name only the first missing symbol.
    """
    if not _is_elf(code):
        if exports is None:
            raise DSLCompileError("exports must be given to load an object that is not ELF")
        return list(exports), imports
    symbols = ElfFile(code).symbols()[1:]
    shared = [s for s in symbols if s.binding != STB_LOCAL]
    defined = {s.name for s in shared if s.shndx != SHN_UNDEF}
    if exports is None:
        wanted = [s.name for s in shared if s.shndx != SHN_UNDEF and s.type == STT_FUNC and s.visibility == 0]
    else:
        wanted = list(dict.fromkeys(exports))
        if absent := [n for n in wanted if n not in defined]:
            raise DSLCompileError(f"host object does not define {', '.join(absent)}; it defines {', '.join(defined)}")
    resolved: dict[str, int] = {}
    missing: list[str] = []
    # The code model refers to this name where it addresses its own tables; the JIT linker defines it.
    for symbol in (s.name for s in shared if s.shndx == SHN_UNDEF and s.name != "_GLOBAL_OFFSET_TABLE_"):
        address = imports.get(symbol) or _system_symbol(symbol)
        if address:
            resolved[symbol] = address
        else:
            missing.append(symbol)
    if missing:
        raise DSLCompileError(
            f"host code calls {', '.join(missing)}, found neither among the imports nor in this process; "
            "pass the address in imports"
        )
    return wanted, resolved


def load_libraries(names: Iterable[str]) -> None:
    """Open shared libraries, whose functions host code may call from then on; each is opened once."""
    for name in names:
        with _lock:
            if name in _opened:
                continue
        try:
            library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise LibraryNotFoundError(
                f"the shared library {name}, which the host code needs, cannot be loaded: {error}"
            ) from error
        with _lock:
            _opened.add(name)
            _backends_libraries.append(library)


def _system_symbol(name: str) -> int | None:
    """Address of a C library, math library or compiler run-time symbol."""
    with _lock:
        if not _system_libraries:
            _system_libraries.append(ctypes.CDLL(None))
            if sys.platform.startswith("linux"):
                # libgcc holds the conversions of 16-bit floats that older CPUs lack.
                for soname in ("libm.so.6", "libgcc_s.so.1"):
                    try:
                        _system_libraries.append(ctypes.CDLL(soname))
                    except OSError:  # Other C libraries put all of it into one file.
                        continue
        libraries = (*_system_libraries, *_backends_libraries)
    for library in libraries:
        try:
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            continue
    return None
