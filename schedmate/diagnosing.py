"""Diagnosis as every way in gives it: the rules and an operator's own, a second reading where unsure, and a plan."""

from __future__ import annotations

from pathlib import Path

from analyzers.types import Diagnosis
from schedmate.config import Settings
from schedmate.recovery import with_plan
from schedmate.refine import refine_diagnosis
from schedmate.signatures.use import examine_with_own


def diagnosed(path: Path, settings: Settings) -> Diagnosis:
    """Why the job that left this log, or folder of logs, failed, and what to do. Raises `UserError`."""
    static, scan, topology, _ = examine_with_own(path, settings)
    return with_plan(refine_diagnosis(static, path, settings), scan, topology, path)
