"""What a launch asks the scheduler for, in the spellings that sbatch and srun take."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from analyzers.source import analyze
from analyzers.source.launch.request import gpu_count, slurm_time_s
from analyzers.types import REQUEST_NAMES, JsonValue, SourceEvidence, SourceFacts, Submission

SCRIPT = """#!/bin/bash
# a comment
#SBATCH --job-name="my job"
#SBATCH --nodes=2 --gres=gpu:a100:4
#SBATCH -t 06:00:00

#SBATCH --mem=120G   # per node
export A=1
#SBATCH --time=00:01:00
srun python train.py
"""


def asked(root: Path, kit: SimpleNamespace, command: str, script: str = SCRIPT) -> SourceFacts:
    facts = analyze(Submission(command, kit.grow(root, {"train.py": "", "job.sh": script})))
    assert not [w for w in facts.warnings if "internal error" in w], facts.warnings
    assert set(facts.request) <= set(REQUEST_NAMES)
    return facts


def told(facts: SourceFacts) -> dict[str, JsonValue]:
    return {name: fact.value for name, fact in facts.request.items()}


IN_SCRIPT = {
    "limit_s": 21_600, "name": "my job", "nodes": 2, "gpus": 8, "gpu_type": "a100", "memory_mib": 240 * 1024,
}  # fmt: skip


@pytest.mark.parametrize("command", ["sbatch job.sh", "bash job.sh", "env A=2 sbatch job.sh", "./job.sh"])
def test_directives_count_up_to_the_first_command(tmp_path: Path, kit: SimpleNamespace, command: str) -> None:
    facts = asked(tmp_path, kit, command)
    assert told(facts) == IN_SCRIPT
    assert facts.request["limit_s"].evidence == (SourceEvidence("job.sh", 5),)
    assert facts.request["gpus"].evidence == (SourceEvidence("job.sh", 4),)
    assert not set(facts.request) - set(facts.facts) & set(facts.facts)


def test_options_go_before_directives(tmp_path: Path, kit: SimpleNamespace) -> None:
    facts = asked(tmp_path, kit, "sbatch --time=90 -N 1 -J other --mem=0 job.sh")
    assert told(facts) == {"limit_s": 5_400, "name": "other", "nodes": 1, "gpus": 4, "gpu_type": "a100"}
    assert facts.request["limit_s"].evidence == (SourceEvidence("launch", 1),)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("sbatch -G 6 --wrap 'python train.py'", {"gpus": 6}),
        ("sbatch --gpus-per-node=h100:8 -N3 --wrap 'python train.py'", {"gpus": 24, "gpu_type": "h100", "nodes": 3}),
        ("sbatch --gpus-per-task=2 -n 4 --wrap 'python train.py'", {"gpus": 8}),
        ("sbatch -n 8 --ntasks-per-node 4 --gres=gpu:4 --wrap 'python train.py'", {"gpus": 8, "nodes": 2}),
        ("sbatch --gres=lscratch:100,gpu:2 --wrap 'python train.py'", {"gpus": 2}),
        ("sbatch --gres=lscratch:100 --wrap 'python train.py'", {}),
        ("sbatch --gres=gpu --wrap 'python train.py'", {"gpus": 1}),
        ("sbatch -c 4 -n 2 --mem-per-cpu=2G --wrap 'python train.py'", {"memory_mib": 16 * 1024}),
        ("sbatch -G 2 --mem-per-gpu=512 --wrap 'python train.py'", {"gpus": 2, "memory_mib": 1024}),
        ("sbatch -N 2-4 --wrap 'python train.py'", {"nodes": 2}),
        ("sbatch --time=UNLIMITED --wrap 'python train.py'", {}),
        ("sbatch --time=$LIMIT --nodes=99999999999999 --wrap 'python train.py'", {"nodes": 9_999_999}),
        ("srun -t 1-0 --gres=gpu:1 python train.py", {"limit_s": 86_400, "gpus": 1}),
        ("sbatch --time=10 missing.sh", {"limit_s": 600}),
        ("python train.py", {}),
        ("torchrun --nproc_per_node 4 train.py", {}),
    ],
)
def test_spellings(tmp_path: Path, kit: SimpleNamespace, command: str, expected: dict[str, JsonValue]) -> None:
    assert told(asked(tmp_path, kit, command)) == expected


def test_a_step_inside_a_job_asks_for_nothing(tmp_path: Path, kit: SimpleNamespace) -> None:
    script = "#!/bin/bash\n#SBATCH -t 60\nsrun -t 5 -N 1 --gres=gpu:1 python train.py\n"
    assert told(asked(tmp_path, kit, "sbatch job.sh", script)) == {"limit_s": 3_600}
    assert told(asked(tmp_path, kit, "bash job.sh", script)) == {"limit_s": 3_600}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1_800), ("2:30", 150), ("1:00:00", 3_600), ("2-0", 172_800), ("1-12:30", 131_400),
        ("1-00:00:01", 86_401), ("0", None), ("infinite", None), ("-1", None), ("1:2:3:4", None), ("٣", None),
        ("", None), ("999999999999", None),
    ],
)  # fmt: skip
def test_times(text: str, seconds: float | None) -> None:
    assert slurm_time_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "count"), [("4", 4), ("a100:4", 4), ("gpu:a100:4(S:0-1)", 4), ("gpu", 1), ("gpu:v100", 1), ("x", None)]
)
def test_gpu_counts(text: str, count: int | None) -> None:
    assert gpu_count(text) == count
