"""What stands before every route: the size limit, the refusal of foreign web pages, and the catch-all."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schedmate.service.problems import Problem, problem_response, unexpected

_MIB = 1 << 20


class Guard:
    """ASGI middleware.

    Bodies above ``max_body_mib`` are refused, by their declared length at once and else while they stream in.
    A browser names the page that a request comes from: another site's page must not reach a service that trusts its
    machine, so a foreign ``Origin``, and a ``Host`` that is not one of ``hosts`` (DNS rebinding), are refused.
    """

    def __init__(self, app: ASGIApp, max_body_mib: int, hosts: frozenset[str]) -> None:
        self._app = app
        self._limit_bytes = max_body_mib * _MIB
        self._max_body_mib = max_body_mib
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        refusal = self._refusal({name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]})
        if refusal is not None:
            await problem_response(refusal.status_code, refusal.detail, refusal.hint)(scope, receive, send)
            return
        try:
            await self._app(scope, self._counted(receive), watched_send)
        except Exception as error:
            if started:
                raise
            await unexpected(error)(scope, receive, send)

    def _refusal(self, headers: dict[str, str]) -> Problem | None:
        host = _host_of(f"//{headers.get('host', '')}")
        if self._hosts and host not in self._hosts:
            return Problem(421, "this service does not answer to that host name", "use the address it prints at start")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers.get("host"):
            return Problem(403, "requests from other sites' pages are refused", "call the service directly")
        try:
            declared = int(headers.get("content-length", "0"))
        except ValueError:
            return Problem(400, "Content-Length is not a number")
        return self._too_large() if declared > self._limit_bytes else None

    def _counted(self, receive: Receive) -> Receive:
        seen_bytes = 0

        async def counted() -> Message:
            nonlocal seen_bytes
            message = await receive()
            seen_bytes += len(message.get("body", b""))
            if seen_bytes > self._limit_bytes:
                raise self._too_large()
            return message

        return counted

    def _too_large(self) -> Problem:
        return Problem(
            413,
            f"the request is larger than {self._max_body_mib} MiB",
            "compress the logs, send fewer files, or raise service.max_upload_mib",
        )


def _host_of(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""
