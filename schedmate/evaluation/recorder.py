"""A gateway that keeps what came of every question, for counting."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict, TypeVar

from prompts.gateway import Answer, Check, Gateway

if TYPE_CHECKING:
    from pydantic import BaseModel

    from prompts.templates import Template

    A = TypeVar("A", bound=BaseModel)
else:
    A = TypeVar("A")


class AttemptRow(TypedDict):
    """One request, as in `prompts.gateway.Attempt`."""

    rung: str
    accepted: bool
    outcome: str
    seconds: float
    tokens_sent: int
    tokens_received: int


class QuestionRow(TypedDict):
    """One question and what came of it, as in `prompts.gateway.Answer`; ``seconds`` with all waiting."""

    template: str
    accepted: bool
    cached: bool
    failure: str
    reason: str
    seconds: float
    attempts: list[AttemptRow]


class Recorder:
    """Passes questions on to another gateway and keeps a row of each."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._rows: list[QuestionRow] = []

    def taken(self) -> list[QuestionRow]:
        """The questions since this was last asked."""
        rows, self._rows = self._rows, []
        return rows

    def ask(
        self,
        template: Template,
        answer: type[A],
        variables: Mapping[str, str],
        check: Check[A],
        *,
        within_s: float | None = None,
    ) -> Answer[A]:
        """See `prompts.gateway.Gateway.ask`."""
        start = time.monotonic()
        found = self._gateway.ask(template, answer, variables, check, within_s=within_s)
        self._rows.append(_row(found, time.monotonic() - start))
        return found


def _row(found: Answer[A], seconds: float) -> QuestionRow:
    attempts: list[AttemptRow] = [
        {
            "rung": each.rung,
            "accepted": each.outcome == "accepted",
            "outcome": each.outcome,
            "seconds": round(each.seconds, 4),
            "tokens_sent": each.tokens_sent,
            "tokens_received": each.tokens_received,
        }
        for each in found.attempts
    ]
    return {
        "template": found.template,
        "accepted": found.value is not None,
        "cached": found.cached,
        "failure": found.failure,
        "reason": found.reason,
        "seconds": round(seconds, 4),
        "attempts": attempts,
    }
