"""What to do with a log whose lines nothing understands: formats learned before, and (on demand) a language model.

A model is shown some lines, redacted, and marks the numbers that count; the pattern is built from them and must prove
itself on the log (`analyzers.logs.proposed`). What did is kept by its line's template, in the user's cache, and proves
itself anew on every log. What the log's text asks for changes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyzers.logs.formats import LogFormat
from analyzers.logs.intake import discover, read_lines
from analyzers.logs.progress import read_progress
from analyzers.logs.proposed import ROLES, built, proven, template_of

if TYPE_CHECKING:
    from analyzers.types import Progress
    from prompts.gateway import Gateway
    from schedmate.config import Settings

_LINES = 3000
_SHOWN_KINDS, _SHOWN_OF_EACH = 20, 2
_MOST_KEPT = 200


def with_learned(
    found: Progress,
    log: Path,
    now: datetime | None,
    warn: Callable[[str], None],
    *,
    settings: Settings | None = None,
    gateway: Gateway | None = None,
    cache: Path | None = None,
) -> Progress:
    """``found``, or what a learned format makes of the log where nothing was understood to count.

    With ``settings`` a model is asked where no format learned before fits (``gateway`` in the configured one's place);
    it is waited for no longer than ``llm.timeout_s``. Why an answer was not used is told to ``warn``.
    """
    if "counter" not in found.not_understood:
        return found
    kept = cache if cache is not None else _cache_file()
    lines = _sample(log)
    known = _learned(kept, lines)
    if known is None and settings is not None:
        known = _asked(lines, settings, gateway, kept, warn)
    return read_progress(log, now=now, warn=warn, formats=(known,)) if known is not None else found


def _sample(log: Path) -> list[str]:
    """The first lines of the job's first log."""
    texts: list[str] = []
    for file in discover(log):
        for line in read_lines(file):
            texts.append(line.text[:2000])
            if len(texts) >= _LINES:
                return texts
        if texts:
            break
    return texts


def _learned(kept: Path | None, lines: list[str]) -> LogFormat | None:
    """A format that was learned before and proves itself here."""
    learned = _load(kept)
    if not learned:
        return None
    for template in dict.fromkeys(map(template_of, lines)):
        if template in learned and (known := proven(learned[template], lines)) is not None:
            return known
    return None


def _asked(
    lines: list[str], settings: Settings, gateway: Gateway | None, kept: Path | None, warn: Callable[[str], None]
) -> LogFormat | None:
    """A format that the model proposes and the log proves."""
    from prompts.answers import ProposedFormat
    from prompts.redaction import redact
    from prompts.templates import load_template
    from schedmate.language_model import gateway_for

    if gateway is None and settings.text("llm.provider") == "none":
        warn("no language model is configured: an unknown format stays unknown")
        return None
    shown = _telling(lines)
    proposal: dict[str, Any] = {}

    def why_not(answer: ProposedFormat) -> str | None:
        if answer.line == 0:
            return None
        if answer.line > len(shown):
            return f"there is no line {answer.line}"
        data = built(shown[answer.line - 1], {role: getattr(answer, role) for role in ROLES})
        if data is None:
            return "a number does not stand in the line, or no step was named"
        if proven(data, lines) is None:
            return "these numbers do not grow evenly over the log's lines as steps do"
        proposal.update(data)
        return None

    asked = gateway if gateway is not None else gateway_for(settings)
    numbered = "\n".join(f"[{index}] {redact(text[:300])}" for index, text in enumerate(shown, 1))
    answer = asked.ask(load_template("propose_log_format"), ProposedFormat, {"lines": numbered}, why_not)
    if answer.value is None or answer.value.line == 0:
        warn(f"language model: {answer.reason or 'it sees nothing that counts'}; the format stays unknown")
        return None
    _keep(kept, template_of(shown[answer.value.line - 1]), proposal)
    return proven(proposal, lines)


def _telling(lines: list[str]) -> list[str]:
    """Lines of the kinds that keep coming and hold numbers, some of each, the most frequent kinds first."""
    kinds: dict[str, list[str]] = {}
    for text in lines:
        template = template_of(text)
        if "#" in template:
            kinds.setdefault(template, []).append(text)
    frequent = sorted(kinds.values(), key=len, reverse=True)[:_SHOWN_KINDS]
    return [text for some in frequent for text in (some[-1], some[len(some) // 2])[:_SHOWN_OF_EACH]]


def _cache_file() -> Path | None:
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        folder = Path(base) if base.startswith("/") else Path("~/.cache").expanduser()
    except RuntimeError:  # nobody knows what ~ is
        return None
    return folder / "schedmate" / "log-formats.json"


def _load(kept: Path | None) -> dict[str, Any]:
    """What was learned; nothing where it can not be read, or somebody else could have written it."""
    try:
        if kept is None or kept.stat().st_uid != os.getuid() or kept.stat().st_mode & 0o022:
            return {}
        found = json.loads(kept.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return {key: one for key, one in found.items() if isinstance(one, dict)} if isinstance(found, dict) else {}


def _keep(kept: Path | None, template: str, data: dict[str, Any]) -> None:
    """Remember a format; where that can not be done it is asked for again."""
    if kept is None:
        return
    learned = {**_load(kept), template: data}
    try:
        kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = kept.with_suffix(f".{os.getpid()}")
        part.touch(mode=0o600)
        part.write_text(json.dumps(dict(list(learned.items())[-_MOST_KEPT:]), indent=1), "utf-8")
        part.replace(kept)
    except OSError:
        return
