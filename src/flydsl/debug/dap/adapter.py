"""The adapter: requests of a client such as VS Code on one side, the debugger on the other.

The program runs on the thread that called `serve`; requests are read and answered on another one. While a launch
stands its threads do not move, so what is asked about them is answered there and then.
"""

from __future__ import annotations

import io
import os
import queue
import threading
import traceback
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Any, BinaryIO, cast

from ...errors import DSLValueError, FlyDSLError
from ..debugger import Breakpoint, Command, Debugger, Move, Quit, Stop
from ..inquiry import inquire
from ..machine import Thread
from ..memory import Watch
from ..program import cpu_variables, environment, run_program
from ..session import Session
from ..variables import Frame, evaluate, frames_of, places, variables
from .values import References
from .wire import BadMessage, Message, Sender, read_message

CAPABILITIES: Message = {
    "supportsConfigurationDoneRequest": True,
    "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True,
    "supportsStepBack": True,
    "supportsDataBreakpoints": True,
    "supportsEvaluateForHovers": True,
    "supportsTerminateRequest": True,
    "supportsExceptionInfoRequest": False,
    "supportTerminateDebuggee": True,
}
HOST_THREAD = 1
"""The thread of Python; those of the GPU follow."""
PER_BLOCK = 1024
FEW = 64
"""Blocks of at most so many threads show each of them, larger ones a thread for each warp."""
_MOVES: dict[str, Move] = {
    "next": "over", "stepIn": "in", "stepOut": "out", "continue": "continue", "stepBack": "back",
    "reverseContinue": "reverse",
}  # fmt: skip


class _Output(io.TextIOBase):
    """What the program prints, as events."""

    def __init__(self, send: Callable[[str], None]):
        self._send = send

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        self._send(text)
        return len(text)


class Adapter:
    """One client and one program."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO):
        self._reader, self._sender = reader, Sender(writer)
        self.debugger = Debugger(self)
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._stopped: Stop | None = None
        self._references = References()
        self._frames: dict[int, tuple[Thread, Frame]] = {}
        self._launch: Message | None = None
        self._configured = threading.Event()
        self._gone = threading.Event()
        self._initialized = False
        self._of_file: dict[str, list[Breakpoint]] = {}
        self._then: Callable[[], object] | None = None
        """What a request starts; its answer is sent first."""

    # --- life -----------------------------------------------------------------------------------------------------

    def serve(self) -> int:
        """Until the client is gone."""
        reading = threading.Thread(target=self._read, name="debug adapter", daemon=True)
        reading.start()
        self._configured.wait()
        status = 0
        if not self._gone.is_set() and self._launch is not None:
            status = self._run(self._launch)
            self._event("exited", {"exitCode": status})
            self._event("terminated")
            self._gone.wait()
        return status

    def _run(self, given: Message) -> int:
        program = Path(str(given["program"]))
        arguments = [str(x) for x in cast("list[object]", given.get("args") or [])]
        variables = cpu_variables(cast("str | None", given.get("arch")))
        variables |= {str(k): str(v) for k, v in cast("dict[str, object]", given.get("env") or {}).items()}
        self.debugger.stop_at_entry = bool(given.get("stopOnEntry"))
        with ExitStack() as stack:
            stack.enter_context(environment(**variables))
            stack.enter_context(redirect_stdout(cast(Any, _Output(self._print))))
            try:
                stack.enter_context(Session(self.debugger.run, wanted=self.debugger.wants).open())
                return run_program(program, arguments)
            except Quit:
                return 0
            except Exception:  # noqa: BLE001 - the program's own failure, which the client shows
                self._print(traceback.format_exc(), "stderr")
                return 1

    def _read(self) -> None:
        try:
            while not self._gone.is_set():
                message = read_message(self._reader)
                if message is None:
                    break
                self._request(message)
        except (BadMessage, OSError) as error:
            self._print(f"fly debug: {error}\n", "stderr")
        finally:
            self._leave()

    def _leave(self) -> None:
        """The client is gone: let the program end."""
        self._gone.set()
        self._configured.set()
        self._quit()

    # --- messages -------------------------------------------------------------------------------------------------

    def _event(self, name: str, body: Message | None = None) -> None:
        if not self._gone.is_set() or name == "output":
            try:
                self._sender.send({"type": "event", "event": name, **({"body": body} if body else {})})
            except (OSError, ValueError):
                self._gone.set()  # the stream is closed

    def _print(self, text: str, category: str = "stdout") -> None:
        self._event("output", {"category": category, "output": text})

    def _request(self, message: Message) -> None:
        """Answer a request, or say what is wrong with it."""
        command = message.get("command")
        answer: Message = {"type": "response", "request_seq": message.get("seq", 0), "command": str(command)}
        try:
            if message.get("type") != "request" or not isinstance(command, str):
                raise DSLValueError(f"expected a request, got {message.get('type')!r} without a command")
            handler: Callable[[Message], Message | None] | None = getattr(self, f"on_{command}", None)
            if handler is None:
                raise DSLValueError(f"the request {command!r} is not supported")
            if not self._initialized and command != "initialize":
                raise DSLValueError(f"the request {command!r} came before 'initialize'")
            arguments: object = message.get("arguments") or {}
            if not isinstance(arguments, dict):
                raise DSLValueError(f"the arguments of {command!r} are an object, got {type(arguments).__name__}")
            body = handler(cast(Message, arguments))
        except KeyError as error:
            self._refuse(answer, f"{command}: the argument {error} is missing")
            return
        except Exception as error:  # noqa: BLE001 - a mistake in one request must not end the session
            self._refuse(answer, str(error) if isinstance(error, FlyDSLError) else f"{type(error).__name__}: {error}")
            return
        self._sender.send({**answer, "success": True, **({"body": body} if body is not None else {})})
        if self._then is not None:
            then, self._then = self._then, None
            then()

    def _refuse(self, answer: Message, text: str) -> None:
        error = {"id": 1, "format": text.replace("{", "(").replace("}", ")"), "showUser": True}
        self._sender.send({**answer, "success": False, "message": text, "body": {"error": error}})

    # --- what the debugger says -----------------------------------------------------------------------------------

    def launched(self, debugger: Debugger) -> None:
        """Breakpoints on lines that were traced hold now."""
        for each in debugger.breakpoints:
            body = {"reason": "changed", "breakpoint": self._breakpoint(each)}
            self._event("breakpoint", body)

    def ended(self, debugger: Debugger) -> None:
        """Threads of the GPU are no more."""
        self._forget()

    def stopped(self, debugger: Debugger, stop: Stop) -> Command:
        """Tell the client and wait for what it wants."""
        if self._gone.is_set():
            return Command("quit")
        self._stopped = stop
        body: Message = {"reason": stop.reason, "threadId": _number(stop.thread), "allThreadsStopped": True}
        if stop.text:
            body |= {"description": stop.text, "text": stop.text}
        if stop.breakpoint:
            body["hitBreakpointIds"] = [stop.breakpoint]
        self._event("stopped", body)
        command = self._commands.get()
        self._forget()
        return command

    def _forget(self) -> None:
        self._stopped = None
        self._references.clear()
        self._frames.clear()

    # --- starting -------------------------------------------------------------------------------------------------

    def on_initialize(self, given: Message) -> Message:
        self._initialized = True
        self._then = lambda: self._event("initialized")
        return CAPABILITIES

    def on_launch(self, given: Message) -> None:
        program = given["program"]
        if not Path(str(program)).is_file():
            raise DSLValueError(f"there is no program {program}")
        self._launch = given

    on_attach = on_launch

    def on_configurationDone(self, given: Message) -> None:  # noqa: N802 - the protocol's name
        if self._launch is None:
            raise DSLValueError("'configurationDone' came before 'launch'")
        self._then = self._configured.set

    def on_disconnect(self, given: Message) -> None:
        self._then = self._leave

    def on_terminate(self, given: Message) -> None:
        self._then = self._quit

    def _quit(self) -> None:
        self.debugger.pause()
        self._commands.put(Command("quit"))

    # --- breakpoints ----------------------------------------------------------------------------------------------

    def on_setBreakpoints(self, given: Message) -> Message:  # noqa: N802
        path = str(given["source"]["path"])
        found: list[Breakpoint] = []
        for each in cast("list[Message]", given.get("breakpoints") or []):
            every = str(each.get("hitCondition") or "1")
            if not every.isdigit() or int(every) < 1:
                raise DSLValueError(f"hitCondition is a number of hits, got {every!r}")
            found.append(Breakpoint(path, int(each["line"]), str(each.get("condition") or ""), int(every)))
        before = dict(self._of_file)
        self._of_file[path] = found
        try:
            self.debugger.set_breakpoints([b for group in self._of_file.values() for b in group])
        except SyntaxError as error:
            self._of_file = before
            raise DSLValueError(f"a condition is no expression of Python: {error.text!r}") from error
        return {"breakpoints": [self._breakpoint(b) for b in found]}

    def _breakpoint(self, each: Breakpoint) -> Message:
        known = each.line in self.debugger.lines_of(each.file)
        made: Message = {"id": each.number, "verified": known, "line": each.line}
        return made if known else {**made, "message": "no kernel that was traced so far has this line"}

    def on_setExceptionBreakpoints(self, given: Message) -> Message:  # noqa: N802
        """Mistakes always stop."""
        return {"breakpoints": [{"verified": True}] * len(given.get("filters") or ())}

    def on_dataBreakpointInfo(self, given: Message) -> Message:  # noqa: N802
        cell = self._references.cell(int(given.get("variablesReference") or 0), str(given["name"]))
        if cell is None:
            return {"dataId": None, "description": f"{given['name']} is no element of a tensor in memory"}
        return {
            "dataId": f"{cell.address}:{cell.nbytes}:{cell.label}",
            "description": cell.label,
            "accessTypes": ["write"],
        }

    def on_setDataBreakpoints(self, given: Message) -> Message:  # noqa: N802
        made: list[Watch] = []
        for each in cast("list[Message]", given["breakpoints"]):
            address, nbytes, label = str(each["dataId"]).split(":", 2)
            made.append(Watch(int(address), int(nbytes), label))
        self.debugger.set_watches(made)
        return {"breakpoints": [{"verified": True} for _ in made]}

    # --- looking --------------------------------------------------------------------------------------------------

    def _stop(self) -> Stop:
        if self._stopped is None:
            raise DSLValueError("the program is running; stop it first")
        return self._stopped

    def on_threads(self, given: Message) -> Message:
        host = {"id": HOST_THREAD, "name": "host"}
        if self._stopped is None:
            return {"threads": [host]}
        shown: dict[tuple[int, int], Thread] = {}
        first = self._stopped.thread
        for thread in [first, *self.debugger.threads]:
            block = thread.block
            part = thread.tid if block.count <= FEW else thread.tid // block.kernel.warp
            if thread.status != 0 or thread is first:
                shown.setdefault((block.number, part), thread)
        rows = [{"id": _number(t), "name": _name(t)} for _, t in sorted(shown.items())]
        return {"threads": [host, *rows]}

    def _thread(self, number: int) -> Thread:
        self._stop()
        at = number - HOST_THREAD - 1
        return self.debugger.find(at // PER_BLOCK, at % PER_BLOCK)

    def on_stackTrace(self, given: Message) -> Message:  # noqa: N802
        number = int(given["threadId"])
        if number == HOST_THREAD:
            return {"stackFrames": [], "totalFrames": 0}
        thread = self._thread(number)
        made: list[Message] = []
        for frame in frames_of(thread):
            self._frames[len(self._frames) + 1] = (thread, frame)
            path = os.path.abspath(frame.site.file)
            made.append(
                {
                    "id": len(self._frames),
                    "name": frame.site.function,
                    "line": frame.site.line,
                    "column": 1,
                    "source": {"name": Path(path).name, "path": path},
                }
            )
        first = int(given.get("startFrame") or 0)
        levels = int(given.get("levels") or 0)
        return {"stackFrames": made[first : first + levels if levels else None], "totalFrames": len(made)}

    def _frame(self, number: object) -> tuple[Thread, Frame | None]:
        if number is None:
            return self._stop().thread, next(iter(frames_of(self._stop().thread)), None)
        found = self._frames.get(int(cast(int, number)))
        if found is None:
            raise DSLValueError(f"frameId {number} is unknown, or of an earlier stop")
        return found

    def on_scopes(self, given: Message) -> Message:
        thread, frame = self._frame(given["frameId"])
        assert frame is not None
        local = self._references.add(lambda: [(k, v, None) for k, v in variables(thread, frame).items()])
        where = self._references.add(lambda: [(k, v, None) for k, v in places(thread).items() if k != "np"])
        return {
            "scopes": [
                {"name": "Locals", "presentationHint": "locals", "variablesReference": local, "expensive": False},
                {"name": "Thread", "variablesReference": where, "expensive": False},
            ]
        }

    def on_variables(self, given: Message) -> Message:
        self._stop()
        start, count = int(given.get("start") or 0), int(given.get("count") or 0)
        return {"variables": self._references.variables(int(given["variablesReference"]), start, count)}

    def on_evaluate(self, given: Message) -> Message:
        thread, frame = self._frame(given.get("frameId"))
        text = str(given["expression"]).strip()
        told = inquire(self.debugger, thread, frame, text) if given.get("context") == "repl" else None
        if told is not None:
            return {"result": told, "variablesReference": 0}
        described = self._references.described(evaluate(thread, frame, text))
        return {"result": described.pop("value"), **described}

    # --- moving ---------------------------------------------------------------------------------------------------

    def _move(self, name: str, given: Message) -> None:
        self._stop()
        number = int(given.get("threadId") or 0)
        thread = self._thread(number) if number > HOST_THREAD else self._stop().thread
        self._stopped = None
        command = Command(_MOVES[name], (thread.block.number, thread.tid))
        self._then = lambda: self._commands.put(command)

    def on_next(self, given: Message) -> None:
        self._move("next", given)

    def on_stepIn(self, given: Message) -> None:  # noqa: N802
        self._move("stepIn", given)

    def on_stepOut(self, given: Message) -> None:  # noqa: N802
        self._move("stepOut", given)

    def on_stepBack(self, given: Message) -> None:  # noqa: N802
        self._move("stepBack", given)

    def on_reverseContinue(self, given: Message) -> None:  # noqa: N802
        self._move("reverseContinue", given)

    def on_continue(self, given: Message) -> Message:
        self._move("continue", given)
        return {"allThreadsContinued": True}

    def on_pause(self, given: Message) -> None:
        if self._stopped is None:
            self.debugger.pause()


def _number(thread: Thread) -> int:
    return thread.block.number * PER_BLOCK + thread.tid + HOST_THREAD + 1


def _name(thread: Thread) -> str:
    block = thread.block
    return f"block {block.ids} warp {thread.tid // block.kernel.warp} thread {thread.ids}"
