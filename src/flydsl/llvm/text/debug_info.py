"""Line tables: LLVM debug metadata made of the source locations of ops.

One compile unit; a subprogram for each kernel and for each Python function whose lines were traced into one; a location
for each line and column, inlined at the line of the call. Lines only, no variables. Numbers start at `FIRST`, above
those a module uses for itself.

A device module that wants them has the attribute `fly.debug_info`; without it nothing here runs.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation

from ...ir.locations import frames_of, function_of

if TYPE_CHECKING:
    from .module_text import ModuleText

ATTRIBUTE = "fly.debug_info"
"""Attribute of a device module that is compiled with line tables."""
FIRST = 100_000
PRODUCER = "flydsl"
_DWARF = {"LineTablesOnly": 4, "DebugDirectivesOnly": 2}
"""Version 5 counts files from 0, and LLVM still gives instructions without a line the file 1."""

Emission = Literal["LineTablesOnly", "DebugDirectivesOnly"]


def attach(text: ModuleText, module: Operation, emission: Emission = "LineTablesOnly") -> None:
    """Let a module be written with line tables if it asks for them, in the form its target takes."""
    if ATTRIBUTE in module.attributes:
        text.debug = DebugInfo(emission)


class DebugInfo:
    """The debug metadata of one module."""

    def __init__(self, emission: Emission = "LineTablesOnly"):
        self._emission = emission
        self._nodes: dict[str, int] = {}
        """Numbers by text: equal nodes are one."""
        self._functions: dict[tuple[str, str, int], str] = {}
        self._unit = ""

    # --- nodes ----------------------------------------------------------------------------------------------------

    def _node(self, text: str) -> str:
        return f"!{self._nodes.setdefault(text, FIRST + len(self._nodes))}"

    def _file(self, name: str) -> str:
        # Debuggers look for the file from wherever they run; code of notebooks and strings has no file.
        path = PurePath(name if name.startswith("<") else os.path.abspath(name))
        return self._node(f"!DIFile(filename: {_quoted(path.name)}, directory: {_quoted(str(path.parent))})")

    def subprogram(self, name: str, file: str, line: int, symbol: str = "") -> str:
        """A function; the first one's file is that of the compile unit."""
        found = self._functions.get((name + symbol, file, line))
        if found is None:
            where = self._file(file)
            if not self._unit:
                self._unit = self._node(
                    f"distinct !DICompileUnit(language: DW_LANG_Python, file: {where}, producer: {_quoted(PRODUCER)}, "
                    f"isOptimized: true, runtimeVersion: 0, emissionKind: {self._emission}, nameTableKind: None)"
                )
            linkage = f", linkageName: {_quoted(symbol)}" if symbol else ""
            type_ = self._node(f"!DISubroutineType(types: {self._node('!{}')})")
            found = self._functions[name + symbol, file, line] = self._node(
                f"distinct !DISubprogram(name: {_quoted(name)}{linkage}, scope: {where}, file: {where}, line: {line}, "
                f"type: {type_}, scopeLine: {line}, spFlags: DISPFlagDefinition | DISPFlagOptimized, "
                f"unit: {self._unit})"
            )
        return found

    def location(self, line: int, column: int, scope: str, inlined_at: str = "") -> str:
        """A place in a function; columns count from 0."""
        at = f", inlinedAt: {inlined_at}" if inlined_at else ""
        return self._node(f"!DILocation(line: {line}, column: {column + 1}, scope: {scope}{at})")

    def function(self, op: Operation) -> FunctionLocations:
        """What gives the locations of a function's ops."""
        return FunctionLocations(self, op)

    def finish(self, footer: list[str]) -> None:
        """Append the metadata to the module's own; its flags are extended."""
        if not self._unit:
            return
        flags = [
            self._node('!{i32 2, !"Debug Info Version", i32 3}'),
            self._node(f'!{{i32 7, !"Dwarf Version", i32 {_DWARF[self._emission]}}}'),
        ]
        head = "!llvm.module.flags = !{"
        at = next((i for i, line in enumerate(footer) if line.startswith(head)), None)
        if at is None:
            footer.append(f"{head}{', '.join(flags)}}}")
        else:
            footer[at] = f"{footer[at][:-1]}, {', '.join(flags)}}}"
        footer.append(f"!llvm.dbg.cu = !{{{self._unit}}}")
        footer += [f"!{number} = {text}" for text, number in self._nodes.items()]


class FunctionLocations:
    """Locations of the ops of one function."""

    def __init__(self, info: DebugInfo, op: Operation):
        self._info = info
        self._known: dict[Any, str] = {}
        symbol: str = getattr(op.get_attr_or_prop("sym_name"), "data", "")
        self.subprogram = ""
        """The function's own node; empty where none of its ops has a location."""
        # Most ops are in the kernel; those that unpack its arguments may be at the line of the launch.
        chains = (frames_of(inner.location) for inner in op.walk() if inner is not op)
        places = [(frames[0].filename.data, *_owner(frames[0])) for frames in chains if frames]
        if places:
            file, name = Counter(place[:2] for place in places).most_common(1)[0][0]
            line = min(place[2] for place in places if place[:2] == (file, name))
            self._inside = file, name, line
            self.subprogram = info.subprogram(name or symbol, file, line, symbol)
            self._head = (symbol, file, line)

    def around(self, code: str) -> str:
        """The text of a function that calls this one, with places on the calls: inlining loses all others without."""
        head, brace, body = code.partition(" {\n")
        own = self._info.subprogram(*self._head)
        tail = f", !dbg {self._info.location(self._head[2], 0, own)}"
        lines = (line + tail if '.thread"(' in line else line for line in body.split("\n"))
        return f"{head} !dbg {own}{brace}" + "\n".join(lines)

    def annotate(self, lines: list[str], start: int, op: Operation) -> None:
        """Put the location of an op on the instructions from `start` on that have none."""
        tail = ""
        for i in range(start, len(lines)):
            line = lines[i]
            # A phi is no step of the program; what stands for it has places of its own.
            if line.startswith("  ") and ", !dbg !" not in line and " = phi " not in line:
                if not tail:
                    where = self.node(op.location)
                    if not where:
                        return
                    tail = f", !dbg {where}"
                lines[i] = line + tail

    def node(self, location: Any) -> str:
        """Metadata of a location, or nothing for an unknown one."""
        found = self._known.get(location)
        if found is None:
            found = self._known[location] = self._make(frames_of(location))
        return found

    def _make(self, frames: list[FileLineColLoc]) -> str:
        if not frames or not self.subprogram:
            return ""
        info, scope, inlined_at, inside = self._info, self.subprogram, "", self._inside
        found = info.location(self._head[2], 0, scope)
        for frame in frames:
            here = (frame.filename.data, *_owner(frame))
            # A branch or the body of a loop has a frame of its own, but is the same function.
            if here[:2] != inside[:2]:
                inside, inlined_at = here, found
                scope = info.subprogram(here[1] or PurePath(here[0]).name, here[0], here[2])
            found = info.location(frame.line.data, frame.column.data, scope, inlined_at)
        return found


def suffix(locations: FunctionLocations | None) -> str:
    """What stands at the end of a function's head."""
    return f" !dbg {locations.subprogram}" if locations is not None and locations.subprogram else ""


def caller(locations: FunctionLocations | None, code: str) -> str:
    """Text of the function that calls a kernel's threads."""
    return code if locations is None or not locations.subprogram else locations.around(code)


def _owner(frame: FileLineColLoc) -> tuple[str, int]:
    """Name and first line of the function a frame is in."""
    found = function_of(frame)
    return ("", frame.line.data) if found is None else (found.name, found.first_line)


def _quoted(text: str) -> str:
    """A metadata string: what is not plain is written by its bytes."""
    plain = (chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in os.fsencode(text))
    return f'"{"".join(plain)}"'
