"""Ops of `llvm` that kernels have from the start: memory, atomics, structs, calls of intrinsics, inline assembly."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from ...dialects.upstream import llvm
from ...dialects.upstream.llvm.atomics import CmpXchgOp, FenceOp
from ...dialects.upstream.llvm.gep import no_wrap_words
from ...dialects.upstream.llvm.memory import ORDERING_WORDS
from ...ir.builder import operands_of
from ...ir.types import dense_ints
from ...target.scopes import scope_for
from .function_text import EMPTY_NODE, FunctionText, Handler

MEMORY = "llvm.memory"
"""Attribute of a call or of inline assembly: all it does to memory, in LLVM's words."""


ASYNC_READ = "fly_rocdl.async_read"
"""Attribute of a read of shared memory: marks alone order it with copies into shared memory."""
_COPIES_SCOPE = ("!8100 = distinct !{!8100}", "!8101 = distinct !{!8101, !8100}", "!8102 = !{!8101}")


def scope_of_read(f: FunctionText, op: Operation) -> str:
    """The alias scope of a read that LLVM must not order with copies into shared memory."""
    if ASYNC_READ not in op.attributes:
        return ""
    for node in _COPIES_SCOPE:
        f.module.metadata(node)
    return ", !alias.scope !8102"


def align_of(op: Operation) -> str:
    """`, align N`, where an op says it."""
    attr: Any = op.properties.get("alignment")
    return "" if attr is None else f", align {attr.value.data}"


def _scope(f: FunctionText, op: Operation) -> str:
    scope: Any = op.properties.get("syncscope")
    if scope is None or not scope.data:
        return ""
    vendor = {"amdgcn": "amd", "nvptx64": "nvidia"}.get(f.module.triple.partition("-")[0])
    return f' syncscope("{scope_for(scope.data, lambda feature: feature in (vendor, "clusters"))}")'


def _qualified(f: FunctionText, op: Operation) -> tuple[str, str, str] | None:
    """What an ordering, a scope, `volatile` and `nontemporal` add: after the keyword, after the pointer, at the end."""
    props: Any = op.properties
    given = props.get("ordering")
    ordering = 0 if given is None else given.value.data
    if not ordering and len(props) <= 2:
        return None
    words = tail = end = ""
    if ordering:
        words = "atomic "
        tail = f"{_scope(f, op)} {ORDERING_WORDS[ordering]}"
    if "volatile_" in props:
        words += "volatile "
    if "nontemporal" in props:
        end = ", !nontemporal !8000"
        f.module.metadata("!8000 = !{i32 1}")
    if "invariant" in props:
        end += ", !invariant.load !8001"
        f.module.metadata(EMPTY_NODE)
    return words, tail, end


def _load(f: FunctionText, op: Operation) -> None:
    (p,) = operands_of(op)
    (result,) = op.results
    qualified = _qualified(f, op)
    if qualified is None:
        if f.abi.checked:
            f.abi.access(f, op, None)
        else:
            text = f"load {f.type_text(result.type)}, {f.typed(p)}{align_of(op)}"
            f.names[result] = f.read(text + scope_of_read(f, op) if op.attributes else text)
        return
    words, tail, end = qualified
    text = f"load {words}{f.type_text(result.type)}, {f.typed(p)}{tail}{align_of(op)}{end}{scope_of_read(f, op)}"
    if f.abi.checked:
        f.abi.access(f, op, text)
        return
    f.names[result] = f.assign(text) if words else f.pure(text) if "invariant" in op.properties else f.read(text)


def _store(f: FunctionText, op: Operation) -> None:
    v, p = operands_of(op)
    qualified = _qualified(f, op)
    if qualified is None:
        if f.abi.checked:
            f.abi.access(f, op, None)
            return
        f.line(f"store {f.typed(v)}, {f.typed(p)}{align_of(op)}")
        return
    words, tail, end = qualified
    text = f"store {words}{f.typed(v)}, {f.typed(p)}{tail}{align_of(op)}{end}"
    if f.abi.checked:
        f.abi.access(f, op, text)
        return
    f.line(text)


def _cmpxchg(f: FunctionText, op: CmpXchgOp) -> None:
    words = ("weak " if op.weak is not None else "") + ("volatile " if op.volatile_ is not None else "")
    success, failure = (ORDERING_WORDS[o.value.data] for o in (op.success_ordering, op.failure_ordering))
    text = (
        f"cmpxchg {words}{f.typed(op.ptr)}, {f.typed(op.cmp)}, {f.typed(op.val)}{_scope(f, op)} "
        f"{success} {failure}{align_of(op)}"
    )
    if f.abi.checked:
        f.abi.access(f, op, text)
        return
    f.names[op.res] = f.assign(text)


def _of_device(f: FunctionText, op: Operation) -> str:
    """For a scope below the system's: the memory is the device's own, where the target can say so."""
    if not f.abi.own_memory or not _scope(f, op):
        return ""
    f.module.metadata(EMPTY_NODE)
    return f.abi.own_memory


def _atomicrmw(f: FunctionText, op: llvm.AtomicRMWOp) -> None:
    p, v = operands_of(op)
    word = llvm.ATOMIC_BINARY[op.bin_op.value.data].lstrip("_")
    order = ORDERING_WORDS[op.ordering.value.data]
    (result,) = op.results
    text = f"atomicrmw {word} {f.typed(p)}, {f.typed(v)}{_scope(f, op)} {order}{align_of(op)}{_of_device(f, op)}"
    text = f.abi.update(f, op, word) or text
    if f.abi.checked:
        f.abi.access(f, op, text)
        return
    if not f.abi.relaxes_updates:
        f.names[result] = f.assign(text)
        return
    before, after = _FENCES[order]
    if before:
        f.line(f"fence{_scope(f, op)} {before}")
    given: Any = op.properties.get("syncscope")
    system = given is not None and given.data == "" and _system_wide(f, word, op)
    f.names[result] = f.assign(system or text.replace(f" {order}{align_of(op)}", f" monotonic{align_of(op)}"))
    if after:
        f.line(f"fence{_scope(f, op)} {after}")


_FENCES = {
    "monotonic": ("", ""),
    "acquire": ("", "acquire"),
    "release": ("release", ""),
    "acq_rel": ("release", "acquire"),
    "seq_cst": ("seq_cst", "acquire"),
}
"""The fences in front of and behind an access that is relaxed by itself."""
_PTX_TYPES = {"i32": ("u32", "s32", "b32", "r"), "i64": ("u64", "s64", "b64", "l")}
_PTX_FLOATS = {"float": ("f32", "f"), "double": ("f64", "d")}
_PTX_WORDS = {"add": 0, "umin": 0, "umax": 0, "min": 1, "max": 1, "and": 2, "or": 2, "xor": 2, "xchg": 2}
"""Words of `atom`, with the kind of type they name."""


def _system_wide(f: FunctionText, word: str, op: llvm.AtomicRMWOp) -> str:
    """An atomic that other devices and the host see; nothing where LLVM makes a loop of compare-and-swap, which has
    its scope, and for shared memory, which nobody else sees."""
    p, v = operands_of(op)
    type_, place = f.type_text(v.type), f.type_text(p.type)
    space = {"ptr": "", "ptr addrspace(1)": ".global"}.get(place)
    if space is None:
        return ""
    operand, first, last = "$2", "", ""
    if word in ("fadd", "xchg") and type_ in _PTX_FLOATS:
        kind, register = _PTX_FLOATS[type_]
        word, kind = ("add", kind) if word == "fadd" else ("exch", f"b{kind[1:]}")
    elif word == "sub" and type_ in _PTX_TYPES:
        kind, signed, _, register = _PTX_TYPES[type_]
        first, last = f"{{ .reg .{signed} %minus; neg.{signed} %minus, $2; ", " }"
        word, operand = "add", "%minus"
    elif word in _PTX_WORDS and type_ in _PTX_TYPES:
        *kinds, register = _PTX_TYPES[type_]
        kind, word = kinds[_PTX_WORDS[word]], {"xchg": "exch"}.get(word, word.removeprefix("u"))
    else:
        return ""
    code = f"{first}atom.relaxed.sys{space}.{word}.{kind} $0, [$1], {operand};{last}"
    return f'call {type_} asm sideeffect "{code}", "={register},l,{register},~{{memory}}"({f.typed(p)}, {f.typed(v)})'


def _fence(f: FunctionText, op: FenceOp) -> None:
    if f.abi.checked:
        f.abi.fence(f, op)
    f.line(f"fence{_scope(f, op)} {ORDERING_WORDS[op.ordering.value.data]}")


def _gep(f: FunctionText, op: Operation) -> None:
    p, *dynamic = operands_of(op)  # indexing the tuple runs Python code of xDSL, taking it apart does not
    props: Any = op.properties
    raw = dense_ints(props["rawConstantIndices"])
    if len(raw) == 1:
        at = f.typed(dynamic[0]) if dynamic else f"i32 {raw[0]}"
    else:
        values = iter(dynamic)
        at = ", ".join([f.typed(next(values)) if i == llvm.GEP_DYNAMIC else f"i32 {i}" for i in raw])
    flags = props["noWrapFlags"].value.data
    words = "".join(f"{w} " for w in no_wrap_words(flags)) if flags else ""
    elem = f.type_text(props["elem_type"])
    (result,) = op.results
    f.names[result] = f.pure(f"getelementptr {words}{elem}, {f.typed(p)}, {at}")


def _alloca(f: FunctionText, op: Operation) -> None:
    (n,) = operands_of(op)
    elem, count = f.type_text(op.properties["elem_type"]), f.names[n]
    space = llvm.address_space(op.results[0].type)
    where = f", addrspace({space})" if space else ""
    # A known number of elements is an array, which LLVM splits into registers.
    what = elem if count == "1" else f"[{count} x {elem}]" if count.isdigit() else f"{elem}, {f.typed(n)}"
    (result,) = op.results
    f.names[result] = f.assign(f"alloca {what}{align_of(op)}{where}")


def cast_op(word: str) -> Handler:
    """What writes a conversion by its name in LLVM."""

    def handle(f: FunctionText, op: Operation) -> None:
        (a,) = operands_of(op)
        (result,) = op.results
        f.names[result] = f.cast(word, f.names[a], a.type, result.type)

    return handle


def _undef(f: FunctionText, op: Operation) -> None:
    (result,) = op.results
    f.names[result] = "poison"


def _extract_value(f: FunctionText, op: Operation) -> None:
    (s,) = operands_of(op)
    at = ", ".join(map(str, dense_ints(op.properties["position"])))
    (result,) = op.results
    f.names[result] = f.pure(f"extractvalue {f.typed(s)}, {at}")


def _insert_value(f: FunctionText, op: Operation) -> None:
    s, v = operands_of(op)
    at = ", ".join(map(str, dense_ints(op.properties["position"])))
    (result,) = op.results
    f.names[result] = f.pure(f"insertvalue {f.typed(s)}, {f.typed(v)}, {at}")


def _call_intrinsic(f: FunctionText, op: llvm.CallIntrinsicOp) -> None:
    """An intrinsic by its full LLVM name; `immarg` operands are constants, which are literals here."""
    props: Any = op.properties
    args = operands_of(op)
    count = dense_ints(props["operandSegmentSizes"])[0]
    if count != len(args):
        args = args[:count]
    name = f.spelling.intrinsic(props["intrin"].data)
    result = next(iter(op.results), None)
    if result is not None:
        made = f.instead(props["intrin"].data, result.type, [f.names[a] for a in args], [a.type for a in args])
        if made is not None:
            f.names[result] = made
            return
    t = "void" if result is None else f.type_text(result.type)
    if name not in f.module.declarations:
        f.module.declare(name, t, [f.type_text(a.type) for a in args])
    text = f"call {t} @{name}({f.typed_list(args)})"
    if result is not None:
        f.names[result] = f.assign(text + scope_of_read(f, op))
    else:
        f.line(text)


def memory_of(op: Operation) -> str | None:
    """All a call does to memory, if that is known."""
    attr = op.attributes.get(MEMORY)
    return attr.data if isinstance(attr, StringAttr) else None


def _inline_asm(f: FunctionText, op: llvm.InlineAsmOp) -> None:
    args = operands_of(op)
    result = None if op.res is None else op.res.type
    made = f.asm(
        op.asm_string.data,
        op.constraints.data,
        result,
        [f.names[a] for a in args],
        [a.type for a in args],
        memory_of(op),
        op.has_side_effects is not None,
    )
    if op.res is not None:
        f.names[op.res] = made


def _address_of(f: FunctionText, op: llvm.AddressOfOp) -> None:
    (result,) = op.results
    f.names[result] = f.abi.address_of(f, op.global_name.string_value())


MEMORY_OPS: dict[type[Operation], Handler] = {
    llvm.LoadOp: _load,
    llvm.StoreOp: _store,
    llvm.GEPOp: _gep,
    llvm.AllocaOp: _alloca,
    llvm.PtrToIntOp: cast_op("ptrtoint"),
    llvm.IntToPtrOp: cast_op("inttoptr"),
    llvm.BitcastOp: cast_op("bitcast"),
    llvm.UndefOp: _undef,
    llvm.ExtractValueOp: _extract_value,
    llvm.InsertValueOp: _insert_value,
    llvm.AtomicRMWOp: cast(Handler, _atomicrmw),
    CmpXchgOp: cast(Handler, _cmpxchg),
    FenceOp: cast(Handler, _fence),
    llvm.CallIntrinsicOp: cast(Handler, _call_intrinsic),
    llvm.InlineAsmOp: cast(Handler, _inline_asm),
    llvm.AddressOfOp: cast(Handler, _address_of),
}
"""What writes them."""
