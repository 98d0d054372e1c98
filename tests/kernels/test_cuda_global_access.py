"""Loads and stores of global memory with advice for the caches: every form that exists is taken by `ptxas`, no other
can be made, and wherever it runs the data is the same."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.dialects.fly_nvgpu.global_access import Access, instruction, problem
from flydsl.errors import DSLCompileError
from flydsl.llvm import tools
from flydsl.llvm.objects import ptx

L1 = [None, "evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate"]
EVICT = [None, "normal", "unchanged", "first", "last"]


def loads() -> list[dict[str, Any]]:
    every = itertools.product([False, True], [None, "ca", "cg", "cs", "lu"], L1, [None, 64, 128, 256], EVICT)
    names = ("read_only", "cache", "l1", "l2_prefetch", "evict")
    return [dict(zip(names, x, strict=True)) for x in every]


def stores() -> list[dict[str, Any]]:
    every = itertools.product([None, "wb", "cg", "cs", "wt"], L1, EVICT)
    return [dict(zip(("cache", "l1", "evict"), x, strict=True)) for x in every]


def legal(options: dict[str, Any], load: bool) -> bool:
    """The rules of the PTX manual, said another way: one way of caching, and no last use of what is read-only."""
    both = options["cache"] is not None and options["l1"] is not None
    return not both and not (load and options["read_only"] and options["cache"] == "lu")


def test_rules():
    for load, every in ((True, loads()), (False, stores())):
        for options in every:
            assert (problem(Access(128, **options), load=load) is None) == legal(options, load), options


LOADS = [x for x in loads() if legal(x, True)]
STORES = [x for x in stores() if legal(x, False)]


def all_forms(width: int, elem: Any, forms: list[dict[str, Any]]):
    """A jit function with these loads, and stores in turn."""
    count = width // elem.width

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        at = fx.get_iter(x) + fx.thread_idx.x * count
        to = fx.get_iter(y) + fx.thread_idx.x * count
        for i, options in enumerate(forms):
            value = fx.nvgpu.load_global(at + i * 1024, count, **options)
            fx.nvgpu.store_global(to + i * 1024, value, **STORES[i % len(STORES)])

    @flyc.jit
    def function(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=1, block=32)

    return function


@pytest.mark.parametrize(
    ("width", "elem", "dtype", "suffix"),
    [
        (8, fx.Uint8, "u1", ".b8"),
        (16, fx.Float16, "f2", ".b16"),
        (32, fx.Float32, "f4", ".b32"),
        (64, fx.Float16, "f2", ".v2.b32"),
        (64, fx.Float64, "f8", ".b64"),
        (128, fx.Float32, "f4", ".v4.b32"),
        (128, fx.Float64, "f8", ".v2.b64"),
    ],
)
def test_every_form_assembles(width: int, elem: Any, dtype: str, suffix: str):
    x = np.zeros(4, dtype)
    # All of them once, and with other widths all stores and as many loads, which have every word among them.
    forms = LOADS if suffix == ".v4.b32" else LOADS[:: len(LOADS) // len(STORES)]
    text = flyc.compile(all_forms(width, elem, forms), x, x, target="cuda:sm_80").artifact.asm
    for options, load in (*((o, True) for o in forms), *((o, False) for o in STORES)):
        wanted = f"{instruction(Access(width, **options), load=load)}{suffix} "
        assert wanted in text.replace("\t", " "), wanted
    assert all(text.count(f"createpolicy.fractional.L2::evict_{x}.b64") == 1 for x in EVICT[1:])
    if tools.try_find_tool("ptxas") is None:
        pytest.skip("ptxas, which would assemble every form, was not found")
    ptx.assemble(text)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fx.nvgpu.LoadGlobal(96), "moves 8, 16, 32, 64 or 128 bits, got 96"),
        (lambda: fx.nvgpu.LoadGlobal("128"), "bits, got '128'"),
        (lambda: fx.nvgpu.LoadGlobal(32, cache="wb"), "LoadGlobal: cache is one of 'ca', 'cg', 'cs', 'lu', got 'wb'"),
        (lambda: fx.nvgpu.LoadGlobal(32, cache="cv"), r"fx.generic_load\(..., volatile=True\)"),
        (lambda: fx.nvgpu.LoadGlobal(32, read_only=True, cache="lu"), "read-only data is one of 'ca', 'cg', 'cs', got"),
        (lambda: fx.nvgpu.LoadGlobal(32, l1="first"), "l1 is one of 'evict_normal', .*'no_allocate', got 'first'"),
        (lambda: fx.nvgpu.LoadGlobal(32, l2_prefetch=32), "l2_prefetch is one of 64, 128, 256, got 32"),
        (lambda: fx.nvgpu.LoadGlobal(32, l2_prefetch="128"), "l2_prefetch is one of 64, 128, 256, got '128'"),
        (
            lambda: fx.nvgpu.LoadGlobal(32, evict="evict_first"),
            "evict is one of 'normal', 'unchanged', 'first', 'last'",
        ),
        (lambda: fx.nvgpu.LoadGlobal(32, cache="cg", l1="evict_last"), r"'cg'\) or an L1 priority \('evict_last'\)"),
        (lambda: fx.nvgpu.StoreGlobal(32, cache="ca"), "StoreGlobal: cache is one of 'wb', 'cg', 'cs', 'wt', got 'ca'"),
        (lambda: fx.nvgpu.StoreGlobal(256), "StoreGlobal moves 8, 16, 32, 64 or 128 bits, got 256"),
    ],
)
def test_what_does_not_exist(make: Any, message: str):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("made", [lambda: fx.nvgpu.StoreGlobal(32, read_only=True), lambda: fx.nvgpu.LoadGlobal()])
def test_unknown_words(made: Any):
    with pytest.raises(TypeError):
        made()


THREADS, ROWS = 64, 4


def tiled(load: Any, store: Any, elem: Any, count: int):
    """Rows of units, copied with a predicate in the last tile and through registers."""

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor, units: fx.Int32, copy: fx.TiledCopy):
        mine = copy.get_slice(fx.thread_idx.x)
        source, target = (
            mine.partition_S(fx.flat_divide(t, (ROWS * THREADS, count))[None, None, fx.block_idx.x, 0]) for t in (x, y)
        )
        registers = fx.make_fragment_like(source)
        registers.fill(0)
        pred = fx.make_rmem_tensor((1, ROWS, 1), fx.Boolean)
        for i in fx.range_constexpr(ROWS):
            pred[0, i, 0] = (fx.block_idx.x * ROWS + i) * THREADS + fx.thread_idx.x < units
        fx.copy(fx.make_copy_atom(load, elem), source, registers, pred=pred)
        fx.copy(fx.make_copy_atom(store, elem), registers, target, pred=pred)

    @flyc.jit
    def function(x: fx.Tensor, y: fx.Tensor, units: fx.Int32):
        atom = fx.make_copy_atom(load, elem)
        copy = fx.make_tiled_copy_tv(atom, fx.make_layout((THREADS, 1), (1, 1)), fx.make_layout((1, count), (1, 1)))
        kernel(x, y, units, copy).launch(grid=fx.ceildiv(units, ROWS * THREADS), block=THREADS)

    return function


FORMS = [
    ({"read_only": True}, {}),
    ({"read_only": True, "l1": "no_allocate", "l2_prefetch": 256, "evict": "first"}, {"cache": "cs"}),
    ({"cache": "cg"}, {"l1": "evict_last", "evict": "last"}),
    ({"cache": "lu", "l2_prefetch": 64, "evict": "unchanged"}, {"cache": "wt", "evict": "normal"}),
]


@pytest.mark.parametrize(
    ("bits", "elem", "dtype"),
    [
        (8, fx.Int8, torch.int8),
        (16, fx.BFloat16, torch.bfloat16),
        (32, fx.Float8E4M3FN, torch.float8_e4m3fn),
        (64, fx.Int32, torch.int32),
        (128, fx.Float64, torch.float64),
        (128, fx.Float16, torch.float16),
    ],
)
def test_copies(bits: int, elem: Any, dtype: torch.dtype, rng: np.random.Generator, device: str):
    count = bits // elem.width
    for from_, to in FORMS:
        units = int(rng.integers(1, 3 * ROWS * THREADS))
        x = torch.from_numpy(rng.integers(-100, 100, (units, count))).to(torch.float32).to(dtype).to(device)
        whole = torch.full((units + 8, count), 77).to(torch.float32).to(dtype).to(device)
        function = tiled(fx.nvgpu.LoadGlobal(bits, **from_), fx.nvgpu.StoreGlobal(bits, **to), elem, count)
        # The views end where the data does; the predicate keeps the last tile inside.
        args = [flyc.from_torch_tensor(t, assumed_align=16).mark_layout_dynamic(1) for t in (x, whole)]
        function(*args, units)
        assert torch.equal(whole[:units].view(torch.uint8), x.view(torch.uint8)), (from_, to, units)
        assert bool((whole[units:].float() == torch.tensor(77.0).to(dtype).float().to(device)).all())


@flyc.kernel
def single_kernel(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor):
    i = fx.thread_idx.x
    rows = fx.flat_divide(x, (1, 16))
    wide = fx.nvgpu.load_global(rows[0, None, i, 0], read_only=True, cache="cg")  # 64 bytes: four accesses
    fx.nvgpu.store_global(fx.flat_divide(y, (1, 16))[0, None, i, 0], wide * 2.0, l1="evict_first")
    one = fx.nvgpu.load_global(fx.get_iter(x) + i * 16 + 3, evict="last")
    fx.nvgpu.store_global(fx.get_iter(z) + i, one + 1.0, cache="wb")


@flyc.jit
def single(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor):
    single_kernel(x, y, z).launch(grid=1, block=32)


def test_vectors_and_scalars(rng: np.random.Generator, device: str):
    x = torch.from_numpy(rng.standard_normal((32, 16))).float().to(device)
    y, z = torch.full_like(x, float("nan")), torch.full((32,), float("nan")).to(device)
    single(*(flyc.from_torch_tensor(t, assumed_align=16) for t in (x, y)), z)
    assert torch.equal(y, 2 * x) and torch.equal(z, x[:, 3] + 1)


@flyc.kernel
def once_kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32):
    at = fx.get_iter(x)
    total = fx.Float32(0.0)
    for _ in range(n):
        fx.nvgpu.load_global(at + 64, read_only=True, l1="evict_last")  # nobody asks for it
        total = total + fx.nvgpu.load_global(at, read_only=True, l1="no_allocate")
    total = total + fx.nvgpu.load_global(at + 32, cache="cg")
    fx.nvgpu.store_global(at + 32, total, cache="cg")
    total = total + fx.nvgpu.load_global(at + 32, cache="cg")
    y[0] = total + fx.nvgpu.load_global(at, read_only=True, l1="no_allocate")


@flyc.jit
def once(x: fx.Tensor, y: fx.Tensor, n: fx.Int32):
    once_kernel(x, y, n).launch(grid=1, block=32)


def test_the_compiler_knows_what_they_do():
    """Read-only data is read once and not in a loop; other reads stay between the writes around them."""
    x = np.zeros(128, "f4")
    text = flyc.compile(once, x, x, 3, target="cuda:sm_90").artifact.asm
    assert "evict_last" not in text
    assert text.count("ld.global.nc.L1::no_allocate.b32") <= 2  # before the loop, and where it is not entered
    order = [line.split()[0] for line in text.splitlines() if "global.cg" in line]
    assert order == ["ld.global.cg.b32", "st.global.cg.b32", "ld.global.cg.b32"]


def test_read_only_alone_needs_no_assembly():
    x = np.zeros((32, 16), "f4")
    function = tiled(fx.nvgpu.LoadGlobal(128, read_only=True), fx.nvgpu.StoreGlobal(128), fx.Float32, 4)
    artifact = flyc.compile(function, x, x, 8, target="cuda:sm_80").artifact
    assert "ld.global.nc.v4.b32" in artifact.asm and " asm " not in artifact.llvm_ir


@pytest.mark.parametrize("target", ["cuda:sm_90", "rocm:gfx942"])
def test_pass_by_pass(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Through the `llvm` dialect the accesses are the same as in one walk."""
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    x, found = np.zeros((256, 4), "f4"), []
    for dump in ("0", "1"):
        monkeypatch.setenv("FLYDSL_DUMP_IR", dump)
        monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
        load, store = fx.nvgpu.LoadGlobal(128, **FORMS[1][0]), fx.nvgpu.StoreGlobal(128, evict="last")
        function = tiled(load, store, fx.Float32, 4)
        text = flyc.compile(function, x, x, 8, target=target).artifact.asm
        words = [line.split()[0] for line in text.splitlines() if line.startswith("\t") and line.split()]
        found.append(sorted(w for w in words if w.startswith(("ld.global", "st.global", "createpolicy", "global_"))))
    assert found[0] == found[1] and len(found[0]) >= 2 * ROWS


@pytest.mark.parametrize(
    ("arch", "load", "store"), [("gfx942", " nt", " nt"), ("gfx1201", "TH_LOAD_NT", "TH_STORE_NT")]
)
def test_amd(arch: str, load: str, store: str):
    """The same source: what streams is told so, the rest are plain accesses."""
    x = np.zeros((256, 4), "f4")
    streaming = tiled(
        fx.nvgpu.LoadGlobal(128, cache="cs", l2_prefetch=128), fx.nvgpu.StoreGlobal(128, evict="first"), fx.Float32, 4
    )
    lines = [
        line
        for line in flyc.compile(streaming, x, x, 8, target=f"rocm:{arch}").artifact.asm.splitlines()
        if "global_load" in line or "global_store" in line
    ]
    assert len(lines) == 2 * ROWS and all((load if "load" in line else store) in line for line in lines)
    plain = tiled(
        fx.nvgpu.LoadGlobal(128, read_only=True, cache="cg"), fx.nvgpu.StoreGlobal(128, cache="wb"), fx.Float32, 4
    )
    artifact = flyc.compile(plain, x, x, 8, target=f"rocm:{arch}").artifact
    assert "!invariant.load" in artifact.llvm_ir and "!nontemporal" not in artifact.llvm_ir


def _use(body: Any) -> None:
    @flyc.kernel
    def kernel(x: fx.Tensor):
        body(x)

    @flyc.jit
    def function(x: fx.Tensor):
        kernel(x).launch(grid=1, block=32)

    flyc.compile(function, np.zeros((32, 8), "f4"), target="cuda:sm_80")


def _from_shared(x: fx.Tensor) -> None:
    atom = fx.make_copy_atom(fx.nvgpu.LoadGlobal(32, cache="cg"), fx.Float32)
    fx.copy_atom_call(atom, fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout(1, 1)), x[0, None])


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (_from_shared, DSLCompileError, "reads global memory, got"),
        (lambda x: fx.nvgpu.load_global(fx.get_dyn_shared(fx.Float32)), TypeError, "load_global is for global memory"),
        (lambda x: fx.nvgpu.load_global(3), TypeError, "expects a pointer or a tensor in global memory, got 3"),
        (lambda x: fx.nvgpu.load_global(x[None, 0]), ValueError, "elements must lie one behind the other"),
        (lambda x: fx.nvgpu.load_global(fx.get_iter(x), 3), ValueError, "got 3 values of 32 bits"),
        (lambda x: fx.nvgpu.load_global(fx.get_iter(x), 0), ValueError, "count must be a positive number, got 0"),
        (lambda x: fx.nvgpu.load_global(fx.get_iter(x), 4, cache="x"), ValueError, "cache is one of"),
    ],
)
def test_misuse(body: Any, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        _use(body)


@pytest.mark.skipif(tools.try_find_tool("ptxas") is None, reason="needs ptxas")
def test_older_gpus_leave_out_what_they_do_not_know():
    """Policies of L2 and prefetches of 256 bytes came with sm_80."""
    forms = LOADS[::13]
    assert any(f["evict"] for f in forms) and any(f["l2_prefetch"] == 256 for f in forms)
    args = (torch.zeros(8192), torch.zeros(8192))
    text = flyc.compile(all_forms(128, fx.Float32, forms), *args, target="cuda:sm_75").artifact.asm
    ptx.assemble(text)
    assert "createpolicy" not in text and "L2::256B" not in text and "L2::128B" in text and "L1::" in text
