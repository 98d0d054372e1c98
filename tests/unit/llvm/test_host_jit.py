"""Host code runs in this process."""

from __future__ import annotations

import ctypes
import gc
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from flydsl.errors import DSLCompileError
from flydsl.llvm import codegen, host_jit

LIBC = """
declare float @expf(float)
declare ptr @memcpy(ptr, ptr, i64)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
@table = internal constant [4 x float] [float 1.0, float 2.0, float 3.0, float 4.0]
@flag = global i32 0
define float @f(float %x, i64 %i) {
  %e = call float @expf(float %x)
  %p = getelementptr float, ptr @table, i64 %i
  %t = load float, ptr %p
  %r = fadd float %e, %t
  ret float %r
}
define void @copy(ptr %a, ptr %b, i64 %n) {
  %c = call ptr @memcpy(ptr %a, ptr %b, i64 %n)
  ret void
}
define internal ptr @body(ptr %arg) {
  store volatile i32 7, ptr %arg
  ret ptr null
}
define i32 @in_thread() {
  %id = alloca i64
  %made = call i32 @pthread_create(ptr %id, ptr null, ptr @body, ptr @flag)
  %t = load i64, ptr %id
  %joined = call i32 @pthread_join(i64 %t, ptr null)
  %v = load volatile i32, ptr @flag
  ret i32 %v
}
"""

COROUTINE = """
@out = global [3 x i32] zeroinitializer
define internal ptr @counter(i32 %n) presplitcoroutine {
entry:
  %id = call token @llvm.coro.id(i32 0, ptr null, ptr null, ptr null)
  %size = call i64 @llvm.coro.size.i64()
  %mem = call ptr @malloc(i64 %size)
  %self = call ptr @llvm.coro.begin(token %id, ptr %mem)
  store i32 %n, ptr @out
  %s0 = call i8 @llvm.coro.suspend(token none, i1 false)
  switch i8 %s0, label %suspend [i8 0, label %one i8 1, label %cleanup]
one:
  %n1 = add i32 %n, 1
  store i32 %n1, ptr getelementptr (i32, ptr @out, i64 1)
  %s1 = call i8 @llvm.coro.suspend(token none, i1 false)
  switch i8 %s1, label %suspend [i8 0, label %two i8 1, label %cleanup]
two:
  %n2 = mul i32 %n, 2
  store i32 %n2, ptr getelementptr (i32, ptr @out, i64 2)
  %s2 = call i8 @llvm.coro.suspend(token none, i1 true)
  switch i8 %s2, label %suspend [i8 0, label %never i8 1, label %cleanup]
never:
  unreachable
cleanup:
  %m = call ptr @llvm.coro.free(token %id, ptr %self)
  call void @free(ptr %m)
  br label %suspend
suspend:
  call void @llvm.coro.end(ptr %self, i1 false, token none)
  ret ptr %self
}
define ptr @start(i32 %n) noinline {
  %h = call ptr @counter(i32 %n)
  ret ptr %h
}
define i1 @resume(ptr %h) {
  call void @llvm.coro.resume(ptr %h)
  %done = call i1 @llvm.coro.done(ptr %h)
  ret i1 %done
}
define void @destroy(ptr %h) {
  call void @llvm.coro.destroy(ptr %h)
  ret void
}
declare token @llvm.coro.id(i32, ptr, ptr, ptr)
declare i64 @llvm.coro.size.i64()
declare ptr @llvm.coro.begin(token, ptr)
declare i8 @llvm.coro.suspend(token, i1)
declare ptr @llvm.coro.free(token, ptr)
declare void @llvm.coro.end(ptr, i1, token)
declare void @llvm.coro.resume(ptr)
declare void @llvm.coro.destroy(ptr)
declare i1 @llvm.coro.done(ptr)
declare ptr @malloc(i64)
declare void @free(ptr)
"""


def constant(n: int) -> str:
    return f"define i32 @value() {{\n  ret i32 {n}\n}}\n"


def call_int(library: host_jit.HostLibrary, name: str) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int)(library.address(name))()


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_calls_into_the_system(level: int):
    with host_jit.load_ir(LIBC, opt_level=level) as library:
        assert set(library.symbols) == {"f", "copy", "in_thread"}
        f = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float, ctypes.c_int64)(library.address("f"))
        assert f(1.0, 2) == pytest.approx(math.e + 3)
        copy = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64)(library.address("copy"))
        buffer = ctypes.create_string_buffer(6)
        copy(ctypes.addressof(buffer), b"abcde", 5)
        assert buffer.value == b"abcde"
        assert call_int(library, "in_thread") == 7


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_coroutine(level: int):
    """Suspended twice, so resumed twice; values live across the suspension points."""
    with host_jit.load_object(
        host_jit.compile_host(COROUTINE, level), exports=["start", "resume", "destroy", "out"]
    ) as library:
        out = (ctypes.c_int * 3).from_address(library.address("out"))
        start = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int)(library.address("start"))
        resume = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(library.address("resume"))
        destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.address("destroy"))
        handle = start(21)
        assert list(out) == [21, 0, 0]
        assert resume(handle) is False and list(out) == [21, 22, 0]
        assert resume(handle) is True and list(out) == [21, 22, 42]
        destroy(handle)


def test_vector_loop_computes():
    ir = """define void @scale(ptr noalias %x, float %a, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr inbounds float, ptr %x, i64 %i
  %v = load float, ptr %p
  %m = fmul float %v, %a
  store float %m, ptr %p
  %next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
    data = np.random.default_rng().standard_normal(1003).astype(np.float32)
    expected = data * np.float32(1.5)
    with host_jit.load_ir(ir, opt_level=3) as library:
        scale = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_float, ctypes.c_int64)(library.address("scale"))
        scale(data.ctypes.data, 1.5, data.size)
    np.testing.assert_array_equal(data, expected)


def test_half_conversions_link():
    """16-bit floats may need the compiler's run time on CPUs without the instructions."""
    ir = """define float @widen(i16 %x) {
  %h = bitcast i16 %x to half
  %f = fpext half %h to float
  ret float %f
}
define i16 @narrow(float %x) {
  %b = fptrunc float %x to half
  %i = bitcast half %b to i16
  ret i16 %i
}
"""
    with host_jit.load_ir(ir) as library:
        widen = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_uint16)(library.address("widen"))
        assert widen(0x3E00) == 1.5
        narrow = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_float)(library.address("narrow"))
        assert narrow(1.5) == 0x3E00


def test_imports_win():
    """A name bound by the caller is used, even where the process has one too."""
    callback = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(lambda x: x + 100)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    ir = "declare float @expf(float)\ndeclare float @launch(float)\n" + "".join(
        f"define float @{n}(float %x) {{\n  %y = call float @{c}(float %x)\n  ret float %y\n}}\n"
        for n, c in (("a", "expf"), ("b", "launch"))
    )
    with host_jit.load_ir(ir, imports={"expf": address, "launch": address}) as library:
        for name in "ab":
            assert ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(library.address(name))(1.0) == 101.0


def test_same_names_in_many_libraries():
    libraries = [host_jit.load_ir(constant(n)) for n in range(20)]
    assert len({library.name for library in libraries}) == 20
    assert [call_int(library, "value") for library in libraries] == list(range(20))
    for library in libraries[::2]:
        library.close()
    gc.collect()
    assert [call_int(library, "value") for library in libraries[1::2]] == list(range(1, 20, 2))


def test_threads():
    with ThreadPoolExecutor(4) as pool:
        libraries = list(pool.map(lambda n: host_jit.load_ir(constant(n)), range(16)))
    assert [call_int(library, "value") for library in libraries] == list(range(16))


def test_closed_and_unknown_names():
    library = host_jit.load_ir(constant(1))
    with pytest.raises(DSLCompileError, match="does not export 'other'; it exports value"):
        library.address("other")
    library.close()
    library.close()
    assert library.closed
    with pytest.raises(DSLCompileError, match="is closed"):
        library.address("value")


def test_missing_symbols_are_all_named(capfd: pytest.CaptureFixture[str]):
    ir = """declare void @no_such_one()
declare void @no_such_two()
define void @f() {
  call void @no_such_one()
  call void @no_such_two()
  ret void
}
"""
    with pytest.raises(DSLCompileError, match="no_such_one, no_such_two.*imports"):
        host_jit.load_ir(ir)
    assert capfd.readouterr().err == ""


def test_absent_export():
    with pytest.raises(DSLCompileError, match="does not define other; it defines value"):
        host_jit.load_ir(constant(1), exports=["other"])


def test_not_an_object():
    with pytest.raises(DSLCompileError):
        host_jit.load_object(b"nonsense", exports=["f"])


@pytest.mark.parametrize(("width", "each"), [(8, 16), (16, 8), (32, 2), (32, 4), (32, 8), (64, 2)])
def test_parts_of_a_vector_that_lie_beside_each_other(width: int, each: int):
    """LLVM makes one store of two, and has stored other elements where the vector's length is no power of two."""
    places = [(count * each, first * each) for count in (3, 5, 6, 8) for first in range(count - 1)]
    source = "".join(moves(f"move{i}", *place, each, width) for i, place in enumerate(places))
    target = codegen.DeviceTarget.host()  # its own passes would not leave these vectors alone
    code = codegen.emit_object(codegen.load_module(source, target), target.machine(2))
    with host_jit.load_object(code) as library:
        for i, (count, first) in enumerate(places):
            have, got = np.arange(1, count + 1, dtype=f"u{width // 8}"), np.zeros(2 * each, f"u{width // 8}")
            move = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.address(f"move{i}"))
            move(have.ctypes.data, got.ctypes.data)
            assert got.tolist() == have[first : first + 2 * each].tolist(), (count, first)


def moves(name: str, count: int, first: int, each: int, width: int) -> str:
    """A function that loads a vector and stores two parts of it that follow each other."""
    vector, part, size = f"<{count} x i{width}>", f"<{each} x i{width}>", width // 8
    taken = [", ".join(f"i32 {at + i}" for i in range(each)) for at in (first, first + each)]
    return f"""
define void @{name}(ptr %p, ptr %q) {{
  %x = load {vector}, ptr %p, align {size}
  %a = shufflevector {vector} %x, {vector} poison, <{each} x i32> <{taken[0]}>
  store {part} %a, ptr %q, align {size}
  %b = shufflevector {vector} %x, {vector} poison, <{each} x i32> <{taken[1]}>
  %r = getelementptr i8, ptr %q, i64 {each * size}
  store {part} %b, ptr %r, align {size}
  ret void
}}
"""
