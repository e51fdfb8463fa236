"""Launch commands in many spellings, down to the program and what its launchers were told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from analyzers.source.files import Tree
from analyzers.source.idioms.resources import node_count, process_count, visible_devices
from analyzers.source.launch.read import read_launch
from analyzers.source.launch.words import UNKNOWN, Expander

FILES = {"train.py": "", "pkg/__main__.py": "", "tools/run.py": "", "go.sh": 'python train.py "$@"\n'}

#: command -> (entry, arguments, processes, nodes)
CASES = {
    "python train.py --a 1": ("train.py", ["--a", "1"], 1, 1),
    "A=1 nohup python3.11 -u -X dev ./train.py x > log 2>&1 &": ("train.py", ["x"], 1, 1),
    "cd tools && python run.py": ("tools/run.py", [], 1, 1),
    "python -m pkg --b": ("pkg/__main__.py", ["--b"], 1, 1),
    "torchrun --nproc-per-node=8 --nnodes 2 train.py": ("train.py", [], 16, 2),
    "torchrun train.py": ("train.py", [], 1, 1),
    "torchrun --standalone --nproc_per_node gpu train.py": ("train.py", [], None, 1),
    "torchrun --nnodes=1:4 --nproc_per_node=2 train.py": ("train.py", [], None, None),
    "torchrun --nproc_per_node 2 -m pkg y": ("pkg/__main__.py", ["y"], 2, 1),
    "python -m torch.distributed.launch --nproc_per_node=4 --use_env train.py -z": ("train.py", ["-z"], 4, 1),
    "python -m torch.distributed.run --nproc_per_node=4 train.py": ("train.py", [], 4, 1),
    "deepspeed --num_gpus=4 --num_nodes 2 train.py --deepspeed d.json": ("train.py", ["--deepspeed", "d.json"], 8, 2),
    "deepspeed --include localhost:0,2 train.py": ("train.py", [], 2, 1),
    "deepspeed train.py": ("train.py", [], None, 1),
    "accelerate launch --multi_gpu --num_processes 4 train.py": ("train.py", [], 4, 1),
    "accelerate launch -m pkg": ("pkg/__main__.py", [], None, 1),
    "composer -n 8 train.py -n 3": ("train.py", ["-n", "3"], 8, 1),
    "composer train.py": ("train.py", [], None, 1),
    "composer --nproc 4 --world_size 8 --node_rank 0 -m pkg": ("pkg/__main__.py", [], 8, 2),
    "composer -n 4 --world_size=6 train.py": ("train.py", [], None, None),
    "composer -n 2 -c python train.py": ("train.py", [], 2, 1),
    "composer install; python train.py": ("train.py", [], 1, 1),
    "mpirun --allow-run-as-root -np 6 python train.py": ("train.py", [], 6, 1),
    "horovodrun -np 4 -H localhost:4 python train.py": ("train.py", [], 4, 1),
    "srun -N2 --ntasks-per-node=4 --gres=gpu:4 python train.py": ("train.py", [], 8, 2),
    "srun --nodes 2 -n 2 torchrun --nnodes 2 --nproc_per_node 8 train.py": ("train.py", [], 16, 2),
    "sbatch --nodes=3 --wrap x go.sh q": ("train.py", ["q"], 1, 3),
    "bash go.sh 'a b' c": ("train.py", ["a b", "c"], 1, 1),
    "bash -c 'python train.py 1'": ("train.py", ["1"], 1, 1),
    "conda run -n env python train.py": ("train.py", [], 1, 1),
    "docker run --gpus all img torchrun --nproc_per_node 2 train.py": ("train.py", [], 2, 1),
    "uv run train.py": ("train.py", [], 1, 1),
    "timeout 3h python train.py": ("train.py", [], 1, 1),
    "python /somewhere/else/tools/run.py": ("tools/run.py", [], 1, 1),
    "python missing.py": (None, [], 1, 1),
    "pip install -r r.txt; python train.py 1 && echo done": ("train.py", ["1"], 1, 1),
}


@pytest.mark.parametrize("command", CASES)
def test_launch_commands(tmp_path: Path, kit: SimpleNamespace, command: str) -> None:
    entry, arguments, processes, nodes = CASES[command]
    launch = read_launch(command, Tree(kit.grow(tmp_path, FILES)), {})
    counted = node_count(launch)
    assert launch.entry == entry
    assert [word.text for word in launch.arguments] == arguments
    assert (process_count(launch), counted[0] if counted else None) == (processes, nodes)


@pytest.mark.parametrize(
    ("command", "devices"),
    [
        ("CUDA_VISIBLE_DEVICES=1,3 python train.py", 2),
        ("export CUDA_VISIBLE_DEVICES=; python train.py", 0),
        ("env CUDA_VISIBLE_DEVICES=7 python train.py", 1),
        ("python train.py", None),
    ],
)
def test_visible_devices(tmp_path: Path, kit: SimpleNamespace, command: str, devices: int | None) -> None:
    launch = read_launch(command, Tree(kit.grow(tmp_path, FILES)), {})
    assert visible_devices(launch) == devices


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        ("$A/$B", ["x", "y/2"]),
        ('"$A/$B"', ["x y/2"]),
        ("'$A'", ["$A"]),
        ("${C:-d}e", ["de"]),
        ("${B:-d}", ["2"]),
        ("${B:+set}", ["set"]),
        ("$((B * 3 + 1))", ["7"]),
        ("$(( ${B} / 2 ))", ["1"]),
        ("${P##*/}", ["f.tar"]),
        ("${P%.tar}", ["/a/f"]),
        ("${L[@]}", ["p", "q", "r"]),
        ('"${L[@]}"', ["p", "q r"]),
        ("${#L[@]}", ["2"]),
        ("${L[1]}x", ["q", "rx"]),
        ("a\\ b", ["a b"]),
        ("$UNSET", [UNKNOWN]),
        ("$(date)", [UNKNOWN]),
        ("$((1/0))", [UNKNOWN]),
        ("$((9**99999))", [UNKNOWN]),
    ],
)
def test_expansion(raw: str, fields: list[str]) -> None:
    variables: dict[str, str | list[str]] = {"A": "x y", "B": "2", "P": "/a/f.tar", "L": ["p", "q r"]}
    assert Expander(variables, lambda command: None).fields(raw) == fields
