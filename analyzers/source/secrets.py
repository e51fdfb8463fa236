"""Secrets that ended up in a reading: in a data set's address, a job's name, the name of a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from analyzers.types import Fact, JsonValue, SourceEvidence, SourceFacts, SourceReading
from prompts.redaction import redact, redact_tree


def without_secrets(facts: SourceFacts) -> SourceFacts:
    """The facts as they may be shown and kept. Nearly always they are as they were, which is seen at one look."""
    texts = "\n".join(_texts(facts))
    if redact(texts) == texts:
        return facts
    return SourceFacts(
        {name: _clean(fact) for name, fact in facts.facts.items()},
        tuple(redact(warning) for warning in facts.warnings),
        facts.fingerprint,
        {name: _clean(fact) for name, fact in facts.request.items()},
        SourceReading(facts.source.state, redact(facts.source.why)),
        facts.summary,
    )


def _clean(fact: Fact) -> Fact:
    value: JsonValue = redact_tree(fact.value)
    return replace(fact, value=value, evidence=tuple(SourceEvidence(redact(e.file), e.line) for e in fact.evidence))


def _texts(facts: SourceFacts) -> Iterator[str]:
    yield from facts.warnings
    yield facts.source.why
    for fact in (*facts.facts.values(), *facts.request.values()):
        yield from _strings(fact.value)
        yield from (each.file for each in fact.evidence)


def _strings(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from (key, *_strings(item))
