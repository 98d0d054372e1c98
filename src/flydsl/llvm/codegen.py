"""LLVM IR text to optimised IR, assembly and object code for one target.

Emission changes the module it reads, and a second emission from it aborts the process on AMDGPU. So each emission
here has a module of its own: the optimised one once, every later one a module that is read and optimised again. Bitcode
or text of the optimised module would not do: reading them orders the uses of values anew, and code follows that order.
"""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from flydsl.errors import DSLCompileError
from flydsl.llvm import binding, far_registers, tools
from flydsl.llvm.binding import CodeModel, ModuleRef, Reloc, TargetMachine
from flydsl.llvm.objects.code_object import read_code_object
from flydsl.llvm.packing import may_pack
from flydsl.target import has

AMDGPU_TRIPLE = "amdgcn-amd-amdhsa"
NVPTX_TRIPLE = "nvptx64-nvidia-cuda"

Output = Literal["object", "assembly"]


def code_level(triple: str, level: int) -> int:
    """The level of code generation at a level of optimisation.

    LLVM's code generator for AMD GPUs needs passes that it leaves out at level 0: without them it ends the process at
    a quotient and a remainder of the same 16-bit integers.
    """
    return max(level, 1) if triple.startswith("amdgcn") else level


@dataclass(frozen=True, slots=True)
class DeviceTarget:
    """Everything the code generator is told about a target."""

    triple: str
    cpu: str
    features: str = ""
    reloc: Reloc = "default"
    codemodel: CodeModel = "default"
    output: Output = "object"
    """What compiling for this target has to produce; the other form stays available on demand."""
    loop_vectorize: bool = True
    slp_vectorize: bool = True
    unroll: bool = True

    @staticmethod
    def amdgpu(cpu: str, features: str = "") -> DeviceTarget:
        return DeviceTarget(AMDGPU_TRIPLE, cpu, features)

    @staticmethod
    def nvptx(cpu: str, features: str = "+ptx86") -> DeviceTarget:
        return DeviceTarget(NVPTX_TRIPLE, cpu, features, output="assembly")

    @staticmethod
    def host() -> DeviceTarget:
        """The CPU this process runs on, with all its vector extensions."""
        return DeviceTarget(binding.host_triple(), binding.host_cpu(), binding.host_features(), reloc="pic")

    @property
    def is_amdgpu(self) -> bool:
        return self.triple.startswith("amdgcn")

    @property
    def is_gpu(self) -> bool:
        return self.is_amdgpu or self.triple.startswith("nvptx")

    def machine(self, opt_level: int) -> TargetMachine:
        level = code_level(self.triple, opt_level)
        return binding.target_machine(
            self.triple, self.cpu, self.features, opt_level=level, reloc=self.reloc, codemodel=self.codemodel
        )

    def data_layout(self) -> str:
        return binding.data_layout(self.triple, self.cpu, self.features)


@dataclass(slots=True)
class DeviceCode:
    """The result of compiling one module; `asm`, `object` and `optimized_ir` are made when first asked for."""

    target: DeviceTarget
    opt_level: int
    made: bytes | Callable[[], ModuleRef]
    """The optimised module, as it was before emission: its bitcode, or what makes it again."""
    times: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds per stage: parse, optimize, emit."""
    asm_text: str | None = None
    """First non-empty inline assembly string of the source, if any."""
    assemble: Callable[[DeviceCode], str] | None = field(default=None, repr=False, compare=False)
    """Makes the assembly text; None: here, in this process."""
    _bitcode: bytes | None = None
    _object: bytes | None = None
    _asm: str | None = None
    _optimized_ir: str | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def bitcode(self) -> bytes:
        """The optimised module, as it was before emission."""
        if isinstance(self.made, bytes):
            return self.made
        if self._bitcode is None:
            self._bitcode = self.made().as_bitcode()
        return self._bitcode

    def _module(self) -> ModuleRef:
        """The module that code is made of, for one emission."""
        if isinstance(self.made, bytes) or self.needs_assembler:
            return binding.parse_bitcode(self.bitcode)
        return self.made()

    @property
    def needs_assembler(self) -> bool:
        """Whether the object is made by a program, from bitcode."""
        return self.target.is_amdgpu and self.asm_text is not None

    @property
    def object(self) -> bytes:
        """Relocatable object file."""
        with self._lock:
            if self._object is None:
                self._object = _emit_object(self._module(), self)
            return self._object

    @property
    def asm(self) -> str:
        """Assembly text: GPU or CPU assembly, for NVIDIA the PTX."""
        with self._lock:
            if self._asm is None:
                if self.assemble is not None:
                    self._asm = self.assemble(self)
                else:
                    self._asm = emit_assembly(self._module(), self.target.machine(self.opt_level))
            return self._asm

    def set_emitted(self, made: bytes) -> None:
        """Take what `target.output` names from a code generator that ran elsewhere."""
        if self.target.output == "assembly":
            self._asm = made.decode()
        else:
            self._object = made

    @property
    def optimized_ir(self) -> str:
        """LLVM IR text after the middle end."""
        with self._lock:
            if self._optimized_ir is None:
                self._optimized_ir = str(binding.parse_bitcode(self.bitcode))
            return self._optimized_ir


def finished(
    target: DeviceTarget,
    opt_level: int,
    module: ModuleRef,
    *,
    object: bytes | None = None,
    asm: str | None = None,
    times: dict[str, float] | None = None,
) -> DeviceCode:
    """The result of a code generation done elsewhere, from the optimised module; what is not given is made here."""
    return DeviceCode(
        target,
        opt_level,
        module.as_bitcode(),
        times or {},
        asm_text=inline_asm(str(module)),
        _object=object,
        _asm=asm,
        _optimized_ir=str(module),
    )


Compiler = Callable[[str, DeviceTarget, int], DeviceCode]
"""IR text, target and level to code: `compile_device`, or a flow with passes of the user."""


def check_level(level: int) -> None:
    if level not in (0, 1, 2, 3):
        raise DSLCompileError(f"optimisation level must be 0, 1, 2 or 3, got {level!r}")


def optimize(
    module: ModuleRef,
    machine: TargetMachine,
    level: int,
    *,
    loop_vectorize: bool = True,
    slp_vectorize: bool = True,
    unroll: bool = True,
) -> None:
    """Run LLVM's default pipeline on the module in place.

    Level 0 still inlines `alwaysinline` functions and splits coroutines: code generation needs both. llvmlite leaves
    SLP vectorisation off, clang and MLIR turn it on from O2, and so does this.
    """
    check_level(level)
    binding.run_default_pipeline(
        module,
        machine,
        level,
        loop_vectorize=loop_vectorize and level >= 2,
        slp_vectorize=slp_vectorize and level >= 2,
        unroll=unroll,
    )


def optimize_for(module: ModuleRef, target: DeviceTarget, level: int, ir_text: str | None = None) -> None:
    """Run the default pipeline as a target wants it; `ir_text` is the text of the module, where there is one."""
    slp = target.slp_vectorize and (not target.is_gpu or may_pack(ir_text or str(module), target.cpu))
    optimize(
        module,
        target.machine(level),
        level,
        loop_vectorize=target.loop_vectorize,
        slp_vectorize=slp,
        unroll=target.unroll,
    )


def _without_merged_extracts(module: ModuleRef, machine: TargetMachine) -> None:
    """Keep LLVM 22 for x86 from making one store of parts of a vector that are beside each other there and in memory.

    Where the vector's length is no power of two other elements have been stored: 8 to 15 instead of 12 to 19 of a
    `<24 x i32>`. Functions without implicit vectors have no such stores; what LLVM vectorises is done by now.
    """
    if machine.triple.startswith("x86_64"):
        for function in module.functions:
            if not function.is_declaration:
                function.add_function_attribute("noimplicitfloat")


def emit_object(module: ModuleRef, machine: TargetMachine) -> bytes:
    """Object code of a module, which cannot be used again afterwards."""
    _without_merged_extracts(module, machine)
    try:
        return machine.emit_object(module)
    except RuntimeError as error:
        raise DSLCompileError(f"LLVM cannot emit an object for {machine.triple}: {str(error).strip()}") from error
    finally:
        module.close()  # An interrupt meanwhile is the caller's; one inside a finaliser would be lost.


def emit_assembly(module: ModuleRef, machine: TargetMachine) -> str:
    """Assembly text of a module, which cannot be used again afterwards."""
    _without_merged_extracts(module, machine)
    try:
        text = machine.emit_assembly(module)
    except RuntimeError as error:
        raise DSLCompileError(f"LLVM cannot emit assembly for {machine.triple}: {str(error).strip()}") from error
    finally:
        module.close()
    return _counted_from_zero(text) if _CALL in text else text


_CALL = " // callseq "
_CALL_NUMBER = re.compile(rf"{_CALL}(\d+)")


def _counted_from_zero(ptx: str) -> str:
    """PTX whose calls LLVM numbers in comments, from where the module before in this process ended."""
    first = min(int(match[1]) for match in _CALL_NUMBER.finditer(ptx))
    return _CALL_NUMBER.sub(lambda match: f"{_CALL}{int(match[1]) - first}", ptx)


def load_module(ir_text: str, target: DeviceTarget) -> ModuleRef:
    """Parse IR for a target: an absent triple or data layout is filled in, a triple of another target is refused."""
    module = binding.parse(ir_text)
    if not module.triple:
        module.triple = target.triple
    elif module.triple.split("-")[0] != target.triple.split("-")[0]:
        raise DSLCompileError(f"LLVM IR is for {module.triple!r}, asked to compile it for {target.triple!r}")
    if not module.data_layout:
        module.data_layout = target.data_layout()
    return module


def made_module(ir_text: str, target: DeviceTarget, level: int, *, optimized: bool) -> ModuleRef:
    """A module as code is made of it; `optimized` says that a middle end has been run already."""
    module = load_module(ir_text, target)
    if not optimized:
        optimize_for(module, target, level, ir_text)
    return module


def compile_device(
    ir_text: str,
    target: DeviceTarget,
    opt_level: int = 2,
    *,
    optimized: bool = False,
    want_asm: bool = False,
    emit: bool = True,
    keep: bool = False,
) -> DeviceCode:
    """Optimise and emit what `target.output` names; `want_asm` makes the assembly now instead of on demand.

    `optimized` says that a middle end has been run already, so only code generation is left; without `emit` nothing is
    emitted before it is asked for. With `keep` the optimised module is kept; else it is made once more for who asks.
    """
    check_level(opt_level)
    code = _compile(ir_text, target, opt_level, optimized, emit, keep)
    held = emit and names_far_registers(target) and not code.needs_assembler
    while held and (count := _most_registers(code.object)) > far_registers.NEAR:
        if far_registers.misplaced(code.asm) is None:
            break
        ir_text = far_registers.limited(ir_text, far_registers.fewer(count))
        code = _compile(ir_text, target, opt_level, optimized, emit, keep)
    if want_asm:
        _ = code.asm
    return code


def _compile(ir_text: str, target: DeviceTarget, opt_level: int, optimized: bool, emit: bool, keep: bool) -> DeviceCode:
    start = time.perf_counter()
    module = load_module(ir_text, target)
    parsed = time.perf_counter()
    if not optimized:
        optimize_for(module, target, opt_level, ir_text)
    code = DeviceCode(
        target,
        opt_level,
        lambda: made_module(ir_text, target, opt_level, optimized=optimized),
        asm_text=inline_asm(ir_text),
        _bitcode=module.as_bitcode() if keep or not emit else None,
    )
    done = time.perf_counter()
    if not emit:
        module.close()
    elif target.output == "assembly":
        code._asm = emit_assembly(module, target.machine(opt_level))  # pyright: ignore[reportPrivateUsage]
    else:
        code._object = _emit_object(module, code)  # pyright: ignore[reportPrivateUsage]
    code.times.update(parse=parsed - start, optimize=done - parsed, emit=time.perf_counter() - done)
    return code


def names_far_registers(target: DeviceTarget) -> bool:
    """Whether code for a target is held against its text before it counts as made."""
    return target.is_amdgpu and has(target.cpu, "far_registers")


def _most_registers(made: bytes) -> int:
    """The most vector registers of a kernel."""
    return max((kernel.vgpr for kernel in read_code_object(made).kernels), default=0)


# --- AMDGPU inline assembly ---------------------------------------------------------------------------

# An empty string passes through llvmlite's code generator; any other text needs the parser it does not have. What the
# ops of the module said does not decide it: passes of the user, libraries and replaced stages bring assembly too, and
# LLVM's interface gives no string of an inline assembly but in the text of the module.
_INLINE_ASM = re.compile(r'\basm (?:sideeffect |alignstack |inteldialect |unwind )*"([^"]+)"')


def inline_asm(ir_text: str) -> str | None:
    """The first non-empty inline assembly string in IR text, or None."""
    if " asm " not in ir_text:
        return None
    match = _INLINE_ASM.search(ir_text)
    return match[1] if match else None


def _emit_object(module: ModuleRef, code: DeviceCode) -> bytes:
    if code.target.triple.startswith("nvptx"):
        raise DSLCompileError("LLVM has no object format for NVIDIA GPUs: take the PTX text and assemble it (ptxas)")
    if code.needs_assembler:
        return _emit_object_with_llc(code)
    return emit_object(module, code.target.machine(code.opt_level))


def _emit_object_with_llc(code: DeviceCode) -> bytes:
    """Code generation in an external `llc`: llvmlite would abort the process for want of an assembly parser."""
    target = code.target
    llc = tools.try_find_tool("llc")
    if llc is None:
        raise DSLCompileError(
            f"inline assembly {code.asm_text!r} cannot be assembled in process for {target.cpu}: install LLVM "
            f"{tools.LLVM_MAJOR} (llc) or set FLYDSL_COMPILE_LLC or FLYDSL_COMPILE_LLVM_DIR"
        )
    with tempfile.TemporaryDirectory(prefix="flydsl-llc-") as folder:
        source, out = Path(folder, "in.bc"), Path(folder, "out.o")
        source.write_bytes(code.bitcode)
        level = code_level(target.triple, code.opt_level)
        args = [f"-O{level}", f"-mtriple={target.triple}", f"-mcpu={target.cpu}", str(source), "-o", str(out)]
        if target.features:
            args.append(f"-mattr={target.features}")
        tools.run_tool(llc, ["-filetype=obj", *args], cwd=folder)
        made = out.read_bytes()
        if names_far_registers(target) and _most_registers(made) > far_registers.NEAR:
            tools.run_tool(llc, ["-filetype=asm", *args], cwd=folder)
            wrong = far_registers.misplaced(out.read_text(encoding="utf-8"))
            if wrong is not None:
                raise DSLCompileError(
                    f"{llc} gives {wrong!r} other registers than it means, as LLVM 22.1.0 does with more than "
                    f"{far_registers.NEAR} of them behind a barrier: compile with maxnreg={far_registers.NEAR}, or "
                    "take a newer LLVM 22 (FLYDSL_COMPILE_LLC)"
                )
        return made
