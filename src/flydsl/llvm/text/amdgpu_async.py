"""Copies into shared memory that nothing waits for but `wait_asyncmark` (gfx9).

LLVM 22 lacks the intrinsics of later versions: it takes the copies for ordinary ones and waits for all of them before
the next read of shared memory. Two things make them asynchronous. Reads of shared memory get an alias scope, after
which LLVM inserts no waits on account of copies; and the marks become waits for a count of memory operations. The count
must not be too large: every group holds at least the smallest number of copies that stand before any mark of the
kernel, so the youngest n groups hold at least n times as many. Other memory operations in between only make the wait
stricter.
"""

from __future__ import annotations

import re

from .module_text import ModuleText

MARK = "llvm.amdgcn.asyncmark"
WAIT = "llvm.amdgcn.wait.asyncmark"
_COPY = re.compile(r"@llvm\.amdgcn\.(?:raw\.ptr\.buffer\.load\.lds|global\.load\.lds)\(")
_READ = re.compile(r"^  %\S+ = (?:load .*\bptr addrspace\(3\) |call .*@llvm\.amdgcn\.ds\.read\.tr)")
_WAIT = re.compile(rf"  call void @{re.escape(WAIT)}\(i16 (\d+)\)")
_LABEL = re.compile(r"\w+:$")
_MOST = 63
"""The largest count `s_waitcnt` can express."""
_SCOPE = ("!8100 = distinct !{!8100}", "!8101 = distinct !{!8101, !8100}", "!8102 = !{!8101}")


def _smallest_group(lines: list[str]) -> int:
    """Copies that certainly stand before a mark: those in its own basic block, behind the mark before it."""
    found: list[int] = []
    count = 0
    for line in lines:
        if f"@{MARK}()" in line:
            found.append(count)
            count = 0
        elif _LABEL.match(line):
            count = 0
        elif _COPY.search(line):
            count += 1
    return min(found, default=0)


def _wait(count: int) -> list[str]:
    """Wait for vector memory operations, and let the compiler move no access of memory across."""
    code = count & 15 | 7 << 4 | 15 << 8 | (count >> 4) << 14
    return [
        '  fence syncscope("wavefront") release',
        f"  call void @llvm.amdgcn.s.waitcnt(i32 {code})",
        '  fence syncscope("wavefront") acquire',
    ]


def resolve(text: ModuleText) -> None:
    """Rewrite the function written last, if it marks copies."""
    used = [name for name in (MARK, WAIT) if name in text.declarations]
    if not used:
        return
    lines = text.functions[-1].split("\n")
    each = _smallest_group(lines)
    made: list[str] = []
    for line in lines:
        wait = _WAIT.match(line)
        if wait is not None:
            made += _wait(min(int(wait[1]) * each, _MOST))
        elif f"@{MARK}()" not in line:
            made.append(f"{line}, !alias.scope !8102" if _READ.match(line) else line)
    text.functions[-1] = "\n".join(made)
    for name in used:
        del text.declarations[name]
    text.declare("llvm.amdgcn.s.waitcnt", "void", ["i32"])
    if _SCOPE[0] not in text.footer:
        text.footer += _SCOPE
