"""The `llvm`, `rocdl` and `nvvm` dialects as LLVM IR text: one op, one instruction, mostly.

`translate.py` writes the same text straight from the upper dialects and is what a compilation uses; this is for modules
that were taken down pass by pass. What the two share (types, literals, memory ops) is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects.upstream import gpu, llvm
from ...dialects.upstream.llvm.atomics import CmpXchgOp, FenceOp
from ...dialects.upstream.llvm.branches import BrOp, CondBrOp, SwitchOp
from ...dialects.upstream.llvm.function import CallOp, FuncOp
from ...dialects.upstream.llvm.intrinsics import IMMEDIATE, INTRINSIC_OPS, IntrinsicOp
from ...dialects.upstream.llvm.values import LLVM_VALUE_OPS, ExtractElementOp, FreezeOp, PoisonOp
from ...errors import DSLCompileError
from ...ir import arith
from ...ir.builder import CMPF, CMPI, elem_of, operands_of
from .debug_info import suffix
from .translate import TABLE, Abi, FunctionText, Handler, ModuleText, literal, loop_metadata, mangle, type_text
from .translate_instructions import INSTRUCTIONS

_CMPI = {i: p for p, i in CMPI.items()}
_CMPF = {i: p for p, i in CMPF.items()}
_INT = {
    xllvm.AddOp: "add", xllvm.SubOp: "sub", xllvm.MulOp: "mul", xllvm.SDivOp: "sdiv", xllvm.UDivOp: "udiv",
    xllvm.SRemOp: "srem", xllvm.URemOp: "urem", xllvm.AndOp: "and", xllvm.OrOp: "or", xllvm.XOrOp: "xor",
    xllvm.ShlOp: "shl", xllvm.LShrOp: "lshr", xllvm.AShrOp: "ashr",
}  # fmt: skip
_FLOAT = {
    xllvm.FAddOp: "fadd", xllvm.FSubOp: "fsub", xllvm.FMulOp: "fmul", xllvm.FDivOp: "fdiv", xllvm.FRemOp: "frem",
}  # fmt: skip
_CAST: dict[type[Operation], str] = {
    xllvm.TruncOp: "trunc",
    xllvm.ZExtOp: "zext",
    xllvm.SExtOp: "sext",
    xllvm.FPExtOp: "fpext",
    xllvm.FPTruncOp: "fptrunc",
    xllvm.SIToFPOp: "sitofp",
    xllvm.BitcastOp: "bitcast",
    xllvm.PtrToIntOp: "ptrtoint",
    xllvm.IntToPtrOp: "inttoptr",
    **{op: op.name.removeprefix("llvm.") for op in LLVM_VALUE_OPS if op.name.split(".")[1][0:2] in ("fp", "ui", "ad")},
}
_OVERFLOW = {0: "", 1: "nsw ", 2: "nuw ", 3: "nuw nsw "}


class LlvmFunctionText(FunctionText):
    """A function of `llvm` being written: blocks with phis for their arguments."""

    result = "ret void"
    """What a return without a value becomes."""

    def body(self, region: Region) -> None:
        """Write all blocks that can be reached; names of the entry's arguments must be known."""
        order = _reverse_postorder(region)
        self._labels_of = {block: self.new_label() for block in order[1:]}
        self._incoming: dict[Block, list[tuple[str, Sequence[SSAValue]]]] = {block: [] for block in order}
        self._phis: dict[str, tuple[SSAValue, Block, int]] = {}
        for block in order[1:]:
            for i, arg in enumerate(block.args):
                self.names[arg] = self.fresh()
                self._phis[f"\0{self.names[arg]}"] = (arg, block, i)
        for block in order:
            self._write_block(block, first=block is order[0])
        self.lines = [self._phi(line) if line.startswith("\0") else line for line in self.lines]

    def _phi(self, mark: str) -> str:
        arg, block, i = self._phis[mark]
        pairs = ", ".join(f"[ {self.names[values[i]]}, %{label} ]" for label, values in self._incoming[block])
        return f"  {self.names[arg]} = phi {type_text(arg.type)} {pairs}"

    def _write_block(self, block: Block, first: bool) -> None:
        if not first:
            self.start(self._labels_of[block])
            self.lines += [f"\0{self.names[arg]}" for arg in block.args]
        for op in block.ops:
            if id(op) in self.dead:
                continue
            start = len(self.lines)
            handler = LLVM_TABLE.get(type(op))
            if handler is not None:
                handler(self, op)
            else:
                write = getattr(op, "write_llvm", None)
                if write is None:
                    raise _untranslatable(op)
                write(self)
            if self.locations is not None:
                self.locations.annotate(self.lines, start, op)

    def target(self, block: Block, values: Sequence[SSAValue]) -> str:
        """The label to branch to; two edges of one branch to the same block need a block between to tell them apart."""
        label = self._labels_of[block]
        if values and any(known == self.label for known, _ in self._incoming[block]):
            between = self.new_label()
            self._pending.append((between, label))
            self._incoming[block].append((between, values))
            return between
        self._incoming[block].append((self.label, values))
        return label

    _pending: list[tuple[str, str]]

    def finish_branch(self) -> None:
        """Write the blocks `target` asked for."""
        for between, label in self._pending:
            self.lines += [f"{between}:", f"  br label %{label}"]
        self._pending.clear()

    def __init__(self, module: ModuleText, abi: Abi, op: Operation):
        super().__init__(module, abi, op)
        self._pending = []


def _reverse_postorder(region: Region) -> list[Block]:
    entry = region.blocks.first
    assert entry is not None
    seen, order = {entry}, list[Block]()
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, rest = stack[-1]
        following = next((b for b in rest if b not in seen), None)
        if following is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(_successors(following))))
    return order[::-1]


def _successors(block: Block) -> Sequence[Block]:
    """The last one first, so that the order found has the first one, such as a loop's body, right behind the block."""
    return tuple(block.last_op.successors)[::-1] if block.last_op is not None else ()


def _untranslatable(op: Operation) -> DSLCompileError:
    error = DSLCompileError(f"cannot be converted to LLVM IR: '{op.name}' is not of the llvm dialect")
    error.ir_location = op.location  # pyright: ignore[reportAttributeAccessIssue]
    return error


def flags_of(op: Operation) -> str:
    """Fast-math flags, with a trailing space."""
    attr: Any = op.properties.get("fastmathFlags")
    if attr is None or not attr.data:
        return ""
    words = sorted(str(getattr(f, "value", f)) for f in attr.data)
    return "fast " if len(words) >= 7 else " ".join(words) + " "


def _int_binary(f: FunctionText, op: Operation) -> None:
    a, b = operands_of(op)
    flags: Any = op.properties.get("overflowFlags")
    words = _OVERFLOW[flags.value.data] if flags is not None else ""
    words += "exact " if "isExact" in op.properties else ""
    words += "disjoint " if "isDisjoint" in op.properties else ""
    text = f"{_INT[cast(Any, type(op))]} {words}{type_text(a.type)} {f.names[a]}, {f.names[b]}"
    f.names[op.results[0]] = f.assign(text)


def _float_binary(f: FunctionText, op: Operation) -> None:
    a, b = operands_of(op)
    word = _FLOAT[cast(Any, type(op))]
    f.names[op.results[0]] = f.assign(f"{word} {flags_of(op)}{type_text(a.type)} {f.names[a]}, {f.names[b]}")


def _fneg(f: FunctionText, op: Operation) -> None:
    (a,) = operands_of(op)
    f.names[op.results[0]] = f.assign(f"fneg {flags_of(op)}{f.typed(a)}")


def _cast(f: FunctionText, op: Operation) -> None:
    (a,) = operands_of(op)
    source, target = type_text(a.type), type_text(op.results[0].type)
    if source == target:
        f.names[op.results[0]] = f.names[a]
        return
    words = "nneg " if "nonNeg" in op.properties else ""
    f.names[op.results[0]] = f.assign(f"{_CAST[type(op)]} {words}{source} {f.names[a]} to {target}")


def _icmp(f: FunctionText, op: xllvm.ICmpOp) -> None:
    a, b = operands_of(op)
    word = _CMPI[op.predicate.value.data]
    f.names[op.results[0]] = f.assign(f"icmp {word} {type_text(a.type)} {f.names[a]}, {f.names[b]}")


def _fcmp(f: FunctionText, op: xllvm.FCmpOp) -> None:
    a, b = operands_of(op)
    word = _CMPF[op.predicate.value.data]
    f.names[op.results[0]] = f.assign(f"fcmp {flags_of(op)}{word} {type_text(a.type)} {f.names[a]}, {f.names[b]}")


def _select(f: FunctionText, op: Operation) -> None:
    c, a, b = operands_of(op)
    f.names[op.results[0]] = f.assign(f"select {flags_of(op)}{f.typed(c)}, {f.typed(a)}, {f.typed(b)}")


def _freeze(f: FunctionText, op: Operation) -> None:
    (a,) = operands_of(op)
    f.names[op.results[0]] = f.assign(f"freeze {f.typed(a)}")


def _poison(f: FunctionText, op: Operation) -> None:
    f.names[op.results[0]] = "poison"


def _zero(f: FunctionText, op: Operation) -> None:
    f.names[op.results[0]] = "zeroinitializer"


def _extract_element(f: FunctionText, op: Operation) -> None:
    v, at = operands_of(op)
    f.names[op.results[0]] = f.assign(f"extractelement {f.typed(v)}, {f.typed(at)}")


def _insert_element(f: FunctionText, op: Operation) -> None:
    v, x, at = operands_of(op)
    f.names[op.results[0]] = f.assign(f"insertelement {f.typed(v)}, {f.typed(x)}, {f.typed(at)}")


def _shuffle(f: FunctionText, op: xllvm.ShuffleVectorOp) -> None:
    a, b = operands_of(op)
    mask = [int(i) for i in cast(Any, op.mask).get_values()]
    lanes = ", ".join(f"i32 {m}" if m >= 0 else "i32 poison" for m in mask)
    f.names[op.results[0]] = f.assign(f"shufflevector {f.typed(a)}, {f.typed(b)}, <{len(mask)} x i32> <{lanes}>")


def _intrinsic(f: FunctionText, op: IntrinsicOp) -> None:
    key = op.key
    args = list(op.args)
    params, names = [type_text(a.type) for a in args], [f.names[a] for a in args]
    suffix = mangle(args[-1].type if key.startswith("vector.reduce.") else args[0].type)
    if key == "powi":
        suffix = f"{suffix}.{mangle(args[1].type)}"
    if key in IMMEDIATE:
        value: Any = op.properties[IMMEDIATE[key]]
        params.append(type_text(value.type))
        names.append(str(abs(value.value.data)))
    result = type_text(op.results[0].type)
    f.names[op.results[0]] = f.intrinsic(f"llvm.{key}.{suffix}", result, params, names, flags_of(op))


def _memcpy(f: FunctionText, op: llvm.MemcpyOp) -> None:
    values = operands_of(op)
    name = "llvm.memcpy." + ".".join(
        f"p{llvm.address_space(v.type)}" if isinstance(v.type, llvm.LLVMPointerType) else mangle(v.type) for v in values
    )
    params = [*(type_text(v.type) for v in values), "i1"]
    names = [*(f.names[v] for v in values), str(abs(op.isVolatile.value.data))]
    f.call_void(name, params, names)


def _alloca(f: FunctionText, op: Operation) -> None:
    (n,) = operands_of(op)
    space = llvm.address_space(op.results[0].type)
    align: Any = op.properties.get("alignment")
    tail = (f", align {align.value.data}" if align is not None else "") + (f", addrspace({space})" if space else "")
    elem = type_text(op.properties["elem_type"])
    # A known number of elements is an array, which LLVM splits into registers.
    what = f"[{f.names[n]} x {elem}]" if f.names[n].isdigit() else f"{elem}, {f.typed(n)}"
    f.names[op.results[0]] = f.assign(f"alloca {what}{tail}")


def _call(f: FunctionText, op: CallOp) -> None:
    name = op.callee.string_value()
    result = type_text(op.returned[0].type) if op.returned else "void"
    signature = result
    if op.var_callee_type is not None:
        signature = f"{result} ({', '.join([*map(type_text, op.var_callee_type.data.inputs), '...'])})"
    facts = (("no_unwind", "nounwind"), ("will_return", "willreturn"))
    words = "".join(f" {w}" for p, w in facts if p in op.properties)
    text = f"call {flags_of(op)}{signature} @{_symbol(name)}({', '.join(map(f.typed, op.args))}){words}"
    if op.returned:
        f.names[op.returned[0]] = f.assign(text)
    else:
        f.line(text)


# --- branches -----------------------------------------------------------------------------------------------------


def _loop(f: FunctionText, op: Operation) -> str:
    return loop_metadata(f, op.properties.get("loop_annotation"))


def _br(f: LlvmFunctionText, op: BrOp) -> None:
    f.line(f"br label %{f.target(op.successor, op.arguments)}{_loop(f, op)}")


def _cond_br(f: LlvmFunctionText, op: CondBrOp) -> None:
    then = f.target(op.then_block, op.then_arguments)
    otherwise = f.target(op.else_block, op.else_arguments)
    f.line(f"br i1 {f.names[op.cond]}, label %{then}, label %{otherwise}{_loop(f, op)}")
    f.finish_branch()


def _switch(f: LlvmFunctionText, op: SwitchOp) -> None:
    default = f.target(op.default_destination, op.default_operands)
    t = type_text(op.value.type)
    cases = " ".join(f"{t} {n}, label %{f.target(block, values)}" for n, block, values in op.cases())
    f.line(f"switch {f.typed(op.value)}, label %{default} [ {cases} ]")
    f.finish_branch()


def _return(f: LlvmFunctionText, op: Operation) -> None:
    values = operands_of(op)
    f.line(f"ret {f.typed(values[0])}" if values else f.result)


def _unreachable(f: FunctionText, op: Operation) -> None:
    f.line("unreachable")


LLVM_TABLE: dict[type[Operation], Handler] = {
    xllvm.ConstantOp: TABLE[arith.ConstantOp],
    **{
        cls: TABLE[cls]
        for cls in (
            llvm.LoadOp, llvm.StoreOp, llvm.GEPOp, llvm.UndefOp, llvm.ExtractValueOp, llvm.InsertValueOp,
            llvm.AtomicRMWOp, CmpXchgOp, FenceOp, llvm.CallIntrinsicOp, llvm.AddressOfOp, llvm.InlineAsmOp,
            gpu.LaunchFuncOp,
        )
    },
    **dict.fromkeys(_INT, _int_binary),
    **dict.fromkeys(_FLOAT, _float_binary),
    **dict.fromkeys(_CAST, _cast),
    **dict.fromkeys(INTRINSIC_OPS.values(), cast(Handler, _intrinsic)),
    **INSTRUCTIONS,
    xllvm.FNegOp: _fneg,
    xllvm.ICmpOp: cast(Handler, _icmp),
    xllvm.FCmpOp: cast(Handler, _fcmp),
    xllvm.SelectOp: _select,
    FreezeOp: _freeze,
    PoisonOp: _poison,
    xllvm.ZeroOp: _zero,
    ExtractElementOp: _extract_element,
    xllvm.InsertElementOp: _insert_element,
    xllvm.ShuffleVectorOp: cast(Handler, _shuffle),
    llvm.MemcpyOp: cast(Handler, _memcpy),
    llvm.AllocaOp: _alloca,
    CallOp: cast(Handler, _call),
    BrOp: cast(Handler, _br),
    CondBrOp: cast(Handler, _cond_br),
    SwitchOp: cast(Handler, _switch),
    xllvm.ReturnOp: cast(Handler, _return),
    xllvm.UnreachableOp: _unreachable,
}  # fmt: skip
"""Op class to the function that writes it."""


# --- functions and globals ----------------------------------------------------------------------------------------

_FLAG_ATTRIBUTES = {
    "llvm.noundef": "noundef", "llvm.noalias": "noalias", "llvm.readonly": "readonly", "llvm.nonnull": "nonnull",
    "llvm.writeonly": "writeonly", "llvm.nofree": "nofree", "llvm.inreg": "inreg", "llvm.signext": "signext",
    "llvm.zeroext": "zeroext", "llvm.returned": "returned", "llvm.readnone": "readnone",
}  # fmt: skip
_FUNCTION_FLAGS = {
    "no_inline": "noinline", "always_inline": "alwaysinline", "no_unwind": "nounwind", "convergent": "convergent",
    "will_return": "willreturn", "optimize_none": "optnone",
}  # fmt: skip
_VISIBILITY = {0: "", 1: "hidden ", 2: "protected "}


def _symbol(name: str) -> str:
    return name if name.replace("_", "a").replace(".", "a").replace("$", "a").isalnum() else f'"{name}"'


def parameter_attributes(attrs: dict[str, Attribute]) -> str:
    """Attributes of an argument or result, each with a space in front; those of other dialects are for other tools."""
    words: list[str] = []
    for name, attr in attrs.items():
        value: Any = attr
        if name in _FLAG_ATTRIBUTES:
            words.append(_FLAG_ATTRIBUTES[name])
        elif name == "llvm.align":
            words.append(f"align {value.value.data}")
        elif name == "llvm.alignstack":
            words.append(f"alignstack({value.value.data})")
        elif name == "llvm.dereferenceable":
            words.append(f"dereferenceable({value.value.data})")
        elif name in ("llvm.byval", "llvm.byref", "llvm.sret"):
            words.append(f"{name.removeprefix('llvm.')}({type_text(attr)})")
        elif name == "llvm.range":
            width, low, high = value.data
            words.append(f"range(i{width} {low}, {high})")
        elif name == "nvvm.grid_constant":
            words.append('"nvvm.grid_constant"')
        elif name.startswith("llvm."):
            raise DSLCompileError(f"no translation of the argument attribute '{name}' to LLVM IR")
    return "".join(f" {w}" for w in words)


def passed_through(op: FuncOp) -> list[str]:
    """Attributes of a function given by name: `passthrough = ["noinline", ["key", "value"]]`, and flags."""
    words = [word for name, word in _FUNCTION_FLAGS.items() if name in op.properties]
    for item in cast(Any, op.passthrough).data if op.passthrough is not None else ():
        if isinstance(item, StringAttr):
            words.append(item.data if item.data.isidentifier() else f'"{item.data}"')
        else:
            key, value = (a.data for a in item.data)
            words.append(f'"{key}"="{value}"')
    return words


def signature(op: FuncOp, names: Sequence[str] | None) -> str:
    """`result @name(params)`; names of the arguments for a definition."""
    output, inputs, variadic = op.function_type.data
    given = op.arg_attrs.data if op.arg_attrs is not None else [None] * len(inputs)
    params = [
        type_text(t) + (parameter_attributes(dict(a.data)) if a is not None else "") + (f" {names[i]}" if names else "")
        for i, (t, a) in enumerate(zip(inputs, given, strict=True))
    ]
    if variadic:
        params.append("...")
    result = "void" if output is None else type_text(output)
    if op.res_attrs is not None:
        result = f"{parameter_attributes(dict(op.res_attrs.data[0].data)).strip()} {result}".strip()
    return f"{result} @{_symbol(op.sym_name.data)}({', '.join(params)})"


def head_words(op: FuncOp) -> str:
    """Linkage and visibility, each with a space behind."""
    linkage = op.linkage.linkage.data
    return ("" if linkage == "external" else f"{linkage} ") + _VISIBILITY[op.visibility_.value.data]


def write_function(text: ModuleText, abi: Abi, op: FuncOp, convention: str = "", tail: str = "") -> LlvmFunctionText:
    """Append a function with a body; `convention` and `tail` stand before its result type and behind its arguments."""
    f = LlvmFunctionText(text, abi, op)
    entry = cast(Block, op.body.blocks.first)
    names = [f"%a{i}" for i in range(len(entry.args))]
    f.names.update(zip(entry.args, names, strict=True))
    f.lines.append("entry:")
    f.body(op.body)
    words = [*([tail] if tail else []), *passed_through(op)]
    body = "\n".join(f.lines)
    head = f"define {head_words(op)}{convention}{signature(op, names)}"
    text.functions.append(f"{' '.join([head, *words])}{suffix(f.locations)} {{\n{body}\n}}\n")
    return f


def declaration(op: FuncOp) -> str:
    """A function of elsewhere."""
    words = "".join(f" {w}" for w in passed_through(op))
    return f"declare {signature(op, None)}{words}"


def global_line(op: llvm.GlobalOp) -> str:
    """A global variable or constant."""
    if op.regions[0].blocks:
        raise DSLCompileError(f"global @{op.sym_name.data}: initializer regions are not translated to LLVM IR")
    type_ = type_text(op.global_type)
    linkage = op.linkage.linkage.data
    space = op.addr_space.value.data
    where = f"addrspace({space}) " if space else ""
    words = where + ("constant" if op.constant is not None else "global")
    align = f", align {op.alignment.value.data}" if op.alignment is not None else ""
    if op.value is None:
        return f"@{_symbol(op.sym_name.data)} = {linkage} {words} {type_}{align}"
    value: Any = op.value
    if isinstance(op.value, StringAttr):
        data = op.value.data.encode()
        text = 'c"' + "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in data) + '"'
    elif isinstance(op.value, IntegerAttr | FloatAttr):
        text = literal(value.value.data, op.global_type)
    else:
        elem = elem_of(op.global_type)
        text = "<" + ", ".join(f"{type_text(elem)} {literal(v, elem)}" for v in value.get_values()) + ">"
    kind = "" if linkage == "external" else f"{linkage} "
    return f"@{_symbol(op.sym_name.data)} = {kind}{words} {type_} {text}{align}"


__all__ = ["LLVM_TABLE", "LlvmFunctionText", "declaration", "global_line", "passed_through", "write_function"]
