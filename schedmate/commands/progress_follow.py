"""`schedmate progress LOG --follow`: the progress of logs while they are written, refreshed until Ctrl-C."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedmate.console import err, out, print_json, safe

if TYPE_CHECKING:
    from rich.table import Table

    from analyzers.logs.follow import Followed
    from analyzers.types import Progress

#: Each log is assessed at least this often, and so many at each refresh where there are few.
_ASSESSED_WITHIN_S = 30.0
_ASSESSED_AT_ONCE = 20
_NEW_LOGS_EACH_S = 10.0
_ROWS_WITHOUT_TERMINAL = 40
_STATES = {
    None: "running",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "timeout": "out of time",
}

#: Gives the JSON object of one log.
Contract = Callable[["Followed"], dict[str, Any]]


def follow(log: Path, every_s: float, for_s: float | None, contract: Contract | None) -> int:
    """Refresh every ``every_s`` seconds, for ``for_s`` seconds or until Ctrl-C; the exit code.

    With ``contract``, prints one JSON object a line whenever a log has moved; else a table.
    """
    from analyzers.logs.follow import Follower

    told: set[str] = set()
    follower = Follower(log, told.add, every_s)
    show = _Lines(contract) if contract is not None else _Screen()
    started = looked = time.monotonic()
    try:
        with show:
            while True:
                now = time.monotonic()
                passed = now - started
                if now - looked >= _NEW_LOGS_EACH_S:
                    follower.look()
                    looked = now
                most = max(_ASSESSED_AT_ONCE, math.ceil(len(follower.logs) * every_s / _ASSESSED_WITHIN_S))
                follower.poll(passed)
                is_last = for_s is not None and passed + every_s > for_s
                assessed = follower.assess(len(follower.logs) if is_last or passed == 0 else most, passed)
                show.update(follower.logs.values(), assessed)
                if is_last:
                    break
                time.sleep(max(0.0, every_s - (time.monotonic() - now)))
    except KeyboardInterrupt:
        pass
    for warning in sorted(told):
        err().print(f"[yellow]warning:[/] {safe(warning)}")
    return 1 if any(_in_trouble(one) for one in follower.logs.values()) else 0


def _in_trouble(one: Followed) -> bool:
    return bool(one.progress.anomaly) or one.progress.ended not in (None, "completed")


class _Lines:
    """JSON lines of the logs that have moved."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._last: dict[str, int] = {}

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, logs: Iterable[Followed], assessed: Iterable[Followed]) -> None:
        """Print what has changed."""
        for one in assessed:
            known = hash(_without_clock(one.progress))
            if self._last.get(one.file.name) != known:
                self._last[one.file.name] = known
                print_json({"log": one.file.name, **self._contract(one)})


def _without_clock(found: Progress) -> Progress:
    """The progress without what changes while nothing happens."""
    return found if found.quiet is None else replace(found, quiet=replace(found.quiet, seconds=0.0))


class _Screen:
    """A table that is redrawn in place; where there is no terminal, printed once at the end."""

    def __init__(self) -> None:
        from rich.live import Live

        self._console = out()
        self._live = Live(console=self._console, auto_refresh=False, transient=False, vertical_overflow="crop")

    def __enter__(self) -> _Screen:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()
        elif hasattr(self, "_table"):
            self._console.print(self._table)

    def update(self, logs: Iterable[Followed], assessed: Iterable[Followed]) -> None:
        """Draw the table anew."""
        rows = self._console.height - 5 if self._console.is_terminal else _ROWS_WITHOUT_TERMINAL
        self._table = table(list(logs), max(3, rows))
        if self._console.is_terminal:
            self._live.update(self._table, refresh=True)


def table(logs: list[Followed], rows: int) -> Table:
    """The logs in trouble first, then by name; how many there are in each state above it."""
    from rich.table import Table

    from schedmate.commands.progress import clock, of, tidy

    counts: dict[str, int] = {}
    for one in logs:
        counts[_state(one)] = counts.get(_state(one), 0) + 1
    shown = sorted(logs, key=lambda one: (not _in_trouble(one), one.file.name))[:rows]
    more = f" (the first {len(shown)} shown)" if len(shown) < len(logs) else ""
    summary = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    drawn = Table(box=None, title=f"{len(logs)} logs: {summary}{more}", title_justify="left", padding=(0, 2, 0, 0))
    for name in ("log", "step", "epoch", "s per step", "loss", "time left", "state"):
        drawn.add_column(name, no_wrap=True)
    for one in shown:
        found = one.progress
        drawn.add_row(
            safe(one.file.name, 60), of(found.current_step, found.total_steps),
            of(tidy(found.current_epoch), found.total_epochs),
            "-" if found.seconds_per_step is None else f"{found.seconds_per_step:.4g}",
            "-" if found.last_loss is None else str(found.last_loss),
            "-" if found.eta_seconds is None else clock(found.eta_seconds),
            f"[red]{_state(one)}[/]" if _in_trouble(one) else _state(one),
        )  # fmt: skip
    return drawn


def _state(one: Followed) -> str:
    found = one.progress
    if found.anomaly is not None:
        return found.anomaly.replace("_", " ")
    if found.ended is None and "counter" in found.not_understood:
        return "no counter"
    if found.ended is None and found.quiet is not None:
        return "quiet"
    return _STATES[found.ended]
