"""Reading line tables back from text: which source line each line of LLVM IR or assembly comes from.

IR names its lines by `!dbg` metadata, assembly by `.file` and `.loc` directives. Text without them has no lines.
"""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from ...errors import SourceFrame


class SourceLine(NamedTuple):
    """A line of a source file."""

    filename: str
    line: int

    def text(self) -> str:
        """What stands there, as far as the file can be read."""
        return linecache.getline(self.filename, self.line).strip()


# --- LLVM IR ----------------------------------------------------------------------------------------------------------

_NODE = re.compile(
    r"^!(\d+) = (?:distinct )?!(DILocation|DISubprogram|DIFile|DILexicalBlock\w*)\((.*)\)$", re.MULTILINE
)
_FIELD = re.compile(r'(\w+): (?:"((?:[^"\\]|\\[0-9A-F]{2})*)"|!?(\w+))')
_ATTACHED = re.compile(r", !dbg !(\d+)")
_Nodes = dict[str, tuple[str, dict[str, str]]]


def _nodes(ir_text: str) -> _Nodes:
    found: _Nodes = {}
    for number, kind, body in _NODE.findall(ir_text):
        found[number] = kind, {name: text or word for name, text, word in _FIELD.findall(body)}
    return found


def _file_of(nodes: _Nodes, number: str) -> str:
    """The file of a scope."""
    kind, fields = nodes.get(number, ("", {}))
    if kind == "DIFile":
        return os.path.join(_unquoted(fields.get("directory", "")), _unquoted(fields.get("filename", "")))
    return _file_of(nodes, fields["file"]) if "file" in fields else ""


def _unquoted(text: str) -> str:
    """A metadata string as it was before it was quoted."""
    data = re.sub(rb"\\([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), text.encode())
    return data.decode(errors="replace")


def _chain(nodes: _Nodes, number: str) -> list[SourceFrame]:
    """A location and those it is inlined at, outermost first."""
    found: list[SourceFrame] = []
    while number in nodes:
        _, fields = nodes[number]
        line, column = int(fields.get("line", "0")), int(fields.get("column", "1")) - 1
        found.append(SourceFrame(_file_of(nodes, fields.get("scope", "")), line, column))
        number = fields.get("inlinedAt", "")
    return found[::-1]


def ir_lines(ir_text: str) -> list[SourceLine | None]:
    """For each line of an IR text, the source line it comes from."""
    nodes = _nodes(ir_text)
    known: dict[str, SourceLine | None] = {}
    found: list[SourceLine | None] = []
    for line in ir_text.split("\n"):
        attached = _ATTACHED.search(line)
        if attached is None:
            found.append(None)
            continue
        number = attached[1]
        if number not in known:
            chain = _chain(nodes, number)
            known[number] = SourceLine(chain[-1].filename, chain[-1].line) if chain and chain[-1].line else None
        found.append(known[number])
    return found


def ir_chain(ir_text: str, line: int) -> list[SourceFrame]:
    """The user's frames of a line (from 1) of an IR text with line tables; none where it has no place in the source."""
    lines = ir_text.split("\n")
    attached = _ATTACHED.search(lines[line - 1]) if 0 < line <= len(lines) else None
    return [] if attached is None else _chain(_nodes(ir_text), attached[1])


# --- assembly ---------------------------------------------------------------------------------------------------------

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"(?:\s+"((?:[^"\\]|\\.)*)")?')
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_SECTION = re.compile(r"^\s*\.(?:section\s+(\S+?)(?:,|\s|$)|(text|data|bss|rodata)\b)")
_DEBUG_LABEL = re.compile(
    r"^(?:\.L|\$L__)(?:tmp|func_begin|func_end|debug_|info_|cu_|line_|sec_end|names|abbrev)\w*:\s*$"
)
_NOISE = re.compile(r"^\s*\.(?:file|loc|cfi_\w+)\b")


class AsmLine(NamedTuple):
    """A line of assembly and where it comes from."""

    text: str
    source: SourceLine | None


def assembly_lines(asm: str) -> list[AsmLine]:
    """Assembly without the directives and sections that hold its line table; each line with its source."""
    lines = asm.split("\n")
    files: dict[str, str] = {}
    for line in lines:
        if ".file" in line and (match := _FILE.match(line)):
            files[match[1]] = os.path.join(match[2], match[3]) if match[3] else match[2]
    found: list[AsmLine] = []
    here: SourceLine | None = None
    skipping = False
    for line in lines:
        section = _SECTION.match(line)
        if section is not None:
            skipping = (section[1] or "").startswith((".debug_", '".debug_'))
            here = None
        if skipping:
            continue
        place = _LOC.match(line)
        if place is not None:
            here = SourceLine(files.get(place[1], ""), int(place[2])) if int(place[2]) and place[1] in files else None
        if _NOISE.match(line) or _DEBUG_LABEL.match(line):
            continue
        found.append(AsmLine(line, here if _is_code(line) else None))
    return found


def _is_code(line: str) -> bool:
    """Whether a line is an instruction: indented, no directive, no comment."""
    word = line.strip()
    return line[:1].isspace() and word != "" and word[0] not in ".;#/{}"


def _comment_mark(lines: Sequence[str]) -> str:
    head = "\n".join(lines[:40])
    return "//" if ".address_size" in head else ";" if "amdgcn" in head else "#"


def annotate_assembly(asm: str) -> str | None:
    """Assembly in which each stretch stands under a comment with its source line; None without a line table."""
    lines = assembly_lines(asm)
    if not any(line.source for line in lines):
        return None
    mark = _comment_mark(asm.split("\n"))
    out: list[str] = []
    last: SourceLine | None = None
    for line in lines:
        if line.source != last and _is_code(line.text):
            last = line.source
            where = "no source line" if last is None else f"{last.filename}:{last.line}: {last.text()}"
            out.append(f"{mark} {where}".rstrip())
        out.append(line.text)
    return "\n".join(out)
