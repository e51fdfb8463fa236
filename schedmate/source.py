"""Reading a job's source as the settings say: whose is left alone, and where readings are kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from schedmate.config import Settings, load_settings

if TYPE_CHECKING:
    from analyzers.source.cache import ReadingCache
    from analyzers.types import SourceFacts, Submission

_MIB = 1 << 20


def read_source(submission: Submission, settings: Settings | None = None) -> SourceFacts:
    """What source and launch command say; no more than the launch command where the policy has it so."""
    from analyzers.source import analyze

    known = settings if settings is not None else load_settings()
    off_by = switched_off_by(submission, known)
    return analyze(submission, None if off_by else reading_cache(known), off_by=off_by)


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
