"""`fx.printf` on AMD GPUs: records in memory that the launch adds.

There is no such GPU here. The code that writes records runs on the cpu stack's emulation of one, where the same kernel
can print through the C library as well; the runtime's part runs against a HIP library whose launches write records
themselves; and what is compiled is looked at.
"""

from __future__ import annotations

import ctypes
import re
import struct
import subprocess
import threading
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLValueError, LostOutputWarning, NotSupportedError
from flydsl.llvm.objects.code_object import read_code_object
from flydsl.runtime import device_runtime
from flydsl.runtime.print_buffer import HEAD_WORDS, lines_of, text_of

_path = Path(__file__).resolve().parents[1] / "unit" / "runtime" / "fake_driver.py"
_spec = spec_from_file_location("fake_driver", _path)
assert _spec is not None and _spec.loader is not None
fake_driver: Any = module_from_spec(_spec)
_spec.loader.exec_module(fake_driver)

ARCHES = ("gfx942", "gfx1100")


@flyc.kernel
def talking_kernel(x: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    fx.printf("start of {} is 100 % sure {{}}", i)
    if i % 3 == 1:
        fx.printf("{:>4} {:08x} {:.3e} {}", i, -i, x[i], x[i] > 1.0)
        for j in range(n):
            fx.printf("{} {:#06x} {:+.2f} {:<6}|", "loop", fx.Int64(j) << 40, fx.Float64(x[i]), j)
    if fx.thread_idx.x == 5:
        t = fx.make_rmem_tensor((2, 2), fx.Float32)
        t.fill(x[i])
        fx.printf("fragment {:.1f} vector {} layout {}", t, fx.Vector.from_elements([i, i + 1]), fx.make_layout(n, 2))


@flyc.jit
def talking(x: fx.Tensor, n: fx.Int32):
    talking_kernel(x, n).launch(grid=2, block=64)


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    monkeypatch.setenv("FLYDSL_CPU_THREADS", "1")
    talking.invalidate()
    yield
    talking.invalidate()


@pytest.mark.parametrize("arch", ARCHES)
def test_the_emulation_prints_what_the_c_library_prints(
    emulated: None, arch: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
    x = np.random.default_rng(3).standard_normal(128).astype("f4")
    talking(x, 2)
    wanted = capfd.readouterr().out
    talking.invalidate()
    monkeypatch.setitem(fx.printf.__globals__, "prints_into_memory", lambda: True)
    talking(x, 2)
    got = capfd.readouterr().out
    assert sorted(got.splitlines()) == sorted(wanted.splitlines()) and len(got.splitlines()) > 250
    # In the order of lanes, wave by wave.
    starts = [int(found) for found in re.findall(r"start of (\d+) is 100 % sure \{\}", got)]
    assert starts == list(range(128))
    waves = [int(line[:4]) for line in got.splitlines() if re.match(r" *\d+ [0-9a-f]{8} ", line)]
    assert waves == [i for i in range(128) if i % 3 == 1]


def test_more_than_there_is_room_for_is_said(
    emulated: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx942")
    monkeypatch.setenv("FLYDSL_RUNTIME_PRINTF_BYTES", "4096")
    monkeypatch.setitem(fx.printf.__globals__, "prints_into_memory", lambda: True)
    with pytest.warns(LostOutputWarning, match="room for 4096.*FLYDSL_RUNTIME_PRINTF_BYTES"):
        talking(np.ones(128, "f4"), 9)
    lines = capfd.readouterr().out.splitlines()
    assert lines[:64] == [f"start of {i} is 100 % sure {{}}" for i in range(64)]
    assert len(lines) < 512


# --- what is compiled -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100", "gfx1201", "gfx1250"])
def test_the_hidden_argument_is_in_the_metadata(arch: str):
    artifact = flyc.compile(talking, flyc.TensorSpec((128,), "float32"), 2, target=f"rocm:{arch}").artifact
    (kernel,) = artifact.kernels
    (declared,) = kernel["side_buffers"]
    assert declared["kind"] == "print" and len(declared["formats"]) == 4
    assert declared["formats"][1] == "%4d %08x %.3e %d\n"
    hidden = kernel["parameters"][-1]
    assert hidden == {"offset": 16, "size": 8, "align": 8, "type": "ptr addrspace(1)"}
    (info,) = read_code_object(artifact.binary()).kernels
    assert info.kernarg_size >= 24
    metadata = re.search(r"\.args:(.*?)\.group_segment", artifact.asm, re.S)
    assert metadata is not None
    args = re.findall(r"\.offset:\s+(\d+)\s+\.size:\s+(\d+)\s+\.value_kind:\s+(\w+)", metadata[1])
    assert args[:4] == [
        ("0", "8", "global_buffer"),
        ("8", "4", "by_value"),
        ("12", "4", "by_value"),
        ("16", "8", "global_buffer"),
    ]
    assert "readfirstlane" in artifact.asm and "global_atomic_add" in artifact.asm and "s_swappc" not in artifact.asm


def test_a_kernel_that_does_not_print_has_no_such_argument():
    @flyc.kernel
    def silent(x: fx.Tensor):
        x[fx.thread_idx.x] = 1.0

    @flyc.jit
    def run(x: fx.Tensor):
        silent(x).launch(grid=1, block=64)

    artifact = flyc.compile(run, flyc.TensorSpec((64,), "float32"), target="rocm:gfx942").artifact
    assert "side_buffers" not in artifact.kernels[0] and len(artifact.kernels[0]["parameters"]) == 2
    assert b"fly_side_buffer" not in artifact.sections["host"]


def test_too_many_values_and_raw_exports_are_refused(tmp_path: Path):
    @flyc.kernel
    def wide(x: fx.Tensor):
        fx.printf(" ".join(["{}"] * 513), *[x[0]] * 513)

    @flyc.jit
    def run(x: fx.Tensor):
        wide(x).launch(grid=1, block=64)

    with pytest.raises(DSLValueError, match="513 values in a line; 512 are the most"):
        flyc.compile(run, flyc.TensorSpec((64,), "float32"), target="rocm:gfx942")
    with pytest.raises(NotSupportedError, match="prints"):
        flyc.export_raw(talking, tmp_path, args=(flyc.TensorSpec((128,), "float32"), 2), target="rocm:gfx942")


# --- the runtime's part -----------------------------------------------------------------------------------------------

PLAYED = r"""
#include <stdlib.h>
static u64 seen[64];
static int played;
u64 *fake_seen(void) { return seen; }
static int play(const char *op, u64 *a) {
  if (!strcmp(op, "alloc")) {
    *(u64 *)a[0] = (u64)aligned_alloc(256, (a[1] + 255) & ~255ull);
    memset(*(void **)a[0], 0xa5, a[1]);
    return 1;
  }
  if (!strcmp(op, "free")) { free((void *)a[0]); return 1; }
  if (!strncmp(op, "copy_", 5)) { memcpy((void *)a[0], (void *)a[1], a[2]); return 1; }
  if (!strncmp(op, "set8", 4)) { memset((void *)a[0], (int)a[1], a[2]); return 1; }
  if (!strcmp(op, "launch")) {
    /* The kernel: each of its blocks prints its number and the scalar argument, as the code of a GPU would write it. */
    u64 **params = (u64 **)a[9];
    u64 *words = *(u64 **)params[3];
    int n = *(int *)params[2];
    for (u64 b = 0; b < a[1]; b++) {
      u64 at = words[0];
      words[0] += 2;
      if (at + 2 > words[1]) continue;
      words[2 + at] = 1ull << 63 | 2ull << 32 | 0;
      words[3 + at] = b * 1000 + n;
    }
    return 1;
  }
  return 0;
}
"""


@pytest.fixture(scope="module")
def hip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hip")
    text = fake_driver.source("hip")
    head, tail = text.split("static int hit(const char *op, u64 *a, int count) {", 1)
    text = head + PLAYED + "static int hit(const char *op, u64 *a, int count) {\n  int here = play(op, a);\n" + tail
    text = text.replace("  if (0) {}\n", "  if (here) {}\n", 1)
    (folder / "driver.c").write_text(text)
    library = folder / "libplayinghip.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O0", "-w", str(folder / "driver.c"), "-o", str(library)], check=True)
    return library


@pytest.fixture
def on_hip(hip: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "rocm")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx942")
    monkeypatch.setenv("FLYDSL_HIP_LIBRARY", str(hip))
    device_runtime.reset_device_runtime()
    yield fake_driver.FakeDriver(hip)
    device_runtime.reset_device_runtime()


class OnDevice:
    """An array in the memory of the device."""

    def __init__(self, count: int):
        self.room = device_runtime.get_device_runtime().alloc(4 * count)
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "typestr": "<f4",
            "data": (self.room.ptr, False),
            "strides": None,
            "version": 3,
        }


def test_launches_on_hip_bring_memory_and_print_it(
    on_hip: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    x = OnDevice(128)
    on_hip.calls()
    talking(x, 7)
    assert capsys.readouterr().out == "start of 7 is 100 % sure {}\nstart of 1007 is 100 % sure {}\n"
    calls = [name for name, _ in on_hip.calls() if name in ("alloc", "set8_async", "copy_h2d_async", "launch")]
    assert calls == ["alloc", "set8_async", "copy_h2d_async", "launch"]
    for n in range(3):  # repeated calls too
        talking(x, n)
    assert capsys.readouterr().out.splitlines()[::2] == [f"start of {n} is 100 % sure {{}}" for n in range(3)]
    worker = threading.Thread(target=talking, args=(x, 9))
    worker.start()
    worker.join()
    assert "start of 1009" in capsys.readouterr().out
    names = on_hip.names()
    assert names.count("free") == names.count("alloc"), "the memory is given back"
    monkeypatch.setattr(type(device_runtime.get_device_runtime()), "stream_is_capturing", lambda self, stream: True)
    with pytest.raises(Exception, match="prints.*cannot be recorded into a graph"):
        talking(x, 1)


# --- reading records --------------------------------------------------------------------------------------------------

LINES = st.lists(st.tuples(st.integers(0, 2), st.integers(-(2**63), 2**63 - 1), st.floats(width=32)), max_size=12)
FORMATS = ["%d and %%\n", "%08x %.3e\n", "%lx\n"]


@given(LINES, st.integers(0, 30))
def test_records_come_back_in_order(lines: list[tuple[int, int, float]], room: int):
    words: list[int] = []
    wanted: list[str] = []
    asked, fits = 0, True
    for form, number, real in lines:
        size = 3 if form == 1 else 2
        narrow = number if form == 2 else ctypes.c_int32(number).value
        asked += size
        fits = fits and asked <= room
        if not fits:
            continue
        words += [1 << 63 | size << 32 | form, narrow & (1 << 64) - 1]
        if form == 1:
            words += [struct.unpack("<Q", struct.pack("<d", real))[0]]
        want = (f"{narrow} and %\n", f"{narrow & 0xFFFFFFFF:08x} " + "%.3e\n" % real, f"{number & (1 << 64) - 1:x}\n")  # noqa: UP031
        wanted.append(want[form])
    words += [0] * (room - len(words))
    data = struct.pack(f"<{HEAD_WORDS + len(words)}Q", asked, room, *words)
    assert list(lines_of(data, FORMATS)) == wanted


def test_special_numbers_print_as_c_prints_them():
    assert text_of("%.2f %g %e", struct.pack("<3d", float("inf"), float("nan"), -0.0)) == "inf nan -0.000000e+00"
    assert text_of("%+d %-6ld|%o", struct.pack("<3q", 5, -7, -1)) == "+5 -7    |37777777777"
