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
_PAIRS = ("fp8_fp8", "fp8_bf8", "bf8_fp8", "bf8_bf8")
_SPARSE = [
    *(f"f32.{shape}.{t}" for shape in ("16x16x32", "32x32x16", "16x16x64", "32x32x32") for t in ("f16", "bf16")),
    *(f"i32.{shape}.i8" for shape in ("16x16x64", "32x32x32", "16x16x128", "32x32x64")),
    *(
        f"f32.{shape}.{pair.replace('_', '.')}"
        for shape in ("16x16x64", "32x32x32", "16x16x128", "32x32x64")
        for pair in _PAIRS
    ),
]
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
    _dots(op)
    _conversions(op)
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
    for name in ("permlane16.var", "permlanex16.var"):
        op(name, "% %i32 %i32 #fi:i1 #boundControl:i1 | func")
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
    for kind in ("tr16.b128", "tr8.b64", "tr4.b64", "tr6.b96"):
        op(f"ds.load.{kind}", "% | arrow", f"llvm.amdgcn.ds.load.{kind}.{{r}}")
    for kind in ("tr.b128", "tr.b64", "tr4.b64", "tr6.b96"):
        op(f"global.load.{kind}", "% | arrow", f"llvm.amdgcn.global.load.{kind}.{{r}}")
    for bits in ("b8", "b32", "b64", "b128"):
        op(f"global.store.async.from.lds.{bits}", "% % #offset:i32 #aux:i32 | in")
    op("load.async.to.lds", "% % #size:i32 #offset:i32 #aux:i32 | in", "llvm.amdgcn.load.async.to.lds.{0}")
    op("ptr.s.buffer.load", "%ptr8 %i32 #aux:i32 | res", "llvm.amdgcn.ptr.s.buffer.load.{r}")
    op("raw.buffer.load", "%v4i32 %i32 %i32 #aux:i32 | res", "llvm.amdgcn.raw.buffer.load.{r}")
    op("raw.buffer.store", "% %v4i32 %i32 %i32 #aux:i32 | val", "llvm.amdgcn.raw.buffer.store.{0}")
    for kind in ("fadd", "fmax", "smax", "umin"):
        name = f"raw.buffer.atomic.{kind}"
        op(name, "% %v4i32 %i32 %i32 #aux:i32 | same", f"llvm.amdgcn.{name}.{{0}}")
    op("raw.buffer.atomic.cmpswap", "% % %v4i32 %i32 %i32 #aux:i32 | same", "llvm.amdgcn.raw.buffer.atomic.cmpswap.{0}")
    op(
        "raw.ptr.buffer.atomic.cmpswap",
        f"% % {_BUFFER} #aux:i32 | same",
        "llvm.amdgcn.raw.ptr.buffer.atomic.cmpswap.{0}",
    )
    op("global.prefetch", "% scope~scope:i32 | in")


def _schedule(op: Callable[..., None]) -> None:
    for name in ("s.barrier", "asyncmark", "wave.barrier"):
        op(name, "|")
    op("s.barrier.signal.isfirst", "id=id:i32 | gives")
    op("s.barrier.leave", "id=id:i16 |")
    op("s.get.barrier.state", "id=id:i32 | gives")
    for name in ("s.barrier.join", "s.wakeup.barrier"):
        op(name, "% | in")
    op("s.get.named.barrier.state", "% | arrow")
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
    integers = {"pure": True, "extras": ("signA", "signB", "clamp"), "call": "signA 0 signB 1 2 clamp"}
    for kind in ("16x16x16.iu8", "16x16x16.iu4", "16x16x32.iu4"):
        op(f"wmma.i32.{kind}", "% % % | func", f"llvm.amdgcn.wmma.i32.{kind}.{{r}}.{{0}}", **integers)
    op(
        "wmma.i32.16x16x64.iu8",
        "% % % | func",
        "llvm.amdgcn.wmma.i32.16x16x64.iu8.{r}.{0}",
        pure=True,
        extras=("signA", "signB", "reuseA", "reuseB", "clamp"),
        call="signA 0 signB 1 2 reuseA reuseB clamp",
    )
    for kind in ("f16", "bf16"):
        name = f"wmma.{kind}.16x16x16.{kind}"
        op(name, "% % % | func", f"llvm.amdgcn.{name}.{{r}}.{{0}}", pure=True, extras=("opsel",), call="0 1 2 opsel")
    for pair in _PAIRS:
        name = f"wmma.f32.16x16x16.{pair}"
        op(name, "% % % | func", f"llvm.amdgcn.{name.replace('_', '.')}.{{r}}.{{0}}", pure=True)
    reuse = ("reuseA", "reuseB")
    for name in ("f32.16x16x4.f32", "f32.16x16x32.f16", "f32.16x16x32.bf16", "f16.16x16x32.f16", "bf16.16x16x32.bf16"):
        op(
            f"wmma.{name}",
            "% % % modC=modC:i16:MODIFIERS | func",
            f"llvm.amdgcn.wmma.{name}.{{r}}.{{0}}",
            pure=True,
            extras=reuse,
            call="=0 0 =0 1 modC 2 reuseA reuseB",
        )
    for name in (f"{acc}.16x16x{k}.{pair}" for acc in ("f32", "f16") for k in (64, 128) for pair in _PAIRS):
        op(
            f"wmma.{name}",
            "% % % modC=modC:i16:MODIFIERS | func",
            f"llvm.amdgcn.wmma.{name.replace('_', '.')}.{{r}}.{{0}}",
            pure=True,
            extras=reuse,
            call="0 1 modC 2 reuseA reuseB",
        )
    for name in _SPARSE:
        op(f"smfmac.{name}", "% % % %i32 #cbsz:i32 #abid:i32 | func", pure=True)
    scales = (
        "fmtA=fmtA:i32:FORMATS fmtB=fmtB:i32:FORMATS modC=modC:i16:MODIFIERS scaleAType=scaleAType:i32:ROWS "
        "fmtScaleA=fmtScaleA:i32:SCALES scaleBType=scaleBType:i32:ROWS fmtScaleB=fmtScaleB:i32:SCALES"
    )
    for kind in ("scale", "scale16"):
        name = f"wmma.{kind}.f32.16x16x128.f8f6f4"
        call = "fmtA 0 fmtB 1 modC 2 scaleAType fmtScaleA 3 scaleBType fmtScaleB 4 =0 =0"
        op(name, f"% % % % % {scales} | func", f"llvm.amdgcn.{name}.{{r}}.{{0}}.{{1}}", pure=True, call=call)


def _dots(op: Callable[..., None]) -> None:
    for name in ("sdot2", "sdot4", "sdot8", "udot2", "udot4", "udot8", "fdot2", "fdot2.f32.bf16"):
        op(name, "% % % | func", pure=True, extras=("clamp",), call="0 1 2 clamp")
    for name in ("sudot4", "sudot8"):
        op(name, "% % % | func", pure=True, extras=("signA", "signB", "clamp"), call="signA 0 signB 1 2 clamp")
    for name in ("fdot2.f16.f16", "fdot2.bf16.bf16", *(f"dot4.f32.{pair.replace('_', '.')}" for pair in _PAIRS)):
        op(name, "% % % | func", pure=True)


def _conversions(op: Callable[..., None]) -> None:
    """Small formats, scaled or rounded at random; what becomes part of a word is written behind the word's arrow."""
    for small in ("fp8", "bf8"):
        op(f"cvt.f32.{small}", "%i32 '[' #byteSel:i32 ']' | res", pure=True)
        op(f"cvt.sr.{small}.f32", "%f32 %i32 '->' %i32 '[' #byteSel:i32 ']' | res", pure=True)
    for wide in ("f32", "f16", "bf16"):
        pair, two = f"%v2{wide}", "%f32 %f32" if wide == "f32" else f"%v2{wide}"
        count = len(two.split())
        for small in ("fp8", "bf8", "fp6", "bf6", "fp4"):
            start = "cvt.scalef32"
            half, part = "#dstLoHiSel:i1", "#dstSelIndex:i32"
            if small in ("fp8", "bf8"):
                form = "%i32 '[' #srcLoHiSel:i1 '],' %f32 | res"
                op(f"{start}.pk.{wide}.{small}", form, pure=True, call="0 1 srcLoHiSel")
                _into(op, f"{start}.pk.{small}.{wide}", f"{two} %f32", "%v2i16", half, count + 1)
                _into(op, f"{start}.sr.{small}.{wide}", f"%{wide} %i32 %f32", "%i32", part, 3)
            elif small == "fp4":
                form = "%i32 '[' #srcSelIndex:i32 '],' %f32 | res"
                op(f"{start}.pk.{wide}.fp4", form, pure=True, call="0 1 srcSelIndex")
                _into(op, f"{start}.pk.fp4.{wide}", f"{two} %f32", "%i32", part, count + 1)
                _into(op, f"{start}.sr.pk.fp4.{wide}", f"{pair} %i32 %f32", "%i32", part, 3)
            else:
                op(f"{start}.pk32.{wide}.{small}", "%v6i32 %f32 | res", pure=True)
                if wide != "f32":
                    op(f"{start}.pk32.{small}.{wide}", f"%v32{wide} %f32 | res", pure=True)
                op(f"{start}.sr.pk32.{small}.{wide}", f"%v32{wide} %i32 %f32 | res", pure=True)
            lanes = 16 if small in ("fp6", "bf6") else 8
            op(f"{start}.pk{lanes}.{small}.{wide}", f"%v{lanes}{wide} %f32 | res", pure=True)
            op(f"{start}.sr.pk{lanes}.{small}.{wide}", f"%v{lanes}{wide} %i32 %f32 | res", pure=True)
            words = {"fp4": "%i32", "fp8": "%v2i32", "bf8": "%v2i32"}.get(small, "%v3i32")
            form = f"{words} %i32 '[' #scaleSel:i32 ']' | res"
            op(f"cvt.scale.pk{lanes}.{wide}.{small}", form, pure=True)
    for small in ("fp6", "bf6"):
        op(f"cvt.scalef32.2xpk16.{small}.f32", "%v16f32 %v16f32 %f32 | res", pure=True)
    for small in ("fp8", "bf8"):
        op(f"cvt.scalef32.f32.{small}", "%i32 '[' #srcSelIndex:i32 '],' %f32 | res", pure=True, call="0 1 srcSelIndex")
        op(
            f"cvt.scalef32.f16.{small}",
            "%i32 '[' #srcSelIndex:i32 '],' %f32 '->' %v2f16 '[' #dstLoHiSel:i1 ']' | res",
            pure=True,
            order=(1, 2, 0),
            call="0 1 2 srcSelIndex dstLoHiSel",
        )


def _into(op: Callable[..., None], name: str, given: str, old: str, where: str, count: int) -> None:
    """A conversion into a part of the first operand, which the text has last."""
    key = where[1:].split(":")[0]
    numbers = range(1, count + 1)
    call = " ".join(["0", *map(str, numbers), key])
    op(name, f"{given} '->' {old} '[' {where} ']' | res", pure=True, order=(*numbers, 0), call=call)


OPS = _ops()
"""Every op of the dialect."""
ROCDL_OPS: dict[str, type[TableOp]] = {op.name.removeprefix("rocdl."): op for op in OPS}
"""The ops by their names without the dialect's."""

_all: list[type[Operation]] = [*OPS]
Rocdl = Dialect("rocdl", _all, [RocdlTargetAttr])

__all__ = ["ROCDL_OPS", "Rocdl", "RocdlTargetAttr"]
