"""One request to one endpoint, as the ladder sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from prompts.templates import Message

#: No answer may be longer than this, in tokens: ours are small JSON objects.
LONGEST_ANSWER_TOKENS = 1500
#: Bytes of UTF-8 in a token, at least: text is estimated with it where an endpoint does not say what it counted.
_BYTES_PER_TOKEN = 3.0
_TOKENS_PER_MESSAGE = 8


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens that went to an endpoint and came back; where it did not say so, as many as there may have been."""

    sent: int = 0
    received: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(self.sent + other.sent, self.received + other.received)

    @property
    def total(self) -> int:
        """Both together."""
        return self.sent + self.received


@dataclass(frozen=True, slots=True)
class Reply:
    """What an endpoint said. ``text`` is None when it answered without content or refused; ``cut`` at its limit;
    ``tokens`` None where it did not count them."""

    text: str | None
    cut: bool = False
    refusal: str | None = None
    tokens: Tokens | None = None


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
    """Too many requests, a server error or no connection; ``retry_after_s`` when the endpoint said so, ``sent`` where
    the question had left, so that it may be charged for."""

    def __init__(self, what: str, retry_after_s: float | None = None, *, sent: bool = False) -> None:
        super().__init__(what)
        self.retry_after_s = retry_after_s
        self.sent = sent


class TooSlowError(EndpointError):
    """No answer in time."""


class OverBudgetError(EndpointError):
    """The next request would cost more than may be spent."""


def estimated_tokens(messages: Sequence[Message]) -> int:
    """No fewer than a conversation has, for ordinary text."""
    return sum(
        int(len(m.content.encode("utf-8", "replace")) / _BYTES_PER_TOKEN) + _TOKENS_PER_MESSAGE for m in messages
    )
