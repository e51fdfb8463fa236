"""`schedmate serve`: the HTTP service."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Annotated

import typer

from prompts.errors import UserError
from schedmate.console import err, print_json, safe

if TYPE_CHECKING:
    from schedmate.config import Settings


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (default: service.host).")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port, 0 for any free one (default: service.port).")
    ] = None,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Listen beyond this machine: there is no authentication yet.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object with the URL on stdout.")] = False,
) -> None:
    """Serve predictions, hints and diagnoses over HTTP until interrupted.

    Example: schedmate serve --port 8765
    """
    from schedmate.config import load_settings

    settings = load_settings()
    address = host or settings.text("service.host")
    number = settings.integer("service.port") if port is None else port
    _check_reach(address, allow_remote)
    listening = _listen(address, number)
    try:
        _run(settings, address, listening, json_)
    finally:
        listening.close()


def _check_reach(address: str, allow_remote: bool) -> None:
    from schedmate.service.reach import is_loopback

    if not is_loopback(address) and not allow_remote:
        raise UserError(
            f"{address} can be reached from other machines, and the service has no authentication yet",
            "listen on 127.0.0.1, or pass --allow-remote on a network that you trust",
        )


def _listen(address: str, port: int) -> socket.socket:
    """A bound socket, or one clear line about why not."""
    where = f"{address}:{port}"
    try:
        family, kind, _, _, target = socket.getaddrinfo(address.strip("[]"), port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{where}: not an address of this machine ({reason})", "choose another --host") from None
    listening = socket.socket(family, kind)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(target)
        listening.listen(socket.SOMAXCONN)
    except OSError as error:
        listening.close()
        raise UserError(f"{where}: cannot listen there ({error.strerror})", "choose another --port or --host") from None
    return listening


def _run(settings: Settings, address: str, listening: socket.socket, json_: bool) -> None:
    from dataclasses import replace

    import uvicorn

    from schedmate.service.app import create_app

    told = settings.by_name["service.host"]
    settings = replace(settings, by_name={**settings.by_name, "service.host": replace(told, value=address)})
    server = uvicorn.Server(uvicorn.Config(create_app(settings), log_level="warning", server_header=False))
    shown = f"[{address.strip('[]')}]" if ":" in address else address
    url = f"http://{shown}:{listening.getsockname()[1]}"
    if json_:
        print_json({"url": url})
    err().print(
        f"SchedMate listens on {safe(url)} (description: {safe(url)}/openapi.json; Ctrl-C ends it)", soft_wrap=True
    )
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass  # the way a server is meant to end


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.command()(serve)
