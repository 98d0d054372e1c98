"""What a loader and the hardware read of a code object: argument layout, metadata, kernel descriptor, shared memory,
barriers, buffer descriptors; and the facts the code generator is told."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.llvm.objects.code_object import ElfFile, read_code_object

ARCHES = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201", "gfx1250")
A = np.zeros(4096, np.float32)


def info_of(artifact):
    (kernel,) = read_code_object(artifact.binary("hsaco")).kernels
    return kernel


# --- arguments ----------------------------------------------------------------------------------------------------


@flyc.kernel
def mixed_kernel(a: fx.Tensor, n: fx.Int32, x: fx.Float64, small: fx.Int8, wide: fx.Int64, m: fx.Tensor):
    i = fx.thread_idx.x
    if i < n:
        a[i] = fx.Float32(x) + fx.Float32(small) + fx.Float32(wide) + m[i, 1]


@flyc.jit
def mixed(a: fx.Tensor, n: fx.Int32, x: fx.Float64, small: fx.Int8, wide: fx.Int64, m: fx.Tensor):
    mixed_kernel(a, n, x, small, wide, m).launch(grid=1, block=64)


@pytest.mark.parametrize("arch", ARCHES)
def test_arguments(arch: str):
    """Every argument at its natural alignment, in order, and nothing behind them that no code reads."""
    matrix = flyc.from_dlpack(A.reshape(64, 64)).mark_layout_dynamic(leading_dim=1)
    artifact = flyc.compile(mixed, A, 5, 1.0, 3, 7, matrix, target=f"rocm:{arch}").artifact
    kernel = info_of(artifact)
    sizes = [arg.size for arg in kernel.args]
    kinds = [arg.value_kind for arg in kernel.args]
    assert sizes == [8, 4, 4, 8, 1, 8, 8, 16] and not any(arg.hidden for arg in kernel.args)
    assert kinds == [*["global_buffer"], *["by_value"] * 5, "global_buffer", "by_value"]
    assert [arg.offset for arg in kernel.args] == [0, 8, 12, 16, 24, 32, 40, 48]
    assert kernel.kernarg_size == 64 and kernel.kernarg_align == 8
    # What the launch side believes is the same.
    recorded = artifact.kernels[0].get("parameters")
    if recorded is not None:
        assert [(p["offset"], p["size"]) for p in recorded] == [(arg.offset, arg.size) for arg in kernel.args]


@flyc.kernel
def sizes_kernel(a: fx.Tensor):
    i = fx.block_idx.x * fx.block_dim.x + fx.thread_idx.x
    a[i] = fx.Float32(fx.grid_dim.y + fx.block_dim.y)


@flyc.jit
def unknown_sizes(a: fx.Tensor, t: fx.Int32):
    sizes_kernel(a).launch(grid=(4, 2), block=(t, 2))


@pytest.mark.parametrize("arch", ARCHES)
def test_hidden_arguments(arch: str):
    """Sizes that are not known come behind the arguments, and the code reads them where the metadata says."""
    artifact = flyc.compile(unknown_sizes, A, 64, target=f"rocm:{arch}").artifact
    kernel = info_of(artifact)
    hidden = {arg.value_kind: arg.offset for arg in kernel.args if arg.hidden}
    first = hidden["hidden_block_count_x"]
    assert first == 16 and hidden["hidden_block_count_y"] == first + 4
    assert hidden["hidden_group_size_x"] == first + 12 and hidden["hidden_group_size_y"] == first + 14
    assert kernel.kernarg_size >= first + 256
    assert not {"hidden_hostcall_buffer", "hidden_heap_v1", "hidden_queue_ptr", "hidden_multigrid_sync_arg"} & {*hidden}
    loads = {int(offset, 0) for offset in re.findall(r"s_load_\w+ \S+, s\[\d+:\d+\], (0x[0-9a-f]+)", artifact.asm)}
    assert first + 4 in loads or first in loads
    assert first + 12 in loads


@flyc.jit
def known_sizes(a: fx.Tensor):
    sizes_kernel(a).launch(grid=(4, 2), block=(64, 2))


@pytest.mark.parametrize("arch", ARCHES)
def test_metadata(arch: str):
    wave = 64 if arch.startswith("gfx9") else 32
    kernel = info_of(flyc.compile(known_sizes, A, target=f"rocm:{arch}").artifact)
    assert (kernel.wavefront_size, kernel.max_flat_workgroup_size) == (wave, 128)
    assert (kernel.lds, kernel.scratch, kernel.uses_dynamic_stack) == (0, 0, False)
    open_size = info_of(flyc.compile(unknown_sizes, A, 64, target=f"rocm:{arch}").artifact)
    assert open_size.max_flat_workgroup_size == 1024


# --- kernel descriptor --------------------------------------------------------------------------------------------


def descriptor(hsaco: bytes, symbol: str) -> bytes:
    elf = ElfFile(hsaco)
    found = next(s for s in elf.symbols(11) if s.name == symbol)  # SHT_DYNSYM
    section = next(s for s in elf.sections if s.addr <= found.value < s.addr + s.size and s.addr)
    at = found.value - section.addr
    return elf.content(section)[at : at + 64]


@pytest.mark.parametrize("arch", ARCHES)
def test_kernel_descriptor(arch: str):
    """The fields the packet processor reads, at their offsets."""
    artifact = flyc.compile(staged, A, target=f"rocm:{arch}").artifact
    kernel = info_of(artifact)
    raw = descriptor(artifact.binary("hsaco"), kernel.symbol)
    group, private, kernarg, _, entry = struct.unpack_from("<IIIIq", raw)
    rsrc3, rsrc1, rsrc2 = struct.unpack_from("<III", raw, 44)
    (properties,) = struct.unpack_from("<H", raw, 56)
    assert (group, private, kernarg) == (kernel.lds, 0, kernel.kernarg_size) and group == 4096
    assert entry % 256 == 0 and entry != 0
    assert properties >> 3 & 1 == 1  # the address of the arguments comes in two scalar registers
    # Nothing else does: no dispatch, queue or private segment; gfx90a always gets the descriptor of scratch memory.
    assert properties & 0b1110111 == (arch == "gfx90a")
    assert (properties >> 10 & 1) == (not arch.startswith("gfx9"))  # wave32
    said = int(re.search(r"\.amdhsa_user_sgpr_count (\d+)", artifact.asm)[1])
    assert rsrc2 >> 1 & 31 == said >= 2 and rsrc2 & 1 == 0  # user registers; no scratch
    assert rsrc2 >> 7 & 1 == 1  # the block's x index
    assert rsrc1 >> 12 & 0xF == 0 and rsrc1 >> 16 & 0xF == 0xF  # round to nearest, denormals kept
    assert ((rsrc1 & 63) + 1) * (16 if arch == "gfx1250" else 8) >= kernel.vgpr
    if arch in ("gfx90a", "gfx942", "gfx950"):
        assert ((rsrc3 & 63) + 1) * 4 >= kernel.vgpr - kernel.agpr  # where accumulation registers begin


# --- shared memory and barriers -----------------------------------------------------------------------------------


@flyc.kernel
def staged_kernel(x: fx.Tensor):
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 1024, 16]).peek()
    place = lds.view(fx.make_layout(1024, 1))
    t = fx.thread_idx.x
    place[t] = x[t]
    fx.barrier()
    x[t] = place[255 - t]


@flyc.jit
def staged(x: fx.Tensor):
    staged_kernel(x).launch(grid=1, block=256)


BARRIERS = {
    "gfx9": ("s_waitcnt lgkmcnt(0)", "s_barrier"),
    "gfx11": ("s_waitcnt lgkmcnt(0)", "s_barrier", "buffer_gl0_inv"),
    "gfx120": ("s_wait_dscnt 0x0", "s_barrier_signal -1", "s_barrier_wait -1", "global_inv scope:SCOPE_SE"),
    "gfx125": ("s_wait_dscnt 0x0", "s_barrier_signal -1", "s_barrier_wait -1"),
}


@pytest.mark.parametrize("arch", ARCHES)
def test_barrier(arch: str):
    """Writes of shared memory are waited for before the barrier, in the words of each family."""
    asm = flyc.compile(staged, A, target=f"rocm:{arch}").artifact.asm
    words = next(words for prefix, words in BARRIERS.items() if arch.startswith(prefix))
    code = re.sub(r"\s+", " ", asm)
    places = [code.find(word, code.find("ds_write" if arch.startswith("gfx9") else "ds_store")) for word in words]
    assert all(place > 0 for place in places) and places == sorted(places), (words, places)
    assert places[-1] < code.find("ds_read" if arch.startswith("gfx9") else "ds_load")


@flyc.kernel
def dynamic_kernel(x: fx.Tensor, both: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    place = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout(256, 1))
    if fx.const_expr(both):
        fixed = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 300, 16]).peek().view(fx.make_layout(300, 1))
        fixed[t] = x[t] * 2.0
        fx.barrier()
        place[t] = fixed[255 - t]
    else:
        place[t] = x[t]
    fx.barrier()
    x[t] = place[255 - t]


@flyc.jit
def dynamic(x: fx.Tensor, both: fx.Constexpr[bool]):
    dynamic_kernel(x, both).launch(grid=1, block=256, smem=1024)


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100", "gfx1250"])
def test_dynamic_shared_memory(arch: str):
    """The launch adds it: only static memory is in the metadata, and dynamic memory begins behind it."""
    alone = flyc.compile(dynamic, A, False, target=f"rocm:{arch}").artifact
    assert info_of(alone).lds == 0
    both = flyc.compile(dynamic, A, True, target=f"rocm:{arch}").artifact
    first = info_of(both).lds
    assert first == 2048  # 1200 bytes, up to the alignment of dynamic memory
    assert re.search(rf"v_\w*add\w* v\d+, {first:#x}, v|offset:{first}\b", both.asm)


# --- buffer descriptors -------------------------------------------------------------------------------------------


@flyc.kernel
def buffer_kernel(x: fx.Tensor, size: fx.Int32, bounded: fx.Constexpr[bool]):
    t = fx.rocdl.make_buffer_tensor(x, num_records_bytes=size) if bounded else fx.rocdl.make_buffer_tensor(x)
    t[fx.thread_idx.x + 1] = t[fx.thread_idx.x]


@flyc.jit
def through_buffer(x: fx.Tensor, size: fx.Int32, bounded: fx.Constexpr[bool]):
    buffer_kernel(x, size, bounded).launch(grid=1, block=64)


WORD3 = {"gfx9": (0x27000, 0x27000), "gfx11": (0x31027000, 0x21027000), "gfx120": (0x31027000, 0x21027000)}


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("bounded", [True, False])
def test_buffer_descriptor(arch: str, bounded: bool):
    """Fourth word by family; size in the third (gfx1250 packs it behind 57 bits of address)."""
    artifact = flyc.compile(through_buffer, A, 64, bounded, target=f"rocm:{arch}").artifact
    made = re.search(
        r"make\.buffer\.rsrc\S*\(ptr addrspace\(1\) \S+, i16 0, i64 (\S+), i32 (-?\d+)\)", artifact.llvm_ir
    )
    flags = int(made[2]) & 0xFFFFFFFF
    if arch == "gfx1250":
        assert flags == 0
        return
    expected = next(words for prefix, words in WORD3.items() if arch.startswith(prefix))[0 if bounded else 1]
    assert flags == expected
    assert re.search(rf"s_mov\w* s\w+, {hex(expected)}", artifact.asm), artifact.asm
    if not bounded:
        assert int(made[1]) & 0xFFFFFFFF == 0xFFFFFFFF


# --- facts for the code generator ---------------------------------------------------------------------------------


@flyc.kernel
def table_kernel(a: fx.Tensor, b: fx.Tensor, n: fx.Int32):
    for k in range(n):
        b[k * 64 + fx.thread_idx.x] = a[k] * 2.0


@flyc.jit
def table(a: fx.Tensor, b: fx.Tensor, n: fx.Int32):
    table_kernel(a, b, n).launch(grid=1, block=64)


def test_noalias_is_a_promise_of_the_caller():
    """Only then can a uniform value be read by a scalar load beside stores."""
    plain = flyc.compile(table, A, A, 8, target="rocm:gfx942").artifact
    told = flyc.compile[{"noalias": True}](table, A, A, 8, target="rocm:gfx942").artifact
    assert "noalias" not in plain.llvm_ir and told.optimized_ir.count("noalias") >= 2
    assert "global_load_dword" in plain.asm and "global_load_dword" not in told.asm
    on_cuda = flyc.compile[{"noalias": True}](table, A, A, 8, target="cuda:sm_90a").artifact
    assert on_cuda.optimized_ir.count("noalias") >= 2


@flyc.kernel
def hinted_kernel(a: fx.Tensor, b: fx.Tensor):
    i = fx.thread_idx.x
    p, q = fx.get_iter(a) + i, fx.get_iter(b) + i
    value = fx.generic_load(p, dtype=fx.Float32, nontemporal=True)
    fx.generic_store(q, value, nontemporal=True)


@flyc.jit
def hinted(a: fx.Tensor, b: fx.Tensor):
    hinted_kernel(a, b).launch(grid=1, block=64)


@pytest.mark.parametrize(("arch", "word"), [("gfx942", " nt"), ("gfx90a", " glc slc"), ("gfx1201", "th:TH_LOAD_NT")])
def test_nontemporal(arch: str, word: str):
    artifact = flyc.compile(hinted, A, A, target=f"rocm:{arch}").artifact
    assert artifact.llvm_ir.count("!nontemporal") == 2
    assert word in re.search(r"global_load_\S+ .*", artifact.asm)[0]


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_attributes(arch: str):
    artifact = flyc.compile(known_sizes, A, target=f"rocm:{arch}").artifact
    text = artifact.llvm_ir
    for name in ("dispatch-ptr", "queue-ptr", "dispatch-id", "hostcall-ptr", "heap-ptr", "multigrid-sync-arg"):
        assert f'"amdgpu-no-{name}"' in text
    assert '"amdgpu-flat-work-group-size"="128,128"' in text and '"uniform-work-group-size"="true"' in text
    assert "call range(i32 0, 64) i32 @llvm.amdgcn.workitem.id.x()" in text
    assert re.search(r"store float .*, align 4", text)
