"""The benchmark of real runs: who submits what, how a run is measured and kept, what the summaries say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import real_jobs, real_runs
from benchmarks.real_runs import Ask, Measured
from prompts.errors import UserError

LIGHT = ["tabular", "texts", "logs", "clusters"]


def measured(ask: Ask, seconds: float = 10.0) -> Measured:
    return Measured(ask.job_id, seconds, seconds / 2, 200.0, "completed")


def quick(name: str = "r0", words: str = "--points 500 --k 4 --max-iter 3", limit_s: float = 60.0) -> Ask:
    return Ask(name, "dot", "clusters", "clusters", f"python kmeans.py {words}", limit_s)


def test_the_same_seed_asks_for_the_same_runs() -> None:
    one = real_runs.asks(60, 5, list(real_runs.USES_TORCH))
    assert one == real_runs.asks(60, 5, list(real_runs.USES_TORCH)) != real_runs.asks(60, 6, list(real_runs.USES_TORCH))
    assert one[:30] == real_runs.asks(30, 5, list(real_runs.USES_TORCH)), "more runs go on where fewer end"
    assert len({ask.words for ask in one}) > 30
    assert {ask.project for ask in real_runs.asks(60, 5, LIGHT)} <= set(LIGHT)


def test_every_program_is_there_and_is_what_a_user_would_start() -> None:
    for ask in (each for seed in range(8) for each in real_runs.asks(60, seed, list(real_runs.USES_TORCH))):
        python, program, *_ = ask.command.split()
        assert python == "python"
        assert (real_runs.DATA / ask.project / program).is_file()
        if ask.project == "language":
            assert (real_runs.DATA / ask.project / ask.command.split()[2]).is_file()
    assert {path.name for path in real_runs.DATA.iterdir() if path.is_dir()} == set(real_runs.USES_TORCH)


def test_a_run_is_measured_and_its_end_is_told() -> None:
    done = real_runs.run(quick())
    assert done.outcome == "completed"
    assert done.cpu_s > 0
    assert 0 < done.wall_s < 60
    assert done.peak_rss_mib > 10
    assert real_runs.run(quick(words="--points 4 --k 9")).outcome == "failed"
    late = real_runs.run(quick(words="--points 400000 --k 64 --max-iter 100000 --tol 0", limit_s=0.5))
    assert late.outcome == "timeout"


def test_a_run_that_asks_for_more_memory_than_it_may_have_fails() -> None:
    words = "--points 40000000"
    assert real_runs.run(replace(quick(words=words), memory_mib=real_runs.SCARCE_MIB)).outcome == "failed"


def test_predictions_rest_on_the_runs_before_alone() -> None:
    wanted = real_runs.asks(12, 4, LIGHT)

    def told(seconds: float) -> list[object]:
        rows = real_jobs.walk(wanted, lambda ask: measured(ask, 10.0 if ask.job_id != "r8" else seconds), "wall")
        return [{way: (each.duration_s, each.host_memory_mib) for way, each in row.told.items()} for row in rows]

    assert told(10.0)[:9] == told(500.0)[:9]
    assert told(10.0)[9:] != told(500.0)[9:]


def test_the_clock_decides_what_a_run_took() -> None:
    wanted = real_runs.asks(3, 4, LIGHT)
    by = {clock: list(real_jobs.walk(wanted, measured, clock)) for clock in real_jobs.CLOCKS}
    assert {row.actual_s for row in by["wall"]} == {10.0}
    assert {row.actual_s for row in by["cpu"]} == {5.0}
    assert by["wall"][0].last_two_s is None


def test_what_was_measured_is_not_run_again(tmp_path: Path) -> None:
    path, wanted = tmp_path / "kept.jsonl", [quick(), quick("r1")]
    first = real_jobs.Measuring(path, wanted)(wanted[0])
    with path.open("a", encoding="utf-8") as out:
        out.write('{"job_id": "r1", "wall')  # killed while it wrote
    again = real_jobs.Measuring(path, wanted)
    assert again(wanted[0]) == first
    assert again(wanted[1]).outcome == "completed"
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["job_id"] for line in lines] == ["r0", "r1"]


def test_a_file_of_other_runs_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    real_jobs.Measuring(path, [quick()])(quick())
    before = path.read_bytes()
    with pytest.raises(UserError, match="another run"):
        real_jobs.Measuring(path, [quick(words="--points 600")])
    path.write_bytes(b"notes\n" + before)
    with pytest.raises(UserError, match=":1: not a run"):
        real_jobs.Measuring(path, [quick()])
    assert path.read_bytes() == b"notes\n" + before
    path.write_bytes(before)
    real_jobs.Measuring(path, [])
    assert path.read_bytes() == before, "of fewer runs: what is there of others stays"


def test_summaries() -> None:
    rows = list(real_jobs.walk(real_runs.asks(6, 4, LIGHT), measured, "wall"))
    found = real_jobs.durations(rows, "source")
    inside = [row.told["source"].duration_s.p10 <= 10.0 <= row.told["source"].duration_s.p90 for row in rows]
    assert found.inside == sum(inside) / 6
    assert found.runs == 6
    assert real_jobs.durations(rows, "last two").error == 1.0
    assert real_jobs.factor(5.0, 10.0) == real_jobs.factor(20.0, 10.0) == 2.0
    assert "last two" in "\n".join(real_jobs.report(rows))


def test_a_small_benchmark(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_jobs, "run", measured)
    words = ["--runs", "5", "--first", "2", "--only", "clusters", "--keep", str(tmp_path / "kept")]
    real_jobs.main(words)
    first = capsys.readouterr().out
    assert "5 runs" in first
    assert "after the first 2" in first
    monkeypatch.delattr(real_jobs, "run")
    real_jobs.main(words)
    assert capsys.readouterr().out == first, "from what was kept, without running anything"


def test_programs_without_pytorch_are_left_out_and_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_jobs.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(real_jobs, "run", measured)
    with pytest.raises(UserError, match="nothing to run"):
        real_jobs.main(["--only", "mlp"])
    assert "left out: mlp" in capsys.readouterr().out
    light = real_jobs.runnable(20, 1, list(real_runs.USES_TORCH), None)
    assert {ask.project for ask in light} <= set(LIGHT)


def test_what_was_measured_needs_no_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, projects = tmp_path / "kept.jsonl", list(real_runs.USES_TORCH)
    wanted = real_runs.asks(20, 1, projects)
    monkeypatch.setattr(real_jobs, "run", measured)
    for ask in wanted:
        real_jobs.Measuring(path, wanted)(ask)
    monkeypatch.setattr(real_jobs.importlib.util, "find_spec", lambda name: None)
    assert real_jobs.runnable(20, 1, projects, path) == wanted
    more = real_jobs.runnable(60, 1, projects, path)
    assert {ask.project for ask in more} <= set(LIGHT), "some of the others have not been measured"
