"""Worker processes: children that answer requests over their standard streams, started, watched and ended from here.

A frame is a length, a JSON header and byte strings whose sizes the header tells. The child runs `serve`; the parent
holds a `WorkerProcess`. A child that dies is told apart from one that answers, whatever it died of.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from flydsl.errors import DSLCompileError, FlyDSLError

Header = dict[str, Any]
Frame = tuple[Header, list[bytes]]

_MAIN = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from {module} import main; main()"


class WorkerDied(Exception):
    """The worker ended instead of answering; the text is what it printed."""

    def __init__(self, returncode: int, output: str):
        super().__init__(output)
        self.returncode = returncode
        self.output = output

    def how(self) -> str:
        """How it ended."""
        if self.returncode < 0:
            return f"was ended by {signal.Signals(-self.returncode).name}"
        return f"ended with status {self.returncode}"


class WorkerTimeout(Exception):
    """The worker did not answer in time and was ended; the text is what it printed."""


def pack(header: Header, blobs: Sequence[bytes]) -> bytes:
    """One frame."""
    text = json.dumps({**header, "sizes": [len(blob) for blob in blobs]}).encode()
    return b"".join((len(text).to_bytes(8, "little"), text, *blobs))


def unpack(read: Callable[[int], bytes]) -> Frame:
    """The next frame; `read` gives exactly as many bytes as it is asked for."""
    header = json.loads(read(int.from_bytes(read(8), "little")))
    return header, [read(size) for size in header.pop("sizes")]


# --- the child ------------------------------------------------------------------------------------------------


def serve(answer: Callable[[Header, list[bytes]], Frame]) -> None:
    """Answer requests until the parent closes the input."""
    # Control-C in a terminal reaches the whole group; the parent decides what becomes of its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _no_core_files()
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    # Whatever else prints must not end up between the frames.
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    while True:
        try:
            request, blobs = unpack(partial(_exactly, requests))
        except EOFError:
            return
        replies.write(_reply(answer, request, blobs))
        replies.flush()


def _reply(answer: Callable[[Header, list[bytes]], Frame], request: Header, blobs: list[bytes]) -> bytes:
    try:
        return pack(*answer(request, blobs))
    except FlyDSLError as error:
        text = _with_place(str(error), error)
        message = getattr(error, "message", None) or str(error)
        return pack({"error": type(error).__name__, "message": message, "text": text}, [])
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent shows it
        text = _with_place(f"{type(error).__name__}: {error}", error)
        return pack({"error": "", "message": traceback.format_exc(), "text": text}, [])


def _with_place(text: str, error: BaseException) -> str:
    """A message with its notes; without them, with the last line outside this package and Python's own files."""
    notes: list[str] = list(getattr(error, "__notes__", ()))
    package = str(Path(__file__).resolve().parents[1])
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((package, "<"))]
    if frames and not notes and "File " not in text:
        notes.append(f'  File "{frames[-1].filename}", line {frames[-1].lineno}\n    {frames[-1].line}')
    return "\n".join([text, *notes])


def _exactly(stream: IO[bytes], count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data


def _no_core_files() -> None:
    try:
        import resource
    except ImportError:  # not on this system
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


# --- the parent -----------------------------------------------------------------------------------------------


class WorkerProcess:
    """A child that runs `main()` of a module, which serves."""

    def __init__(self, module: str, env: Mapping[str, str] | None = None):
        # Where the package comes from an import hook, its folder is not on the path yet.
        here = str(Path(__file__).resolve().parents[2])
        # Programs put paths there that are no text; Python passes over them, and so does a child.
        path = [p for p in sys.path if isinstance(p, str)]  # pyright: ignore[reportUnnecessaryIsInstance]
        path += [] if here in path else [here]
        self.errors = tempfile.TemporaryFile()
        try:
            self.process = subprocess.Popen(
                [sys.executable or "python3", "-c", _MAIN.format(module=module), json.dumps(path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                bufsize=0,
                env=None if env is None else {**os.environ, **env},
            )
        except OSError as error:
            self.errors.close()
            raise DSLCompileError(
                f"no worker process can be started ({error}); FLYDSL_COMPILE_ISOLATE=never runs LLVM in this process, "
                "where an abort of LLVM ends it"
            ) from error
        self.served = 0

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, header: Header, blobs: Sequence[bytes] = (), *, timeout: float) -> Frame:
        """Send a request and wait for the answer; `WorkerDied` or `WorkerTimeout` where there is none."""
        deadline = time.monotonic() + timeout
        start = os.fstat(self.errors.fileno()).st_size
        assert self.process.stdin is not None
        try:
            self.served += 1
            data = memoryview(pack(header, blobs))
            while data:
                data = data[self.process.stdin.write(data) or 0 :]
            return unpack(partial(self._read, deadline))
        except (EOFError, BrokenPipeError):
            self.process.wait()
            output = self._output(start)
            self.forget()
            raise WorkerDied(self.process.returncode, output) from None
        except TimeoutError:
            output = self._output(start)
            self.kill()
            raise WorkerTimeout(output) from None
        except BaseException:
            # An answer nobody waits for any more would be taken for that to the next request.
            self.kill()
            raise

    def _read(self, deadline: float, count: int) -> bytes:
        assert self.process.stdout is not None
        handle = self.process.stdout.fileno()
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        parts: list[bytes] = []
        while count:
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise TimeoutError
            data = os.read(handle, min(count, 1 << 20))
            if not data:
                raise EOFError
            parts.append(data)
            count -= len(data)
        return b"".join(parts)

    def _output(self, start: int) -> str:
        """What the worker printed since `start`."""
        return os.pread(self.errors.fileno(), 1 << 16, start).decode(errors="replace").strip()

    def kill(self) -> None:
        """End it now."""
        self.process.kill()
        self.process.wait()
        self.forget()

    def close(self) -> None:
        """End it after what it does now."""
        self.forget()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def forget(self) -> None:
        """Close our ends of its streams."""
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream is not None:
                # Bytes of a request that was cut short may still be in the buffer of a broken pipe.
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def disown(self) -> None:
        """In a fork()ed child: it belongs to the parent."""
        self.forget()
        self.process.returncode = 0  # not ours to wait for
