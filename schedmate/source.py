"""Reading a job's source as the settings say: whose is left alone, and where readings are kept."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from schedmate.config import Settings, load_settings

if TYPE_CHECKING:
    from analyzers.source.cache import ReadingCache
    from analyzers.types import SourceFacts, Submission
    from prompts.gateway import Gateway

_MIB = 1 << 20


def read_source(submission: Submission, settings: Settings | None = None) -> SourceFacts:
    """What source and launch command say; no more than the launch command where the policy has it so."""
    from analyzers.source import analyze

    known = settings if settings is not None else load_settings()
    off_by = switched_off_by(submission, known)
    return analyze(submission, None if off_by else reading_cache(known), off_by=off_by)


def sharpened(
    facts: SourceFacts,
    submission: Submission,
    settings: Settings | None = None,
    *,
    summary: bool = False,
    within_s: float | None = None,
    gateway: Gateway | None = None,
) -> SourceFacts:
    """The facts with what the configured model can add (and, with ``summary``, its plain words); as they are without
    one, and where source is not to be read. Never waits longer than ``within_s`` seconds for the model; never raises
    for what its endpoint does, but `UserError` where its configuration is incomplete. ``gateway`` is asked in the
    place of the configured one."""
    known = settings if settings is not None else load_settings()
    if facts.source.state in ("off", "none") or (gateway is None and known.text("llm.provider") == "none"):
        return facts
    from analyzers.source.opened import open_again
    from analyzers.source.second.combine import Limits, second_reading
    from schedmate.language_model import gateway_for

    asked = gateway if gateway is not None else gateway_for(known)
    start = time.monotonic()
    opened = open_again(submission)
    if opened is None:
        return facts
    # to open the job once more is a part of what a model costs
    left_s = None if within_s is None else max(0.0, within_s - (time.monotonic() - start))
    looks, looks_tokens = known.integer("llm.looks"), known.integer("llm.looks_tokens")
    limits = Limits(left_s, looks, looks_tokens, known.number("llm.timeout_s"))
    return second_reading(facts, opened, submission.command, asked, summary=summary, limits=limits)


def switched_off_by(submission: Submission, settings: Settings) -> str:
    """Which policy says that this submission's source is not read, in words; empty where none does."""
    for kind, name in (("tenant", submission.tenant), ("user", submission.user)):
        setting = f"source.off_{kind}s"
        listed = [each.strip() for each in settings.text(setting).split(",") if each.strip()]
        if "*" in listed:
            return f"policy {setting}: all"
        if name is not None and name.strip() in listed:
            return f"policy {setting}: {name.strip()}"
    return ""


def reading_cache(settings: Settings) -> ReadingCache | None:
    """Where readings are kept by content, None where that is switched off or there is no place for it."""
    from analyzers.source.cache import ReadingCache

    limit_mib = settings.integer("source.cache_mib")
    folder = settings.text("source.cache_dir") or _cache_home()
    if limit_mib == 0 or not folder:
        return None
    try:
        return ReadingCache(Path(folder).expanduser(), limit_mib * _MIB)
    except RuntimeError:  # nobody knows what ~ is
        return None


def _cache_home() -> str:
    """The usual folder, empty where there is none (relative paths do not count, says the XDG specification)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        try:
            base = str(Path("~/.cache").expanduser())
        except RuntimeError:
            return ""
    return str(Path(base) / "schedmate" / "source")
