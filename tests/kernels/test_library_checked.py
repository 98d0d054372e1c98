"""Every kernel of the library in checked mode: nothing to report, nothing left unwritten, and extents that are refused;
and in a stream of its own, which everything waits for.

`test_library.py` compares the numbers of those that are called by themselves.
"""

from __future__ import annotations

import inspect
import os
import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from flydsl.compiler.jit_function import JitFunction
from flydsl.cpu.runtime import CpuDeviceRuntime
from flydsl.errors import FlyDSLError, KernelCheckError
from flydsl.runtime import Stream
from flydsl.runtime.device_runtime import get_device_runtime

from .library.calls import every_call, one_of_each
from .library.calls.running import Filled, mapped, not_run, run, tensors_in

EVERY = one_of_each()
CALLS = every_call()
QUICK = {name for name, call in CALLS.items() if call.quick}


@pytest.fixture(scope="module", params=EVERY)
def name(request: pytest.FixtureRequest) -> str:
    """A call: its tests follow each other, and find what has been compiled."""
    return request.param


@pytest.fixture(autouse=True)
def checked(name: str, emulate: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    emulate(CALLS[name].arch)
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")


def same(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Bit by bit."""
    return x.shape == y.shape and torch.equal(*(z.contiguous().flatten().view(torch.uint8) for z in (x, y)))


def test_nothing_to_report(name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Nor do results depend on what was in memory, nor on who looks; that is compared for calls that compile quickly,
    and for all with `--all`."""
    call, seed = CALLS[name], random.getrandbits(32)
    print(f"seed {seed}")
    first, second = run(call, seed, 0xFF), run(call, seed, 0x5A)
    runs = [second]
    if name in QUICK or os.environ.get("TEST_ALL"):
        monkeypatch.setenv("FLYDSL_CPU_CHECK", "0")
        runs.append(run(call, seed, 0x5A))
    assert not not_run(call, first.kernels)
    for other in runs:
        assert len(first.arrays) == len(other.arrays)
        for i, (x, y) in enumerate(zip(first.arrays, other.arrays, strict=True)):
            assert same(x, y), f"array {i}: {x} and {y}"


PARTLY_ON_THE_HOST = {"cross_entropy", "linear_cross_entropy", "embedding_backward"}
"""On the cpu stack these wait for their stream themselves, and are done when they return."""


def test_all_of_it_waits_for_its_stream(name: str):
    """Whatever a call launches goes to the stream that it is given, and nothing is written before; so it is with all
    that is done around the launches."""
    call, seed = CALLS[name], random.getrandbits(32)
    print(f"seed {seed}")
    if "stream" not in inspect.signature(call.make()[0]).parameters:
        pytest.skip("a function without a stream")
    wanted = run(call, seed, 0xFF).arrays
    runtime, waits = get_device_runtime(), name in PARTLY_ON_THE_HOST
    assert isinstance(runtime, CpuDeviceRuntime)
    stream, gate = Stream(), threading.Event()
    try:
        torch.manual_seed(seed)
        with Filled(0xFF):
            function, *arguments = call.make()
            given = list(tensors_in((function, arguments)))
            unchanged = [x.clone() for x in given]
            runtime.enqueue(stream.handle, gate.wait)
            if waits:
                threading.Timer(0.05, gate.set).start()
            result = function(*arguments, stream=stream)
        assert gate.is_set() == waits
        arrays = list(tensors_in((result, function, arguments)))
        if not waits:
            assert all(map(same, given, unchanged)), "an argument was written before the stream came to it"
            ours = {x.data_ptr() for x in given}
            fresh = [x.contiguous().flatten().view(torch.uint8) for x in arrays if x.data_ptr() not in ours]
            assert all((x == 0xFF).all() for x in fresh), "a result was written before the stream came to it"
        gate.set()
        stream.synchronize()
        assert len(arrays) == len(wanted)
        for i, (x, y) in enumerate(zip(arrays, wanted, strict=True)):
            assert same(x, y), f"array {i}: {x} and {y}"
    finally:
        gate.set()
        stream.close()


def is_kernel(function: Any) -> bool:
    """Whether a function is the jit function itself, not one that looks at its arguments first."""
    return isinstance(function.func if isinstance(function, partial) else function, JitFunction)


def shorter(x: torch.Tensor, dim: int) -> torch.Tensor:
    """One element less in a direction, and strides in the same order."""
    order = sorted(range(x.ndim), key=lambda i: -x.stride(i))
    packed = x.narrow(dim, 0, x.shape[dim] - 1).permute(order).contiguous()
    return packed.permute([order.index(i) for i in range(x.ndim)])


def test_extents_that_do_not_fit_never_lead_outside(name: str):
    """Each array in turn has one element less in each direction. Functions for users refuse that, if it does not fit;
    where a kernel is launched with numbers that its arrays do not have room for, checked mode says so."""
    with Filled(0xFF):
        made = CALLS[name].make()
        for which, x in enumerate(list(tensors_in(made))):
            for dim in (i for i in range(x.ndim) if x.shape[i] > 1):
                left = iter(range(which, -len(list(tensors_in(made))), -1))
                try:
                    function, *arguments = mapped(made, lambda t: shorter(t, dim) if next(left) == 0 else t)  # noqa: B023
                    function(*arguments)
                except KernelCheckError as error:
                    assert is_kernel(made[0]), (
                        f"{tuple(x.shape)} with one less in direction {dim} is not refused: {error}"
                    )
                except FlyDSLError:
                    pass
