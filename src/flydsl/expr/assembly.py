"""Assembly of the target inside a kernel, and LLVM intrinsics by name: text the compiler cannot check.

LLVM ends the process it runs in when it cannot make code of such text, so a kernel that uses it is compiled in a worker
process and a mistake comes back as an exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import DSLTypeError, DSLValueError
from .emit.trace import current
from .numeric import as_dsl_value, as_numeric, is_ir_value
from .vector import Vector

if TYPE_CHECKING:
    from .annotations import Attribute, ElementLike, SSAValue, ValueLike


def inline_asm(
    result: ElementLike | Sequence[ElementLike] | None,
    operands: Sequence[ValueLike],
    text: str,
    constraints: str,
    *,
    has_side_effects: bool = True,
) -> Any:
    """Run one or more instructions of the target; the arguments are those of MLIR's `llvm.inline_asm`.

    `result` is a scalar class, a vector alias, an IR type, a tuple of those for several results, or None. `constraints`
    is LLVM's list: outputs (`=v`), inputs (`v`, or the number of an output), clobbers (`~{memory}`). `$0`, `$1` ... in
    the text stand for them in order. Without `has_side_effects` the call may be moved, shared or left out.

    >>> flyc.evaluate(lambda x: fx.inline_asm(fx.Int32, [x], "", "=r,0"), 4)  # no text: the input as it is
    4
    """
    values = [_value(x) for x in operands]
    several = isinstance(result, (tuple, list))
    classes = list(result) if isinstance(result, (tuple, list)) else [] if result is None else [result]
    types = [_type(t) for t in classes]
    _check(text, constraints, len(values), len(types))
    from .emit import inline_asm_ir

    note_raw_text()
    made = inline_asm_ir.emit(text, constraints, values, types, has_side_effects)
    found = tuple(as_dsl_value(v, t if isinstance(t, type) else None) for v, t in zip(made, classes, strict=True))
    return found if several else found[0] if found else None


def llvm_intrinsic(result: ElementLike | None, name: str, operands: Sequence[ValueLike]) -> Any:
    """Call an LLVM intrinsic by its full name: `llvm_intrinsic(fx.Int32, "llvm.ctpop.i32", [x])`.

    >>> flyc.evaluate(lambda x: fx.llvm_intrinsic(fx.Int32, "llvm.ctpop.i32", [x]), 255)
    8
    """
    if not name.startswith("llvm."):
        raise DSLValueError(f"an intrinsic has a name that starts with 'llvm.', got {name!r}")
    values = [_value(x) for x in operands]
    from .emit import inline_asm_ir

    note_raw_text()
    made = inline_asm_ir.emit_intrinsic(name, values, None if result is None else _type(result))
    return None if made is None else as_dsl_value(made, result if isinstance(result, type) else None)


def note_raw_text() -> None:
    """Tell the compilation that LLVM will see text nobody checked."""
    for function in current().functions:
        if hasattr(function, "raw_text"):
            function.raw_text = True


def _value(x: ValueLike) -> SSAValue:
    if is_ir_value(x):  # pointers and structs have no class
        return x
    return x.ir_value() if isinstance(x, Vector) else as_numeric(x).ir_value()


def _type(ty: Any) -> Attribute:
    found = getattr(ty, "ir_type", ty)
    if found is None or isinstance(found, (str, int, float)):
        raise DSLTypeError(f"the result of inline assembly is a scalar class, a vector alias or an IR type, got {ty!r}")
    return found


def _check(text: str, constraints: str, operands: int, results: int) -> None:
    if not isinstance(text, str) or not isinstance(constraints, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"assembly and constraints are text, got {text!r} and {constraints!r}")
    parts = [part.strip() for part in constraints.split(",") if part.strip()]
    outputs = sum(part.startswith("=") and not part.startswith("=*") for part in parts)
    inputs = sum(not part.startswith(("=", "~", "!")) or part.startswith("=*") for part in parts)
    if outputs != results:
        raise DSLValueError(
            f"the constraints {constraints!r} have {outputs} outputs, but {results} results are asked for"
        )
    if inputs != operands:
        raise DSLValueError(f"the constraints {constraints!r} have {inputs} inputs, but {operands} operands are given")


__all__ = ["inline_asm", "llvm_intrinsic", "note_raw_text"]
