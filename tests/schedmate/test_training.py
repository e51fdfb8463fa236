"""Models on disk: promoted only where better, reproducible, and passed over where nothing can be made of them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from analyzers.history import MemoryHistoryStore
from analyzers.types import JobRecord, SourceFacts, Submission
from predictors.model_files import load_model, promoted
from predictors.training import Scores, drift
from prompts.errors import UserError
from schedmate.config import load_settings
from schedmate.console import plain
from schedmate.pipeline import Pipeline
from schedmate.training import evaluate, model_in_use, train

SCHEMAS = Path(__file__).resolve().parents[2] / "schedmate" / "schemas"
ASKED = Submission("", user="u1", gpus=1, limit_s=7_200.0)


def jobs(count: int, first: int = 0, factor: float = 1.0) -> list[JobRecord]:
    rng = random.Random(first)
    return [
        JobRecord(
            str(i), 900.0 * i, factor * rng.lognormvariate(4 + i % 3, 0.4), 1 + i % 2, start_s=900.0 * i + 5,
            user=f"u{i % 3}", requested_s=7_200.0, outcome=rng.choice(("completed", "completed", "failed")),
        )
        for i in range(first, first + count)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models") / "m"
    first = train(jobs(420), made)
    jsonschema.validate(plain(first), schema("train"))
    assert first.promoted and first.scores is not None and first.scores.jobs >= 50
    return made


def schema(name: str) -> Any:
    return json.loads((SCHEMAS / f"{name}.schema.json").read_text())


def settings(folder: Path) -> object:
    return load_settings({"SCHEDMATE_MODELS_DIR": str(folder), "HOME": str(folder)})


def test_the_same_jobs_and_seed_predict_the_same(folder: Path, tmp_path: Path) -> None:
    again = train(jobs(420), tmp_path / "other")
    path = promoted(folder)
    assert path is not None and path.name == again.version
    one, two = (load_model(where / str(again.version))[0] for where in (folder, tmp_path / "other"))
    asked = JobRecord("x", 1e6, None, 1, user="u1", requested_s=7_200.0)
    assert one.peek(asked) == two.peek(asked)
    assert one.trained and one.peek(asked).ending is not None


def test_nothing_new_is_not_put_to_use_and_says_why(folder: Path) -> None:
    same, few = train(jobs(420), folder), train(jobs(420) + jobs(10, 420), folder)
    jsonschema.validate(plain(same), schema("train"))
    assert "same jobs" in same.why
    assert not few.promoted and "only 10 jobs" in few.why
    with pytest.raises(UserError, match="20 ended jobs"):
        train(jobs(20), folder)


def test_predictions_use_the_model_and_say_so(folder: Path) -> None:
    pipeline = Pipeline(MemoryHistoryStore(jobs(420)), settings(folder))  # type: ignore[arg-type]
    prediction = pipeline.predict(ASKED, SourceFacts())
    assert promoted(folder) is not None and prediction.model_version.endswith(str(promoted(folder)).rpartition("/")[2])
    assert not prediction.warnings


def test_drift_is_found_where_everything_takes_ten_times_as_long(folder: Path) -> None:
    same, changed = evaluate(jobs(420) + jobs(200, 420), folder), evaluate(jobs(420) + jobs(200, 420, 40.0), folder)
    jsonschema.validate(plain(same), schema("evaluate"))
    assert same.now.loss < changed.now.loss
    assert not drift(same.then, same.then)
    worse = Scores(9, 2.0 * same.then.loss, 1.0, 1.0, same.then.inside_80 - 0.2)
    assert len(drift(same.then, worse)) == 2


@pytest.mark.parametrize("harm", ["cut", "foreign", "newer", "pointer", "link", "writable"])
def test_what_can_not_be_trusted_is_passed_over_with_one_line(folder: Path, tmp_path: Path, harm: str) -> None:
    import shutil

    copied = tmp_path / "m"
    shutil.copytree(folder, copied)
    version = promoted(copied)
    assert version is not None
    model, card = version / "model.pickle", version / "model.json"
    if harm == "cut":
        model.write_bytes(model.read_bytes()[:100])
    elif harm == "foreign":
        card.write_text("[]")
    elif harm == "newer":
        card.write_text(json.dumps({**json.loads(card.read_text()), "format": 99}))
    elif harm == "pointer":
        (copied / "promoted").write_text("../../etc")
    elif harm == "link":
        model.rename(tmp_path / "elsewhere")
        model.symlink_to(tmp_path / "elsewhere")
    else:
        model.chmod(0o666)
    found, _, warning = model_in_use(settings(copied))  # type: ignore[arg-type]
    assert found is None and warning and "\n" not in warning
    said = Pipeline(MemoryHistoryStore(jobs(30)), settings(copied)).predict(ASKED, SourceFacts())  # type: ignore[arg-type]
    assert said.warnings == (warning,)
