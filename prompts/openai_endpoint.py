"""Any OpenAI-compatible endpoint (a provider's, or a server of one's own), through LangChain.

Imported only when such an endpoint is configured: this is where LangChain's import is paid for.
"""

from __future__ import annotations

import ipaddress
import json
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import openai
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langsmith import tracing_context
from openai.types import CompletionUsage
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
from prompts.outgoing import encodable
from prompts.redaction import redact
from prompts.templates import Message

_CLASSES = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
_LONGEST_REASON_CHARS = 300
#: Our answers are small JSON objects; thinking aloud and the log probabilities of some servers included.
_LARGEST_BYTES = 4 << 20
#: No request of ours has more tokens than this; an endpoint that counts more has miscounted.
_MOST_TOKENS_COUNTED = 1_000_000
#: Nobody is asked again sooner, whatever Retry-After says.
_SHORTEST_WAIT_S = 0.25
#: What a server of one's own gets to see: no accounts, projects or keys that the environment holds for OpenAI.
_HEADERS_SENT = frozenset(
    ("host", "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "user-agent")
)

# LangChain warns when an endpoint turns down a response format; here that only means the next rung of the ladder.
# Pydantic warns, with the answer itself, where an answer is not of the API's form: that is looked at here
warnings.filterwarnings("ignore", category=UserWarning, module=r"langchain_openai\..*")
warnings.filterwarnings("ignore", category=UserWarning, message="Pydantic serializer warnings")


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
        _require_address(base_url)
        if not api_key.isascii() or not api_key.isprintable():
            raise UserError("llm.api_key has characters that no key has", "set SCHEDMATE_LLM_API_KEY to the key alone")
        self._model = _Chat(
            model=model,
            base_url=base_url or "https://api.openai.com/v1",
            api_key=SecretStr(api_key or "none"),
            max_retries=0,
            temperature=0,
            max_completion_tokens=LONGEST_ANSWER_TOKENS,
            use_responses_api=False,
            openai_proxy=None,
            http_socket_options=(),
            http_client=_http_client(base_url),
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
            raise BusyError(f"no connection ({_reason(error.__cause__ or error)})", sent=_has_left(error)) from None
        except _OutsizeError as error:
            raise EndpointError(str(error)) from None
        except openai.LengthFinishReasonError:
            return Reply(None, cut=True)
        except openai.ContentFilterFinishReasonError:
            return Reply(None, refusal="stopped by the endpoint's content filter")
        except openai.APIStatusError as error:
            raise _by_status(error) from None
        except Exception as error:  # noqa: BLE001  plain errors of all kinds for answers not of the API's form
            raise EndpointError(f"not an answer of the chat API ({_reason(error)})") from None
        return _reply(answer)


def _has_left(error: BaseException | None) -> bool:
    """Whether a question may have reached the endpoint before the connection failed."""
    while error is not None:
        if isinstance(error, httpx.ConnectError | httpx.PoolTimeout | httpx.UnsupportedProtocol | httpx.ProxyError):
            return False
        error = error.__cause__
    return True


class _Chat(ChatOpenAI):
    """LangChain's, which would give up an answer for the odd form of what the endpoint says about its cost."""

    def _create_chat_result(self, response: Any, generation_info: dict[str, Any] | None = None) -> Any:
        usage = getattr(response, "usage", None)
        if usage is not None and not isinstance(response, dict):
            response.usage = _plain_usage(usage)
        return super()._create_chat_result(response, generation_info)


def _plain_usage(usage: Any) -> CompletionUsage | None:
    """The two numbers that are used, None where they are none."""
    sent, received = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
    if type(sent) is not int or type(received) is not int:
        return None
    return CompletionUsage(prompt_tokens=sent, completion_tokens=received, total_tokens=sent + received)


class _OutsizeError(Exception):
    """An answer that is not read to its end."""


class _Bounded(httpx.SyncByteStream):
    """A body that ends at `_LARGEST_BYTES`, and at a time however small the pieces are that it drips in."""

    def __init__(self, stream: httpx.SyncByteStream, deadline: float, request: httpx.Request) -> None:
        self._stream, self._deadline, self._request = stream, deadline, request

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for piece in self._stream:
            size += len(piece)
            if size > _LARGEST_BYTES:
                raise _OutsizeError(f"the answer is larger than {_LARGEST_BYTES >> 20} MiB")
            if time.monotonic() > self._deadline:
                raise httpx.ReadTimeout("the answer did not end in time", request=self._request)
            yield piece

    def close(self) -> None:
        self._stream.close()


def _http_client(base_url: str) -> httpx.Client:
    """Follows no redirect (the question would go to somebody who was not named), takes no compressed answer (a few
    bytes of it can fill the memory), and asks no proxy of the environment for what runs on this machine."""

    def before(request: httpx.Request) -> None:
        request.headers["accept-encoding"] = "identity"
        if base_url:
            for name in list(request.headers):
                # x-stainless-...: the client library reads them off its own request again
                if name.lower() not in _HEADERS_SENT and not name.lower().startswith("x-stainless-"):
                    del request.headers[name]

    def after(response: httpx.Response) -> None:
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            raise _OutsizeError("the answer is compressed although that was not asked for")
        allowed_s = response.request.extensions.get("timeout", {}).get("read") or 0.0
        if isinstance(response.stream, httpx.SyncByteStream):
            response.stream = _Bounded(response.stream, time.monotonic() + allowed_s, response.request)

    hooks: dict[str, list[Any]] = {"request": [before], "response": [after]}
    return httpx.Client(follow_redirects=False, trust_env=not _is_here(base_url), event_hooks=hooks)


def _require_address(base_url: str) -> None:
    """Raise `UserError` for what is no address of a server."""
    try:
        url = httpx.URL(base_url or "https://api.openai.com/v1")
        good = url.scheme in ("http", "https") and bool(url.host) and base_url.isprintable() and " " not in base_url
    except (httpx.InvalidURL, ValueError):
        good = False
    if not good:
        raise UserError("llm.base_url is no address of a server", "write it as http://HOST:PORT/v1")


def _is_here(base_url: str) -> bool:
    """Whether the endpoint runs on this machine."""
    try:
        host = httpx.URL(base_url).host
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except (httpx.InvalidURL, ValueError):
        return False


def _reply(answer: Any) -> Reply:
    if not isinstance(answer, AIMessage):
        raise EndpointError("not an answer of the chat API (a message that is not the assistant's)")
    content = answer.content
    if not isinstance(content, str):
        parts = (part.get("text", "") if isinstance(part, dict) else part for part in content)
        content = "".join(part for part in parts if isinstance(part, str))
    refusal = answer.additional_kwargs.get("refusal")
    cut = answer.response_metadata.get("finish_reason") == "length"
    refused = _plain(str(refusal)) if refusal else None
    return Reply(encodable(content) or None, cut=cut, refusal=refused, tokens=_counted(answer))


def _counted(answer: AIMessage) -> Tokens | None:
    """What the endpoint counted, None where that can not be: a budget must not be talked up or down."""
    used: dict[str, Any] = dict(answer.usage_metadata or {})
    sent, received = used.get("input_tokens"), used.get("output_tokens")
    if type(sent) is not int or type(received) is not int or min(sent, received) < 0:
        return None
    return Tokens(sent, received) if 0 < sent + received <= _MOST_TOKENS_COUNTED else None


def _by_status(error: openai.APIStatusError) -> EndpointError:
    status = error.status_code
    what = f"HTTP {status} ({_reason(error)})"
    if 300 <= status < 400:
        to = _plain(error.response.headers.get("location", "elsewhere"))
        return EndpointError(f"HTTP {status}: it sends us on to {to}; where that is right, name it in llm.base_url")
    if status in (400, 404, 405, 415, 422, 501):
        return NotSupportedError(what)
    if status in (408, 409, 425, 429) or status >= 500:
        return BusyError(what, _retry_after_s(error.response.headers.get("retry-after")))
    return EndpointError(what)


def _retry_after_s(header: str | None) -> float | None:
    """Seconds, also from an HTTP date; None where it says nothing that can be used."""
    if not header:
        return None
    seconds = math.nan
    try:
        seconds = float(header)
    except ValueError:
        with suppress(ValueError, TypeError, OverflowError):
            seconds = (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
    return None if math.isnan(seconds) else max(_SHORTEST_WAIT_S, seconds)


def _reason(error: BaseException) -> str:
    """An endpoint's own words, fit to be shown."""
    body = getattr(error, "body", None)
    text = body.get("message") if isinstance(body, dict) and isinstance(body.get("message"), str) else None
    text = text or str(error) or type(error).__name__
    return _plain(str(text if isinstance(text, str) else json.dumps(text)))


def _plain(text: str) -> str:
    """On one line, printable and without secrets: an endpoint may echo the key it was sent."""
    line = " ".join(text[:100_000].split())
    return redact("".join(c if c.isprintable() else "?" for c in line))[:_LONGEST_REASON_CHARS]
