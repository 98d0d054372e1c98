"""The debugger at a console, with the words of Python's own."""

from __future__ import annotations

import cmd
import linecache
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import FlyDSLError
from .dap.values import shown
from .debugger import Breakpoint, Command, Debugger, Stop
from .inquiry import QUESTIONS
from .machine import Thread
from .memory import Watch
from .variables import Frame, TensorView, cell, evaluate, frames_of, variables

_ABOUT = """\
b [file:]line [if condition]   stop there; a condition may use variables, thread, block, tx, bx, warp, lane
d number                       remove a breakpoint or, without a number, all of them
c, n, s, r                     continue, next line, step into, return from the function
back, rc                       one line back, continue backwards
w, l, a                        where, list the source, all variables
p expression                   an expression of Python over the variables
threads, t block thread        the threads, look at another one
watch x[i]                     stop when an element of a tensor is written
who x[i], nan x[i]             who wrote an element; where a NaN in it was made
q                              end the program
"""


class Console(cmd.Cmd):
    """A person decides."""

    prompt = "(fly) "

    def __init__(self, script: str, stdin: IO[str] | None = None, stdout: IO[str] | None = None):
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.script = script
        self.debugger = Debugger(self)
        self._thread: Thread | None = None
        self._command: Command | None = None

    def say(self, text: str) -> None:
        self.stdout.write(text + "\n")

    # --- the controller -------------------------------------------------------------------------------------------

    def launched(self, debugger: Debugger) -> None:
        launch = debugger.state.launch
        self.say(f"kernel {launch.kernel.name}, grid {launch.grid}, block {launch.block}")

    def ended(self, debugger: Debugger) -> None:
        self._thread = None

    def stopped(self, debugger: Debugger, stop: Stop) -> Command:
        self.debugger, self._thread, self._command = debugger, stop.thread, None
        self.say(f"{stop.reason}{': ' + stop.text if stop.text else ''}")
        self._where(1)
        self.cmdloop()
        return self._command or Command("quit")

    # --- helpers --------------------------------------------------------------------------------------------------

    @property
    def thread(self) -> Thread:
        assert self._thread is not None
        return self._thread

    @property
    def frame(self) -> Frame:
        found = frames_of(self.thread)
        if not found:
            raise FlyDSLError("the thread has not begun")
        return found[0]

    def _where(self, most: int | None = None) -> None:
        thread = self.thread
        self.say(f"block {thread.block.ids} thread {thread.ids}, step {self.debugger.steps}")
        for frame in frames_of(thread)[:most]:
            text = linecache.getline(frame.site.file, frame.site.line).rstrip()
            self.say(f"> {frame.site.file}:{frame.site.line} {frame.site.function}\n{text}")

    def _go(self, command: Command) -> bool:
        self._command = command
        return True

    def _here(self) -> tuple[int, int]:
        return self.thread.block.number, self.thread.tid

    def onecmd(self, line: str) -> bool:
        try:
            return super().onecmd(line)
        except Exception as error:  # noqa: BLE001 - a mistake at the prompt must not end the session
            self.say(f"*** {type(error).__name__}: {error}")
            return False

    def emptyline(self) -> bool:
        return self.onecmd(self.lastcmd) if self.lastcmd else False

    # --- commands -------------------------------------------------------------------------------------------------

    def do_b(self, text: str) -> None:
        where, _, condition = text.partition(" if ")
        if not where.strip():
            for each in self.debugger.breakpoints:
                self.say(f"{each.number}: {each.file}:{each.line} {each.condition} ({each.hits} hits)")
            return
        file, _, line = where.strip().rpartition(":")
        default = self.frame.site.file if self._thread is not None and not file else self.script
        made = Breakpoint(str(Path(file)) if file else default, int(line), condition.strip())
        self.debugger.set_breakpoints([*self.debugger.breakpoints, made])
        self.say(f"breakpoint {made.number} at {made.file}:{made.line}")

    def do_d(self, text: str) -> None:
        keep = [b for b in self.debugger.breakpoints if text and b.number != int(text)]
        self.debugger.set_breakpoints(keep)
        if not text:
            self.debugger.set_watches(())

    def do_c(self, text: str) -> bool:
        return self._go(Command("continue"))

    def do_n(self, text: str) -> bool:
        return self._go(Command("over", self._here()))

    def do_s(self, text: str) -> bool:
        return self._go(Command("in", self._here()))

    def do_r(self, text: str) -> bool:
        return self._go(Command("out", self._here()))

    def do_back(self, text: str) -> bool:
        return self._go(Command("back", self._here()))

    def do_rc(self, text: str) -> bool:
        return self._go(Command("reverse", self._here()))

    def do_q(self, text: str) -> bool:
        return self._go(Command("quit"))

    do_EOF = do_q

    def do_w(self, text: str) -> None:
        self._where()

    def do_l(self, text: str) -> None:
        site = self.frame.site
        for n in range(max(1, site.line - 5), site.line + 6):
            line = linecache.getline(site.file, n).rstrip()
            self.say(f"{n:4d} {'->' if n == site.line else '  '} {line}")

    def do_a(self, text: str) -> None:
        for name, value in variables(self.thread, self.frame).items():
            self.say(f"{name} = {_line(value)}")

    def do_p(self, text: str) -> None:
        value = evaluate(self.thread, self.frame, text)
        self.say(f"{value}\n{np.asarray(value)}" if isinstance(value, TensorView) else _line(value))

    def do_threads(self, text: str) -> None:
        for thread in self.debugger.threads:
            found = frames_of(thread)
            at = f"{found[0].site.file}:{found[0].site.line}" if found else "not begun"
            state = "ended" if thread.status == 0 else at
            self.say(
                f"{'*' if thread is self._thread else ' '} block {thread.block.number} thread {thread.tid}: {state}"
            )

    def do_t(self, text: str) -> None:
        block, tid = (int(x) for x in text.split())
        self._thread = self.debugger.find(block, tid)
        self._where(1)

    def do_watch(self, text: str) -> None:
        found = cell(self.thread, self.frame, text)
        self.debugger.set_watches([*self.debugger.watches, Watch(*found)])
        self.say(f"watching {found.label}, {found.nbytes} bytes at {found.address:#x}")

    def do_who(self, text: str) -> None:
        self.say(QUESTIONS["who"](self.debugger, self.thread, cell(self.thread, self.frame, text)))

    def do_nan(self, text: str) -> None:
        self.say(QUESTIONS["nan"](self.debugger, self.thread, cell(self.thread, self.frame, text)))

    def do_help(self, arg: str) -> None:
        self.say(_ABOUT.rstrip())

    do_h = do_help

    def default(self, line: str) -> None:
        self.do_p(line)


def _line(value: Any) -> str:
    if isinstance(value, TensorView):
        return str(value)
    return np.array2string(value, max_line_width=120) if np.ndim(value) else shown(value)
