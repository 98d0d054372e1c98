"""`fly explore --serve`: the page on 127.0.0.1, for who has the token, and the news of it as they come.

The page shows source text and the server runs the user's script, so nobody else may ask: a request needs the token of
the address printed at the start, and a `Host` that is this machine, which a page of another site under a name that it
has made to point here does not send.
"""

from __future__ import annotations

import hmac
import json
import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from flydsl.tools.explore.page import Data, page
from flydsl.tools.explore.watch import Watcher

ADDRESS = "127.0.0.1"
LONGEST_WAIT = 20.0
"""Seconds a request for news waits for some."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}


class ExploreServer(ThreadingHTTPServer):
    """Serves one watcher."""

    daemon_threads = True

    def __init__(self, watcher: Watcher, port: int = 0):
        super().__init__((ADDRESS, port), _Handler)
        self.watcher = watcher
        self.token = secrets.token_urlsafe(24)

    @property
    def url(self) -> str:
        """Where the page is, with the token."""
        return f"http://{ADDRESS}:{self.server_port}/?token={self.token}"

    def news(self, seen: int) -> Data:
        """What a page that has seen so much should know."""
        watcher = self.watcher
        watcher.wait(seen, LONGEST_WAIT)
        with watcher.changed:
            newest = watcher.versions[0] if watcher.versions else None
            return {"number": watcher.number, "busy": watcher.busy, "error": watcher.error, "data": newest}

    def first(self) -> str:
        """The page as it is now."""
        watcher = self.watcher
        with watcher.changed:
            if watcher.versions:
                data: Data = {**watcher.versions[0], "others": list(watcher.versions[1:])}
            else:
                data = {"title": watcher.script.name, "functions": [], "files": [], "sources": [], "pictures": []}
            data["live"] = {"number": watcher.number, "busy": watcher.busy, "error": watcher.error}
        return page(data, live=True)


class _Handler(BaseHTTPRequestHandler):
    server: ExploreServer  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"
    server_version = "fly"
    sys_version = ""
    timeout = 60

    def do_GET(self) -> None:
        """The page, or its news."""
        parts = urlsplit(self.path)
        asked = parse_qs(parts.query)
        if not self._allowed(asked.get("token", [""])[0]):
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "this address needs the token that fly explore printed\n")
        elif parts.path == "/":
            self._send(HTTPStatus.OK, "text/html", self.server.first())
        elif parts.path == "/news":
            seen = asked.get("seen", ["-1"])[0]
            news = self.server.news(int(seen) if seen.isdecimal() else -1)
            self._send(HTTPStatus.OK, "application/json", json.dumps(news))
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "there is no such page\n")

    def _other(self) -> None:
        """Nothing else is offered."""
        allowed = self._allowed(parse_qs(urlsplit(self.path).query).get("token", [""])[0])
        self.close_connection = True  # what a request may carry is not read
        status = HTTPStatus.METHOD_NOT_ALLOWED if allowed else HTTPStatus.FORBIDDEN
        self._send(status, "text/plain", "" if self.command == "HEAD" else "this address answers GET, with its token\n")

    do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = _other

    def _allowed(self, token: str) -> bool:
        hosts = {f"{name}:{self.server.server_port}" for name in (ADDRESS, "localhost")}
        same = hmac.compare_digest(token.encode(), self.server.token.encode())
        return same and self.headers.get("Host", "") in hosts

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": f"{kind}; charset=utf-8"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):  # the page was closed meanwhile
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the address has the token in it."""
