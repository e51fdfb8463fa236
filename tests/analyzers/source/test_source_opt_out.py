"""Whoever does not want the source read gets just that: not a byte of it, and the answer says so."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from analyzers.source import analyze
from analyzers.source.cache import ReadingCache
from analyzers.source.ignore import NAME
from analyzers.types import SourceFacts, Submission

FILES = {
    "run.sh": "#!/bin/bash\n#SBATCH --gres=gpu:4\n#SBATCH --time=01:00:00\npython train.py --epochs 5\n",
    "train.py": "import torch, model\nfrom settings import BATCH\n"
    "p = __import__('argparse').ArgumentParser()\np.add_argument('--epochs', type=int, default=3)\n"
    "args = p.parse_args()\nnet = model.Net()\nopt = torch.optim.AdamW(net.parameters(), lr=0.01)\n"
    "loader = torch.utils.data.DataLoader([], batch_size=BATCH)\n"
    "for epoch in range(args.epochs):\n    for x in loader:\n        loss = net(x).sum()\n        loss.backward()\n"
    "        opt.step()\n",
    "model.py": "import torch\nclass Net(torch.nn.Module):\n    pass\n",
    "settings.py": "BATCH = 12\n",
}
_opened: list[str] | None = None


def _note_opened(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("open", "os.scandir", "os.listdir") and _opened is not None:
        _opened.append(os.fspath(arguments[0]) if isinstance(arguments[0], str | os.PathLike) else "")


sys.addaudithook(_note_opened)


@contextmanager
def opened_in(root: Path) -> Iterator[list[str]]:
    """What is opened or listed under ``root`` meanwhile, by Python's own audit events."""
    global _opened
    names: list[str] = []
    _opened = []
    try:
        yield names
    finally:
        names.extend(os.path.relpath(name, root) for name in _opened if name.startswith(str(root)))
        _opened = None


@pytest.fixture
def job(tmp_path: Path, kit: SimpleNamespace) -> SimpleNamespace:
    root = kit.grow(tmp_path / "job", FILES)

    def read(command: str = "python train.py --epochs 9", **options: str) -> tuple[SourceFacts, list[str]]:
        with opened_in(root) as names:
            facts = analyze(Submission(command, root), **options)  # type: ignore[arg-type]
        assert not [w for w in facts.warnings if "internal error" in w]
        return facts, names

    return SimpleNamespace(root=root, read=read)


def test_the_hook_sees_what_is_read(job: SimpleNamespace) -> None:
    facts, names = job.read()
    assert facts.source.state == "full"
    assert {"train.py", "model.py", "settings.py"} <= set(names)
    assert facts.value("optimizer") is not None


def assert_only_the_launch(facts: SourceFacts, why: str) -> None:
    assert (facts.source.state, facts.source.why) == ("off", why)
    assert any("source code was not read" in warning and why in warning for warning in facts.warnings)
    assert not any("is not in the work dir" in warning for warning in facts.warnings)
    for name in ("optimizer", "batch_size_per_gpu", "model", "learning_rate"):
        assert facts.value(name) is None
    assert all(e.file == "launch" for fact in facts.facts.values() for e in fact.evidence)


@pytest.mark.parametrize("pattern", ["*", "**", "/*", "# why\n\n*\n", "x\n*\n", "!x\n*"])
def test_a_lone_star_leaves_the_work_dir_alone(job: SimpleNamespace, pattern: str) -> None:
    (job.root / NAME).write_text(pattern)
    facts, names = job.read("torchrun --nproc_per_node 4 train.py --epochs 9")
    assert set(names) == {NAME}
    assert_only_the_launch(facts, NAME)
    assert facts.value("num_gpus") == 4


def test_neither_is_the_script_of_a_batch_job_read(job: SimpleNamespace) -> None:
    (job.root / NAME).write_text("*")
    facts, names = job.read("sbatch --gres=gpu:2 run.sh")
    assert set(names) == {NAME}
    assert facts.request["gpus"].value == 2
    assert "limit_s" not in facts.request


def test_a_policy_leaves_the_work_dir_alone(job: SimpleNamespace) -> None:
    facts, names = job.read(off_by="policy of tenant acme")
    assert names == []
    assert_only_the_launch(facts, "policy of tenant acme")


@pytest.mark.parametrize(
    "line",
    [
        "#SCHEDMATE source=off",
        "# schedmate: source=off",
        "  #  SCHEDMATE  other=1 source=off  # because",
        "#SCHEDMATE  source = off",
        "#SCHEDMATE source=off,x",
        "x = 1 #SCHEDMATE source=off",
        "##SCHEDMATE:source=off",
        "s = \"it's\"  # schedmate SOURCE: 'OFF'",
        "# we don't like it #SCHEDMATE source=off",
    ],
)
def test_a_directive_in_the_program(job: SimpleNamespace, line: str) -> None:
    (job.root / "train.py").write_text(f"'''Doc.'''\nimport os\n{line}\n" + FILES["train.py"])
    facts, names = job.read()
    assert set(names) == {"train.py"}
    assert_only_the_launch(facts, "train.py:3")
    assert set(job.read("python -m train")[1]) == {"train.py"}


def test_a_directive_in_the_batch_script_keeps_what_the_scheduler_reads(job: SimpleNamespace) -> None:
    (job.root / "run.sh").write_text(FILES["run.sh"].replace("#SBATCH --time", "#SCHEDMATE source=off\n#SBATCH --time"))
    facts, names = job.read("sbatch run.sh")
    assert set(names) == {"run.sh"}
    assert_only_the_launch_or_script_header(facts)
    assert (facts.request["gpus"].value, facts.request["limit_s"].value) == (4, 3600)


def assert_only_the_launch_or_script_header(facts: SourceFacts) -> None:
    assert facts.source.state == "off"
    assert facts.value("epochs") is None
    assert facts.value("optimizer") is None


def test_a_directive_in_a_notebook_or_a_sourced_script(job: SimpleNamespace) -> None:
    (job.root / "n.ipynb").write_text(
        '{"cells": [{"cell_type": "code", "source": [\n"#SCHEDMATE source=off\\n",\n"import model"]}]}'
    )
    facts, names = job.read("jupyter nbconvert --execute n.ipynb")
    assert (facts.source.state, set(names)) == ("off", {"n.ipynb"})
    (job.root / "n.ipynb").write_text(
        '{"cells": [{"cell_type": "code", "source": ["x = \\"a\\"\\n", "y = 1 #SCHEDMATE source=off\\n", "y"]}]}'
    )
    assert job.read("jupyter nbconvert --execute n.ipynb")[0].source.state == "off"
    (job.root / "env.sh").write_text("# SCHEDMATE source=off\n")
    (job.root / "b.sh").write_text("source env.sh\npython train.py\n")
    facts, names = job.read("bash b.sh")
    assert (facts.source.state, set(names)) == ("off", {"b.sh", "env.sh"})


@pytest.mark.parametrize(
    "line",
    [
        "#SCHEDMATE source=on",
        "x = '#SCHEDMATE source=off'",
        "# see '#SCHEDMATE source=off'",
        "# schedmate resource=off",
        'y = "it\'s #SCHEDMATE source=off"',
        "# schedmates source=off",
        "#SCHEDMATE",
    ],
)
def test_other_lines_switch_nothing_off(job: SimpleNamespace, line: str) -> None:
    (job.root / "train.py").write_text(f"{line}\n{FILES['train.py']}")
    assert job.read()[0].source.state == "full"


def test_an_ignored_module_is_not_read_through_an_import(job: SimpleNamespace) -> None:
    (job.root / NAME).write_text("settings.py\n")
    facts, names = job.read()
    assert "settings.py" not in names
    assert "model.py" in names
    assert (facts.source.state, facts.source.why) == ("partial", NAME)
    assert facts.value("batch_size_per_gpu") is None
    assert facts.value("optimizer") is not None
    assert any("not read" in warning and "settings.py" in warning for warning in facts.warnings)


def test_an_ignored_entry_is_not_read(job: SimpleNamespace) -> None:
    (job.root / NAME).write_text("/train.py\n")
    facts, names = job.read()
    assert set(names) == {NAME}
    assert (facts.source.state, facts.value("epochs")) == ("partial", 9)


@pytest.mark.parametrize("link", ["train.py", "model.py"])
def test_a_link_leads_around_nothing(job: SimpleNamespace, link: str) -> None:
    (job.root / "secret").mkdir()
    (job.root / link).rename(job.root / "secret" / "real.py")
    (job.root / link).symlink_to("secret/real.py")
    (job.root / NAME).write_text("secret/\n")
    facts, names = job.read()
    assert not [name for name in names if "real" in name or name == link]
    assert facts.source.state == "partial"


def test_a_folder_of_ignored_files_is_not_searched(job: SimpleNamespace) -> None:
    (job.root / "secret").mkdir()
    (job.root / "train.py").rename(job.root / "secret" / "train.py")
    (job.root / NAME).write_text("secret\n")
    _, names = job.read("python /elsewhere/train.py")
    assert not [name for name in names if name.startswith("secret")]


def test_an_ignored_fifo_and_configuration(job: SimpleNamespace) -> None:
    os.mkfifo(job.root / "conf.yaml")
    (job.root / "conf.json").write_text('{"lr": 3}')
    (job.root / "train.py").write_text("import json\njson.load(open('conf.json'))\nopen('conf.yaml').read()\n")
    (job.root / NAME).write_text("conf.*\n")
    facts, names = job.read()
    assert set(names) == {NAME, "train.py"}
    assert facts.source.state == "partial"


def test_rules_above_the_work_dir_count_when_they_are_the_owners(job: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("job/settings.py\n")
    facts, names = job.read()
    assert (facts.source.state, "settings.py" in names) == ("partial", False)
    (tmp_path / NAME).write_text("*\n")
    facts, names = job.read()
    assert (facts.source.state, names) == ("off", [])
    assert str(tmp_path) in facts.source.why
    if os.geteuid() == 0:
        os.chown(tmp_path / NAME, 4711, -1)
        assert job.read()[0].source.state == "full"


def test_what_lies_above_the_work_dir_is_left_alone_as_well(tmp_path: Path, kit: SimpleNamespace) -> None:
    top = kit.grow(tmp_path / "top", {"setup.py": "", "settings.py": "BATCH = 3\n", "job/train.py": FILES["train.py"]})
    (top / NAME).write_text("settings.py\n")
    with opened_in(top) as names:
        facts = analyze(Submission("python train.py", top / "job"))
    assert "settings.py" not in names
    assert facts.source.state == "partial"
    assert facts.value("batch_size_per_gpu") is None


@pytest.mark.parametrize(
    "make",
    [
        "fifo",
        "folder",
        "huge",
        "closed",
        "device",
        "many",
        "dangling",
        "dangling through a file",
        "utf-16",
        "bytes",
        "nul",
    ],
)
def test_rules_that_can_not_be_read_ignore_everything(job: SimpleNamespace, make: str) -> None:
    path = job.root / NAME
    if make == "fifo":
        os.mkfifo(path)
    elif make == "folder":
        path.mkdir()
    elif make == "device":
        path.symlink_to("/dev/zero")
    elif make == "dangling":
        path.symlink_to("nowhere")
    elif make == "dangling through a file":
        path.symlink_to("train.py/x")
    elif make == "utf-16":
        path.write_bytes("*\r\n".encode("utf-16"))
    elif make in ("bytes", "nul"):
        path.write_bytes(b"\xff\xfe*\n" if make == "bytes" else b"\0*\n")
    elif make == "closed":
        path.write_text("x")
        path.chmod(0)
    else:
        path.write_text("x\n" * (100_000 if make == "huge" else 2000))
    if make == "closed" and os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    facts, names = job.read()
    assert facts.source.state == "off"
    assert set(names) <= {NAME}
    assert any("taken to ignore all" in warning for warning in facts.warnings)


def test_the_cache_holds_nothing_back_and_gives_nothing_away(job: SimpleNamespace, tmp_path: Path) -> None:
    kept = ReadingCache(tmp_path / "kept")
    submission = Submission("python train.py", job.root)
    assert analyze(submission, kept).source.state == "full"
    (job.root / NAME).write_text("*")
    with opened_in(job.root) as names:
        assert analyze(submission, kept).source.state == "off"
    assert set(names) == {NAME}
    (job.root / NAME).unlink()
    (job.root / "train.py").write_text("#SCHEDMATE source=off\n" + FILES["train.py"])
    for _ in range(2):
        with opened_in(job.root) as names:
            assert analyze(submission, kept).source.state == "off"
        assert set(names) == {"train.py"}


def test_the_same_fingerprint_whatever_the_source_holds(job: SimpleNamespace) -> None:
    (job.root / NAME).write_text("*")
    before = job.read()[0].fingerprint
    (job.root / "train.py").write_text("import other\n")
    assert job.read()[0].fingerprint == before
    assert job.read("python train.py --epochs 8")[0].fingerprint != before


def test_a_program_that_says_off_is_not_judged_as_an_empty_one(job: SimpleNamespace) -> None:
    (job.root / "train.py").write_text("#SCHEDMATE source=off\n" + FILES["train.py"])
    facts = analyze(Submission("python train.py --epochs 9", job.root, gpus=4))
    assert facts.value("num_gpus") == 4
    for name in ("framework", "parallelism", "checkpoints", "early_stopping"):
        assert name not in facts.facts


def test_gpus_that_were_asked_for_are_not_denied_for_what_was_not_met(job: SimpleNamespace) -> None:
    (job.root / "train.py").write_text("print('hi')\n")
    assert "num_gpus" not in analyze(Submission("python train.py", job.root, gpus=4)).facts
    assert analyze(Submission("python train.py", job.root)).value("num_gpus") == 0


@pytest.mark.parametrize("command", ["sbatch run.sh", "bash run.sh", "sbatch other/../run.sh"])
@pytest.mark.parametrize("where", ["top", "after", "program"])
def test_what_the_scheduler_reads_stays_wherever_the_directive_stands(
    job: SimpleNamespace, command: str, where: str
) -> None:
    lines = ["#!/bin/bash", "#SBATCH --gres=gpu:a100:4", "#SBATCH --nodes=2", "python train.py --epochs 5"]
    if where == "program":
        (job.root / "train.py").write_text("#SCHEDMATE source=off\n" + FILES["train.py"])
    else:
        lines.insert(1 if where == "top" else 3, "#SCHEDMATE source=off")
    (job.root / "run.sh").write_text("\n".join(lines) + "\n")
    facts, _ = job.read(command)
    assert facts.source.state == "off"
    assert (facts.value("num_gpus"), facts.value("num_nodes")) == (8, 2)
    assert (facts.request["gpus"].value, facts.request["nodes"].value) == (8, 2)
    assert {e.file for e in facts.facts["num_gpus"].evidence} == {"run.sh"}
    assert not [w for w in facts.warnings if "starts no program" in w]
    assert "epochs" not in facts.facts
