"""The `rocdl` dialect: AMD's instructions as ops, and `#rocdl.target`; text forms are upstream's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Dialect, Operation

from .table_ops import TableOp, define
from .target_attr import RocdlTargetAttr

_SCHEDULE = {
    "none": 0, "non_mem_non_sideeffect": 1, "valu": 2, "salu": 4, "mfma_wmma": 8, "all_vmem": 16, "vmem_read": 32,
    "vmem_write": 64, "all_ds": 128, "ds_read": 256, "ds_write": 512, "transcendental": 1024,
}  # fmt: skip
_FORMATS = {"fp8_e4m3": 0, "fp8_e5m2": 1, "fp6_e2m3": 2, "fp6_e3m2": 3, "fp4_e2m1": 4}
_NEGATE = {"none": 0, "a": 1, "b": 2, "c": 4}
_ROWS_OF_SCALES = {"row0": 0, "row1": 1}
_SCALE_FORMATS = {"e8": 0, "e5m3": 1, "e4m3": 2}
_MODIFIERS = {"none": 0, "neg": 1, "abs": 2, "neg_abs": 3}
WORDS = {
    "SCHEDULE": _SCHEDULE,
    "FORMATS": _FORMATS,
    "NEGATE": _NEGATE,
    "ROWS": _ROWS_OF_SCALES,
    "SCALES": _SCALE_FORMATS,
    "MODIFIERS": _MODIFIERS,
}
"""Words that stand for the numbers of some properties."""

_BUFFER = "%ptr8 %i32 %i32"
_IDS = [
    f"{what}.{d}"
    for what in ("workitem.id", "workgroup.id", "cluster.id", "cluster.workgroup.id", "cluster.workgroup.max.id")
    for d in "xyz"
]
_MFMA_PLAIN = """
    f32.32x32x1f32 f32.16x16x1f32 f32.4x4x1f32 f32.32x32x2f32 f32.16x16x4f32 f32.32x32x4f16 f32.16x16x4f16 f32.4x4x4f16
    f32.32x32x8f16 f32.16x16x16f16 f32.32x32x2bf16 f32.16x16x2bf16 f32.4x4x2bf16 f32.32x32x4bf16 f32.16x16x8bf16
    f32.32x32x4bf16.1k f32.16x16x4bf16.1k f32.4x4x4bf16.1k f32.32x32x8bf16.1k f32.16x16x16bf16.1k f32.16x16x32.f16
    f32.32x32x16.f16 f32.16x16x32.bf16 f32.32x32x16.bf16 i32.32x32x4i8 i32.16x16x4i8 i32.4x4x4i8 i32.32x32x8i8
    i32.16x16x16i8 i32.16x16x32.i8 i32.32x32x16.i8 i32.16x16x64.i8 i32.32x32x32.i8 f32.16x16x8.xf32 f32.32x32x4.xf32
    f64.16x16x4f64 f64.4x4x4f64
""".split()
_MFMA_FP8 = [f"f32.{s}.{a}.{b}" for s in ("16x16x32", "32x32x16") for a in ("bf8", "fp8") for b in ("bf8", "fp8")]


def _ops() -> list[type[TableOp]]:
    made: list[type[TableOp]] = []

    def op(name: str, form: str, intrinsic: str | None = None, **options: Any) -> None:
        target = f"llvm.amdgcn.{name}" if intrinsic is None else intrinsic
        made.append(define(f"rocdl.{name}", form, target, words=WORDS, **options))

    for name in _IDS:
        op(name, "range | res", pure=True)
    for d in "xyz":
        # No instruction: read from the implicit arguments.
        op(f"workgroup.dim.{d}", "range | res", "", pure=True)
        op(f"grid.dim.{d}", "range | res", "", pure=True)
    op("wavefrontsize", "| res", pure=True)
    op("wave.id", "range | res", pure=True)
    for half in ("lo", "hi"):
        op(f"mbcnt.{half}", "%i32 %i32 | func", pure=True, extras=("arg_attrs", "res_attrs"))
    _lanes(op)
    _memory(op)
    _schedule(op)
    _math(op)
    _matrix(op)
    return made


def _lanes(op: Callable[..., None]) -> None:
    op("ds_swizzle", "%i32 %i32 | func", "llvm.amdgcn.ds.swizzle")
    op("ds_bpermute", "%i32 %i32 | func", "llvm.amdgcn.ds.bpermute")
    op("readfirstlane", "% | same", "llvm.amdgcn.readfirstlane.{r}")
    op("readlane", "% %i32 | func", "llvm.amdgcn.readlane.{r}")
    op(
        "update.dpp",
        "% % 'with' #dppCtrl:i32 #rowMask:i32 #bankMask:i32 #boundCtrl:i1 | same",
        "llvm.amdgcn.update.dpp.{r}",
    )
    op("ballot", "%i1 | res", "llvm.amdgcn.ballot.{r}")
    op("permlane16.swap", "%i32 %i32 #fi:i1 #boundControl:i1 | func")
    op("permlane32.swap", "%i32 %i32 #fi:i1 #boundControl:i1 | func")


def _memory(op: Callable[..., None]) -> None:
    op("make.buffer.rsrc", "% %i16 %i64 %i32 | to", "llvm.amdgcn.make.buffer.rsrc.{r}.{0}", pure=True)
    op("raw.ptr.buffer.load", f"{_BUFFER} #aux:i32 | res", "llvm.amdgcn.raw.ptr.buffer.load.{r}")
    op("raw.ptr.buffer.store", f"% {_BUFFER} #aux:i32 | val", "llvm.amdgcn.raw.ptr.buffer.store.{0}")
    for kind in ("load.lds", "load.async.lds"):
        op(f"raw.ptr.buffer.{kind}", "%ptr8 %ptr3 %i32 %i32 %i32 %i32 #aux:i32 |")
    for kind in ("fadd", "fmax", "fmin", "smax", "smin", "umax", "umin", "add", "sub", "and", "or", "xor", "swap"):
        op(
            f"raw.ptr.buffer.atomic.{kind}",
            f"% {_BUFFER} #aux:i32 | same",
            f"llvm.amdgcn.raw.ptr.buffer.atomic.{kind}.{{0}}",
        )
    for kind in ("lds", "async.lds"):
        op(f"global.load.{kind}", "% % #size:i32 #offset:i32 #aux:i32 | in")
    for bits in ("b8", "b32", "b64", "b128"):
        op(f"global.load.async.to.lds.{bits}", "% % #offset:i32 #aux:i32 | in")
        op(f"cluster.load.async.to.lds.{bits}", "% % #offset:i32 #cpol:i32 %i32 | in")
    for kind in ("tr4.b64", "tr8.b64", "tr6.b96", "tr16.b64"):
        op(f"ds.read.{kind}", "% | short", f"llvm.amdgcn.ds.read.{kind}.{{r}}")
    for kind in ("load.to.lds", "store.from.lds"):
        op(f"tensor.{kind}", "% % %v4i32 %v4i32 %v8i32 #cachePolicy:i32 | in")
    op("global.prefetch", "% scope~scope:i32 | in")


def _schedule(op: Callable[..., None]) -> None:
    for name in ("s.barrier", "asyncmark"):
        op(name, "|")
    op("s.waitcnt", "#bitfield:i32 |")
    op("s.setprio", "#priority:i16 |")
    op("s.nop", "#count:i16 |")
    op("s.sleep", "#count:i32 |")
    op("wait.asyncmark", "#count:i16 |")
    for counter in ("loadcnt", "storecnt", "dscnt", "kmcnt", "expcnt", "tensorcnt", "asynccnt"):
        op(f"s.wait.{counter}", "#count:i16 |")
    op("s.barrier.signal", "id=id:i32 |")
    op("s.barrier.wait", "id=id:i16 |")
    op("sched.barrier", "#mask:i32:SCHEDULE |")
    op("sched.group.barrier", "#mask:i32:SCHEDULE #size:i32 #groupId:i32 |")
    op("iglp.opt", "#variant:i32 |")


def _math(op: Callable[..., None]) -> None:
    for name in ("exp2", "rcp", "rsq", "sqrt", "log", "sin", "cos", "tanh"):
        op(name, "% | bare", f"llvm.amdgcn.{name}.{{r}}", pure=True)
    op("fmed3", "% % % | same", "llvm.amdgcn.fmed3.{r}", pure=True)
    op("cvt.pkrtz", "%f32 %f32 | res", pure=True)
    for kind in ("fp8", "bf8"):
        op(f"cvt.pk.{kind}.f32", "%f32 %f32 '->' %i32 '[' #wordSel:i1 ']' | res", pure=True)
        op(f"cvt.pk.f32.{kind}", "%i32 '[' #wordSel:i1 ']' | res", pure=True)


def _matrix(op: Callable[..., None]) -> None:
    for name in (*_MFMA_PLAIN, *_MFMA_FP8):
        op(f"mfma.{name}", "% % % #cbsz:i32 #abid:i32 #blgp:i32:NEGATE | func", pure=True)
    scaled = "% % % #cbsz:i32:FORMATS #blgp:i32:FORMATS #opselA:i32 %i32 #opselB:i32 %i32 | func"
    for shape in ("16x16x128", "32x32x64"):
        name = f"mfma.scale.f32.{shape}.f8f6f4"
        op(name, scaled, f"llvm.amdgcn.{name}.{{0}}.{{1}}", pure=True)
    for kind in ("f16", "bf16"):
        op(f"wmma.f32.16x16x16.{kind}", "% % % | func", f"llvm.amdgcn.wmma.f32.16x16x16.{kind}.{{r}}.{{0}}", pure=True)
    for kind in ("iu8", "iu4"):
        op(
            f"wmma.i32.16x16x16.{kind}",
            "% % % | func",
            f"llvm.amdgcn.wmma.i32.16x16x16.{kind}.{{r}}.{{0}}",
            pure=True,
            extras=("signA", "signB", "clamp"),
        )
    scales = (
        "fmtA=fmtA:i32:FORMATS fmtB=fmtB:i32:FORMATS modC=modC:i16:MODIFIERS scaleAType=scaleAType:i32:ROWS "
        "fmtScaleA=fmtScaleA:i32:SCALES scaleBType=scaleBType:i32:ROWS fmtScaleB=fmtScaleB:i32:SCALES"
    )
    for kind in ("scale", "scale16"):
        name = f"wmma.{kind}.f32.16x16x128.f8f6f4"
        op(name, f"% % % % % {scales} | func", f"llvm.amdgcn.{name}.{{r}}.{{0}}.{{1}}", pure=True)


OPS = _ops()
"""Every op of the dialect."""
ROCDL_OPS: dict[str, type[TableOp]] = {op.name.removeprefix("rocdl."): op for op in OPS}
"""The ops by their names without the dialect's."""

_all: list[type[Operation]] = [*OPS]
Rocdl = Dialect("rocdl", _all, [RocdlTargetAttr])

__all__ = ["ROCDL_OPS", "Rocdl", "RocdlTargetAttr"]
