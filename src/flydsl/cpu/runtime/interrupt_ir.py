"""Control-C while a kernel runs: native code that takes the thread out of the kernel, wherever it is.

Python handles a signal between two of its own steps, and a kernel is one step. So a handler of our own stands in front
of Python's: where the thread it runs on is inside a kernel, it jumps back to the launcher, and so do all other threads
that run blocks. A kernel holds no locks and owns no memory, so it can be left anywhere. The launch then fails with
`INTERRUPTED`, and Python raises what it would have raised.

Every thread that runs blocks has a slot while it does: its id, and where to jump to.
"""

from __future__ import annotations

import platform
import sys

INTERRUPTED = 4
"""Status of a launch that was interrupted; the drivers' code for a runtime that is shutting down."""

SLOTS = 256
_SIGINT, _STOP = 2, 23
"""The second is SIGURG, which nobody else uses and everybody ignores: from the thread that was interrupted to the
others."""
_SA_SIGINFO, _SA_ONSTACK = 4, 0x08000000
_MASK_BYTES = 128
_ACTION_BYTES = 8 + _MASK_BYTES + 16
"""`struct sigaction` of glibc: handler, mask, flags, restorer."""
_PROGRAM_COUNTER = 168
"""Where `ucontext_t` of x86-64 has it."""

SUPPORTED = sys.platform == "linux" and platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"
"""Whether the structures are the ones written down here."""


def _install(name: str, signal: int, handler: str, guard: str) -> str:
    """Make a function of ours the handler of a signal where `guard` allows it for the one that stands there."""
    return f"""
define internal void @{name}() {{
  %action = alloca [{_ACTION_BYTES} x i8], align 16
  %now = alloca [{_ACTION_BYTES} x i8], align 16
  call i32 @sigaction(i32 {signal}, ptr null, ptr %now)
  %handler = load ptr, ptr %now, align 8
  %number = ptrtoint ptr %handler to i64
  %plain = icmp ult i64 %number, 2
  %ours = icmp eq ptr %handler, @{handler}
  %foreign = xor i1 %plain, true
  %allowed = {guard}
  %same = xor i1 %ours, true
  %wanted = and i1 %allowed, %same
  br i1 %wanted, label %install, label %done
install:
  call void @llvm.memcpy.p0.p0.i64(ptr @interrupt.before.{signal}, ptr %now, i64 {_ACTION_BYTES}, i1 false)
  call void @llvm.memset.p0.i64(ptr %action, i8 0, i64 {_ACTION_BYTES}, i1 false)
  store ptr @{handler}, ptr %action, align 8
  %flags = getelementptr i8, ptr %action, i64 {8 + _MASK_BYTES}
  store i32 {_SA_SIGINFO | _SA_ONSTACK}, ptr %flags, align 4
  call i32 @sigaction(i32 {signal}, ptr %action, ptr null)
  br label %done
done:
  ret void
}}
"""


INTERRUPT_IR = f"""
@flydsl_cpu_interrupted = global i64 0, align 8
@interrupt.threads = internal global [{SLOTS} x i64] zeroinitializer, align 16
@interrupt.places = internal global [{SLOTS} x ptr] zeroinitializer, align 16
@interrupt.before.{_SIGINT} = internal global [{_ACTION_BYTES} x i8] zeroinitializer, align 16
@interrupt.before.{_STOP} = internal global [{_ACTION_BYTES} x i8] zeroinitializer, align 16
declare i64 @pthread_self()
declare i32 @pthread_kill(i64, i32)
declare i32 @sigaction(i32, ptr, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @_setjmp(ptr) returns_twice
declare void @longjmp(ptr, i32) noreturn
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Put the handlers in place; that of interrupts only in front of another one, which is kept.
define i32 @flydsl_cpu_watch_interrupts() {{
  call void @watch.interrupts()
  call void @watch.stops()
  ret i32 0
}}
{_install("watch.interrupts", _SIGINT, "on_interrupt", "and i1 %foreign, true")}
{_install("watch.stops", _STOP, "on_stop", "and i1 %plain, true")}

; The slot of this thread, or -1; all others that run blocks are told to stop if `tell` is set.
define internal i64 @own_slot(i1 %tell) {{
entry:
  %self = call i64 @pthread_self()
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %again ]
  %mine = phi i64 [ -1, %entry ], [ %mine.next, %again ]
  %at = getelementptr i64, ptr @interrupt.threads, i64 %i
  %thread = load atomic i64, ptr %at acquire, align 8
  %same = icmp eq i64 %thread, %self
  %free = icmp eq i64 %thread, 0
  %claimed = icmp eq i64 %thread, -1
  %none = or i1 %free, %claimed
  %skip = or i1 %none, %same
  %other = xor i1 %skip, true
  %wake = and i1 %other, %tell
  br i1 %wake, label %stop, label %again
stop:
  call i32 @pthread_kill(i64 %thread, i32 {_STOP})
  br label %again
again:
  %mine.next = select i1 %same, i64 %i, i64 %mine
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, {SLOTS}
  br i1 %more, label %next, label %end
end:
  ret i64 %mine.next
}}

; Tell all others that run blocks to stop.
define i32 @flydsl_cpu_stop() {{
  call i64 @own_slot(i1 true)
  ret i32 0
}}

define internal void @leave(i64 %slot) {{
  %at = getelementptr ptr, ptr @interrupt.places, i64 %slot
  %place = load ptr, ptr %at, align 8
  call void @longjmp(ptr %place, i32 1)
  unreachable
}}

define internal void @on_stop(i32 %signal, ptr %info, ptr %context) {{
  %slot = call i64 @own_slot(i1 false)
  %inside = icmp ne i64 %slot, -1
  br i1 %inside, label %out, label %end
out:
  call void @leave(i64 %slot)
  unreachable
end:
  ret void
}}

define internal void @on_interrupt(i32 %signal, ptr %info, ptr %context) {{
  %slot = call i64 @own_slot(i1 true)
  %inside = icmp ne i64 %slot, -1
  br i1 %inside, label %out, label %pass
out:
  %pc.at = getelementptr i8, ptr %context, i64 {_PROGRAM_COUNTER}
  %pc = load i64, ptr %pc.at, align 8
  store i64 %pc, ptr @flydsl_cpu_interrupted, align 8
  call void @leave(i64 %slot)
  unreachable
pass:
  %before = load ptr, ptr @interrupt.before.{_SIGINT}, align 8
  call void %before(i32 %signal, ptr %info, ptr %context)
  ret void
}}

; Run blocks so that an interrupt leaves them: 0 when they are done, 1 when they were left.
define internal i32 @guarded(ptr %fn, ptr %params, ptr %geometry, ptr %shared, i64 %begin, i64 %end) {{
entry:
  %place = alloca [512 x i8], align 16
  %set = alloca [{_MASK_BYTES} x i8], align 16
  %slot = alloca i64, align 8
  store i64 -1, ptr %slot, align 8
  %self = call i64 @pthread_self()
  br label %find
find:
  %i = phi i64 [ 0, %entry ], [ %i.next, %on ]
  %at = getelementptr i64, ptr @interrupt.threads, i64 %i
  %seen = load atomic i64, ptr %at monotonic, align 8
  %free = icmp eq i64 %seen, 0
  br i1 %free, label %claim, label %on
claim:
  ; The place is written before the thread: a slot without a place is never read.
  %won = cmpxchg ptr %at, i64 0, i64 -1 acq_rel monotonic
  %mine = extractvalue {{ i64, i1 }} %won, 1
  br i1 %mine, label %ready, label %on
on:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, {SLOTS}
  br i1 %more, label %find, label %bare
bare:
  call void %fn(ptr %params, ptr %geometry, ptr %shared, i64 %begin, i64 %end)
  ret i32 0
ready:
  store i64 %i, ptr %slot, align 8
  %jumped = call i32 @_setjmp(ptr %place) returns_twice
  %back = icmp ne i32 %jumped, 0
  br i1 %back, label %left, label %run
run:
  %where = getelementptr ptr, ptr @interrupt.places, i64 %i
  store ptr %place, ptr %where, align 8
  store atomic i64 %self, ptr %at release, align 8
  call void %fn(ptr %params, ptr %geometry, ptr %shared, i64 %begin, i64 %end)
  store atomic i64 0, ptr %at release, align 8
  ret i32 0
left:
  %held = load i64, ptr %slot, align 8
  %held.at = getelementptr i64, ptr @interrupt.threads, i64 %held
  store atomic i64 0, ptr %held.at release, align 8
  call void @llvm.memset.p0.i64(ptr %set, i8 0, i64 {_MASK_BYTES}, i1 false)
  store i64 {1 << (_SIGINT - 1) | 1 << (_STOP - 1)}, ptr %set, align 8
  call i32 @pthread_sigmask(i32 1, ptr %set, ptr null)
  ret i32 1
}}
"""
"""The handler, and what runs blocks under it."""
