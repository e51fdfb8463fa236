"""The gateway that a configuration asks for: the ladder, and around it what keeps it cheap, bounded and out of the way.

In this order: an answer that is already there, an endpoint that is left alone because it keeps failing, the day's
budget, the number of requests at once; then the ladder is asked, and what it cost is written down.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel

from prompts.answer_cache import AnswerCache, key_of
from prompts.breaker import Breaker
from prompts.endpoint import LONGEST_ANSWER_TOKENS, Endpoint, Tokens, estimated_tokens
from prompts.errors import UserError
from prompts.gateway import Access, Answer, Check
from prompts.ladder import Ladder
from prompts.ledger import Ledger, Spent, today
from prompts.outgoing import encodable
from prompts.templates import Message, Template

A = TypeVar("A", bound=BaseModel)

_MILLION = 1e6
#: Others that write to the ledger just then are waited for so long even where the caller's time is up.
_LEAST_PATIENCE_S = 0.1
_ALONE = "the endpoint keeps failing; it is left alone for {:.0f} s more"


def guarded(access: Access) -> Guard:
    """The gateway for a provider that is not none. Raises `UserError` for a configuration that lacks something."""
    if not access.model:
        raise UserError("llm.model is empty", "name the model, for example --set llm.model=NAME")
    if access.model != encodable(access.model) or not access.model.isprintable():
        raise UserError("llm.model: not a name (it has characters that can not be shown)", "give it as plain text")
    endpoint: Endpoint
    if access.provider == "openai":
        from prompts.openai_endpoint import OpenAIEndpoint

        endpoint = OpenAIEndpoint(base_url=access.base_url, model=access.model, api_key=access.api_key)
    elif access.provider == "transformers":
        from prompts.transformers_endpoint import TransformersEndpoint

        endpoint = TransformersEndpoint(model=access.model, threads=access.threads)
    else:
        raise UserError(f"llm.provider: {access.provider!r} is not known", "use one of: none, openai, transformers")
    return Guard(Ladder(endpoint, timeout_s=access.timeout_s, tokens_per_call=access.tokens_per_call), access)


class Guard:
    """A `Gateway` over a `Ladder`; safe to use from several threads."""

    def __init__(self, ladder: Ladder, access: Access, breaker: Breaker | None = None) -> None:
        self.ladder = ladder
        self._access = access
        self._breaker = breaker or Breaker()
        self._cache = AnswerCache(access.cache, access.cache_bytes) if access.cache and access.cache_bytes else None
        self._ledger = None if access.ledger is None else Ledger(access.ledger)
        self._places = threading.BoundedSemaphore(max(1, access.concurrency))

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
        left_s = self.ladder.timeout_s if within_s is None else min(within_s, self.ladder.timeout_s)
        deadline = time.monotonic() + left_s
        messages = template.render(variables)
        key = key_of(self.ladder.model, self._access.base_url, template, answer, messages)
        known = self._cache.get(key, answer) if self._cache is not None else None
        if known is not None and check(known) is None:
            return Answer(known, "", (), self.ladder.model, template.title, cached=True)
        closed_s = self._breaker.closed_for_s()
        if closed_s:
            return self._not_asked(template, _ALONE.format(closed_s))
        held, refusal = self._hold(messages, deadline - time.monotonic())
        if refusal:
            self._breaker.given_up()
            return self._not_asked(template, refusal)
        if not self._places.acquire(timeout=max(0.0, deadline - time.monotonic())):
            self._breaker.given_up()
            nothing: Answer[A] = self._not_asked(template, "too many requests at once: none of them ended in time")
            self._settle(held, nothing, 0.0, deadline)
            return nothing
        start = time.monotonic()
        shut_s = self._breaker.shut_for_s()
        if shut_s:  # since this question began to wait for its place
            self._places.release()
            nothing = self._not_asked(template, _ALONE.format(shut_s))
            self._settle(held, nothing, 0.0, deadline)
            return nothing
        try:
            found = self.ladder.ask(template, answer, variables, check, within_s=deadline - start)
        except BaseException:  # the caller's check, or an interrupt: what it cost stays set aside until that lapses
            self._breaker.given_up()
            raise
        finally:
            self._places.release()
        self._note(found)
        self._settle(held, found, time.monotonic() - start, deadline)
        if found.value is not None and self._cache is not None:
            self._cache.put(key, found.value)
        return found

    def _note(self, found: Answer[A]) -> None:
        if found.failure == "endpoint":
            self._breaker.failed()
        elif found.failure == "not_asked":
            self._breaker.given_up()
        else:
            self._breaker.succeeded()

    def _not_asked(self, template: Template, reason: str) -> Answer[A]:
        return Answer(None, reason, (), self.ladder.model, template.title, "not_asked")

    def _hold(self, messages: list[Message], within_s: float) -> tuple[int | None, str]:
        """(What was set aside in the ledger, why the question can not be paid for)."""
        access = self._access
        if self._ledger is None or not (access.tokens_per_day or access.cost_per_day):
            return None, ""
        tokens = Tokens(estimated_tokens(messages), LONGEST_ANSWER_TOKENS)
        try:
            held = self._ledger.hold(
                tokens.total, self._cost(tokens), access.tokens_per_day, access.cost_per_day, within_s
            )
        except UserError as error:  # a limit that nobody can keep account of is not kept by asking
            return None, error.what
        if held is None:
            limits = (("llm.tokens_per_day", access.tokens_per_day), ("llm.cost_per_day", access.cost_per_day))
            told = " or ".join(f"{name} = {limit:g}" for name, limit in limits if limit)
            return None, f"what is left of {told} for today is too little"
        return held, ""

    def _settle(self, held: int | None, found: Answer[A], seconds: float, deadline: float) -> None:
        if self._ledger is None or (held is None and not found.attempts):
            return
        tokens, asked = Tokens(*found.tokens), int(bool(found.attempts))
        accepted, cost = int(found.value is not None), self._cost(tokens)
        try:
            self._ledger.settle(
                held,
                Spent(today(), found.model, found.template, asked, accepted, tokens, cost, seconds),
                max(_LEAST_PATIENCE_S, deadline - time.monotonic()),
            )
        except UserError:  # what was set aside stays so until it lapses: a limit is kept all the same
            return

    def _cost(self, tokens: Tokens) -> float:
        return (tokens.sent * self._access.price_sent + tokens.received * self._access.price_received) / _MILLION
