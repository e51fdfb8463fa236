"""What a model may answer, as pydantic models, and how an answer is found in text.

The vocabularies repeat those of `analyzers.types`, which this room can not import; a test keeps them equal.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, field_validator

A = TypeVar("A", bound=BaseModel)

_LONGEST_ANSWER_CHARS = 200_000
_MOST_CANDIDATES = 64
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+){0,5}")


class Quote(BaseModel):
    """A line that is cited: its number in the data and a literal part of it."""

    model_config = ConfigDict(extra="forbid")

    line: int
    quote: str = Field(max_length=2000)


class RefinedDiagnosis(BaseModel):
    """Answer to ``refine_diagnosis``.

    There is no action that takes a node out of service and no category that calls a job healthy: all a model sees is
    text that the job wrote, and a job must not be able to talk a node out of the cluster.
    """

    model_config = ConfigDict(extra="forbid")

    category: Literal[
        "infrastructure-hardware", "infrastructure-network", "storage", "framework", "user-code",
        "resource-request", "scheduler-or-preemption", "data", "unknown",
    ]  # fmt: skip
    subcategory: str = Field(max_length=60)
    confidence: float = Field(ge=0, le=1)
    evidence: list[Quote] = Field(max_length=5)
    culprit_rank: int | None
    culprit_node: str | None = Field(max_length=255)
    retryable: bool | None
    action: Literal[
        "restart_same_nodes", "retry_with_backoff", "requeue_from_checkpoint", "resubmit_longer_limit",
        "lower_gpu_memory", "raise_host_memory_or_reduce", "raise_shm", "free_storage_then_retry",
        "fallback_to_previous_checkpoint", "fix_code", "fix_config", "fix_environment", "fix_credentials",
        "fix_data_or_skip", "rollback_and_investigate", "none",
    ]  # fmt: skip
    summary: str = Field(max_length=600)

    @field_validator("subcategory")
    @classmethod
    def _is_slug(cls, value: str) -> str:
        slug = re.sub(r"[\s_]+", "-", value.strip().lower())
        if not _SLUG.fullmatch(slug):
            raise ValueError("must be a few lower-case words joined by hyphens")
        return slug


class ProposedSignature(BaseModel):
    """Answer to ``propose_signature``: a literal phrase and lines to try it on."""

    model_config = ConfigDict(extra="forbid")

    phrase: str = Field(min_length=12, max_length=300)
    says: str = Field(min_length=5, max_length=200)
    other_line: str = Field(max_length=1000)
    unlike: list[str] = Field(min_length=2, max_length=4)


class Finding(BaseModel):
    """A value with the number of the line that states it: the value itself must stand there."""

    model_config = ConfigDict(extra="forbid")

    value: str = Field(max_length=200)
    line: int

    @field_validator("value", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int | float) else value


class SourceAnswer(BaseModel):
    """Answer to ``read_source``: `source_answer` adds a property for each fact that is asked for."""

    model_config = ConfigDict(extra="forbid")


@lru_cache(maxsize=256)
def source_answer(names: tuple[str, ...], summary: bool) -> type[SourceAnswer]:
    """The form of an answer about these facts, a `Finding` each, with a summary or without.

    What is not known is the value "unknown": offered null, small models take it for everything.
    """
    fields: dict[str, Any] = dict.fromkeys(names, (Finding, ...))
    if summary:
        fields["summary"] = (str, Field("", max_length=600))
    return create_model("SourceAnswer", __base__=SourceAnswer, **fields)


class ExploreStep(BaseModel):
    """Answer to ``explore_source``: where to look next."""

    model_config = ConfigDict(extra="forbid")

    action: Literal["read", "search", "done"]
    path: str = Field("", max_length=500)
    line: int = Field(0, ge=0, le=10_000_000)
    text: str = Field("", max_length=200)


class ProposedFormat(BaseModel):
    """Answer to ``propose_log_format``: numbers as they stand in one line, empty for what it does not hold."""

    model_config = ConfigDict(extra="forbid")

    line: int = Field(ge=0, le=1000)
    step: str = Field("", max_length=20)
    total: str = Field("", max_length=20)
    epoch: str = Field("", max_length=20)
    loss: str = Field("", max_length=30)


class EndpointCheck(BaseModel):
    """Answer to ``check_endpoint``."""

    model_config = ConfigDict(extra="forbid")

    word: str = Field(max_length=100)
    letters: int


def schema_of(answer: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema sent to an endpoint: every property required, as strict structured output wants it."""
    schema = answer.model_json_schema()
    for part in (schema, *schema.get("$defs", {}).values()):
        if "properties" in part:
            part["required"] = list(part["properties"])
            for prop in part["properties"].values():
                prop.pop("title", None)
    return schema


def find_answer(text: str, answer: type[A]) -> A:
    """The last JSON object in ``text`` that fits ``answer``; models think aloud, and correct themselves, before it.

    Raises `ValueError` with the reason in words, fit to be shown to the model.
    """
    text = text[:_LONGEST_ANSWER_CHARS]
    found: A | None = None
    problem = "there is no JSON object in the answer"
    for candidate in _objects(text):
        try:
            found = answer.model_validate(candidate)
        except ValidationError as error:
            problem = "; ".join(
                f"{'.'.join(map(str, e['loc'])) or 'object'}: {e['msg']}" for e in error.errors()[:5]
            )  # fmt: skip
    if found is None:
        raise ValueError(problem)
    return found


def _objects(text: str) -> list[dict[str, Any]]:
    """All outermost JSON objects that stand anywhere in the text, up to a number of candidates."""
    decoder = json.JSONDecoder()
    objects: list[dict[str, Any]] = []
    position = 0
    for _ in range(_MOST_CANDIDATES):
        position = text.find("{", position)
        if position < 0:
            break
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
            continue
        if isinstance(value, dict):
            objects.append(value)
    return objects
