"""The gateway to the language model that the settings ask for."""

from __future__ import annotations

from functools import lru_cache

from prompts.gateway import Access, Gateway, open_gateway
from schedmate.config import Settings


def gateway_for(settings: Settings) -> Gateway:
    """One per configuration in this process, so that its breaker and its limits hold for all who ask.

    Raises `UserError` where the configuration lacks something.
    """
    return _gateway(access_of(settings))


def access_of(settings: Settings) -> Access:
    """The settings ``llm.*``."""
    return Access(
        provider=settings.text("llm.provider"),
        model=settings.text("llm.model"),
        base_url=settings.text("llm.base_url"),
        api_key=settings.text("llm.api_key"),
        timeout_s=settings.number("llm.timeout_s"),
        tokens_per_call=settings.integer("llm.tokens_per_call"),
        tokens_per_day=settings.integer("llm.tokens_per_day"),
        cost_per_day=settings.number("llm.cost_per_day"),
        price_sent=settings.number("llm.price_sent"),
        price_received=settings.number("llm.price_received"),
        concurrency=settings.integer("llm.concurrency"),
        threads=settings.integer("llm.threads"),
        cache=settings.path("llm.cache") if settings.text("llm.cache") else None,
        cache_bytes=settings.integer("llm.cache_mib") << 20,
        ledger=settings.path("llm.ledger") if settings.text("llm.ledger") else None,
    )


@lru_cache(maxsize=4)
def _gateway(access: Access) -> Gateway:
    return open_gateway(access)
