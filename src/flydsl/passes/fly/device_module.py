"""The device module in the conversions: what it is compiled for, and the shared memory its kernels name.

Shared memory is an uninitialised global of the module, one per allocation; a kernel takes its address. Every block has
memory of its own behind it, whatever the target makes of that.
"""

from __future__ import annotations

from typing import ClassVar, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, StringAttr, SymbolRefAttr, UnitAttr, i8, i64
from xdsl.dialects.llvm import LinkageAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from ...dialects.upstream import gpu, llvm
from ...errors import DSLCompileError
from ...ir.builder import i32, int_attr
from ...ir.emitter import insert_after
from ...ir.enums import AddressSpace
from ...lowering.rebuild import Handler, Rebuilder
from ...target import architecture
from ...target.needs import ATTRIBUTE as NEEDS
from ...target.needs import FEATURE_NEEDS
from ..base import HINTS_ATTRIBUTE, TARGET_ATTRIBUTE, target_of

DYNAMIC_ALIGN = 1024
"""Alignment of the dynamic shared buffer."""
CHECK_ATTRIBUTE = "fly.check"
"""Attribute of a device module that is compiled for the cpu stack's checked mode."""


class DeviceModule(Rebuilder):
    """Mixed into the conversions."""

    spaces: ClassVar[dict[AddressSpace, int]]
    features: ClassVar[frozenset[str]]
    """What some architecture has that the conversion is for; asked where the module does not name one."""
    usual_warp: ClassVar[int] = 32
    """Lanes per warp where the module names no architecture."""
    can_check: ClassVar[bool] = False
    """Whether there is a checked mode."""

    def __init__(self) -> None:
        super().__init__()
        self.arch: str | None = None
        """Architecture of the device module being converted; None where the module does not say."""
        self._warp_size: int | None = None
        self.checked = False
        """Whether the cpu stack's checked mode is wanted."""
        self.wants_alignment = False
        """Whether wide copies claim the alignment they need on a GPU, to have it tested."""
        self._device: Block | None = None
        self._allocations = 0
        self.functions: dict[tuple[object, ...], str] = {}
        """Functions of the device module that its kernels call, by what they do."""
        self.needs: set[str] = set()
        """What the code of the device module asks of the assembler."""

    def warp_size(self) -> int:
        """Lanes per warp of the target; without `fly.target` on the module that of the target's usual chips."""
        return self._warp_size or self.usual_warp

    def has(self, feature: str) -> bool:
        """Whether the architecture has a feature; where the module names none, whether any of the target's has it."""
        known = architecture(self.arch)
        return feature in (self.features if known is None else known.features)

    def note_need(self, feature: str) -> None:
        """Code that is emitted uses a feature."""
        word = FEATURE_NEEDS.get(feature)
        if word is not None:
            self.needs.add(word)

    def open_module(self, op: gpu.ModuleOp) -> None:
        """Convert a device module."""
        target = target_of(op)
        if target is not None:
            self.arch, self._warp_size = target.arch, target.warp_size
        self.checked = self.can_check and CHECK_ATTRIBUTE in op.attributes
        self.wants_alignment = self.checked
        body = Block()
        self._device, self._allocations, self.functions, self.needs = body, 0, {}, set()
        with self.b.region(body):
            self.walk(op.body.block)
        # What it is compiled for was needed by the conversion; other tools know no such attributes.
        gone = (TARGET_ATTRIBUTE, HINTS_ATTRIBUTE)
        attributes = {name: attr for name, attr in op.attributes.items() if name not in gone}
        self.needs |= needs_of(op)
        if self.needs:
            attributes[NEEDS] = ArrayAttr([StringAttr(word) for word in sorted(self.needs)])
        self.b.with_regions(gpu.ModuleOp, (), (), [Region(body)], dict(op.properties), attributes)
        self._device = None

    def add_global(self, made: llvm.GlobalOp) -> None:
        """Put a global behind those the device module has; one of that name may be there already."""
        device = self._device
        if device is None:
            raise DSLCompileError("shared make_ptr must be inside a gpu.module")
        last: Operation | None = None
        for op in device.ops:
            if not isinstance(op, llvm.GlobalOp):
                break
            if op.sym_name.data == made.sym_name.data:
                return
            last = op
        insert_after(device, last, made)

    def add_function(self, made: func.FuncOp) -> None:
        """Put a function in front of the kernel that is being converted."""
        assert self._device is not None
        self._device.add_op(made)

    def address_of(self, name: str, space: int) -> SSAValue:
        """Address of a global."""
        return self.b.pure(llvm.AddressOfOp, (), llvm.ptr(space), {"global_name": SymbolRefAttr(name)})

    def _shared_global(self, name: str, nbytes: int, align: int) -> SSAValue:
        space = self.spaces[AddressSpace.Shared]
        made = llvm.GlobalOp.create(
            properties={
                "global_type": llvm.LLVMArrayType(nbytes, i8),
                "sym_name": StringAttr(name),
                "linkage": LinkageAttr("external"),
                "addr_space": int_attr(space, i32),
                "alignment": int_attr(align, i64),
                "dso_local": UnitAttr(),
            },
            regions=[Region()],
            location=self.b.loc,
        )
        self.add_global(made)
        return self.address_of(name, space)

    def shared(self, nbytes: int, align: int) -> SSAValue:
        """Address of a new static shared allocation."""
        self._allocations += 1
        return self._shared_global(f"__shared_alloc_{self._allocations - 1}", nbytes, align)

    def dynamic_shared(self) -> SSAValue:
        """Base of the buffer whose size the launch gives."""
        return self._shared_global("__dynamic_shared_0", 0, DYNAMIC_ALIGN)


def needs_of(module: Operation) -> set[str]:
    """What a device module says its code asks of the assembler."""
    words = cast("ArrayAttr[StringAttr] | None", module.attributes.get(NEEDS))
    return set() if words is None else {word.data for word in words.data}


def _gpu_module(r: DeviceModule, op: gpu.ModuleOp) -> None:
    r.open_module(op)


HANDLERS: dict[type[Operation], Handler] = {gpu.ModuleOp: _gpu_module}
