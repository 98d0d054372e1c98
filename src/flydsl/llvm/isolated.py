"""Code generation in worker processes, with the signatures of `codegen`: an abort of LLVM becomes an exception.

The first request starts a worker, later ones use it again. A worker is replaced when it died, and after `RECYCLE`
requests, because LLVM's pipelines keep memory for good. Nothing is started before the first request.
"""

from __future__ import annotations

import atexit
import dataclasses
import os
import threading
from typing import Any

from flydsl import config, errors
from flydsl.errors import CodegenAbortError, DSLCompileError
from flydsl.llvm import codegen
from flydsl.llvm.codegen import DeviceCode, DeviceTarget
from flydsl.llvm.worker_process import Frame, Header, WorkerDied, WorkerProcess, WorkerTimeout

RECYCLE = 256
"""Requests a worker serves; about 66 KB stay behind in it for each."""

_lock = threading.Lock()
_idle: list[WorkerProcess] = []
_busy: set[WorkerProcess] = set()


def _disown_workers() -> None:
    """In a fork()ed child: the workers belong to the parent, and a thread that held the lock does not exist."""
    global _lock
    _lock = threading.Lock()
    for each in (*_idle, *_busy):
        each.disown()
    _idle.clear()
    _busy.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_workers)


@atexit.register
def close_workers() -> None:
    """End the idle workers; the next request starts a new one."""
    with _lock:
        idle = _idle[:]
        _idle.clear()
    for each in idle:
        each.close()


def worker_pids() -> list[int]:
    """Processes of the workers that wait for requests."""
    with _lock:
        return [each.pid for each in _idle]


def _take() -> WorkerProcess:
    with _lock:
        while _idle:
            found = _idle.pop()
            if found.alive:
                break
            found.forget()
        else:
            found = WorkerProcess("flydsl.llvm.worker")
        _busy.add(found)
        return found


def _give_back(used: WorkerProcess) -> None:
    with _lock:
        _busy.discard(used)
        alive = used.process.returncode is None
        keep = alive and used.served < RECYCLE
        if keep:
            _idle.append(used)
    if alive and not keep:
        used.close()


def _ask(header: Header, *blobs: bytes) -> Frame:
    timeout = config.compile.llvm_timeout
    retried = False
    while True:
        used = _take()
        fresh = used.served == 0
        try:
            reply, made = used.ask(header, blobs, timeout=timeout)
            break
        except WorkerTimeout as late:
            limit = f"within {timeout} s; FLYDSL_COMPILE_LLVM_TIMEOUT sets the limit"
            raise DSLCompileError(f"LLVM did not finish {limit}{_quoted(str(late))}") from None
        except WorkerDied as death:
            # Killed from outside while it waited, or spoilt by an earlier request: a fresh one decides.
            if fresh or retried:
                raise _abort(death) from None
            retried = True
        finally:
            _give_back(used)
    if "error" in reply:
        raise _error(reply["error"], reply["message"])
    return reply, made


def _error(name: str, message: str) -> Exception:
    known: Any = getattr(errors, name, None) if name else None
    if known is None:
        return DSLCompileError(f"code generation failed in its worker process:\n{message}")
    return known(message)


def _abort(death: WorkerDied) -> CodegenAbortError:
    reasons = [line for line in death.output.splitlines() if "error:" in line.lower()]
    reason = f": {reasons[0].strip()}" if reasons else ""
    said = _quoted(death.output, reason)
    error = CodegenAbortError(f"LLVM cannot generate this code, its process {death.how()}{reason}{said}")
    error.returncode, error.stderr = death.returncode, death.output
    return error


def _quoted(output: str, known: str = "") -> str:
    """What LLVM said, without the stack it prints of itself."""
    said = [line for line in output.split("PLEASE submit a bug report")[0].splitlines() if line.strip()]
    said = [line for line in said if not known or line.strip() not in known][:12]
    return "".join(f"\n  | {line}" for line in said)


def _fields(target: DeviceTarget) -> dict[str, Any]:
    return dataclasses.asdict(target)


def compile_device(ir_text: str, target: DeviceTarget, opt_level: int = 2, *, optimized: bool = False) -> DeviceCode:
    """`codegen.compile_device` in a worker."""
    codegen.check_level(opt_level)
    assembly = codegen.inline_asm(ir_text)
    # llvmlite has no assembler for AMD GPUs: such an object is made from the bitcode by a program, here.
    emit = not (target.is_amdgpu and assembly is not None)
    request = {
        "do": "compile",
        "target": _fields(target),
        "level": opt_level,
        "optimized": optimized,
        "emit": emit,
    }
    reply, (bitcode, made) = _ask(request, ir_text.encode())

    def emit_assembly(code: DeviceCode) -> str:
        # Of what the object was made of.
        request = {"do": "assembly", "target": _fields(target), "level": opt_level, "optimized": optimized}
        return _ask({**request, "bitcode": not emit}, ir_text.encode() if emit else bitcode)[1][0].decode()

    code = DeviceCode(target, opt_level, bitcode, reply["times"], asm_text=assembly, assemble=emit_assembly)
    if emit:
        code.set_emitted(made)
    return code


def optimize(ir_text: str, target: DeviceTarget, level: int) -> str:
    """The default pipeline over IR text."""
    request = {"do": "optimize", "target": _fields(target), "level": level}
    return _ask(request, ir_text.encode())[1][0].decode()


def run_pipeline(ir_text: str, target: DeviceTarget, level: int, pipeline: str) -> str:
    """A pipeline of named passes over IR text."""
    request = {"do": "passes", "target": _fields(target), "level": level, "pipeline": pipeline}
    return _ask(request, ir_text.encode())[1][0].decode()
