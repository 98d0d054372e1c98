"""The whole `llvm` dialect: xDSL's ops where they are upstream's, ours where they lack something."""

from __future__ import annotations

from xdsl.dialects import llvm as xllvm
from xdsl.ir import Attribute, Dialect, Operation

from .. import llvm
from .atomics import LLVM_ATOMIC_OPS
from .attrs import LLVM_ATTRS
from .branches import LLVM_BRANCH_OPS
from .choices import LLVM_CHOICE_OPS
from .constrained import CONSTRAINED_OPS
from .debug import LLVM_DEBUG_ATTRS
from .function import LLVM_FUNCTION_OPS, FunctionType
from .imported import KEPT_ATTRS, ModuleFlagAttr, ModuleFlagsOp
from .intrinsics import INTRINSIC_OPS
from .struct import StructType
from .values import LLVM_VALUE_OPS

_OPS: list[type[Operation]] = [
    llvm.ExtractValueOp,
    llvm.InsertValueOp,
    llvm.MemcpyOp,
    llvm.AtomicRMWOp,
    llvm.GEPOp,
    llvm.LoadOp,
    llvm.StoreOp,
    *LLVM_FUNCTION_OPS,
    *LLVM_ATOMIC_OPS,
    *LLVM_VALUE_OPS,
    *LLVM_CHOICE_OPS,
    *LLVM_BRANCH_OPS,
    *INTRINSIC_OPS.values(),
    *CONSTRAINED_OPS,
    ModuleFlagsOp,
]
_ATTRS: list[type[Attribute]] = [StructType, FunctionType, *LLVM_ATTRS, *LLVM_DEBUG_ATTRS, ModuleFlagAttr, *KEPT_ATTRS]
_ours = {x.name for x in (*_OPS, *_ATTRS)}

LLVM = Dialect(
    "llvm",
    [*(op for op in xllvm.LLVM.operations if op.name not in _ours), *_OPS],
    [*(a for a in xllvm.LLVM.attributes if a.name not in _ours), *_ATTRS],
)
