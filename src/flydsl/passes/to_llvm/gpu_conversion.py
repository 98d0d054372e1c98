"""What `convert-gpu-to-rocdl` and `convert-gpu-to-nvvm` share: kernels as functions of `llvm`.

Arithmetic, branches and vectors of the device code are converted on the way, by the rules of the target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region

from ...dialects.upstream import gpu
from ...dialects.upstream.llvm.function import FunctionType
from ...ir.builder import operands_of
from ...ir.dead_code import mark_dead, unread_stores
from ...ir.emitter import append
from ...lowering.llvm_types import llvm_type
from ...lowering.rebuild import Handler
from ...lowering.rules.gpu_rules import GpuTarget, sizes_of
from ...lowering.rules.kernel_rules import kernel_facts
from ...lowering.rules.sink import Rule, refuse
from .bare_memref import HANDLERS as MEMREF
from .bare_memref import attribution
from .convert_cf_to_llvm import HANDLERS as CF
from .convert_func_to_llvm import HANDLERS as FUNC
from .convert_func_to_llvm import packed, return_values
from .llvm_conversion import LlvmConversion
from .llvm_declare import make_function


class GpuConversion(LlvmConversion):
    """Base of the two conversions."""

    converts_blocks = True
    data_layout: ClassVar[Callable[[str], str]]
    target: ClassVar[GpuTarget]

    chip = ""

    def __init__(self) -> None:
        super().__init__()
        self.in_device = False
        self._function: gpu.FuncOp | None = None

    @classmethod
    def convert_module(cls, module: ModuleOp, chip: str) -> ModuleOp:
        """Convert the device code of a module."""
        made = type(cls.__name__, (cls,), {"chip": chip})
        return cast(type[GpuConversion], made).rebuild(module)

    def mark(self, module: ModuleOp) -> set[int]:
        """Dead ops and stores nobody reads stay behind: they need not be convertible."""
        found: set[int] = set()
        for device in (op for op in module.ops if isinstance(op, gpu.ModuleOp)):
            for op in device.body.block.ops:
                if isinstance(op, gpu.FuncOp):
                    found |= mark_dead(op, dead=unread_stores(op))
        return found

    def kernel(self, op: gpu.FuncOp) -> None:
        """Convert a device function."""
        self.block_size, self.grid_size = sizes_of(op.known_block_size), sizes_of(op.known_grid_size)
        inputs = [llvm_type(t) for t in op.function_type.inputs.data]
        type_ = FunctionType.of(inputs, packed(op.function_type.outputs.data))
        facts = kernel_facts(op, self.target)
        properties = dict(facts.properties)
        if any(facts.arguments):
            properties["arg_attrs"] = ArrayAttr([DictionaryAttr(a) for a in facts.arguments])
        self._function = op
        body = self.body_of(op.body)
        append(
            self.b.block, make_function(op.sym_name.data, type_, body, dict(facts.attributes), properties, op.location)
        )

    def argument_types(self, block: Block) -> list[Attribute]:
        # What a kernel asks for as memory is no argument of the function.
        found = super().argument_types(block)
        op = self._function
        return found[: len(op.function_type.inputs.data)] if op is not None and block is op.body.blocks.first else found

    def enter(self, old: Block, new: Block) -> None:
        op = self._function
        if op is None or old is not op.body.blocks.first:
            super().enter(old, new)
            return
        for a, b in zip(old.args, new.args, strict=False):
            self.vm[a] = b
            b.name_hint = a.name_hint
        shared, private = op.attributions
        if private:
            raise refuse(op, "with private attributions")
        for i, value in enumerate(shared):
            self.vm[value] = attribution(self, op.sym_name.data, i, cast(Any, value.type))

    def open(self, op: gpu.ModuleOp) -> None:
        """Convert a device module."""
        body = Block()
        outer, self.module_block, self.in_device = self.module_block, body, True
        with self.b.region(body):
            self.walk(op.body.block)
        self.module_block, self.in_device = outer, False
        kept = {name: attr for name, attr in op.attributes.items() if not name.startswith("fly.")}
        attributes = {**kept, "llvm.data_layout": StringAttr(type(self).data_layout(self.chip))}
        self.b.with_regions(gpu.ModuleOp, (), (), [Region(body)], dict(op.properties), attributes)


def _kernel(r: GpuConversion, op: gpu.FuncOp) -> None:
    r.kernel(op)


def _function(r: GpuConversion, op: FuncOp) -> None:
    """A function of a device module is converted; host code is not our business."""
    if r.in_device:
        FUNC[FuncOp](r, op)
    else:
        r.b.with_regions(FuncOp, (), (), [op.detach_region(0)], dict(op.properties), dict(op.attributes))


def _module(r: GpuConversion, op: gpu.ModuleOp) -> None:
    r.open(op)


def _return(r: GpuConversion, op: Operation) -> None:
    return_values(r, operands_of(op))


def device_handlers(rules: Mapping[type[Operation], Rule]) -> dict[type[Operation], Handler]:
    """The table of a target."""
    structure: dict[type[Operation], Any] = {
        FuncOp: _function,
        gpu.ModuleOp: _module,
        gpu.FuncOp: _kernel,
        gpu.ReturnOp: _return,
    }
    return {**rules, **MEMREF, **CF, **FUNC, **structure}
