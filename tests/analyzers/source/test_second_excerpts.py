"""What a second reader is shown, and when a line holds what was said about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzers.source.opened import as_text, open_again
from analyzers.source.second.checks import backing, checked_value
from analyzers.source.second.excerpts import MOST_CHARS, excerpts
from analyzers.source.second.lines import Line, code_lines
from analyzers.source.second.questions import questions
from analyzers.types import Submission


def lines_of(text: str, path: str = "a.py") -> list[str]:
    return [line.text for line in code_lines(as_text(path, text))]


@pytest.mark.parametrize(
    ("path", "text", "shown"),
    [
        ("a.py", "x = 1  # epochs = 2\n", ["x = 1"]),
        ("a.py", "'''epochs = 3\nmore\n'''\nx = 1\n", ["x = 1"]),
        ("a.py", "def f():\n    'epochs = 3'\n    return 1\n", ["def f():", "return 1"]),
        ("a.py", "x = '# no comment'\n", ["x = '# no comment'"]),
        ("a.py", "t = '''\nepochs = 3\n'''\ny = 2\n", ["t =", "y = 2"]),
        ("a.py", "if x:  # epochs 3\n  y = (\n", ["if x:", "y = ("]),
        ("a.sh", "# epochs 3\n#SBATCH --gpus=4\npython t.py --epochs 3 --lr 1 # epochs 4\n",
         ["#SBATCH --gpus=4", "python t.py", "--epochs 3", "--lr 1"]),
        ("a.yaml", "# epochs: 3\nepochs: 4 # not 3\n", ["epochs: 4"]),
        ("a.cpp", "// epochs = 3\nint epochs = 4; // 3\n", ["int epochs = 4;"]),
        ("README.md", "epochs = 3\n", []),
    ],
)  # fmt: skip
def test_comments_are_left_out(path: str, text: str, shown: list[str]) -> None:
    assert lines_of(text, path) == shown


def test_text_of_several_lines_with_values_in_it_is_left_out() -> None:
    assert not any("epochs" in line for line in lines_of("t = f'''\nepochs = 3 {x}\nepochs 4\n'''\ny = 2\n"))


@pytest.mark.parametrize(
    ("name", "value", "line", "holds"),
    [
        ("epochs", 10, "parser.add_argument('--epochs', type=int, default=10, help='passes')", True),
        ("epochs", 10, "parser.add_argument('--epochs', type=int, default=90, help='try 10')", False),
        ("epochs", 10, "num_epochs: 10", True),
        ("epochs", 10, "trainer(max_epochs=10, batch_size=32)", True),
        ("epochs", 32, "trainer(max_epochs=10, batch_size=32)", False),
        ("epochs", 10, "for epoch in range(10):", True),
        ("epochs", 10, "epochs = 100", False),
        ("epochs", 10, "epochs = x10", False),
        ("epochs", 10, '"epochs": "10"', True),
        ("learning_rate", 0.0003, "lr = 3e-4", True),
        ("learning_rate", 0.0003, "lr_scheduler_step=3e-4", False),
        ("epochs", 5, "warmup_epochs: 5", False),
        ("epochs", 5, "save_every_n_epochs=5", False),
        ("epochs", 500, "steps_per_epoch = 500", False),
        ("epochs", 5, "--num-epochs 5", True),
        ("learning_rate", 0.001, "min_lr=1e-3", False),
        ("batch_size_per_gpu", 16, "eval_batch_size=16", False),
        ("grad_accum", 4, "update_freq = 4", True),
        ("learning_rate", 0.5, "optimizer = SGD(params, lr=.5)", True),
        ("max_steps", 100000, "max_steps = 100_000", True),
        ("max_steps", 100000, "max_steps = 1e5", True),
        ("batch_size_per_gpu", 16, "--per_device_train_batch_size 16", True),
        ("optimizer", "AdamW", "opt = torch.optim.AdamW(net.parameters())", True),
        ("optimizer", "Adam", "opt = build(net)", False),
        ("framework", "jax", "import jax.numpy as jnp", True),
        ("framework", "jax", "import numpy", False),
        ("precision", "bf16", "with autocast(dtype=torch.bfloat16):", True),
        ("precision", "fp8", "with autocast(dtype=torch.bfloat16):", False),
        ("precision", "bf16", "parser.add_argument('--mixed', choices=['fp16', 'bf16'])", False),
        ("dataset", "squad", "raw = load_dataset('squad', split='train')", True),
        ("dataset", "squad", "data_name='squad'", True),
        ("dataset", "squad", "model_name='squad'", False),
        ("dataset", "SquadDataset", "train_data = SquadDataset(args)", False),
        ("dataset", "runs", "data_output_path='/scratch/runs'", False),
        ("dataset", "train.py", "data='train.py'", False),
        ("model", "BertModel", "net = BertModel(config)", True),
        ("model", "gpt2-xl", "parser.add_argument('--model-name', default='gpt2-xl')", True),
        ("model", "squad", "data = load('squad')", False),
        ("optimizer", "the optimizer", "the optimizer = 3", False),
        ("task", "image-classification", "criterion for classifying leaves", True),
    ],
)
def test_a_value_counts_where_it_stands_behind_its_name(name: str, value: object, line: str, holds: bool) -> None:
    question = questions()[name]
    said = checked_value(question, str(value))
    if said is None:
        assert not holds
        return
    reason, found = backing(question, said, 1, [Line("a.py", 7, line, python=True)])
    assert (reason == "") is holds, reason
    assert (found is not None and found.number == 7) is holds


@pytest.mark.parametrize("said", ["", "null", "unknown", "0", "-3", "1e309", "nan", "inf", "9" * 5000, "٣", "ten"])
def test_what_is_no_count_is_no_answer(said: str) -> None:
    assert checked_value(questions()["epochs"], said) is None or said == "٣"


def test_lines_that_run_come_first_and_all_is_bounded(tmp_path: Path) -> None:
    dead = "\n".join(f"def unused_{i}():\n    epochs = {i}\n" for i in range(300))
    (tmp_path / "train.py").write_text(f"{dead}\nimport torch\nepochs = int(open('n').read() or 77)\n")
    opened = open_again(Submission("python train.py", tmp_path))
    assert opened is not None and opened.followed
    found = excerpts(opened, "python train.py", list(questions().values()), [])
    assert any("77" in line.text for line in found)
    assert not any("epochs = 3" in line.text for line in found), "what is never called says nothing"
    assert sum(len(line.text) for line in found) <= MOST_CHARS


def test_every_line_stands_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n\n\nlr = 0.1  # high\nmodel = Net()\n")
    opened = open_again(Submission("python train.py --lr 3", tmp_path))
    assert opened is not None
    rows = (tmp_path / "train.py").read_text().splitlines()
    for line in excerpts(opened, "python train.py --lr 3", list(questions().values()), []):
        assert line.file == "launch" or line.text in rows[line.number - 1]
