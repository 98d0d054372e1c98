"""Frameworks on an NVIDIA GPU: whose memory, whose stream, whose capture."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import CaptureError, CaptureWarning, StackMismatchError
from flydsl.runtime import Device, Event, Stream, get_device_runtime, reset_device_runtime

pytestmark = pytest.mark.cuda

COUNT = 1 << 20


@flyc.kernel
def saxpy_kernel(x: fx.Tensor, y: fx.Tensor, a: fx.Float32, n: fx.Int32):
    i = fx.block_idx.x * 256 + fx.thread_idx.x
    if i < n:
        y[i] = a * x[i] + y[i]


@flyc.jit
def saxpy(x: fx.Tensor, y: fx.Tensor, a: fx.Float32, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    saxpy_kernel(x, y, a, n).launch(grid=fx.ceildiv(n, 256), block=256, stream=stream)


@pytest.fixture(autouse=True)
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    if get_device_runtime().kind != "cuda":
        reset_device_runtime()
    yield
    get_device_runtime().synchronize()


@pytest.fixture
def torch() -> Any:
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("torch was built without CUDA")
    return found


@pytest.fixture
def cupy() -> Any:
    return pytest.importorskip("cupy")


def pair(torch: Any) -> tuple[Any, Any]:
    return torch.ones(COUNT, device="cuda"), torch.zeros(COUNT, device="cuda")


def test_torch(torch: Any):
    x, y = pair(torch)
    for _ in range(3):
        saxpy(x, y, 2.0, COUNT)
    assert (y == 6).all() and saxpy.cache_info().currsize >= 1


def test_r24_the_current_stream_of_torch(torch: Any):
    x, y = pair(torch)
    saxpy(x, y, 0.0, COUNT)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
        y.fill_(5.0)
        saxpy(x, y, 1.0, COUNT)  # must come after the fill, which comes after the sleep
        assert not side.query(), "the launch did not wait for the stream"
    side.synchronize()
    assert (y == 6).all()


def test_r26_streams_of_both(torch: Any):
    x, y = pair(torch)
    theirs, ours = torch.cuda.Stream(), Stream()
    torch.cuda.synchronize()
    saxpy(x, y, 1.0, COUNT, theirs)
    theirs.synchronize()
    saxpy(x, y, 1.0, COUNT, ours)
    ours.synchronize()
    saxpy(x, y, 1.0, COUNT, ours.handle)
    with ours:
        saxpy(x, y, 1.0, COUNT)
    ours.synchronize()
    assert (y == 4).all()


def test_fresh_threads_have_no_context(torch: Any):
    pairs = [pair(torch) for _ in range(8)]
    torch.cuda.synchronize()
    failures: list[BaseException] = []

    def work(x: Any, y: Any) -> None:
        try:
            for _ in range(20):
                saxpy(x, y, 1.0, COUNT, 0)
                saxpy(x, y, 1.0, COUNT)
            get_device_runtime().synchronize()
        except BaseException as error:  # noqa: BLE001 - shown below
            failures.append(error)

    workers = [threading.Thread(target=work, args=p) for p in pairs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures, failures
    assert all((y == 40).all() for _, y in pairs)


@pytest.mark.parametrize("devices", [1, 2])
def test_repeated_calls_of_torch_tensors(torch: Any, monkeypatch: pytest.MonkeyPatch, devices: int):
    """Whether there are several devices or one: tensors of all kinds of views, from threads without a context."""
    monkeypatch.setattr(get_device_runtime(), "device_count", lambda: devices)
    function = flyc.jit(saxpy.__wrapped__)
    for _ in range(2):
        function(*pair(torch), 2.0, COUNT)
    assert function.repeat is not None
    served: list[Any] = []

    def call(n: int, first: int) -> None:
        x, whole = torch.rand(n, device="cuda"), torch.rand(n + 8, device="cuda")
        y, expected = whole[first : first + n], whole.double()
        expected[first : first + n] += 3.0 * x.double()
        served.append(function.repeat(x, y, 3.0, n))
        torch.cuda.synchronize()
        torch.testing.assert_close(whole.double(), expected, rtol=1e-6, atol=1e-6)

    for n, first in ((1, 0), (257, 4), (COUNT, 8)):
        call(n, first)
        thread = threading.Thread(target=call, args=(n, first))
        thread.start()
        thread.join()
    assert served == [True] * 6
    x, y = pair(torch)
    assert function.repeat(x.cpu(), y, 1.0, 1) is False
    assert function.repeat(x.half(), y, 1.0, 1) is False
    torch.cuda.synchronize()
    assert not y.any()


def test_dlpack_and_cuda_array_interface(torch: Any):
    x, y = pair(torch)
    torch.cuda.synchronize()
    lent = [SimpleNamespace(__dlpack__=t.__dlpack__, __dlpack_device__=t.__dlpack_device__) for t in (x, y)]
    saxpy(*lent, 3.0, COUNT)
    producer = torch.cuda.Stream()
    with torch.cuda.stream(producer):
        torch.cuda._sleep(100_000_000)
        x.fill_(2.0)
    faces = [SimpleNamespace(__cuda_array_interface__={**t.__cuda_array_interface__, "stream": producer.cuda_stream})
             for t in (x, y)]  # fmt: skip
    ours = Stream()
    saxpy(*faces, 1.0, COUNT, ours)  # waits for the producer
    ours.synchronize()
    assert (y == 5).all()


def test_our_buffers():
    runtime = get_device_runtime()
    x = np.arange(1024, dtype=np.float32)
    source, sink = runtime.alloc(x.nbytes), runtime.alloc(x.nbytes)
    source.copy_from(x)
    sink.fill(0)

    def typed(buffer: Any) -> Any:
        face = {**buffer.__cuda_array_interface__, "typestr": "<f4", "shape": (1024,)}
        return SimpleNamespace(__cuda_array_interface__=face, owner=buffer)

    saxpy(typed(source), typed(sink), 2.0, 1024)
    runtime.synchronize()
    back = np.empty_like(x)
    sink.copy_to(back)
    assert np.array_equal(back, 2 * x)


def test_cupy(cupy: Any):
    x, y = cupy.ones(COUNT, cupy.float32), cupy.zeros(COUNT, cupy.float32)
    saxpy(x, y, 2.0, COUNT)
    with cupy.cuda.Stream(non_blocking=True) as side:
        y += 1
        saxpy(x, y, 2.0, COUNT)
        saxpy(x, y, 2.0, COUNT, side)
    side.synchronize()
    assert float(y.min()) == 7 == float(y.max())
    assert Device.from_external(y.device) == Device.current()


def test_host_arrays_are_refused_with_a_hint(torch: Any):
    for array in (np.zeros(4, np.float32), torch.zeros(4)):
        with pytest.raises(TypeError, match="host memory.*copy it to the device first"):
            saxpy(array, array, 1.0, 4)
    amd = SimpleNamespace(__dlpack_device__=lambda: (10, 0))
    with pytest.raises(StackMismatchError, match="rocm stack"):
        Device.from_external(amd)
    test_torch(torch)


def test_r33b_devices(torch: Any):
    device = Device.current()
    assert Device.from_external(torch.device("cuda", 0)) == Device.all()[0]
    assert Device.from_external(torch.zeros(1, device="cuda")) == device
    with pytest.raises(StackMismatchError, match="cpu stack"):
        Device.from_external(torch.device("cpu"))


def test_r28_to_r32_captures(torch: Any, monkeypatch: pytest.MonkeyPatch):
    x, y = pair(torch)
    saxpy(x, y, 0.0, COUNT)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for a in (1.0, 2.0, 3.0):  # argument storage is reused; the driver has copied it
            saxpy(x, y, a, COUNT)
        event = Event()
        del event  # a finaliser during a capture only queues
    for _ in range(2):
        graph.replay()
    torch.cuda.synchronize()
    assert (y == 12).all()

    saxpy.invalidate()
    with pytest.warns(CaptureWarning, match="saxpy is loaded while"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            saxpy(x, y, 1.0, COUNT)
    saxpy.invalidate()
    monkeypatch.setenv("FLYDSL_RUNTIME_CAPTURE_COMPILE", "error")
    good = torch.cuda.CUDAGraph()
    with torch.cuda.graph(good):
        with pytest.raises(CaptureError, match="before the capture starts"):
            saxpy(x, y, 1.0, COUNT)
        y.add_(1)
    before = float(y[0])
    good.replay()
    torch.cuda.synchronize()
    assert float(y[0]) == before + 1, "the capture was not harmed"
