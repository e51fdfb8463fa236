"""One request to one endpoint, as the ladder sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from prompts.templates import Message


@dataclass(frozen=True, slots=True)
class Reply:
    """What an endpoint said. ``text`` is None when it answered without content or refused; ``cut`` at its limit."""

    text: str | None
    cut: bool = False
    refusal: str | None = None


class Endpoint(Protocol):
    """Something that completes a conversation."""

    name: str

    def complete(self, messages: Sequence[Message], response_format: dict[str, Any] | None, timeout_s: float) -> Reply:
        """One request, no retries. Raises one of the errors below."""
        ...


class EndpointError(Exception):
    """The request failed for good: wrong key, no such model, an answer that is no answer."""


class NotSupportedError(EndpointError):
    """The endpoint does not take this kind of request (400 and the like); a simpler one may work."""


class BusyError(EndpointError):
    """Too many requests, a server error or no connection; ``retry_after_s`` when the endpoint said so."""

    def __init__(self, what: str, retry_after_s: float | None = None) -> None:
        super().__init__(what)
        self.retry_after_s = retry_after_s


class TooSlowError(EndpointError):
    """No answer in time."""
