"""A fixture's heart: the rocm stack of this process, with kernels executed instruction by instruction."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

import numpy as np
import pytest

from flydsl.compiler.call import load as load_module
from flydsl.compiler.call import prepared, relaunch
from flydsl.compiler.call.arguments import PointerArgument, TensorArgument
from flydsl.compiler.call.host_arrays import array_info
from flydsl.compiler.compiled_function import CompiledFunction
from flydsl.compiler.jit_function import JitFunction
from flydsl.runtime import device_runtime, library

from .hip import HipLibrary


class Gpu:
    """An AMD GPU that is not there."""

    def __init__(self, hip: HipLibrary):
        self.hip = hip

    def hand_over(self, values: Iterable[object]) -> None:
        """Arrays of a call: kernels may touch their elements and nothing else."""
        for at, value in enumerate(values):
            info = value.info if isinstance(value, TensorArgument) else array_info(value)
            if info is None or not all(info.shape):
                continue
            width = 8 if info.dtype.width == 1 else info.dtype.width  # a flag is a byte
            spans = [(extent - 1) * stride for extent, stride in zip(info.shape, info.strides, strict=True)]
            first, last = sum(min(span, 0) for span in spans), sum(max(span, 0) for span in spans)
            low, high = first * width // 8, -(-(last + 1) * width // 8)
            self.hip.memory.add(info.pointer + low, high - low, f"the array of argument {at}", owner=info.owner)

    def calls(self, plain: Callable[..., object]) -> Callable[..., object]:
        """A call of a function that hands over its arrays first; repeated calls look at little else."""

        def call(function: object, *args: object, **kwargs: object) -> object:
            given = (*args, *kwargs.values())
            self.hand_over(given)
            if any(isinstance(value, PointerArgument) for value in given):
                self.hand_over(_arrays_in_sight())
            return plain(function, *args, **kwargs)

        return call

    def repeats(self, plain: Callable[..., bool]) -> Callable[..., bool]:
        """A launch once more, with other arrays, which are handed over first."""

        def launch(repeated: object, *tensors: object) -> bool:
            self.hand_over(tensors)
            return plain(repeated, *tensors)

        return launch


def _arrays_in_sight() -> list[object]:
    """Arrays that callers hold: an address says nothing of what is behind it."""
    found: list[object] = []
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and len(found) < 20:
        found += [value for value in frame.f_locals.values() if isinstance(value, np.ndarray)]
        frame = frame.f_back
    return found


@contextmanager
def executing(arch: str, seed: int = 0) -> Iterator[Gpu]:
    """A block in which the rocm stack is one GPU of an architecture, and host arrays count as its memory."""
    hip = HipLibrary(arch, seed)
    gpu = Gpu(hip)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLYDSL_COMPILE_BACKEND", "rocm")
        patch.setenv("FLYDSL_COMPILE_ARCH", arch)
        patch.setenv("FLYDSL_RUNTIME_STREAM_POLICY", "default")
        patch.setattr(library, "open_library", lambda spec: (hip, "executed"))  # pyright: ignore[reportUnknownLambdaType]
        for module in (load_module, prepared):
            patch.setattr(module, "check_places", lambda arguments, runtime: gpu.hand_over(arguments.values()))  # pyright: ignore[reportUnknownLambdaType]
        # What is repeated often would be launched by native code, which nobody sees here.
        patch.setattr(relaunch, "_native", lambda *_: None)  # pyright: ignore[reportUnknownLambdaType]
        patch.setattr(relaunch.Relaunch, "launch", gpu.repeats(relaunch.Relaunch.launch))
        for kind in (JitFunction, CompiledFunction):
            patch.setattr(kind, "__call__", gpu.calls(kind.__call__))
        device_runtime.reset_device_runtime()
        try:
            yield gpu
        except Exception as error:
            if hip.failure is not None:
                raise hip.failure from error
            raise
        finally:
            device_runtime.reset_device_runtime()
        hip.raise_failure()
