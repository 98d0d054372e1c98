"""Small hand-written LLVM IR modules for the tests of this folder."""

from __future__ import annotations

import pytest

from flydsl.llvm import tools

AMDGPU_TAIL = """
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.s.barrier()
attributes #0 = { "amdgpu-flat-work-group-size"="256,256" }
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 600}
"""

SIMPLE = """
target triple = "amdgcn-amd-amdhsa"
@lds = internal addrspace(3) global [256 x float] poison, align 16
define protected amdgpu_kernel void @rotate(ptr addrspace(1) %a, <{ i32, i64, float }> %s) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %k = extractvalue <{ i32, i64, float }> %s, 0
  %f = extractvalue <{ i32, i64, float }> %s, 2
  %p = getelementptr float, ptr addrspace(1) %a, i32 %t
  %l = getelementptr float, ptr addrspace(3) @lds, i32 %t
  %v = load float, ptr addrspace(1) %p
  store float %v, ptr addrspace(3) %l
  call void @llvm.amdgcn.s.barrier()
  %x = xor i32 %t, %k
  %i = and i32 %x, 255
  %m = getelementptr float, ptr addrspace(3) @lds, i32 %i
  %w = load float, ptr addrspace(3) %m
  %r = fadd float %w, %f
  store float %r, ptr addrspace(1) %p
  ret void
}
"""

# Globals reached through the GOT, one of them initialised with an address; a table in mergeable read-only data.
GLOBALS = """
target triple = "amdgcn-amd-amdhsa"
source_filename = "globals.py"
@table = internal unnamed_addr addrspace(4) constant [4 x i32] [i32 1, i32 3, i32 5, i32 7], align 4
@counter = addrspace(1) global i32 42, align 4
@zeros = addrspace(1) global [4 x i32] zeroinitializer, align 64
@pointer = addrspace(1) global ptr addrspace(1) @counter, align 8
define amdgpu_kernel void @read(ptr addrspace(1) %a) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %m = and i32 %t, 3
  %tp = getelementptr i32, ptr addrspace(4) @table, i32 %m
  %v = load i32, ptr addrspace(4) %tp
  %g = load i32, ptr addrspace(1) @counter
  %h = load i32, ptr addrspace(1) @zeros
  %q = load ptr addrspace(1), ptr addrspace(1) @pointer
  %z = load i32, ptr addrspace(1) %q
  %x = add i32 %v, %g
  %y = add i32 %x, %h
  %w = add i32 %y, %z
  store i32 %w, ptr addrspace(1) %a
  ret void
}
define amdgpu_kernel void @write(ptr addrspace(1) %a, i32 %k) #0 {
  store i32 %k, ptr addrspace(1) %a
  ret void
}
"""

# A constant table of addresses (relative dynamic relocations), hidden and protected variables, a called function.
ADDRESSES = """
target triple = "amdgcn-amd-amdhsa"
@pair = internal unnamed_addr addrspace(4) constant [2 x ptr addrspace(1)] [ptr addrspace(1) @p, ptr addrspace(1) @h]
@p = protected addrspace(1) global i32 42, align 4
@h = hidden addrspace(1) global i32 43, align 4
@big = internal unnamed_addr addrspace(4) constant [9 x i32] [i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8,
  i32 9], align 4
@dynamic = external addrspace(3) global [0 x i32]
define void @helper(ptr addrspace(1) %p, i32 %v) noinline {
  store volatile i32 %v, ptr addrspace(1) %p
  ret void
}
define amdgpu_kernel void @follow(ptr addrspace(1) %a, i32 %k) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %m = and i32 %t, 1
  %tp = getelementptr ptr, ptr addrspace(4) @pair, i32 %m
  %v = load ptr addrspace(1), ptr addrspace(4) %tp
  %x = load i32, ptr addrspace(1) %v
  %bp = getelementptr i32, ptr addrspace(4) @big, i32 %m
  %b = load i32, ptr addrspace(4) %bp
  %d = getelementptr i32, ptr addrspace(3) @dynamic, i32 %t
  store i32 %b, ptr addrspace(3) %d
  %y = add i32 %x, %b
  store i32 %y, ptr addrspace(1) @p
  call void @helper(ptr addrspace(1) %a, i32 %y)
  ret void
}
"""


def _kernel(name: str) -> str:
    return f"""define amdgpu_kernel void @{name}(ptr addrspace(1) %a) #0 {{
  store i32 {len(name)}, ptr addrspace(1) %a
  ret void
}}
"""


# Enough symbols for several hash buckets and filter words.
MANY = 'target triple = "amdgcn-amd-amdhsa"\n' + "".join(_kernel(f"kernel_{'x' * n}{n}") for n in range(23))

CASES = {"simple": SIMPLE, "globals": GLOBALS, "addresses": ADDRESSES, "many": MANY}


@pytest.fixture(params=CASES, ids=str)
def amdgpu_ir(request: pytest.FixtureRequest) -> str:
    """Each of the modules in turn."""
    return CASES[request.param] + AMDGPU_TAIL


@pytest.fixture
def simple_ir() -> str:
    return SIMPLE + AMDGPU_TAIL


@pytest.fixture
def globals_ir() -> str:
    return GLOBALS + AMDGPU_TAIL


@pytest.fixture
def addresses_ir() -> str:
    return ADDRESSES + AMDGPU_TAIL


@pytest.fixture
def constants_ir() -> str:
    """Two equal and one different mergeable constants: lld keeps two of them, the built-in linker all."""
    kernel = """
define amdgpu_kernel void @pick(ptr addrspace(1) %a, i32 %i) #0 {
  %p = getelementptr i32, ptr addrspace(4) @a, i32 %i
  %q = getelementptr i32, ptr addrspace(4) @b, i32 %i
  %r = getelementptr i32, ptr addrspace(4) @c, i32 %i
  %x = load i32, ptr addrspace(4) %p
  %y = load i32, ptr addrspace(4) %q
  %z = load volatile i32, ptr addrspace(4) %r
  %s = add i32 %x, %y
  %t = add i32 %s, %z
  store i32 %t, ptr addrspace(1) %a
  ret void
}
"""
    tables = "".join(
        f"@{name} = internal unnamed_addr addrspace(4) constant [4 x i32] [i32 {first}, i32 3, i32 5, i32 7], align 4\n"
        for name, first in (("a", 1), ("b", 2), ("c", 9))
    )
    return 'target triple = "amdgcn-amd-amdhsa"\n' + tables + kernel + AMDGPU_TAIL


@pytest.fixture
def debug_ir(simple_ir: str) -> str:
    """The simple kernel with line information."""
    text = simple_ir.replace(") #0 {", ") #0 !dbg !10 {")
    text = text.replace("  ret void\n", "  ret void, !dbg !11\n").replace(
        "%r = fadd float %w, %f", "%r = fadd float %w, %f, !dbg !12"
    )
    text = text.replace("!llvm.module.flags = !{!0}", "!llvm.module.flags = !{!0, !1, !2}\n!llvm.dbg.cu = !{!3}")
    return (
        text
        + """
!1 = !{i32 2, !"Debug Info Version", i32 3}
!2 = !{i32 7, !"Dwarf Version", i32 5}
!3 = distinct !DICompileUnit(language: DW_LANG_Python, file: !4, producer: "test", emissionKind: FullDebug)
!4 = !DIFile(filename: "kernel.py", directory: "/src")
!5 = !DISubroutineType(types: !6)
!6 = !{null}
!10 = distinct !DISubprogram(name: "rotate", scope: !4, file: !4, line: 3, type: !5, unit: !3,
  spFlags: DISPFlagDefinition)
!11 = !DILocation(line: 9, scope: !10)
!12 = !DILocation(line: 7, column: 5, scope: !10)
"""
    )


@pytest.fixture
def need_tool():
    """Find a tool or skip the test."""

    def find(name: str) -> tools.Tool:
        tool = tools.try_find_tool(name)
        if tool is None:
            pytest.skip(f"{name} is not installed")
        return tool

    return find
