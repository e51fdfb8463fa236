"""How the program behind a command is found: packages around the work dir, console scripts, scripts of a project."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from analyzers.source.files import Tree
from analyzers.source.launch.read import read_launch

PACKAGE = {
    "setup.py": "from setuptools import setup\nsetup(name='tools', packages=['kit'])\n",
    "kit/__init__.py": "",
    "kit/fit.py": """
import torch
def fit(model, epochs, lr=0.02):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        for x in torch.utils.data.DataLoader([1, 2], batch_size=6):
            model(x).sum().backward()
            opt.step()
""",
    "jobs/small/go.py": """
import torch
from kit.fit import fit
fit(torch.nn.Linear(4, 4).cuda(), 11)
""",
}
NAMES = ("epochs", "learning_rate", "batch_size_per_gpu")


def test_a_job_in_a_folder_of_a_project_imports_the_project(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path, PACKAGE)
    facts = kit.read(tmp_path / "jobs" / "small", "python go.py")
    assert kit.values(facts, *NAMES) == (11, 0.02, 6)
    assert "../../kit/fit.py" in {e.file for e in facts.facts["learning_rate"].evidence}


def test_without_a_project_nothing_above_the_work_dir_is_read(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path, {k: v for k, v in PACKAGE.items() if k != "setup.py"})
    assert kit.values(kit.read(tmp_path / "jobs" / "small", "python go.py"), *NAMES) == (None, None, None)


def test_a_folder_that_anybody_may_write_to_is_no_project(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path, PACKAGE)
    tmp_path.chmod(0o777)
    assert kit.values(kit.read(tmp_path / "jobs" / "small", "python go.py"), *NAMES) == (None, None, None)


def test_a_home_folder_that_is_kept_in_git_is_no_project(
    tmp_path: Path, kit: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.grow(tmp_path, PACKAGE)
    monkeypatch.setattr("analyzers.source.project.pwd.getpwuid", lambda _: SimpleNamespace(pw_dir=str(tmp_path)))
    assert kit.values(kit.read(tmp_path / "jobs" / "small", "python go.py"), *NAMES) == (None, None, None)


def test_a_project_says_what_of_it_is_not_read(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path, {**PACKAGE, ".schedmateignore": "kit/\n"})
    facts = kit.read(tmp_path / "jobs" / "small", "python go.py")
    assert kit.values(facts, *NAMES) == (None, None, None)
    assert any("kit" in warning for warning in facts.warnings)


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path / "outside", {"secret.py": PACKAGE["kit/fit.py"]})
    kit.grow(tmp_path / "project", PACKAGE)
    (tmp_path / "project" / "kit" / "fit.py").unlink()
    (tmp_path / "project" / "kit" / "fit.py").symlink_to(tmp_path / "outside" / "secret.py")
    assert kit.values(kit.read(tmp_path / "project" / "jobs" / "small", "python go.py"), *NAMES) == (None, None, None)


MAIN = {"lab/cli.py": "", "lab/__init__.py": "", "src/deep/run.py": "", "solo/__main__.py": ""}


@pytest.mark.parametrize(
    ("files", "command", "entry", "function"),
    [
        ({"pyproject.toml": '[project]\nscripts.lab-fit = "lab.cli:main"\n'}, "lab-fit --x", "lab/cli.py", "main"),
        ({"pyproject.toml": '[tool.poetry.scripts]\nlab = "lab.cli:app"\n'}, "poetry run lab a", "lab/cli.py", "app"),
        ({"setup.cfg": "[options.entry_points]\nconsole_scripts =\n    d-run = deep.run:go\n"}, "d-run",
         "src/deep/run.py", "go"),
        ({"setup.py": "setup(entry_points={'console_scripts': ['lab = lab.cli:main']})"}, "srun -n 2 lab",
         "lab/cli.py", "main"),
        ({}, "solo --y", "solo/__main__.py", ""),
        ({}, "lab --y", None, ""),
    ],
)  # fmt: skip
def test_console_scripts(
    tmp_path: Path, kit: SimpleNamespace, files: dict[str, str], command: str, entry: str | None, function: str
) -> None:
    launch = read_launch(command, Tree(kit.grow(tmp_path, {**MAIN, **files})), {})
    assert (launch.entry, launch.function) == (entry, function)


def test_the_function_of_a_console_script_is_what_runs(tmp_path: Path, kit: SimpleNamespace) -> None:
    program = PACKAGE["kit/fit.py"] + "def main():\n    fit(torch.nn.Linear(2, 2).cuda(), 5)\n"
    program += "if __name__ == '__main__':\n    fit(torch.nn.Linear(2, 2).cuda(), 99)\n"
    project = '[project.scripts]\nfit-it = "kit.fit:main"\n'
    kit.grow(tmp_path, {"kit/fit.py": program, "pyproject.toml": project})
    assert kit.values(kit.read(tmp_path, "fit-it"), *NAMES) == (5, 0.02, 6)


SCRIPTS = {
    "tools/on_slurm.sh": """#!/usr/bin/env bash
PARTITION=$1
CONF=$2
GPUS=${GPUS:-8}
PER_NODE=${PER_NODE:-8}
REST=${@:3}
srun -p ${PARTITION} --gres=gpu:${PER_NODE} --ntasks=${GPUS} --ntasks-per-node=${PER_NODE} \\
    python -u $(dirname "$0")/train.py ${CONF} ${REST}
""",
    "tools/train.py": "",
}


@pytest.mark.parametrize(("env", "gpus", "nodes"), [("GPUS=16 ", 16, 2), ("", 8, 1), ("GPUS=2 PER_NODE=2 ", 2, 1)])
def test_tasks_say_how_many_nodes(tmp_path: Path, kit: SimpleNamespace, env: str, gpus: int, nodes: int) -> None:
    kit.grow(tmp_path, SCRIPTS)
    command = f"{env}bash tools/on_slurm.sh part conf.py --lr 3 --amp"
    launch = read_launch(command, Tree(tmp_path), {})
    assert [w.text for w in launch.arguments] == ["conf.py", "--lr", "3", "--amp"]
    assert launch.entry == "tools/train.py"
    facts = kit.read(tmp_path, command)
    assert facts.value("num_nodes") == nodes
    assert launch.number("tasks") == gpus
