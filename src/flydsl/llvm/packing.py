"""Whether LLVM may find scalar operations that a GPU does several at a time: its SLP vectoriser is for these alone.

It is the most expensive pass of the middle end after the combiner, a tenth of all for a matrix product, whose
operations are vectors and matrix instructions already. What decides is the text that LLVM is given, whoever wrote it.
"""

from __future__ import annotations

import re

from flydsl.target import architecture

_BINARY = r"(?:f(?:add|sub|mul|div|rem|neg|cmp)|add|sub|mul|shl|[al]shr|and|x?or|icmp|select [^,]*,)[a-z ]*"
_INTRINSIC = r"(?:tail )?call [^@\n]*@llvm\.(?!amdgcn\.|nvvm\.)[a-z0-9_.]*"
_NARROW = re.compile(rf"= (?:{_BINARY} (?:half|bfloat|i16|i8) |{_INTRINSIC}\.(?:b?f16|i16|i8)\()")
_NARROW_OR_F32 = re.compile(rf"= (?:{_BINARY} (?:half|bfloat|i16|i8|float) |{_INTRINSIC}\.(?:b?f16|i16|i8|f32)\()")


def may_pack(ir_text: str, cpu: str) -> bool:
    """Whether there are two scalar operations of a type that a GPU has packed instructions for.

    Those are types of at most 16 bits everywhere, which share a register, and f32 where there is `v_pk_fma_f32`.

    >>> two = "%a = fadd float %x, %y\\n%b = fadd float %x, %z\\n"
    >>> may_pack(two, "gfx942"), may_pack(two, "sm_90a"), may_pack(two.replace("float", "half"), "sm_90a")
    (True, False, True)
    """
    entry = architecture(cpu)
    wanted = _NARROW if entry is not None and "packed_f32" not in entry.features else _NARROW_OR_F32
    first = wanted.search(ir_text)
    return first is not None and wanted.search(ir_text, first.end()) is not None
