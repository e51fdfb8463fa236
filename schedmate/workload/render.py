"""Templates to text: source trees and launch commands."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from schedmate.workload.catalog import TEMPLATES
from schedmate.workload.notebook import notebook_json
from schedmate.workload.project import Project
from schedmate.workload.sessions import Overrides

_CLASSES = {"imagenet": 1000, "cifar10": 10, "cifar100": 100, "food101": 101, "cityscapes": 19, "voc2012": 21}
_COLUMNS = {"squad": ["question", "context"], "mnli": ["premise", "hypothesis"], "cnn_dailymail": ["article"]}
_AUTO = {"squad": "AutoModelForQuestionAnswering", "cnn_dailymail": "AutoModelForSeq2SeqLM"}
_KERAS = {"efficientnet_b0": "EfficientNetB0", "mobilenet_v2": "MobileNetV2", "densenet121": "DenseNet121"}
_SCRIPT_NAMES = ("run.sh", "train.sh", "scripts/train.sh")
_BATCH_NAMES = ("job.sbatch", "train.slurm", "slurm/train.sbatch")
_SUFFIX = ".j2"


@cache
def environment() -> Environment:
    """The template environment; an undefined name is an error. Output is text files, never HTML, hence no escaping."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )


@cache
def _inline(text: str) -> Any:
    return environment().from_string(text)


def render(text: str, **values: Any) -> str:
    """Render a short template given as text."""
    return str(_inline(text).render(**values))


def context(project: Project) -> dict[str, Any]:
    """What every template of a tree may use: ``hp`` is what is run, ``d`` what the program has as defaults."""
    return {
        "name": project.name,
        "user": project.user.name,
        "version": project.version,
        "model": project.model,
        "dataset": project.dataset,
        "hp": project.hyper,
        "d": project.written,
        "pinned": project.pinned,
        "workers": project.workers,
        "gpus": project.gpus,
        "nodes": project.nodes,
        "gpus_per_node": project.gpus_per_node,
        "precision": project.precision,
        "optimizer": project.optimizer,
        "word": project.words,
        "q": project.quirks,
        "dead": project.dead,
        "dead_options": project.dead_options,
        "variant": project.launch_variant,
        "classes": _CLASSES.get(project.dataset, 1000),
        "columns": _COLUMNS.get(project.dataset, ["text"]),
        "auto_class": _AUTO.get(project.dataset, "AutoModelForSequenceClassification"),
        "keras_class": _KERAS.get(project.model.name, ""),
        "torch_launcher": _torchrun(project),
        "srun_launcher": _srun(project),
    }


def script_name(project: Project) -> str | None:
    """The file that launches the project, where there is one."""
    if project.style.batch_file:
        return project.style.batch_file
    if project.launcher == "direct":
        return None
    names = _SCRIPT_NAMES if project.launcher == "script" else _BATCH_NAMES
    return names[project.launch_variant]


def command_of(project: Project, overrides: Overrides, limit_s: float, *, evaluation: bool = False) -> str:
    """The launch command of one job."""
    values = context(project)
    if evaluation:
        assert project.style.evaluation is not None
        return _one_line(render(project.style.evaluation, **values))
    script = script_name(project)
    words = _options(project, overrides)
    if script is None:
        program = render(project.style.program, **values)
        return _one_line(f"{program} {_options(project, {**_pins(project), **overrides})}")
    if project.launcher == "script":
        return _one_line(f"bash {script} {words}")
    batch = f"sbatch --time={_clock(limit_s)} {script}"
    return _one_line(f"{words} {batch}" if project.style.options_before else f"{batch} {words}")


def tree_files(project: Project) -> dict[str, str]:
    """The files of a project's tree, by relative path; a template that renders to nothing is no file."""
    values = context(project)
    found: dict[str, str] = {}
    for path in _templates(project.style.folder):
        inner = path.relative_to(project.style.folder).as_posix().removesuffix(_SUFFIX)
        _add(found, _file_name(project, inner), path, values)
    script = script_name(project)
    if script and not project.style.batch_file:
        common = TEMPLATES / "common" / ("run.sh.j2" if project.launcher == "script" else "job.sbatch.j2")
        _add(found, script, common, {**values, **_launch_values(project)})
    for path in _templates(TEMPLATES / "common" / "always"):
        _add(found, path.name.removesuffix(_SUFFIX), path, values)
    return found


def _file_name(project: Project, name: str) -> str:
    """The name of a file; parts between double underscores are the project's."""
    for part, value in {
        "name": project.name,
        "module": project.name.replace("-", "_"),
        "model": project.model.slug,
        "dataset": project.dataset,
        "optimizer": project.optimizer,
        "config": project.words.get("config", ""),
    }.items():
        name = name.replace(f"__{part}__", value)
    return name


def _add(found: dict[str, str], name: str, path: Path, values: Mapping[str, Any]) -> None:
    text = environment().get_template(path.relative_to(TEMPLATES).as_posix()).render(**values)
    if text.strip():
        found[name] = notebook_json(text) if name.endswith(".ipynb") else text


@cache
def _templates(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(folder.rglob(f"*{_SUFFIX}")))


def _pins(project: Project) -> Overrides:
    """What the launcher sets, where the style lets it."""
    if project.style.pins != "command":
        return {}
    return {key: str(getattr(project.hyper, key)) for key in project.pinned}


def _options(project: Project, values: Overrides) -> str:
    options = project.style.options
    return " ".join(
        render(options[key], value=value, word=project.words) for key, value in values.items() if key in options
    )


def _launch_values(project: Project) -> dict[str, Any]:
    """What launch scripts use: the command without options, and the pinned options as words or as variables."""
    pins = _pins(project)
    options = project.style.options
    return {
        "program": _one_line(render(project.style.program, **context(project))),
        "pins": [
            {
                "variable": key.upper(),
                "value": value,
                "word": render(options[key], value=value, word=project.words),
                "variable_word": render(options[key], value=f"${key.upper()}", word=project.words),
            }
            for key, value in pins.items()
        ],
    }


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _clock(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:00"


def _torchrun(project: Project) -> str:
    if project.gpus == 1:
        return "python"
    if project.nodes == 1:
        return f"torchrun --standalone --nproc_per_node={project.gpus}"
    where = f"--nnodes={project.nodes} --nproc_per_node={project.gpus_per_node}"
    return f"srun --ntasks-per-node=1 torchrun {where} --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:29500"


def _srun(project: Project) -> str:
    if project.nodes == 1:
        return "python"
    return f"srun --nodes={project.nodes} --ntasks-per-node={project.gpus_per_node} python"
