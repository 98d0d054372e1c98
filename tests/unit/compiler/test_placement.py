"""Where launches go: stacks, streams of frameworks, producers' streams, captures. With stand-ins for GPU runtimes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import flydsl.expr as fx
from flydsl.compiler.call import placement
from flydsl.compiler.call.arguments import StreamArgument, TensorArgument, adapt
from flydsl.compiler.call.host_arrays import UNKNOWN_ORDINAL, ArrayInfo
from flydsl.errors import CaptureError, CaptureWarning, DSLTypeError, StackMismatchError
from flydsl.runtime import DeviceRuntime, Stream, register_device_runtime, reset_device_runtime


class Gpu(DeviceRuntime):
    """Two devices, device memory, and a record of calls; nothing runs."""

    kind: ClassVar[str] = "cuda"

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.capturing: set[int] = set()

    def device_count(self) -> int:
        return 2

    def current_device_id(self) -> int:
        return 0

    def stream_create(self, device: int, priority: int, non_blocking: bool) -> int:
        return 100 + device

    def stream_device_of(self, stream: int) -> int:
        return stream - 100

    def stream_is_capturing(self, stream: int) -> bool:
        self.calls.append(("capturing?", stream))
        return stream in self.capturing

    def stream_wait_event(self, stream: int, event: int) -> None:
        self.calls.append(("wait", stream, event))

    def event_create(self, device: int, timing: bool, blocking: bool) -> int:
        return 7

    def event_record(self, event: int, stream: int) -> None:
        self.calls.append(("record", event, stream))

    def pointer_device(self, ptr: int) -> int | None:
        return 1 if ptr == 0x1000 else None

    def release_handle(self, what: str, handle: int, device: int) -> None:
        self.calls.append(("release", what))


class Amd(Gpu):
    kind: ClassVar[str] = "rocm"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    reset_device_runtime()
    register_device_runtime(Gpu)
    from flydsl.runtime import get_device_runtime

    found = get_device_runtime()
    assert isinstance(found, Gpu)
    yield found
    found._active = False  # pyright: ignore[reportPrivateUsage]
    reset_device_runtime()


def tensor(device: str, ordinal: int = 0, *, owner: Any = None, stream: int | None = None, ptr: int = 64) -> Any:
    return TensorArgument(ArrayInfo(ptr, (4,), (1,), fx.Float32, device, ordinal, owner, stream))


# --- stacks -----------------------------------------------------------------------------------------------------------


def test_host_arrays_on_a_gpu_stack_say_how_to_copy():
    with pytest.raises(DSLTypeError, match=r"parameter 'x': the array is in host memory.*'cuda'.*to\(\"cuda\"\)"):
        placement.check_places({"x": adapt("x", np.zeros(4), None)}, Gpu())


@pytest.mark.parametrize(("here", "runtime"), [("rocm", Gpu), ("cuda", Amd)])
def test_foreign_arrays_are_a_stack_mismatch(here: str, runtime: Any):
    with pytest.raises(
        StackMismatchError, match=f"parameter 'x': the array is in {here} memory.*COMPILE_BACKEND={here}"
    ):
        placement.check_places({"x": tensor(here)}, runtime())


def test_device_arrays_on_the_cpu_stack():
    from flydsl.runtime import CpuDeviceRuntime

    with pytest.raises(StackMismatchError, match="in cuda memory, but the active stack is 'cpu'"):
        placement.check_places({"x": tensor("cuda")}, CpuDeviceRuntime())
    placement.check_places({"x": tensor("cpu")}, CpuDeviceRuntime())


# --- device -----------------------------------------------------------------------------------------------------------


def test_r33_order_of_what_decides(gpu: Gpu):
    def stream(raw: Any) -> StreamArgument:
        return StreamArgument(fx.Stream(raw))

    assert placement.launch_device({}, gpu) == 0
    assert placement.launch_device({"x": tensor("cuda", 1)}, gpu) == 1
    assert placement.launch_device({"x": tensor("cuda", 1), "s": stream(None)}, gpu) == 1
    assert placement.launch_device({"x": tensor("cuda", 1), "s": stream(0)}, gpu) == 1
    assert placement.launch_device({"s": stream(101)}, gpu) == 1, "R-37: the stream's own device"
    assert placement.launch_device({"s": stream(SimpleNamespace(cuda_stream=101))}, gpu) == 1
    assert placement.launch_device({"x": tensor("cuda", UNKNOWN_ORDINAL, ptr=0x1000)}, gpu) == 1
    with pytest.raises(ValueError, match="'x' on device 0, the stream on device 1"):
        placement.launch_device({"x": tensor("cuda", 0), "s": stream(101)}, gpu)


def test_a_stream_of_another_runtime(gpu: Gpu):
    stream = Stream(1)
    with pytest.raises(StackMismatchError, match="belongs to a cuda runtime, but the active stack is 'rocm'"):
        placement.launch_device({"s": StreamArgument(fx.Stream(stream))}, Amd())


# --- stream -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Something that looks like torch on a GPU."""
    fake = ModuleType("torch")

    class Tensor:
        device = SimpleNamespace(type="cuda", index=1)

    fake.Tensor = Tensor  # type: ignore[attr-defined]
    fake.version = SimpleNamespace(hip=None)  # type: ignore[attr-defined]
    fake._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda index: 0xABC0 + index)  # type: ignore[attr-defined]
    fake.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        current_stream=lambda index: SimpleNamespace(cuda_stream=0xDEF0 + index),
        is_available=lambda: False,
    )
    monkeypatch.setitem(sys.modules, "torch", fake)
    placement.torch_stream_accessor.cache_clear()
    yield fake
    placement.torch_stream_accessor.cache_clear()


def test_r24_r25_the_framework_says_the_stream(gpu: Gpu, torch: Any, monkeypatch: pytest.MonkeyPatch):
    assert placement.unspecified_stream([np.zeros(1), torch.Tensor()], gpu) == 0xABC1, "by the raw accessor"
    placement.torch_stream_accessor.cache_clear()
    del torch._C._cuda_getCurrentRawStream
    assert placement.unspecified_stream([torch.Tensor()], gpu) == 0xDEF1, "by the public one where there is no other"
    with Stream(1) as own:
        assert placement.unspecified_stream([torch.Tensor()], gpu) == own.handle == 101
    monkeypatch.setenv("FLYDSL_RUNTIME_STREAM_POLICY", "default")
    assert placement.unspecified_stream([torch.Tensor()], gpu) == 0
    assert placement.unspecified_stream([], gpu) == 0


def test_r24_cupy(gpu: Gpu, monkeypatch: pytest.MonkeyPatch):
    fake = ModuleType("cupy")
    fake.cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=0x55))  # type: ignore[attr-defined]
    ndarray = type("ndarray", (), {"__module__": "cupy"})
    monkeypatch.setitem(sys.modules, "cupy", fake)
    assert placement.unspecified_stream([ndarray()], gpu) == 0x55


def test_producers_streams_come_first(gpu: Gpu):
    arguments = [tensor("cuda", stream=5), tensor("cuda", stream=5), tensor("cuda", stream=9), tensor("cuda")]
    placement.order_after_producers(arguments, 9, gpu)
    assert [c for c in gpu.calls if c[0] != "release"] == [("record", 7, 5), ("wait", 9, 7)]
    gpu.calls.clear()
    placement.order_after_producers([tensor("cuda", stream=1)], 0, gpu)
    assert [c for c in gpu.calls if c[0] != "release"] == [], "0 and 1 are both the legacy default stream"


# --- capture ----------------------------------------------------------------------------------------------------------


def test_r30_loading_during_a_capture(gpu: Gpu, monkeypatch: pytest.MonkeyPatch):
    arguments = {"s": StreamArgument(fx.Stream(101))}
    placement.check_capture(arguments, gpu, "f")
    gpu.capturing.add(101)
    with pytest.warns(CaptureWarning, match="f is loaded while its stream is being captured"):
        placement.check_capture(arguments, gpu, "f")
    monkeypatch.setenv("FLYDSL_RUNTIME_CAPTURE_COMPILE", "error")
    with pytest.raises(CaptureError, match=r"f is not compiled.*before the capture starts"):
        placement.check_capture(arguments, gpu, "f")


def test_r30_rocm_refuses_until_it_is_known_to_work():
    amd = Amd()
    amd.capturing.add(101)
    with pytest.raises(CaptureError):
        placement.check_capture({"s": StreamArgument(fx.Stream(101))}, amd, "f")


def test_r29_the_default_stream_is_not_asked(gpu: Gpu):
    placement.check_capture({"s": StreamArgument(fx.Stream(0))}, gpu, "f")
    assert gpu.calls == []
