"""The one way in which anything here talks to a language model, and the default: no model at all.

A caller hands over a template, its variables and a check, and gets an `Answer` whose value is None when there was
none that could be accepted; it never raises for what an endpoint does. Nothing heavy is imported before a model is
configured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import BaseModel

    from prompts.templates import Template

    A = TypeVar("A", bound=BaseModel)
else:
    A = TypeVar("A")

Rung = Literal["json_schema", "json_mode", "prompted", "repair"]

#: Says why an answer of the right form is not accepted, or None when it is.
Check = Callable[[A], str | None]


#: Whose fault it was that there is no answer: the endpoint could not be had, it was not asked at all (no model, a
#: budget, an endpoint that failed too often), or what it said was not accepted.
Failure = Literal["", "endpoint", "not_asked", "content"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request and what came of it, in words; ``seconds`` is how long it took, and the tokens are those that the
    endpoint counted or, where it did not, may have."""

    rung: Rung
    outcome: str
    seconds: float
    tokens_sent: int = 0
    tokens_received: int = 0


@dataclass(frozen=True, slots=True)
class Answer(Generic[A]):
    """What came of asking. ``value`` is None when nothing was accepted, and then ``reason`` says why; ``cached`` when
    the same had been asked before."""

    value: A | None
    reason: str
    attempts: tuple[Attempt, ...]
    model: str
    template: str
    failure: Failure = ""
    cached: bool = False

    @property
    def tokens(self) -> tuple[int, int]:
        """(sent, received) over all requests."""
        return sum(each.tokens_sent for each in self.attempts), sum(each.tokens_received for each in self.attempts)


class Gateway(Protocol):
    """Asks a model, or answers that there is none."""

    def ask(
        self,
        template: Template,
        answer: type[A],
        variables: Mapping[str, str],
        check: Check[A],
        *,
        within_s: float | None = None,
    ) -> Answer[A]:
        """Ask once, within the gateway's deadline and ``within_s`` seconds if that is less. ``check`` sees an answer
        that already fits ``answer``."""
        ...


class NoModel:
    """The default: everything works without a model, so asking costs nothing and yields nothing."""

    def ask(
        self,
        template: Template,
        answer: type[A],
        variables: Mapping[str, str],
        check: Check[A],
        *,
        within_s: float | None = None,
    ) -> Answer[A]:
        """An empty answer."""
        return Answer(None, "no language model is configured", (), "none", template.title, "not_asked")


@dataclass(frozen=True, slots=True)
class Access:
    """How a model is reached and what may be spent on it: the settings ``llm.*``.

    ``provider`` is none, openai or transformers. Limits of 0 mean none; prices are for a million tokens, in whatever
    currency ``cost_per_day`` is. ``cache`` and ``ledger`` are a folder and a file, None for neither.
    """

    provider: str
    model: str = ""
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    timeout_s: float = 20.0
    tokens_per_call: int = 0
    tokens_per_day: int = 0
    cost_per_day: float = 0.0
    price_sent: float = 0.0
    price_received: float = 0.0
    concurrency: int = 4
    threads: int = 1
    cache: Path | None = None
    cache_bytes: int = 0
    ledger: Path | None = None


def open_gateway(access: Access) -> Gateway:
    """The gateway for a configuration. Raises `UserError` when it lacks what the provider needs."""
    if access.provider == "none":
        return NoModel()
    from prompts.guard import guarded

    return guarded(access)
