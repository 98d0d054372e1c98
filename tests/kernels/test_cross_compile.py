"""The same kernels for AMD and NVIDIA on a machine with neither: the artifacts are valid."""

from __future__ import annotations

import pytest

import flydsl.compiler as flyc
from flydsl.llvm import tools
from flydsl.llvm.objects import code_object, ptx

NAMES = ["vector_add", "predicated_add", "tiled_copy", "tiled_mma"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("arch", ["gfx942", "gfx90a", "gfx950", "gfx1100", "gfx1201"])
def test_rocm(name: str, arch: str, example):
    function, args = example(name).compile_args()
    artifact = flyc.compile(function, *args, target=f"rocm:{arch}").artifact
    assert "!fly.memref" in artifact.source_ir and f"func.func @{name}" in artifact.source_ir
    assert "amdgpu_kernel" in artifact.llvm_ir
    assert f"{name}_kernel_0:" in artifact.asm and "s_endpgm" in artifact.asm
    code = code_object.read_code_object(artifact.binary("hsaco"))
    assert code.linked and arch in code.target_id
    (kernel,) = code.kernels
    assert kernel.name == f"{name}_kernel_0" and kernel.symbol == f"{name}_kernel_0.kd"
    assert kernel.wavefront_size == (32 if arch.startswith("gfx1") else 64)
    assert kernel.vgpr_spill == 0 and kernel.scratch == 0
    explicit = [a for a in kernel.args if not a.hidden]
    assert len(explicit) == artifact.kernels[0]["arguments"]
    assert artifact.kernels[0]["registers"] == kernel.vgpr
    assert [a.value_kind for a in explicit][0] == "global_buffer"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_cuda(name: str, arch: str, example):
    function, args = example(name).compile_args()
    artifact = flyc.compile(function, *args, target=f"cuda:{arch}").artifact
    text = artifact.binary("ptx").decode()
    assert artifact.asm == text
    assert ptx.ptx_kernels(text) == [f"{name}_kernel_0"]
    assert ptx.ptx_header(text).target == arch
    assert ".reqntid" in text
    if tools.try_find_tool("ptxas") is None:
        pytest.skip("no ptxas on this machine")
    cubin, log = ptx.assemble(text, arch)
    assert cubin[:4] == b"\x7fELF"
    assert ptx.parse_log(log)[f"{name}_kernel_0"].spill_stores == 0


def test_vector_memory_operations(example):
    """A 128-bit copy is one wide load and one wide store on both GPUs, if the arguments promise the alignment."""
    import numpy as np

    import flydsl.expr as fx

    @flyc.kernel
    def copy_kernel(src: fx.Tensor, dst: fx.Tensor, tiled: fx.TiledCopy):
        mine = tiled.get_slice(fx.thread_idx.x)
        tile = (None, None, fx.block_idx.x, 0)
        read = mine.partition_S(fx.flat_divide(src, tiled.tile_mn)[tile])
        write = mine.partition_D(fx.flat_divide(dst, tiled.tile_mn)[tile])
        registers = fx.make_fragment_like(read)
        atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
        fx.copy(atom, read, registers)
        fx.copy(atom, registers, write)

    @flyc.jit
    def copy(src: fx.Tensor, dst: fx.Tensor):
        atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
        tiled = fx.make_tiled_copy_tv(atom, fx.make_layout((4, 16), (16, 1)), fx.make_layout((1, 4), (4, 1)))
        copy_kernel(src, dst, tiled).launch(grid=src.shape.unpack()[0] // 4, block=64)

    src = np.random.default_rng().standard_normal((12, 64)).astype(np.float32)
    dst = np.zeros_like(src)
    wide, narrow = (
        [flyc.from_dlpack(x, assumed_align=align).mark_layout_dynamic(divisibility=4) for x in (src, dst)]
        for align in (16, 4)
    )
    copy(*wide)
    np.testing.assert_array_equal(src, dst)
    amd = flyc.compile(copy, *wide, target="rocm:gfx942").artifact.asm
    assert amd.count("global_load_dwordx4") == 1 and amd.count("global_store_dwordx4") == 1
    nvidia = flyc.compile(copy, *wide, target="cuda:sm_90a").artifact.asm
    assert nvidia.count(".v4.b32") == 2
    split = flyc.compile(copy, *narrow, target="cuda:sm_90a").artifact.asm
    assert ".v4" not in split and split.count("ld.global.b32") == 4
