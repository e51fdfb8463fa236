"""The truth about each program is what it does: it is launched, its words are caught, and it is run to its end.

The libraries are stand-ins that remember how they were called; shells, makefiles and parsers are real.
"""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from schedmate.workload import Generated, WorkloadSpec
from schedmate.workload_independent import IndependentGenerator
from schedmate.workload_independent.settings import Draft
from schedmate.workload_independent.styles import STYLES

from .conftest import Launched, Run, config_of, run_program

PER_STYLE = 5
MOST_STEPS = 400
GENERATOR = IndependentGenerator(WorkloadSpec(seed=11, jobs=4_000, users=300))


def _chosen() -> list[Generated[Draft]]:
    """A few jobs of each style, of different projects, with different launches before others."""
    found, seen, count = [], set(), Counter[str]()
    for job in GENERATOR.jobs():
        style, project = job.truth.style, job.recipe.project.key
        run = job.recipe.run
        if style not in STYLES or count[style] >= PER_STYLE or project in seen or (run.steps or 0) > 20_000:
            continue
        if style == "toml_profiles" and (run.steps or 0) > MOST_STEPS:
            continue
        seen.add(project)
        count[style] += 1
        found.append(job)
    return found


JOBS = _chosen()


def _torch(launched: Launched, job: Generated[Draft]) -> dict[str, Any]:
    return _of_loop(run_program(launched, job.ask.gpus), job)


def _of_loop(run: Run, job: Generated[Draft]) -> dict[str, Any]:
    words, named, loader = run.called("DataLoader")[0]
    rates = [n["lr"] for ending in ("SGD", "AdamW", "Adam") for _, n, _ in run.called("optim." + ending)]
    parallel = run.called("nn.DataParallel")
    told = {
        "batch_size_per_gpu": (named.get("batch_size") or words[1]) // (job.ask.gpus if parallel else 1),
        "learning_rate": rates[0],
    }
    if job.recipe.run.steps:
        return told | {"max_steps": loader.iterated}
    return told | {"epochs": loader.iterated}


def _notebook(launched: Launched, job: Generated[Draft]) -> dict[str, Any]:
    book = launched.folder / launched.argv[launched.script]
    cells = json.loads(book.read_text())["cells"]
    sets = [launched.argv[i + 1 : i + 3] for i, word in enumerate(launched.argv) if word == "-p"]
    text = []
    for cell in cells:
        if cell["cell_type"] == "code":
            text += [line for line in "".join(cell["source"]).splitlines() if not line.startswith(("%", "!"))]
            if "tags" in cell["metadata"]:
                text += [f"{name} = {value}" for name, value in sets]
    (launched.folder / "as_program.py").write_text("\n".join(text))
    return _torch(Launched(["python", "as_program.py"], launched.env, launched.folder), job)


def _keras(launched: Launched, job: Generated[Draft]) -> dict[str, Any]:
    known: dict[str, Any] = {"tensorflow.distribute.MirroredStrategy().num_replicas_in_sync": job.ask.gpus}
    for name in ("cifar10", "cifar100"):
        known[f"tensorflow.keras.datasets.{name}.load_data"] = lambda: ((0, 0), (0, 0))
    run = run_program(launched, job.ask.gpus, known)
    batches = [w[0] for w, _, _ in run.called(".batch")] + [
        n["batch_size"] for _, n, _ in run.called("_from_directory")
    ]
    rate = (run.called("optimizers.SGD") or run.called("optimizers.Adam"))[0][0][0]
    stops = run.called("EarlyStopping")
    return {
        "global_batch_size": batches[0],
        "batch_size_per_gpu": batches[0] // job.ask.gpus,
        "learning_rate": rate,
        "epochs": run.called(".fit")[0][1]["epochs"],
        "early_stopping": bool(stops),
    }


def _flax(launched: Launched, job: Generated[Draft]) -> dict[str, Any]:
    file = launched.option("config")
    assert file
    config = config_of(launched, file)
    known = {
        "absl.flags.FLAGS.config": config,
        "absl.app.run": lambda main: main(None),
        "jax.device_count": lambda: job.ask.gpus,
    }
    run = run_program(launched, job.ask.gpus, known)
    _, peak, _, total = run.called("warmup_cosine_decay_schedule")[0][0]
    assert total == job.truth.steps_planned
    told = {
        "global_batch_size": config.batch,
        "batch_size_per_gpu": config.batch // job.ask.gpus,
        "learning_rate": peak,
    }
    return told | ({"max_steps": config.steps} if hasattr(config, "steps") else {"epochs": config.epochs})


def _pairs(launched: Launched, names: dict[str, str], stands: dict[str, Any]) -> dict[str, Any]:
    """Values of options, or else of a file."""
    found = {}
    for fact, name in names.items():
        value = launched.option(name)
        value = stands.get(name) if value is None else yaml.safe_load(value)
        if value is not None:
            found[fact] = float(value) if fact == "learning_rate" else value
    return found


_HF = {
    "batch_size_per_gpu": "per_device_train_batch_size",
    "grad_accum": "gradient_accumulation_steps",
    "learning_rate": "learning_rate",
    "epochs": "num_train_epochs",
    "max_steps": "max_steps",
}


def _hf(launched: Launched, job: Generated[Draft]) -> dict[str, Any]:
    words = launched.argv[launched.script + 1 :]
    stands = json.loads((launched.folder / words[0]).read_text()) if words[0].endswith(".json") else {}
    told = _pairs(launched, _HF, stands)
    if "max_steps" in told:
        told.pop("epochs", None)
    half = stands.get("bf16") or "--bf16" in words, stands.get("fp16") or "--fp16" in words
    told["precision"] = "bf16" if half[0] else "amp-fp16" if half[1] else "fp32"
    return told


def _trl(launched: Launched, job: Generated[Draft]) -> dict[str, Any]:
    stands = yaml.safe_load((launched.folder / "recipe.yaml").read_text())
    fleet = yaml.safe_load((launched.folder / "accelerate.yaml").read_text())
    told = _pairs(launched, _HF | {"seq_len": "max_length"}, stands)
    return told | {"num_gpus": launched.ranks or fleet["num_processes"], "num_nodes": fleet["num_machines"]}


def _deepspeed(launched: Launched, job: Generated[Draft]) -> dict[str, Any]:
    with_rest = json.loads((launched.folder / "ds.json").read_text())
    micro = with_rest["train_micro_batch_size_per_gpu"]
    ranks = launched.ranks or 0
    accum = with_rest.get("gradient_accumulation_steps") or with_rest.get("train_batch_size", 0) // micro // ranks
    text = next(path for path in launched.folder.glob("*.py") if path.name in launched.argv).read_text()
    word = job.recipe.project.words["steps"]
    said = launched.option(word) or text.split(f'"--{word}", type=int, default=')[1].split(",")[0]
    return {
        "batch_size_per_gpu": micro,
        "grad_accum": accum,
        "learning_rate": with_rest["optimizer"]["params"]["lr"],
        "max_steps": int(said),
        "precision": "bf16" if "bf16" in with_rest else "amp-fp16",
    }


def _megatron(launched: Launched, job: Generated[Draft]) -> dict[str, Any]:
    names = {
        "batch_size_per_gpu": "micro-batch-size",
        "learning_rate": "lr",
        "max_steps": "train-iters",
        "seq_len": "seq-length",
    }
    told = _pairs(launched, names | {"global_batch_size": "global-batch-size"}, {})
    nodes = int(launched.argv[1].removeprefix("--nnodes="))
    return told | {"num_nodes": nodes, "num_gpus": nodes * (launched.ranks or 0)}


def _merged(low: dict[str, Any], high: dict[str, Any]) -> dict[str, Any]:
    both = dict(low)
    for name, value in high.items():
        both[name] = (
            _merged(both[name], value) if isinstance(value, dict) and isinstance(both.get(name), dict) else value
        )
    return both


def _mm(launched: Launched, job: Generated[Draft]) -> dict[str, Any]:
    file = launched.folder / launched.argv[launched.script + 1]
    own: dict[str, Any] = {}
    exec(file.read_text(), own)
    config: dict[str, Any] = {}
    for base in own["_base_"]:
        part: dict[str, Any] = {}
        exec((file.parent / base).read_text(), part)
        config |= part
    config = _merged(config, own)
    names = {
        "batch_size_per_gpu": "train_dataloader.batch_size",
        "epochs": "train_cfg.max_epochs",
        "learning_rate": "optim_wrapper.optimizer.lr",
    }
    told = {}
    for fact, path in names.items():
        value: Any = config
        for part_name in path.split("."):
            value = value[part_name]
        given = launched.option(path)
        told[fact] = value if given is None else yaml.safe_load(given)
    return told | {"precision": "amp-fp16" if "--amp" in launched.argv else "fp32", "num_gpus": launched.ranks or 1}


def _hydra(launched: Launched, job: Generated[Draft]) -> dict[str, Any]:
    words = job.recipe.project.words
    conf = launched.folder / "conf"
    top = yaml.safe_load((conf / "config.yaml").read_text())
    config: dict[str, Any] = {}
    for entry in top.pop("defaults"):
        if isinstance(entry, dict):
            ((group, name),) = entry.items()
            config[group] = yaml.safe_load((conf / group / f"{name}.yaml").read_text())
    config = _merged(config, top)
    told = {}
    for fact, group, name in (
        ("batch_size_per_gpu", "data", words["batch"]),
        ("epochs", "trainer", words["epochs"]),
        ("learning_rate", "optim", "lr"),
    ):
        given = launched.option(f"{group}.{name}")
        told[fact] = config[group][name] if given is None else yaml.safe_load(given)
    told["learning_rate"] = float(told["learning_rate"]) if not job.recipe.run.runs else None
    return told


def _lightning(launched: Launched, job: Generated[Draft]) -> dict[str, Any]:
    words, file = job.recipe.project.words, launched.option("config")
    assert file
    config = yaml.safe_load((launched.folder / file).read_text())
    flat = {f"{group}.{name}": value for group in ("trainer", "model", "data") for name, value in config[group].items()}
    told = _pairs(
        launched,
        {
            "epochs": "trainer.max_epochs",
            "grad_accum": "trainer.accumulate_grad_batches",
            "batch_size_per_gpu": f"data.{words['batch']}",
            "learning_rate": f"model.{words['rate'].lower()}",
        },
        flat,
    )
    trainer = config["trainer"]
    return told | {
        "num_gpus": trainer["devices"] * trainer["num_nodes"],
        "num_nodes": trainer["num_nodes"],
        "early_stopping": "callbacks" in trainer,
    }


READERS: dict[str, Callable[[Launched, Generated[Draft]], dict[str, Any]]] = {
    "positional": _torch,
    "environment": _torch,
    "options": _torch,
    "nested_yaml": _torch,
    "toml_profiles": _torch,
    "makefile": _torch,
    "sbatch_array": _torch,
    "notebook": _notebook,
    "keras": _keras,
    "flax": _flax,
    "hf_trainer": _hf,
    "trl_sft": _trl,
    "deepspeed_json": _deepspeed,
    "megatron_bash": _megatron,
    "mmengine": _mm,
    "hydra": _hydra,
    "lightning_cli": _lightning,
}


def test_every_style_is_tried() -> None:
    assert {job.truth.style for job in JOBS} == set(STYLES) == set(READERS)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job.truth.style}-{job.ask.job_id}")
def test_the_truth_is_what_the_launched_program_does(
    job: Generated[Draft], launch: Callable[[dict[str, str], str], Launched]
) -> None:
    if job.truth.style == "makefile" and shutil.which("make") is None:
        pytest.skip("make is not here")
    launched = launch(dict(GENERATOR.tree(job)), job.ask.command)
    read = READERS[job.truth.style](launched, job)
    told = dict(job.truth.facts)
    assert len(read.keys() & told.keys()) >= (1 if job.recipe.run.runs else 2), (read, told)
    for fact in read.keys() & told.keys():
        assert (
            math.isclose(read[fact], told[fact], rel_tol=1e-6)
            if isinstance(read[fact], int | float)
            else read[fact] == told[fact]
        ), (fact, read[fact], told[fact], job.ask.command, launched.argv)
    if "num_gpus" in told:
        assert told["num_gpus"] in {read.get("num_gpus"), launched.ranks, launched.asked_gpus, _listed(launched, job)}
    if launched.asked_gpus is not None:
        assert launched.asked_gpus == job.ask.gpus and launched.asked_nodes == job.ask.nodes


def _listed(launched: Launched, job: Generated[Draft]) -> int:
    """GPUs that a single process is given or takes."""
    cards = launched.env.get("CUDA_VISIBLE_DEVICES")
    if cards:
        return len(cards.split(","))
    return job.ask.gpus if job.truth.style == "keras" else 1
