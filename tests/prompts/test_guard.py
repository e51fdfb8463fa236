"""What keeps a model cheap, bounded and out of the way, against a scripted endpoint."""

from __future__ import annotations

import json
import multiprocessing
import threading
import time
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict

from prompts.answer_cache import AnswerCache
from prompts.breaker import FAILURES, FIRST_PAUSE_S, LONGEST_PAUSE_S, Breaker
from prompts.endpoint import Tokens
from prompts.errors import UserError
from prompts.gateway import Access, open_gateway
from prompts.ledger import Ledger, Spent, today
from prompts.templates import Template, Variable


class Colour(BaseModel):
    model_config = ConfigDict(extra="forbid")
    colour: Literal["red", "green"]


TEMPLATE = Template("colour", 1, "Colour", {"text": Variable("untrusted", 5000)}, "Name the colour.", "Here: ${text}")
RED = {"colour": "red"}


def opened(scripted: Any, tmp_path: Path, **more: Any) -> Any:
    kept = {"cache": tmp_path / "cache", "cache_bytes": 1 << 20, "ledger": tmp_path / "ledger.sqlite", "timeout_s": 5}
    return open_gateway(Access("openai", "scripted", **({"base_url": scripted.url} | kept | more)))


def ask(gateway: Any, text: str = "dawn", check: Any = lambda _: None, **more: Any) -> Any:
    return gateway.ask(TEMPLATE, Colour, {"text": text}, check, **more)


def rows(tmp_path: Path) -> list[Spent]:
    return Ledger(tmp_path / "ledger.sqlite").rows()


def test_the_same_question_is_asked_once(scripted: Any, steps: Any, tmp_path: Path) -> None:
    scripted.script = [steps.says(RED)]
    assert ask(opened(scripted, tmp_path)).cached is False
    again = ask(opened(scripted, tmp_path))  # another process would open it anew, too
    assert again.value == Colour(colour="red") and again.cached and again.attempts == ()
    assert len(scripted.requests) == 1
    ask(opened(scripted, tmp_path), text="dusk")
    ask(opened(scripted, tmp_path, base_url=scripted.url + "/"), text="dusk")
    assert len(scripted.requests) == 3


def test_an_answer_that_is_not_accepted_any_more_is_asked_for_again(scripted: Any, steps: Any, tmp_path: Path) -> None:
    scripted.script = [steps.says(RED), steps.says({"colour": "green"})]
    gateway = opened(scripted, tmp_path)
    assert ask(gateway).value == Colour(colour="red")
    assert ask(gateway, check=lambda found: "no" if found.colour == "red" else None).value == Colour(colour="green")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"colour": "blue"}', b'{"colour": "red", "x": 1}', b"\xff" * 99]
)
def test_nothing_in_a_cache_file_is_believed(scripted: Any, steps: Any, tmp_path: Path, content: bytes) -> None:
    scripted.script = [steps.says(RED)]
    ask(opened(scripted, tmp_path))
    (file,) = (tmp_path / "cache").glob("??/*.json")
    file.write_bytes(content)
    assert ask(opened(scripted, tmp_path)).cached is False


def test_no_secret_is_in_the_cache_or_the_ledger(scripted: Any, steps: Any, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    scripted.script = [steps.says(RED)]
    ask(opened(scripted, tmp_path), text=f"token={secret}")
    kept = b"".join(path.read_bytes() + str(path).encode() for path in tmp_path.rglob("*") if path.is_file())
    assert len(kept) > 100 and secret.encode() not in kept and secret.encode() not in scripted.received


def test_the_cache_stays_within_its_room_and_the_used_ones_stay(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path, 3000)
    keys = [f"{i:02x}" * 32 for i in range(200)]
    for i, key in enumerate(keys):
        cache.put(key, Colour(colour="red"))
        time.sleep(0.002 if i < 3 else 0)
        cache.get(keys[0], Colour)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.json")) <= 3000
    assert cache.get(keys[0], Colour) is not None and cache.get(keys[1], Colour) is None


def test_a_cache_or_ledger_that_can_not_be_written_costs_nothing_but_itself(
    scripted: Any, steps: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    scripted.script = [steps.says(RED)]
    gateway = opened(scripted, tmp_path, cache=tmp_path / "file" / "x", ledger=tmp_path / "file" / "y")
    assert ask(gateway).value is not None and ask(gateway).value is not None


def test_a_limit_that_can_not_be_kept_account_of_is_kept_by_not_asking(
    scripted: Any, steps: Any, tmp_path: Path
) -> None:
    scripted.script = [steps.says(RED)]
    (tmp_path / "broken.sqlite").write_bytes(b"no database" * 100)
    found = ask(opened(scripted, tmp_path, ledger=tmp_path / "broken.sqlite", tokens_per_day=10**6))
    assert found.value is None and found.failure == "not_asked" and "broken.sqlite" in found.reason
    assert scripted.requests == []


def test_what_is_spent_is_written_down_by_day_and_template(scripted: Any, steps: Any, tmp_path: Path) -> None:
    scripted.script = [steps.says(RED), steps.says(None), steps.says("no"), steps.says("no"), steps.says("no")]
    gateway = opened(scripted, tmp_path, price_sent=3.0, price_received=15.0)
    ask(gateway, "a")
    assert ask(gateway, "b").failure == "content"
    (row,) = rows(tmp_path)
    assert (row.day, row.model, row.template, row.asked, row.accepted) == (today(), "scripted", "colour@1", 2, 1)
    assert row.tokens == Tokens(5, 5) and row.cost == pytest.approx((5 * 3 + 5 * 15) / 1e6)


def test_tokens_that_the_endpoint_does_not_count_are_estimated(scripted: Any, steps: Any, tmp_path: Path) -> None:
    step = steps.says(RED)
    del step.body["usage"]
    scripted.script = [step]
    sent, received = ask(opened(scripted, tmp_path), text="word " * 300).tokens
    assert 300 <= sent <= 900 and 5 <= received <= 50


def test_the_budget_of_a_day_holds(scripted: Any, steps: Any, tmp_path: Path) -> None:
    """A question may take its estimate and the longest answer; what it did not take is free again."""
    step = steps.says(RED)
    step.body["usage"] = {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000}
    scripted.script = [step]
    gateway = opened(scripted, tmp_path, tokens_per_day=4000)
    told = [ask(gateway, text=str(i)) for i in range(6)]
    assert [each.failure for each in told] == ["", "", "", "not_asked", "not_asked", "not_asked"]
    assert "llm.tokens_per_day = 4000" in told[-1].reason
    assert ask(gateway, text="0").cached  # what is known costs nothing


def test_the_cost_of_a_day_holds(scripted: Any, steps: Any, tmp_path: Path) -> None:
    scripted.script = [steps.says(RED)]
    gateway = opened(scripted, tmp_path, price_received=1000.0, cost_per_day=1.0)
    assert ask(gateway).failure == "not_asked" and scripted.requests == []


def hold_all(path: Path, results: Any) -> None:
    ledger = Ledger(path)
    results.put(sum(ledger.hold(10, 0.0, 1000, 0.0, 60.0) is not None for _ in range(60)))


def test_the_budget_is_of_all_processes_together(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    own = [context.Process(target=hold_all, args=(tmp_path / "l.sqlite", results)) for _ in range(3)]
    for process in own:
        process.start()
    assert sum(results.get(timeout=60) for _ in own) == 100
    for process in own:
        process.join()


def test_what_a_dead_process_set_aside_lapses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / "l.sqlite")
    assert ledger.hold(1000, 0.0, 1000, 0.0) is not None
    assert ledger.hold(1, 0.0, 1000, 0.0) is None
    now = time.time()
    monkeypatch.setattr("prompts.ledger.time.time", lambda: now + 1000)
    assert ledger.hold(1000, 0.0, 1000, 0.0) is not None


def test_a_question_larger_than_a_call_may_be_is_not_asked(scripted: Any, steps: Any, tmp_path: Path) -> None:
    step = steps.says("no json")
    step.body["usage"] = {"prompt_tokens": 600, "completion_tokens": 900, "total_tokens": 1500}
    scripted.script = [step]
    found = ask(opened(scripted, tmp_path, tokens_per_call=1000))
    assert found.failure == "not_asked" and "llm.tokens_per_call = 1000" in found.reason and scripted.requests == []
    found = ask(opened(scripted, tmp_path, tokens_per_call=3300))  # two requests and no third
    assert len(scripted.requests) == 2 and found.value is None and "llm.tokens_per_call" in found.reason


def test_an_endpoint_that_keeps_failing_is_left_alone(scripted: Any, steps: Any, tmp_path: Path) -> None:
    scripted.script = [steps.fails(401)]
    gateway = opened(scripted, tmp_path)
    told = [ask(gateway, text=str(i)) for i in range(FAILURES + 3)]
    assert len(scripted.requests) == FAILURES
    assert told[-1].failure == "not_asked" and "left alone" in told[-1].reason


def test_those_who_wait_for_a_place_when_it_fails_are_spared(scripted: Any, steps: Any, tmp_path: Path) -> None:
    scripted.script = [steps.Step(steps.fails(401).body, 401, wait_s=0.05)]
    gateway = opened(scripted, tmp_path, concurrency=1)
    threads = [threading.Thread(target=ask, args=(gateway, str(i))) for i in range(4 * FAILURES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(scripted.requests) == FAILURES


def test_a_breaker_tries_again_and_waits_longer_each_time() -> None:
    now = [0.0]
    breaker = Breaker(lambda: now[0])
    for _ in range(FAILURES):
        assert breaker.closed_for_s() == 0
        breaker.failed()
    pauses = []
    for _ in range(12):
        pauses.append(breaker.closed_for_s())
        now[0] += pauses[-1]
        assert breaker.closed_for_s() == 0
        assert breaker.closed_for_s() > 0  # one at a time while it is on probation
        breaker.failed()
    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S] and pauses[-1] == LONGEST_PAUSE_S
    now[0] += LONGEST_PAUSE_S
    assert breaker.closed_for_s() == 0
    breaker.succeeded()
    assert breaker.closed_for_s() == breaker.closed_for_s() == 0


def test_bad_answers_are_no_failures_of_the_endpoint(scripted: Any, steps: Any, tmp_path: Path) -> None:
    scripted.script = [steps.says("nonsense")]
    gateway = opened(scripted, tmp_path)
    assert {ask(gateway, text=str(i)).failure for i in range(FAILURES + 2)} == {"content"}


def test_no_more_requests_at_once_than_allowed(scripted: Any, steps: Any, tmp_path: Path) -> None:
    scripted.script = [steps.Step(steps.says(RED).body, wait_s=0.2)]
    at_once, most = [0], [0]
    gateway = opened(scripted, tmp_path, concurrency=2)
    real, lock = gateway.ladder.ask, threading.Lock()

    def counted(*args: Any, **more: Any) -> Any:
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        try:
            return real(*args, **more)
        finally:
            with lock:
                at_once[0] -= 1

    gateway.ladder.ask = counted
    threads = [threading.Thread(target=ask, args=(gateway, str(i))) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 2 and len(scripted.requests) == 6


def test_whoever_gets_no_place_in_time_goes_without(scripted: Any, steps: Any, tmp_path: Path) -> None:
    scripted.script = [steps.Step(steps.says(RED).body, wait_s=1.5)]
    gateway = opened(scripted, tmp_path, concurrency=1, tokens_per_day=100_000)
    first = threading.Thread(target=ask, args=(gateway, "first"))
    first.start()
    time.sleep(0.3)
    start = time.monotonic()
    found = ask(gateway, "second", within_s=0.2)
    assert found.failure == "not_asked" and time.monotonic() - start < 1.0
    first.join()


def test_the_caller_can_allow_less_time(scripted: Any, steps: Any, tmp_path: Path) -> None:
    scripted.script = [steps.Step(steps.says(RED).body, wait_s=3)]
    start = time.monotonic()
    found = ask(opened(scripted, tmp_path), within_s=0.3)
    assert found.failure == "endpoint" and time.monotonic() - start < 1.5


def test_a_question_that_was_too_long_does_not_lower_the_ladder(scripted: Any, steps: Any, tmp_path: Path) -> None:
    """A 400 on every rung says something of the question and nothing of the rungs."""
    scripted.script = [*(steps.fails(400, "context length exceeded") for _ in range(3)), steps.says(RED)]
    gateway = opened(scripted, tmp_path)
    assert ask(gateway, "long").value is None
    assert ask(gateway, "short").value is not None
    assert scripted.rungs()[-1] == "json_schema"


def test_the_key_is_not_shown(scripted: Any) -> None:
    assert "sk-" not in repr(Access("openai", "m", scripted.url, "sk-123"))


def test_a_local_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        open_gateway(Access("transformers", str(tmp_path / "none")))
    with pytest.raises(UserError, match=r"llm\.model is empty"):
        open_gateway(Access("transformers"))


def test_the_answers_in_the_cache_are_plain_json(scripted: Any, steps: Any, tmp_path: Path) -> None:
    scripted.script = [steps.says(RED)]
    ask(opened(scripted, tmp_path))
    (file,) = (tmp_path / "cache").glob("??/*.json")
    assert json.loads(file.read_text()) == RED
