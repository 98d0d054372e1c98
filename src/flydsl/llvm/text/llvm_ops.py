"""The `llvm` dialect as LLVM IR text: one op, one instruction, mostly.

Modules that were taken down pass by pass end here; `structured.py` writes the same text straight from the upper
dialects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import BFloat16Type
from xdsl.ir import Block, Operation, Region, SSAValue

from ...dialects.upstream import gpu, llvm
from ...dialects.upstream.llvm.branches import BrOp, CondBrOp, SwitchOp
from ...dialects.upstream.llvm.choices import FCmpOp, SelectOp
from ...dialects.upstream.llvm.constrained import CONSTRAINED_OPS, ConstrainedOp
from ...dialects.upstream.llvm.function import CallOp, FuncOp
from ...dialects.upstream.llvm.intrinsics import IMMEDIATE, INTRINSIC_OPS, IntrinsicOp
from ...dialects.upstream.llvm.values import LLVM_VALUE_OPS, ExtractElementOp, FreezeOp, PoisonOp
from ...errors import DSLCompileError
from ...ir.builder import elem_of, operands_of
from ...ir.types import dense_ints
from ...lowering.dominance import DominatorTree
from ...lowering.rebuild import failure_at
from ...lowering.rules.arith_rules import CMPF_WORDS, CMPI_WORDS
from .control import loop_metadata
from .debug_info import suffix
from .function_text import Abi, FunctionText, Handler
from .functions import head_words, llvm_signature, passed_through
from .host_text import HostText
from .instructions import INSTRUCTIONS
from .memory_ops import MEMORY_OPS, cast_op, memory_of
from .module_text import ModuleText
from .spelling import LLVM, flag_words

INT_OPS: dict[type[Operation], str] = {
    xllvm.AddOp: "add", xllvm.SubOp: "sub", xllvm.MulOp: "mul", xllvm.SDivOp: "sdiv", xllvm.UDivOp: "udiv",
    xllvm.SRemOp: "srem", xllvm.URemOp: "urem", xllvm.AndOp: "and", xllvm.OrOp: "or", xllvm.XOrOp: "xor",
    xllvm.ShlOp: "shl", xllvm.LShrOp: "lshr", xllvm.AShrOp: "ashr",
}  # fmt: skip
FLOAT_OPS: dict[type[Operation], str] = {
    xllvm.FAddOp: "fadd", xllvm.FSubOp: "fsub", xllvm.FMulOp: "fmul", xllvm.FDivOp: "fdiv", xllvm.FRemOp: "frem",
}  # fmt: skip
CAST_OPS: dict[type[Operation], str] = {
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


class LlvmFunctionText(FunctionText):
    """A function of `llvm` being written: blocks with phis for their arguments."""

    result = "ret void"
    """What a return without a value becomes."""

    def body(self, region: Region) -> None:
        """Write all blocks that can be reached; names of the entry's arguments must be known."""
        order = _reverse_postorder(region)
        self._labels_of = {}
        self._incoming = {block: [] for block in order}
        self._phis = {}
        edges = Counter(target for block in order for target in _successors(block))
        self._single = {block for block, count in edges.items() if count == 1}
        scopes: list[tuple[Block, int]] = []
        parents = {child: parent for parent, found in DominatorTree(region).children.items() for child in found}
        for block in order:
            # What a block knows holds in those it dominates.
            while scopes and scopes[-1][0] is not parents[block]:
                scopes.pop()
                self.forget(scopes[-1][1] if scopes else 0)
            self._write_block(block, first=block is order[0])
            scopes.append((block, len(self.known)))
        self.lines = [self._phi(line) if line.startswith("\0") else line for line in self.lines]

    def _phi(self, mark: str) -> str:
        arg, block, i = self._phis[mark]
        pairs = ", ".join(f"[ {self.names[values[i]]}, %{label} ]" for label, values in self._incoming[block])
        return f"  {self.names[arg]} = phi {self.type_text(arg.type)} {pairs}"

    def _write_block(self, block: Block, first: bool) -> None:
        if not first:
            self.start(self._label_of(block))
            self._arguments(block)
        for op in block.ops:
            if id(op) in self.dead:
                continue
            start = self.written()
            handler = LLVM_TABLE.get(type(op))
            if handler is not None:
                handler(self, op)
            else:
                write = getattr(op, "write_llvm", None)
                if write is None:
                    raise untranslatable(op)
                write(self)
            self.place(op, start + self._rooms)

    def _arguments(self, block: Block) -> None:
        """Phis for the arguments of a block; what comes along the only edge to it needs none."""
        if block in self._single:
            for arg, value in zip(block.args, self._incoming[block][0][1], strict=True):
                self.names[arg] = self.names[value]
            return
        for i, arg in enumerate(block.args):
            self.names[arg] = self.fresh()
            mark = f"\0{self.names[arg]}"
            self._phis[mark] = (arg, block, i)
            self.lines.append(mark)

    def _label_of(self, block: Block) -> str:
        """Labels are numbered as branches first name them."""
        found = self._labels_of.get(block)
        if found is None:
            found = self._labels_of[block] = self.new_label()
        return found

    def target(self, block: Block, values: Sequence[SSAValue]) -> str:
        """The label to branch to; two edges of one branch to the same block need a block between to tell them apart."""
        label = self._label_of(block)
        if values and any(known == self.label for known, _ in self._incoming[block]):
            between = self.new_label()
            self._pending.append((between, label))
            self._incoming[block].append((between, values))
            return between
        self._incoming[block].append((self.label, values))
        return label

    def finish_branch(self) -> None:
        """Write the blocks `target` asked for."""
        for between, label in self._pending:
            self.lines += [f"{between}:", f"  br label %{label}"]
        self._pending.clear()

    def __init__(self, module: ModuleText, abi: Abi, op: Operation):
        super().__init__(module, abi, op)
        self._pending: list[tuple[str, str]] = []
        self._labels_of: dict[Block, str] = {}
        self._incoming: dict[Block, list[tuple[str, Sequence[SSAValue]]]] = {}
        self._phis: dict[str, tuple[SSAValue, Block, int]] = {}
        self._single: set[Block] = set()


class HostLlvmText(HostText, LlvmFunctionText):
    """One of the host."""


def function_body(text: ModuleText, abi: Abi, op: FuncOp) -> tuple[LlvmFunctionText, list[str]]:
    """The body of a function, and the names of its arguments."""
    f = LlvmFunctionText(text, abi, op)
    entry = cast(Block, op.body.blocks.first)
    names = [f"%a{i}" for i in range(len(entry.args))]
    f.names.update(zip(entry.args, names, strict=True))
    f.lines.append("entry:")
    f.body(op.body)
    return f, names


def write_function(text: ModuleText, abi: Abi, op: FuncOp) -> None:
    """Append a function that is no kernel."""
    f, names = function_body(text, abi, op)
    head = " ".join([f"define {head_words(op)}{llvm_signature(op, names)}", *passed_through(op.properties)])
    body = "\n".join(f.lines)
    text.defined.add(op.sym_name.data)
    text.functions.append(f"{head}{suffix(f.locations)} {{\n{body}\n}}\n")


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


def untranslatable(op: Operation) -> DSLCompileError:
    """The refusal of an op of another dialect."""
    return failure_at(op, f"cannot be converted to LLVM IR: '{op.name}' is not of the llvm dialect")


def _int_binary(f: FunctionText, op: Operation) -> None:
    a, b = operands_of(op)
    word = INT_OPS[type(op)]
    # A division is guarded where the code runs on the host, like that of `arith`.
    y = f.divisor(op, word[0] == "s") if word[1:] in ("div", "rem") else f.names[b]
    if "isExact" in op.properties:
        word += " exact"
    if "isDisjoint" in op.properties:
        word += " disjoint"
    (result,) = op.results
    f.names[result] = f.binary(word, a.type, f.names[a], y, op.properties.get("overflowFlags"))


def _float_binary(f: FunctionText, op: Operation) -> None:
    a, b = operands_of(op)
    flags = op.properties.get("fastmathFlags")
    (result,) = op.results
    f.names[result] = f.binary(FLOAT_OPS[type(op)], a.type, f.names[a], f.names[b], flags)


def _fneg(f: FunctionText, op: Operation) -> None:
    (a,) = operands_of(op)
    (result,) = op.results
    f.names[result] = f.fneg(a.type, f.names[a], op.properties.get("fastmathFlags"))


def _extension(f: FunctionText, op: Operation) -> None:
    (a,) = operands_of(op)
    word = "zext nneg" if "nonNeg" in op.properties else "zext"
    (result,) = op.results
    f.names[result] = f.cast(word, f.names[a], a.type, op.results[0].type)


def _icmp(f: FunctionText, op: xllvm.ICmpOp) -> None:
    a, b = operands_of(op)
    (result,) = op.results
    f.names[result] = f.icmp(CMPI_WORDS[op.predicate.value.data], a.type, f.names[a], f.names[b])


def _fcmp(f: FunctionText, op: FCmpOp) -> None:
    a, b = operands_of(op)
    word = CMPF_WORDS[op.predicate.value.data]
    (result,) = op.results
    f.names[result] = f.fcmp(word, a.type, f.names[a], f.names[b], op.properties.get("fastmathFlags"))


def _select(f: FunctionText, op: Operation) -> None:
    c, a, b = operands_of(op)
    flags = op.properties.get("fastmathFlags")
    (result,) = op.results
    f.names[result] = f.select(c.type, a.type, f.names[c], f.names[a], f.names[b], flags)


def _constant(f: FunctionText, op: Operation) -> None:
    (result,) = op.results
    f.names[result] = f.constant(op.properties["value"], result.type)


def _freeze(f: FunctionText, op: Operation) -> None:
    (a,) = operands_of(op)
    (result,) = op.results
    f.names[result] = f.pure(f"freeze {f.typed(a)}")


def _poison(f: FunctionText, op: Operation) -> None:
    (result,) = op.results
    f.names[result] = "poison"


def _zero(f: FunctionText, op: Operation) -> None:
    (result,) = op.results
    f.names[result] = "null" if isinstance(result.type, llvm.LLVMPointerType) else "zeroinitializer"


def _extract_element(f: FunctionText, op: Operation) -> None:
    v, at = operands_of(op)
    (result,) = op.results
    f.names[result] = f.element(v.type, f.names[v], f.names[at], at.type)


def _insert_element(f: FunctionText, op: Operation) -> None:
    v, x, at = operands_of(op)
    (result,) = op.results
    f.names[result] = f.with_element(v.type, f.names[v], f.names[x], f.names[at], at.type)


def _shuffle(f: FunctionText, op: xllvm.ShuffleVectorOp) -> None:
    a, b = operands_of(op)
    (result,) = op.results
    f.names[result] = f.shuffle(a.type, f.names[a], f.names[b], dense_ints(op.properties["mask"]))


def _intrinsic(f: FunctionText, op: IntrinsicOp) -> None:
    key, args = op.key, operands_of(op)
    last: Any = op.properties.get(IMMEDIATE.get(key, ""))
    f.names[op.res] = f.intr(
        key,
        op.res.type,
        [f.names[a] for a in args],
        [a.type for a in args],
        op.properties.get("fastmathFlags"),
        None if last is None else abs(last.value.data),
    )


def _constrained(f: FunctionText, op: ConstrainedOp) -> None:
    """How it rounds and what may be seen of traps are arguments, as texts; LLVM appends the types that vary."""
    key, args, result = op.key, operands_of(op), op.res.type
    if f.spelling is not LLVM and any(isinstance(elem_of(v.type), BFloat16Type) for v in (*args, op.res)):
        raise failure_at(op, f"'{op.name}' of bf16 is not for code of the host; convert the operands to f32")
    predicate, rounding, exceptions = op.words()
    types = [a.type for a in args]
    varying = {"cast": [result, types[0]], "mixed": types if key == "ldexp" else types[:1]}
    suffixes = map(f.spelling.mangle, varying.get(op.form.result, types[:1]))
    name = ".".join(["llvm.experimental.constrained", key, *suffixes])
    words = [predicate, None if rounding is None else f"round.{rounding}", f"fpexcept.{exceptions}"]
    texts = [f'!"{word}"' for word in words if word is not None]
    params, values = [f.type_text(t) for t in types], [f.names[a] for a in args]
    flags = op.properties.get("fastmathFlags")
    shown = "" if flags is None else flag_words(flags)
    call = f.call_text(name, f.type_text(result), [*params, *["metadata"] * len(texts)], [*values, *texts], shown)
    f.names[op.res] = f.assign(f"{call} strictfp")


def _memcpy(f: FunctionText, op: Any) -> None:
    values = operands_of(op)
    name = "llvm.memcpy." + ".".join(f.spelling.mangle(v.type) for v in values)
    params = [*(f.type_text(v.type) for v in values), "i1"]
    names = [*(f.names[v] for v in values), str(abs(op.isVolatile.value.data))]
    f.call_void(name, params, names)


def _call(f: FunctionText, op: CallOp) -> None:
    args = tuple(op.args)
    fixed = None if op.var_callee_type is None else len(op.var_callee_type.data.inputs)
    result = op.returned[0].type if op.returned else None
    names, types = [f.names[a] for a in args], [a.type for a in args]
    facts = (("no_unwind", "nounwind"), ("will_return", "willreturn"))
    words = "".join(f" {w}" for p, w in facts if p in op.properties)
    made = f.call(op.callee.string_value(), result, names, types, fixed=fixed, memory=memory_of(op), words=words)
    if op.returned:
        f.names[op.returned[0]] = made


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
    t = f.type_text(op.value.type)
    cases = " ".join(f"{t} {n}, label %{f.target(block, values)}" for n, block, values in op.cases())
    f.line(f"switch {f.typed(op.value)}, label %{default} [ {cases} ]")
    f.finish_branch()


def _return(f: LlvmFunctionText, op: Operation) -> None:
    values = operands_of(op)
    f.line(f"ret {f.typed(values[0])}" if values else f.result)


def _unreachable(f: FunctionText, op: Operation) -> None:
    f.line("unreachable")


def _launch(f: FunctionText, op: gpu.LaunchFuncOp) -> None:
    f.abi.launch(f, op)


STRAIGHT: dict[type[Operation], Handler] = {
    xllvm.ConstantOp: _constant,
    **dict.fromkeys(INT_OPS, _int_binary),
    **dict.fromkeys(FLOAT_OPS, _float_binary),
    **{op: cast_op(word) for op, word in CAST_OPS.items()},
    xllvm.ZExtOp: _extension,
    **dict.fromkeys(INTRINSIC_OPS.values(), cast(Handler, _intrinsic)),
    **dict.fromkeys(CONSTRAINED_OPS, cast(Handler, _constrained)),
    **INSTRUCTIONS,
    **MEMORY_OPS,
    xllvm.FNegOp: _fneg,
    xllvm.ICmpOp: cast(Handler, _icmp),
    FCmpOp: cast(Handler, _fcmp),
    SelectOp: _select,
    FreezeOp: _freeze,
    PoisonOp: _poison,
    xllvm.ZeroOp: _zero,
    ExtractElementOp: _extract_element,
    xllvm.InsertElementOp: _insert_element,
    xllvm.ShuffleVectorOp: cast(Handler, _shuffle),
    llvm.MemcpyOp: cast(Handler, _memcpy),
    CallOp: cast(Handler, _call),
}
"""Ops without control flow, which may stand in functions of the upper dialects too."""

LLVM_TABLE: dict[type[Operation], Handler] = {
    **STRAIGHT,
    BrOp: cast(Handler, _br),
    CondBrOp: cast(Handler, _cond_br),
    SwitchOp: cast(Handler, _switch),
    xllvm.ReturnOp: cast(Handler, _return),
    xllvm.UnreachableOp: _unreachable,
    gpu.LaunchFuncOp: cast(Handler, _launch),
}
"""Op class to the function that writes it."""
