"""Any OpenAI-compatible endpoint (a provider's, or a server of one's own), through LangChain.

Imported only when such an endpoint is configured: this is where LangChain's import is paid for.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from typing import Any

import openai
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langsmith import tracing_context
from pydantic import SecretStr

from prompts.endpoint import (
    LONGEST_ANSWER_TOKENS,
    BusyError,
    EndpointError,
    NotSupportedError,
    Reply,
    Tokens,
    TooSlowError,
)
from prompts.errors import UserError
from prompts.redaction import redact
from prompts.templates import Message

_CLASSES = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
_LONGEST_REASON_CHARS = 300

# LangChain warns when an endpoint turns down a response format; here that only means the next rung of the ladder
warnings.filterwarnings("ignore", category=UserWarning, module=r"langchain_openai\..*")


class OpenAIEndpoint:
    """Chat completions of an OpenAI-compatible server.

    Parameters
    ----------
    base_url : str
        For example ``http://127.0.0.1:8000/v1``; empty for OpenAI itself.
    model : str
        The model's name at that endpoint.
    api_key : str
        May be empty for a server that wants none.
    """

    def __init__(self, *, base_url: str, model: str, api_key: str) -> None:
        self.name = model
        if not base_url and not api_key:
            raise UserError(
                "llm.api_key is empty", "set SCHEDMATE_LLM_API_KEY, or llm.base_url for a server of your own"
            )
        self._model = ChatOpenAI(
            model=model,
            base_url=base_url or "https://api.openai.com/v1",
            api_key=SecretStr(api_key or "none"),
            max_retries=0,
            temperature=0,
            max_completion_tokens=LONGEST_ANSWER_TOKENS,
            use_responses_api=False,
        )

    def complete(self, messages: Sequence[Message], response_format: dict[str, Any] | None, timeout_s: float) -> Reply:
        """One request; see `prompts.endpoint.Endpoint`."""
        options: dict[str, Any] = {"timeout": timeout_s}
        if response_format is not None:
            options["response_format"] = response_format
        conversation = [_CLASSES[m.role](content=m.content) for m in messages]
        try:
            # a tracing service set up for other work must not receive what is sent here
            with tracing_context(enabled=False):
                answer = self._model.invoke(conversation, **options)
        except openai.APITimeoutError:
            raise TooSlowError(f"no answer within {timeout_s:.3g} s") from None
        except openai.APIConnectionError as error:
            raise BusyError(f"no connection ({_reason(error.__cause__ or error)})") from None
        except openai.LengthFinishReasonError:
            return Reply(None, cut=True)
        except openai.ContentFilterFinishReasonError:
            return Reply(None, refusal="stopped by the endpoint's content filter")
        except openai.APIStatusError as error:
            raise _by_status(error) from None
        except (openai.OpenAIError, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            # LangChain raises plain errors for answers that are not of the API's form
            raise EndpointError(f"not an answer of the chat API ({_reason(error)})") from None
        return _reply(answer)


def _reply(answer: AIMessage) -> Reply:
    content = answer.content
    if not isinstance(content, str):
        parts = (part.get("text", "") if isinstance(part, dict) else part for part in content)
        content = "".join(part for part in parts if isinstance(part, str))
    refusal = answer.additional_kwargs.get("refusal")
    cut = answer.response_metadata.get("finish_reason") == "length"
    refused = str(refusal)[:_LONGEST_REASON_CHARS] if refusal else None
    return Reply(content or None, cut=cut, refusal=refused, tokens=_counted(answer))


def _counted(answer: AIMessage) -> Tokens | None:
    used = answer.usage_metadata
    if used is None or used["input_tokens"] + used["output_tokens"] <= 0:
        return None
    return Tokens(max(0, used["input_tokens"]), max(0, used["output_tokens"]))


def _by_status(error: openai.APIStatusError) -> EndpointError:
    status = error.status_code
    what = f"HTTP {status} ({_reason(error)})"
    if status in (400, 404, 405, 415, 422, 501):
        return NotSupportedError(what)
    if status in (408, 409, 425, 429) or status >= 500:
        return BusyError(what, _retry_after_s(error.response.headers.get("retry-after")))
    return EndpointError(what)


def _retry_after_s(header: str | None) -> float | None:
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:  # an HTTP date: rare, and our deadline is short anyway
        return None


def _reason(error: BaseException) -> str:
    """An endpoint's own words, on one line and without secrets: it may echo the key it was sent."""
    body = getattr(error, "body", None)
    text = body.get("message") if isinstance(body, dict) and isinstance(body.get("message"), str) else None
    text = text or str(error) or type(error).__name__
    return redact(" ".join(str(text if isinstance(text, str) else json.dumps(text)).split()))[:_LONGEST_REASON_CHARS]
