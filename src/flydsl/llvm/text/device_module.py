"""Device modules for GPUs as LLVM IR text, of the upper dialects or of `llvm`.

A kernel is a `gpu.func` or the `llvm.func` it becomes; the facts of its head are attributes either way.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from xdsl.dialects import func
from xdsl.dialects.builtin import FusedLoc
from xdsl.ir import Attribute

from ...dialects.upstream import gpu, llvm
from ...lowering.rules.gpu_rules import GpuTarget, sizes_of
from ...lowering.rules.kernel_rules import FunctionFacts, kernel_facts
from . import debug_info
from .debug_info import Emission, suffix
from .function_text import Abi, FunctionText
from .functions import argument_attrs, declaration, global_line, passed_through, signature
from .module_text import ModuleText


class DeviceText:
    """A device module of one target being written."""

    triple: ClassVar[str]
    convention: ClassVar[str]
    """Words in front of a kernel's result."""
    block_attribute: ClassVar[str]
    """Where an `llvm.func` says the size of a block."""
    target: ClassVar[GpuTarget]
    abi: ClassVar[type[Abi]]
    emission: ClassVar[Emission] = "LineTablesOnly"

    @abstractmethod
    def tail(self, attributes: Mapping[str, Attribute], properties: Mapping[str, Attribute], f: FunctionText) -> str:
        """What stands behind a kernel's arguments."""

    def finish(self, text: ModuleText) -> None:
        """Add what the module ends with."""

    def write(self, module: gpu.ModuleOp, data_layout: str) -> str:
        """LLVM IR text of a device module."""
        text = ModuleText(self.triple, data_layout)
        debug_info.attach(text, module, self.emission)
        text.debug = text.debug or _scoped(module)
        # Globals come first, as functions may add constants.
        for op in module.body.block.ops:
            if isinstance(op, llvm.GlobalOp):
                text.globals.append(global_line(op))
        for op in module.body.block.ops:
            if isinstance(op, gpu.FuncOp):
                self._structured(text, op)
            elif isinstance(op, func.FuncOp) and not op.body.blocks:
                text.declarations[op.sym_name.data] = declaration(op)
            elif op.name == "llvm.func":
                self._lowered(text, op)
            elif not isinstance(op, llvm.GlobalOp):
                from .llvm_ops import untranslatable

                raise untranslatable(op)
        self.finish(text)
        return text.text()

    def _structured(self, text: ModuleText, op: gpu.FuncOp) -> None:
        facts = kernel_facts(op, self.target)
        f = FunctionText(text, self.abi(sizes_of(op.known_block_size), sizes_of(op.known_grid_size)), op)
        entry = op.body.block
        names = [f"%a{i}" for i in range(len(entry.args))]
        f.names.update(zip(entry.args, names, strict=True))
        f.lines.append("entry:")
        end = f.block(entry)
        f.line("ret void")
        if end is not None:
            f.place(end, len(f.lines) - 1)
        f.number_rooms()
        self._add(text, f, op.sym_name.data, [a.type for a in entry.args], None, facts, names)

    def _lowered(self, text: ModuleText, op: Any) -> None:
        from .llvm_ops import function_body, write_function

        name = op.sym_name.data
        attributes: Mapping[str, Any] = op.attributes
        abi = self.abi(sizes_of(attributes.get(self.block_attribute)), sizes_of(attributes.get("gpu.known_grid_size")))
        if op.is_declaration:
            text.declarations[name] = declaration(op)
        elif self.target.kernel_attribute not in attributes:
            write_function(text, abi, op)
        else:
            f, names = function_body(text, abi, op)
            output, inputs, _ = op.function_type.data
            facts = FunctionFacts(True, attributes, op.properties, argument_attrs(op, len(inputs)))
            self._add(text, f, name, inputs, output, facts, names)

    def _add(
        self,
        text: ModuleText,
        f: FunctionText,
        name: str,
        inputs: Any,
        output: Attribute | None,
        facts: FunctionFacts,
        names: list[str],
    ) -> None:
        """Append a function whose body is written."""
        head = signature(name, inputs, output, facts.arguments, names)
        if facts.kernel:
            head = f"define {self.convention} {head} {self.tail(facts.attributes, facts.properties, f)}"
        else:
            head = " ".join([f"define {head}", *passed_through(facts.properties)])
        body = "\n".join(f.lines)
        text.defined.add(name)
        text.functions.append(f"{head}{suffix(f.locations)} {{\n{body}\n}}\n")


def _scoped(module: gpu.ModuleOp) -> debug_info.DebugInfo | None:
    """Line tables for functions that have a debug scope (`ensure-debug-info-scope-on-llvm-func`)."""
    for op in module.body.block.ops:
        location = op.location
        if op.name == "llvm.func" and isinstance(location, FusedLoc):
            emission = getattr(location.metadata, "emission", None)
            if emission is not None:
                directives = emission == "DebugDirectivesOnly"
                return debug_info.DebugInfo("DebugDirectivesOnly" if directives else "LineTablesOnly")
    return None
