"""A program that lies outside the work dir is not mistaken for one in it that has its name."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.mark.parametrize(
    "command",
    ["python ../other/train.py", "python net/../../train.py", "torchrun ../other/train.py",
     "python https://example.com/train.py", "cd sub && python ../../other/train.py", "papermill ../other/n.ipynb out",
     "bash ../other/run.sh", "sbatch ../other/run.sh"],
)  # fmt: skip
def test_another_file_is_not_read_for_its_name(tmp_path: Path, kit: SimpleNamespace, command: str) -> None:
    root = kit.grow(tmp_path / "job", {**kit.PLAIN, "run.sh": "python train.py\n", "n.ipynb": "{}", "sub/x": ""})
    kit.grow(tmp_path / "other", {"train.py": "", "run.sh": "", "n.ipynb": ""})
    facts = kit.read(root, command)
    assert {"epochs", "batch_size_per_gpu", "optimizer"}.isdisjoint(facts.facts)
    assert any("is not in the work dir" in w for w in facts.warnings)


@pytest.mark.parametrize("written", ["/opt/p/train.py", "$UNKNOWN/train.py", "elsewhere/train.py"])
def test_a_file_taken_for_another_is_told(tmp_path: Path, kit: SimpleNamespace, written: str) -> None:
    facts = kit.read(kit.grow(tmp_path, kit.PLAIN), f"python {written}")
    assert facts.value("epochs") == 7
    assert any("is taken to be train.py" in w for w in facts.warnings)


@pytest.mark.parametrize("written", ["train.py", "./train.py", "sub/../train.py"])
def test_the_file_itself_needs_no_word(tmp_path: Path, kit: SimpleNamespace, written: str) -> None:
    root = kit.grow(tmp_path, {**kit.PLAIN, "sub/x": ""})
    assert not [w for w in kit.read(root, f"python {written}").warnings if "train.py" in w]
    facts = kit.read(root, f"cd sub; python ../{written}")
    assert facts.value("epochs") == 7
    assert not [w for w in facts.warnings if "train.py" in w]
