"""`schedmate diagnose PATH --follow`: failures told while the job's logs are written, until it ends or Ctrl-C.

Causes come before their echoes, and what looks like a failure may be caught and tried again; so a failure is told once
it has stood for a while, and again when what is known of it changes or the job went on after all.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from prompts.errors import UserError
from schedmate.console import err, out, print_json, safe

if TYPE_CHECKING:
    from analyzers.failures.following import LiveDiagnosis
    from analyzers.types import Diagnosis
    from schedmate.config import Settings

#: A verdict is told once it has stood for so long; for the longer time where no line decides yet.
STANDS_S = 10.0
UNDECIDED_STANDS_S = 60.0
#: What says that it ended, and is silent for so long, has ended.
ENDED_AFTER_S = 60.0
_NEW_FILES_EACH_S = 10.0
#: Where a failure was told, it is seen so often whether other files show that the job goes on.
_ALL_FILES_EACH_S = 30.0
#: A verdict that took a second is not asked for again for so many.
_PAUSES = 20.0

Why = Literal["ended", "idle", "time", "interrupted"]
Told = Literal["failure", "changed", "cleared"]
Contract = Callable[["Diagnosis"], dict[str, Any]]
_WHY = {
    "ended": "the job has ended",
    "idle": "nothing was written for a while",
    "time": "the time is up",
    "interrupted": "stopped",
}


def follow(
    path: Path, settings: Settings, every_s: float, for_s: float | None, idle_s: float | None, contract: Contract | None
) -> tuple[Why, Diagnosis | None]:
    """Tell what fails until the job ends, ``for_s`` or a silence of ``idle_s`` is over, Ctrl-C or SIGTERM. Why it is,
    and the verdict that stood then.

    With ``contract`` one JSON object a line, else words. Raises `UserError` where nothing can ever come at the path.
    """
    from analyzers.failures.following import LiveDiagnosis
    from analyzers.failures.scan import Scanner
    from schedmate.signatures.use import signatures_in_use

    if str(path) == "-":
        raise UserError("--follow needs a file or a folder", "write the output to a file and follow that")
    if not path.exists() and not path.absolute().parent.is_dir():
        raise UserError(f"{path}: no such file or folder, nor the folder that it would be in", "check the path")
    signatures, warnings = signatures_in_use(settings)
    warn = _once()
    for warning in warnings:
        warn(warning)
    live = LiveDiagnosis(path, Scanner(signatures, True), warn)
    watch = Watch(live, _tell_json(contract) if contract is not None else _tell_in_words)
    with _interrupted_by_sigterm():
        try:
            live.look()
            if live.nothing is not None:
                err().print(f"[dim]waiting: {safe(live.nothing.what)}[/]", soft_wrap=True)
            return _loop(live, watch, every_s, for_s, idle_s), watch.last
        except KeyboardInterrupt:
            return "interrupted", watch.last


def _loop(live: LiveDiagnosis, watch: Watch, every_s: float, for_s: float | None, idle_s: float | None) -> Why:
    started = looked = grown = time.monotonic()
    while True:
        now = time.monotonic()
        if now - looked >= _NEW_FILES_EACH_S or not len(live):
            live.look()
            looked = now
        if live.poll():
            grown = now
        watch.see(now)
        if idle_s is not None and now - grown >= idle_s:
            return "idle"
        if now - grown >= ENDED_AFTER_S and watch.says_it_ended(now):
            return "ended"
        if for_s is not None and now - started + every_s > for_s:
            return "time"
        time.sleep(max(0.0, every_s - (time.monotonic() - now)))


@dataclass(slots=True)
class _Standing:
    """A verdict and since when it has been the same one, in seconds of the monotonic clock."""

    found: Diagnosis
    since: float

    @property
    def needs_s(self) -> float:
        return UNDECIDED_STANDS_S if self.found.category == "unknown" else STANDS_S


class Watch:
    """Decides when a verdict is worth telling. Call `see` again and again with the monotonic clock's seconds."""

    def __init__(self, live: LiveDiagnosis, tell: Callable[[Told, Diagnosis], None]) -> None:
        self._live, self._tell = live, tell
        self._standing: _Standing | None = None
        self._told: Diagnosis | None = None
        self._not_before = self._all_seen = 0.0

    @property
    def last(self) -> Diagnosis | None:
        """The verdict that stands, told or not; None before anything was read."""
        return self._standing.found if self._standing is not None else None

    def see(self, now: float) -> None:
        """Bring the verdict up to date as far as that can be afforded, and tell it where it is time."""
        if not len(self._live) or now < self._not_before:
            return
        standing = self._standing
        if standing is None or self._live.is_in_doubt:
            self._take(self._live.glance, now)
        elif self._told is not None and now - self._all_seen >= _ALL_FILES_EACH_S:
            self._take_all(now)
        standing = self._standing
        if standing is None or not self._is_news(standing.found) or now - standing.since < standing.needs_s:
            return
        self._take_all(now)  # is it so with all files up to date?
        if self._standing is standing:
            self._say(standing.found)

    def says_it_ended(self, now: float) -> bool:
        """Whether the logs or the scheduler say so."""
        self._take_all(now)
        return self._live.has_ended()

    def _take_all(self, now: float) -> None:
        self._live.look()
        self._take(self._live.verdict, now)
        self._all_seen = now

    def _take(self, ask: Callable[[], Diagnosis | None], now: float) -> None:
        began = time.process_time()
        found = ask()
        self._not_before = now + _PAUSES * (time.process_time() - began)
        if found is None:
            return
        standing = self._standing
        if standing is not None and _gist(standing.found) == _gist(found):
            standing.found = found
            return
        # what stood there before we looked has stood since then
        age_s = max(0.0, time.time() - self._live.modified_s) if standing is None else 0.0
        self._standing = _Standing(found, now - age_s)

    def _is_news(self, found: Diagnosis) -> bool:
        if self._told is None:
            return found.category != "none"
        return _gist(found) != _gist(self._told)

    def _say(self, found: Diagnosis) -> None:
        if found.category == "none":
            self._tell("cleared", found)
            self._told = None
        else:
            self._tell("failure" if self._told is None else "changed", found)
            self._told = found


def _gist(found: Diagnosis) -> tuple[object, ...]:
    """What makes a verdict another one."""
    if found.category == "none":
        return ("none",)
    first = found.evidence[0] if found.evidence else None
    return (found.category, found.subcategory, found.culprit_ranks, found.culprit_nodes, found.action, first)


def _tell_json(contract: Contract) -> Callable[[Told, Diagnosis], None]:
    def tell(what: Told, found: Diagnosis) -> None:
        print_event(what, None, contract(found))

    return tell


def print_event(event: str, why: Why | None, diagnosis: dict[str, Any]) -> None:
    """One line of docs/json/diagnose.md."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    print_json({"event": event, "at": now, "why": why, "diagnosis": diagnosis})


def _tell_in_words(what: Told, found: Diagnosis) -> None:
    from schedmate.commands.diagnose import quoted

    screen = out()
    clock = f"[dim]{datetime.now():%H:%M:%S}[/]"
    if what == "cleared":
        screen.print(f"{clock} [green]the job goes on after what was told[/]", soft_wrap=True)
        return
    colour = "yellow" if found.category == "unknown" else "red"
    verdict = f"[bold {colour}]{found.category}[/] / {safe(found.subcategory)}"
    screen.print(
        f"{clock} {what}: {verdict}   confidence {found.confidence:.2f}   do: {safe(found.action)}", soft_wrap=True
    )
    screen.print(f"  {quoted(found.summary)}", soft_wrap=True)
    for line in found.evidence[:1]:
        screen.print(f"  [dim]{quoted(line.file)}:{line.line}[/]  {quoted(line.text)}", soft_wrap=True)


def tell_end(why: Why) -> None:
    """Say why the following is over; the verdict comes next."""
    err().print(f"[dim]{_WHY[why]}; the whole is read again[/]")


def _once() -> Callable[[str], None]:
    """Prints each warning the first time."""
    told: set[str] = set()

    def warn(text: str) -> None:
        from schedmate.commands.diagnose import quoted

        if text not in told and len(told) < 1000:
            told.add(text)
            err().print(f"[yellow]warning:[/] {quoted(text)}", soft_wrap=True)

    return warn


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM, which batch systems send before they kill, ends the following as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
