"""The language server: the protocol by pygls on one side, documents and their analyses on the other.

A file is analysed when it is opened and when it is saved, in a child process: running it may do anything, also end the
process, and a file that is saved again while that goes on needs another look.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from flydsl import __version__
from flydsl.tools.lsp.document import STAGES, Document, Span
from flydsl.tools.lsp.found import Found, FoundMistake, nothing
from flydsl.tools.lsp.source import parse

SHOW = "fly.showLowered"
"""The command of the lenses: file, function, stage."""
_ERROR = types.DiagnosticSeverity.Error


def _range(span: Span) -> types.Range:
    return types.Range(types.Position(span.line, span.start), types.Position(span.line, span.end))


class FlyServer(LanguageServer):
    """Documents by address, and the analysis each is waiting for."""

    def __init__(self, target: str | None, timeout: float):
        super().__init__("fly", __version__, types.TextDocumentSyncKind.Full)  # pyright: ignore[reportUnknownMemberType]
        self.target = target
        self.timeout = timeout
        self.documents: dict[str, Document] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="fly-lsp-"))
        """Where texts lie that an editor is asked to show."""
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)

    def document(self, uri: str) -> Document:
        """The document of an address, with the text the editor has."""
        text = self.workspace.get_text_document(uri).source
        known = self.documents.get(uri)
        if known is None:
            known = self.documents[uri] = Document(to_fs_path(uri) or "", text)
        known.change(text)
        return known

    def look(self, uri: str) -> None:
        """Analyse a file, in place of what may be under way for it."""
        before = self.tasks.pop(uri, None)
        if before is not None:
            before.cancel()
        self.tasks[uri] = asyncio.get_running_loop().create_task(self._look(uri))

    async def _look(self, uri: str) -> None:
        document = self.document(uri)
        path = Path(document.path)
        if not document.path or not path.is_file():
            return
        text = path.read_text(encoding="utf-8", errors="replace")
        document.take(text, await self._analysed(document.path, text))
        self._publish(uri, document)
        self._refresh()

    async def _analysed(self, path: str, text: str) -> Found:
        """By the child process; what has no kernels is not run at all."""
        if "flydsl" not in text:
            return nothing()
        try:
            if not parse(text, path).functions:
                return nothing()
        except SyntaxError:
            pass  # told by the child, which runs nothing of it
        with tempfile.TemporaryDirectory(prefix="fly-lsp-") as folder:
            out = Path(folder) / "found.json"
            command = ["-P", "-m", "flydsl.tools.lsp.analysis", str(out), path, *filter(None, (self.target,))]
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                _, said = await asyncio.wait_for(child.communicate(), self.timeout)
            except TimeoutError:
                return nothing(_about_the_file(f"it took more than {self.timeout:g} s, and was ended"))
            finally:
                if child.returncode is None:
                    child.kill()
                    await child.wait()
            if not out.exists():
                last = (said.decode(errors="replace").strip().splitlines() or [""])[-1]
                why = f"the file ended the process that looked at it (status {child.returncode}) {last}"
                return nothing(_about_the_file(why))
            found: Found = json.loads(out.read_text(encoding="utf-8"))
            return found

    def _publish(self, uri: str, document: Document) -> None:
        found = [
            types.Diagnostic(
                _range(each.span), each.message, severity=types.DiagnosticSeverity(each.severity), source="fly"
            )
            for each in document.diagnostics()
        ]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found))

    def _refresh(self) -> None:
        """Ask the editor to ask again, where it can be asked."""
        about = self.client_capabilities.workspace
        if about is not None and about.inlay_hint is not None and about.inlay_hint.refresh_support:
            self.workspace_inlay_hint_refresh(None)
        if about is not None and about.code_lens is not None and about.code_lens.refresh_support:
            self.workspace_code_lens_refresh(None)

    def written(self, uri: str, name: str | None, stage: str, line: int | None) -> types.Location | None:
        """The text of a stage as a file, and the place in it."""
        found = self.document(uri).lowered(name, stage, line)
        if found is None:
            return None
        file = self.folder / found.name
        file.write_text(found.text, encoding="utf-8")
        place = types.Position(found.line, 0)
        return types.Location(from_fs_path(str(file)) or "", types.Range(place, place))


def _about_the_file(message: str) -> FoundMistake:
    return {"line": 1, "column": 0, "end": 0, "message": message, "severity": int(_ERROR)}


def serve(target: str | None, timeout: float) -> None:
    """Speak on standard input and output until the editor says exit."""
    # The protocol has standard output to itself, and closes it; what else is printed goes to standard error.
    own = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(os.dup(0), "rb") as reader, os.fdopen(own, "wb") as writer:
        make(target, timeout).start_io(reader, writer)


def make(target: str | None, timeout: float) -> FlyServer:
    """The server with what it offers."""
    server = FlyServer(target, timeout)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: types.DidOpenTextDocumentParams) -> None:
        server.look(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: types.DidSaveTextDocumentParams) -> None:
        server.look(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: types.DidChangeTextDocumentParams) -> None:
        server.document(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        task = server.tasks.pop(uri, None)
        if task is not None:
            task.cancel()
        server.documents.pop(uri, None)
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    async def inlay_hints(params: types.InlayHintParams) -> list[types.InlayHint]:
        found = server.document(params.text_document.uri)
        return [
            types.InlayHint(
                types.Position(each.line, each.column), each.text, kind=types.InlayHintKind.Type, tooltip=each.more
            )
            for each in found.inlay_hints(params.range.start.line, params.range.end.line)
        ]

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(params: types.HoverParams) -> types.Hover | None:
        found = server.document(params.text_document.uri).hover(params.position.line, params.position.character)
        if found is None:
            return None
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, found.markdown), _range(found.span))

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS)
    async def lenses(params: types.CodeLensParams) -> list[types.CodeLens]:
        uri = params.text_document.uri
        out: list[types.CodeLens] = []
        for each in server.document(uri).lenses():
            command = types.Command(title=each.title, command=SHOW, arguments=[uri, each.function, each.stage])
            out.append(types.CodeLens(_range(Span(each.line, 0, 0)), command))
        return out

    @server.feature(types.TEXT_DOCUMENT_IMPLEMENTATION)
    async def lowered(params: types.ImplementationParams) -> list[types.Location]:
        places = [server.written(params.text_document.uri, None, s, params.position.line) for s in STAGES[1:]]
        return [place for place in places if place is not None]

    @server.command(SHOW)
    async def show(uri: str, function: str, stage: str) -> dict[str, object] | None:
        place = server.written(uri, function, stage, None)
        if place is None:
            return None
        window = server.client_capabilities.window
        if window is not None and window.show_document is not None and window.show_document.support:
            server.window_show_document(types.ShowDocumentParams(place.uri, take_focus=True, selection=place.range))
        return {"uri": place.uri, "line": place.range.start.line}

    return server
