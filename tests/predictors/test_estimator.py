"""The estimator contract, and models on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from predictors.estimator import DurationRegressor, records_of
from predictors.model_files import ModelCard, data_hash, load_model, model_cards, save_model
from prompts.errors import UserError


def frame(count: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(5)
    user = rng.integers(0, 3, count)
    jobs = pd.DataFrame(
        {
            "submit_s": np.arange(count) * 1_000.0,
            "gpus": 1 + user,
            "user": [f"u{each}" for each in user],
            "requested_s": 7_200.0,
        }
    )
    return jobs, np.exp(rng.normal(4 + user, 0.1))


@pytest.fixture(scope="module")
def trained() -> DurationRegressor:
    return DurationRegressor(trees=40).fit(*frame(320))


def test_it_keeps_the_contract(trained: DurationRegressor) -> None:
    assert clone(trained).get_params() == {"trees": 40, "window": trained.window, "random_state": 0}
    with pytest.raises(ValueError, match="no column gpus"):
        trained.predict(pd.DataFrame({"submit_s": [1.0]}))
    jobs, durations = frame(4)
    for bad in (durations[:3], [1.0, 2.0, np.nan, 1.0]):
        with pytest.raises(ValueError, match="duration"):
            DurationRegressor().fit(jobs, bad)


def test_it_learns_habits_and_being_asked_changes_nothing(trained: DurationRegressor) -> None:
    asked = pd.DataFrame({"submit_s": [400_000.0] * 3, "gpus": [1, 2, 3], "user": ["u0", "u1", "u2"]})
    asked["requested_s"] = 7_200.0
    first = trained.predict(asked)
    assert first == pytest.approx(np.exp([4, 5, 6]), rel=0.3)
    assert (trained.predict(asked) == first).all()
    quantiles = trained.predict_quantiles(asked, (0.1, 0.5, 0.9))
    assert (np.diff(quantiles, axis=1) >= 0).all()


def test_learning_on_is_learning_at_once() -> None:
    jobs, durations = frame(60)
    at_once = DurationRegressor(trees=2).fit(jobs, durations)
    bit_by_bit = DurationRegressor(trees=2).partial_fit(jobs[:40], durations[:40])
    bit_by_bit.partial_fit(jobs[40:], durations[40:])
    asked = jobs[-5:].assign(submit_s=1e6)
    assert (bit_by_bit.predict(asked) == at_once.predict(asked)).all()
    assert bit_by_bit.n_jobs_seen_ == at_once.n_jobs_seen_ == 60


def test_a_model_comes_back_as_it_was_saved(trained: DurationRegressor, tmp_path: Path) -> None:
    jobs, durations = frame(20)
    records = records_of(jobs, durations)
    card = ModelCard("v1", 20, 0.0, 19_000.0, data_hash(records), trained.get_params(), {"mae_s": 3.0})
    saved = save_model(tmp_path / "models", trained, card)
    model, found = load_model(saved)
    assert (model.predict(jobs) == trained.predict(jobs)).all()
    assert found.data_sha256 == card.data_sha256 != data_hash(records[1:])
    assert [each.version for each in model_cards(tmp_path / "models")] == ["v1"]
    with pytest.raises(UserError, match="exists"):
        save_model(tmp_path / "models", trained, card)


def test_a_model_that_others_could_have_written_is_not_read(tmp_path: Path) -> None:
    saved = save_model(tmp_path / "models", {"a": 1}, ModelCard("v1", 1, 0.0, 0.0, ""))
    (saved / "model.pickle").chmod(0o666)
    with pytest.raises(UserError, match="others could have written it"):
        load_model(saved)
    (saved / "model.pickle").chmod(0o600)
    (saved / "model.pickle").write_bytes(b"other")
    with pytest.raises(UserError, match="not the one"):
        load_model(saved)
    card = json.loads((saved / "model.json").read_text())
    (saved / "model.json").write_text(json.dumps(card | {"format": 99}))
    with pytest.raises(UserError, match="format 99"):
        load_model(saved)
    with pytest.raises(UserError, match="no model"):
        load_model(tmp_path)
