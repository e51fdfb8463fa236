"""`schedmate train` and `evaluate`: models on disk, promoted only where they are better on the newest jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyzers.types import JobRecord
from prompts.errors import UserError

if TYPE_CHECKING:
    from predictors.model_files import ModelCard
    from predictors.stacked import StackedDurations
    from predictors.training import Scores
    from schedmate.config import Settings

_HASH_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Trained:
    """What came of a training. ``version`` is that of the new model, None where none was made; ``why`` in words.

    ``scores`` are the candidate's on the newest jobs, ``promoted_scores`` those of the model that was in use.
    """

    promoted: bool
    why: str
    jobs: int
    data_sha256: str
    version: str | None = None
    scores: Scores | None = None
    promoted_version: str | None = None
    promoted_scores: Scores | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The model in use on the jobs that ended since it was trained. ``drift``: what has become worse, in words."""

    version: str
    jobs_trained_on: int
    trained_to_s: float
    then: Scores
    now: Scores
    drift: tuple[str, ...]


def train(records: Iterable[JobRecord], folder: Path, seed: int = 0) -> Trained:
    """Train on ended jobs; the model is kept below ``folder`` where it beats the one in use on the newest of them.

    Raises `UserError` for too few jobs, or where the folder can not be used.
    """
    from predictors.model_files import ModelCard, data_hash, promote, save_model
    from predictors.training import LEAST_JOBS, LEAST_WINDOW_JOBS, judged, newest, trained_on

    ended = sorted((r for r in records if r.duration_s is not None), key=lambda r: (r.submit_s, r.job_id))
    if len(ended) < LEAST_JOBS:
        raise UserError(f"{len(ended)} ended jobs to learn from, not {LEAST_JOBS}", "train when more have ended")
    sha256 = data_hash(ended)
    version = f"{len(ended)}-{sha256[:_HASH_SHOWN]}-{seed}"
    warnings: tuple[str, ...] = ()
    try:
        in_use = _in_use(folder)
    except UserError as error:
        in_use, warnings = None, (f"{error.what}; it counts as none",)
    if in_use is not None and in_use[1].version == version:
        return Trained(False, "the model in use was trained on the same jobs", len(ended), sha256, None, None, version)
    older, window = newest(ended, in_use[0].latest_s if in_use else float("-inf"))
    if len(window) < LEAST_WINDOW_JOBS:
        why = f"only {len(window)} jobs have ended since the model in use was trained; {LEAST_WINDOW_JOBS} are needed"
        return Trained(False, why, len(ended), sha256, promoted_version=in_use[1].version if in_use else None)
    found = judged(trained_on(older, seed), older, window)
    before = judged(in_use[0], older, window) if in_use else None
    known = in_use[1].version if in_use else None
    if before is not None and found.loss >= before.loss:
        why = f"its loss is {found.loss:.4f} on the newest jobs, that of the model in use {before.loss:.4f}"
        return Trained(False, why, len(ended), sha256, None, found, known, before, warnings)
    model = trained_on(ended, seed)
    model.forget_rows()
    card = ModelCard(
        version=version,
        jobs=len(ended),
        first_s=ended[0].submit_s,
        last_s=ended[-1].submit_s,
        data_sha256=sha256,
        parameters={"seed": seed, "trees": model.trees, "window_jobs": model.window},
        metrics={name: value for name, value in asdict(found).items() if value is not None},
    )
    if not (folder / version).exists():
        save_model(folder, model, card)
    promote(folder, version)
    why = (
        "there was none"
        if before is None
        else f"its loss is {found.loss:.4f}, that of the one before {before.loss:.4f}"
    )
    return Trained(True, why, len(ended), sha256, version, found, known, before, warnings)


def evaluate(records: Iterable[JobRecord], folder: Path) -> Evaluated:
    """The model in use against the jobs that ended since. `UserError` where there is no model, or hardly such a job."""
    from predictors.stacked import ended_s
    from predictors.training import LEAST_WINDOW_JOBS, Scores, drift, judged

    found = _in_use(folder)
    if found is None:
        raise UserError(f"{folder}: no model in it", "train one with `schedmate train`")
    model, card = found
    ended = sorted((r for r in records if r.duration_s is not None), key=lambda r: (r.submit_s, r.job_id))
    since = [record for record in ended if ended_s(record) > model.latest_s]
    if len(since) < LEAST_WINDOW_JOBS:
        raise UserError(
            f"{len(since)} jobs have ended since the model was trained, not {LEAST_WINDOW_JOBS}",
            "evaluate when more have ended; what it was worth when it was trained stands in its model.json",
        )
    try:
        values: dict[str, Any] = {**card.metrics, "jobs": int(card.metrics["jobs"])}
        then = Scores(**values)
    except (KeyError, TypeError):
        raise UserError(f"{folder}: {card.version} says nothing of how good it was", "train it anew") from None
    now = judged(model, [], since)
    return Evaluated(card.version, card.jobs, card.last_s, then, now, tuple(drift(then, now)))


def model_in_use(settings: Settings | None) -> tuple[StackedDurations | None, str, str]:
    """(model, version, warning): the promoted model, if there is one that can be used; else why not, in one line."""
    if settings is None:
        return None, "", ""
    try:
        found = _in_use(settings.path("models.dir"))
    except UserError as error:
        return None, "", f"{error.what}; predicted without it"
    return (found[0], found[1].version, "") if found else (None, "", "")


def promoted_version(settings: Settings | None) -> str:
    """Which version is promoted; empty where none is, or none can be made out."""
    from predictors.model_files import promoted

    try:
        path = promoted(settings.path("models.dir")) if settings is not None else None
    except UserError:
        return ""
    return path.name if path is not None else ""


def _in_use(folder: Path) -> tuple[StackedDurations, ModelCard] | None:
    from predictors.model_files import load_model, promoted
    from predictors.stacked import COLUMNS, StackedDurations

    path = promoted(folder)
    if path is None:
        return None
    model: Any
    model, card = load_model(path)
    if not isinstance(model, StackedDurations) or getattr(model, "columns", None) != COLUMNS:
        raise UserError(f"{path}: the model is of another release", "train it anew")
    return model, card
