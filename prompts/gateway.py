"""The one way in which anything here talks to a language model, and the default: no model at all.

A caller hands over a template, its variables and a check, and gets an `Answer` whose value is None when there was
none that could be accepted; it never raises for what an endpoint does. Nothing heavy is imported before a model is
configured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar

from prompts.errors import UserError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from prompts.templates import Template

    A = TypeVar("A", bound=BaseModel)
else:
    A = TypeVar("A")

Rung = Literal["json_schema", "json_mode", "prompted", "repair"]

#: Says why an answer of the right form is not accepted, or None when it is.
Check = Callable[[A], str | None]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request and what came of it, in words; ``seconds`` is how long it took."""

    rung: Rung
    outcome: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Answer(Generic[A]):
    """What came of asking. ``value`` is None when nothing was accepted, and then ``reason`` says why."""

    value: A | None
    reason: str
    attempts: tuple[Attempt, ...]
    model: str
    template: str


class Gateway(Protocol):
    """Asks a model, or answers that there is none."""

    def ask(self, template: Template, answer: type[A], variables: Mapping[str, str], check: Check[A]) -> Answer[A]:
        """Ask once, within the gateway's deadline. ``check`` sees an answer that already fits ``answer``."""
        ...


class NoModel:
    """The default: everything works without a model, so asking costs nothing and yields nothing."""

    def ask(self, template: Template, answer: type[A], variables: Mapping[str, str], check: Check[A]) -> Answer[A]:
        """An empty answer."""
        return Answer(None, "no language model is configured", (), "none", template.title)


def open_gateway(provider: str, *, base_url: str, model: str, api_key: str, timeout_s: float) -> Gateway:
    """The gateway for a configuration (``llm.*``).

    Raises `UserError` when the configuration lacks what the provider needs.
    """
    if provider == "none":
        return NoModel()
    if provider != "openai":
        raise UserError(f"llm.provider: {provider!r} is not known", "use one of: none, openai")
    if not model:
        raise UserError(
            "llm.model is empty", "name the model that the endpoint serves, for example --set llm.model=NAME"
        )
    from prompts.ladder import Ladder
    from prompts.openai_endpoint import OpenAIEndpoint

    return Ladder(OpenAIEndpoint(base_url=base_url, model=model, api_key=api_key), timeout_s=timeout_s)
