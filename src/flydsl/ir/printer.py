"""IR as text, as MLIR prints it: names by `ir.names`, upstream's forms, dictionaries in order, predecessors of blocks.

Each attribute's text is made once, and pieces are joined at the end: of lowered IR, four times as fast as xDSL's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, MemRefType, UnregisteredOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue, TypeAttribute
from xdsl.printer import Printer
from xdsl.traits import IsTerminator

from .forms import FORMS, OPEN_DIALECT, print_memref
from .location_text import location_text
from .names import Names, name_all
from .types import is_splat


class IRPrinter(Printer):
    """Prints one op and all it holds; `text` has what was printed. A part of a module is given the module's names."""

    def __init__(
        self, *, generic: bool = False, debuginfo: bool = False, hints: bool = False, names: Names | None = None
    ):
        super().__init__(None, print_generic_format=generic, print_debuginfo=debuginfo)
        self._hints = hints
        self._names = names
        self._parts: list[str] = []
        self._texts: dict[int, tuple[str, Attribute]] = {}
        self._types: dict[Attribute, str] = {}
        self._open = ["builtin"]
        self._preds: dict[Block, list[str]] = {}

    def text(self) -> str:
        """All that was printed."""
        return "".join(self._parts)

    # --- pieces -----------------------------------------------------------------------------------------------------

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if "\n" in text:
            margin = "\n" + "  " * (self._indent if indent is None else indent)
            text = text.replace("\n", margin)
        self._parts.append(text)

    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        self._parts.append("\n" + "  " * (self._indent if indent is None else indent))

    def print_attribute(self, attribute: Attribute) -> None:
        if self.printing_location:
            super().print_attribute(attribute)
            return
        found = self._texts.get(id(attribute))
        if found is None:
            # Types that were parsed are equal, not the same; of attributes, 0.0 and -0.0 are equal, too.
            text = self._types.get(attribute) if isinstance(attribute, TypeAttribute) else None
            if text is None:
                text = self._text_of(attribute)
            # The attribute stays in the entry, as its id would be another's when it goes.
            found = self._texts[id(attribute)] = (text, attribute)
        self._parts.append(found[0])

    def _text_of(self, attribute: Attribute) -> str:
        outer, self._parts = self._parts, []
        if type(attribute) is MemRefType:
            done = print_memref(attribute, self)
        else:
            done = type(attribute) is DenseIntOrFPElementsAttr and self._print_zeros(attribute)
        if not done:
            super().print_attribute(attribute)
        text = "".join(self._parts)
        self._parts = outer
        if isinstance(attribute, TypeAttribute):
            self._types[attribute] = text
        return text

    def _print_zeros(self, attr: DenseIntOrFPElementsAttr[Any]) -> bool:
        """Print a constant of zeros of both signs, which xDSL takes for one number everywhere."""
        if not attr.is_splat() or is_splat(attr):
            return False
        texts = [f"{value:e}" for value in attr.get_values()]
        for size in reversed(attr.get_shape()):
            texts = [f"[{', '.join(texts[at : at + size])}]" for at in range(0, len(texts), size)]
        self.print_string(f"dense<{texts[0]}> : ")
        self.print_attribute(attr.get_type())
        return True

    def print_attr_dict(self, attr_dict: Mapping[str, Attribute]) -> None:
        super().print_attr_dict(dict(sorted(attr_dict.items())) if len(attr_dict) > 1 else attr_dict)

    # --- names ------------------------------------------------------------------------------------------------------

    def print_ssa_value(self, value: SSAValue) -> str:
        name = self._names.values.get(value) if self._names is not None else None
        if name is None:
            return super().print_ssa_value(value)  # of what is not being printed
        self._parts.append(name)
        return name[1:]

    def print_operand(self, operand: SSAValue) -> None:
        self.print_ssa_value(operand)

    def _get_block_name(self, block: Block) -> str:
        found = self._names.blocks.get(block) if self._names is not None else None
        return super()._get_block_name(block) if found is None else found[1:]

    # --- blocks and ops ---------------------------------------------------------------------------------------------

    def print_region(
        self,
        region: Region,
        print_entry_block_args: bool = True,
        print_empty_block: bool = True,
        print_block_terminators: bool = True,
    ) -> None:
        parts = self._parts
        parts.append("{")
        first = region.blocks.first
        if first is not None:
            if first.next_block is not None:
                self._find_predecessors(region)
            label = bool(first.args) and print_entry_block_args
            label = label or (first.first_op is None and print_empty_block)
            # A branch to the first block needs its name; no op but a generic one has that.
            self.print_block(first, label, print_block_terminators)
            block = first.next_block
            while block is not None:
                self.print_block(block, True, print_block_terminators)
                block = block.next_block
        self._print_new_line()
        parts.append("}")

    def _find_predecessors(self, region: Region) -> None:
        found: dict[Block, list[str]] = {block: [] for block in region.blocks}
        for block in region.blocks:
            for successor in block.last_op.successors if block.last_op is not None else ():
                found[successor].append(self._get_block_name(block))
        self._preds |= found

    def print_block(self, block: Block, print_block_args: bool = True, print_block_terminator: bool = True) -> None:
        parts = self._parts
        if print_block_args:
            self._print_new_line()
            parts.append("^" + self._get_block_name(block))
            if block.args:
                parts.append("(")
                self.print_list(block.args, self.print_block_argument)
                parts.append(")")
            parts.append(":")
            if block.prev_block is not None:
                parts.append(_predecessors(self._preds.get(block, [])))
        self._indent += 1
        margin = "\n" + "  " * self._indent
        for op in block.ops:
            if not print_block_terminator and op.has_trait(IsTerminator, value_if_unregistered=False):
                continue
            parts.append(margin)
            self.print_op(op)
        self._indent -= 1

    def print_op(self, op: Operation) -> None:
        if self._names is None:
            self._names = name_all(op, hints=self._hints, generic=self.print_generic_format)
        parts = self._parts
        if op.results:
            parts.append(self._names.results[op])
            parts.append(" = ")
        name = op.op_name.data if isinstance(op, UnregisteredOp) else op.name
        if self.print_generic_format or type(op).print is Operation.print or isinstance(op, UnregisteredOp):
            parts.append(f'"{name}"')
            self.print_op_with_default_format(op)
        else:
            self._print_custom(op, name)
        if self.print_debuginfo:
            parts.append(f" {self.location(op.location)}")

    def print_block_argument(self, arg: BlockArgument, print_type: bool = True) -> None:
        # Without its location, which nobody reads and MLIR wants behind attributes that are printed elsewhere.
        self.print_ssa_value(arg)
        if print_type:
            self._parts.append(": ")
            self.print_attribute(arg.type)

    def location(self, location: Attribute) -> str:
        """How the location of an op is written behind it."""
        found = self._texts.get(id(location))
        if found is None:
            self.printing_location = True
            found = self._texts[id(location)] = (f"loc({location_text(location, self._text_of)})", location)
            self.printing_location = False
        return found[0]

    def _print_custom(self, op: Operation, name: str) -> None:
        dialect, _, short = name.partition(".")
        self._parts.append(short if dialect == self._open[-1] and "." not in short else name)
        if op.regions:
            self._open.append(OPEN_DIALECT.get(name, ""))
        form = FORMS.get(name)
        if form is not None and form.printed(op):
            form.print(op, self)
        else:
            op.print(self)
        if op.regions:
            self._open.pop()

    def print_successors(self, successors: Sequence[Block]) -> None:
        if successors:
            self._parts.append(f"[{', '.join('^' + self._get_block_name(block) for block in successors)}]")

    def print_operation_type(self, op: Operation) -> None:
        # xDSL writes the location here, which for some forms is in the middle of the op.
        self.print_function_type(op.operand_types, op.result_types)

    def print_op_with_default_format(self, op: Operation) -> None:
        if isinstance(op, UnregisteredOp):
            attributes = {name: value for name, value in op.attributes.items() if name != "op_name__"}
        else:
            attributes = op.attributes
        values, parts = self._names.values if self._names is not None else {}, self._parts
        if all(operand in values for operand in op.operands):
            parts.append(f"({', '.join([values[operand] for operand in op.operands])})")
        else:
            self.print_operands(op.operands)
        self.print_successors(op.successors)
        self._print_op_properties(op.properties)
        if op.regions:
            self._open.append("")
            self.print_regions(op.regions)
            self._open.pop()
        self.print_op_attributes(attributes)
        parts.append(" : ")
        self.print_operation_type(op)


def _predecessors(names: list[str]) -> str:
    """The comment behind a block's name."""
    if not names:
        return "  // no predecessors"
    return f"  // {'pred' if len(names) == 1 else f'{len(names)} preds'}: {', '.join('^' + name for name in names)}"


def print_ir(op: Operation, *, generic: bool = False, debuginfo: bool = False, hints: bool = False) -> str:
    """The op as text with a newline; `hints` keeps the names that values have in the program."""
    printer = IRPrinter(generic=generic, debuginfo=debuginfo, hints=hints)
    printer.print_op(op)
    return printer.text() + "\n"
