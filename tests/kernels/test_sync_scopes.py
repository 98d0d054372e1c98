"""Scopes of atomics and fences: portable names become each vendor's, unknown ones are refused before LLVM sees them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLCompileError, DSLValueError
from flydsl.target.scopes import AMD, NVIDIA

STACKS = {"rocm:gfx942": AMD, "rocm:gfx1250": AMD, "cuda:sm_90": NVIDIA, "cpu:gfx942": AMD, "cpu:sm_90": NVIDIA}


def _function(scopes: list[Any]) -> Any:
    @flyc.kernel
    def kernel(x: fx.Tensor):
        for scope in fx.range_constexpr(len(scopes)):
            fx.atomic_add(fx.get_iter(x), 1, syncscope=scopes[scope])
            fx.memory_fence(syncscope=scopes[scope])
            fx.generic_load(fx.get_iter(x), memory_order=fx.AtomicOrdering.Monotonic, syncscope=scopes[scope])
            fx.atomic_cas(fx.get_iter(x), 0, 1, syncscope=scopes[scope])
            register = fx.make_rmem_tensor(1, fx.Int32)
            register.fill(1)
            atom = fx.make_copy_atom(fx.UniversalAtomicAdd(fx.Int32, scopes[scope]), fx.Int32)
            fx.copy(atom, register, fx.make_view(fx.get_iter(x), fx.make_layout(1, 1)))

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(grid=1, block=1)

    return run


PORTABLE = [fx.SyncScope.System, fx.SyncScope.Device, fx.SyncScope.Block, fx.SyncScope.Warp, fx.SyncScope.SingleThread]


@pytest.mark.parametrize("target", STACKS)
def test_every_scope_of_a_target_compiles(target: str):
    text = flyc.compile(_function([*PORTABLE, *sorted(STACKS[target])]), np.zeros(4, "i4"), target=target).artifact
    words = {"rocm": ("agent", "workgroup", "wavefront"), "cuda": ("device", "block")}.get(target.split(":")[0], ())
    for word in words:
        assert f'syncscope("{word}")' in text.llvm_ir
    assert "warp" not in text.llvm_ir.replace("gpu.warp", "") or target.startswith("cpu")


@pytest.mark.parametrize(
    ("scope", "target"),
    [("galaxy", target) for target in (*STACKS, "cpu:native")]
    + [("agent", "cuda:sm_90"), ("workgroup", "cpu:sm_90"), ("cta", "rocm:gfx942"), ("Device", "rocm:gfx1100")],
)
def test_unknown_scopes_are_refused(scope: str, target: str):
    with pytest.raises(DSLValueError, match=f"unknown syncscope '{scope}'"):
        flyc.compile(_function([scope]), np.zeros(4, "i4"), target=target)


def test_an_atom_is_refused_at_its_line():
    @flyc.kernel
    def kernel(x: fx.Tensor):
        register = fx.make_rmem_tensor(1, fx.Int32)
        register.fill(1)
        atom = fx.make_copy_atom(fx.UniversalAtomicAdd(fx.Int32, "galaxy"), fx.Int32)
        fx.copy(atom, register, fx.make_view(fx.get_iter(x), fx.make_layout(1, 1)))

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(grid=1, block=1)

    with pytest.raises((DSLValueError, DSLCompileError), match="galaxy") as caught:
        flyc.compile(run, np.zeros(4, "i4"), target="rocm:gfx942")
    told = str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
    assert "test_sync_scopes.py" in told


_ORDERED = {
    fx.AtomicOrdering.Monotonic: ["atom"],
    fx.AtomicOrdering.Acquire: ["atom", "fence.acq_rel"],
    fx.AtomicOrdering.Release: ["fence.acq_rel", "atom"],
    fx.AtomicOrdering.AcqRel: ["fence.acq_rel", "atom", "fence.acq_rel"],
    fx.AtomicOrdering.SeqCst: ["fence.sc", "atom", "fence.acq_rel"],
}


def _one(function: Any, ordering: fx.AtomicOrdering, scope: fx.SyncScope) -> Any:
    @flyc.kernel
    def kernel(x: fx.Tensor):
        old = function(fx.get_iter(x), x.dtype(fx.thread_idx.x), ordering=ordering, syncscope=scope)
        x[fx.thread_idx.x + 1] = old

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(grid=1, block=32)

    return run


@pytest.mark.parametrize("dtype", ["i4", "u8", "f4"])
@pytest.mark.parametrize("word", ["add", "max", "xchg", "sub"])
def test_ptx_keeps_orderings_and_scopes(word: str, dtype: str):
    """LLVM's own `atom` of a read-modify-write has neither."""
    function, scopes = getattr(fx, f"atomic_{word}"), {"Block": "cta", "Device": "gpu", "System": "sys"}
    for ordering, wanted in _ORDERED.items():
        for scope, spelled in scopes.items():
            run = _one(function, ordering, getattr(fx.SyncScope, scope))
            asm = flyc.compile(run, np.zeros(40, dtype), target="cuda:sm_90a").artifact.asm
            found = re.findall(r"(?:fence\.(?:acq_rel|sc)|atom)\.[\w.]+", asm)
            assert [x.rpartition(f".{spelled}")[0] if x.startswith("fence") else "atom" for x in found] == wanted
            if scope == "System":
                assert all(".sys" in x for x in found)
