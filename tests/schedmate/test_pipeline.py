"""The walk of a job: facts, prediction, hints, outcome, and the next prediction knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzers.history import FileHistoryStore, MemoryHistoryStore
from analyzers.types import Fact, JobRecord, SourceFacts, Submission
from prompts.errors import UserError
from schedmate.pipeline import Pipeline, hints_of, online_predictor, open_history

FACTS = SourceFacts({"epochs": Fact(3, 0.9), "num_gpus": Fact(4, 0.9), "model": Fact("maybe", 0.2)}, fingerprint="abc")


def test_an_outcome_teaches_the_next_prediction(tmp_path: Path) -> None:
    pipeline = Pipeline(FileHistoryStore(tmp_path / "h.jsonl"))
    asked = Submission("python t.py", user="ann", limit_s=50_000)
    before = pipeline.predict(asked, FACTS)
    for number in range(15):
        pipeline.record_outcome(
            f"job{number}", asked, FACTS, start_s=number * 1e4, duration_s=7_000, outcome="completed"
        )
    after = Pipeline(FileHistoryStore(tmp_path / "h.jsonl")).predict(asked, FACTS)
    assert not before.similar_jobs and len(after.similar_jobs) == 10
    assert after.duration_s.p50 == pytest.approx(7_000, rel=0.1)
    assert after.outcome.completed > before.outcome.completed


def test_a_record_keeps_what_was_sure_and_the_launchers_gpus() -> None:
    history = MemoryHistoryStore()
    record = Pipeline(history).record_outcome(
        "a", Submission("python t.py"), FACTS, start_s=5, duration_s=7, outcome="failed"
    )
    assert record.gpus == 4 and record.facts == {"epochs": 3, "num_gpus": 4} and record.fingerprint == "abc"
    assert list(history.records()) == [record]


def test_hints_are_the_median_and_the_high_quantile_within_the_limit() -> None:
    pipeline = Pipeline(MemoryHistoryStore())
    asked = Submission("python t.py", limit_s=100)
    prediction = pipeline.predict(asked, FACTS)
    hints = pipeline.hints(asked, FACTS)
    assert hints == hints_of(prediction)
    assert (hints.expected_s, hints.high_s) == (prediction.duration_s.p50, prediction.duration_s.p90)
    assert hints.high_s <= 100 and hints.source == prediction.model_version


def test_without_a_work_dir_nothing_is_known() -> None:
    assert Pipeline(MemoryHistoryStore()).facts(Submission("python t.py")) == SourceFacts()


def test_a_warm_online_predictor_knows_the_past() -> None:
    past = [JobRecord(str(i), float(i), 500.0, 1, user="ann") for i in range(10)]
    record = JobRecord("new", 99.0, None, 1, user="ann")
    assert online_predictor(past).predict(record) == pytest.approx(500, rel=0.1)
    assert online_predictor().predict(record) != pytest.approx(500, rel=0.1)


def test_a_history_is_a_store_or_a_trace(tmp_path: Path) -> None:
    FileHistoryStore(tmp_path / "h.jsonl").add([JobRecord("a", 0.0, 5.0, 1)])
    (tmp_path / "t.csv").write_text("id,submit,duration,gpus\n1,0,5,1\n2,0,-5,1\n")
    store, notes = open_history(tmp_path / "h.jsonl")
    assert len(store) == 1 and notes is None
    store, notes = open_history(tmp_path / "t.csv")
    assert len(store) == 1 and notes is not None and notes.skipped == {"duration is negative": 1}
    (tmp_path / "other.json").write_text('{"hello": 1}\n')
    with pytest.raises(UserError, match="no readable job record"):
        open_history(tmp_path / "other.json")


JOB = "#!/bin/bash\n#SBATCH --time=02:00:00\n#SBATCH --gres=gpu:4\n#SBATCH --mem=64G\n#SBATCH -J night\npython t.py\n"


def test_what_the_launch_asks_for_is_used_told_and_beaten_by_the_submission(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("import torch\n")
    (tmp_path / "job.sh").write_text(JOB)
    pipeline = Pipeline(MemoryHistoryStore())

    def assumed(**said: object) -> dict[str, tuple[object, str | None, int | None]]:
        prediction = pipeline.predict(Submission("sbatch --time=60 job.sh", tmp_path, **said))  # type: ignore[arg-type]
        assert prediction.duration_s.p99 <= 3600
        assert prediction.host_memory_mib.high <= 64 * 1024
        return {each.name: (each.value, each.file, each.line) for each in prediction.assumed}

    assert assumed() == {
        "gpus": (4, "job.sh", 3),
        "limit_s": (3600, "launch", 1),
        "memory_mib": (64 * 1024, "job.sh", 4),
        "name": ("night", "job.sh", 5),
    }
    assert set(assumed(gpus=1, limit_s=1800.0, name="day")) == {"memory_mib"}


def test_an_outcome_is_remembered_with_what_the_launch_asked_for(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("import torch\n")
    (tmp_path / "job.sh").write_text(JOB)
    pipeline = Pipeline(MemoryHistoryStore())
    submission = Submission("sbatch job.sh", tmp_path, user="ann")
    record = pipeline.record_outcome(
        "1", submission, pipeline.facts(submission), start_s=0, duration_s=10, outcome="completed"
    )
    assert (record.gpus, record.requested_s, record.name) == (4, 7200, "night")
