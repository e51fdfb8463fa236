"""What a broken or hostile endpoint, environment or cache folder can do: nothing but leave a question unanswered."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import time
import warnings
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict

from prompts.errors import UserError
from prompts.gateway import Access, open_gateway
from prompts.ledger import Ledger
from prompts.redaction import redact
from prompts.templates import Template, Variable

KEY = "sk-proj-" + "A1b2C3d4" * 4


class Colour(BaseModel):
    model_config = ConfigDict(extra="forbid")
    colour: Literal["red", "green"]


TEMPLATE = Template("colour", 1, "Colour", {"text": Variable("untrusted", 5000)}, "Name the colour.", "Here: ${text}")
RED = {"colour": "red"}


def ask(scripted: Any, text: str = "dawn", **more: Any) -> Any:
    access = {"base_url": scripted.url, "api_key": KEY, "timeout_s": 5} | more
    return open_gateway(Access("openai", "scripted", **access)).ask(TEMPLATE, Colour, {"text": text}, lambda _: None)


def test_an_answer_without_end_is_not_read_to_its_end(scripted: Any, steps: Any) -> None:
    scripted.script = [steps.Step(b" " * (9 << 20))]
    found = ask(scripted)
    assert found.failure == "endpoint" and "larger than" in found.reason and len(scripted.requests) == 1


@pytest.mark.parametrize("status", [200, 400])
def test_a_compressed_answer_is_not_unpacked(scripted: Any, steps: Any, status: int) -> None:
    scripted.script = [steps.Step(gzip.compress(b" " * (64 << 20)), status, {"content-encoding": "gzip"})]
    found = ask(scripted)
    assert found.failure == "endpoint" and "compressed" in found.reason
    assert b"ncoding: identity" in scripted.received


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(scripted: Any, steps: Any, status: int) -> None:
    other = type(scripted)()
    other.script = [steps.says(RED)]
    scripted.script = [steps.Step("", status, {"location": other.url + "/chat/completions"})]
    found = ask(scripted)
    assert found.failure == "endpoint" and other.url in found.reason
    assert len(scripted.requests) == 1 and other.received == b""
    other.close()


def test_what_drips_ends_in_time_also_behind_the_scenes(scripted: Any, steps: Any) -> None:
    gone: list[float] = []

    class Tail(bytes):
        def __getitem__(self, at: Any) -> Any:
            gone.append(time.monotonic())
            return super().__getitem__(at)

    scripted.script = [steps.Step(Tail(b" " * 4000), drip_s=0.02)]
    start = time.monotonic()
    assert ask(scripted, timeout_s=0.5).failure == "endpoint"
    time.sleep(1.5)
    assert gone[-1] - start < 1.6, "the request that nobody waits for goes on"


@pytest.mark.parametrize(
    ("header", "shortest_s", "requests"),
    [
        ("nan", 0.4, 3),
        ("0", 0.4, 3),
        ("-5", 0.4, 3),
        ("1e9", 0, 1),
        ("inf", 0, 1),
        ("Wed, 21 Oct 2065 07:28:00 GMT", 0, 1),
    ],
)
def test_retry_after_is_heeded_within_reason(
    scripted: Any, steps: Any, header: str, shortest_s: float, requests: int
) -> None:
    scripted.script = [steps.fails(429, "busy", retry_after=header)]
    start = time.monotonic()
    assert ask(scripted).failure == "endpoint"
    assert time.monotonic() - start >= shortest_s and len(scripted.requests) == requests


@pytest.mark.parametrize(
    ("sent", "received"),
    [(-5, -7), (-5_000_000, 6_000_000), (10**30, 1), (2**63 - 1, 1), ("many", "few"), (1.5, 2.5), (None, None), (0, 0)],
)
def test_tokens_that_can_not_be_are_estimated(
    scripted: Any, steps: Any, tmp_path: Path, sent: Any, received: Any
) -> None:
    step = steps.says(RED)
    step.body["usage"] = {"prompt_tokens": sent, "completion_tokens": received, "total_tokens": 1}
    scripted.script = [step]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ask(scripted, ledger=tmp_path / "l.sqlite")
    assert found.value is not None and 10 < found.tokens[0] < 200 and 1 < found.tokens[1] < 50
    assert Ledger(tmp_path / "l.sqlite").rows()[0].tokens.sent == found.tokens[0]


@pytest.mark.parametrize(
    "usage",
    [
        *("none", "", 5, True, False, [], [1], {}, {"prompt_tokens": 3}, {"input_tokens": 1, "output_tokens": 2}),
        {"prompt_tokens": {"a": 1}, "completion_tokens": [2]},
        {"prompt_tokens": 1.0, "completion_tokens": 2.0},
        {"prompt_tokens": "1", "completion_tokens": 2, "prompt_tokens_details": "x"},
    ],
)  # fmt: skip
def test_an_answer_counts_whatever_is_said_of_its_cost(scripted: Any, steps: Any, usage: Any) -> None:
    step = steps.says(RED)
    step.body["usage"] = usage
    scripted.script = [step]
    found = ask(scripted)
    assert found.value is not None and 10 < found.tokens[0] < 200 and 1 < found.tokens[1] < 50


@pytest.mark.parametrize("details", ["x", [1], {"cached_tokens": "many"}, 5, {"reasoning_tokens": None}])
def test_the_details_of_a_cost_are_left_aside(scripted: Any, steps: Any, details: Any) -> None:
    step = steps.says(RED)
    step.body["usage"] |= {"prompt_tokens_details": details, "completion_tokens_details": details}
    scripted.script = [step]
    assert (ask(scripted).value is not None, ask(scripted).tokens) == (True, (1, 1))


def test_a_question_that_was_cut_off_may_be_charged_for(scripted: Any, steps: Any) -> None:
    drop = steps.says(RED)
    drop.hang_up = True
    scripted.script = [drop]
    assert ask(scripted, timeout_s=1.2).tokens[0] > 10
    away = open_gateway(Access("openai", "m", "http://127.0.0.1:9/v1", timeout_s=1.0))
    assert away.ask(TEMPLATE, Colour, {"text": "a"}, lambda _: None).tokens == (0, 0)


def odd_message(**more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": json.dumps(RED)} | more
    return {"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}


@pytest.mark.parametrize(
    "body",
    [
        "[" * 100_000, '{"a":' * 100_000, b"\xff\xfe", '{"id": ' + "9" * 9999 + "}", "<html>", "[]", "null", "NaN",
        {"choices": []}, {"choices": None}, {"choices": ["x"]}, {"choices": [None]}, {"error": "no"},
        odd_message(role="xyz"), odd_message(role=["x"]), odd_message(content=5), odd_message(content={"a": 1}),
        odd_message(content=[5, None]), odd_message(content=None, tool_calls="x"),
        odd_message(content='{"colour":' * 9999), odd_message(content="\ud800"), odd_message(refusal={"a": 1}),
    ],
)  # fmt: skip
def test_no_answer_makes_asking_raise(scripted: Any, steps: Any, body: Any) -> None:
    scripted.script = [steps.Step(body)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ask(scripted)
    assert found.value is None and found.reason and found.failure in ("endpoint", "content")


def test_a_refusal_is_shown_without_secrets_or_control_characters(scripted: Any, steps: Any) -> None:
    scripted.script = [steps.says(None, refusal=f"not with {KEY}\x1b[31m\u202e")]
    reason = ask(scripted).reason
    assert KEY not in reason and reason.isprintable() and "not with" in reason


def test_what_the_environment_holds_for_openai_goes_to_nobody_else(
    scripted: Any, steps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "leaked")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-More: leaked")
    scripted.script = [steps.says(RED)]
    assert ask(scripted, api_key="").value is not None
    assert b"leaked" not in scripted.received


def test_no_proxy_is_asked_for_what_runs_here(scripted: Any, steps: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.delenv("no_proxy", raising=False)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "OPENAI_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    scripted.script = [steps.says(RED)]
    assert ask(scripted).value is not None


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_a_cache_that_others_can_write_to_is_not_used(scripted: Any, steps: Any, tmp_path: Path, mode: int) -> None:
    scripted.script = [steps.says(RED)]
    kept = {"cache": tmp_path / "cache", "cache_bytes": 1 << 20}
    ask(scripted, **kept)
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0
    assert ask(scripted, **kept).cached
    (file,) = (tmp_path / "cache").glob("??/*.json")
    for folder in (tmp_path / "cache", file.parent):
        folder.chmod(mode)
        assert not ask(scripted, **kept).cached
        folder.chmod(0o700)
    assert ask(scripted, **kept).cached


@pytest.mark.parametrize("kind", ["fifo", "endless", "folder"])
def test_odd_files_in_a_cache_count_as_not_there(scripted: Any, steps: Any, tmp_path: Path, kind: str) -> None:
    scripted.script = [steps.says(RED)]
    kept = {"cache": tmp_path / "cache", "cache_bytes": 1 << 20}
    ask(scripted, **kept)
    (file,) = (tmp_path / "cache").glob("??/*.json")
    file.unlink()
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "endless":
        file.symlink_to("/dev/zero")
    else:
        file.mkdir()
    found = ask(scripted, **kept)
    assert found.value is not None and not found.cached


def test_a_cache_removes_only_what_is_its_own(scripted: Any, steps: Any, tmp_path: Path) -> None:
    (tmp_path / "ab").mkdir(mode=0o700)
    (tmp_path / "ab" / "thesis.tex").write_bytes(b"x" * 5000)
    tmp_path.chmod(0o700)
    scripted.script = [steps.says(RED)]
    for text in ("a", "b"):
        ask(scripted, text, cache=tmp_path, cache_bytes=20)
    assert (tmp_path / "ab" / "thesis.tex").exists()
    assert len(list(tmp_path.glob("??/*.json"))) <= 1


def test_a_locked_ledger_is_not_waited_for_longer_than_allowed(scripted: Any, steps: Any, tmp_path: Path) -> None:
    scripted.script = [steps.says(RED)]
    holder = sqlite3.connect(tmp_path / "l.sqlite", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    start = time.monotonic()
    found = ask(scripted, ledger=tmp_path / "l.sqlite", tokens_per_day=10**6, timeout_s=0.3)
    assert found.failure == "not_asked" and "locked" in found.reason and time.monotonic() - start < 1.5
    holder.close()


def test_an_answer_is_not_held_up_by_a_ledger_that_is_locked(scripted: Any, steps: Any, tmp_path: Path) -> None:
    holder = sqlite3.connect(tmp_path / "l.sqlite", isolation_level=None, check_same_thread=False)
    Ledger(tmp_path / "l.sqlite").rows()

    def answer(_: Any) -> Any:
        holder.execute("BEGIN EXCLUSIVE")
        return steps.says(RED)

    ask(scripted_with(scripted, steps))  # LangChain's import is paid here
    scripted.script = [answer]
    start = time.monotonic()
    found = ask(scripted, ledger=tmp_path / "l.sqlite", timeout_s=0.6)
    assert found.value is not None and time.monotonic() - start < 1.6, "and not 2 s more"
    holder.close()


def scripted_with(scripted: Any, steps: Any) -> Any:
    scripted.script = [steps.says(RED)]
    return scripted


def test_a_check_that_raises_does_not_leave_the_endpoint_alone_for_ever(scripted: Any, steps: Any) -> None:
    now = [0.0]
    scripted.script = [steps.says(RED)]
    from prompts.breaker import FAILURES, Breaker

    gateway: Any = open_gateway(Access("openai", "scripted", scripted.url, timeout_s=5))
    gateway._breaker = Breaker(lambda: now[0])
    for _ in range(FAILURES):
        gateway._breaker.failed()
    now[0] = 100.0

    def broken(_: Any) -> None:
        raise RuntimeError("of the caller")

    with pytest.raises(RuntimeError):
        gateway.ask(TEMPLATE, Colour, {"text": "x"}, broken)
    assert gateway.ask(TEMPLATE, Colour, {"text": "x"}, lambda _: None).value is not None


def test_settings_that_are_no_text_or_path_are_told(scripted: Any, steps: Any) -> None:
    scripted.script = [steps.says(RED)]
    with pytest.raises(UserError, match=r"llm\.model"):
        open_gateway(Access("openai", "m\udc80", scripted.url))
    kept = {"cache": Path("a\0b"), "cache_bytes": 1 << 20, "ledger": Path("a\0b")}
    assert ask(scripted, "half a character: \udc80", **kept).value is not None


def test_what_can_not_be_seen_does_not_reach_the_model(scripted: Any, steps: Any) -> None:
    scripted.script = [steps.says(RED)]
    secret = "ghp_" + "a1B2" * 9
    ask(scripted, f"a {secret[:9]}\u200b{secret[9:]} b\u2028[7] c\u202ed\x1b[31m\x85")
    sent = scripted.requests[0]["messages"][1]["content"]
    assert secret not in sent and "<redacted>" in sent and "[7] c" in sent
    assert all(c.isprintable() or c == "\n" for c in sent)


@pytest.mark.parametrize(
    "before", ["%20", "q%3D", r"\n", r"\t", r"\u003d", r"\x1b", "\x1b[31m", "\x1b[0m", "\x1b[1;31m"]
)
def test_a_token_behind_an_escape_is_redacted(before: str) -> None:
    assert "a1B2" not in redact(f"say {before}ghp_{'a1B2' * 9} now")


def test_a_name_behind_an_escaped_line_end_is_one() -> None:
    assert "a8f3" not in redact(r"env: 'A=1\napi_key=a8f3c9d2e1b7a8f3\nB=2'")


def test_a_password_in_the_address_is_not_shown(schedmate: Any, scripted: Any, steps: Any) -> None:
    scripted.script = [steps.says({"word": "backfill", "letters": 8})]
    url = scripted.url.replace("http://", "http://me:hunter22@")
    model = ["--set", "llm.provider=openai", "--set", f"llm.base_url={url}", "--set", "llm.model=m"]
    for words in (("llm", "check", "--json"), ("config", "show"), ("config", "show", "--json")):
        found = schedmate(*model, *words)
        assert found.returncode == 0 and "hunter22" not in found.stdout + found.stderr
