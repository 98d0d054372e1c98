"""Launches like one before: nothing but addresses is written, and whatever else differs is noticed."""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import flydsl.compiler as flyc  # noqa: E402
import flydsl.expr as fx  # noqa: E402
from flydsl.compiler.call import relaunch  # noqa: E402
from flydsl.compiler.call.alike import likeness  # noqa: E402
from flydsl.compiler.call.relaunch import Relaunch  # noqa: E402
from flydsl.errors import DSLTypeError, LaunchError  # noqa: E402
from flydsl.llvm.stub_abi import FAILURE_BYTES  # noqa: E402
from flydsl.runtime import Stream  # noqa: E402

N = 32
CHANGES = 1.0


@flyc.kernel
def mix_kernel(x: fx.Tensor, y: fx.Tensor | None, out: fx.Tensor, more: fx.Tensor, n: fx.Int32, by: fx.Float32):
    i = fx.block_idx.x * 8 + fx.thread_idx.x
    if i < n:
        value = x[i] * by + 1.0
        if fx.const_expr(y is not None):
            value = value + y[i]
        out[i] = value
        more[i] = x[i]


@flyc.jit
def mix(
    x: fx.Tensor,
    y: fx.Tensor | None,
    out: fx.Tensor,
    more: fx.Tensor,
    n: fx.Int32,
    by: fx.Float32,
    stream: fx.Stream = fx.Stream(None),
):
    mix_kernel(x, y, out, more, n, by).launch(grid=fx.ceildiv(n, 8), block=8, stream=stream)


def made() -> Relaunch:
    """Of x, y, and of two rows of one array for the results."""

    def arrange(x: Any, y: Any, both: Any) -> tuple[object, ...]:
        return x.view(-1), y, both[0], both[1], N, 3.0

    return Relaunch(mix, arrange, (0, 1, 2, 2), fresh=1, after=2)


def run(launch: Relaunch, x: Any, y: Any) -> None:
    both = torch.full((2, N), float("nan"))
    assert launch.now(x, y, both)
    flat = x.reshape(-1)
    torch.testing.assert_close(both[0], flat * 3.0 + 1.0 + (0.0 if y is None else y))
    assert torch.equal(both[1], flat)


def native(launch: Relaunch) -> bool:
    return launch.now != launch.launch


def often(launch: Relaunch, y: bool = True) -> None:
    for _ in range(20):
        run(launch, torch.randn(4, N // 4), torch.randn(N) if y else None)
    if likeness((torch.randn(N),)) is None:
        pytest.skip("this Python's or torch's objects are laid out otherwise")
    assert native(launch)


@pytest.mark.parametrize("y", [True, False])
def test_addresses_alone_differ(y: bool):
    launch = made()
    assert not native(launch)
    often(launch, y)
    kept = [torch.randn(4, N // 4) for _ in range(5)]
    for x in kept * 2:
        run(launch, x, torch.randn(N) if y else None)
    assert native(launch)


def test_it_keeps_no_tensor_and_counts_its_launches():
    import weakref

    launch = made()
    often(launch)
    x, y, both = torch.randn(4, N // 4), torch.randn(N), torch.empty(2, N)
    before = mix.cache_info().hits
    assert launch.now(x, y, both)
    assert mix.cache_info().hits == before + 1
    seen = [weakref.ref(t) for t in (x, y, both)]
    del x, y, both
    assert [t() for t in seen] == [None] * 3


def test_fresh_arrays_are_at_whole_units():
    launch = made()
    for _ in range(2):  # by the function, then natively
        base = torch.full((2 * N + 1,), -1.0)
        assert not launch.now(torch.randn(4, N // 4), torch.randn(N), base[1:].view(2, N))
        assert torch.equal(base, torch.full((2 * N + 1,), -1.0))
        often(launch)


def test_what_is_negated_lazily_is_refused():
    """Its memory holds other values."""
    launch = made()
    often(launch)
    base = torch.randn(N, 1, dtype=torch.complex64)
    negated = torch.as_strided(base.conj().imag, (4, N // 4), (N // 4, 1))
    assert negated.is_neg()
    with pytest.raises(DSLTypeError, match="negated lazily"):
        launch.now(negated, torch.randn(N), torch.empty(2, N))
    with pytest.raises(DSLTypeError, match="negated lazily"):
        launch.now(torch.randn(4, N // 4), torch._neg_view(torch.randn(N)), torch.empty(2, N))
    run(launch, torch.randn(4, N // 4), torch.randn(N))


def test_another_class_is_another_call():
    launch = made()
    often(launch)
    both = torch.empty(2, N)
    x = torch.randn(4, N // 4)
    assert launch.now(x, torch.nn.Parameter(torch.zeros(N)), both)
    torch.testing.assert_close(both[0], x.view(-1) * 3 + 1)


@flyc.kernel
def changing_kernel(x: fx.Tensor, out: fx.Tensor):
    out[fx.thread_idx.x] = x[fx.thread_idx.x] + CHANGES


@flyc.jit
def changing(x: fx.Tensor, out: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    changing_kernel(x, out).launch(grid=1, block=N, stream=stream)


def test_code_that_changed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_GLOBALS", "recompile")
    launch = Relaunch(changing, lambda x, out: (x, out), (0, 1), fresh=1, after=2)
    for value in (1.0, 5.0, 1.0, 7.0):
        monkeypatch.setattr(f"{__name__}.CHANGES", value)
        for _ in range(2 if value == 1.0 else 40):
            x, out = torch.randn(N), torch.empty(N)
            assert launch.now(x, out)
            torch.testing.assert_close(out, x + value)
    if likeness((torch.randn(N),)) is not None:
        assert native(launch)


def test_an_environment_that_changed(monkeypatch: pytest.MonkeyPatch):
    launch = made()
    often(launch)
    seen: list[str] = []
    with flyc.launch_hooks(enter=lambda artifact: seen.append(artifact.name)):
        run(launch, torch.randn(4, N // 4), torch.randn(N))
    assert seen == ["mix"]
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    run(launch, torch.randn(4, N // 4), torch.randn(N))


def test_code_that_is_forgotten():
    launch = made()
    often(launch)
    mix.invalidate()
    assert not native(launch)
    often(launch)
    mix.add_hints({})
    assert not native(launch)


def test_inside_a_stream_it_is_queued():
    launch = made()
    often(launch)
    with Stream() as stream:
        both = torch.empty(2, N)
        x = torch.randn(4, N // 4)
        assert launch.now(x, torch.zeros(N), both)
        stream.synchronize()
        torch.testing.assert_close(both[0], x.view(-1) * 3 + 1)


def test_on_many_threads():
    launch = made()
    often(launch)

    def work(_: int) -> None:
        run(launch, torch.randn(4, N // 4), torch.randn(N))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(400)))


def test_arrays_of_unknown_origin_stay_with_the_function():
    """A source that is no tensor of the call: the address is not known to follow from one."""

    def arrange(x: Any, y: Any, both: Any) -> tuple[object, ...]:
        return x.view(-1), y, both[0], both[1], N, 3.0

    launch = Relaunch(mix, arrange, (0, 1, 2), fresh=1, after=2)
    for _ in range(20):
        run(launch, torch.randn(4, N // 4), torch.randn(N))
    assert not native(launch)


def test_a_launch_that_fails_says_so():
    launch = made()
    often(launch)
    plan = mix.warm
    loaded = next(iter(plan._by_key.values())).loaded  # pyright: ignore[reportPrivateUsage]
    told = struct.pack(f"<{1 + FAILURE_BYTES // 8}q", -1, 0, 7, 1, 1, 8, 1, 1, 0)
    with pytest.raises(LaunchError, match=r"grid \(7, 1, 1\)"):
        relaunch._undone(loaded)(told)  # pyright: ignore[reportPrivateUsage]


def test_a_status_of_native_code_comes_back(monkeypatch: pytest.MonkeyPatch):
    """The native function hands over what the host function says, and what it left in its record."""
    import ctypes

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
    def fails(slots: int) -> int:
        record = ctypes.cast(ctypes.c_void_p.from_address(slots + 8).value or 0, ctypes.POINTER(ctypes.c_int64))
        for i in range(8):
            record[i] = i
        return -1

    launch = made()
    often(launch)
    loaded = next(iter(mix.warm._by_key.values())).loaded  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(loaded, "stub", fails)
    monkeypatch.setattr(loaded, "quick", fails)
    again = made()
    again._count = 1  # pyright: ignore[reportPrivateUsage]
    run(again, torch.randn(4, N // 4), torch.randn(N))  # by the warm call that is there, then natively
    assert native(again)
    with pytest.raises(LaunchError, match=r"grid \(1, 2, 3\), block \(4, 5, 6\), 7 bytes"):
        again.now(torch.randn(4, N // 4), torch.randn(N), torch.empty(2, N))


def test_the_arguments_are_those_of_a_call(monkeypatch: pytest.MonkeyPatch):
    """Slot for slot, in the stream that is current, and with the device of the code current around it."""
    import ctypes

    from flydsl.compiler.call.warm import Source

    launch = made()
    often(launch)
    loaded = next(iter(mix.warm._by_key.values())).loaded  # pyright: ignore[reportPrivateUsage]
    seen: list[list[bytes]] = []
    entered: list[object] = []

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
    def keeps(slots: int) -> int:
        pointers = (ctypes.c_void_p * (len(sizes) + 2)).from_address(slots)
        seen.append([ctypes.string_at(at or 0, size) for at, size in zip(pointers[2:], sizes, strict=True)])
        entered.append(pointers[0])
        return 0

    def stream(self: Source, plan: object, loaded: object) -> str:
        self.lines.append("__fly_stream = 0xfedcba9876543210")
        return ""

    monkeypatch.setattr(Source, "stream", stream)
    monkeypatch.setattr(loaded, "stub", keeps)
    monkeypatch.setattr(loaded.runtime, "enter", lambda ordinal: entered.append(ordinal) or 5, raising=False)
    monkeypatch.setattr(loaded.runtime, "leave", entered.append, raising=False)
    again = made()
    again._count = 1  # pyright: ignore[reportPrivateUsage]
    run(again, torch.randn(4, N // 4), torch.randn(N))
    assert native(again)
    x, y, both = torch.randn(4, N // 4), torch.randn(N), torch.empty(2, N)
    packed = loaded.pack(list(mix.bind_given((x.view(-1), y, both[0], both[1], N, 3.0)).adapted.values()))
    want = [bytes(storage) for storage in packed.keep[0]]
    sizes = list(map(len, want))
    want[-1] = struct.pack("<Q", 0xFEDCBA9876543210)
    assert again.now(x, y, both)
    assert seen == [want]
    assert entered == [loaded.module.device.ordinal, ctypes.addressof(loaded.table), 5]
