"""Scripts and programs that a command is fed are read as if they were files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

RUN = "python train.py --epochs 4 --lr 0.5"


@pytest.mark.parametrize(
    "command",
    [f"bash <<E\n{RUN}\nE", f"bash -s 4 <<'E'\n{RUN.replace('4', '$1')}\nE", f"sh - <<E\n{RUN}\nE", "bash < run.sh",
     f"bash <<< '{RUN}'", f"sbatch <<EOT\n#!/bin/bash\n{RUN}\nEOT\n", "sbatch < run.sh",
     f"N=4\nsbatch <<E\n{RUN.replace('4', '$N')}\nE",
     f"sbatch --gres=gpu:1 <<E\nN=4\n{RUN.replace('4', chr(92) + '$N')}\nE", "python - --epochs 4 --lr 0.5 < train.py",
     f"srun -n 1 bash <<E\n{RUN}\nE", "bash outer.sh"],
)  # fmt: skip
def test_what_a_command_is_fed_is_read(tmp_path: Path, kit: SimpleNamespace, command: str) -> None:
    files = {**kit.PLAIN, "run.sh": f"{RUN}\n", "outer.sh": f"sbatch <<E\n#SBATCH --time=5\n{RUN}\nE\n"}
    facts = kit.read(kit.grow(tmp_path, files), command)
    assert kit.values(facts, "epochs", "learning_rate", "batch_size_per_gpu") == (4, 0.5, 50)
    assert not facts.warnings


def test_directives_of_a_script_that_is_fed(tmp_path: Path, kit: SimpleNamespace) -> None:
    command = f"sbatch <<EOT\n#!/bin/bash\n#SBATCH --gres=gpu:4 --time=60\n{RUN}\nEOT\n"
    facts = kit.read(kit.grow(tmp_path, kit.PLAIN), command)
    assert (facts.request["gpus"].value, facts.request["limit_s"].value) == (4, 3600.0)


def test_a_program_that_is_fed_runs_in_the_work_dir(tmp_path: Path, kit: SimpleNamespace) -> None:
    program = kit.PLAIN["train.py"].replace("default=7", "default=11")
    facts = kit.read(kit.grow(tmp_path, {"net.py": kit.PLAIN["net.py"]}), f"python <<'E'\n{program}\nE")
    assert kit.values(facts, "epochs", "model") == (11, "TinyNet")


def test_what_is_fed_may_be_closed(tmp_path: Path, kit: SimpleNamespace) -> None:
    program = "#SCHEDMATE source=off\n" + kit.PLAIN["train.py"]
    facts = kit.read(kit.grow(tmp_path, {"net.py": kit.PLAIN["net.py"]}), f"python - <<'E'\n{program}\nE")
    assert facts.source.state == "off"
    assert {"epochs", "model", "optimizer"}.isdisjoint(facts.facts)


def test_input_of_a_program_that_has_its_own_file(tmp_path: Path, kit: SimpleNamespace) -> None:
    facts = kit.read(kit.grow(tmp_path, kit.PLAIN), f"{RUN} <<E\nyes\nE\n")
    assert facts.value("epochs") == 4
