"""Types of the intrinsics that the cpu stack emulates, as LLVM declares them.

`result <- arguments`; an argument that ends in `=N` must be that constant. `v4i32` is a vector, `p3` a pointer, `{i32,
i32}` a struct. LLVM's verifier is asked in `test_every_name.py` whether it agrees.
"""

from __future__ import annotations

import re

SMALL = ("fp8", "bf8", "fp6", "bf6", "fp4")
BITS = {"fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4, "f32": 32, "f16": 16, "bf16": 16}
BUFFER = "i32 i32 i32=0"

ROWS: dict[str, str] = {}


def _add(row: str, *names: str) -> None:
    for name in names:
        ROWS[name] = row


_add("<- i32=0", "s.waitcnt", "s.sleep", "sched.barrier", "iglp.opt", "s.incperflevel", "s.decperflevel")
_add("<- i32", "s.sleep.var", "s.ttracedata")
_add("<- i16=0", "s.nop", "s.setprio", "s.setprio.inc.wg", "s.monitor.sleep", "s.ttracedata.imm", "wait.asyncmark")
_add("<- i16=0", *(f"s.wait.{c}cnt" for c in ("load", "store", "ds", "km", "exp", "tensor", "async", "sample", "bvh")))
_add("<- i32=0 i32=0 i32=0", "sched.group.barrier")
_add("<-", "wave.barrier", "asyncmark", "s.dcache.inv", "s.dcache.wb", "buffer.wbinvl1", "buffer.wbinvl1.vol",
     "s.barrier", "s.cluster.barrier")  # fmt: skip
_add("<- p1 i32=0", "global.prefetch")
_add("<- p0 i32=0", "flat.prefetch")
_add("<- i32=-1", "s.barrier.signal")
_add("i1 <- i32=-1", "s.barrier.signal.isfirst")
_add("<- i16=-1", "s.barrier.wait")
_add("i32 <-", *(f"{what}.{d}" for what in ("workitem.id", "workgroup.id", "cluster.id", "cluster.workgroup.id",
     "cluster.workgroup.max.id") for d in "xyz"), "cluster.workgroup.flat.id", "cluster.workgroup.max.flat.id",
     "wavefrontsize", "wave.id", "s.get.waveid.in.workgroup")  # fmt: skip
_add("i64 <-", "s.memtime", "s.memrealtime")

# Lanes.
_add("i32 <- i32 i32", "ds.bpermute", "ds.permute", "wave.shuffle.i32", "mbcnt.lo", "mbcnt.hi")
_add("i32 <- i32 i32=1055", "ds.swizzle")
_add("i32 <- i32", "readfirstlane.i32", "permlane64.i32")
_add("f32 <- f32", "strict.wwm.f32", "strict.wqm.f32", "wqm.f32", "wwm.f32", "softwqm.f32")
_add("i32 <- i32 i32", "readlane.i32", "set.inactive.i32")
_add("i32 <- i32 i32 i32", "writelane.i32")
_add("i32 <- i32 i32=177 i32=15 i32=15 i1=1", "mov.dpp.i32")
_add("i32 <- i32 i32=7", "mov.dpp8.i32")
_add("i32 <- i32 i32 i32=177 i32=15 i32=15 i1=0", "update.dpp.i32")
_add("i32 <- i32 i32 i32 i32 i1=0 i1=0", "permlane16.i32", "permlanex16.i32")
_add("i32 <- i32 i32 i32 i1=0 i1=0", "permlane16.var", "permlanex16.var")
_add("{i32,i32} <- i32 i32 i1=0 i1=0", "permlane16.swap", "permlane32.swap")
_add("i64 <- i1", "ballot.i64")
_add("i1 <- i64", "inverse.ballot.i64")
_add("i64 <- i32 i32 i32=33", "icmp.i64.i32")
_add("i64 <- f32 f32 i32=4", "fcmp.i64.f32")
_add("i32 <- i32 i32=0", *(f"wave.reduce.{k}.i32" for k in ("add", "and", "or", "xor", "min", "max", "umin", "umax")))
_add("f32 <- f32 i32=0", *(f"wave.reduce.{k}.f32" for k in ("fadd", "fmin", "fmax")))

# Memory.
_add("p8 <- p1 i16 i64 i32", "make.buffer.rsrc.p8.p1")
for _ptr, _rsrc in (("", "v4i32"), ("ptr.", "p8")):
    _add(f"f32 <- {_rsrc} {BUFFER}", f"raw.{_ptr}buffer.load.f32")
    _add(f"<- f32 {_rsrc} {BUFFER}", f"raw.{_ptr}buffer.store.f32")
    for _kind in ("smax", "smin", "umax", "umin", "add", "sub", "and", "or", "xor", "swap", "inc", "dec"):
        _add(f"i32 <- i32 {_rsrc} {BUFFER}", f"raw.{_ptr}buffer.atomic.{_kind}.i32")
    for _kind in ("fadd", "fmax", "fmin"):
        _add(f"f32 <- f32 {_rsrc} {BUFFER}", f"raw.{_ptr}buffer.atomic.{_kind}.f32")
    _add(f"i32 <- i32 i32 {_rsrc} {BUFFER}", f"raw.{_ptr}buffer.atomic.cmpswap.i32")
    _add(f"<- {_rsrc} p3 i32=4 i32 i32 i32=0 i32=0", f"raw.{_ptr}buffer.load.lds", f"raw.{_ptr}buffer.load.async.lds")
_add("i32 <- v4i32 i32 i32=0", "s.buffer.load.i32")
_add("i32 <- p8 i32 i32=0", "ptr.s.buffer.load.i32")
_add("<- p1 i32", "s.prefetch.data.p1")
_add("<- p8 i32=0 i32", "s.buffer.prefetch.data")
_add("f32 <- p1 f32", *(f"global.atomic.{k}.num.f32.p1.f32" for k in ("fmin", "fmax")))
_add("f32 <- p0 f32", *(f"flat.atomic.{k}.num.f32.p0.f32" for k in ("fmin", "fmax")))
_add("<- p1 p3 i32=4 i32=0 i32=0", "global.load.lds", "global.load.async.lds", "load.to.lds.p1",
     "load.async.to.lds.p1")  # fmt: skip
for _w in ("b8", "b32", "b64", "b128"):
    _add("<- p1 p3 i32=0 i32=0", f"global.load.async.to.lds.{_w}", f"global.store.async.from.lds.{_w}")
    _add("<- p1 p3 i32=0 i32=0 i32", f"cluster.load.async.to.lds.{_w}")
_add("<- v4i32 v8i32 v4i32 v4i32 i32=0", "tensor.load.to.lds", "tensor.store.from.lds")
_add("<- v4i32 v8i32 i32=0", "tensor.load.to.lds.d2", "tensor.store.from.lds.d2")
_add("v2i32 <- p3", "ds.read.tr4.b64.v2i32", "ds.read.tr8.b64.v2i32")
_add("v3i32 <- p3", "ds.read.tr6.b96.v3i32")
_add("v4i16 <- p3", "ds.read.tr16.b64.v4i16")

# Arithmetic.
_add("f32 <- f32", *(f"{k}.f32" for k in ("exp2", "log", "sqrt", "rsq", "rcp", "sin", "cos", "tanh", "fract",
     "frexp.mant", "rsq.clamp")), "log.clamp.f32")  # fmt: skip
_add("i32 <- f32", "frexp.exp.i32.f32")
_add("i1 <- f32 i32", "class.f32")
_add("f32 <- f32 f32 f32", "fmed3.f32", "fma.legacy")
_add("f32 <- f32 f32", "fmul.legacy")
_add("i32 <- i32 i32 i32", "perm", "alignbyte", "ubfe.i32", "sbfe.i32", "sad.u8", "msad.u8", "lerp")
_add("i32 <- i32 i32 i32 i32=150", "bitop3.i32")
_add("i32 <- i32 i32", "mul.i24.i32", "mul.u24.i32", "mulhi.i24", "mulhi.u24")
_add("i32 <- i32", "sffbh.i32", "prng.b32")
_add("i32 <- i32 i32 i32 i1=0", *(f"{s}dot{n}" for s in "su" for n in (4, 8)),
     *(f"add.{w}.{t}32" for w in ("max", "min") for t in "iu"))  # fmt: skip
_add("i32 <- v2i16 v2i16 i32 i1=0", "sdot2", "udot2")
_add("i32 <- i1=1 i32 i1=0 i32 i32 i1=0", "sudot4", "sudot8")
_add("f32 <- v2f16 v2f16 f32 i1=0", "fdot2")
_add("f16 <- v2f16 v2f16 f16", "fdot2.f16.f16")
_add("bf16 <- v2bf16 v2bf16 bf16", "fdot2.bf16.bf16")
_add("f32 <- v2bf16 v2bf16 f32 i1=0", "fdot2.f32.bf16", "fdot2c.f32.bf16")
_add("f32 <- i32 i32 f32", *(f"dot4.f32.{a}.{b}" for a in ("fp8", "bf8") for b in ("fp8", "bf8")))

# Conversions.
_add("v2f16 <- f32 f32", "cvt.pkrtz")
_add("v2i16 <- i32 i32", "cvt.pk.i16", "cvt.pk.u16")
_add("v2i16 <- f32 f32", "cvt.pknorm.i16", "cvt.pknorm.u16")
_add("i32 <- f32 i32 i32", "cvt.pk.u8.f32")
_add("f32 <- i32", "cvt.off.f32.i4")
for _w in ("fp8", "bf8"):
    _add("i32 <- f32 f32 i32 i1=1", f"cvt.pk.{_w}.f32")
    _add("v2f32 <- i32 i1=1", f"cvt.pk.f32.{_w}")
    _add("i16 <- v2f16", f"cvt.pk.{_w}.f16")
    _add("v2f16 <- i16", f"cvt.pk.f16.{_w}")
    _add("f32 <- i32 i32=2", f"cvt.f32.{_w}")
    _add("f16 <- i32 i32=2", f"cvt.f16.{_w}")
    _add("i32 <- f32 i32 i32 i32=1", f"cvt.sr.{_w}.f32")
    _add("i32 <- f16 i32 i32 i32=1", f"cvt.sr.{_w}.f16")


def _vector(elem: str, count: int) -> str:
    return f"v{count}{elem}"


def _packed(elem: str, count: int) -> str:
    words = BITS[elem] * count // 32
    return "i32" if words == 1 else f"v{words}i32"


def _scaled() -> None:
    for wide in ("f32", "f16", "bf16"):
        for small in SMALL:
            stem = "cvt.scalef32"
            if small in ("fp8", "bf8"):
                _add(f"{_vector(wide, 2)} <- i32 f32 i1=1", f"{stem}.pk.{wide}.{small}")
                given = "f32 f32" if wide == "f32" else _vector(wide, 2)
                _add(f"v2i16 <- v2i16 {given} f32 i1=1", f"{stem}.pk.{small}.{wide}")
                _add(f"i32 <- i32 {wide} i32 f32 i32=2", f"{stem}.sr.{small}.{wide}")
                if wide == "f32":
                    _add("f32 <- i32 f32 i32=1", f"{stem}.f32.{small}")
                if wide == "f16":
                    _add("v2f16 <- v2f16 i32 f32 i32=1 i1=1", f"{stem}.f16.{small}")
            if small == "fp4":
                _add(f"{_vector(wide, 2)} <- i32 f32 i32=3", f"{stem}.pk.{wide}.fp4")
                given = "f32 f32" if wide == "f32" else _vector(wide, 2)
                _add(f"i32 <- i32 {given} f32 i32=1", f"{stem}.pk.fp4.{wide}")
                _add(f"i32 <- i32 {_vector(wide, 2)} i32 f32 i32=1", f"{stem}.sr.pk.fp4.{wide}")
            if small in ("fp6", "bf6"):
                _add(f"{_vector(wide, 32)} <- v6i32 f32", f"{stem}.pk32.{wide}.{small}")
                if wide != "f32":
                    _add(f"v6i32 <- {_vector(wide, 32)} f32", f"{stem}.pk32.{small}.{wide}")
                else:
                    _add("v6i32 <- v16f32 v16f32 f32", f"{stem}.2xpk16.{small}.f32")
                _add(f"v6i32 <- {_vector(wide, 32)} i32 f32", f"{stem}.sr.pk32.{small}.{wide}")
            count = 16 if small in ("fp6", "bf6") else 8
            _add(f"{_packed(small, count)} <- {_vector(wide, count)} f32", f"{stem}.pk{count}.{small}.{wide}")
            _add(f"{_packed(small, count)} <- {_vector(wide, count)} i32 f32", f"{stem}.sr.pk{count}.{small}.{wide}")


_scaled()

NOT_IN_LLVM = re.compile(
    r"(ptr\.s\.buffer\.load|asyncmark|wait\.asyncmark|raw\.(ptr\.)?buffer\.load\.async\.lds|global\.load\.async\.lds|"
    r"load\.async\.to\.lds|wave\.shuffle).*"
)
"""Names that a newer LLVM has, or FlyDSL's."""

NVIDIA: dict[str, str] = {
    **{f"read.ptx.sreg.{r}.{d}": "i32 <-" for r in ("tid", "ntid", "ctaid", "nctaid") for d in "xyz"},
    **{f"read.ptx.sreg.{r}": "i32 <-" for r in ("laneid", "warpid", "nwarpid", "warpsize", "smid", "nsmid", "clock")},
    **{f"read.ptx.sreg.lanemask.{k}": "i32 <-" for k in ("eq", "lt", "le", "gt", "ge")},
    "read.ptx.sreg.clock64": "i64 <-",
    "read.ptx.sreg.globaltimer": "i64 <-",
    **{f"shfl.sync.{k}.i32": "i32 <- i32 i32 i32 i32" for k in ("bfly", "up", "down", "idx")},
    **{f"shfl.sync.{k}.f32": "f32 <- i32 f32 i32 i32" for k in ("bfly", "up", "down", "idx")},
    **{f"shfl.sync.{k}.i32p": "{i32,i1} <- i32 i32 i32 i32" for k in ("bfly", "up", "down", "idx")},
    **{f"vote.{k}.sync": "i1 <- i32 i1" for k in ("any", "all", "uni")},
    "vote.ballot.sync": "i32 <- i32 i1",
    "activemask": "i32 <-",
    "match.any.sync.i32": "i32 <- i32 i32",
    **{f"redux.sync.{k}": "i32 <- i32 i32" for k in ("add", "min", "max", "umin", "umax", "and", "or", "xor")},
    "bar.warp.sync": "<- i32",
    "barrier.cta.sync.aligned.all": "<- i32=0",
    "barrier.cta.sync.all": "<- i32=0",
    **{f"membar.{k}": "<-" for k in ("cta", "gl", "sys")},
    **{f"{k}.approx.f": "f32 <- f32" for k in ("sqrt", "rsqrt", "sin", "cos")},
    "rcp.approx.ftz.f": "f32 <- f32",
    "lg2.approx.f": "f32 <- f32",
    "fma.rn.f": "f32 <- f32 f32 f32",
    "saturate.f": "f32 <- f32",
    "prmt": "i32 <- i32 i32 i32",
    "mulhi.i": "i32 <- i32 i32",
    "mulhi.ui": "i32 <- i32 i32",
    "ff2bf16x2.rn": "v2bf16 <- f32 f32",
    "ff2f16x2.rn": "v2f16 <- f32 f32",
    "cp.async.commit.group": "<-",
    "cp.async.wait.group": "<- i32=0",
    "cp.async.wait.all": "<-",
    "cp.async.cg.shared.global.16": "<- p3 p1",
}
"""The same for `llvm.nvvm.*`."""


def parts(row: str) -> tuple[str, list[tuple[str, int | None]]]:
    """The result and the arguments of a row."""
    result, _, rest = row.partition("<-")
    found: list[tuple[str, int | None]] = []
    for word in rest.split():
        type_, _, number = word.partition("=")
        found.append((type_, int(number) if number else None))
    return result.strip(), found
