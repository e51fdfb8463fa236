"""From the best way of asking for an answer of a given form down to the humblest, within one deadline.

Rungs: a JSON schema, JSON mode, a prompt that asks for JSON. What fails in form (turned down by the endpoint, no
content, refused, cut off, not valid) is tried on the next rung; the last rung, and an answer of the right form with
bad content, get one repair round in which the model is told what was wrong. Then the ladder gives up.
"""

from __future__ import annotations

import json
import queue
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel

from prompts.answers import find_answer, schema_of
from prompts.endpoint import (
    LONGEST_ANSWER_TOKENS,
    BusyError,
    Endpoint,
    EndpointError,
    NotSupportedError,
    OverBudgetError,
    Reply,
    Tokens,
    TooSlowError,
    estimated_tokens,
)
from prompts.gateway import Answer, Attempt, Check, Failure, Rung
from prompts.templates import Message, Template

A = TypeVar("A", bound=BaseModel)
T = TypeVar("T")

RUNGS: tuple[Rung, ...] = ("json_schema", "json_mode", "prompted")
MOST_RETRIES = 2
_FIRST_WAIT_S = 0.5
_SHORTEST_REQUEST_S = 0.05
_LONGEST_ECHO_CHARS = 4000


class Ladder:
    """A `Gateway` over one endpoint. ``timeout_s`` bounds a whole ask, all rungs, retries and repairs together, and so
    does ``tokens_per_call`` (0: no bound)."""

    def __init__(self, endpoint: Endpoint, *, timeout_s: float, tokens_per_call: int = 0) -> None:
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._tokens_per_call = tokens_per_call
        self._lowest_refused = -1  # rungs that this endpoint turned down are not tried again

    @property
    def timeout_s(self) -> float:
        """Seconds that an ask may take."""
        return self._timeout_s

    @property
    def model(self) -> str:
        """The model's name."""
        return self._endpoint.name

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
        call = self._call(within_s)
        failure: Failure = ""
        try:
            value, reason = self._climb_down(call, template.render(variables), answer, check)
            failure = "" if value is not None else "content"
        except EndpointError as error:
            value, reason = None, str(error)
            failure = "not_asked" if isinstance(error, OverBudgetError) and not call.attempts else "endpoint"
        return Answer(value, reason, tuple(call.attempts), self._endpoint.name, template.title, failure)

    def try_rung(self, rung: Rung, template: Template, answer: type[A], variables: Mapping[str, str]) -> Answer[A]:
        """One request on one rung, whatever the endpoint turned down before: for finding out what it can do."""
        call, value = self._call(None), None
        asked = template.render(variables)
        asked = asked if rung == "json_schema" else _with_schema(asked, answer)
        try:
            value, reason, _ = _judge(call.request(rung, asked, _response_format(rung, answer)), answer, lambda _: None)
            failure: Failure = "" if value is not None else "content"
        except EndpointError as error:
            reason, failure = str(error), "endpoint"
        return Answer(value, reason, tuple(call.attempts), self._endpoint.name, template.title, failure)

    def _call(self, within_s: float | None) -> _Call:
        seconds = self._timeout_s if within_s is None else min(within_s, self._timeout_s)
        return _Call(self._endpoint, time.monotonic() + seconds, self._tokens_per_call)

    def _climb_down(
        self, call: _Call, messages: list[Message], answer: type[A], check: Check[A]
    ) -> tuple[A | None, str]:
        reason, turned_down = "", -1
        for index, rung in enumerate(RUNGS):
            if index <= self._lowest_refused:
                continue
            asked = messages if rung == "json_schema" else _with_schema(messages, answer)
            try:
                reply = call.request(rung, asked, _response_format(rung, answer))
            except NotSupportedError as error:
                if rung == RUNGS[-1]:
                    raise
                turned_down, reason = index, str(error)
                continue
            # only now: what the endpoint turned down may have been this question (too long, say) and not the rung
            self._lowest_refused = max(self._lowest_refused, turned_down)
            value, reason, well_formed = _judge(reply, answer, check)
            call.note(reason or "accepted")
            if value is not None:
                return value, ""
            if reply.text and (well_formed or rung == RUNGS[-1]):
                return self._repair(call, rung, asked, reply.text, reason, answer, check)
        return None, reason

    def _repair(
        self, call: _Call, rung: Rung, asked: list[Message], text: str, reason: str, answer: type[A], check: Check[A]
    ) -> tuple[A | None, str]:
        again = [
            *asked,
            Message("assistant", text[:_LONGEST_ECHO_CHARS]),
            Message(
                "user", f"That answer can not be used: {reason}. Answer again with one JSON object and nothing else."
            ),
        ]
        reply = call.request("repair", again, _response_format(rung, answer))
        value, reason, _ = _judge(reply, answer, check)
        call.note(reason or "accepted")
        return value, reason


class _Call:
    """The requests of one ask: their deadline, their retries and the record of them."""

    def __init__(self, endpoint: Endpoint, deadline: float, most_tokens: int) -> None:
        self.attempts: list[Attempt] = []
        self._endpoint = endpoint
        self._deadline = deadline
        self._most_tokens = most_tokens
        self._spent = Tokens()
        self._retries_left = MOST_RETRIES

    def request(self, rung: Rung, messages: Sequence[Message], response_format: dict[str, Any] | None) -> Reply:
        """One request with bounded retries. Raises `EndpointError` when it failed for good."""
        wait_s = _FIRST_WAIT_S
        may_use = Tokens(estimated_tokens(messages), LONGEST_ANSWER_TOKENS)
        while True:
            if self._most_tokens and self._spent.total + may_use.total > self._most_tokens:
                raise OverBudgetError(
                    f"a request of about {may_use.total} tokens is more than what is left of "
                    f"llm.tokens_per_call = {self._most_tokens}"
                )
            left_s = self._deadline - time.monotonic()
            if left_s < _SHORTEST_REQUEST_S:
                raise TooSlowError("no accepted answer within the time allowed")
            start = time.monotonic()
            try:
                reply = _within(left_s, partial(self._endpoint.complete, messages, response_format, left_s))
            except EndpointError as error:
                self._spend(rung, str(error), time.monotonic() - start, _charged(error, may_use))
                if not isinstance(error, BusyError) or not self._retries_left:
                    raise
                pause_s = error.retry_after_s if error.retry_after_s is not None else wait_s * random.uniform(0.5, 1.0)
                if pause_s >= self._deadline - time.monotonic():
                    raise
                self._retries_left -= 1
                wait_s *= 2
                time.sleep(pause_s)
                continue
            self._spend(rung, "answered", time.monotonic() - start, reply.tokens or _estimated(may_use, reply))
            return reply

    def _spend(self, rung: Rung, outcome: str, seconds: float, used: Tokens) -> None:
        self._spent += used
        self.attempts.append(Attempt(rung, outcome, seconds, used.sent, used.received))

    def note(self, outcome: str) -> None:
        """Write down what became of the last reply."""
        self.attempts[-1] = replace(self.attempts[-1], outcome=outcome)


def _charged(error: EndpointError, may_use: Tokens) -> Tokens:
    """What may well be charged for although nothing came of it."""
    if isinstance(error, TooSlowError):
        return may_use
    return Tokens(may_use.sent, 0) if isinstance(error, BusyError) and error.sent else Tokens()


def _estimated(may_use: Tokens, reply: Reply) -> Tokens:
    return Tokens(may_use.sent, estimated_tokens([Message("assistant", reply.text or "")]))


def _judge(reply: Reply, answer: type[A], check: Check[A]) -> tuple[A | None, str, bool]:
    """(value, why not, whether it was of the right form)."""
    if reply.refusal:
        return None, f"the model refused ({reply.refusal})", False
    if reply.text is None:
        return None, "the answer was cut off" if reply.cut else "the answer was empty", False
    try:
        value = find_answer(reply.text, answer)
    except ValueError as error:
        return None, f"the answer was cut off ({error})" if reply.cut else str(error), False
    why_not = check(value)
    return (None, why_not, True) if why_not else (value, "", True)


def _response_format(rung: Rung, answer: type[BaseModel]) -> dict[str, Any] | None:
    if rung == "json_schema":
        schema = {"name": answer.__name__, "schema": schema_of(answer), "strict": True}
        return {"type": "json_schema", "json_schema": schema}
    return {"type": "json_object"} if rung == "json_mode" else None


def _with_schema(messages: list[Message], answer: type[BaseModel]) -> list[Message]:
    schema = json.dumps(schema_of(answer), separators=(",", ":"))
    addition = f"\nThe JSON object must fit this JSON Schema, with nothing before or after it:\n{schema}\n"
    return [*messages[:-1], Message(messages[-1].role, messages[-1].content + addition)]


def _within(seconds: float, function: Callable[[], T]) -> T:
    """Run ``function`` but wait no longer than ``seconds``.

    An HTTP time-out counts the silence between bytes, so an endpoint that drips its answer would never run into it.
    The request left behind ends by the same time soon after; its result is dropped.
    """
    results: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            results.put((function(), None))
        except BaseException as error:  # noqa: BLE001  handed over to the waiting thread
            results.put((None, error))

    threading.Thread(target=work, name="schedmate-llm", daemon=True).start()
    try:
        value, error = results.get(timeout=seconds)
    except queue.Empty:
        raise TooSlowError(f"no answer within {seconds:.3g} s") from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]
