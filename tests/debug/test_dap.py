"""The Debug Adapter Protocol as a client speaks it: a whole conversation, by pipes and by a port, and bad requests."""

from __future__ import annotations

import io
import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from flydsl.debug.console import Console
from flydsl.debug.dap import serve
from flydsl.debug.dap.wire import BadMessage, Sender, read_message
from flydsl.debug.program import run_program
from flydsl.debug.session import Session

PROGRAM = """\
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx


def half(x):
    y = x * 0.5
    return y


@flyc.kernel
def kernel(a: fx.Tensor, out: fx.Tensor):
    tile = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 16]).peek()
    t = fx.thread_idx.x
    tile[15 - t] = a[t]
    fx.barrier()
    value = half(tile[t])
    out[t] = value / (a[t] - 3.0)
    t = t


@flyc.jit
def run(a: fx.Tensor, out: fx.Tensor):
    kernel(a, out).launch(grid=1, block=16)


a, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
a[12] = 0
with np.errstate(all="ignore"):
    run(a, out)
print("done", out[0])
"""
HALF, FILL, CALL, STORE, LAST = 7, 15, 17, 18, 19
LIMIT = 120.0


class Client:
    """What an editor does: sends requests, reads answers and events as they come."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO):
        self._writer, self._sequence = writer, 0
        self._inbox: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.events: list[dict[str, Any]] = []
        threading.Thread(target=self._read, args=(reader,), daemon=True).start()

    def _read(self, reader: BinaryIO) -> None:
        while (message := read_message(reader)) is not None:
            self._inbox.put(message)
        self._inbox.put(None)

    def _next(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            message = self._inbox.get(timeout=LIMIT)
            assert message is not None, "the adapter has closed the stream"
            if message["type"] == "event":
                self.events.append(message)
            if fits(message):
                return message

    def send(self, command: object, arguments: object = None, kind: str = "request") -> dict[str, Any]:
        """A request and its answer."""
        self._sequence += 1
        number = self._sequence
        data = json.dumps({"seq": number, "type": kind, "command": command, "arguments": arguments}).encode()
        self._writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
        self._writer.flush()
        return self._next(lambda m: m["type"] == "response" and m["request_seq"] == number)

    def ask(self, command: str, **arguments: object) -> dict[str, Any]:
        """The body of an answer that must be good."""
        answer = self.send(command, arguments)
        assert answer["success"], answer
        return cast("dict[str, Any]", answer.get("body", {}))

    def refused(self, command: str, **arguments: object) -> str:
        answer = self.send(command, arguments)
        assert not answer["success"] and answer["body"]["error"]["format"]
        return str(answer["message"])

    def event(self, name: str) -> dict[str, Any]:
        return cast("dict[str, Any]", self._next(lambda m: m.get("event") == name).get("body", {}))

    def start(self, program: Path, **more: object) -> None:
        assert self.ask("initialize", adapterID="fly", linesStartAt1=True)["supportsStepBack"]
        self.event("initialized")
        self.ask("launch", program=str(program), noDebug=False, **more)

    def line(self, thread: int) -> list[tuple[str, int]]:
        frames = self.ask("stackTrace", threadId=thread, startFrame=0, levels=20)["stackFrames"]
        return [(f["name"], f["line"]) for f in frames]

    def variables(self, thread: int) -> dict[str, dict[str, Any]]:
        (frame, *_) = self.ask("stackTrace", threadId=thread)["stackFrames"]
        scopes = self.ask("scopes", frameId=frame["id"])["scopes"]
        assert [s["name"] for s in scopes] == ["Locals", "Thread"]
        found = self.ask("variables", variablesReference=scopes[0]["variablesReference"])["variables"]
        return {v["name"]: v for v in found}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


@pytest.fixture
def client() -> Iterator[Client]:
    command = [sys.executable, "-m", "flydsl.tools.fly", "debug", "--dap"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        made = Client(cast(BinaryIO, process.stdout), cast(BinaryIO, process.stdin))
        yield made
        process.stdin.close()
        assert process.wait(LIMIT) == 0


def test_a_conversation(client: Client, program: Path):
    client.start(program)
    where = {"path": str(program)}
    made = client.ask("setBreakpoints", source=where, breakpoints=[{"line": CALL, "condition": "thread == 3"}])
    assert made["breakpoints"][0]["verified"] is False, "nothing is traced yet"
    client.ask("setExceptionBreakpoints", filters=[])
    assert "earlier stop" in client.refused("scopes", frameId=1)
    client.ask("configurationDone")
    stop = client.event("stopped")
    assert stop["reason"] == "breakpoint" and stop["allThreadsStopped"] and stop["hitBreakpointIds"] == [1]
    assert any(e["event"] == "breakpoint" and e["body"]["breakpoint"]["verified"] for e in client.events)
    thread = stop["threadId"]
    threads = {t["id"]: t["name"] for t in client.ask("threads")["threads"]}
    assert len(threads) == 1 + 16 - 3 and "thread (3, 0, 0)" in threads[thread], "three threads have ended"
    assert client.line(thread) == [("kernel", CALL)]

    values = client.variables(thread)
    assert values["t"]["value"] == "3" and "f32 shared 16:1" in values["tile"]["value"]
    inside = client.ask("variables", variablesReference=values["tile"]["variablesReference"], start=2, count=3)
    assert [v["name"] for v in inside["variables"]] == ["[2]", "[3]", "[4]"]
    assert [v["value"] for v in inside["variables"]] == ["13.0", "0.0", "11.0"]
    frame = client.ask("stackTrace", threadId=thread)["stackFrames"][0]["id"]
    assert client.ask("evaluate", expression="tile[t] + a[5]", frameId=frame, context="watch")["result"] == "5.0"
    told = client.ask("evaluate", expression="who tile[3]", frameId=frame, context="repl")["result"]
    assert "thread (12, 0, 0)" in told and f"program.py:{FILL}" in told
    assert "not defined" in client.refused("evaluate", expression="nothing", frameId=frame)

    # Into the function, back out of it, forwards again.
    client.ask("stepIn", threadId=thread)
    assert client.event("stopped")["reason"] == "step"
    assert client.line(thread) == [("half", HALF), ("kernel", CALL)] and client.variables(thread)["x"]["value"] == "0.0"
    assert "earlier stop" in client.refused("scopes", frameId=999)
    client.ask("stepBack", threadId=thread)
    client.event("stopped")
    assert client.line(thread) == [("kernel", CALL)]
    client.ask("stepIn", threadId=thread)
    client.event("stopped")
    client.ask("stepOut", threadId=thread)
    client.event("stopped")
    assert client.line(thread) == [("kernel", STORE)] and client.variables(thread)["value"]["value"] == "0.0"

    # An element of the output is watched; its writer stops.
    out = client.variables(thread)["out"]
    client.ask("variables", variablesReference=out["variablesReference"])
    info = client.ask("dataBreakpointInfo", variablesReference=out["variablesReference"], name="[9]")
    assert info["description"] == "out[9]"
    assert client.ask("dataBreakpointInfo", variablesReference=0, name="t")["dataId"] is None
    client.ask("setDataBreakpoints", breakpoints=[{"dataId": info["dataId"], "accessType": "write"}])
    client.ask("continue", threadId=thread)
    stop = client.event("stopped")
    assert stop["reason"] == "data breakpoint" and "out[9]" in stop["description"]
    assert client.line(stop["threadId"]) == [("kernel", STORE)]

    # Backwards to the breakpoint, where a NaN is asked for that thread 3 made.
    client.ask("setDataBreakpoints", breakpoints=[])
    client.ask("setBreakpoints", source=where, breakpoints=[{"line": LAST, "condition": "t == 3", "hitCondition": "1"}])
    client.ask("reverseContinue", threadId=stop["threadId"])
    stop = client.event("stopped")
    assert client.line(stop["threadId"]) == [("kernel", LAST)]
    told = client.ask("evaluate", expression="nan out[3]", context="repl")["result"]
    assert f"program.py:{STORE}: nan: fdiv of 0, 0 gave nan" in told and "thread (3, 0, 0)" in told

    client.ask("next", threadId=stop["threadId"])
    client.event("stopped")
    client.ask("setBreakpoints", source=where, breakpoints=[])
    client.ask("continue", threadId=stop["threadId"])
    assert client.event("exited")["exitCode"] == 0
    client.event("terminated")
    printed = "".join(e["body"]["output"] for e in client.events if e["event"] == "output")
    assert printed.startswith("done ")
    client.ask("disconnect")


def test_over_a_port(program: Path):
    command = [sys.executable, "-m", "flydsl.tools.fly", "debug", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        host, port = process.stderr.readline().decode().split()[-1].split(":")
        assert host == "127.0.0.1"
        with (
            socket.create_connection((host, int(port)), LIMIT) as connection,
            connection.makefile("rb") as reader,
            connection.makefile("wb") as writer,
        ):
            client = Client(cast(BinaryIO, reader), cast(BinaryIO, writer))
            client.start(program, stopOnEntry=True)
            client.ask("configurationDone")
            assert client.event("stopped")["reason"] == "entry"
            # The client goes while the program stands: it ends.
            client.ask("disconnect", terminateDebuggee=True)
            assert process.wait(LIMIT) == 0


def conversation(*messages: dict[str, object]) -> list[dict[str, Any]]:
    """What an adapter in this process answers to messages that start no program."""
    to = io.BytesIO()
    sender = Sender(to)
    for message in messages:
        sender.send(dict(message))
    to.seek(0)
    back = io.BytesIO()
    assert serve(cast(BinaryIO, to), cast(BinaryIO, back)) == 0
    back.seek(0)
    found: list[dict[str, Any]] = []
    while (answer := read_message(cast(BinaryIO, back))) is not None:
        found.append(answer)
    return found


def request(command: object, **arguments: object) -> dict[str, object]:
    return {"type": "request", "command": command, "arguments": arguments}


def test_bad_requests_are_answered():
    first = request("initialize")
    answers = conversation(
        request("threads"), first, request("frobnicate"), request("launch"), request("launch", program="/no/such.py"),
        request("configurationDone"), request(7), {"type": "request", "command": "launch", "arguments": [1]},
        request("setBreakpoints", source={"path": "k.py"}, breakpoints=[{"line": 3, "condition": "a b"}]),
        request("setBreakpoints", source={"path": "k.py"}, breakpoints=[{"line": 3, "hitCondition": "often"}]),
        request("stackTrace", threadId=5), request("next", threadId=2), request("variables", variablesReference=1),
        request("threads"), request("disconnect"),
    )  # fmt: skip
    texts = [a["message"] if not a["success"] else "good" for a in answers if a["type"] == "response"]
    assert [a["event"] for a in answers if a["type"] == "event"] == ["initialized"]
    for text, wanted in zip(
        texts,
        [
            "came before 'initialize'", "good", "'frobnicate' is not supported", "the argument 'program' is missing",
            "there is no program /no/such.py", "came before 'launch'", "expected a request", "are an object, got list",
            "no expression of Python", "a number of hits, got 'often'", "the program is running",
            "the program is running", "the program is running", "good", "good",
        ],
        strict=True,
    ):  # fmt: skip
        assert wanted in text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"nonsense\r\n\r\n{}", "expected a header"),
        (b"Content-Length: x\r\n\r\n{}", "expected a length"),
        (b"Content-Length: 999999999999\r\n\r\n{}", "expected a length"),
        (b"Content-Type: json\r\n\r\n{}", "no Content-Length"),
        (b"Content-Length: 3\r\n\r\n{a}", "no JSON"),
        (b"Content-Length: 2\r\n\r\n[]", "is an object, got list"),
    ],
)
def test_bytes_that_are_no_message(data: bytes, text: str):
    with pytest.raises(BadMessage, match=text):
        read_message(cast(BinaryIO, io.BytesIO(data)))
    back = io.BytesIO()
    assert serve(cast(BinaryIO, io.BytesIO(data)), cast(BinaryIO, back)) == 0
    assert text.encode() in back.getvalue()


def test_a_message_that_is_cut_off_is_the_end():
    assert read_message(cast(BinaryIO, io.BytesIO(b"Content-Length: 30\r\n\r\n{"))) is None


def test_the_console(program: Path, capsys: pytest.CaptureFixture[str]):
    words = "p tile\nwho tile[3]\nn\nw\na\nback\nl\nthreads\nt 0 9\np t\nwatch out[9]\nb\nd\nbogus +\nh\nc\n"
    out = io.StringIO()
    console = Console(str(program), io.StringIO(words), out)
    console.onecmd(f"b {CALL} if thread == 3")
    with Session(console.debugger.run, wanted=console.debugger.wants).open():
        assert run_program(program, ()) == 0
    for text in (
        "kernel kernel_0, grid (1, 1, 1), block (16, 1, 1)", f"program.py:{CALL} kernel", "f32 shared 16:1",
        f"thread (12, 0, 0) of block 0 at {program}:{FILL}", "value = 0.0", "* block 0 thread 3", "watching out[9]",
        "*** SyntaxError", "one line back",
    ):  # fmt: skip
        assert text in out.getvalue(), text
    assert capsys.readouterr().out.startswith("done ")


def test_breakpoint_in_a_kernel_opens_the_console(program: Path):
    text = PROGRAM.replace("    fx.barrier()", "    fx.barrier()\n    if t == 5:\n        breakpoint()")
    program.write_text(text, encoding="utf-8")
    given = {**os.environ, "FLYDSL_COMPILE_BACKEND": "cpu", "FLYDSL_COMPILE_ARCH": "native"}
    done = subprocess.run(
        [sys.executable, str(program)], input="p t\nc\n", capture_output=True, text=True, timeout=LIMIT, check=False,
        env=given,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"program.py:{CALL + 1} kernel\n        breakpoint()\n(fly) 5\n" in done.stdout
    assert done.stdout.rstrip().splitlines()[-1].startswith("(fly) done ")
