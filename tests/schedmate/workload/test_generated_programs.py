"""Generated programs are what they claim: they parse, and what a launch really hands them is what the truth says.

Launch scripts are run by a real bash whose programs only print their words; Python entry points are not run (their
libraries are not here), but their own parsers and configuration files are evaluated.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from schedmate.workload import Generated, SemanticGenerator, WorkloadSpec
from schedmate.workload.catalog import styles
from schedmate.workload.sessions import Draft

SPEC = WorkloadSpec(seed=5, jobs=700, users=90)
GENERATOR = SemanticGenerator(SPEC)
_PROGRAMS = ("python", "torchrun", "srun", "papermill", "deepspeed")
_SILENT = ("module", "conda", "scontrol", "nvidia-smi", "hostname")
_MARK = "LAUNCHED"
Job = Generated[Draft]


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    return list(GENERATOR.jobs())


@pytest.fixture(scope="module")
def one_of_each_launch(jobs: list[Job]) -> list[Job]:
    """Jobs that between them show every style with every launcher, kind of job and pinned option."""
    found: dict[tuple[Any, ...], Job] = {}
    for job in jobs:
        project = job.recipe.project
        key = (job.truth.style, project.launcher, job.truth.kind, project.pinned, tuple(job.recipe.overrides))
        found.setdefault(key, job)
    return list(found.values())


@pytest.fixture(scope="module")
def trees(jobs: list[Job]) -> dict[str, tuple[Job, Mapping[str, str]]]:
    first = {job.ask.tree: job for job in reversed(jobs)}
    return {name: (job, GENERATOR.tree(job)) for name, job in first.items()}


def test_all_styles_occur(jobs: list[Job]) -> None:
    assert {job.truth.style for job in jobs} == set(styles())
    assert len(styles()) >= 8
    assert {job.recipe.project.launcher for job in jobs} == {"direct", "script", "sbatch"}


def test_every_file_is_readable(trees: dict[str, tuple[Job, Mapping[str, str]]]) -> None:
    for _, files in trees.values():
        for name, text in files.items():
            assert "{{" not in text and "{%" not in text, name
            for source in _sources(name, text):
                ast.parse(source, name)
            if name.endswith((".yaml", ".yml")):
                assert isinstance(yaml.safe_load(text), dict)
            elif name.endswith(".json"):
                assert isinstance(json.loads(text), dict)


def test_every_shell_script_parses(trees: dict[str, tuple[Job, Mapping[str, str]]]) -> None:
    scripts = {
        text
        for _, files in trees.values()
        for name, text in files.items()
        if name.endswith((".sh", ".sbatch", ".slurm"))
    }
    assert len(scripts) > 30
    for text in scripts:
        done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
        assert done.returncode == 0 and not done.stderr, done.stderr


def test_local_modules_that_are_imported_are_there(trees: dict[str, tuple[Job, Mapping[str, str]]]) -> None:
    """Helper modules are imported by name; an import of a module that no library has must be a file of the tree."""
    local = {"data", "engine", "config", "build", "src", "scores", "module", "datamodule", "train", "model", "pipeline"}
    local |= {"instructions", "data_provider", "helpers", "read", "configs"}
    for _, files in trees.values():
        modules = {name.split("/")[-1].removesuffix(".py") for name in files} | {name.split("/")[0] for name in files}
        for name, text in files.items():
            for source in _sources(name, text):
                for node in ast.walk(ast.parse(source)):
                    wanted = [node.module] if isinstance(node, ast.ImportFrom) else []
                    wanted += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                    for module in wanted:
                        assert module.split(".")[0] not in local or module.split(".")[-1] in modules, (name, module)


def test_launches_hand_their_programs_what_the_truth_says(one_of_each_launch: list[Job], tmp_path: Path) -> None:
    stubs = _stubs(tmp_path / "bin")
    checked = 0
    for number, job in enumerate(one_of_each_launch):
        folder = tmp_path / str(number)
        for name, text in GENERATOR.tree(job).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        words = _launched(job.ask.command, folder, stubs)
        if job.truth.kind == "evaluation":
            entry = next(word for word in words if word.endswith(".py"))
            assert (folder / entry).is_file()
            continue
        told = _READERS[job.truth.style](folder, words)
        hyper = job.recipe.hyper
        assert told["batch"] == hyper.batch, job.ask.command
        assert told["lr"] == pytest.approx(float(hyper.lr)), job.ask.command
        assert told["seed"] == hyper.seed, job.ask.command
        if hyper.max_steps is not None:
            assert told["max_steps"] == hyper.max_steps, job.ask.command
        else:
            assert told["epochs"] == hyper.epochs, job.ask.command
            assert not told.get("max_steps") or told["max_steps"] < 0
        if "gpus" in told:
            assert told["gpus"] == job.ask.gpus, job.ask.command
        checked += 1
    assert checked > 150


def test_batch_scripts_ask_for_what_the_job_asks_for(trees: dict[str, tuple[Job, Mapping[str, str]]]) -> None:
    seen = 0
    for job, files in trees.values():
        for name, text in files.items():
            if name.endswith((".sbatch", ".slurm")) and job.truth.kind != "evaluation":
                nodes = int(re.search(r"^#SBATCH --nodes=(\d+)$", text, re.MULTILINE).group(1))
                per_node = int(re.search(r"^#SBATCH --gpus-per-node=(\d+)$", text, re.MULTILINE).group(1))
                assert (nodes, nodes * per_node) == (job.ask.nodes, job.ask.gpus)
                seen += 1
    assert seen > 20


def test_options_are_read_unless_said_to_be_unread(trees: dict[str, tuple[Job, Mapping[str, str]]]) -> None:
    unread = 0
    for job, files in trees.values():
        entry = files[job.recipe.project.style.entry]
        if "add_argument" not in entry:
            continue
        declared = {option.flag: option.dest for option in job.recipe.project.dead_options}
        for flag, dest in declared.items():
            assert flag in entry and f"args.{dest}" not in entry
            unread += 1
        for dest in _dests(entry) - set(declared.values()) - {"local_rank"}:
            assert f"args.{dest}" in entry, dest
    assert unread > 20


def test_early_stopping_is_in_the_program_that_may_stop_early(trees: dict[str, tuple[Job, Mapping[str, str]]]) -> None:
    words = re.compile(r"EarlyStopping|stopping early|no better for|has not improved")
    for job, files in trees.values():
        assert bool(words.search("".join(files.values()))) == job.truth.facts.get(
            "early_stopping", "early_stopping" in job.recipe.project.quirks
        )


@pytest.mark.parametrize("model", ["matrix_factorisation", "skipgram"])
def test_a_program_that_needs_only_numpy_really_runs(jobs: list[Job], model: str, tmp_path: Path) -> None:
    """With data three steps long it does the steps that the physics counts, and stops where it is told to."""
    job = next(
        j for j in jobs if j.recipe.project.model.name == model and not j.recipe.project.quirks & {"early_stopping"}
    )
    for name, text in GENERATOR.tree(job).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    batch, rng = 64, np.random.default_rng(0)
    rows = batch * 3 * 10 // 9 + 1
    table = np.stack([rng.integers(0, 20, rows), rng.integers(0, 30, rows), rng.random(rows)], axis=1)
    np.save(tmp_path / "pairs.npy", table)
    words = job.recipe.project.words
    size = [f"--{words['batch']}", str(batch), f"--{words['epochs']}", "40", "--lr", "0.01", "--data", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "fit.py", *size, "--out", "x.npz"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(table) * 9 // 10} pairs, 3 steps per epoch, 40 epochs" in done.stdout
    assert done.stdout.count("held-out") == 40
    losses = [float(x) for x in re.findall(r"held-out ([\d.]+)", done.stdout)]
    assert losses[-1] < losses[0]
    assert "step 1/3" in done.stdout  # step 100 of the run is the first of epoch 34
    done = subprocess.run(
        [sys.executable, "fit.py", *size, "--max-steps", "4"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stdout.count("held-out") == 1


# --- what a launch hands to a program -------------------------------------------------------------------------------


def _sources(name: str, text: str) -> Iterator[str]:
    """The Python in a file."""
    if name.endswith(".py"):
        yield text
    elif name.endswith(".ipynb"):
        for cell in json.loads(text)["cells"]:
            if cell["cell_type"] == "code":
                yield "".join(cell["source"])


def _stubs(folder: Path) -> Path:
    """Programs that print their words and do nothing."""
    folder.mkdir()
    for name in _PROGRAMS:
        (folder / name).write_text(f'#!/bin/bash\nprintf "%s\\0" {_MARK} {name} "$@"\n')
    for name in _SILENT:
        (folder / name).write_text("#!/bin/bash\necho node-1\n")
    (folder / "sbatch").write_text('#!/bin/bash\n[[ $1 == --time=*:*:00 ]] || exit 9\nshift\nexec bash "$@"\n')
    for path in folder.iterdir():
        path.chmod(0o755)
    return folder


def _launched(command: str, folder: Path, stubs: Path) -> list[str]:
    """The words of the program that a command starts in the end."""
    script = f"source() {{ :; }}; export -f source; {command}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PATH": f"{stubs}:{os.environ['PATH']}", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_ID": "7", "HOME": "/"},
    )
    assert done.returncode == 0, (command, done.stderr)
    started = done.stdout.split(f"{_MARK}\0")[1:]
    assert len(started) == 1, (command, done.stdout)
    return started[0].split("\0")[:-1]


def _after(words: list[str], entry: str) -> list[str]:
    return words[words.index(entry) + 1 :]


def _gpus(words: list[str]) -> int:
    """Processes that the launcher starts, one per GPU."""
    text = " ".join(words)

    def number(pattern: str) -> int:
        found = re.search(pattern, text)
        return int(found.group(1)) if found else 1

    return number(r"--n(?:nodes|um_nodes)[= ](\d+)") * number(r"--n(?:proc_per_node|um_gpus)[= ](\d+)")


def _parser(source: str) -> argparse.ArgumentParser:
    """The program's own parser, rebuilt from its ``add_argument`` calls and module constants."""
    names: dict[str, Any] = {"int": int, "float": float, "str": str}
    parser = argparse.ArgumentParser(exit_on_error=False)
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.targets[0], ast.Name)
        ):
            names[node.targets[0].id] = node.value.value
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            args = [ast.literal_eval(arg) for arg in node.args]
            kwargs = {k.arg: eval(ast.unparse(k.value), {}, names) for k in node.keywords}
            parser.add_argument(*args, **kwargs)
    return parser


def _dests(source: str) -> set[str]:
    return {action.dest for action in _parser(source)._actions if action.dest != "help"}


def _argparse(folder: Path, words: list[str]) -> dict[str, Any]:
    entry = next(word for word in words if word.endswith(".py"))
    told = vars(_parser((folder / entry).read_text()).parse_args(_after(words, entry)))
    batch = told.get("batch_size", told.get("batch"))
    return {**told, "batch": batch, "gpus": _gpus(words)}


def _only(told: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name not in names}


def _lightning(folder: Path, words: list[str]) -> dict[str, Any]:
    told = _argparse(folder, words)
    told |= {"epochs": told["max_epochs"], "max_steps": told["limit_train_batches"]}
    source = (folder / "train.py").read_text()
    devices, nodes = (int(re.search(rf"{name}=(\d+)", source).group(1)) for name in ("devices", "num_nodes"))
    return {**told, "gpus": devices * nodes}


def _keras(folder: Path, words: list[str]) -> dict[str, Any]:
    told = _only(_argparse(folder, words), "gpus")
    return {**told, "max_steps": told["steps_per_epoch"]}


def _array(folder: Path, words: list[str]) -> dict[str, Any]:
    return _only(_argparse(folder, words), "gpus")


def _yaml_config(folder: Path, words: list[str]) -> dict[str, Any]:
    told = _argparse(folder, words)
    spec = importlib.util.spec_from_file_location("generated_config", folder / "tools/config.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)  # the program's own reader: it needs nothing but PyYAML
    cfg = module.load(str(folder / told["config"]), told["set"])
    train = cfg["train"]
    return {
        "batch": cfg["data"]["batch_size"],
        "lr": float(cfg["optim"]["lr"]),
        "epochs": train["epochs"],
        "max_steps": train["max_steps"],
        "seed": train["seed"],
        "gpus": told["gpus"],
    }


def _merge(base: dict[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in other.items():
        base[key] = _merge(base.get(key) or {}, value) if isinstance(value, dict) else value
    return base


def _hydra(folder: Path, words: list[str]) -> dict[str, Any]:
    """Hydra's rules as far as these trees need them: defaults, the experiment on top, then the command line."""
    conf = folder / "conf"
    root = yaml.safe_load((conf / "config.yaml").read_text())
    cfg: dict[str, Any] = {}
    for item in root.pop("defaults"):
        if isinstance(item, dict):
            ((group, choice),) = item.items()
            cfg[group] = yaml.safe_load((conf / group / f"{choice}.yaml").read_text())
    _merge(cfg, root)
    rest = _after(words, "main.py")
    (experiment,) = [word for word in rest if word.startswith("+experiment=")]
    _merge(cfg, yaml.safe_load((conf / "experiment" / f"{experiment.partition('=')[2]}.yaml").read_text()))
    for word in rest:
        key, _, raw = word.partition("=")
        if not key.startswith("+"):
            *parents, leaf = key.split(".")
            node = cfg
            for name in parents:
                node = node[name]
            assert leaf in node, f"{word}: no such key"  # Hydra refuses what the configuration does not have
            node[leaf] = yaml.safe_load(raw)
    source = (folder / "main.py").read_text() + (folder / "src/data.py").read_text()
    (epochs,) = set(re.findall(r"cfg\.trainer\.(\w*epochs)\b", source))
    (batch,) = set(re.findall(r"batch_size=cfg\.(\w+)", source))
    return {
        "batch": cfg["data"][batch],
        "lr": float(cfg["optim"]["lr"]),
        "epochs": cfg["trainer"][epochs],
        "max_steps": cfg["trainer"]["limit_steps"],
        "seed": cfg["seed"],
        "gpus": _gpus(words),
    }


def _hf(folder: Path, words: list[str]) -> dict[str, Any]:
    """Fields of the program's dataclasses are its options; the rest are Hugging Face's own."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    for node in ast.walk(ast.parse((folder / "run.py").read_text())):
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
            default = next(ast.literal_eval(k.value) for k in node.value.keywords if k.arg == "default")
            parser.add_argument(f"--{node.target.id}", default=default, type=type(default))
    for flag in ("--do_train", "--do_eval", "--bf16", "--fp16"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--max_steps", type=int, default=-1)
    told = vars(parser.parse_args(_after(words, "run.py")))
    return {
        "batch": told["per_device_train_batch_size"],
        "lr": float(told["learning_rate"]),
        "epochs": told["num_train_epochs"],
        "max_steps": told["max_steps"],
        "seed": told["seed"],
        "gpus": _gpus(words),
    }


def _jax_flags(folder: Path, words: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(exit_on_error=False)
    kinds = {"DEFINE_integer": int, "DEFINE_float": float, "DEFINE_string": str}
    for node in ast.walk(ast.parse((folder / "main.py").read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in kinds:
            name, default = (ast.literal_eval(arg) for arg in node.args[:2])
            parser.add_argument(f"--{name}", default=default, type=kinds[node.func.attr])
    told = vars(parser.parse_args(_after(words, "main.py")))
    return {
        "batch": told["per_device_batch_size"],
        "lr": told["learning_rate"],
        "max_steps": told["num_train_steps"],
        "seed": told["seed"],
    }


def _jax_config(folder: Path, words: list[str]) -> dict[str, Any]:
    rest = dict(word.removeprefix("--").split("=", 1) for word in _after(words, "main.py"))
    fake = types.ModuleType("ml_collections")
    fake.ConfigDict = types.SimpleNamespace  # type: ignore[attr-defined]
    default: dict[str, Any] = {"__name__": "default"}
    names = {"ml_collections": fake, "configs": types.ModuleType("configs")}
    before = {name: sys.modules.get(name) for name in names}
    try:
        sys.modules.update(names)
        exec((folder / "configs/default.py").read_text(), default)
        names["configs"].default = types.SimpleNamespace(**default)  # type: ignore[attr-defined]
        chosen: dict[str, Any] = {"__name__": "chosen"}
        exec((folder / rest["config"]).read_text(), chosen)
        config = vars(chosen["get_config"]())
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module
    for key, value in rest.items():
        if key.startswith("config."):
            assert key.removeprefix("config.") in config
            config[key.removeprefix("config.")] = yaml.safe_load(value)
    return {
        "batch": config["per_device_batch_size"],
        "lr": float(config["learning_rate"]),
        "max_steps": config["num_train_steps"],
        "seed": config["seed"],
    }


def _deepspeed(folder: Path, words: list[str]) -> dict[str, Any]:
    parser = _parser((folder / "finetune.py").read_text())
    parser.add_argument("--deepspeed", action="store_true")
    parser.add_argument("--deepspeed_config")
    told = vars(parser.parse_args(_after(words, "finetune.py")))
    body = json.loads((folder / told["deepspeed_config"]).read_text())
    return {**told, "batch": body["train_micro_batch_size_per_gpu"], "gpus": _gpus(words)}


def _megatron(folder: Path, words: list[str]) -> dict[str, Any]:
    rest = _after(words, "pretrain_gpt.py")
    told = dict(pairwise(rest))
    micro, whole, gpus = int(told["--micro-batch-size"]), int(told["--global-batch-size"]), _gpus(words)
    assert whole % (micro * gpus) == 0
    return {
        "batch": micro,
        "lr": float(told["--lr"]),
        "max_steps": int(told["--train-iters"]),
        "seed": int(told["--seed"]),
        "gpus": gpus,
    }


def _notebook(folder: Path, words: list[str]) -> dict[str, Any]:
    cells = json.loads((folder / words[1]).read_text())["cells"]
    (parameters,) = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    told: dict[str, Any] = {}
    exec("".join(parameters["source"]), told)
    for flag, name, value in zip(words, words[1:], words[2:], strict=False):
        if flag == "-p":
            assert name in told, f"{name}: papermill warns of parameters that the notebook does not have"
            told[name] = yaml.safe_load(value)
    (epochs,) = {name for name in ("epochs", "n_epochs", "EPOCHS") if name in told}
    return {**told, "batch": told["batch_size"], "epochs": told[epochs], "lr": float(told["lr"])}


_READERS = {
    "raw_argparse": _argparse,
    "lightning": _lightning,
    "keras_fit": _keras,
    "array_script": _array,
    "yaml_config": _yaml_config,
    "hydra": _hydra,
    "hf_trainer": _hf,
    "jax_flax": _jax_flags,
    "jax_config": _jax_config,
    "deepspeed_json": _deepspeed,
    "megatron_sbatch": _megatron,
    "notebook": _notebook,
}
assert set(_READERS) == set(styles()), "a new style needs a reader here"
