"""`schedmate predict` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "schedmate/schemas/predict.schema.json").read_text())


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "train.py").write_text(
        "import argparse, torch, torchvision\n"
        "p = argparse.ArgumentParser()\np.add_argument('--epochs', type=int, default=90)\n"
        "p.add_argument('--batch-size', type=int, default=64)\na = p.parse_args()\n"
        "model = torchvision.models.resnet50()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for epoch in range(a.epochs):\n    pass\n"
    )
    return folder


def predicted(done) -> dict[str, object]:
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    jsonschema.validate(value, SCHEMA)
    q = value["duration_s"]
    assert q["p10"] <= q["p50"] <= q["p90"] <= q["p99"]
    assert sum(value["outcome"].values()) == pytest.approx(1)
    return value


def test_cold_then_from_a_trace_then_from_the_store(schedmate, job: Path, tmp_path: Path) -> None:
    words = ["predict", job, "--command", "python train.py --epochs 2", "--user", "ann", "--gpus", "2", "--json"]
    cold = predicted(schedmate(*words))
    assert cold["similar_jobs"] == []
    trace = tmp_path / "t.csv"
    trace.write_text("id,submit,duration,gpus,user\n" + "".join(f"{i},{i},7000,2,ann\n" for i in range(30)))
    warm = predicted(schedmate(*words, "--history", trace))
    assert len(warm["similar_jobs"]) == 10 and "ann" in " ".join(warm["reasons"])
    assert abs(warm["duration_s"]["p50"] - 7000) < abs(cold["duration_s"]["p50"] - 7000)
    assert schedmate("history", "import", trace).returncode == 0
    stored = predicted(schedmate(*words))
    assert stored == warm
    where = json.loads(schedmate("history", "path", "--json").stdout)["store"]
    assert predicted(schedmate(*words, "--history", where)) == warm


def test_the_limit_in_every_spelling(schedmate, job: Path) -> None:
    answers = [
        predicted(schedmate("predict", job, "--command", "python train.py", "--limit", limit, "--json"))
        for limit in ("5400", "1h30m", "01:30:00")
    ]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["duration_s"]["p99"] <= 5400


def test_human_output_is_one_readable_block(schedmate, job: Path) -> None:
    done = schedmate("predict", job, "--command", "python train.py", "--gpu-type", "A100")
    assert done.returncode == 0, done.stderr
    for part in ("runs for", "ends", "GPU memory", "host memory", "why"):
        assert part in done.stdout


def test_what_does_not_fit_is_said_with_what_would(schedmate, job: Path) -> None:
    loaded = "loader = torch.utils.data.DataLoader(data, batch_size=a.batch_size)\nfor epoch in range(a.epochs):\n"
    loaded += "    for x, y in loader:\n        model(x).sum().backward()\n        optimizer.step()\n"
    (job / "train.py").write_text((job / "train.py").read_text().partition("for epoch")[0] + loaded)
    words = ["predict", job, "--command", "python train.py --batch-size 600", "--gpu-type", "T4"]
    fit = predicted(schedmate(*words, "--json"))["gpu_fit"]
    assert isinstance(fit, dict) and fit["verdict"] == "does not fit" and 0 < fit["largest_batch"] < 600
    named = [each["change"] for each in fit["remedies"]]
    shown = schedmate(*words).stdout
    assert named and "does not fit (T4" in shown and f"about {fit['largest_batch']} samples" in shown
    assert all(f"with {change}" in shown for change in named)
    small = ["predict", job, "--command", "python train.py --batch-size 4", "--json"]
    fitting = predicted(schedmate(*small, "--gpu-type", "A100"))["gpu_fit"]
    assert isinstance(fitting, dict) and fitting["verdict"] == "fits" and fitting["remedies"] == []
    assert predicted(schedmate(*small))["gpu_fit"] is None


def test_what_the_launch_asks_for_is_assumed_and_said(schedmate, job: Path) -> None:
    (job / "run.sh").write_text("#!/bin/bash\n#SBATCH --time=06:00:00\n#SBATCH --gres=gpu:4\npython train.py\n")
    told = predicted(schedmate("predict", job, "--command", "bash run.sh", "--json"))
    assert told["assumed"] == [
        {"name": "gpus", "value": 4, "file": "run.sh", "line": 3},
        {"name": "limit_s", "value": 21_600.0, "file": "run.sh", "line": 2},
    ]
    shown = schedmate("predict", job, "--command", "bash run.sh", "--limit", "1h").stdout
    assert "4 GPUs (run.sh:3)" in shown and "run.sh:2" not in shown
    shown = schedmate("predict", job, "--command", "sbatch -t 90 run.sh").stdout
    assert "limit 1 h 30 min (launch command)" in shown


def test_a_name_is_asked_for_where_the_history_has_names(schedmate, job: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("id,submit,duration,gpus,user,name\n" + "".join(f"{i},{i},700,2,ann,gpt\n" for i in range(5)))
    words = ["predict", job, "--command", "python train.py", "--user", "ann", "--gpus", "2", "--history", trace]
    assert "--name" in schedmate(*words).stdout
    assert "--name" not in schedmate(*words, "--name", "gpt").stdout


def test_one_style_of_lengths_of_time(schedmate, job: Path, tmp_path: Path) -> None:
    import re

    trace = tmp_path / "t.csv"
    trace.write_text("id,submit,duration,gpus,user\n" + "".join(f"{i},{i},9378,2,ann\n" for i in range(9)))
    words = ["predict", job, "--command", "python train.py", "--user", "ann", "--gpus", "2", "--limit", "9000"]
    shown = schedmate(*words, "--history", trace).stdout
    assert "2 h 3" in shown
    assert not re.search(r"\d,\d{3} s\b|\d\.\d+ (?:s|min|h|d)\b", shown), shown


@pytest.mark.parametrize("flags", [["--limit", "soon"], ["--gpus", "0"], ["--history", "missing.csv"]])
def test_bad_options_are_usage_errors(schedmate, job: Path, flags: list[str]) -> None:
    done = schedmate("predict", job, "--command", "python train.py", *flags)
    assert done.returncode == 2 and done.stdout == "" and "Traceback" not in done.stderr


def test_help_has_an_example(schedmate) -> None:
    assert "Example: schedmate predict" in schedmate("predict", "--help").stdout
